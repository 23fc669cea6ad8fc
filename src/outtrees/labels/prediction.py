"""Labels of new records, each a leaf below one of the records already there."""

from __future__ import annotations

import numpy as np

from outtrees._common.types import Array
from outtrees.labels.model import LabelModel, _powered


def leaf_label_distributions(
    model: LabelModel,
    log_layers: Array,  # (1 or 2, n, T) log p(x | x_v) of the new records
    distributions: Array,  # (T, C) of the labels of the old ones
    log_fresh: Array | None = None,  # (n, C) of the new records, if the model has them
) -> Array:
    """Return P(label) of each new record as a leaf below one of the old ones, (n, C).

        P(c) ∝ Σ_v Σ_b P(y_v = b) p(x, c | x_v, b)

    Every row by itself: the same whatever other rows are there. A record that no old one can have
    as a child says nothing of its label, which then has the marginal. O(n T C).

    Examples
    --------
    >>> model = LabelModel(np.zeros((1, 2, 2)), np.zeros(2), np.array([0.5, 0.5]), 0.8)
    >>> near_first = np.array([[[0.0, -50.0]]])
    >>> leaf_label_distributions(model, near_first, np.eye(2)).round(3).tolist()
    [[0.9, 0.1]]
    """
    log_weights = _powered(log_layers, model.sharpness)
    top = log_weights.max(axis=(0, 2))  # (n,)
    origins = None if log_fresh is None else model.with_options(log_fresh=log_fresh).log_origins
    if origins is not None:
        top = np.maximum(top, origins.max(axis=1))
    top = np.where(np.isneginf(top), 0.0, top)[:, None]
    weights = np.exp(log_weights - top)
    edge = np.exp(model.log_edge)
    if origins is not None:
        mass = model.stickiness * (weights[0] @ distributions)
        possible = (log_weights[0] > -np.inf).sum(axis=1, keepdims=True)
        mass += possible * np.exp(origins - top)
    elif len(weights) == 1:
        mass = weights[0] @ (distributions @ edge.T)
    else:
        stays = np.diag(edge)
        kept = distributions * stays  # (T, C)
        changes = distributions @ (edge - np.diag(stays)).T
        mass = weights[0] @ kept + weights[1] @ changes
    mass[~mass.any(axis=1)] = model.marginal
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))

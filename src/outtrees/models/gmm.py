"""Scikit-learn's Gaussian mixture of independent records, as mutations that ignore the parent."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from outtrees._common.types import Array
from outtrees.models.covariance import column_scales
from outtrees.models.gaussian import GaussianMutation


def fit_iid_components(
    X: Array,  # (T, D)
    templates: Sequence[GaussianMutation],
    *,
    reg_covar: float,
    n_init: int,
    random_state: Any,
) -> tuple[Array, list[GaussianMutation]]:
    """Return the weights and components of a Gaussian mixture fitted to independent records.

    The prior mode of each of the K covariances is the covariance of the data times K^(−2/D).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> weights, parts = fit_iid_components(
    ...     X, [GaussianMutation(transition="zero")] * 2, reg_covar=1e-6, n_init=1, random_state=0
    ... )
    >>> round(float(weights.sum()), 12), len(parts)
    (1.0, 2)
    """
    (T, D), K = X.shape, len(templates)
    kinds = sorted({template.covariance for template in templates})
    if len(kinds) > 1:
        raise ValueError(
            "MixtureMutation expects one covariance option for all components with "
            f"transition='zero', but got {kinds}; choose one."
        )
    if T < K:
        raise ValueError(
            f"MixtureMutation expects at least one record for each of its {K} iid components, but "
            f"X has {T}; use fewer components."
        )
    seed = random_state
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**31))
    # In units of the columns' spread, for k-means, which starts it, compares lengths; but clouds
    # as wide in every column are round in the units given.
    scales = column_scales(X)
    if kinds[0] == "spherical":
        scales = np.full(D, scales.mean())
    spread, centre = np.sqrt(scales), X.mean(axis=0)
    model = GaussianMixture(
        K,
        covariance_type=kinds[0],
        reg_covar=reg_covar,
        n_init=n_init,
        max_iter=200,
        random_state=seed,
    )
    with warnings.catch_warnings():  # refits follow: the start need not be converged
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit((X - centre) / spread)
    parts = []
    for template, place, value in zip(templates, model.means_, model.covariances_, strict=True):
        cov = value if kinds[0] == "full" else np.diag(np.broadcast_to(value, (D,)))
        mean, cov = centre + spread * place, spread[:, None] * cov * spread
        part = template.start(X)
        prior_cov = None if part.prior_cov is None else part.prior_cov * K ** (-2.0 / D)
        part = replace(part, root_mean=mean, root_cov=cov, offset=mean, mutation_cov=cov)
        parts.append(replace(part, prior_cov=prior_cov))
    return model.weights_, parts

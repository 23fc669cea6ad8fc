"""Stacking: the weights of a mixture of models that predict held-out records best."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from outtrees._common.types import Array

# Below this weight a model is left out: its part of every density is lost in rounding of what is
# usually shown, and keeping (or fitting) it would be for nothing.
_LEAST_WEIGHT = 1e-3


class Shares(NamedTuple):
    """How several models are mixed."""

    weights: Array  # (n_models,), of all of them
    kept: NDArray[np.intp]  # those that are mixed
    shares: Array  # (n_kept,), their weights, sum 1


def stacking_shares(
    log_densities: Array,  # (n_models, T), of each record when it was held out
) -> Shares:
    """Return the weights of all models, and the shares of those that weigh enough to be mixed.

    Examples
    --------
    >>> found = stacking_shares(np.log([[0.5, 0.5], [0.1, 0.1], [0.2, 0.9]]))
    >>> found.kept, found.weights[1] < 1e-3
    (array([0, 2]), np.True_)
    """
    weights = stacking_weights(log_densities)
    kept = np.flatnonzero(weights >= _LEAST_WEIGHT)
    return Shares(weights, kept, weights[kept] / weights[kept].sum())


def stacking_weights(log_densities: Array, tol: float = 1e-10) -> Array:
    """Return the weights w ≥ 0, Σ w = 1, that maximise Σ_t log Σ_c w_c exp(log_densities[c, t]).

    By EM from equal weights; the objective is concave, so the limit is the maximum (stacking of
    densities, Smyth and Wolpert 1999).
    """
    log_w = np.full(len(log_densities), -np.log(len(log_densities)))
    last = -np.inf
    for _ in range(10_000):
        joint = log_densities + log_w[:, None]
        value = float(logsumexp(joint, axis=0).mean())
        if value - last <= tol * max(1.0, abs(value)):
            break
        last = value
        with np.errstate(divide="ignore"):  # a weight may reach zero: log 0 = −inf is meant
            log_w = np.log(softmax(joint, axis=0).mean(axis=1))
    return np.asarray(np.exp(log_w))

"""Dirichlet distributions: expected logs, divergence, densities."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln, xlogy

from outtrees._common.types import Array


def expected_logs(counts: Array) -> Array:
    """Return E[log p_k] under Dirichlet(counts), along the first axis.

    Examples
    --------
    >>> expected_logs(np.array([1.0, 1.0]))
    array([-1., -1.])
    """
    return digamma(counts) - digamma(counts.sum(axis=0))


def dirichlet_kl(counts: Array, prior: Array) -> float:
    """Return KL(Dirichlet(counts) ‖ Dirichlet(prior)), summed over columns if there are any."""
    constants = _log_constant(counts) - _log_constant(prior)
    return float(np.sum(constants)) + float(((counts - prior) * expected_logs(counts)).sum())


def dirichlet_log_ratio(p: Array, counts: Array, other: Array) -> float:
    """Return log Dirichlet(p | counts) − log Dirichlet(p | other), summed over columns."""
    constants = _log_constant(counts) - _log_constant(other)
    return float(np.sum(constants)) + float(xlogy(counts - other, p).sum())


def _log_constant(counts: Array) -> Array:
    return gammaln(counts.sum(axis=0)) - gammaln(counts).sum(axis=0)

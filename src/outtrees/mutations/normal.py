"""Gaussian log-densities of all pairs of points and means."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from outtrees.mutations.checks import Array
from outtrees.mutations.covariance import cholesky


def log_normal(
    points: Array,  # (n, D)
    means: Array,  # (m, D)
    cov: Array,  # (D, D)
    name: str = "mutation_cov",
) -> Array:
    """Return log N(point u | mean v, cov), shape (n, m).

    Distances are taken between whitened points, not expanded into products, which would cancel
    for points far from the origin. O((n + m) D² + n m D).

    Examples
    --------
    >>> log_normal(np.zeros((1, 1)), np.array([[0.0], [2.0]]), np.eye(1)) + 0.5 * np.log(2 * np.pi)
    array([[ 0., -2.]])
    """
    factor = cholesky(cov, name)
    log_constant = -0.5 * len(cov) * np.log(2 * np.pi) - np.log(np.diag(factor)).sum()
    # One shift for both: whitening mixes columns, where a common large part would only round.
    shift = means[0]
    white_points = solve_triangular(factor, (points - shift).T, lower=True).T
    white_means = solve_triangular(factor, (means - shift).T, lower=True).T
    return log_constant - 0.5 * cdist(white_points, white_means, "sqeuclidean")

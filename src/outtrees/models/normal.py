"""Gaussian log-densities of points and means, of all pairs or of listed ones."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from outtrees._common.types import Array
from outtrees.models.covariance import cholesky
from outtrees.models.edges import Ints, chunks


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
    log_constant, white_points, white_means = whitened(points, means, cov, name)
    return log_constant - 0.5 * cdist(white_points, white_means, "sqeuclidean")


def log_normal_edges(
    points: Array,  # (n, D)
    means: Array,  # (m, D)
    cov: Array,  # (D, D)
    point: Ints,  # (E,) rows of points
    mean: Ints,  # (E,) rows of means
) -> Array:
    """Return log N(points[point] | means[mean], cov) of listed pairs, (E,). O((n + m) D² + E D).

    Examples
    --------
    >>> points = np.array([[0.0], [1.0]])
    >>> log = log_normal_edges(points, points, np.eye(1), np.array([0, 1]), np.array([1, 1]))
    >>> log + 0.5 * np.log(2 * np.pi)
    array([-0.5,  0. ])
    """
    log_constant, white_points, white_means = whitened(points, means, cov)
    result = np.empty(len(point))
    for rows in chunks(len(point), len(cov)):
        apart = white_points[point[rows]] - white_means[mean[rows]]
        result[rows] = log_constant - 0.5 * np.einsum("ed,ed->e", apart, apart)
    return result


def whitened(
    points: Array,  # (n, D)
    means: Array,  # (m, D)
    cov: Array,  # (D, D)
    name: str = "mutation_cov",
) -> tuple[float, Array, Array]:
    """Return the log-density at no distance, and points and means in units of the noise.

    log N(point | mean, cov) is the first less half the squared distance of the others.
    """
    factor = cholesky(cov, name)
    log_constant = -0.5 * len(cov) * np.log(2 * np.pi) - np.log(np.diag(factor)).sum()
    # One shift for both: whitening mixes columns, where a common large part would only round.
    shift = means[0]
    white_points = solve_triangular(factor, (points - shift).T, lower=True).T
    white_means = solve_triangular(factor, (means - shift).T, lower=True).T
    return float(log_constant), white_points, white_means

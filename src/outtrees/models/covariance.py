"""Covariances of three shapes: their prior, their unconstrained coordinates, their estimate."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve

from outtrees._common.types import Array

COVARIANCES = ("full", "diag", "spherical")


def restrict(matrix: Array, kind: str) -> Array:
    """Return the part of a symmetric matrix that a covariance of this kind responds to.

    For S of that kind tr(S⁻¹ M) = tr(S⁻¹ restrict(M)), so the restricted scatter divided by its
    weight is the exact maximiser of a Gaussian likelihood over covariances of that kind.

    Examples
    --------
    >>> restrict(np.array([[4.0, 1.0], [1.0, 2.0]]), "spherical")
    array([[3., 0.],
           [0., 3.]])
    """
    if kind == "full":
        return (matrix + matrix.T) / 2
    diagonal = np.diag(matrix)
    if kind == "diag":
        return np.diag(diagonal)
    return diagonal.mean() * np.eye(len(matrix))


def cholesky(cov: Array, name: str) -> Array:
    """Return the lower Cholesky factor, or say which covariance is not positive definite."""
    try:
        return np.linalg.cholesky(cov)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"{name} is expected to be positive definite, but it is singular (constant, duplicated "
            "or collinear columns, or identical records); use prior_strength > 0 with "
            "reg_covar > 0, or covariance='diag'."
        ) from error


def inverse(cov: Array, name: str = "mutation_cov") -> Array:
    """Return the inverse of a covariance."""
    return cho_solve((cholesky(cov, name), True), np.eye(len(cov)))


def log_determinant(cov: Array, name: str = "mutation_cov") -> float:
    """Return the log determinant of a covariance."""
    return 2.0 * float(np.log(np.diag(cholesky(cov, name))).sum())


def to_vector(cov: Array, kind: str) -> Array:
    """Return free coordinates: the Cholesky factor by rows, its diagonal in logs.

    Diagonal covariances need only the logs of the D standard deviations, spherical ones a single
    log.
    """
    factor = cholesky(cov, "mutation_cov")
    if kind != "full":
        log_scales = np.log(np.diag(factor))
        return log_scales if kind == "diag" else log_scales[:1]
    coordinates = factor.copy()
    np.fill_diagonal(coordinates, np.log(np.diag(factor)))
    return coordinates[np.tril_indices(len(cov))]


def from_vector(vector: Array, D: int, kind: str) -> Array:
    """Return the covariance with the given free coordinates.

    Examples
    --------
    >>> cov = np.array([[4.0, 1.0], [1.0, 2.0]])
    >>> np.allclose(from_vector(to_vector(cov, "full"), 2, "full"), cov)
    True
    """
    if kind != "full":
        return np.diag(np.exp(2.0 * np.broadcast_to(vector, (D,))))
    factor = np.zeros((D, D))
    factor[np.tril_indices(D)] = vector
    np.fill_diagonal(factor, np.exp(np.diag(factor)))
    return factor @ factor.T


def vector_gradient(cov: Array, kind: str, weight: float, scatter: Array) -> Array:
    """Return the gradient of −weight/2 log|S| − tr(S⁻¹ scatter)/2 in free coordinates."""
    precision = inverse(cov)
    # dJ/dS for symmetric S; with S = LLᵀ the chain rule gives dJ/dL = 2 (dJ/dS) L.
    by_cov = 0.5 * (precision @ ((scatter + scatter.T) / 2) @ precision - weight * precision)
    if kind != "full":
        by_log_scale = 2.0 * np.diag(by_cov) * np.diag(cov)
        return by_log_scale if kind == "diag" else by_log_scale.sum(keepdims=True)
    factor = cholesky(cov, "mutation_cov")
    by_factor = 2.0 * by_cov @ factor
    by_factor[np.diag_indices(len(cov))] *= np.diag(factor)
    return by_factor[np.tril_indices(len(cov))]


def log_prior_cov(cov: Array, prior_cov: Array | None, strength: float) -> float:
    """Return the log prior of a covariance, which is 0 at its mode `prior_cov`.

        −strength/2 · (log|S| − log|S₀| + tr(S₀ S⁻¹) − D)

    This is the log-likelihood of `strength` more residuals of covariance S₀, measured from its
    maximum: an inverse-Wishart density without its constant.

    Examples
    --------
    >>> log_prior_cov(np.eye(2), np.eye(2), 3.0)
    -0.0
    """
    if prior_cov is None or strength == 0:
        return 0.0
    divergence = (
        log_determinant(cov)
        - log_determinant(prior_cov, "prior_cov")
        + float(np.sum(prior_cov * inverse(cov)))
        - len(cov)
    )
    return -0.5 * strength * divergence


def posterior_cov(
    scatter: Array, weight: float, prior_cov: Array | None, strength: float, kind: str
) -> Array:
    """Return the covariance that maximises likelihood times prior.

    It is (scatter + strength · prior_cov) / (weight + strength), restricted to the kind.
    """
    if prior_cov is not None:
        scatter, weight = scatter + strength * prior_cov, weight + strength
    return restrict(scatter / weight, kind)


def column_scales(X: Array) -> Array:
    """Return a positive variance for each column, borrowed from the others where it is constant."""
    variances = X.var(axis=0)
    varying = np.ptp(X, axis=0) > 0  # the variance of a constant can be rounding noise
    typical = variances[varying].mean() if varying.any() else 1.0
    return np.where(varying, variances, typical)


def iid_moments(X: Array, kind: str) -> tuple[Array, Array]:
    """Return mean and maximum-likelihood covariance of independent records."""
    constant = np.ptp(X, axis=0) == 0
    mean = np.where(constant, X[0], X.mean(axis=0))
    deviations = X - mean
    return mean, restrict(deviations.T @ deviations / len(X), kind)


def bandwidth(n_samples: int, n_features: int) -> float:
    """Return T^(−1/(D+4)), the rate at which a Parzen bandwidth shrinks (Scott's rule).

    Examples
    --------
    >>> round(bandwidth(534, 3), 3)
    0.408
    """
    return float(n_samples ** (-1.0 / (n_features + 4)))

"""Independent records with hidden cells: one Gaussian, fitted by EM."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees._common.types import Array


class Given(NamedTuple):
    """Hidden cells given the observed ones of the same record."""

    filled: Array  # (T, D) conditional means; observed cells as they are
    spread: Array  # (T, D, D) F with F Fᵀ the covariance of the hidden cells, zero elsewhere


class Cloud(NamedTuple):
    """A Gaussian fitted to incomplete records."""

    mean: Array  # (D,)
    cov: Array  # (D, D)
    log_likelihood: float  # of the observed cells


def fit_cloud(
    X: ArrayLike,  # (T, D), NaN where hidden
    strength: float = 1.0,
    tol: float = 1e-3,
    max_iter: int = 200,
) -> Cloud:
    """Return the Gaussian that maximises the density of the observed cells times a prior.

    EM: given mean m and covariance C, the hidden cells h of a record with observed cells o have
    mean m_h + C_ho C_oo⁻¹ (o − m_o) and covariance C_hh − C_ho C_oo⁻¹ C_oh; m and C are then the
    moments of the filled records plus these covariances. The prior is `strength` more records
    without correlations: an inverse Wishart whose mode has the columns' variances. O(T D³) for
    each of the steps, which end when no entry of C moves by more than tol variances.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [1.0, 1.1], [2.0, np.nan], [3.0, 2.9]])
    >>> cloud = fit_cloud(X, strength=0.01)
    >>> expected_cells(X, cloud.mean, cloud.cov).filled[2].round(1)
    array([2., 2.])
    """
    records = np.asarray(X, dtype=np.float64)
    mean, prior = np.nanmean(records, axis=0), uncorrelated(records)
    size = np.sqrt(np.outer(np.diag(prior), np.diag(prior)))
    cov = prior
    for _ in range(max_iter):
        filled, rest = _expected(records, mean, cov)
        mean = filled.mean(axis=0)
        deviation = filled - mean
        scatter = deviation.T @ deviation + rest.sum(axis=0) + strength * prior
        before, cov = cov, scatter / (len(records) + strength)
        if (np.abs(cov - before) <= tol * size).all():
            break
    return Cloud(mean, cov, _log_density(records, mean, cov))


def uncorrelated(X: Array) -> Array:
    """Return the columns' variances as a diagonal matrix, 1 for a constant column."""
    # The variance of a constant can be rounding noise.
    varying = np.nanmax(X, axis=0) > np.nanmin(X, axis=0)
    return np.diag(np.where(varying, np.nanvar(X, axis=0), 1.0))


def expected_cells(X: Array, mean: Array, cov: Array) -> Given:
    """Return the hidden cells of independent records given the observed ones."""
    hidden = np.isnan(X)
    filled, rest = _expected(X, mean, cov)
    diagonal = np.arange(X.shape[1])
    rest[:, diagonal, diagonal] += ~hidden
    return Given(filled, np.linalg.cholesky(rest) * hidden[:, :, None])


def draw_cloud(given: Given, rng: np.random.Generator) -> Array:
    """Return the records with their hidden cells drawn given the observed ones, (T, D)."""
    noise = rng.standard_normal(given.filled.shape)
    return given.filled + (given.spread @ noise[:, :, None])[:, :, 0]


def _expected(X: Array, mean: Array, cov: Array) -> tuple[Array, Array]:
    """Return conditional means (T, D) and covariances (T, D, D) of the cells."""
    hidden = np.isnan(X)
    across = cov * (hidden[:, :, None] & ~hidden[:, None, :])
    gain = across @ np.linalg.inv(_observed_part(cov, hidden))
    error = np.where(hidden, 0.0, X - mean)
    filled = np.where(hidden, mean + (gain @ error[:, :, None])[:, :, 0], X)
    rest = cov * (hidden[:, :, None] & hidden[:, None, :]) - gain @ np.swapaxes(across, 1, 2)
    return filled, (rest + np.swapaxes(rest, 1, 2)) / 2


def _observed_part(cov: Array, hidden: NDArray[np.bool_]) -> Array:
    """Return each record's covariance of observed cells, with 1 on the diagonal elsewhere."""
    seen = ~hidden
    inner = np.where(seen[:, :, None] & seen[:, None, :], cov, 0.0)
    diagonal = np.arange(len(cov))
    inner[:, diagonal, diagonal] += hidden
    return inner


def _log_density(X: Array, mean: Array, cov: Array) -> float:
    hidden = np.isnan(X)
    inner = _observed_part(cov, hidden)
    error = np.where(hidden, 0.0, X - mean)
    scatter = float(np.einsum("ui,ui->", error, np.linalg.solve(inner, error[:, :, None])[:, :, 0]))
    log_sizes = float(np.linalg.slogdet(inner)[1].sum())
    return -0.5 * (scatter + log_sizes + float((~hidden).sum() * np.log(2 * np.pi)))

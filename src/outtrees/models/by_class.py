"""Densities of the records of each class, from a few of them: where labelled lineages begin.

Few records of a class say little by themselves, so each density is held near that of all records:
as if a few more records of the class had been seen, spread as all are.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, xlogy

from outtrees._common.types import Array
from outtrees.models.covariance import column_scales

_CONSTANT = 1e-6  # of the other columns' variance: `reg_covar` of the mutations
_CENTRE = 1.0  # records at the mean of all that each class's mean is worth beforehand
# Records of each class that the shares and rates of all are worth: columns are taken as
# independent, and many of them would make a few records speak too loudly.
_SHARES = 8.0


def log_gaussian_by_class(
    X: Array,  # (T, D)
    weights: Array,  # (T, C) how much each record is of each class
    records: Array,  # (n, D)
) -> Array:
    """Return the log-densities of the records in Gaussians with one covariance, (n, C).

    The covariance is that within classes, held near the variances of all records with the weight
    of D records: so it stays positive definite for any number of columns. A constant column says
    nothing of the class; it gets about the spread that mutations give it, so that records which
    begin anew are no less likely for it than others.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [9.0], [10.0]])
    >>> log_gaussian_by_class(X, np.eye(2)[[0, 0, 1, 1]], np.array([[2.0]])).argmax(axis=1)
    array([0])
    """
    varying = np.ptp(X, axis=0) > 0  # the variance of a constant can be rounding noise
    spread = column_scales(X)
    x, r, D = X[:, varying], records[:, varying], int(varying.sum())
    n_class = weights.sum(axis=0)
    means = (weights.T @ x + _CENTRE * x.mean(axis=0)) / (n_class + _CENTRE)[:, None]
    cov = D * np.diag(spread[varying])
    for mean, weight in zip(means, weights.T, strict=True):
        cov += (weight[:, None] * (x - mean)).T @ (x - mean)
    root = np.linalg.cholesky(cov / max(D + n_class.sum(), 1.0))
    log_scale = np.log(np.diag(root)).sum() + 0.5 * D * np.log(2 * np.pi)
    steps = [solve_triangular(root, (r - mean).T, lower=True) for mean in means]
    found = np.array([-0.5 * (step**2).sum(axis=0) - log_scale for step in steps]).T
    narrow = _CONSTANT * spread[~varying] / (len(X) + 1)
    off = (records - X[0])[:, ~varying] ** 2 / narrow + np.log(2 * np.pi * narrow)
    return np.asarray(found - 0.5 * off.sum(axis=1, keepdims=True))


def shares_by_class(
    counts: Array,  # (C, V) of the values among the records of each class
    marginal: Array,  # (V,) of all records
) -> Array:
    """Return the probability of each value in each class, (C, V).

    Examples
    --------
    >>> shares_by_class(np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([0.5, 0.5])).tolist()
    [[0.6, 0.4], [0.5, 0.5]]
    """
    total = counts.sum(axis=1, keepdims=True)
    return np.asarray((counts + _SHARES * marginal) / (total + _SHARES))


def log_poisson_by_class(
    X: Array,  # (T, D) counts
    weights: Array,  # (T, C)
    records: Array,  # (n, D)
) -> Array:
    """Return the log-probabilities of the records' counts in each class, (n, C).

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> log_poisson_by_class(X, np.eye(2)[[0, 0, 1, 1]], np.array([[7.0]])).argmax(axis=1)
    array([1])
    """
    overall = (X.sum(axis=0) + 0.5) / (len(X) + 0.5)  # never 0
    rates = weights.T @ X + _SHARES * overall
    rates /= (weights.sum(axis=0) + _SHARES)[:, None]  # (C, D)
    fixed = gammaln(records + 1).sum(axis=1)[:, None] + rates.sum(axis=1)
    return np.asarray(xlogy(records[:, None, :], rates).sum(axis=2) - fixed)

"""Both tails of a gamma distribution in logs, however far out."""

from __future__ import annotations

import numpy as np
from scipy.special import gammainc, gammaincc, gammaln

from outtrees._common.types import Array

_FAR = 1e-290  # below this a double begins to lose digits of a tail
_LEVELS = 60  # of the continued fraction; so far out each gains more than a digit


def log_tails(shape: float, x: Array) -> tuple[Array, Array]:
    """Return log P(X < x) and log P(X > x) for X ~ Gamma(shape, 1), x ≥ 0.

    Where a tail is too small for a double: Legendre's continued fraction above, the power series
    below.

    Examples
    --------
    >>> _, above = log_tails(1.0, np.array([2.0, 5000.0]))
    >>> above.round(9).tolist()
    [-2.0, -5000.0]
    """
    below, above = gammainc(shape, x), gammaincc(shape, x)
    with np.errstate(divide="ignore"):
        log_below, log_above = np.log(below), np.log(above)
    far_above = (above < _FAR) & (x > shape)
    if far_above.any():
        log_above[far_above] = _log_far_above(shape, x[far_above])
    far_below = (below < _FAR) & (x > 0) & (x < shape)
    if far_below.any():
        log_below[far_below] = _log_far_below(shape, x[far_below])
    return log_below, log_above


def _log_far_above(shape: float, x: Array) -> Array:
    fraction = np.zeros_like(x)
    for n in range(_LEVELS, 0, -1):
        fraction = n * (n - shape) / (x + 2 * n + 1 - shape - fraction)
    return shape * np.log(x) - x - gammaln(shape) - np.log(x + 1 - shape - fraction)


def _log_far_below(shape: float, x: Array) -> Array:
    total, term, n = np.ones_like(x), np.ones_like(x), 0
    while (term > 1e-17 * total).any():
        n += 1
        term = term * x / (shape + n)
        total += term
    return shape * np.log(x) - x - gammaln(shape + 1) + np.log(total)

"""Sums of counts times logs, where nothing times log 0 is nothing."""

from __future__ import annotations

import numpy as np

from outtrees.mutations.checks import Array


def log_dot(counts: Array, log_values: Array) -> Array:
    """Return counts @ log_values.T with 0 · log 0 = 0, shape (n, m).

    Examples
    --------
    >>> log_dot(np.array([[0.0, 2.0], [1.0, 2.0]]), np.array([[-np.inf, -1.0]]))
    array([[ -2.],
           [-inf]])
    """
    impossible = np.isneginf(log_values)
    if not impossible.any():
        return counts @ log_values.T
    result = counts @ np.where(impossible, 0.0, log_values).T
    result[counts @ impossible.T.astype(np.float64) > 0] = -np.inf
    return result

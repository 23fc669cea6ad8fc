"""How large a column's values usually differ, whatever a few wild ones do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def typical_variance(known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a robust variance of each column of known cells (n, D), positive, shape (D,).

    From the median distance to the median (as a normal column would have it); the sample variance
    where more than half of the cells are equal, and 1 where all are: such a column has no scale of
    its own, and any positive one serves.

    Examples
    --------
    >>> wild = np.array([[0.0], [1.0], [2.0], [3.0], [1e6]])
    >>> typical_variance(wild).round(2), typical_variance(np.ones((3, 1)))
    (array([2.2]), array([1.]))
    """
    if not len(known):
        return np.ones(known.shape[1])
    middle = np.median(known, axis=0)
    robust = (1.4826 * np.median(abs(known - middle), axis=0)) ** 2
    variance = np.where(robust > 0, robust, known.var(axis=0))
    return np.where(variance > 0, variance, 1.0)


def rounding(known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation that rounding leaves in each column of known cells (D,).

    The unit in which cells are written is the least difference between two of them that differ;
    what lies within it is spread evenly, with standard deviation unit / √12.

    Examples
    --------
    >>> rounding(np.array([[0.5], [1.0], [3.0], [3.0]])).round(3)
    array([0.144])
    """
    finest = np.zeros(known.shape[1])
    for d, column in enumerate(known.T):
        steps = np.diff(np.unique(column))
        finest[d] = steps.min() / np.sqrt(12) if len(steps) else 0.0
    return finest

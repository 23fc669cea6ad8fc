"""Parents chosen independently: the sum over trees where the edges cannot form a cycle."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from outtrees._common.types import Array

Index = NDArray[np.intp]


class IndependentChoices:
    """Each record chooses one of its candidates, or to be a root, by their weights.

    The sum over trees if the candidates cannot form a cycle; else an approximation.

    Parameters
    ----------
    child : array of shape (E,), sorted
    log_weight : array of shape (E,)
    log_root : array of shape (T,)
        −inf where a record cannot be a root. Records that can have no parent and cannot be a root
        do not count.

    Examples
    --------
    >>> choices = IndependentChoices([1, 2, 2], np.log([0.5, 0.3, 0.1]), np.full(3, -np.inf))
    >>> choices.edge_marginals.round(2), round(float(np.exp(choices.log_z)), 2)
    (array([1.  , 0.75, 0.25]), 0.2)
    """

    def __init__(self, child: Index, log_weight: Array, log_root: Array) -> None:
        self.child = np.asarray(child, dtype=np.intp)
        self.log_weight = np.asarray(log_weight, dtype=np.float64)
        self.log_root = np.asarray(log_root, dtype=np.float64)

    @cached_property
    def log_totals(self) -> Array:
        """The log of the summed weight of each record's choices (T,), −inf if it has none."""
        return np.logaddexp(
            log_sums(self.child, self.log_weight, len(self.log_root)), self.log_root
        )

    @cached_property
    def log_z(self) -> float:
        """The log of the product of all sums."""
        return float(self.log_totals[self.log_totals > -np.inf].sum())

    @cached_property
    def edge_marginals(self) -> Array:
        """The probability of each candidate (E,)."""
        total = self.log_totals[self.child]
        return np.exp(self.log_weight - np.where(total > -np.inf, total, 0.0))

    @cached_property
    def root_marginals(self) -> Array:
        """The probability of being a root (T,)."""
        return np.exp(self.log_root - np.where(self.log_totals > -np.inf, self.log_totals, 0.0))


def log_sums(
    child: Index,  # (E,), sorted
    log_weight: Array,  # (E,)
    T: int,
) -> Array:
    """Return log Σ exp(log_weight) over each record's entries (T,), −inf where there are none.

    Examples
    --------
    >>> np.exp(log_sums(np.array([0, 0, 2]), np.log([1.0, 2.0, 5.0]), 3)).round(9)
    array([3., 0., 5.])
    """
    result = np.full(T, -np.inf)
    if not len(child):
        return result
    first = np.flatnonzero(np.append(True, child[1:] != child[:-1]))
    top = np.maximum.reduceat(log_weight, first)
    shift = np.where(np.isfinite(top), top, 0.0)
    sizes = np.diff(np.append(first, len(child)))
    with np.errstate(divide="ignore"):
        total = np.log(np.add.reduceat(np.exp(log_weight - np.repeat(shift, sizes)), first))
    result[child[first]] = total + shift
    return result

"""An order of records that their values decide, for whatever draws at random among records."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.intp]
_Codes = NDArray[np.uint64]


def record_order(
    X: ArrayLike,  # (T, D), NaN where a cell is missing
    *more: ArrayLike,  # (T,) each: labels, say
) -> Ints:
    """Return the positions (T,) of the records in an order that only their values decide.

    Records are exchangeable (paper, section 1), so an answer may not depend on the order in which
    they are listed. Random starts, folds and chains would: the same seed picks other records.
    Whatever draws among records therefore takes them in this order, as ``X[record_order(X)]``.

    The order of columns does not matter either, nor do their units and offsets: what counts are
    the ranks of a column's values. A record's code mixes its ranks, a column's code the codes of
    the records at each rank, and records are coded once more with the codes of the columns (the
    refinement of Weisfeiler and Lehman). Records that are still alike are told apart by their
    ranks, column by column; equal ones stay as they are. O(T D log T).

    Examples
    --------
    >>> X = np.array([[3.0, 1.0], [0.0, 5.0], [2.0, 2.0]])
    >>> again = X[[2, 0, 1]]
    >>> bool((X[record_order(X)] == again[record_order(again)]).all())
    True
    """
    table = np.column_stack([np.asarray(X, dtype=np.float64), *more])
    ranks = np.empty(table.shape, dtype=np.uint64)
    for d, column in enumerate(table.T):
        ranks[:, d] = np.unique(column, return_inverse=True)[1]  # NaN is the largest value
    columns = np.zeros(table.shape[1], dtype=np.uint64)
    # What comes beside the columns of X is no column like the others.
    columns[table.shape[1] - len(more) :] = np.arange(1, len(more) + 1)
    records = _mixed(ranks ^ _mixed(columns)).sum(axis=1, dtype=np.uint64)
    columns += _mixed(records[:, None] ^ _mixed(ranks)).sum(axis=0, dtype=np.uint64)
    records = _mixed(ranks ^ _mixed(columns)).sum(axis=1, dtype=np.uint64)
    return np.lexsort((*ranks.T[::-1], records))


def _mixed(codes: _Codes) -> _Codes:
    """Return well-mixed codes, one to one (SplitMix64)."""
    z = codes + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))

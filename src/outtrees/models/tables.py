"""Matrices p(child's value | parent's value), and the counts of pairs that they are learned from.

The last row and column of a table stand for missing cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from outtrees._common.edges import chunks
from outtrees._common.types import Array
from outtrees.models.count import SHARES, log_dot, log_of


def sticky_matrix(s: float, marginal: Array) -> Array:
    """Return p(child's category | parent's), (C, C) [child, parent].

    Examples
    --------
    >>> sticky_matrix(0.5, np.array([0.5, 0.5]))
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    return np.asarray(s * np.eye(len(marginal)) + (1.0 - s) * marginal[:, None])


def frequencies(
    codes: NDArray[np.intp],  # 0 … C − 1 of those that are known
    n_levels: int,
    pseudo_count: float,
) -> Array:
    """Return the share of each category (C,), with pseudo-records spread evenly over them.

    Examples
    --------
    >>> frequencies(np.array([0, 0]), 2, 2.0)
    array([0.75, 0.25])
    """
    counts = np.bincount(codes, minlength=n_levels) + pseudo_count / n_levels
    total = counts.sum()
    return np.asarray(counts / total if total > 0 else np.full(n_levels, 1 / n_levels))


def coded(
    cells: Array,  # (n,) categories, NaN where missing
    levels: Array,  # (C,), sorted
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the position of each cell's category, C where missing, and the rows of unknown ones.

    Examples
    --------
    >>> coded(np.array([7.0, np.nan, 5.0]), np.array([2.0, 7.0]))
    (array([1, 2, 1]), array([2]))
    """
    missing = np.isnan(cells)
    code = np.minimum(np.searchsorted(levels, cells), len(levels) - 1)
    unknown = np.flatnonzero((levels[code] != cells) & ~missing)
    return np.where(missing, len(levels), code), unknown


_FEW = 12  # values of a column, up to which a product of matrices is faster than looking up


def looked_up(
    tables: Iterable[Array],  # one (C_d + 1, C_d + 1) for each column, the last for missing cells
    children: NDArray[np.intp],  # (n, D) codes
    parents: NDArray[np.intp],  # (m, D) codes
) -> Array:
    """Return the sums over columns of the tables' entries, for all pairs (n, m)."""
    result = np.zeros((len(children), len(parents)))
    ones, values = [], []
    for d, table in enumerate(tables):
        if len(table) > _FEW:
            result += np.take(table[children[:, d]], parents[:, d], axis=1)
        else:
            ones.append(np.eye(len(table))[children[:, d], :-1])  # unknown children weigh 0
            values.append(table[:-1, parents[:, d]].T)
    return result + log_dot(np.hstack(ones), np.hstack(values)) if ones else result


def pair_counts(
    children: NDArray[np.intp],  # (n, D) codes, C_d where missing
    parents: NDArray[np.intp],  # (m, D)
    weights: Any,  # (n, m), may be sparse
    n_levels: Sequence[int],  # C_d
) -> Iterator[Array]:
    """Yield for each column the weight of each pair of values, (C_d + 1, C_d + 1), missing last.

    One product of matrices serves many columns.

    Examples
    --------
    >>> codes = np.array([[0], [1], [2]])
    >>> next(pair_counts(codes, codes, np.eye(3)[[2, 0, 0]], [2]))
    array([[0., 0., 1.],
           [1., 0., 0.],
           [1., 0., 0.]])
    """
    sizes = np.array(n_levels) + 1
    for columns in chunks(len(sizes), len(parents) * int(sizes.max(initial=1))):
        own = range(len(sizes))[columns]
        ones = np.hstack([np.eye(sizes[d])[parents[:, d]] for d in own])
        blocks = np.split(weights @ ones, np.cumsum(sizes[columns])[:-1], axis=1)
        for d, block in zip(own, blocks, strict=True):
            yield np.asarray(np.eye(sizes[d])[children[:, d]].T @ block)


def log_table(
    logs: Array,  # (2,) of keeping a value and drawing it afresh, or (C, C) of a whole matrix
    marginal: Array,  # (C,)
) -> Array:
    """Return log-weights of pairs of values [child, parent], (C + 1, C + 1), missing cells last.

    An unknown child weighs nothing. An unknown parent is one of the marginal's values, whether the
    child kept it or not; `logs` may be expectations, whose exponentials sum to less than one.

    Examples
    --------
    >>> np.exp(log_table(np.log([0.5, 0.5]), np.array([0.5, 0.5])))
    array([[0.75, 0.25, 0.5 ],
           [0.25, 0.75, 0.5 ],
           [1.  , 1.  , 1.  ]])
    """
    C, log_marginal = len(marginal), log_of(marginal)
    table = np.zeros((C + 1, C + 1))
    if logs.ndim == 1:
        kept, fresh = logs[0], logs[1] + log_marginal
        table[:C, :C] = fresh[:, None]
        table[np.arange(C), np.arange(C)] = np.logaddexp(kept, fresh)
        table[:C, C] = log_marginal + np.logaddexp(*logs)
    else:
        table[:C, :C] = logs
        table[:C, C] = logsumexp(log_marginal + logs, axis=1)
    return table


def completed_counts(
    counts: Array,  # (C + 1, C + 1) of pairs of values, missing cells last
    logs: Array,  # as in `log_table`
    marginal: Array,  # (C,)
) -> Array:
    """Return the expected numbers of kept and of fresh values (2,), or of pairs of values (C, C).

    What is hidden is shared out: whether equal values were kept, and the value of an unknown
    parent.

    Examples
    --------
    >>> counts = np.array([[4.0, 1.0, 2.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> completed_counts(counts, np.log([0.5, 0.5]), np.array([0.5, 0.5])).round(3)
    array([3.667, 3.333])
    """
    known, unknown = counts[:-1, :-1], counts[:-1, -1]
    log_marginal = log_of(marginal)
    if logs.ndim == 1:
        kept = np.diag(known) * part_of(logs[0], np.logaddexp(logs[0], logs[1] + log_marginal))
        total = float(kept.sum() + unknown.sum() * part_of(logs[0], np.logaddexp(*logs)))
        return np.array([total, float(known.sum() + unknown.sum()) - total])
    joint = log_marginal + logs
    return known + unknown[:, None] * part_of(joint, logsumexp(joint, axis=1, keepdims=True))


def part_of(log_part: Any, log_whole: Any) -> Array:
    """Return part / whole from their logarithms, 0 where there is nothing to share."""
    return np.asarray(np.exp(log_part - np.where(np.isneginf(log_whole), 0.0, log_whole)))


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
    return np.asarray((counts + SHARES * marginal) / (total + SHARES))

"""Sums of counts times logs, where nothing times log 0 is nothing."""

from __future__ import annotations

import numpy as np

from outtrees._common.types import Array
from outtrees.models.edges import Ints, chunks


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


def log_dot_edges(
    counts: Array,  # (n, K)
    log_values: Array,  # (m, K)
    row: Ints,  # (E,) of counts
    column: Ints,  # (E,) rows of log_values
) -> Array:
    """Return `log_dot(counts, log_values)[row, column]` without the others, (E,).

    Examples
    --------
    >>> counts, log_values = np.array([[0.0, 2.0], [1.0, 2.0]]), np.array([[-np.inf, -1.0]])
    >>> log_dot_edges(counts, log_values, np.array([1, 0]), np.array([0, 0]))
    array([-inf,  -2.])
    """
    impossible = np.isneginf(log_values)
    finite = np.where(impossible, 0.0, log_values)
    result = np.empty(len(row))
    for edges in chunks(len(row), counts.shape[1]):
        many, which = counts[row[edges]], column[edges]
        result[edges] = np.einsum("ek,ek->e", many, finite[which])
        if impossible.any():
            result[edges][((many > 0) & impossible[which]).any(axis=1)] = -np.inf
    return result

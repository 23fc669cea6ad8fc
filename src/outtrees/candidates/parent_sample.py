"""A random sample that stands for all parents that are not candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outtrees._common.edges import Ints
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.candidates.matrix_search import search_tree
from outtrees.models.base import Mutation

_THINNER = 4  # each subset has so many times fewer records than the one before
_LEAST = 128  # records of a subset
_EXCESS = 1.5  # of these neighbours in a subset, over half the number of candidates


class OtherParents:
    """Records that stand for all that are not listed, dense near each record and sparse afar.

    A sum over all unlisted parents is estimated by shells around each record. Random subsets of
    T/4, T/16, … records are drawn once. In each the record's nearest few are taken; those nearer
    than the last of them, and not nearer than the shell before reached, weigh 4, 16, … each. What
    lies beyond the last shell is sampled at random, `n_others` records for each one. So whatever
    the scale on which weights fall, a few of the records that matter are in the sample, and the
    estimate of the sum is unbiased but for terms of the order of one in the few. Mutations whose
    parents have no place in a space (counts, categories) have the random part only.

    Parameters
    ----------
    n_records : int
    n_others : int
        0: nothing stands for the others.
    """

    def __init__(self, n_records: int, n_others: int, random_state: Any = None) -> None:
        rng = as_generator(random_state)
        self._places = rng.random((n_records, n_others))
        self._subsets: list[Ints] = []
        for size in _subset_sizes(n_records) if n_others else ():
            self._subsets.append(np.sort(rng.permutation(n_records)[:size]))

    def drawn(self, mutation: Mutation, X: Array, table: Ints) -> tuple[Ints, Array]:
        """Return (T, n) records, and the log of how many each stands for, −inf for none."""
        (T, k), m = table.shape, self._places.shape[1]
        if not m or k >= T - 1:
            return np.empty((T, 0), dtype=np.intp), np.empty((T, 0))
        far = other_parents(table, self._places)
        log_far = np.full(far.shape, np.log((T - 1 - k) / far.shape[1]))
        spaces = [s for s in mutation._embeddings(X, X) or [] if np.ptp(s[1], axis=0).any()]
        if not spaces or far.shape[1] == T - 1 - k:
            return far, log_far
        listed = np.column_stack([table, np.arange(T)])
        n_near = _near_in_subset(k)
        records, log_each = [], []
        reached = np.full(T, -np.inf)
        for subset in self._subsets:
            near, distance = _nearest_among(spaces, subset, n_near)
            reach = distance[:, -1]
            counted = (distance >= reached[:, None]) & (distance < reach[:, None])
            counted &= ~_is_in(near, listed)
            records.append(near)
            log_each.append(np.where(counted, np.log(T / len(subset)), -np.inf))
            reached = np.maximum(reached, reach)
        beyond = _distance(spaces, far) >= reached[:, None]
        records.append(far)
        log_each.append(np.where(beyond, log_far, -np.inf))
        return np.hstack(records), np.hstack(log_each)


def other_parents(
    table: Ints,  # (T, k)
    places: Array,  # (T, m) uniform numbers in [0, 1)
) -> Ints:
    """Return m records for each child that are neither itself nor in its row, (T, m).

    One from each of m equal parts of these others, in the order of their numbers, so each other
    record is as likely as any; one at the border of two parts may come twice. If there are no more
    than m, all of them. The same `places` give nearly the same records for a table that has
    changed little.

    Examples
    --------
    >>> other_parents(np.array([[1], [0], [3], [2]]), np.full((4, 1), 0.9)).ravel()
    array([3, 3, 1, 1])
    """
    (T, k), m = table.shape, places.shape[1]
    left = T - 1 - k
    if m >= left:
        rank = np.broadcast_to(np.arange(left), (T, left)).copy()
    else:
        rank = ((np.arange(m) + places) * (left / m)).astype(np.intp)
        np.minimum(rank, left - 1, out=rank)  # a product may round up to the end
    excluded = np.sort(np.column_stack([table, np.arange(T)]), axis=1) - np.arange(k + 1)
    # The r-th record that is not excluded has r plus the number of excluded ones before it.
    result = rank.copy()
    for place in excluded.T:
        result += rank >= place[:, None]
    return result


def n_sampled(n_records: int, n_candidates: int, n_others: int) -> int:
    """Return how many records stand for others, for each one, at most.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(600, 2))
    >>> from outtrees.candidates.matrix_search import nearest_parents
    >>> from outtrees.models import GaussianMutation
    >>> mutation = GaussianMutation(transition="identity").start(X)
    >>> table = nearest_parents(mutation, X, 20)
    >>> OtherParents(600, 32, 0).drawn(mutation, X, table)[0].shape[1], n_sampled(600, 20, 32)
    (47, 47)
    """
    if not n_others or n_candidates >= n_records - 1:
        return 0
    return len(_subset_sizes(n_records)) * _near_in_subset(n_candidates) + n_others


def _subset_sizes(n_records: int) -> list[int]:
    sizes = [n_records // _THINNER]
    while sizes[-1] >= _LEAST:
        sizes.append(sizes[-1] // _THINNER)
    return sizes[:-1]


def _near_in_subset(n_candidates: int) -> int:
    return max(8, int(_EXCESS * n_candidates / 2))


def _nearest_among(spaces: list[tuple[Array, Array]], subset: Ints, m: int) -> tuple[Ints, Array]:
    """Return the m records of a subset nearest to each record, in any of the spaces, (T, m)."""
    found = []
    for children, parents in spaces:
        tree = search_tree(parents[subset], m)
        found.append(subset[tree.kneighbors(children, return_distance=False)])
    near = np.sort(np.hstack(found), axis=1)
    distance = _distance(spaces, near)
    distance[:, 1:][near[:, 1:] == near[:, :-1]] = np.inf  # found in two spaces: once is enough
    order = np.argsort(distance, axis=1, kind="stable")[:, :m]
    return np.take_along_axis(near, order, axis=1), np.take_along_axis(distance, order, axis=1)


def _distance(spaces: list[tuple[Array, Array]], parent: Ints) -> Array:
    """Return the squared distance of each record to those of its row, (T, n).

    In the space where they are nearest.
    """
    result = np.full(parent.shape, np.inf)
    for children, parents in spaces:
        for column in range(parent.shape[1]):  # a column at a time: (T, K) of memory
            apart = children - parents[parent[:, column]]
            here = np.einsum("tk,tk->t", apart, apart)
            result[:, column] = np.minimum(result[:, column], here)
    return result


def _is_in(table: Ints, rows: Ints) -> NDArray[np.bool_]:  # (T, n), (T, k)
    """Return whether each entry is among those of its row."""
    result = np.zeros(table.shape, dtype=bool)
    for column in rows.T:
        result |= table == column[:, None]
    return result

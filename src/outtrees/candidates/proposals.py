"""Possible parents worth a look where there are too many pairs to look at all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from outtrees._common.types import Array
from outtrees.candidates.windows import Windows, waiting_of
from outtrees.models.columns import Lineage
from outtrees.models.columns.similar import similar_sequences
from outtrees.models.quick import Gaps, Match, Metric, Sites

Index = NDArray[np.intp]
_SIMILAR = 32  # sequences


class Proposals:
    """For each record: the nearest in time, in each column of numbers and in each sequence.

    Dates propose those nearest to the likeliest wait, and these once more among the records of the
    same category; places and numbers the nearest in units of their change; sequences the most
    similar ones. O(T log T · n) time.

    Parameters
    ----------
    lineage : Lineage
    values : one (T, D_c) for each column
    windows : Windows
    n : int
        How many each column proposes.
    """

    def __init__(self, lineage: Lineage, values: Sequence[Array], windows: Windows, n: int) -> None:
        self._windows = windows
        self._place = np.empty(len(windows.order), dtype=np.intp)
        self._place[windows.order] = np.arange(len(windows.order))
        self._n = n
        waiting, wait = waiting_of(lineage), 0.0
        dates = None if lineage.dates is None else values[lineage.dates]
        if waiting is not None and waiting.table is not None:
            chances = np.asarray(waiting.table, dtype=float)
            wait = float(np.arange(len(chances)) @ chances / chances.sum())
        elif waiting is not None:
            wait = float(np.exp(waiting.log_mean))
        self._by: list[Callable[[Index], Index]] = [self._in_time(dates, wait, None)]
        for kernel, cells in zip(lineage.kernels, values, strict=True):
            quick = kernel.quick(cells, 1, max(wait, 1e-9))
            if isinstance(quick, Metric):
                self._by.append(self._near(quick))
            elif isinstance(quick, Match):
                self._by.append(self._in_time(dates, wait, quick.code))
            elif isinstance(quick, Sites):
                self._by.append(self._similar(quick))
            else:
                assert isinstance(quick, Gaps)

    def pairs(self, block: Index) -> tuple[Index, Index]:
        """Return the pairs (child, parent) proposed for these records, each once."""
        T = len(self._place)
        parent = np.concatenate([propose(block) for propose in self._by], axis=1)
        child = np.broadcast_to(block[:, None], parent.shape)
        known = parent >= 0
        coded = np.unique(child[known] * T + parent[known])
        return coded // T, coded % T

    def _in_time(
        self, dates: Array | None, wait: float, code: NDArray[np.int32] | None
    ) -> Callable[[Index], Index]:
        """Propose the n records around the likeliest wait, of the same category if there is one."""
        order, place = self._windows.order, self._place
        T = len(order)
        group = self._windows.begin.astype(np.int64)  # a number for each group
        if code is not None:
            group = group * (int(code.max()) + 2) + code + 1
        key = place.astype(float) if dates is None else np.nan_to_num(dates[:, 1], nan=-np.inf)
        aim = key if dates is None else np.nan_to_num(dates[:, 0] - wait, nan=np.inf)
        listed = np.lexsort((key, group))
        # One search for all groups: ranks of keys make one sorted list of whole numbers.
        ranked = np.unique(key)
        width = len(ranked) + 1
        sorted_keys = group[listed] * width + np.searchsorted(ranked, key[listed])

        def propose(block: Index) -> Index:
            middle = np.searchsorted(
                sorted_keys, group[block] * width + np.searchsorted(ranked, aim[block])
            )
            around = middle[:, None] + np.arange(-(self._n // 2), self._n - self._n // 2)
            inside = (around >= 0) & (around < T)
            found = listed[np.clip(around, 0, T - 1)]
            same = group[found] == group[block][:, None]
            return np.where(inside & same, found, -1)

        return propose

    def _similar(self, quick: Sites) -> Callable[[Index], Index]:
        """Propose the records with the most similar sequences."""
        found = similar_sequences(quick.codes, max(self._n, _SIMILAR)).index
        return lambda block: found[block].astype(np.intp)

    def _near(self, quick: Metric) -> Callable[[Index], Index]:
        """Propose the n nearest records of a column of numbers."""
        known = np.flatnonzero(~np.isnan(quick.parent[0]).any(axis=1))
        tree = cKDTree(quick.parent[0][known])
        n = min(self._n + 1, len(known))  # itself is among them

        def propose(block: Index) -> Index:
            result = np.full((len(block), n), -1, dtype=np.intp)
            cells = quick.child[0][block]
            has = ~np.isnan(cells).any(axis=1)
            if has.any() and n:
                nearest = tree.query(cells[has], k=[*range(1, n + 1)])[1]
                result[has] = known[nearest]
            return result

        return propose

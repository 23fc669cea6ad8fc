"""Windows of dates: which pairs of records of a table are possible, without a list of all pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.edges import within_runs
from outtrees._common.types import Array
from outtrees.candidates.edges import Constraints
from outtrees.models.columns import GivenWeights, Lineage, Waiting

Index = NDArray[np.intp]

_IMPLAUSIBLE = 16.0  # a wait this many nats below the likeliest one lies outside the window
_AT_LEAST = 200  # earlier records that are examined, however long ago they were


class Windows(NamedTuple):
    """Records sorted by group and end; a record's possible parents are two stretches of the list.

    Those without a date stand first in their group: order[begin:undated]. Those with a date that
    is early enough, and not implausibly early, are order[low:high]; order[undated:low] are
    possible, but implausibly early.
    """

    order: Index  # (T,)
    begin: Index  # (T,), by child, as the rest
    undated: Index  # (T,)
    low: Index  # (T,)
    high: Index  # (T,)

    @property
    def sizes(self) -> Index:
        """How many records are examined for each child (T,), itself perhaps among them."""
        return self.undated - self.begin + self.high - self.low

    @property
    def implausible(self) -> Index:
        """How many possible parents of each child are implausibly early (T,)."""
        return self.low - self.undated

    def pairs(self, children: Index) -> tuple[Index, Index]:
        """Return all pairs (child, parent) in the windows of these records."""
        sizes = self.sizes[children]
        child = np.repeat(children, sizes)
        place = within_runs(sizes)
        first = (self.undated - self.begin)[child]
        place += np.where(place < first, self.begin[child], self.low[child] - first)
        return child, self.order[place]

    def blocks(self, children: Index, most: int) -> Iterator[Index]:
        """Yield these records in blocks of about `most` pairs."""
        ends = np.cumsum(self.sizes[children])
        cuts = np.flatnonzero(np.diff(ends // max(most, 1))) + 1
        yield from (block for block in np.split(children, cuts) if len(block))


def date_windows(
    groups: Index,  # (T,)
    waiting: Waiting | None = None,
    dates: Array | None = None,  # (T, 4), as `Waiting` reads them
    generations: int = 1,
    *,
    all_possible: bool = False,
) -> Windows:
    """Return where each record's possible parents stand.

    A parent's end, as early as its half-width allows, must not be after the child's date, as late
    as its half-width (and `ahead`) allows; and it is implausible if even then the child waited
    longer than a time that is 16 nats less likely than the likeliest. At least the 200 latest
    parents count as plausible, so that no record is left without. Dates that need not be in order,
    and no dates, leave all records of the group. O(T log T).

    Examples
    --------
    >>> kernel = Waiting(mean=3.0, sd=1.0).start(np.zeros((2, 4)))
    >>> days = np.array([[float(t), t, 0, 0] for t in (0, 2, 2, 5)])
    >>> found = date_windows(np.zeros(4, dtype=int), kernel, days)
    >>> found.low.tolist(), found.high.tolist()
    ([0, 0, 0, 0], [1, 3, 3, 4])
    """
    T = len(groups)
    if waiting is None or dates is None or not waiting.strict:
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        begin = np.searchsorted(ordered, groups, side="left")
        return Windows(order, begin, begin, begin, np.searchsorted(ordered, groups, side="right"))
    start, end, width = dates[:, 0], np.maximum(dates[:, 0], dates[:, 1]), dates[:, 2]
    known = np.asarray(~np.isnan(dates).any(axis=1))
    earliest = np.where(known, end - width, -np.inf)
    order = np.lexsort((earliest, groups))
    longest = np.inf
    if not all_possible:
        longest = waiting.longest(generations, _IMPLAUSIBLE) + waiting.unit
        longest += 2 * float(width[known].max(initial=0.0))
    begin, undated, low, high = (np.empty(T, dtype=np.intp) for _ in range(4))
    ends = np.append(np.flatnonzero(np.diff(groups[order])) + 1, T)
    offset = 0
    for stop in ends.tolist():
        members = order[offset:stop]
        keys = earliest[members]
        begin[members] = offset
        first = offset + int(np.searchsorted(keys, -np.inf, side="right"))
        undated[members] = first
        limit = np.where(known[members], start[members] + width[members] + waiting.ahead, np.inf)
        last = offset + np.searchsorted(keys, limit, side="right")
        high[members] = last
        back = np.where(known[members], start[members] - width[members] - longest, -np.inf)
        early = offset + np.searchsorted(keys, back, side="left")
        low[members] = np.maximum(np.minimum(early, last - _AT_LEAST), first)
        offset = stop
    return Windows(order, begin, undated, low, high)


def windows_of(
    lineage: Lineage, values: Sequence[Array], given: Constraints, *, all_possible: bool = False
) -> Windows:
    """Return where each record's possible parents stand, by the lineage's waiting times."""
    dates = None if lineage.dates is None else values[lineage.dates]
    waiting, K = waiting_of(lineage), lineage.generations
    return date_windows(given.groups, waiting, dates, K, all_possible=all_possible)


def waiting_of(lineage: Lineage) -> Waiting | None:
    """Return the kernel of the dates, None if there are none."""
    kernel = None if lineage.dates is None else lineage.kernels[lineage.dates]
    return kernel if isinstance(kernel, Waiting) else None


def without_early(lineage: Lineage) -> bool:
    """Return whether parents before the windows are impossible, not only implausible."""
    waiting = waiting_of(lineage)
    return waiting is not None and waiting.table is not None


def in_order(
    lineage: Lineage, values: Sequence[Array], child: Index, parent: Index
) -> NDArray[np.bool_]:
    """Return which edges have their dates in a possible order, and no given weight of 0 (E,)."""
    possible = np.ones(len(child), dtype=bool)
    for kernel, cells in zip(lineage.kernels, values, strict=True):
        if isinstance(kernel, Waiting):
            possible &= kernel.possible(cells, cells, child, parent)
            dates = kernel.pairs(cells, cells, child, parent)
            steps = range(1, lineage.generations + 1)
            reached = [np.isfinite(kernel.log_steps(dates, k)) for k in steps]
            possible &= np.any(reached, axis=0) | (not kernel.strict)
        elif isinstance(kernel, GivenWeights):
            possible &= kernel.pairs(cells, cells, child, parent) > -np.inf
    return possible


def possible_pairs(
    lineage: Lineage, values: Sequence[Array], given: Constraints, block: Index, found: Windows
) -> tuple[Index, Index]:
    """Return all possible edges to these records within their windows."""
    return possible_among(lineage, values, given, *found.pairs(block))


def possible_among(
    lineage: Lineage, values: Sequence[Array], given: Constraints, child: Index, parent: Index
) -> tuple[Index, Index]:
    """Return the edges that are allowed and have their dates in a possible order."""
    kept = given.allows(child, parent)
    child, parent = child[kept], parent[kept]
    kept = in_order(lineage, values, child, parent)
    return child[kept], parent[kept]

"""Each record beside those before it: what cells are compared with, and the weights of edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outtrees._common.types import Array
from outtrees.models.column import Index
from outtrees.models.columns.background import Earlier, LineagePairs
from outtrees.models.columns.lineage import (
    Lineage,
    order_by_cells,
    sample_by_cells,
)

COMPARED = 4000  # records before it with which each one is compared, at most
_MOST_COMPARED, _AT_ONCE = 20_000_000, 1_000_000  # pairs of such records in all, and at once
_LEAST_COMPARED = 100
_CHOOSING = 200  # records whose cells decide on a background


class EdgeWeights:
    """The log-weights that a lineage gives the edges and roots of a table.

    Parameters
    ----------
    lineage : Lineage
    values : one (T, D_c) for each column
    groups : array of shape (T,)
        Only records of one group are compared with each other.
    known : dict, optional
        `log_backgrounds` of all records, where they are known already.
    """

    def __init__(
        self,
        lineage: Lineage,
        values: Sequence[Array],
        groups: Index,
        known: dict[int, tuple[Array, Array]] | None = None,
    ) -> None:
        self.lineage, self.values = lineage, values
        self.known = known
        if known is None:
            self.known = log_backgrounds(lineage, values, groups, np.arange(len(groups)))
        self.background = lineage.compared(values, self.known)

    @property
    def log_root(self) -> Array:
        """The log-density of each record without a parent (T,)."""
        return self.lineage.log_root(self.background)

    def log_beta(self, child: Index, parent: Index) -> Array:
        """Return the log-weight of each edge (E,)."""
        return self.log_beta_pairs(self.lineage.pairs(self.values, self.values, child, parent))

    def log_beta_pairs(self, pairs: LineagePairs) -> Array:
        """Return the log-weight of each edge (E,)."""
        return self.lineage.log_beta(pairs, self.background)


def earlier_pairs(lineage: Lineage, values: Sequence[Array], groups: Index, rows: Index) -> Earlier:
    """Return the pairs of each of these records and those before it in its group.

    Of more than 4,000 those nearest in date; thinned evenly over dates in tables so large that
    these would be too many pairs. A record whose date is unknown is compared with all.
    """
    most = max(_LEAST_COMPARED, min(COMPARED, _MOST_COMPARED // max(len(groups), 1)))
    assert lineage.dates is not None  # columns are contrasted in tables with dates
    dates = values[lineage.dates][:, 0]
    group = groups.astype(np.float64)
    order = order_by_cells([group[:, None], dates[:, None], *values])
    # The number of each record's group and date, and where it ends in the order.
    group, day = group[order], np.where(np.isnan(dates), np.inf, dates)[order]
    new = np.append(True, (group[1:] != group[:-1]) | (day[1:] != day[:-1]))
    number = np.empty(len(order), dtype=np.intp)
    number[order] = np.cumsum(new) - 1
    ends = np.append(np.flatnonzero(new)[1:], len(order))[number[rows]]
    begins = np.searchsorted(group, groups[rows], side="left")
    width = np.minimum(ends - begins, COMPARED)
    chosen = np.minimum(width, most)
    child = np.repeat(rows, chosen)
    nth = np.arange(len(child)) - np.repeat(np.cumsum(chosen) - chosen, chosen)
    step = nth * np.repeat(width, chosen) // np.repeat(chosen, chosen)
    other = order[np.repeat(ends - width, chosen) + step]
    kept = child != other
    child, other = child[kept], other[kept]
    weight = weights_before(dates[child], dates[other])
    return Earlier(lineage.pairs(values, values, child, other), weight)


def weights_before(dates: Array, others: Array) -> Array:
    """Return how much each other record counts as one before: half if nothing tells (E,)."""
    unknown = (others == dates) | np.isnan(dates)
    return np.where(others < dates, 1.0, np.where(unknown, 0.5, 0.0))


def log_backgrounds(
    lineage: Lineage, values: Sequence[Array], groups: Index, rows: Index
) -> dict[int, tuple[Array, Array]]:
    """Return `Lineage.log_backgrounds` of these records, 0 of others; a stretch at a time."""
    n = len(groups)
    if lineage.backgrounds is None:
        return {}
    found = {c: (np.zeros(n), np.zeros(n)) for c in lineage.contrasted}
    for part in np.array_split(rows, -(-len(rows) * min(n, COMPARED) // _AT_ONCE) or 1):
        here = lineage.log_backgrounds(values, earlier_pairs(lineage, values, groups, part))
        for c, both in here.items():
            for whole, some in zip(found[c], both, strict=True):
                whole[part] = some[part]
    return found


def with_backgrounds(
    lineage: Lineage, values: Sequence[Array], groups: Index, columns: Sequence[int] | None = None
) -> Lineage:
    """Return the lineage with the best backgrounds of a table; see `Lineage.with_backgrounds`."""
    if not lineage.contrasted:
        return lineage
    rows = sample_by_cells(values, _CHOOSING)
    earlier = earlier_pairs(lineage, values, groups, rows)
    return lineage.with_backgrounds(values, earlier, columns)

"""In which order nodes leave, and which of them leave together: the fronts of an elimination.

A front is a dense matrix over the nodes that leave with it (K) and those they are joined to by
then (R, its boundary). What K hands on to R goes to the parent front. Components of few nodes are
one front each; larger ones are ordered by nested dissection (METIS), which keeps fronts small
where the graph has small separators, as neighbours in the plane or dates in a row do.

A plan is kept for the next elimination over the same edges. In EM the weights of a fixed list
change at every iteration and its pattern does not. The plan is most of the work there (METIS above
all), and depends on the pattern alone but for one thing: which node leaves last where there is one
root. So a plan carries what it was made for, and is taken again only where that is the same, array
by array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from outtrees._common.memory import check_memory
from outtrees.trees.sparse.components import Inner
from outtrees.trees.weights import Ints

_SMALL = 64  # components up to this size are one front: no order could gain anything
_DENSE = 0.3  # so are those in which this share of all pairs are possible edges
_PADDING = 0.15  # share of zeros that merging two fronts may bring


class Fronts(NamedTuple):
    """The plan of an elimination. Positions number nodes in the order in which they leave.

    A named tuple, since compiled code takes it as it is.
    """

    order: Ints  # (n,) the node at each position
    component: Ints  # (F,) of each front
    starts: Ints  # (F + 1,) the first position of each front
    above: Ints  # (F,) the front that each one hands on to, −1 if none
    head: Ints  # (F,) the first front that hands on to each one, −1 if none
    after: Ints  # (F,) the next front that hands on to the same one
    boundary_first: Ints  # (F + 1,) where each front's boundary starts in the next
    boundary: Ints  # positions, descending
    edge_first: Ints  # (F + 1,) where the edges that a front takes in start in the next three
    edge_row: Ints  # position of the child
    edge_col: Ints  # position of the parent
    edge: Ints  # its number
    factor_first: Ints  # (F + 1,) where each front's factors are kept
    stack_place: Ints  # (F,) where each front leaves what it hands on
    stack_height: int

    def with_places_of_their_own(self) -> Fronts:
        """Return the plan in which what a front hands on is kept, for the sampler to read."""
        r = np.diff(self.boundary_first)
        place = np.append(0, np.cumsum(r * (r + 1)))
        return self._replace(stack_place=place[:-1], stack_height=int(place[-1]))

    @property
    def n_numbers(self) -> int:
        """How many numbers an elimination keeps, and its largest front besides."""
        k = np.diff(self.starts)
        m = k + np.diff(self.boundary_first)
        largest = int((m * (m + 1)).max(initial=0))
        return int(self.factor_first[-1]) + self.stack_height + 3 * largest


@dataclass(frozen=True)
class Dissection:
    """The order of a pattern of edges before any node is asked to leave last."""

    first: Ints  # (n + 1,) the pattern: edges in rows (first, column)
    column: Ints
    component_first: Ints  # (C + 1,) nodes of a component are consecutive
    start: Ints  # (n + 1,) the pattern made symmetric
    neighbour: Ints
    whole: Ints  # components that are one front
    order: Ints  # (n,) the node at each position


def dissect(first: Ints, column: Ints, component_first: Ints) -> Dissection:
    """Return a fill-reducing order of each component."""
    start, neighbour = _symmetric_pattern(first, column)
    size = np.diff(component_first)
    edges = np.diff(first[component_first])
    large = (size > _SMALL) & (edges < _DENSE * size * (size - 1.0))
    order = np.arange(len(first) - 1)
    for c in np.flatnonzero(large):
        lo, hi = component_first[c], component_first[c + 1]
        order[lo:hi] = lo + _nested_dissection(start[lo : hi + 1], neighbour, lo)
    return Dissection(
        first, column, component_first, start, neighbour, np.flatnonzero(~large), order
    )


def lay_out(dissection: Dissection, last: Ints) -> Fronts:
    """Return the fronts; ``last`` (C,) leaves last in each component, −1 if it does not matter."""
    from outtrees.trees.sparse import order_kernels as kernels

    first, column, component_first = dissection.first, dissection.column, dissection.component_first
    start, neighbour, whole = dissection.start, dissection.neighbour, dissection.whole
    order = dissection.order.copy()
    for c in np.flatnonzero(last >= 0):
        _move_to_end(order[component_first[c] : component_first[c + 1]], int(last[c]))
    parent, _ = _tree(start, neighbour, order, component_first, whole)
    order = order[kernels.postorder(parent)]
    parent, count = _tree(start, neighbour, order, component_first, whole)
    starts = kernels.front_starts(parent, count, _PADDING, 8)
    front = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    top = parent[starts[1:] - 1]  # the parent of a front's last node is in the front above
    above = np.where(top >= 0, front[top], -1)
    position = _inverse(order)
    boundary_first, boundary = kernels.boundaries(
        start, neighbour, order, position, starts, above, count
    )
    k, r = np.diff(starts), np.diff(boundary_first)
    # Sorted here: compiled, sorting alone would take longer than all of this at the first call.
    boundary = boundary[np.lexsort((-boundary, np.repeat(np.arange(len(r)), r)))]
    component = np.searchsorted(component_first, starts[:-1], side="right") - 1
    head, after = kernels.child_lists(above)
    row = position[np.repeat(np.arange(len(first) - 1), np.diff(first))]
    col = position[column]
    taking = front[np.minimum(row, col)]  # an edge goes into the front of its earlier end
    edge = np.argsort(taking, kind="stable")
    factor_first = np.append(0, np.cumsum(k * (k + r + 1) + r * k))
    place, height = kernels.stack_places(above, boundary_first)
    return Fronts(
        order=order,
        component=component,
        starts=starts,
        above=above,
        head=head,
        after=after,
        boundary_first=boundary_first,
        boundary=boundary,
        edge_first=np.append(0, np.cumsum(np.bincount(taking, minlength=len(above)))),
        edge_row=row[edge],
        edge_col=col[edge],
        edge=edge,
        factor_first=factor_first,
        stack_place=place,
        stack_height=int(height),
    )


@dataclass(frozen=True)
class Plan:
    """The fronts of one problem, and what they depend on."""

    dissection: Dissection
    last: Ints  # (C,) the node that leaves last in each component, −1 if it does not matter
    fronts: Fronts


def planned(inner: Inner, earlier: Plan | None = None) -> Plan:
    """Return the plan of a problem; of an ``earlier`` one what still holds. The same either way."""
    last = _last(inner)
    if earlier is None or not _same_pattern(inner, earlier.dissection):
        dissection = dissect(inner.first, inner.column, inner.component_first)
    elif np.array_equal(last, earlier.last):
        return earlier
    else:
        dissection = earlier.dissection
    return Plan(dissection, last, lay_out(dissection, last))


def _last(inner: Inner) -> Ints:
    """Return who leaves last: a record in the densest place, see ``OutTreeDistribution``'s anchor.

    It matters in components with one root only.
    """
    last = np.full(len(inner.single), -1, dtype=np.intp)
    for c in np.flatnonzero(inner.single):
        lo, hi = inner.component_first[c : c + 2]
        last[c] = lo + int(inner.log_scale[lo:hi].argmax())
    return last


def _same_pattern(inner: Inner, earlier: Dissection) -> bool:
    """Return whether the possible edges within components are those of the earlier problem."""
    return (
        np.array_equal(inner.first, earlier.first)
        and np.array_equal(inner.component_first, earlier.component_first)
        and np.array_equal(inner.column, earlier.column)
    )


def refuse_too_large(fronts: Fronts, n: int, arrays: int = 1) -> None:
    """Raise MemoryError if the numbers of an elimination would not fit, before allocating them."""
    check_memory(
        f"the possible edges join {n:,} records so closely that their elimination needs",
        8 * arrays * fronts.n_numbers,
        "List fewer candidates for each record, or use dates or groups that keep records apart.",
    )


def _symmetric_pattern(first: Ints, column: Ints) -> tuple[Ints, Ints]:
    """Return the graph of β + βᵀ as rows without repetition: (first, neighbour)."""
    n = len(first) - 1
    row = np.repeat(np.arange(n), np.diff(first))
    end, other = np.column_stack([row, column]).ravel(), np.column_stack([column, row]).ravel()
    kept = np.sort(np.unique(end * n + other, return_index=True)[1])
    kept = kept[np.argsort(end[kept], kind="stable")]  # in the order in which edges name them
    return np.append(0, np.cumsum(np.bincount(end[kept], minlength=n))), other[kept]


def _tree(
    start: Ints, neighbour: Ints, order: Ints, component_first: Ints, whole: Ints
) -> tuple[Ints, Ints]:
    """Return the elimination tree, and how many nodes each one is joined to when it leaves.

    Components that are ``whole`` make one front: node after node, each joined to all that follow.
    """
    from outtrees.trees.sparse import order_kernels as kernels

    position = _inverse(order)
    parent = kernels.elimination_tree(start, neighbour, order, position)
    count = kernels.column_counts(start, neighbour, order, position, parent)
    component = np.repeat(np.arange(len(component_first) - 1), np.diff(component_first))
    one = np.flatnonzero(np.isin(component, whole))
    end = component_first[component[one] + 1]
    parent[one], count[one] = np.where(one + 1 < end, one + 1, -1), end - one
    return parent, count


def _nested_dissection(start: Ints, neighbour: Ints, offset: int) -> Ints:
    import pymetis

    adjacency = neighbour[start[0] : start[-1]] - offset
    order, _ = pymetis.nested_dissection(pymetis.CSRAdjacency(start - start[0], adjacency))
    return np.asarray(order, dtype=np.intp)


def _move_to_end(order: Ints, node: int) -> None:
    place = int(np.flatnonzero(order == node)[0])
    order[place:-1] = order[place + 1 :].copy()
    order[-1] = node


def _inverse(order: Ints) -> Ints:
    position = np.empty(len(order), dtype=np.intp)
    position[order] = np.arange(len(order))
    return position

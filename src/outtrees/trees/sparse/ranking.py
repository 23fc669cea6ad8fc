"""The best tree of a list of edges, certified by its own dual bound, and the k best.

Of the k best, each component is ranked by itself, and only where it matters. The next best tree of
all changes one record that is alone in its component, or one component, by as little as possible.
What that costs is found for all of them at once; the k best trees then change nothing but the k − 1
of them where it costs least.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import fsum
from typing import TYPE_CHECKING, Protocol

import numpy as np

from outtrees.trees.ranking import Solved, TreeSet, ranked, smallest_sums
from outtrees.trees.sparse.components import Bools
from outtrees.trees.weights import Floats, Ints

if TYPE_CHECKING:
    from outtrees.trees.sparse.trees import SparseTrees

# Edges (n,) of the best tree; gains of groups, what each lies in, and which each edge enters.
_Best = tuple[Ints, Floats, Ints, Ints]


def best_trees(
    trees: SparseTrees,
    edge_weight: Floats,  # (E,), −inf where an edge is not allowed
    root_weight: Floats,  # (T,)
) -> tuple[Ints, float]:
    """Return parents (T,), −1 at roots, of the largest total weight, and that weight.

    Records alone take their best edge; each component is a problem of its own, in which the edges
    that leave it count as one, the best of them.
    """
    from outtrees.trees.sparse import ranking_kernels as kernels

    edges, components = trees.edges, trees.components
    T = edges.n_records
    chosen, best = np.empty(T, dtype=np.intp), np.empty(T)
    kernels.best_outside(
        edges.start,
        edges.parent,
        edge_weight,
        root_weight,
        components.label,
        components.alone,
        chosen,
        best,
    )
    members = components.members
    if len(members):
        inner = trees.inner
        single = np.repeat(components.single, np.diff(components.first))
        inside, gain, _, _ = kernels.best_parents(
            inner.first, inner.column, edge_weight[inner.edge], best[members], single
        )
        takes = inside >= 0
        chosen[members[takes]] = inner.edge[inside[takes]]
        best[members[takes]] = edge_weight[inner.edge[inside[takes]]]
        weight, bound = fsum(best[members]), fsum(gain)
        scale = max(1.0, float(np.abs(gain).max()))
        if not abs(bound - weight) <= 1e-12 * scale * len(gain):
            raise ArithmeticError(
                f"the best tree weighs {weight} but the bound is {bound}: please report this as a "
                "bug"
            )
    parents = np.where(chosen >= 0, edges.parent[chosen] if len(edges.parent) else -1, -1)
    return parents, fsum(best)


def best_of_list(trees: SparseTrees, k: int) -> list[Ints]:
    """Return the parents (T,) of the k trees of largest weight, best first.

    O(E log T) once, and for each tree again in the component that it changes (times the depth to
    which its groups of records nest); memory O(E + k T).
    """
    from outtrees.trees.sparse.ranking_kernels import two_best

    edges, components = trees.edges, trees.components
    chosen, gap = np.full(edges.n_records, -1), np.full(edges.n_records, np.inf)
    log_root = components.log_root
    two_best(edges.start, edges.log_weight, log_root, components.alone, chosen, gap)
    rows = _rows(trees)
    if len(components.members):
        best = rows.best(rows.weight, rows.out_weight)
        inside = best[0]
        chosen[components.members] = np.where(inside >= 0, rows.edge[inside], -1)
        free = np.ones(len(inside), dtype=bool)
        losses = rows.changes(rows.weight, rows.out_weight, best, free)[0]
        gap = np.append(gap, losses)
    cheap = np.argsort(gap, kind="stable")[: k - 1]
    factors: list[_Factor] = [
        _Alone(trees, int(i)) if i < edges.n_records else _Component(rows, int(i - len(log_root)))
        for i in cheap[gap[cheap] < np.inf]
    ]
    found = []
    for places in islice(smallest_sums(len(factors), lambda i, j: factors[i].loss(j)), k):
        taken, place = chosen.copy(), dict(places)
        for i, factor in enumerate(factors):
            records, own = factor.edges(place.get(i, 0))
            taken[records] = own
        found.append(np.where(taken >= 0, edges.parent[taken], -1) if len(edges.parent) else taken)
    return found


class _Factor(Protocol):
    """Choices, the best one first, that do not depend on those of other factors."""

    def loss(self, j: int) -> float | None:
        """Return how much less the j-th weighs than the best; None if there is none."""

    def edges(self, j: int) -> tuple[Ints, Ints]:
        """Return the records, and the edge that each takes in the j-th choice, −1: a root."""


class _Alone:
    """A record that is its whole component."""

    def __init__(self, trees: SparseTrees, record: int) -> None:
        rows = trees.edges
        own = np.arange(rows.start[record], rows.start[record + 1])
        edge = np.append(-1, own)
        weight = np.append(trees.components.log_root[record], rows.log_weight[own])
        order = np.argsort(-weight, kind="stable")
        order = order[weight[order] > -np.inf]
        self._record, self._edge = np.array([record]), edge[order]
        self._loss = weight[order[0]] - weight[order]

    def loss(self, j: int) -> float | None:
        return float(self._loss[j]) if j < len(self._loss) else None

    def edges(self, j: int) -> tuple[Ints, Ints]:
        return self._record, self._edge[j : j + 1]


class _Component:
    """The trees of one component of several records, ranked as far as they are asked for."""

    def __init__(self, rows: _Rows, number: int) -> None:
        self._rows = rows.restricted(number)
        self._trees = ranked(self._rows.solve)
        self._known: list[tuple[Ints, float]] = []

    def _known_to(self, j: int) -> list[tuple[Ints, float]]:
        self._known.extend(islice(self._trees, max(0, j + 1 - len(self._known))))
        return self._known

    def loss(self, j: int) -> float | None:
        known = self._known_to(j)
        return known[0][1] - known[j][1] if j < len(known) else None

    def edges(self, j: int) -> tuple[Ints, Ints]:
        chosen = self._known_to(j)[j][0]
        return self._rows.members, np.where(chosen >= 0, self._rows.edge[chosen], -1)


@dataclass(frozen=True)
class _Rows:
    """All possible edges of the records in components of several, child by child.

    As `Inner`, but edges that leave a component stay apart, since each makes trees of its own.
    """

    members: Ints  # (n,)
    component: Ints  # (n,) numbered from 0
    first: Ints  # (n + 1,) where each node's edges start
    column: Ints  # (E,) the parent as a node, −1 outside of the component
    weight: Floats  # (E,)
    edge: Ints  # (E,) its number in the list
    out_weight: Floats  # (n,) of being a root
    single: Bools  # (n,) whether the component holds exactly one root

    def restricted(self, number: int) -> _Rows:
        """Return one component by itself."""
        low, high = np.searchsorted(self.component, [number, number + 1])
        nodes, edges = slice(low, high), slice(self.first[low], self.first[high])
        column = self.column[edges]
        return _Rows(
            self.members[nodes],
            np.zeros(high - low, dtype=np.intp),
            self.first[low : high + 1] - self.first[low],
            np.where(column >= 0, column - low, -1),
            self.weight[edges],
            self.edge[edges],
            self.out_weight[nodes],
            self.single[nodes],
        )

    def best(self, weight: Floats, out_weight: Floats) -> _Best:
        """Return the edges (n,) of the best tree (−1: a root), and what proves it the best."""
        from outtrees.trees.sparse.ranking_kernels import best_parents

        best: _Best = best_parents(self.first, self.column, weight, out_weight, self.single)
        return best

    def changes(
        self,
        weight: Floats,
        out_weight: Floats,
        best: _Best,
        free: Bools,  # (n,) whose edge may be given up
    ) -> tuple[Floats, Ints]:
        """Return each component's smallest loss by giving up one edge, and whose edge that is."""
        from outtrees.trees.sparse.ranking_kernels import cheapest_changes

        found: tuple[Floats, Ints] = cheapest_changes(
            self.first, self.column, weight, out_weight, self.single, *best, free, self.component
        )
        return found

    def solve(self, trees: TreeSet) -> Solved:
        """Return the best tree of a set, and what the second best would give up."""
        weight, out_weight = self.weight.copy(), self.out_weight.copy()
        free = np.ones(len(out_weight), dtype=bool)
        for child, edge in trees.barred:
            if edge < 0:
                out_weight[child] = -np.inf
            else:
                weight[edge] = -np.inf
        for child, edge in trees.kept:
            free[child] = False
            row = np.arange(self.first[child], self.first[child + 1])
            weight[row[row != edge]] = -np.inf
            if edge >= 0:
                out_weight[child] = -np.inf
            elif self.single[child]:  # no other is
                out_weight[np.arange(len(out_weight)) != child] = -np.inf
        best = self.best(weight, out_weight)
        chosen = best[0]
        losses, children = self.changes(weight, out_weight, best, free)
        child = int(children[0])
        total = fsum([*weight[chosen[chosen >= 0]], *out_weight[chosen < 0]])
        return Solved(chosen, total, float(losses[0]), (child, int(chosen[child])))


def _rows(trees: SparseTrees) -> _Rows:
    edges, components = trees.edges, trees.components
    members = components.members
    size = np.diff(components.first)
    place = np.zeros(edges.n_records, dtype=np.intp)
    place[members] = np.arange(len(members))
    degree = np.diff(edges.start)[members]
    first = np.append(0, np.cumsum(degree))
    edge = np.arange(first[-1]) + np.repeat(edges.start[:-1][members] - first[:-1], degree)
    child, parent = np.repeat(members, degree), edges.parent[edge]
    within = components.label[child] == components.label[parent]
    return _Rows(
        members,
        np.repeat(np.arange(len(size)), size),
        first,
        np.where(within, place[parent], -1),
        edges.log_weight[edge],
        edge,
        components.log_root[members],
        np.repeat(components.single, size),
    )

"""Candidate parents of the records of a table: the best by a lineage (kernels of its columns)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.types import Array
from outtrees.candidates.edges import OPEN, Constraints, PossibleEdges
from outtrees.candidates.links import Parts, linked
from outtrees.candidates.proposals import Proposals
from outtrees.candidates.scan import Scanner
from outtrees.candidates.windows import (
    Windows,
    in_order,
    possible_among,
    possible_pairs,
    windows_of,
    without_early,
)
from outtrees.models.columns import Contacts, EdgeWeights, Lineage

Index = NDArray[np.intp]

_WORTH_COMPILING = 500_000  # pairs; below, NumPy is done before a compiled loop is loaded
_MOST_PAIRS = 30_000_000_000  # beyond, not all of them are examined
_PAIRS_AT_ONCE = 500_000
_ROUNDS = 20  # of joining parts that no other part leads to
_FROM_EACH = 3  # records of such a part that get candidates outside
_EMPTY: Index = np.zeros(0, dtype=np.intp)


class Listed(NamedTuple):
    """Candidate parents of some records, by child, and how many were possible."""

    child: Index  # (E,)
    parent: Index  # (E,)
    possible: Index  # (n,), of each of the records


def best_parents(
    lineage: Lineage,
    values: Sequence[Array],  # one (T, D_c) for each column
    given: Constraints,
    n: int,
    children: Index | None = None,
    weights: EdgeWeights | None = None,
) -> Listed:
    """Return the n best possible parents of each record whose parent is not known.

    "Best" is by p(child | parent) of the lineage: exactly where there are few pairs, else by its
    quick form, which ranks cells with gaps, uncertain dates, counts and transitions roughly.
    O(pairs in the windows of the dates) time, O(records · n) memory. More than 3·10¹⁰ pairs are
    not all examined, only those that `Proposals` finds.
    """
    sought = given.open if children is None else children
    found = windows_of(lineage, values, given)
    weights = weights or EdgeWeights(lineage, values, given.groups)
    if found.sizes[sought].sum() > _MOST_PAIRS and Scanner.can(lineage):
        return _proposed(weights, given, n, sought, found)
    if found.sizes[sought].sum() <= _WORTH_COMPILING or not Scanner.can(lineage):
        return _exactly(weights, given, n, sought, found)
    best = Scanner(weights).best(sought, n, found, given)
    order = np.lexsort((best.parent, best.child))
    return Listed(
        best.child[order], best.parent[order], _less_forbidden(best.possible, sought, found, given)
    )


def _proposed(
    weights: EdgeWeights, given: Constraints, n: int, sought: Index, found: Windows
) -> Listed:
    lineage, values = weights.lineage, weights.values
    proposals = Proposals(lineage, values, found, 4 * n)
    step = max(1, _PAIRS_AT_ONCE // (12 * n))
    blocks = (sought[low : low + step] for low in range(0, len(sought), step))
    proposed = (proposals.pairs(block) for block in blocks)
    pairs = (possible_among(lineage, values, given, *some) for some in proposed)
    # All in the window count as possible: to decide would take as long as to examine them.
    early = 0 if without_early(lineage) else found.implausible
    possible = np.maximum((found.sizes + early)[sought] - 1, 0)
    return Listed(*_best_of(weights, pairs, n), possible)


def _best_of(
    weights: EdgeWeights, pairs: Iterable[tuple[Index, Index]], n: int
) -> tuple[Index, Index]:
    """Return the n best parents of each child, by lists that hold all of some children's."""
    best = [(_EMPTY, _EMPTY)]
    for child, parent in pairs:
        kept = among_best(child, parent, weights.log_beta(child, parent), n)
        best.append((child[kept], parent[kept]))
    children, parents = (np.concatenate(side) for side in zip(*best, strict=True))
    return children, parents


def _less_forbidden(possible: Index, sought: Index, found: Windows, given: Constraints) -> Index:
    """Return the numbers of possible parents without forbidden ones before the windows."""
    T = len(given.groups)
    child, parent = given.forbidden // T, given.forbidden % T
    place = np.empty(T, dtype=np.intp)
    place[found.order] = np.arange(T)
    before = (place[parent] >= found.undated[child]) & (place[parent] < found.low[child])
    return possible - np.bincount(child[before], minlength=T)[sought]


def _exactly(
    weights: EdgeWeights, given: Constraints, n: int, sought: Index, found: Windows
) -> Listed:
    lineage, values = weights.lineage, weights.values
    T = len(given.groups)
    possible = np.zeros(T, dtype=np.intp)

    def pairs() -> Iterator[tuple[Index, Index]]:
        for block in found.blocks(sought, _PAIRS_AT_ONCE):
            child, parent = possible_pairs(lineage, values, given, block, found)
            possible[:] += np.bincount(child, minlength=T)
            yield child, parent

    child, parent = _best_of(weights, pairs(), n)
    if not without_early(lineage):
        possible += found.implausible
        possible[sought] = _less_forbidden(possible[sought], sought, found, given)
    order = np.lexsort((parent, child))
    return Listed(child[order], parent[order], possible[sought])


def among_best(child: Index, parent: Index, score: Array, n: int) -> NDArray[np.bool_]:
    """Return which edges are among the n best of their child (E,); impossible ones never are."""
    order = np.lexsort((parent, -score, child))
    ordered = child[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    kept = np.zeros(len(child), dtype=bool)
    kept[order] = rank < n
    return kept & (score > -np.inf)


def table_candidates(
    lineage: Lineage, values: Sequence[Array], given: Constraints, n: int, roots: str = "single"
) -> PossibleEdges:
    """Return n candidate parents of each record, known parents always among them.

    With a single root in each group, parts of the records that would be reached from nowhere
    else get candidates outside themselves, if there are any.

    Examples
    --------
    >>> from outtrees.candidates import constraints
    >>> from outtrees.models.columns import Drift
    >>> cells = [np.array([[0.0], [1.0], [2.5], [9.0]])]
    >>> lineage = Lineage([Drift()]).start(cells)
    >>> edges = table_candidates(lineage, cells, constraints(4), 1, roots="any")
    >>> list(zip(edges.child.tolist(), edges.parent.tolist()))
    [(0, 1), (1, 0), (2, 1), (3, 2)]
    """
    weights = EdgeWeights(lineage, values, given.groups)
    listed = best_parents(lineage, values, given, n, weights=weights)
    known_child, known_parent = given.known_edges()
    kept = in_order(lineage, values, known_child, known_parent)
    met_child, met_parent = _met(weights, given, n)
    child = np.concatenate([listed.child, met_child, known_child[kept]])
    parent = np.concatenate([listed.parent, met_parent, known_parent[kept]])
    child, parent = np.divmod(np.unique(child * len(given.groups) + parent), len(given.groups))
    choices = np.zeros(len(given.groups), dtype=np.intp)
    choices[given.open] = listed.possible
    choices[known_child[kept]] = 1
    if roots == "single":
        links = _TableLinks(weights, given, n)
        child, parent = linked(child, parent, len(given.groups), links, _ROUNDS)
    order = np.lexsort((parent, child))
    return given.edges(child[order], parent[order], choices)


def _met(weights: EdgeWeights, given: Constraints, n: int) -> tuple[Index, Index]:
    """Return the pairs that are known to have met, which the quick form does not weigh.

    All of them, but of a record that met more than 4 n others only the best.
    """
    lineage, values = weights.lineage, weights.values
    found = [(_EMPTY, _EMPTY)]
    for c in lineage.used:
        kernel = lineage.kernels[c]
        if isinstance(kernel, Contacts):
            place = np.empty(kernel.n_records, dtype=np.intp)
            place[values[c][:, 0].astype(np.intp)] = np.arange(len(values[c]))
            child, parent = (place[side] for side in kernel.known_pairs)
            kept = given.known[child] == OPEN
            found.append(possible_among(lineage, values, given, child[kept], parent[kept]))
    child, parent = (np.concatenate(side) for side in zip(*found, strict=True))
    return _best_of(weights, [(child, parent)] if len(child) else [], 4 * n)


class _TableLinks:
    """Links to parts of a group that nothing else leads to, but for the part with the root."""

    def __init__(self, weights: EdgeWeights, given: Constraints, n: int) -> None:
        self._weights, self._given, self._n = weights, given, n
        self._windows = windows_of(weights.lineage, weights.values, given, all_possible=True)

    def __call__(self, child: Index, parent: Index, parts: Parts) -> tuple[Index, Index]:
        lineage, values = self._weights.lineage, self._weights.values

        def outside() -> Iterator[tuple[Index, Index]]:
            for block in self._windows.blocks(self._sought(parts), _PAIRS_AT_ONCE):
                u, v = possible_pairs(lineage, values, self._given, block, self._windows)
                other = parts.part[u] != parts.part[v]
                yield u[other], v[other]

        return _best_of(self._weights, outside(), self._n)

    def _sought(self, parts: Parts) -> Index:
        """Return the earliest few records of each closed part that does not hold the root.

        The part that holds it, in each group, is that of the earliest record that may be a root.
        """
        part, closed = parts.part, parts.closed.copy()
        order, given = self._windows.order, self._given  # by group, the earliest first
        may = order[closed[part[order]] & given.root_allowed[order]]
        groups = given.groups[may]
        closed[part[may[np.append(True, groups[1:] != groups[:-1])[: len(may)]]]] = False
        lone = order[closed[part[order]]]
        by_part = lone[np.argsort(part[lone], kind="stable")]
        parts_there = part[by_part]
        rank = np.arange(len(by_part)) - np.searchsorted(parts_there, parts_there)
        kept = (rank < _FROM_EACH) & (given.known[by_part] == OPEN)
        return np.asarray(by_part[kept], dtype=np.intp)

"""Which records may descend from which, by what the user knows: groups, parents, pairs, roots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.cycles import cycle_of
from outtrees._common.edges import EdgeList, within_runs
from outtrees._common.types import Array
from outtrees.errors import NoSpanningTreeError
from outtrees.trees import OutTreeDistribution

Index = NDArray[np.intp]
OPEN, ROOT = -2, -1  # the parent is not known; the record has none


@dataclass(frozen=True, eq=False)
class PossibleEdges(EdgeList):
    """Which records may descend from which, and which may be roots."""

    root_allowed: NDArray[np.bool_]  # (T,)
    groups: Index  # (T,)
    # How many possible parents each record has, listed or not (T,); None: all are listed.
    choices: Index | None = None

    def trees(
        self, log_weight: Array, log_root: Array, roots: Literal["single", "any"], **engine: Any
    ) -> OutTreeDistribution:
        """Return the distribution over trees with these log-weights of edges (E,) and roots (T,).

        `engine` holds options of `OutTreeDistribution.from_candidates`.
        """
        log_root = np.where(self.root_allowed, log_root, -np.inf)
        return OutTreeDistribution.from_candidates(
            self.child, self.parent, log_weight, log_root, groups=self.groups, roots=roots, **engine
        )

    def only(self, kept: NDArray[np.bool_] | Index) -> PossibleEdges:
        """Return the list with some edges left out, or in another order."""
        return replace(self, child=self.child[kept], parent=self.parent[kept])


class Constraints(NamedTuple):
    """What is known of the edges beforehand, in O(T + constraints) memory."""

    groups: Index  # (T,)
    root_allowed: NDArray[np.bool_]  # (T,)
    known: Index  # (T,), the known parent, −1 if the record has none, −2 if it is open
    forbidden: NDArray[np.int64]  # (F,), child · T + parent of each forbidden pair, sorted

    def allows(self, child: Index, parent: Index) -> NDArray[np.bool_]:
        """Return which edges are possible (E,)."""
        T = len(self.groups)
        known = self.known[child]
        allowed: NDArray[np.bool_] = child != parent
        allowed &= self.groups[child] == self.groups[parent]
        allowed &= (known == OPEN) | (known == parent)
        if len(self.forbidden):
            allowed &= ~np.isin(child.astype(np.int64) * T + parent, self.forbidden)
        return allowed

    @property
    def open(self) -> Index:
        """The records whose parents are not known."""
        return np.flatnonzero(self.known == OPEN)

    def in_order(self, order: Index) -> Constraints:
        """Return the constraints of the same records in another order.

        Examples
        --------
        >>> constraints(3, known_parents={2: 0}).in_order(np.array([2, 1, 0])).known.tolist()
        [2, -2, -2]
        """
        T, known = len(order), self.known[order]
        place = np.empty(T, dtype=np.intp)
        place[order] = np.arange(T)
        child, parent = place[self.forbidden // T], place[self.forbidden % T]
        return Constraints(
            self.groups[order],
            self.root_allowed[order],
            np.where(known >= 0, place[np.maximum(known, 0)], known),
            np.sort(child.astype(np.int64) * T + parent),
        )

    def edges(self, child: Index, parent: Index, choices: Index | None = None) -> PossibleEdges:
        """Return a list of possible edges under these constraints."""
        T = len(self.groups)
        return PossibleEdges(child, parent, T, self.root_allowed, self.groups, choices)

    def known_edges(self) -> tuple[Index, Index]:
        """Return the edges that are known for certain, as children and parents."""
        child = np.flatnonzero(self.known >= 0)
        return child, self.known[child]


def constraints(
    n_samples: int,
    groups: Index | None = None,  # (T,)
    known_parents: Mapping[int, int] | None = None,
    forbidden: Iterable[tuple[int, int]] = (),
    root: int | None = None,
    names: Sequence[str] | None = None,
) -> Constraints:
    """Return the constraints, checked against each other.

    Parameters
    ----------
    known_parents : mapping of int to int
        From a child to its parent, −1 for a record known to be a root.
    forbidden : pairs (child, parent)
        With parent −1: the child cannot be a root.
    root : int, optional
        The one root of its group.
    names : sequence of str, optional
        What errors call the records (T,), by default their numbers.

    Raises
    ------
    NoSpanningTreeError
        If constraints contradict each other.
    ValueError
        If a constraint names a record that does not exist.

    Examples
    --------
    >>> edges = all_edges(constraints(3, known_parents={2: 0}, root=0))
    >>> list(zip(edges.child.tolist(), edges.parent.tolist()))
    [(1, 0), (1, 2), (2, 0)]
    """

    def called(record: int | None) -> str:
        return str(record) if names is None or record is None else repr(names[record])

    codes = np.zeros(n_samples, dtype=np.intp) if groups is None else np.asarray(groups)
    root_allowed = np.ones(n_samples, dtype=bool)
    parent_of = np.full(n_samples, OPEN, dtype=np.intp)
    known, pairs = dict(known_parents or {}), list(forbidden)
    _check_named(n_samples, [*known.items(), *pairs, (0 if root is None else root, -1)])
    for child, parent in pairs:
        if parent < 0:
            root_allowed[child] = False
    ruled_out = {pair for pair in pairs if pair[1] >= 0}
    if root is not None:
        if not root_allowed[root]:
            raise NoSpanningTreeError(
                f"record {called(root)} is given as the root, but forbidden as a root; drop one of "
                "the two.",
                records=[root],
            )
        parent_of[root] = ROOT
        root_allowed[codes == codes[root]] = False
        root_allowed[root] = True
    for child, parent in known.items():
        if parent < 0 and not root_allowed[child]:
            raise NoSpanningTreeError(
                f"record {called(child)} is known to be a root, but forbidden as a root, or record "
                f"{called(root)} is given as the one root of its group; drop one of the two.",
                records=[child],
            )
        why = _why_not(child, parent, root, codes, ruled_out) if parent >= 0 else ""
        if why:
            raise NoSpanningTreeError(
                f"record {called(parent)} is given as the parent of record {called(child)}, but "
                f"{why}; drop one of the two.",
                records=[child, parent],
            )
        parent_of[child] = max(parent, ROOT)
        root_allowed[child] = parent < 0
    cycle = cycle_of(known)
    if cycle:
        raise NoSpanningTreeError(
            "the known parents form a cycle, "
            f"{' → '.join(called(u) for u in [cycle[0], *reversed(cycle)])}; drop one of them.",
            records=cycle,
        )
    coded = np.array(sorted(u * n_samples + v for u, v in ruled_out), dtype=np.int64)
    return Constraints(codes, root_allowed, parent_of, coded)


def all_edges(given: Constraints) -> PossibleEdges:
    """Return all edges that the constraints leave, by child and then parent; O(edges)."""
    T = len(given.groups)
    number, sizes = np.unique(given.groups, return_inverse=True, return_counts=True)[1:]
    number = number.ravel()
    members = np.argsort(number, kind="stable")
    begins = np.cumsum(sizes) - sizes
    mates = sizes[number]  # (T,), of each record's group
    child = np.repeat(np.arange(T), mates)
    parent = members[begins[number[child]] + within_runs(mates)]
    kept = given.allows(child, parent)
    return given.edges(child[kept], parent[kept])


def _check_named(n_samples: int, named: Iterable[tuple[int, int]]) -> None:
    for child, parent in named:
        if not (0 <= child < n_samples and -1 <= parent < n_samples):
            raise ValueError(
                f"records 0 … {n_samples - 1} must be given, with parents −1 (a root) … "
                f"{n_samples - 1}; got child {child} with parent {parent}. Correct the pair."
            )


def _why_not(
    child: int, parent: int, root: int | None, codes: Index, forbidden: set[tuple[int, int]]
) -> str:
    """Return why a pair is impossible, an empty string if it is possible."""
    if child == parent:
        return "no record is its own parent"
    if child == root:
        return "the child is given as the root"
    if codes[child] != codes[parent]:
        return "they are in different groups"
    return "that pair is forbidden" if (child, parent) in forbidden else ""

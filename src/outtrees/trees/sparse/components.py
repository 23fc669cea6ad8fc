"""A checked list of possible edges, child by child, and the independent problems it falls into.

These are the strongly connected components of "may descend from". Seen from a component, all edges
to the outside are one: they end where a forest's roots end. So every component is a forest problem
of its own, in which "root" means "takes its parent outside" (or is a root), and Z is the product.
Where one root is asked for, it lies in the one component that no edge leaves, which is then a
single-root problem.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from outtrees.errors import NoSpanningTreeError
from outtrees.trees.edges import listed_twice, no_record, own_parent
from outtrees.trees.support import listed, separate_groups
from outtrees.trees.weights import Floats, Ints, refuse_infinite, refuse_wide, smallest_finite

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class EdgeRows:
    """Edges in order of their child; ``order`` takes that order to the caller's."""

    start: Ints  # (T + 1,) where each child's edges start
    parent: Ints  # (E,)
    log_weight: Floats  # (E,)
    log_root: Floats  # (T,)
    order: Ints | None  # (E,) None where the caller's order was this one
    forward: bool  # every parent comes before its child: no cycles
    some_impossible: bool  # some log-weight is −inf

    @property
    def n_records(self) -> int:
        """T."""
        return len(self.log_root)

    def as_listed(self, values: Floats) -> Floats:
        """Return values for each edge in the caller's order."""
        if self.order is None:
            return values
        result = np.empty_like(values)
        result[self.order] = values
        return result

    def possible_parents(self) -> Ints:
        """Return how many parents each record may have (T,)."""
        return np.diff(self.possible()[0])

    def possible(self) -> tuple[Ints, Ints]:
        """Return (start, parent) of the edges above −inf."""
        if not self.some_impossible:
            return self.start, self.parent
        keep = self.log_weight > -np.inf
        start = np.append(0, np.cumsum(keep))[self.start]
        return start, self.parent[keep]


@dataclass(frozen=True)
class Components:
    """Who belongs together. Components of one record need no more than its own row."""

    label: Ints  # (T,)
    alone: Bools  # (T,) whether a record is its whole component
    members: Ints  # (n,) the others, component by component
    first: Ints  # (C + 1,) where each component of several starts in ``members``
    single: Bools  # (C,) whether it holds the one root of its group
    log_root: Floats  # (T,) of being a root, −inf where only others can hold the one root


@dataclass(frozen=True)
class Inner:
    """The edges within components of several records, numbered as in ``members``."""

    component_first: Ints  # (C + 1,) where each component's nodes start
    single: Bools  # (C,) whether it holds the one root of its group
    first: Ints  # (n + 1,) where each node's edges start
    column: Ints  # the parent
    log_weight: Floats
    edge: Ints  # its number in the edge list
    log_out: Floats  # (n,) log-sum of what leads out of the component, or of being its one root
    log_scale: Floats  # (n,) the largest log-weight

    @property
    def component(self) -> Ints:
        """(n,) the component of each node."""
        return np.repeat(np.arange(len(self.single)), np.diff(self.component_first))

    @property
    def row(self) -> Ints:
        """(E,) the child of each edge."""
        return np.repeat(np.arange(len(self.log_out)), np.diff(self.first))

    def restricted(self, kept: Bools) -> tuple[Inner, Bools, Bools]:
        """Return the problem of some components alone, which nodes and which edges these are."""
        nodes = kept[self.component]
        edges = nodes[self.row]
        number = np.cumsum(nodes) - 1
        inner = Inner(
            np.append(0, np.cumsum(np.diff(self.component_first)[kept])),
            self.single[kept],
            np.append(0, np.cumsum(np.diff(self.first)[nodes])),
            number[self.column[edges]],
            self.log_weight[edges],
            self.edge[edges],
            self.log_out[nodes],
            self.log_scale[nodes],
        )
        return inner, nodes, edges


def checked_edges(child: Ints, parent: Ints, log_weight: Floats, log_root: Floats) -> EdgeRows:
    """Return the edges child by child, or say in one sentence what is wrong. O(E)."""
    from outtrees.trees.sparse import edge_kernels as kernels

    T = len(log_root)
    problem, edge, in_order, forward, some_impossible, low, high = kernels.inspect(
        child, parent, log_weight, T
    )
    if problem == kernels.BAD_WEIGHT:
        refuse_infinite(log_weight, np.inf, "log_weight")
    elif problem == kernels.SELF:
        raise own_parent(edge, child[edge])
    elif problem:
        outside = problem == kernels.OUTSIDE_CHILD
        name, ends = ("child", child) if outside else ("parent", parent)
        raise no_record(name, ends[edge], T)
    refuse_infinite(log_root, log_root.max(), "log_root")
    refuse_wide(min(low, smallest_finite(log_root)), max(high, log_root.max()), T)
    start = np.append(0, np.cumsum(np.bincount(child, minlength=T)))
    order = None
    if not in_order:
        order = np.argsort(child, kind="stable")
        parent, log_weight = parent[order], log_weight[order]
    twice = kernels.first_duplicate(start, parent)
    if twice >= 0:
        u = int(np.searchsorted(start, twice, side="right")) - 1
        raise listed_twice(u, parent[twice])
    return EdgeRows(start, parent, log_weight, log_root, order, forward, some_impossible)


def find_components(edges: EdgeRows, roots: str, groups: Ints | None) -> Components:
    """Return the components, or say which records cannot be spanned."""
    label = _labels(edges)
    size = np.bincount(label)
    closed = np.ones(len(size), dtype=bool)
    if len(size) == edges.n_records:
        closed[label[edges.possible_parents() > 0]] = False
    else:
        start, parent = edges.possible()
        child = np.repeat(np.arange(edges.n_records), np.diff(start))
        closed[label[child[label[child] != label[parent]]]] = False
    _require_roots(edges, label, closed, roots, groups)
    alone = size[label] == 1
    members = np.flatnonzero(~alone)
    members = members[np.argsort(label[members], kind="stable")]
    kept, first = np.unique(label[members], return_index=True)
    single = closed[kept] & (roots == "single")
    log_root = edges.log_root
    if roots == "single":
        log_root = np.where(closed[label], log_root, -np.inf)
    return Components(label, alone, members, np.append(first, len(members)), single, log_root)


def _labels(edges: EdgeRows) -> Ints:
    """Return the number of each record's component (T,)."""
    from outtrees.trees.sparse.edge_kernels import without_heirs

    T = edges.n_records
    if edges.forward:
        return np.arange(T)
    free = without_heirs(edges.start, edges.parent, edges.log_weight)
    if free.all():
        return np.arange(T)
    # The others' rows alone: cutting off who has no heirs takes no cycle apart.
    start, parent = edges.possible()
    degree = np.where(free, 0, np.diff(start))
    kept = np.repeat(~free, np.diff(start))
    graph = csr_array(
        (
            np.ones(int(degree.sum()), dtype=np.int8),
            parent[kept].astype(np.int32),
            np.append(0, np.cumsum(degree)).astype(np.int32),
        ),
        shape=(T, T),
    )
    label = connected_components(graph, directed=True, connection="strong")[1]
    return np.asarray(label, dtype=np.intp)


def _require_roots(
    edges: EdgeRows, label: Ints, closed: Bools, roots: str, groups: Ints | None
) -> None:
    """Raise unless every component that no edge leaves can hold a root, one in each group."""
    holds_root = np.zeros(len(closed), dtype=bool)
    holds_root[label[edges.log_root > -np.inf]] = True
    lost = np.flatnonzero(closed & ~holds_root)
    if roots == "single":
        group = np.zeros(len(closed), dtype=np.intp)
        if groups is not None:
            group[label] = groups
        counts = np.bincount(group[closed])
        several = np.flatnonzero(counts > 1)
        if len(several):
            classes = np.flatnonzero(closed & (group == several[0]))
            raise separate_groups([np.flatnonzero(label == c) for c in classes])
    if len(lost):
        members = np.flatnonzero(label == lost[0])
        others = f" (and {len(lost) - 1} more such groups)" if len(lost) > 1 else ""
        raise NoSpanningTreeError(
            f"{listed(members)}{others} can only descend from each other, but log_root is -inf "
            "there; allow one of them as root, or allow it another parent",
            cause="excluded roots",
            records=members.tolist(),
        )


def inner_problem(edges: EdgeRows, components: Components) -> Inner:
    """Return the edges within components and what leads out of them."""
    from outtrees.trees.sparse.edge_kernels import split_rows

    members = components.members
    place = np.zeros(edges.n_records, dtype=np.intp)
    place[members] = np.arange(len(members))
    single = np.repeat(components.single, np.diff(components.first))
    return Inner(
        components.first,
        components.single,
        *split_rows(
            edges.start,
            edges.parent,
            edges.log_weight,
            components.log_root,
            components.label,
            members,
            place,
            single,
        ),
    )

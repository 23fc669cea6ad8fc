"""A checked list of possible edges, child by child."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outtrees.errors import InvalidWeightsError
from outtrees.trees.weights import LARGEST_TREE_SPREAD, Floats, Ints


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


def checked_edges(child: Ints, parent: Ints, log_weight: Floats, log_root: Floats) -> EdgeRows:
    """Return the edges child by child, or say in one sentence what is wrong. O(E)."""
    from outtrees.trees.sparse import edge_kernels as kernels

    T = len(log_root)
    problem, edge, in_order, forward, some_impossible, low, high = kernels.inspect(
        child, parent, log_weight, T
    )
    if problem:
        raise InvalidWeightsError(_sentence(problem, edge, child, parent, log_weight, T))
    if not (log_root < np.inf).all():
        place = int(np.flatnonzero(~(log_root < np.inf))[0])
        raise InvalidWeightsError(
            f"log_root[{place}] is {log_root[place]}; every log-weight must be below inf: use -inf "
            "for 0"
        )
    finite = log_root[log_root > -np.inf]
    low, high = min(low, finite.min(initial=0.0)), max(high, finite.max(initial=0.0))
    if T * (high - low) > LARGEST_TREE_SPREAD:
        raise InvalidWeightsError(
            f"the log-weights span {high - low:.3g}, too wide for {T} records: at that size a "
            "double no longer tells one nat from the next; use -inf for edges that are not allowed"
        )
    start = kernels.row_starts(child, T)
    order = None
    if not in_order:
        order = kernels.order_by_child(child, start)
        parent, log_weight = parent[order], log_weight[order]
    twice = kernels.first_duplicate(start, parent)
    if twice >= 0:
        u = int(np.searchsorted(start, twice, side="right")) - 1
        raise InvalidWeightsError(
            f"each edge is expected once, but {parent[twice]} → {u} is listed several times; add "
            "up its weights"
        )
    return EdgeRows(start, parent, log_weight, log_root, order, forward, some_impossible)


def _sentence(
    problem: int, edge: int, child: Ints, parent: Ints, log_weight: Floats, T: int
) -> str:
    from outtrees.trees.sparse import edge_kernels as kernels

    if problem == kernels.BAD_WEIGHT:
        return (
            f"log_weight[{edge}] is {log_weight[edge]}; every log-weight must be below inf: use "
            "-inf for an edge that is not allowed"
        )
    if problem == kernels.SELF:
        return f"edge {edge} makes record {child[edge]} its own parent; leave it out"
    name, ends = ("child", child) if problem == kernels.OUTSIDE_CHILD else ("parent", parent)
    return (
        f"{name} must hold records 0 … {T - 1}; got {ends[edge]}. What a root weighs goes into "
        "log_root"
    )

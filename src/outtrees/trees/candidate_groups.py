"""The out-trees of a list of edges solved densely, group by group: for few records."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from outtrees.errors import InvalidWeightsError, NoSpanningTreeError
from outtrees.trees.distribution import OutTreeDistribution
from outtrees.trees.weights import Floats, Ints


class DenseGroups:
    """One `OutTreeDistribution` for each group: O(n³) time and O(n²) memory in its size n."""

    def __init__(
        self,
        child: Ints,
        parent: Ints,
        log_weight: Floats,
        log_root: Floats,
        roots: Literal["single", "any"],
        groups: Ints,  # (T,) numbered from 0
    ) -> None:
        _check_edges(child, parent, len(log_root))
        self._child, self._parent = child, parent
        self._roots = roots
        T = len(log_root)
        order = np.argsort(groups, kind="stable")
        ends = np.cumsum(np.bincount(groups, minlength=1))[:-1]
        self._members: list[NDArray[np.intp]] = np.split(order, ends)
        self._place: Ints = np.empty(T, dtype=np.intp)  # of a record within its group
        for members in self._members:
            self._place[members] = np.arange(len(members))
        by_group = np.argsort(groups[child], kind="stable")
        counts = np.bincount(groups[child], minlength=len(self._members))
        self._edges: list[NDArray[np.intp]] = np.split(by_group, np.cumsum(counts)[:-1])
        self.parts: list[OutTreeDistribution] = self._solved(log_weight, log_root)

    def _solved(self, log_weight: Floats, log_root: Floats) -> list[OutTreeDistribution]:
        """Return one distribution for each group."""
        parts = []
        for members, edges in zip(self._members, self._edges, strict=True):
            n = len(members)
            log_beta = np.full((n, n), -np.inf)
            ends = self._place[self._child[edges]], self._place[self._parent[edges]]
            log_beta[ends] = log_weight[edges]
            try:
                parts.append(OutTreeDistribution(log_beta, log_root[members], roots=self._roots))
            except NoSpanningTreeError as error:
                raise self._renamed(error, members) from error
        return parts

    def _renamed(self, error: NoSpanningTreeError, members: Ints) -> NoSpanningTreeError:
        if len(self._members) == 1:
            return error
        names = ", ".join(str(int(i)) for i in members[:8])
        more = ", …" if len(members) > 8 else ""
        return NoSpanningTreeError(
            f"in the group of records {names}{more} (numbered 0, 1, … in what follows): {error}"
        )

    def log_z_parts(self) -> list[float]:
        """Return numbers that sum to log Z."""
        return [part.log_z for part in self.parts]

    @property
    def log_z(self) -> float:
        """Log of the sum of all tree weights."""
        return float(np.sum(self.log_z_parts()))

    @cached_property
    def marginals(self) -> tuple[Floats, Floats]:
        """P(edge) of each listed edge (E,), and P(root) of each record (T,)."""
        edge, root = np.empty(len(self._child)), np.empty(len(self._place))
        for part, members, edges in zip(self.parts, self._members, self._edges, strict=True):
            ends = self._place[self._child[edges]], self._place[self._parent[edges]]
            edge[edges] = part.edge_marginals[ends]
            root[members] = part.root_marginals
        return edge, root

    @property
    def entropy(self) -> float:
        """Entropy of the distribution over all trees, in nats."""
        return float(np.sum([part.entropy for part in self.parts]))

    def log_z_rooted(self) -> Floats:
        """Return the log-sum of the trees in which r is the root of its group, without ρ_r (T,)."""
        result = np.empty(len(self._place))
        for part, members in zip(self.parts, self._members, strict=True):
            result[members] = part.log_z_rooted + (self.log_z - part.log_z)
        return result

    def mode(self) -> Ints:
        """Return the parents (T,) in the most probable tree."""
        return self.joined([part.mode().parents for part in self.parts])

    def consensus(self) -> tuple[Ints, float]:
        """Return the parents (T,) with the most expected right ones, and how many."""
        best = [part.consensus() for part in self.parts]
        right = float(np.sum([tree.expected_right for tree in best]))
        return self.joined([tree.parents for tree in best]), right

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Return n trees as parents (n, T), −1 at roots."""
        result = np.empty((n, len(self._place)), dtype=np.intp)
        for part, members in zip(self.parts, self._members, strict=True):
            local = part.sample(n, random_state=int(rng.integers(2**63)))
            result[:, members] = np.where(local >= 0, members[local], -1)
        return result

    def number_of_roots(self) -> Floats:
        """Return the probabilities of 0, 1, 2, … roots in all groups together."""
        total = np.ones(1)
        for part in self.parts:
            one = part.number_of_roots() if self._roots == "any" else np.array([0.0, 1.0])
            total = np.convolve(total, one)
        return total

    def joined(self, per_group: list[Ints]) -> Ints:
        """Return parents (T,) from those within each group."""
        parents = np.empty(len(self._place), dtype=np.intp)
        for members, local in zip(self._members, per_group, strict=True):
            parents[members] = np.where(local >= 0, members[local], -1)
        return parents


def _check_edges(child: Ints, parent: Ints, T: int) -> None:
    """Raise where an edge is listed twice or names what is no record, as `checked_edges` does."""
    for name, ends in (("child", child), ("parent", parent)):
        outside = np.flatnonzero((ends < 0) | (ends >= T))
        if len(outside):
            raise InvalidWeightsError(
                f"{name} must hold records 0 … {T - 1}; got {ends[outside[0]]}. What a root "
                "weighs goes into log_root"
            )
    if (child == parent).any():
        edge = int(np.flatnonzero(child == parent)[0])
        raise InvalidWeightsError(
            f"edge {edge} makes record {child[edge]} its own parent; leave it out"
        )
    edge, times = np.unique(child * T + parent, return_counts=True)
    if (times > 1).any():
        u, v = divmod(int(edge[times > 1][0]), T)
        raise InvalidWeightsError(
            f"each edge is expected once, but {v} → {u} is listed several times; add up its weights"
        )

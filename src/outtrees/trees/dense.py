"""The dense engine: sums over the out-trees of a matrix of weights, O(n³) time and O(n²) memory.

`DenseTrees` is one matrix. `DenseGroups` is a list of edges, one matrix for each of its groups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import islice
from math import fsum

import numpy as np
from numpy.typing import NDArray

from outtrees.trees import elimination, extended, support, weights
from outtrees.trees.arborescence import certified_arborescence, total_weight
from outtrees.trees.edges import ListedEdges, listed_twice, no_record, own_parent
from outtrees.trees.probabilities import (
    root_count_distribution,
    root_counts_drawn,
    settled,
    too_many_for_eigenvalues,
    weighted,
)
from outtrees.trees.ranking import ranked_arborescences, smallest_sums
from outtrees.trees.sampling import SamplingTables, sampling_tables
from outtrees.trees.weights import Floats, Ints, Weights


class DenseTrees:
    """The out-trees, or forests, of one matrix.

    A forest is summed as a tree with one more node: records begin at index ``lifted`` of the
    nodes, 1 if node 0 is the virtual root of a forest, else 0. ``records`` (T,) is what errors call
    the records, their numbers if not given.
    """

    plan = None  # nothing is kept for the next sums over the same edges

    def __init__(self, checked: Weights, roots: str, records: Ints | None = None) -> None:
        self.lifted = int(roots == "any")
        if self.lifted:
            self.weights = weights.lift(checked)
            support.require_rooted(self.weights, records)
            self._possible_roots = np.array([0])
        else:
            self.weights = checked
            self._possible_roots = support.possible_roots(checked, records)

    @property
    def log_beta(self) -> Floats:
        """Log-weights of the records' edges, (T, T) [child, parent], −inf on the diagonal."""
        return self.weights.log_beta[self.lifted :, self.lifted :]

    @property
    def log_root(self) -> Floats:
        """Log-weights of the records as roots, (T,)."""
        return self.weights.log_beta[1:, 0] if self.lifted else self.weights.log_root

    @cached_property
    def anchor(self) -> int:
        """The node that stays last: the densest possible root.

        Where β is symmetric, Z_r in scaled weights is proportional to the scale of row r, so
        the largest scale keeps every ratio Z_r / Z_anchor below one.
        """
        scales = self.weights.log_scale[self._possible_roots]
        return int(self._possible_roots[scales.argmax()])

    @cached_property
    def elimination(self) -> elimination.Elimination | extended.ExtendedElimination:
        """The forward pass, in the extended range where a double's does not do."""
        in_range = elimination.eliminate(self.weights, self.anchor)
        return in_range or extended.eliminate(self.weights, self.anchor)

    @cached_property
    def tables(self) -> SamplingTables:
        """What the sampler looks up."""
        return sampling_tables(self.elimination)

    @cached_property
    def _of_nodes(self) -> tuple[Floats, Floats]:
        """P(edge) (n, n) and P(root) (n,) of the nodes."""
        return self.elimination.marginals()

    def log_z_parts(self) -> list[float]:
        """Return numbers that sum to log Z: rounded to one, the scales would cost it digits."""
        e = self.elimination
        return [e.log_z_scaled, *e.log_scale, e.root_shift]

    @cached_property
    def log_z(self) -> float:
        """Log of the sum of all tree weights."""
        return fsum(self.log_z_parts())

    def log_z_rooted(self) -> Floats:
        """Return log Z_r of the trees with the single root r, without ρ_r (T,)."""
        rooted = self.elimination.log_z_rooted(self._possible_roots)
        if rooted is None:
            wide = extended.eliminate(self.weights, self.anchor)
            rooted = wide.log_z_rooted(self._possible_roots)
        return rooted

    @cached_property
    def marginals(self) -> tuple[Floats, Floats]:
        """P(edge) (T, T) and P(root) (T,)."""
        edge, root = self._of_nodes
        return edge[self.lifted :, self.lifted :], edge[1:, 0] if self.lifted else root

    @property
    def entropy(self) -> float:
        """Entropy of the tree in nats: log Z minus the expected log-weight."""
        e = self.elimination
        edge, root = self._of_nodes
        # Scaled weights: the scaling constants would only cancel, taking digits with them.
        log_scaled = self.weights.log_beta - e.log_scale[:, None]
        log_rho = self.weights.log_root - e.log_scale - e.root_shift
        return fsum(
            [
                e.log_z_scaled,
                *-weighted(edge, log_scaled).sum(axis=1),
                *-weighted(root, log_rho),
            ]
        )

    def number_of_roots(self) -> Floats:
        """Return P(k roots) for k = 0, 1, …"""
        T = self.weights.n - self.lifted
        if not self.lifted:
            return np.append([0.0, 1.0], np.zeros(T - 1))
        if too_many_for_eigenvalues(T):
            return root_counts_drawn(self.sample)
        return settled(root_count_distribution(self.elimination.absorption()[1:, 1:]), T)

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Return n trees as parents (n, T), −1 at roots."""
        return self.to_records(self.tables.draw(n, rng))

    def mode(self) -> Ints:
        """Return the parents (T,) in the most probable tree; checked against its dual bound."""
        best = certified_arborescence(self.weights.log_beta, self.weights.log_root)
        return self.to_records(best.parents)

    def best(self, k: int) -> list[Ints]:
        """Return the parents (T,) in the k most probable trees, best first."""
        ranked = ranked_arborescences(self.weights.log_beta, self.weights.log_root)
        return [self.to_records(parents) for parents, _ in islice(ranked, k)]

    def consensus(self) -> tuple[Ints, float]:
        """Return the parents (T,) with the most expected right ones, and how many."""
        edge, root = self._of_nodes
        edge = np.where(self.weights.log_beta > -np.inf, edge, -np.inf)
        root = np.where(self.weights.log_root > -np.inf, root, -np.inf)
        best = certified_arborescence(edge, root)
        # In a lifted forest the virtual root is right in every tree, and no record.
        expected = total_weight(edge, root, best.parents) - self.lifted
        return self.to_records(best.parents), expected

    def to_records(self, parents: Ints) -> Ints:
        """Return parents (…, n) of nodes as parents (…, T) of records."""
        return parents[..., self.lifted :] - self.lifted


class DenseGroups:
    """The out-trees of a list of edges: one matrix for each group, and all groups independent."""

    plan = None

    def __init__(self, edges: ListedEdges, roots: str) -> None:
        _check_edges(edges)
        groups = edges.group_codes
        self._child, self._parent = edges.child, edges.parent
        T = len(groups)
        order = np.argsort(groups, kind="stable")
        ends = np.cumsum(np.bincount(groups, minlength=1))[:-1]
        self._members: list[NDArray[np.intp]] = np.split(order, ends)
        self._place: Ints = np.empty(T, dtype=np.intp)  # of a record within its group
        for members in self._members:
            self._place[members] = np.arange(len(members))
        by_group = np.argsort(groups[self._child], kind="stable")
        counts = np.bincount(groups[self._child], minlength=len(self._members))
        self._edges: list[NDArray[np.intp]] = np.split(by_group, np.cumsum(counts)[:-1])
        self._parts = self._solved(edges.log_weight, edges.log_root, roots)

    def _solved(self, log_weight: Floats, log_root: Floats, roots: str) -> list[DenseTrees]:
        parts = []
        for members, edges in zip(self._members, self._edges, strict=True):
            n = len(members)
            log_beta = np.full((n, n), -np.inf)
            ends = self._place[self._child[edges]], self._place[self._parent[edges]]
            log_beta[ends] = log_weight[edges]
            checked = weights.check(log_beta, log_root[members])
            parts.append(DenseTrees(checked, roots, members))
        return parts

    def log_z_parts(self) -> list[float]:
        """Return numbers that sum to log Z."""
        return [part.log_z for part in self._parts]

    @property
    def log_z(self) -> float:
        """Log of the sum of all tree weights."""
        return float(np.sum(self.log_z_parts()))

    @cached_property
    def marginals(self) -> tuple[Floats, Floats]:
        """P(edge) of each listed edge (E,), and P(root) of each record (T,)."""
        edge, root = np.empty(len(self._child)), np.empty(len(self._place))
        for part, members, edges in zip(self._parts, self._members, self._edges, strict=True):
            ends = self._place[self._child[edges]], self._place[self._parent[edges]]
            edge[edges] = part.marginals[0][ends]
            root[members] = part.marginals[1]
        return edge, root

    @property
    def entropy(self) -> float:
        """Entropy of the distribution over all trees, in nats."""
        return float(np.sum([part.entropy for part in self._parts]))

    def log_z_rooted(self) -> Floats:
        """Return the log-sum of the trees in which r is the root of its group, without ρ_r (T,)."""
        result = np.empty(len(self._place))
        for part, members in zip(self._parts, self._members, strict=True):
            result[members] = part.log_z_rooted() + (self.log_z - part.log_z)
        return result

    def number_of_roots(self) -> Floats:
        """Return the probabilities of 0, 1, 2, … roots in all groups together."""
        total = np.ones(1)
        for part in self._parts:
            one = part.number_of_roots() if part.lifted else np.array([0.0, 1.0])
            total = np.convolve(total, one)
        return total

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Return n trees as parents (n, T), −1 at roots."""
        return self._joined(
            lambda part: part.sample(n, np.random.default_rng(int(rng.integers(2**63))))
        )

    def mode(self) -> Ints:
        """Return the parents (T,) in the most probable tree."""
        return self._joined(DenseTrees.mode)

    def best(self, k: int) -> list[Ints]:
        """Return the parents (T,) of the k most probable trees, best first."""
        ranked = [part.best(k) for part in self._parts]
        losses = []
        for part, trees in zip(self._parts, ranked, strict=True):
            weight = [total_weight(part.log_beta, part.log_root, tree) for tree in trees]
            losses.append([weight[0] - one for one in weight])
        several = [part for part, values in enumerate(losses) if len(values) > 1]
        several.sort(key=lambda part: losses[part][1])

        def loss(i: int, j: int) -> float | None:
            values = losses[several[i]]
            return values[j] if j < len(values) else None

        found = []
        for places in islice(smallest_sums(len(several), loss), k):
            place = {several[i]: j for i, j in places}
            found.append(
                self._placed([trees[place.get(part, 0)] for part, trees in enumerate(ranked)])
            )
        return found

    def consensus(self) -> tuple[Ints, float]:
        """Return the parents (T,) with the most expected right ones, and how many."""
        best = [part.consensus() for part in self._parts]
        right = float(np.sum([expected for _, expected in best]))
        return self._placed([parents for parents, _ in best]), right

    def _joined(self, ask: Callable[[DenseTrees], Ints]) -> Ints:
        return self._placed([ask(part) for part in self._parts])

    def _placed(self, per_group: list[Ints]) -> Ints:
        """Return parents (…, T) of records from those (…, n) within each group."""
        parents = np.empty((*per_group[0].shape[:-1], len(self._place)), dtype=np.intp)
        for members, local in zip(self._members, per_group, strict=True):
            parents[..., members] = np.where(local >= 0, members[local], -1)
        return parents


def _check_edges(edges: ListedEdges) -> None:
    """Raise where an edge is listed twice or names what is no record, as `checked_edges` does."""
    child, parent, T = edges.child, edges.parent, edges.n_records
    for name, ends in (("child", child), ("parent", parent)):
        outside = np.flatnonzero((ends < 0) | (ends >= T))
        if len(outside):
            raise no_record(name, ends[outside[0]], T)
    own = np.flatnonzero(child == parent)
    if len(own):
        raise own_parent(int(own[0]), child[own[0]])
    edge, times = np.unique(child * T + parent, return_counts=True)
    if (times > 1).any():
        raise listed_twice(*divmod(int(edge[times > 1][0]), T))

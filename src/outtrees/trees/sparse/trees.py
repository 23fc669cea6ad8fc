"""The out-trees that a list of possible edges allows, by components: what the list is asked."""

from __future__ import annotations

from functools import cached_property
from math import fsum

import numpy as np

from outtrees.trees.probabilities import settled, weighted
from outtrees.trees.sparse.components import (
    Components,
    Inner,
    find_components,
    inner_problem,
)
from outtrees.trees.sparse.edges import EdgeRows
from outtrees.trees.sparse.plans import Plan, planned
from outtrees.trees.sparse.roots import root_counts
from outtrees.trees.sparse.sampling import draw_trees
from outtrees.trees.sparse.solution import Solution, solve, solve_for_every_root
from outtrees.trees.weights import Floats, Ints


class SparseTrees:
    """Sums over all out-trees of a list of edges. Memory O(edges) where components are small.

    A record alone in its component chooses its parent by itself; the others go through the
    elimination of their component. Arrays of edges are child by child (`EdgeRows`). Of the plan of
    an ``earlier`` elimination what still holds is used again; results are the same bits.
    """

    def __init__(
        self, edges: EdgeRows, roots: str, groups: Ints | None, earlier: Plan | None = None
    ) -> None:
        self.edges = edges
        self.roots = roots
        self._earlier = earlier
        self.components: Components = find_components(edges, roots, groups)

    @cached_property
    def inner(self) -> Inner:
        """The edges within components of several records."""
        return inner_problem(self.edges, self.components)

    @cached_property
    def plan(self) -> Plan | None:
        """The plan of the elimination; None if every record is alone in its component."""
        return planned(self.inner, self._earlier) if len(self.components.members) else None

    @cached_property
    def _solution(self) -> Solution | None:
        return solve(self.inner, self.plan) if self.plan is not None else None

    @cached_property
    def _alone(self) -> tuple[Floats, Floats, Floats]:
        """Probabilities of edges (E,) and roots (T,), and log-sums (T,), of records alone."""
        from outtrees.trees.sparse.edge_kernels import choose_alone

        edges = self.edges
        edge, root = np.empty(len(edges.parent)), np.empty(edges.n_records)
        log_sum = np.zeros(edges.n_records)
        choose_alone(
            edges.start,
            edges.log_weight,
            self.components.log_root,
            self.components.alone,
            edge,
            root,
            log_sum,
        )
        return edge, root, log_sum

    def log_z_parts(self) -> list[float]:
        """Return numbers that sum to log Z."""
        from outtrees.trees.sparse.edge_kernels import summed

        parts = [*summed(self._alone[2])]
        if self._solution is not None:
            parts += [*self._solution.log_z(), *summed(self.inner.log_scale)]
        return parts

    @cached_property
    def log_z(self) -> float:
        """Log of the sum of all tree weights."""
        return fsum(self.log_z_parts())

    @cached_property
    def marginals(self) -> tuple[Floats, Floats]:
        """P(edge) of each edge (E,), and P(root) of each record (T,)."""
        from outtrees.trees.sparse.edge_kernels import spread_out

        edge, root, _ = self._alone
        if self._solution is None:
            return edge, root
        edges, members = self.edges, self.components.members
        if edges.some_impossible:
            edge[edges.log_weight == -np.inf] = 0.0
        inside, out = self._solution.marginals()
        edge[self.inner.edge] = settled(inside, int(np.diff(self.components.first).max()))
        spread_out(
            edges.start,
            edges.parent,
            edges.log_weight,
            self.components.log_root,
            self.components.label,
            members,
            settled(out, len(members)),
            self.inner.log_out,
            edge,
            root,
        )
        return edge, root

    @property
    def entropy(self) -> float:
        """Entropy of the tree in nats: log Z minus the expected log-weight."""
        edge, root = self.marginals
        # Scaled weights: the scaling constants would only cancel, taking digits with them. A record
        # alone is scaled by its own sum, so its part of log Z is 0.
        scale = self._alone[2].copy()
        log_z = np.zeros(0)
        if self._solution is not None:
            scale[self.components.members] = self.inner.log_scale
            log_z = self._solution.log_z()
        log_scaled = self.edges.log_weight - np.repeat(scale, np.diff(self.edges.start))
        log_root = self.components.log_root - scale
        return fsum([*log_z, -weighted(edge, log_scaled).sum(), -weighted(root, log_root).sum()])

    def log_z_rooted(self) -> Floats:
        """Return log Z_r, without ρ_r, of the trees of r's group with the root r (T,)."""
        T = self.edges.n_records
        result = np.full(T, -np.inf)
        log_root = self.components.log_root
        closed = self.edges.possible_parents() == 0
        # The one root's own weight is taken out of the whole again, in logs.
        roots = np.flatnonzero(closed & self.components.alone)
        result[roots] = self.log_z - log_root[roots]
        if self._solution is not None and self.plan is not None:
            solution = solve_for_every_root(self._solution, self.plan)
            log_x = solution.log_x()
            by_component = solution.log_z()
            for c in np.flatnonzero(self.components.single):
                nodes = slice(self.components.first[c], self.components.first[c + 1])
                total = fsum([self.log_z, -by_component[c], *solution.log_pivots(int(c))])
                result[self.components.members[nodes]] = (
                    total + log_x[nodes] - self.inner.log_scale[nodes]
                )
        return result

    def best(self, edge_weight: Floats, root_weight: Floats) -> tuple[Ints, float]:
        """Return the parents (T,) with the largest total weight, −1 at roots, and that weight."""
        from outtrees.trees.sparse.arborescence import best_trees

        return best_trees(self, edge_weight, root_weight)

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Return n trees as parents (n, T), −1 at roots."""
        return draw_trees(self, n, rng)

    @cached_property
    def sampling_solution(self) -> Solution | None:
        """The forward pass again, keeping what every front handed on."""
        return solve(self.inner, self.plan, keep=True) if self.plan is not None else None

    def number_of_roots(self) -> Floats:
        """Return P(k roots), k = 0, 1, …"""
        return root_counts(self)

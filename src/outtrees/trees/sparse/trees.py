"""The sparse engine: the out-trees that a list of possible edges allows, component by component.

Memory is O(edges) where components are small. A record alone in its component chooses its parent by
itself; the others go through the elimination of their component.
"""

from __future__ import annotations

from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import fsum

import numpy as np

from outtrees.trees import elimination, extended, weights
from outtrees.trees.edges import ListedEdges
from outtrees.trees.probabilities import (
    root_count_distribution,
    root_counts_drawn,
    settled,
    too_many_for_eigenvalues,
    weighted,
)
from outtrees.trees.sparse.components import (
    Components,
    Inner,
    checked_edges,
    find_components,
    inner_problem,
)
from outtrees.trees.sparse.elimination import (
    FrontElimination,
    Solution,
    solve,
    solve_for_every_root,
)
from outtrees.trees.sparse.fronts import Plan, planned
from outtrees.trees.sparse.ranking import best_of_list, best_trees
from outtrees.trees.weights import Floats, Ints


class SparseTrees:
    """Sums over all out-trees of a list of edges.

    Inside, arrays of edges are child by child (`EdgeRows`). Of the plan of an ``earlier``
    elimination what still holds is used again; results are the same bits.
    """

    def __init__(self, listed: ListedEdges, roots: str, earlier: Plan | None = None) -> None:
        self.edges = checked_edges(listed.child, listed.parent, listed.log_weight, listed.log_root)
        self.roots = roots
        self._earlier = earlier
        self.components: Components = find_components(self.edges, roots, listed.groups)

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

    @cached_property
    def _total(self) -> list[float]:
        parts = [self._alone[2]]
        if self._solution is not None:
            parts += [self._solution.log_z(), self.inner.log_scale]
        return elimination.total_and_rest(np.concatenate(parts))

    def log_z_parts(self) -> list[float]:
        """Return numbers that sum to log Z."""
        return self._total

    @cached_property
    def log_z(self) -> float:
        """Log of the sum of all tree weights."""
        return fsum(self.log_z_parts())

    @property
    def marginals(self) -> tuple[Floats, Floats]:
        """P(edge) of each listed edge (E,), and P(root) of each record (T,)."""
        edge, root = self.by_child
        return self.edges.as_listed(edge), root

    @cached_property
    def by_child(self) -> tuple[Floats, Floats]:
        """P(edge) child by child (E,), and P(root) of each record (T,)."""
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
        edge, root = self.by_child
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

    def mode(self) -> Ints:
        """Return the parents (T,) in the most probable tree; checked against its dual bound."""
        return best_trees(self, self.edges.log_weight, self.components.log_root)[0]

    def best(self, k: int) -> list[Ints]:
        """Return the parents (T,) in the k most probable trees, best first."""
        return best_of_list(self, k)

    def consensus(self) -> tuple[Ints, float]:
        """Return the parents (T,) with the most expected right ones, and how many."""
        edge, root = self.by_child
        log_weight, log_root = self.edges.log_weight, self.components.log_root
        return best_trees(
            self,
            np.where(log_weight > -np.inf, edge, -np.inf),
            np.where(log_root > -np.inf, root, -np.inf),
        )

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Return n trees as parents (n, T), −1 at roots."""
        return _draw_trees(self, n, rng)

    @cached_property
    def sampling_solution(self) -> Solution | None:
        """The forward pass again, keeping what every front handed on."""
        return solve(self.inner, self.plan, keep=True) if self.plan is not None else None

    def number_of_roots(self) -> Floats:
        """Return P(k roots), k = 0, 1, …"""
        return _root_counts(self)


def _draw_trees(trees: SparseTrees, n: int, rng: np.random.Generator) -> Ints:
    """Return n trees as parents (n, T), −1 at roots.

    Components draw their trees by running the elimination backwards; who leaves its component then
    chooses where to, and so does every record that is alone.
    """
    from outtrees.trees.sparse.sampling_kernels import draw_outside

    edges, components = trees.edges, trees.components
    edge, root = trees.by_child
    result = np.full((n, edges.n_records), -2, dtype=np.intp)
    solution = trees.sampling_solution
    if solution is not None:
        members = components.members
        result[:, members] = _members_or_out(members, _draw(solution.narrow, n, rng))
        if solution.wide is not None:
            some = members[solution.wide_nodes]
            result[:, some] = _members_or_out(some, _draw(solution.wide, n, rng))
    for tree in result:
        draw_outside(
            rng,
            edges.start,
            edges.parent,
            edge,
            root,
            components.label,
            components.alone,
            tree,
        )
    return result


def _members_or_out(members: Ints, drawn: Ints) -> Ints:
    """Return records for nodes, and −2 where a node leaves its component."""
    return np.append(members, -2)[drawn]


def _draw(e: FrontElimination, n: int, rng: np.random.Generator) -> Ints:
    """Return n draws of parents (n, nodes); the number of nodes stands for leaving."""
    from outtrees.trees.sparse.sampling_kernels import draw

    fronts, inner = e.fronts, e.inner
    nodes = len(fronts.order)
    by_position = np.full((n, nodes), nodes, dtype=np.intp)
    draw(
        rng,
        fronts,
        inner.single,
        e.bad,
        e.pairs,
        inner.first,
        inner.column,
        by_position,
    )
    result = np.empty_like(by_position)
    result[:, fronts.order] = np.append(fronts.order, nodes)[by_position]
    return result


def _root_counts(trees: SparseTrees) -> Floats:
    """Return P(k roots), k = 0, 1, …: the convolution over components.

    A record alone is a root or not. In a component, whoever leaves it is a root with the share that
    being a root has in leaving; the roots are a determinantal process with the kernel
    P(u's path leaves at v) times v's share (see `root_count_distribution`). Where a component is
    too large for its eigenvalues, the roots of drawn trees are counted.
    """
    components = trees.components
    if trees.roots == "single":
        closed = int(components.single.sum())
        closed += int(((trees.edges.possible_parents() == 0) & components.alone).sum())
        return np.append(np.zeros(closed), 1.0)
    if _has_large_forest(trees):
        return root_counts_drawn(trees.sample)
    _, root = trees.by_child
    chances = root[components.alone]
    certain = int((chances == 1.0).sum())
    chances = chances[(chances > 0.0) & (chances < 1.0)]
    parts = [np.array([1.0 - p, p]) for p in chances.tolist()]
    for c in range(len(components.single)):
        parts.append(_of_component(trees, c))
    counts = _convolved(parts)
    return np.append(np.zeros(certain), settled(counts, trees.edges.n_records))


def _has_large_forest(trees: SparseTrees) -> bool:
    """Return whether a component too large for its eigenvalues may have several roots."""
    components = trees.components
    first, log_root = components.first, components.log_root[components.members]
    return any(
        too_many_for_eigenvalues(int(hi - lo)) and bool((log_root[lo:hi] > -np.inf).any())
        for lo, hi in pairwise(first)
    )


def _of_component(trees: SparseTrees, c: int) -> Floats:
    inner, components = trees.inner, trees.components
    lo, hi = components.first[c], components.first[c + 1]
    log_root = components.log_root[components.members[lo:hi]]
    if not (log_root > -np.inf).any():
        return np.ones(1)
    n = int(hi - lo)
    log_beta = np.full((n + 1, n + 1), -np.inf)
    edges = slice(inner.first[lo], inner.first[hi])
    row = np.repeat(np.arange(n), np.diff(inner.first[lo : hi + 1]))
    log_beta[1 + row, 1 + inner.column[edges] - lo] = inner.log_weight[edges]
    log_beta[1:, 0] = inner.log_out[lo:hi]
    lifted = weights.frozen(log_beta, np.append(0.0, np.full(n, -np.inf)))
    passed = elimination.eliminate(lifted, 0) or extended.eliminate(lifted, 0)
    share = np.exp(log_root - np.where(log_root > -np.inf, inner.log_out[lo:hi], 0.0))
    return settled(root_count_distribution(passed.absorption()[1:, 1:] * share), n)


def _convolved(parts: list[Floats]) -> Floats:
    """Return the convolution of all parts, the shortest first: errors are absolute, near 1e-16."""
    from scipy.signal import fftconvolve

    queue = [(len(part), i, part) for i, part in enumerate(parts)]
    heapify(queue)
    number = len(queue)
    while len(queue) > 1:
        (_, _, a), (_, _, b) = heappop(queue), heappop(queue)
        both = np.convolve(a, b) if min(len(a), len(b)) < 64 else fftconvolve(a, b)
        heappush(queue, (len(both), number, both))
        number += 1
    return queue[0][2] if queue else np.ones(1)

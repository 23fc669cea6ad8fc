"""The distribution over the out-trees that a list of possible edges allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import fsum
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees._common.memory import free_memory
from outtrees._common.random import RandomState, as_generator
from outtrees.errors import InvalidWeightsError, NoSpanningTreeError
from outtrees.trees.candidate_groups import DenseGroups
from outtrees.trees.candidate_ranking import best_of_parts
from outtrees.trees.candidate_support import edge_is_possible
from outtrees.trees.conditioning import record_number
from outtrees.trees.distribution import Consensus, Tree
from outtrees.trees.parents import are_out_trees, check_parents
from outtrees.trees.probabilities import read_only
from outtrees.trees.sparse.edges import checked_edges
from outtrees.trees.sparse.plans import Plan
from outtrees.trees.sparse.ranking import best_of_list
from outtrees.trees.sparse.trees import SparseTrees
from outtrees.trees.weights import Floats, Ints, as_floats

# Up to so many pairs of records in the same group, the dense engine answers in a blink and needs no
# compiler; and where one pair in eight is a possible edge, nothing sparse is gained.
_FEW_PAIRS = 1_000_000
_DENSE_SHARE = 1 / 8
_DENSE_ARRAYS = 6  # (n, n) arrays that the dense engine holds at a time


class CandidateTrees:
    """The out-trees that a list of possible edges allows, one out-tree (or forest) for each group.

    Everything that `OutTreeDistribution` answers, with arrays of edges, in the listed order, in
    place of (T, T) matrices. Records that cannot descend from each other in a circle choose their
    parents independently; those that can form strongly connected components, each summed
    exactly by an elimination in a fill-reducing order.

    Parameters
    ----------
    child, parent : integer arrays of shape (E,)
        The possible edges; both ends in the same group.
    log_weight : array of shape (E,)
        −inf for an edge that is not allowed after all.
    log_root : array of shape (T,)
        −inf where a record cannot be a root.
    groups : integer array of shape (T,), optional
        One group if not given.
    roots : {"single", "any"}
        One root for each group, or any number.
    method : {"auto", "dense", "sparse"}
        "auto": dense for few records, or where most pairs are possible edges.
    plan : Plan, optional
        The `plan` of trees over the same list with other weights: what of it still holds is not
        planned again. Never changes a result.

    Notes
    -----
    Sparse: O(E) time and memory for records alone in their component; for the others what a
    sparse LU factorisation costs (neighbours in the plane: about n^1.5 time and n log n memory).
    Dense: O(n³) and O(n²) in the size n of a group.

    Examples
    --------
    Two groups of two records:

    >>> trees = CandidateTrees(
    ...     [1, 0, 3], [0, 1, 2], np.log([0.6, 0.2, 0.5]), np.zeros(4), groups=[0, 0, 1, 1]
    ... )
    >>> trees.edge_marginals.round(2)
    array([0.75, 0.25, 1.  ])
    >>> trees.root_marginals.round(2)
    array([0.75, 0.25, 1.  , 0.  ])
    """

    def __init__(
        self,
        child: ArrayLike,  # (E,)
        parent: ArrayLike,  # (E,)
        log_weight: ArrayLike,  # (E,)
        log_root: ArrayLike,  # (T,)
        *,
        groups: ArrayLike | None = None,  # (T,)
        roots: Literal["single", "any"] = "single",
        method: Literal["auto", "dense", "sparse"] = "auto",
        plan: Plan | None = None,
    ) -> None:
        if roots not in ("single", "any"):
            raise InvalidWeightsError(f"roots must be 'single' or 'any'; got {roots!r}")
        if method not in ("auto", "dense", "sparse"):
            raise InvalidWeightsError(f"method must be 'auto', 'dense' or 'sparse'; got {method!r}")
        self.roots: Literal["single", "any"] = roots
        self.child = _as_records(child, "child")
        self.parent = _as_records(parent, "parent")
        # Arrays of its own: answers are computed when asked for, and must not change with what the
        # caller writes into theirs.
        self.log_weight = as_floats(log_weight, "log_weight")
        self.log_root = as_floats(log_root, "log_root")
        self._check_shapes()
        self._groups = self._checked_groups(groups)
        self.method = self._chosen(method)
        self._solver: DenseGroups | SparseTrees = (
            self._dense() if self.method == "dense" else self._sparse(plan)
        )

    def __repr__(self) -> str:
        return (
            f"CandidateTrees({self.n_records} records, {len(self.child)} possible edges, "
            f"roots={self.roots!r})"
        )

    # ------------------------------------------------------------------ sums

    @property
    def n_records(self) -> int:
        """T, the number of records."""
        return len(self.log_root)

    @property
    def plan(self) -> Plan | None:
        """How the elimination goes, for the next trees over this list; None if there is none."""
        return self._solver.plan if isinstance(self._solver, SparseTrees) else None

    @cached_property
    def log_z(self) -> float:
        """Log of the sum of all tree weights. Exact."""
        return self._solver.log_z

    @cached_property
    def log_z_rooted(self) -> Floats:
        """Log of the sum over the trees in which r is the root of its group, without ρ_r, (T,).

        With ``roots="any"`` still over trees with one root in each group.
        """
        if self.roots == "any":
            try:
                single = self._with(self.log_weight, np.zeros(self.n_records), "single")
            except NoSpanningTreeError:
                return read_only(np.full(self.n_records, -np.inf))
            return single.log_z_rooted
        return read_only(self._solver.log_z_rooted())

    @cached_property
    def edge_marginals(self) -> Floats:
        """The probability of each listed edge (E,). Exact."""
        edge = self._solver.marginals[0]
        if isinstance(self._solver, SparseTrees):
            edge = self._solver.edges.as_listed(edge)
        return read_only(edge)

    @cached_property
    def root_marginals(self) -> Floats:
        """The probability of being a root, for each record (T,). Exact."""
        return read_only(self._solver.marginals[1])

    @cached_property
    def entropy(self) -> float:
        """The entropy of the distribution over all trees, in nats."""
        return self._solver.entropy

    def number_of_roots(self) -> Floats:
        """Return the probabilities of 0, 1, 2, … roots in all groups together."""
        return self._solver.number_of_roots()

    def expectation(self, values: ArrayLike) -> float:
        """Return the expected sum, over a tree's edges, of one value for each listed edge."""
        array = np.asarray(values, dtype=np.float64)
        if array.shape != self.child.shape or not np.isfinite(array).all():
            raise ValueError(
                f"values must hold a finite number for each of {len(self.child)} possible edges; "
                f"got shape {array.shape}"
                + ("" if array.shape != self.child.shape else " with some that are not finite")
            )
        return float(self.edge_marginals @ array)

    # ------------------------------------------------------------------ single trees

    def log_prob(self, parents: ArrayLike) -> float | Floats:
        """Return the log-probability of one tree (T,) or of several (n, T); −inf for no such tree.

        ``parents[u]`` is u's parent, −1 at a root.
        """
        array = check_parents(parents, self.n_records)
        trees = np.atleast_2d(array)
        log_probs = np.full(len(trees), -np.inf)
        for i in np.flatnonzero(are_out_trees(trees, single_root=False)):
            counts = np.bincount(self._group_codes[trees[i] < 0], minlength=self._n_groups)
            if self.roots == "any" or (counts == 1).all():
                log_probs[i] = self._log_prob(trees[i])
        return log_probs if array.ndim == 2 else float(log_probs[0])

    def sample(self, n: int = 1, random_state: RandomState = None) -> Ints:
        """Return n independent trees as parents (n, T), −1 at roots. Exact; no random walk."""
        if n != int(n) or n < 0:
            raise ValueError(f"the number of trees must be an integer of at least 0; got {n!r}")
        return self._solver.sample(int(n), as_generator(random_state))

    def mode(self) -> Tree:
        """Return the most probable tree and its log-probability. Exact and certified."""
        if isinstance(self._solver, DenseGroups):
            parents = self._solver.mode()
        else:
            edges = self._solver.edges
            log_root = self._solver.components.log_root
            parents = self._solver.best(edges.log_weight, log_root)[0]
        return Tree(parents, self._log_prob(parents))

    def best(self, k: int) -> list[Tree]:
        """Return the k most probable trees in order, all if there are fewer. Exact.

        On a list that is summed sparsely: O(E log T) time, and as much again for each tree in the
        component where it differs; memory O(E + k T).
        """
        if k != int(k) or k < 1:
            raise ValueError(f"k must be an integer of at least 1; got {k!r}")
        if isinstance(self._solver, DenseGroups):
            found = best_of_parts(self._solver, int(k))
        else:
            found = best_of_list(self._solver, int(k))
        trees = [Tree(parents, self._log_prob(parents)) for parents in found]
        # What was added up group by group may differ in the last digit.
        return sorted(trees, key=lambda tree: -tree.log_prob)

    def consensus(self) -> Consensus:
        """Return the tree with the most expected right parents, and how many."""
        if isinstance(self._solver, DenseGroups):
            return Consensus(*self._solver.consensus())
        edge, root = self._solver.marginals
        edges, log_root = self._solver.edges, self._solver.components.log_root
        return Consensus(
            *self._solver.best(
                np.where(edges.log_weight > -np.inf, edge, -np.inf),
                np.where(log_root > -np.inf, root, -np.inf),
            )
        )

    # ------------------------------------------------------------------ other distributions

    def given(
        self,
        parent: Mapping[int, int] | None = None,
        not_parent: Iterable[tuple[int, int]] = (),
        root: int | None = None,
    ) -> CandidateTrees:
        """Return the distribution over the trees that agree with what is known.

        ``parent={u: v}``: u descends from v (v = −1: u is a root), an edge that must be listed;
        ``not_parent=[(u, w)]``: u does not descend from w (w = −1: u is no root); ``root=r``: r is
        a root. The probability of what is known is exp(result.log_z − self.log_z).
        """
        log_weight, log_root = self.log_weight.copy(), self.log_root.copy()
        T = self.n_records
        known = {record_number(u, 0, T): record_number(v, -1, T) for u, v in (parent or {}).items()}
        if root is not None and known.setdefault(record_number(root, 0, T), -1) != -1:
            raise ValueError(f"record {root} cannot be a root and descend from {known[root]}")
        for child, not_from in not_parent:
            u, w = record_number(child, 0, T), record_number(not_from, -1, T)
            if w < 0:
                log_root[u] = -np.inf
            else:
                log_weight[self._edges_of(u)[self.parent[self._edges_of(u)] == w]] = -np.inf
        for u, v in known.items():
            edges = self._edges_of(u)
            log_weight[edges[self.parent[edges] != v]] = -np.inf
            if v >= 0:
                log_root[u] = -np.inf
                if not (log_weight[edges] > -np.inf).any():
                    raise NoSpanningTreeError(
                        f"{v} is not among the possible parents of {u}; allow that edge first."
                    )
        return self._with(log_weight, log_root, self.roots)

    def kl(self, other: CandidateTrees) -> float:
        """Return the Kullback–Leibler divergence KL(self ‖ other) in nats; inf where due."""
        if (other.n_records, other.roots) != (self.n_records, self.roots):
            raise ValueError(f"cannot compare {self!r} with {other!r}: they hold different trees")
        if self.roots == "single" and other._n_groups != self._n_groups:
            return np.inf  # one root for each group: no tree of one is a tree of the other
        theirs = other._weights_of(self.child, self.parent)
        mine = self.log_weight > -np.inf
        for e in np.flatnonzero(mine & (theirs == -np.inf)):
            if edge_is_possible(self, int(self.child[e]), int(self.parent[e])):
                return np.inf
        rooted = self._possible_roots
        if (rooted & (other.log_root == -np.inf)).any():
            return np.inf
        both = mine & (theirs > -np.inf)
        terms = self.edge_marginals[both] * (self.log_weight[both] - theirs[both])
        roots = self.root_marginals[rooted] * (self.log_root[rooted] - other.log_root[rooted])
        return fsum([*terms, *roots, -self.log_z, other.log_z])

    # ------------------------------------------------------------------ inside

    def _check_shapes(self) -> None:
        shapes = self.child.shape, self.parent.shape, self.log_weight.shape
        if len(set(shapes)) > 1 or self.child.ndim != 1:
            raise InvalidWeightsError(
                "child, parent and log_weight must hold one entry for each possible edge; got "
                f"shapes {shapes[0]}, {shapes[1]} and {shapes[2]}"
            )
        if self.log_root.ndim != 1 or not len(self.log_root):
            raise InvalidWeightsError(
                "log_root must hold one log-weight for each record, at least one; got shape "
                f"{self.log_root.shape}"
            )

    def _checked_groups(self, groups: ArrayLike | None) -> Ints | None:
        """Return the groups numbered from 0, None for one group."""
        if groups is None:
            return None
        codes = np.asarray(groups)
        if codes.shape != (self.n_records,):
            raise InvalidWeightsError(
                f"groups must hold one number for each of {self.n_records} records; got shape "
                f"{codes.shape}"
            )
        number: Ints = np.unique(codes, return_inverse=True)[1].ravel()
        inside = (self.child >= 0) & (self.child < len(number))
        inside &= (self.parent >= 0) & (self.parent < len(number))
        across = np.flatnonzero(
            inside
            & (number[np.where(inside, self.child, 0)] != number[np.where(inside, self.parent, 0)])
        )
        if len(across):
            edge = int(across[0])
            raise InvalidWeightsError(
                f"edges are expected within groups, but {self.parent[edge]} → {self.child[edge]} "
                "joins two; leave it out or join the groups."
            )
        return number if number.max() > 0 else None

    def _chosen(self, method: str) -> str:
        if method != "auto":
            return method
        few = self._n_pairs <= _FEW_PAIRS and self._n_groups <= 100
        return "dense" if few or len(self.child) >= _DENSE_SHARE * self._n_pairs else "sparse"

    @property
    def _n_pairs(self) -> int:
        """How many pairs of records are in the same group."""
        return int((np.bincount(self._group_codes).astype(np.int64) ** 2).sum())

    @property
    def _group_codes(self) -> Ints:
        return np.zeros(self.n_records, dtype=np.intp) if self._groups is None else self._groups

    @property
    def _n_groups(self) -> int:
        return 1 if self._groups is None else int(self._groups.max()) + 1

    def _dense(self) -> DenseGroups:
        needed, free = 8 * _DENSE_ARRAYS * self._n_pairs, free_memory()
        if free is not None and needed > free:
            raise MemoryError(
                f"the dense engine needs about {needed / 1e9:.1f} GB for {self.n_records:,} "
                f"records; {free / 1e9:.1f} GB are free. Use method='sparse', smaller groups, or "
                "fewer records."
            )
        return DenseGroups(
            self.child, self.parent, self.log_weight, self.log_root, self.roots, self._group_codes
        )

    def _sparse(self, plan: Plan | None) -> SparseTrees:
        edges = checked_edges(self.child, self.parent, self.log_weight, self.log_root)
        return SparseTrees(edges, self.roots, self._groups, plan)

    def _with(
        self, log_weight: Floats, log_root: Floats, roots: Literal["single", "any"]
    ) -> CandidateTrees:
        return CandidateTrees(
            self.child,
            self.parent,
            log_weight,
            log_root,
            groups=self._groups,
            roots=roots,
            method=self.method,  # type: ignore[arg-type]
        )

    @property
    def _possible_roots(self) -> NDArray[np.bool_]:
        """Which records are roots of some tree (T,), also where that probability underflowed."""
        allowed: NDArray[np.bool_] = self.log_root > -np.inf
        return allowed if self.roots == "any" else allowed & (self.log_z_rooted > -np.inf)

    @cached_property
    def _by_child(self) -> tuple[Ints, Ints]:
        """The edges in order of their child, and where each child's start."""
        order = np.argsort(self.child, kind="stable")
        return order, np.searchsorted(self.child[order], np.arange(self.n_records + 1))

    def _edges_of(self, u: int) -> Ints:
        order, start = self._by_child
        return order[start[u] : start[u + 1]]

    @cached_property
    def _keys(self) -> tuple[Ints, Ints]:
        """child · T + parent of each edge in order, and the edges in that order."""
        keys = self.child * self.n_records + self.parent
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def _weights_of(self, child: Ints, parent: Ints) -> Floats:
        """Return the log-weights of these edges, −inf where an edge is not listed."""
        keys, order = self._keys
        wanted = child * self.n_records + parent
        result = np.full(len(wanted), -np.inf)
        if len(keys):
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            found = keys[place] == wanted
            result[found] = self.log_weight[order[place[found]]]
        return result

    def _log_prob(self, parents: Ints) -> float:
        child = np.flatnonzero(parents >= 0)
        weights = self._weights_of(child, parents[child])
        log_z = self._solver.log_z_parts()
        return fsum([*weights, *self.log_root[parents < 0], *(-part for part in log_z)])


def _as_records(values: ArrayLike, name: str) -> Ints:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise InvalidWeightsError(
            f"{name} must hold the numbers of records, integers from 0; got dtype {array.dtype}"
        )
    return np.array(array, dtype=np.intp, order="C")

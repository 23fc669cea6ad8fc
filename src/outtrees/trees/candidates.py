"""Out-trees over a list of possible edges, in groups of records that cannot be related."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees.errors import InvalidWeightsError, NoSpanningTreeError
from outtrees.trees.distribution import Consensus, OutTreeDistribution, Tree
from outtrees.trees.sampling import RandomState, as_generator
from outtrees.trees.weights import Floats, Ints


class CandidateTrees:
    """The out-trees that a list of possible edges allows, one out-tree (or forest) for each group.

    The groups are independent: the weight of all trees together is the product over groups, each
    an `OutTreeDistribution` of its own. Marginals come back for the listed edges, in the listed
    order.

    Parameters
    ----------
    child, parent : integer arrays of shape (E,)
        The possible edges; both ends in the same group.
    log_weight : array of shape (E,)
    log_root : array of shape (T,)
        −inf where a record cannot be a root.
    groups : integer array of shape (T,), optional
        One group if not given.
    roots : {"single", "any"}
        One root for each group, or any number.

    Notes
    -----
    Each group is solved densely: O(n³) time and O(n²) memory in its size n.

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
    ) -> None:
        self.child: Ints = np.asarray(child, dtype=np.intp)
        self.parent: Ints = np.asarray(parent, dtype=np.intp)
        self.log_weight: Floats = np.asarray(log_weight, dtype=np.float64)
        self.log_root: Floats = np.asarray(log_root, dtype=np.float64)
        self.roots = roots
        T = len(self.log_root)
        codes = np.zeros(T, dtype=np.intp) if groups is None else np.asarray(groups, dtype=np.intp)
        if roots not in ("single", "any"):
            raise InvalidWeightsError(f"roots must be 'single' or 'any'; got {roots!r}")
        if codes.shape != (T,):
            raise InvalidWeightsError(
                f"groups must hold one number for each of {T} records; got shape {codes.shape}"
            )
        self._check_edges(T)
        if (codes[self.child] != codes[self.parent]).any():
            edge = int(np.flatnonzero(codes[self.child] != codes[self.parent])[0])
            raise InvalidWeightsError(
                f"edges are expected within groups, but {self.parent[edge]} → {self.child[edge]} "
                "joins two; leave it out or join the groups."
            )
        self._groups: Ints = np.unique(codes, return_inverse=True)[1].ravel()
        order = np.argsort(self._groups, kind="stable")
        ends = np.cumsum(np.bincount(self._groups, minlength=1))[:-1]
        self._members: list[NDArray[np.intp]] = np.split(order, ends)
        self._place: Ints = np.empty(T, dtype=np.intp)  # of a record within its group
        for members in self._members:
            self._place[members] = np.arange(len(members))
        by_group = np.argsort(self._groups[self.child], kind="stable")
        counts = np.bincount(self._groups[self.child], minlength=len(self._members))
        self._edges: list[NDArray[np.intp]] = np.split(by_group, np.cumsum(counts)[:-1])
        self.parts: list[OutTreeDistribution] = self._solved()

    def _check_edges(self, T: int) -> None:
        shapes = self.child.shape, self.parent.shape, self.log_weight.shape
        if len(set(shapes)) > 1 or self.child.ndim != 1:
            raise InvalidWeightsError(
                "child, parent and log_weight must hold one entry for each possible edge; got "
                f"shapes {shapes[0]}, {shapes[1]} and {shapes[2]}"
            )
        for name, ends in (("child", self.child), ("parent", self.parent)):
            outside = np.flatnonzero((ends < 0) | (ends >= T))
            if len(outside):
                raise InvalidWeightsError(
                    f"{name} must hold records 0 … {T - 1}; got {ends[outside[0]]}. What a root "
                    "weighs goes into log_root"
                )
        edge, times = np.unique(self.child * T + self.parent, return_counts=True)
        if (times > 1).any():
            child, parent = divmod(int(edge[times > 1][0]), T)
            raise InvalidWeightsError(
                f"each edge is expected once, but {parent} → {child} is listed several times; add "
                "up its weights"
            )

    def _solved(self) -> list[OutTreeDistribution]:
        """Return one distribution for each group."""
        parts = []
        for members, edges in zip(self._members, self._edges, strict=True):
            n = len(members)
            log_beta = np.full((n, n), -np.inf)
            ends = self._place[self.child[edges]], self._place[self.parent[edges]]
            log_beta[ends] = self.log_weight[edges]
            try:
                parts.append(
                    OutTreeDistribution(log_beta, self.log_root[members], roots=self.roots)
                )
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

    @property
    def log_z(self) -> float:
        """The log of the summed weight of all trees."""
        return float(np.sum([part.log_z for part in self.parts]))

    @cached_property
    def edge_marginals(self) -> Floats:
        """The probability of each listed edge (E,)."""
        result = np.empty(len(self.child))
        for part, edges in zip(self.parts, self._edges, strict=True):
            ends = self._place[self.child[edges]], self._place[self.parent[edges]]
            result[edges] = part.edge_marginals[ends]
        return result

    @cached_property
    def root_marginals(self) -> Floats:
        """The probability of being a root, for each record (T,)."""
        result = np.empty(len(self.log_root))
        for part, members in zip(self.parts, self._members, strict=True):
            result[members] = part.root_marginals
        return result

    @property
    def entropy(self) -> float:
        """The entropy of the distribution over all trees, in nats."""
        return float(np.sum([part.entropy for part in self.parts]))

    def _joined(self, per_group: list[Ints]) -> Ints:
        parents = np.empty(len(self.log_root), dtype=np.intp)
        for members, local in zip(self._members, per_group, strict=True):
            parents[members] = np.where(local >= 0, members[local], -1)
        return parents

    def mode(self) -> Tree:
        """Return the most probable tree."""
        best = [part.mode() for part in self.parts]
        log_prob = float(np.sum([tree.log_prob for tree in best]))
        return Tree(self._joined([tree.parents for tree in best]), log_prob)

    def consensus(self) -> Consensus:
        """Return the tree with the most expected right parents, and how many."""
        best = [part.consensus() for part in self.parts]
        right = float(np.sum([tree.expected_right for tree in best]))
        return Consensus(self._joined([tree.parents for tree in best]), right)

    def sample(self, n: int, random_state: RandomState = None) -> Ints:
        """Return n independent trees as parents (n, T), −1 at roots."""
        rng = as_generator(random_state)
        result = np.empty((n, len(self.log_root)), dtype=np.intp)
        for part, members in zip(self.parts, self._members, strict=True):
            local = part.sample(n, random_state=int(rng.integers(2**63)))
            result[:, members] = np.where(local >= 0, members[local], -1)
        return result

    def number_of_roots(self) -> Floats:
        """Return the probabilities of 0, 1, 2, … roots in all groups together."""
        total = np.ones(1)
        for part in self.parts:
            one = part.number_of_roots() if self.roots == "any" else np.array([0.0, 1.0])
            total = np.convolve(total, one)
        return total

    def given(self, parent: Mapping[int, int]) -> CandidateTrees:
        """Return the distribution in which these records have these parents (−1: are roots).

        Every given edge must be in the list. The probability of what is given is
        exp(result.log_z − self.log_z).
        """
        log_weight, log_root = self.log_weight.copy(), self.log_root.copy()
        T = len(log_root)
        for u, v in parent.items():
            if not (0 <= u < T and -1 <= v < T):
                raise ValueError(
                    f"records 0 … {T - 1} are expected, with parents −1 … {T - 1}, but got "
                    f"{{{u}: {v}}}; use −1 for a root"
                )
            other = (self.child == u) & (self.parent != v)
            log_weight[other] = -np.inf
            if v >= 0:
                log_root[u] = -np.inf
                if not ((self.child == u) & (self.parent == v) & (log_weight > -np.inf)).any():
                    raise NoSpanningTreeError(
                        f"{v} is not among the possible parents of {u}; allow that edge first."
                    )
        return CandidateTrees(
            self.child, self.parent, log_weight, log_root, groups=self._groups, roots=self.roots
        )

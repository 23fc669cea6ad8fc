"""The distribution over all out-trees of a set of records: one object, every question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from html import escape
from math import fsum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.arguments import as_count
from outtrees._common.random import RandomState, as_generator
from outtrees._common.text import html_table
from outtrees.errors import InvalidWeightsError, NoSpanningTreeError
from outtrees.trees import weights
from outtrees.trees.dense import DenseTrees
from outtrees.trees.edges import AllPairs, Edges, ListedEdges, condition
from outtrees.trees.parents import are_out_trees, check_parents
from outtrees.trees.probabilities import read_only
from outtrees.trees.support import edge_is_possible
from outtrees.trees.weights import Floats, Ints

if TYPE_CHECKING:
    from outtrees.trees.batch import OutTreeBatch
    from outtrees.trees.engine import Engine, Method
    from outtrees.trees.sparse.fronts import Plan

Roots = Literal["single", "any"]
_SHOWN_AT_ONCE, _ROWS_SHOWN = (
    300,
    10,
)  # records of which a notebook shows the parents, and of how many
SparseArray = Any  # SciPy's sparse arrays and matrices have no common type to name


class Tree(NamedTuple):
    """One out-tree and its log-probability.

    Parameters
    ----------
    parents : array of shape (T,)
        −1 at roots.
    log_prob : float
        In nats.

    Examples
    --------
    >>> import numpy as np
    >>> round(OutTreeDistribution(np.log([[1.0, 1.0], [3.0, 1.0]])).mode().log_prob, 3)
    -0.288
    """

    parents: Ints  # (T,), −1 at a root
    log_prob: float


class Consensus(NamedTuple):
    """One out-tree and how many of its T parents are expected to be right.

    Parameters
    ----------
    parents : array of shape (T,)
        −1 at roots.
    expected_right : float
        Out of T.

    Examples
    --------
    >>> import numpy as np
    >>> OutTreeDistribution(np.log([[1.0, 1.0], [3.0, 1.0]])).consensus()
    Consensus(parents=array([-1,  0]), expected_right=1.5)
    """

    parents: Ints  # (T,), −1 at a root
    expected_right: float


class OutTreeDistribution:
    """All out-trees of T records, each as probable as the product of its edges' weights.

    An out-tree gives every record one parent record, except one root (or several, with
    ``roots="any"``).  Its weight is the product of ``β[u, v]`` over its edges u ← v, times
    ``ρ[r]`` for each root r (paper, eq. 1). Everything is summed exactly over all T^(T−1) trees;
    results are computed when first asked for, and once.

    Parameters
    ----------
    log_beta : array-like, shape (T, T)
        ``log_beta[child, parent]`` = log p(child | parent); −inf forbids the edge; the diagonal
        is ignored.
    log_root : array-like, shape (T,), optional
        ``log_root[r]`` = log-weight of r being a root; all zero if not given; −inf forbids it.
    roots : {"single", "any"}
        One root, or any number of them (a forest).

    Attributes
    ----------
    n_records : int
        T.
    log_weight, log_root : arrays
        Log-weights of the edges and of the roots. Every array of edges, given or returned, has the
        shape of ``log_weight``: (T, T) [child, parent] here, (E,) in the listed order with
        `from_candidates`. All else is the same for both.
    listed : bool
        Whether the possible edges are a list. Then ``child`` and ``parent``, integer arrays of
        shape (E,), name their ends; else ``log_beta`` is the matrix ``log_weight``.
    method : {"dense", "sparse"}
        The engine that sums.
    plan : Plan or None
        What the sparse engine can use again for other weights of the same list.

    Raises
    ------
    NoSpanningTreeError
        If the allowed edges and roots leave no out-tree at all.
    InvalidWeightsError
        If the weights are not real numbers below +inf, in the right shape.

    Notes
    -----
    Cost of all pairs: O(T³), as one LU factorisation (``log_z``) or one matrix inverse
    (marginals); memory at most 3.5 T × T arrays for these (up to 700 records 5, forests 5.5, the
    extended range 8, ``sample`` 13). Weights may differ by any factor: where a double cannot hold
    them, an extended range takes over by itself.

    Examples
    --------
    Three records; the third is likely to descend from the second.

    >>> import numpy as np
    >>> weight = np.array([[0.0, 1.0, 1.0], [2.0, 0.0, 1.0], [1.0, 6.0, 0.0]])
    >>> with np.errstate(divide="ignore"):
    ...     dist = OutTreeDistribution(np.log(weight))
    >>> round(np.exp(dist.log_z))  # the nine out-trees together
    32
    >>> dist.edge_marginals.round(3)
    array([[0.   , 0.25 , 0.281],
           [0.5  , 0.   , 0.094],
           [0.125, 0.75 , 0.   ]])
    >>> parents, log_prob = dist.mode()
    >>> parents, f"{np.exp(log_prob):.3f}"
    (array([-1,  0,  1]), '0.375')
    """

    roots: Roots
    listed: bool
    method: Method
    _edges: Edges
    _engine: Engine

    def __init__(
        self,
        log_beta: ArrayLike,  # (T, T) [child, parent]
        log_root: ArrayLike | None = None,  # (T,)
        *,
        roots: Roots = "single",
    ) -> None:
        _check_roots(roots)
        engine = DenseTrees(weights.check(log_beta, log_root), roots)
        self.roots, self.method, self._engine = roots, "dense", engine
        self.listed = False
        self._edges = AllPairs(engine.log_beta, engine.log_root)

    @classmethod
    def from_candidates(
        cls,
        child: ArrayLike | SparseArray,  # (E,)
        parent: ArrayLike | None = None,  # (E,)
        log_weight: ArrayLike | None = None,  # (E,)
        log_root: ArrayLike | None = None,  # (T,)
        n_records: int | None = None,
        *,
        roots: Roots = "single",
        groups: ArrayLike | None = None,  # (T,)
        method: Literal["auto", "dense", "sparse"] = "auto",
        plan: Plan | None = None,
    ) -> OutTreeDistribution:
        """Return the distribution over the out-trees that a list of possible edges allows.

        The same attributes and methods, with one entry for each listed edge, in the listed order,
        in place of (T, T) matrices. Records that cannot descend from each other in a circle choose
        their parents independently; those that can form strongly connected components, each
        summed exactly by an elimination in a fill-reducing order.

        Parameters
        ----------
        child, parent, log_weight : arrays of shape (E,)
            The possible edges; a log-weight of −inf is an edge that is not allowed after all. Or
            ``child`` alone: a SciPy sparse array (T, T) [child, parent] whose stored entries,
            zeros included, are the log-weights; the list is then in the order of its COO form.
        log_root : array of shape (T,), optional
            All zero if not given; −inf where a record cannot be a root.
        n_records : int, optional
            T, where neither ``log_root`` nor a sparse array says it.
        roots : {"single", "any"}
            One root for each group, or any number.
        groups : integer array of shape (T,), optional
            No edge joins two groups; each has a tree, or a forest, of its own.
        method : {"auto", "dense", "sparse"}
            The engine. "auto": dense for few records, or where most pairs are possible edges.
        plan : Plan, optional
            The ``plan`` of a distribution over the same list with other weights: what of it still
            holds is not planned again. Never changes a result.

        Notes
        -----
        Sparse: O(E) time and memory for records alone in their component; for the others what a
        sparse LU factorisation costs (neighbours in the plane: about n^1.5 time and n log n
        memory). Dense: O(n³) and O(n²) in the size n of a group.

        Examples
        --------
        Four records in the order of their dates:

        >>> import numpy as np
        >>> dist = OutTreeDistribution.from_candidates(
        ...     child=[1, 2, 2, 3, 3],
        ...     parent=[0, 0, 1, 1, 2],
        ...     log_weight=np.log([1.0, 1.0, 3.0, 1.0, 1.0]),
        ...     n_records=4,
        ... )
        >>> dist.edge_marginals
        array([1.  , 0.25, 0.75, 0.5 , 0.5 ])

        Two groups of two records:

        >>> pairs = OutTreeDistribution.from_candidates(
        ...     [1, 0, 3], [0, 1, 2], np.log([0.6, 0.2, 0.5]), np.zeros(4), groups=[0, 0, 1, 1]
        ... )
        >>> pairs.edge_marginals.round(2)
        array([0.75, 0.25, 1.  ])
        >>> pairs.root_marginals.round(2)
        array([0.75, 0.25, 1.  , 0.  ])
        """
        _check_roots(roots)
        edges = ListedEdges.read(child, parent, log_weight, log_root, n_records, groups)
        return cls._of_list(edges, roots, method, plan)

    @classmethod
    def batch(
        cls,
        log_beta: ArrayLike,  # (B, T, T) [problem, child, parent]
        log_root: ArrayLike | None = None,  # (B, T)
        lengths: ArrayLike | None = None,  # (B,)
        *,
        roots: Roots = "single",
    ) -> OutTreeBatch:
        """Return the distributions of B problems at once, for many small ones.

        Problem b has the first ``lengths[b]`` records, all T if not given; what the arrays hold
        beyond is ignored. Its answers have one more axis in front: ``log_z`` (B,),
        ``edge_marginals`` (B, T, T), ``root_marginals`` (B, T), ``entropy`` (B,), ``sample(n)``
        (B, n, T), ``mode()``. For all else, ``batch[b]`` is an `OutTreeDistribution`.

        Parameters
        ----------
        log_beta : array of shape (B, T, T) [problem, child, parent]
            Log-weights of edges.
        log_root : array of shape (B, T), optional
            Log-weights of roots.
        lengths : array of shape (B,), optional
            The number of records of each problem.
        roots : {"single", "any"}
            As in the class.

        Returns
        -------
        OutTreeBatch
            The distributions.

        Examples
        --------
        >>> import numpy as np
        >>> pairs = OutTreeDistribution.batch(np.zeros((3, 4, 4)), lengths=[2, 3, 4])
        >>> np.exp(pairs.log_z).round()  # T^(T−1) out-trees
        array([ 2.,  9., 64.])
        """
        from outtrees.trees.batch import OutTreeBatch

        _check_roots(roots)
        return OutTreeBatch(log_beta, log_root, lengths, roots=roots)

    @classmethod
    def _of_list(
        cls, edges: ListedEdges, roots: Roots, method: str, plan: Plan | None = None
    ) -> OutTreeDistribution:
        from outtrees.trees.engine import engine_of_list

        self = cls.__new__(cls)
        self.roots, self.listed, self._edges = roots, True, edges
        self._engine, self.method = engine_of_list(edges, roots, method, plan)
        return self

    def __repr__(self) -> str:
        listed = f"{len(self.child)} possible edges, " if self.listed else ""
        return f"OutTreeDistribution({self.n_records} records, {listed}roots={self.roots!r})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: log Z, and the best parents of the first records.

        Of many records the parents are left out, since nobody asked for their marginals yet.
        """
        said = f"<p>{escape(repr(self))}, log Z = {self.log_z:.6g}</p>"
        if self.n_records > _SHOWN_AT_ONCE:
            return said
        pairs = zip(self.child, self.parent, strict=True) if self.listed else ()
        place = {(int(u), int(v)): e for e, (u, v) in enumerate(pairs)}
        parents = self.consensus().parents.tolist()
        rows = []
        for u, v in enumerate(parents[:_ROWS_SHOWN]):
            edge: Any = place[u, v] if self.listed and v >= 0 else (u, v)
            support = self.root_marginals[u] if v < 0 else self.edge_marginals[edge]
            rows.append([str(u), "none" if v < 0 else str(v), f"{support:.3f}"])
        more = self.n_records - len(rows)
        said += html_table(["child", "best parent", "support"], rows, right={0, 1, 2})
        return said + (f"<p>… {more} more records</p>" if more else "")

    @property
    def n_records(self) -> int:
        """T, the number of records."""
        return len(self._edges.log_root)

    @property
    def log_weight(self) -> Floats:
        """Log-weights of the edges, (T, T) [child, parent] or (E,); not to be written to."""
        return self._edges.log_weight

    @property
    def log_beta(self) -> Floats:
        """Log-weights of the edges, (T, T) [child, parent], −inf on the diagonal; read-only."""
        if self.listed:
            raise AttributeError(
                "a distribution over listed edges has no matrix log_beta; use child, parent and "
                "log_weight"
            )
        return self._edges.log_weight

    @property
    def child(self) -> Ints:
        """The record that each listed edge leads to, (E,)."""
        return self._edges.child

    @property
    def parent(self) -> Ints:
        """The record that each listed edge comes from, (E,)."""
        return self._edges.parent

    @property
    def log_root(self) -> Floats:
        """Log-weights of the roots, (T,); not to be written to."""
        return self._edges.log_root

    @property
    def plan(self) -> Plan | None:
        """How the elimination goes, for the next weights of this list; None if there is none."""
        return self._engine.plan

    # ------------------------------------------------------------------ sums over all trees

    @cached_property
    def log_z(self) -> float:
        """Log of the sum of all tree weights, log Z (paper, eq. 2). Exact; O(T³) for all pairs."""
        return self._engine.log_z

    @cached_property
    def log_z_rooted(self) -> Floats:
        """Log of the sum over the trees with the single root r, without ρ[r]: log Z_r, (T,).

        −inf where r is no possible root. With groups, r is the root of its own, and the other
        groups have theirs. With ``roots="any"`` this is still the sum over single-root trees, the
        paper's Z_r, and −inf throughout if there are none.
        """
        if self.roots == "single":
            return read_only(self._engine.log_z_rooted())
        try:
            return self._with(self.log_weight, np.zeros(self.n_records), "single").log_z_rooted
        except NoSpanningTreeError:
            return read_only(np.full(self.n_records, -np.inf))

    @cached_property
    def edge_marginals(self) -> Floats:
        """P(u descends directly from v), (T, T) [child, parent] or (E,). Exact.

        Those into a record sum, with ``root_marginals``, to one. They are the derivatives of log Z
        by ``log_weight``. Errors are absolute: a few units in the sixteenth digit, times the size
        of the log-weights once these exceed one (a log-weight of 1000 is itself known to 1e-13).
        """
        return read_only(self._engine.marginals[0])

    @cached_property
    def root_marginals(self) -> Floats:
        """P(r is a root), (T,). Exact."""
        return read_only(self._engine.marginals[1])

    @cached_property
    def entropy(self) -> float:
        """Entropy of the tree in nats: log Z minus the expected log-weight."""
        return self._engine.entropy

    def number_of_roots(self) -> Floats:
        """P(the forest has k roots), (T + 1,) for k = 0, …, T, in all groups. Exact; O(T³).

        Among more than 2,000 records (of listed edges: that can descend from each other in a
        circle) the roots of 2,000 drawn trees are counted, always the same ones: each probability
        then has a standard error of up to 0.011.

        Returns
        -------
        array of shape (T + 1,)
            Probabilities.

        Examples
        --------
        >>> import numpy as np
        >>> pair = OutTreeDistribution(np.zeros((2, 2)), roots="any")
        >>> pair.number_of_roots().round(3)
        array([0.   , 0.667, 0.333])
        """
        found = self._engine.number_of_roots()
        # An engine leaves out numbers that cannot occur.
        return np.append(found, np.zeros(self.n_records + 1 - len(found)))

    def expectation(self, values: ArrayLike) -> float:
        """Return the expected sum over a tree's edges of values in the form of ``log_weight``.

        Roots contribute nothing; the diagonal of a matrix is ignored.

        Parameters
        ----------
        values : array-like of shape (T, T) [child, parent], or (E,) for listed edges
            What each edge contributes.

        Returns
        -------
        float
            The expectation.

        Examples
        --------
        >>> import numpy as np
        >>> OutTreeDistribution(np.zeros((3, 3))).expectation(np.ones((3, 3)))  # edges of a tree
        2.0
        """
        return self._edges.expected(self.edge_marginals, values)

    # ------------------------------------------------------------------ single trees

    def log_prob(self, parents: ArrayLike) -> float | Floats:
        """Log-probability of one tree (T,) or of several (n, T); −inf for what is no such tree.

        ``parents[u]`` is u's parent, −1 at a root.

        Parameters
        ----------
        parents : array-like of shape (T,) or (n, T)
            Trees.

        Returns
        -------
        float or array of shape (n,)
            Log-probabilities.

        Examples
        --------
        >>> import numpy as np
        >>> np.exp(OutTreeDistribution(np.zeros((3, 3))).log_prob([-1, 0, 1])).round(3)  # 1 of 9
        np.float64(0.111)
        """
        array = check_parents(parents, self.n_records)
        trees = np.atleast_2d(array)
        log_probs = np.full(len(trees), -np.inf)
        groups, n_groups = self._edges.group_codes, self._edges.n_groups
        for i in np.flatnonzero(are_out_trees(trees, single_root=False)):
            n_roots = np.bincount(groups[trees[i] < 0], minlength=n_groups)
            if self.roots == "any" or (n_roots == 1).all():
                log_probs[i] = self._log_prob(trees[i])
        return log_probs if array.ndim == 2 else float(log_probs[0])

    def sample(self, n: int = 1, random_state: RandomState = None, *, replace: bool = True) -> Ints:
        """Return n trees, (n, T) parents with −1 at roots. Exact.

        With ``replace=True`` they are independent. All pairs: O(T²) per tree at most, whatever the
        weights; random walks are made only where they are short on average.

        With ``replace=False`` no tree comes twice: each is drawn from those that were not drawn
        before it, in proportion to their weights. O(T²) per tree where repetitions are rare, else
        O(T³).

        Parameters
        ----------
        n : int
            The number of trees.
        random_state : int, Generator or None
            For the draws.
        replace : bool
            Whether a tree may come again.

        Returns
        -------
        array of shape (n, T)
            Parents, −1 at roots.

        Examples
        --------
        >>> import numpy as np
        >>> OutTreeDistribution(np.zeros((5, 5))).sample(3, random_state=0).shape
        (3, 5)
        >>> trees = OutTreeDistribution(np.zeros((3, 3))).sample(9, random_state=0, replace=False)
        >>> len(np.unique(trees, axis=0))  # all there are
        9
        """
        n_trees, rng = as_count("n", n, 0), as_generator(random_state)
        if replace or n_trees == 0:
            return self._engine.sample(n_trees, rng)
        from outtrees.trees.distinct import distinct_trees

        return distinct_trees(self, n_trees, rng)

    def mode(self) -> Tree:
        """Return the most probable tree and its log-probability. Exact and certified.

        Chu–Liu/Edmonds, O(T²) or O(E log T); the tree's weight is checked against the upper bound
        that the algorithm's own dual solution puts on every tree.

        Returns
        -------
        Tree
            The tree and its log-probability.

        Examples
        --------
        >>> import numpy as np
        >>> OutTreeDistribution(np.log([[1.0, 1.0], [3.0, 1.0]])).mode().parents
        array([-1,  0])
        """
        parents = self._engine.mode()
        return Tree(parents, self._log_prob(parents))

    def best(self, k: int) -> list[Tree]:
        """Return the k most probable trees in order (fewer if there are fewer). Exact.

        On a list that is summed sparsely: O(E log T) time, and as much again for each tree in the
        component where it differs; memory O(E + k T).

        Parameters
        ----------
        k : int
            The number of trees.

        Returns
        -------
        list of Tree
            The most probable first.

        Examples
        --------
        >>> import numpy as np
        >>> trees = OutTreeDistribution(np.log([[1.0, 1.0], [3.0, 1.0]])).best(5)
        >>> [tree.parents.tolist() for tree in trees]
        [[-1, 0], [1, -1]]
        """
        found = self._engine.best(as_count("k", k, 1))
        trees = [Tree(parents, self._log_prob(parents)) for parents in found]
        # Sums of what each step lost may differ in the last digit.
        return sorted(trees, key=lambda tree: -tree.log_prob)

    def consensus(self) -> Consensus:
        """Return the tree with the most expected right parents, and that expectation.

        It maximises Σ_u P(u's parent is the one in the tree), a root counting as right where the
        record is a root; out of T.

        Returns
        -------
        Consensus
            The tree, and how many of its parents are expected to be right.

        Examples
        --------
        >>> import numpy as np
        >>> OutTreeDistribution(np.log([[1.0, 1.0], [3.0, 1.0]])).consensus().expected_right
        1.5
        """
        return Consensus(*self._engine.consensus())

    # ------------------------------------------------------------------ other distributions

    def given(
        self,
        parent: Mapping[int, int] | None = None,
        not_parent: Iterable[tuple[int, int]] = (),
        root: int | None = None,
    ) -> OutTreeDistribution:
        """Return the distribution over the trees that agree with what is known.

        ``parent={u: v}``: u descends from v (v = −1: u is a root); ``not_parent=[(u, w)]``: u
        does not descend from w (w = −1: u is no root); ``root=r``: r is a root. The probability of
        what is known is exp(result.log_z − self.log_z).

        Parameters
        ----------
        parent : mapping of int to int, optional
            Known parents.
        not_parent : iterable of (int, int)
            Excluded pairs of child and parent.
        root : int, optional
            A known root.

        Returns
        -------
        OutTreeDistribution
            Over the trees that remain.

        Raises
        ------
        NoSpanningTreeError
            If none remains.

        Examples
        --------
        >>> import numpy as np
        >>> dist = OutTreeDistribution(np.zeros((3, 3)))
        >>> dist.given(parent={2: 1}).root_marginals.round(3)
        array([0.333, 0.667, 0.   ])
        """
        return self._with(*condition(self._edges, parent, not_parent, root), self.roots)

    def kl(self, other: OutTreeDistribution) -> float:
        """Return the Kullback–Leibler divergence KL(self ‖ other) in nats; inf where due.

        Parameters
        ----------
        other : OutTreeDistribution
            Over trees of as many records.

        Returns
        -------
        float
            The divergence.

        Examples
        --------
        >>> import numpy as np
        >>> even = OutTreeDistribution(np.zeros((2, 2)))
        >>> odd = OutTreeDistribution(np.log([[1.0, 1.0], [3.0, 1.0]]))
        >>> round(odd.kl(even), 3)
        0.131
        """
        if not isinstance(other, OutTreeDistribution):
            raise ValueError(f"kl compares with another OutTreeDistribution; got {other!r}")
        if (other.n_records, other.roots) != (self.n_records, self.roots):
            raise ValueError(f"cannot compare {self!r} with {other!r}: they hold different trees")
        if self.roots == "single" and other._edges.n_groups != self._edges.n_groups:
            return np.inf  # one root for each group: no tree of one is a tree of the other
        mine, theirs = self.log_weight, self._edges.weights_in(other._edges)
        # Where they forbid what mine allows, ask the graph: a marginal may have underflowed to 0,
        # and rounding may leave a trace of an edge that no tree holds.
        may_be_root = self.log_root > -np.inf
        if self.roots == "single":
            may_be_root &= self.log_z_rooted > -np.inf
        if (may_be_root & np.isneginf(other.log_root)).any():
            return np.inf
        forbidden = self._edges.ends((mine > -np.inf) & np.isneginf(theirs))
        if len(forbidden[0]):
            allowed = self._edges.ends(mine > -np.inf)
            for u, v in zip(*forbidden, strict=True):
                if edge_is_possible(*allowed, may_be_root, int(u), int(v)):
                    return np.inf
        terms = self._edges.summands(
            self.edge_marginals * _log_ratio(mine, theirs),
            self.root_marginals * _log_ratio(self.log_root, other.log_root),
            self.roots,
        )
        return fsum([*terms, -self.log_z, other.log_z])

    # ------------------------------------------------------------------ inside

    def _with(self, log_weight: Floats, log_root: Floats, roots: Roots) -> OutTreeDistribution:
        """Return the distribution over the same edges with other weights."""
        if not self.listed:
            return OutTreeDistribution(log_weight, log_root, roots=roots)
        groups = self._edges.group_codes
        edges = ListedEdges(self.child, self.parent, log_weight, log_root, groups)
        return self._of_list(edges, roots, self.method)

    def _log_prob(self, parents: Ints) -> float:
        """Log-probability of one tree, in one exact sum: log Z alone would round its scales."""
        child = np.flatnonzero(parents >= 0)
        weight = self._edges.weights_at(child, parents[child])
        log_z = self._engine.log_z_parts()
        return fsum([*weight, *self.log_root[parents < 0], *(-part for part in log_z)])


def _check_roots(roots: object) -> None:
    if roots not in ("single", "any"):
        raise InvalidWeightsError(f"roots must be 'single' or 'any'; got {roots!r}")


def _log_ratio(mine: Floats, theirs: Floats) -> Floats:
    """Return log-weights minus log-weights, 0 where one of them is −inf."""
    ratio = np.zeros_like(mine)
    np.subtract(mine, theirs, out=ratio, where=(mine > -np.inf) & (theirs > -np.inf))
    return ratio

"""The distribution over all out-trees of a set of records: one object, every question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import islice
from math import fsum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.random import RandomState, as_generator
from outtrees.errors import InvalidWeightsError, NoSpanningTreeError
from outtrees.trees import elimination, extended, support, weights
from outtrees.trees.arborescence import certified_arborescence, total_weight
from outtrees.trees.arguments import check_count, check_values
from outtrees.trees.conditioning import condition
from outtrees.trees.parents import are_out_trees, check_parents
from outtrees.trees.probabilities import read_only, settled, weighted
from outtrees.trees.ranking import ranked_arborescences
from outtrees.trees.root_count import root_count_distribution
from outtrees.trees.sampling import SamplingTables, sampling_tables
from outtrees.trees.weights import Floats, Ints

if TYPE_CHECKING:
    from outtrees.trees.candidates import CandidateTrees

SparseArray = Any  # SciPy's sparse arrays and matrices have no common type to name


class Tree(NamedTuple):
    """One out-tree and its log-probability."""

    parents: Ints  # (T,), −1 at a root
    log_prob: float


class Consensus(NamedTuple):
    """One out-tree and how many of its T parents are expected to be right."""

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

    Raises
    ------
    NoSpanningTreeError
        If the allowed edges and roots leave no out-tree at all.
    InvalidWeightsError
        If the weights are not real numbers below +inf, in the right shape.

    Notes
    -----
    Cost: O(T³), as one LU factorisation (``log_z``) or one matrix inverse (marginals); memory at
    most 3.5 T × T arrays for these (forests 5.5, the extended range 8, ``sample`` 13). Weights
    may differ by any factor: where a double cannot hold them, an extended range takes over by
    itself.

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

    def __init__(
        self,
        log_beta: ArrayLike,  # (T, T) [child, parent]
        log_root: ArrayLike | None = None,  # (T,)
        *,
        roots: Literal["single", "any"] = "single",
    ) -> None:
        if roots not in ("single", "any"):
            raise InvalidWeightsError(f"roots must be 'single' or 'any'; got {roots!r}")
        self.roots = roots
        checked = weights.check(log_beta, log_root)
        if roots == "any":
            # From here on there is one root only: ∗, node 0, the parent of the forest's roots.
            self._weights = weights.lift(checked)
            support.require_rooted(self._weights)
            self._possible_roots = np.array([0])
        else:
            self._weights = checked
            self._possible_roots = support.possible_roots(checked)

    @classmethod
    def from_candidates(
        cls,
        child: ArrayLike | SparseArray,  # (E,)
        parent: ArrayLike | None = None,  # (E,)
        log_weight: ArrayLike | None = None,  # (E,)
        log_root: ArrayLike | None = None,  # (T,)
        n_records: int | None = None,
        *,
        roots: Literal["single", "any"] = "single",
        groups: ArrayLike | None = None,  # (T,)
    ) -> CandidateTrees:
        """Return the distribution over the out-trees that a list of possible edges allows.

        The same attributes and methods, with one entry for each listed edge, in the listed order,
        in place of (T, T) matrices; memory O(edges) where records choose their parents among
        earlier ones. See `outtrees.trees.candidates.CandidateTrees`.

        Parameters
        ----------
        child, parent, log_weight : arrays of shape (E,)
            The possible edges. Or ``child`` alone: a SciPy sparse array (T, T) [child, parent]
            whose stored entries, zeros included, are the log-weights; the list is then in the
            order of its COO form.
        log_root : array of shape (T,), optional
            All zero if not given.
        n_records : int, optional
            T, where neither ``log_root`` nor a sparse array says it.
        roots : {"single", "any"}
        groups : integer array of shape (T,), optional
            No edge joins two groups; one root in each where ``roots="single"``.

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
        """
        from outtrees.trees.candidate_lists import from_candidates

        return from_candidates(child, parent, log_weight, log_root, n_records, roots, groups)

    def __repr__(self) -> str:
        return f"OutTreeDistribution({self.n_records} records, roots={self.roots!r})"

    @property
    def n_records(self) -> int:
        """T, the number of records."""
        return self._weights.n - self._lifted

    @property
    def log_beta(self) -> Floats:
        """Log-weights of the edges, (T, T) [child, parent], −inf on the diagonal; read-only."""
        return self._weights.log_beta[self._lifted :, self._lifted :]

    @property
    def log_root(self) -> Floats:
        """Log-weights of the roots, (T,); read-only."""
        return self._weights.log_beta[1:, 0] if self._lifted else self._weights.log_root

    # ------------------------------------------------------------------ sums over all trees

    @cached_property
    def log_z(self) -> float:
        """Log of the sum of all tree weights, log Z (paper, eq. 2). Exact; O(T³)."""
        e = self._elimination
        return fsum([e.log_z_scaled, *e.log_scale, e.root_shift])

    @cached_property
    def log_z_rooted(self) -> Floats:
        """Log of the sum over the trees with the single root r, without ρ[r]: log Z_r, (T,).

        −inf where r is no possible root. With ``roots="any"`` this is still the sum over
        single-root trees, the paper's Z_r, and −inf throughout if there are none.
        """
        if self._lifted:
            return self._single_root_sums()
        rooted = self._elimination.log_z_rooted(self._possible_roots)
        if rooted is None:
            wide = extended.eliminate(self._weights, self._anchor)
            rooted = wide.log_z_rooted(self._possible_roots)
        return read_only(rooted)

    @cached_property
    def edge_marginals(self) -> Floats:
        """P(u descends directly from v), (T, T) [child, parent]. Exact; O(T³).

        Rows sum, with ``root_marginals``, to one. They are the derivatives of log Z by
        ``log_beta``. Errors are absolute: a few units in the sixteenth digit, times the size of
        the log-weights once these exceed one (a log-weight of 1000 is itself known to 1e-13).
        """
        return self._marginals[0][self._lifted :, self._lifted :]

    @cached_property
    def root_marginals(self) -> Floats:
        """P(r is a root), (T,). Exact."""
        edge, root = self._marginals
        return edge[1:, 0] if self._lifted else root

    @cached_property
    def entropy(self) -> float:
        """Entropy of the tree in nats: log Z minus the expected log-weight."""
        e = self._elimination
        edge, root = self._marginals
        # Scaled weights: the scaling constants would only cancel, taking digits with them.
        log_scaled = self._weights.log_beta - e.log_scale[:, None]
        log_rho = self._weights.log_root - e.log_scale - e.root_shift
        return fsum(
            [
                e.log_z_scaled,
                *-weighted(edge, log_scaled).sum(axis=1),
                *-weighted(root, log_rho),
            ]
        )

    def number_of_roots(self) -> Floats:
        """P(the forest has k roots) for k = 0 … T, shape (T + 1,). Exact; O(T³).

        Examples
        --------
        >>> import numpy as np
        >>> pair = OutTreeDistribution(np.zeros((2, 2)), roots="any")
        >>> pair.number_of_roots().round(3)
        array([0.   , 0.667, 0.333])
        """
        if not self._lifted:
            raise ValueError("number_of_roots needs roots='any'; a single-root tree has one root")
        probabilities = root_count_distribution(self._elimination.absorption()[1:, 1:])
        return settled(probabilities, self.n_records)

    # ------------------------------------------------------------------ single trees

    def log_prob(self, parents: ArrayLike) -> float | Floats:
        """Log-probability of one tree (T,) or of several (n, T); −inf for what is no such tree.

        ``parents[u]`` is u's parent, −1 at a root.
        """
        array = check_parents(parents, self.n_records)
        trees = np.atleast_2d(array)
        log_probs = np.full(len(trees), -np.inf)
        for i in np.flatnonzero(are_out_trees(trees, single_root=not self._lifted)):
            log_probs[i] = self._log_prob(trees[i])
        return log_probs if array.ndim == 2 else float(log_probs[0])

    def sample(self, n: int = 1, random_state: RandomState = None) -> Ints:
        """Return n independent trees, (n, T) parents with −1 at roots. Exact.

        O(T²) per tree at most, whatever the weights: random walks are made only where they are
        short on average.

        Examples
        --------
        >>> import numpy as np
        >>> OutTreeDistribution(np.zeros((5, 5))).sample(3, random_state=0).shape
        (3, 5)
        """
        n_trees = check_count(n, "the number of trees", 0)
        return self._to_records(self._tables.draw(n_trees, as_generator(random_state)))

    def mode(self) -> Tree:
        """Return the most probable tree and its log-probability. Exact and certified; O(T²).

        Chu–Liu/Edmonds; the tree's weight is checked against the upper bound that the
        algorithm's own dual solution puts on every tree.
        """
        best = certified_arborescence(self._weights.log_beta, self._weights.log_root)
        parents = self._to_records(best.parents)
        return Tree(parents, self._log_prob(parents))

    def best(self, k: int) -> list[Tree]:
        """Return the k most probable trees in order (fewer if there are fewer)."""
        n_trees = check_count(k, "k", 1)
        ranked = ranked_arborescences(self._weights.log_beta, self._weights.log_root)
        trees = [self._to_records(parents) for parents, _ in islice(ranked, n_trees)]
        return [Tree(parents, self._log_prob(parents)) for parents in trees]

    def consensus(self) -> Consensus:
        """Return the tree with the most expected right parents, and that expectation.

        It maximises Σ_u P(u's parent is the one in the tree), a root counting as right where the
        record is a root; out of T.
        """
        edge, root = self._marginals
        edge = np.where(self._weights.log_beta > -np.inf, edge, -np.inf)
        root = np.where(self._weights.log_root > -np.inf, root, -np.inf)
        best = certified_arborescence(edge, root)
        # In a lifted forest the virtual root is right in every tree, and no record.
        expected = total_weight(edge, root, best.parents) - self._lifted
        return Consensus(self._to_records(best.parents), expected)

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

        Examples
        --------
        >>> import numpy as np
        >>> dist = OutTreeDistribution(np.zeros((3, 3)))
        >>> dist.given(parent={2: 1}).root_marginals.round(3)
        array([0.333, 0.667, 0.   ])
        """
        known = condition(
            self.log_beta,
            self.log_root,
            parent=parent,
            not_parent=not_parent,
            root=root,
        )
        return OutTreeDistribution(*known, roots=self.roots)

    def kl(self, other: OutTreeDistribution) -> float:
        """Return the Kullback–Leibler divergence KL(self ‖ other) in nats; inf where due."""
        if not isinstance(other, OutTreeDistribution):
            raise ValueError(f"kl compares with another OutTreeDistribution; got {other!r}")
        if (other.n_records, other.roots) != (self.n_records, self.roots):
            raise ValueError(f"cannot compare {self!r} with {other!r}: they hold different trees")
        mine, theirs = self._weights, other._weights
        edge, root = self._marginals
        # Where they forbid what mine allows, ask the graph: a marginal may have underflowed to 0,
        # and rounding may leave a trace of an edge that no tree holds.
        forbidden = (mine.log_beta > -np.inf) & np.isneginf(theirs.log_beta)
        if any(support.edge_is_possible(mine, u, v) for u, v in np.argwhere(forbidden)):
            return np.inf
        mine_root = mine.log_root[self._possible_roots] > -np.inf
        if np.any(mine_root & np.isneginf(theirs.log_root[self._possible_roots])):
            return np.inf
        log_ratio = np.zeros_like(edge)
        both = (mine.log_beta > -np.inf) & (theirs.log_beta > -np.inf)
        np.subtract(mine.log_beta, theirs.log_beta, out=log_ratio, where=both)
        root_ratio = np.zeros_like(root)
        rooted = (mine.log_root > -np.inf) & (theirs.log_root > -np.inf)
        np.subtract(mine.log_root, theirs.log_root, out=root_ratio, where=rooted)
        terms = [*(edge * log_ratio).sum(axis=1), *(root * root_ratio)]
        return fsum([*terms, -self.log_z, other.log_z])

    def expectation(self, values: ArrayLike) -> float:
        """Return the expected sum of ``values[child, parent]`` over a tree's edges.

        Roots contribute nothing; the diagonal is ignored.
        """
        array = check_values(values, self.n_records)
        return fsum((self.edge_marginals * array).sum(axis=1))

    # ------------------------------------------------------------------ inside

    @property
    def _lifted(self) -> int:
        """1 if node 0 is the virtual root of a forest: records start at that index."""
        return int(self.roots == "any")

    @cached_property
    def _anchor(self) -> int:
        """The node that stays last: the densest possible root.

        Where β is symmetric, Z_r in scaled weights is proportional to the scale of row r, so
        the largest scale keeps every ratio Z_r / Z_anchor below one.
        """
        scales = weights.row_scales(self._weights.log_beta)[self._possible_roots]
        return int(self._possible_roots[scales.argmax()])

    @cached_property
    def _elimination(self) -> elimination.Elimination | extended.ExtendedElimination:
        in_range = elimination.eliminate(self._weights, self._anchor)
        return in_range or extended.eliminate(self._weights, self._anchor)

    @cached_property
    def _marginals(self) -> tuple[Floats, Floats]:
        edge, root = self._elimination.marginals()
        return read_only(settled(edge, self._weights.n)), read_only(root)

    @cached_property
    def _tables(self) -> SamplingTables:
        return sampling_tables(self._elimination)

    def _log_prob(self, parents: Ints) -> float:
        """Log-probability of one tree, in one exact sum: log Z alone would round its scales."""
        e = self._elimination
        child = np.flatnonzero(parents >= 0)
        return fsum(
            [
                *self.log_beta[child, parents[child]],
                *self.log_root[parents < 0],
                *-e.log_scale,
                -e.root_shift,
                -e.log_z_scaled,
            ]
        )

    def _single_root_sums(self) -> Floats:
        try:
            return OutTreeDistribution(self.log_beta).log_z_rooted
        except NoSpanningTreeError:
            return read_only(np.full(self.n_records, -np.inf))

    def _to_records(self, parents: Ints) -> Ints:
        """Return parents (…, n) of nodes as parents (…, T) of records."""
        return parents[..., self._lifted :] - self._lifted

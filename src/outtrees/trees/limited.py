"""Out-trees in which no record has more than so many children.

A limit on the number of children (two daughters of a cell) is not a product over edges, so no
elimination sums it: with at most one child the trees are Hamiltonian paths. Few records are summed
exactly, subset by subset; many are sampled, and the result says how well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees._common.arguments import as_count
from outtrees._common.random import RandomState, as_generator
from outtrees.errors import NoSpanningTreeError
from outtrees.trees.distribution import OutTreeDistribution
from outtrees.trees.edges import ListedEdges
from outtrees.trees.weights import Floats, Ints

_MOST_TERMS = 2e7  # of the exact sum: a second or so; 12 records with at most two children
_BATCHES = 20  # of each chain, for the Monte-Carlo error
_MENDING = 400  # rounds in which a tree must lose its surplus children
_PRICE = 0.05  # nats by which a child too many gets dearer in each of them
_TRIED = 1000  # exact trees, to see how many obey the limit anyway


@dataclass(frozen=True)
class LimitedTrees:
    """Frequencies under a limit on the number of children: exact of few records, else estimates."""

    edge_frequencies: Floats  # (E,) of the listed edges, in their order
    # (E,) Monte-Carlo standard errors: by batch means or between chains, whichever is larger
    edge_errors: Floats
    root_frequencies: Floats  # (T,)
    root_errors: Floats  # (T,)
    r_hat: float  # the largest split R̂ of any edge or root; above 1.05, sample more
    obeying: float  # share of the trees without the limit that obey it anyway
    trees: Ints  # (n_chains · batches, T) parents: independent, or the last tree of each batch
    exact: bool = False  # whether all trees were summed; errors are then 0 and R̂ is 1


def limited_trees(
    child: ArrayLike,  # (E,)
    parent: ArrayLike,  # (E,)
    log_weight: ArrayLike,  # (E,)
    log_root: ArrayLike,  # (T,)
    max_children: int,
    *,
    roots: Literal["single", "any"] = "single",
    n_sweeps: int = 2000,
    n_chains: int = 4,
    random_state: RandomState = None,
) -> LimitedTrees:
    """Return edge and root frequencies of the trees with at most ``max_children`` each.

    P(tree) ∝ Π weights, for the trees in which no record has more children than that. Of few
    records (12 with at most two children) all trees are summed, subset by subset
    (`limited_sum_kernels`). Of more: Markov chains from exact trees of the law without the limit,
    mended where they break it; the moves are: the parents of one record, or of three at once,
    drawn anew given all else; another root; two records exchange their parents, or their places;
    and, once a round, an exact tree of the law without the limit, which is taken if it obeys (as
    both laws have the same weights, it is then a fresh draw).

    Parameters
    ----------
    child, parent, log_weight, log_root, roots
        As for `OutTreeDistribution.from_candidates`.
    max_children : int
        At least 1.
    n_sweeps : int
        Rounds of each chain, in which every record is moved once or more; a tenth more come first
        and are not counted.
    n_chains : int
        At least 2.

    Raises
    ------
    NoSpanningTreeError
        If no tree with so few children was found. Whether there is one cannot be decided in
        reasonable time.

    Notes
    -----
    Exact: O(3^T T max_children). Sampled: O(n_chains · n_sweeps · T (k + depth)), k being the
    number of candidates of a record, plus one exact tree per round.

    Examples
    --------
    Three records, all edges equally likely; without a limit 3 of 9 trees are stars.

    >>> child, parent = [0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]
    >>> found = limited_trees(child, parent, np.zeros(6), np.zeros(3), 1, random_state=0)
    >>> found.edge_frequencies.round(3), found.exact
    (array([0.333, 0.333, 0.333, 0.333, 0.333, 0.333]), True)
    """
    most = as_count("max_children", max_children, 1)
    n_batch = -(-as_count("n_sweeps", n_sweeps, _BATCHES) // _BATCHES)
    chains = as_count("n_chains", n_chains, 2)
    edges = ListedEdges(child, parent, log_weight, log_root)
    exact = OutTreeDistribution._of_list(edges, roots, "auto")
    rng = as_generator(random_state)
    tried = exact.sample(_TRIED, rng)
    obeying = _surplus(tried, most) == 0
    if 3.0**edges.n_records * edges.n_records * min(most, edges.n_records) <= _MOST_TERMS:
        return _summed(edges, roots, most, float(obeying.mean()), chains * _BATCHES, rng)
    return _sampled(edges, exact, tried, obeying, most, n_batch, chains, rng)


def _summed(
    edges: ListedEdges,
    roots: str,
    max_children: int,
    obeying: float,
    n_trees: int,
    rng: np.random.Generator,
) -> LimitedTrees:
    """Return the frequencies summed over all trees, and independent trees."""
    from outtrees.trees.limited_sum_kernels import draw_trees, pass_down, sum_subsets

    T, forest = edges.n_records, roots == "any"
    most = min(max_children, T)
    log_beta = np.full((T, T), -np.inf)
    log_beta[edges.child, edges.parent] = edges.log_weight
    law = log_beta, edges.log_root, most, forest
    sums = sum_subsets(*law)
    if sums[3][-1] == -np.inf:
        raise NoSpanningTreeError(
            f"no out-tree exists in which every record has at most {max_children} children. "
            "Allow more children or more possible parents",
            cause="too many children",
            records=list(range(T)),
        )
    edge, root = pass_down(*law, sums)
    state = rng.integers(2**64, size=4, dtype=np.uint64)
    return LimitedTrees(
        edge_frequencies=edge[edges.child, edges.parent],
        edge_errors=np.zeros(len(edges.child)),
        root_frequencies=root,
        root_errors=np.zeros(T),
        r_hat=1.0,
        obeying=obeying,
        trees=draw_trees(state, *law, sums, n_trees),
        exact=True,
    )


def _sampled(
    edges: ListedEdges,
    exact: OutTreeDistribution,
    tried: Ints,  # (n, T) trees without the limit
    obeying: NDArray[np.bool_],  # (n,)
    most: int,
    n_batch: int,
    chains: int,
    rng: np.random.Generator,
) -> LimitedTrees:
    """Return the frequencies in Markov chains."""
    lists = _Lists.of(edges, exact.roots, most)
    starts = tried[np.argsort(~obeying, kind="stable")[:chains]]
    per_batch = np.zeros((chains, _BATCHES, len(edges.child)))
    roots_per_batch = np.zeros((chains, _BATCHES, exact.n_records))
    trees = np.empty((chains, _BATCHES, exact.n_records), dtype=np.intp)
    for c in range(chains):
        chain = _Chain(lists, starts[c], rng)
        chain.run(-(-n_batch * _BATCHES // 10), exact, rng)
        for b in range(_BATCHES):
            counts = chain.run(n_batch, exact, rng)
            per_batch[c, b, lists.order], roots_per_batch[c, b] = counts
            trees[c, b] = chain.tree.parent
    edge, edge_error, edge_r_hat = _summary(per_batch / n_batch, n_batch)
    root, root_error, root_r_hat = _summary(roots_per_batch / n_batch, n_batch)
    return LimitedTrees(
        edge_frequencies=edge,
        edge_errors=edge_error,
        root_frequencies=root,
        root_errors=root_error,
        r_hat=max(edge_r_hat, root_r_hat),
        obeying=float(obeying.mean()),
        trees=trees.reshape(chains * _BATCHES, -1),
    )


class _Lists(NamedTuple):
    """The possible edges by child, as the compiled moves read them."""

    order: Ints  # (E,) of the caller's edges
    start: Ints  # (T + 1,)
    to: Ints  # (E,)
    log_weight: Floats  # (E,)
    log_root: Floats  # (T,)
    forest: bool
    most: int

    @staticmethod
    def of(edges: ListedEdges, roots: str, most: int) -> _Lists:
        order = np.lexsort((edges.parent, edges.child))
        counts = np.bincount(edges.child, minlength=edges.n_records)
        return _Lists(
            order=order,
            start=np.append(0, np.cumsum(counts)).astype(np.intp),
            to=edges.parent[order],
            log_weight=edges.log_weight[order],
            log_root=edges.log_root,
            forest=roots == "any",
            most=most,
        )


class _Tree(NamedTuple):
    """One tree, as the compiled moves read and change it."""

    edge: Ints  # (T,) the number of each record's edge, −1 at a root
    parent: Ints  # (T,)
    children: Ints  # (T,) how many each record has


class _Chain:
    """One tree on its way through the trees that obey the limit."""

    def __init__(self, lists: _Lists, parents: Ints, rng: np.random.Generator) -> None:
        self.lists = lists
        self.state = rng.integers(2**64, size=4, dtype=np.uint64)
        self.work = np.empty(int(np.diff(lists.start).max(initial=0)) + 1)
        self.moved = np.empty(len(parents), dtype=np.intp)
        self._set(parents)
        for round_ in range(_MENDING):
            if self.tree.children.max(initial=0) <= lists.most:
                return
            self._sweep(1, _PRICE * (round_ + 1))
        if self.tree.children.max(initial=0) > lists.most:
            raise NoSpanningTreeError(
                f"no out-tree was found in which every record has at most {lists.most} "
                f"children; the best that was tried has one with {self.tree.children.max()}. Allow "
                "more children or more possible parents",
                cause="too many children",
                records=np.flatnonzero(self.tree.children > lists.most).tolist(),
            )

    def run(
        self, n_sweeps: int, exact: OutTreeDistribution, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Make rounds, each after a tree of the law without the limit; return the counts."""
        fresh = exact.sample(n_sweeps, rng)
        taken = np.flatnonzero(_surplus(fresh, self.lists.most) == 0)
        stops = np.append(taken, n_sweeps)
        edges, roots = self._sweep(int(stops[0]), np.inf)
        for i, t in enumerate(taken):
            self._set(fresh[t])
            more = self._sweep(int(stops[i + 1] - t), np.inf)
            edges, roots = edges + more[0], roots + more[1]
        return edges, roots

    def _set(self, parents: Ints) -> None:
        n = len(parents)
        below = np.flatnonzero(parents >= 0)
        owner = np.repeat(np.arange(n), np.diff(self.lists.start))
        keys = owner * n + self.lists.to  # in order, as the lists are
        edge = np.full(n, -1, dtype=np.intp)
        edge[below] = np.searchsorted(keys, below * n + parents[below])
        children = np.bincount(parents[below], minlength=n)
        self.tree = _Tree(edge, parents.astype(np.intp), children)

    def _sweep(self, n_sweeps: int, price: float) -> tuple[Floats, Floats]:
        from outtrees.trees.limited_kernels import sweep

        counts, root_counts = np.zeros(len(self.lists.to)), np.zeros(len(self.tree.parent))
        scratch = self.work, self.moved
        sweep(self.state, self.lists, price, *scratch, self.tree, n_sweeps, counts, root_counts)
        return counts, root_counts


def _surplus(trees: Ints, most: int) -> NDArray[np.intp]:
    """Return for each tree how many children there are beyond ``most`` each."""
    n, T = trees.shape
    row, child = np.nonzero(trees >= 0)
    children = np.bincount(row * T + trees[row, child], minlength=n * T).reshape(n, T)
    return np.asarray(np.maximum(children - most, 0).sum(axis=1))


def _summary(batches: Floats, size: int) -> tuple[Floats, Floats, float]:
    """Return mean, standard error and the largest split R̂ of (chains, batches, …) frequencies."""
    chains, n_batches, width = batches.shape
    mean = batches.mean(axis=(0, 1))
    spread = batches.reshape(chains * n_batches, width).var(axis=0, ddof=1)
    halves = batches.reshape(2 * chains, n_batches // 2, width).mean(axis=1)
    # Batches of a chain that has not moved on look alike: what its halves differ from those of
    # the others counts then.
    apart = halves.var(axis=0, ddof=1) / len(halves)
    error = np.sqrt(np.maximum(spread / (chains * n_batches), apart))
    error = np.maximum(error, 1.0 / (chains * n_batches * size))  # never seen is not never
    length = size * n_batches // 2
    within = (halves * (1 - halves)).mean(axis=0) * length / max(length - 1, 1)
    between = halves.var(axis=0, ddof=1)
    varies = within > 0
    if (between[~varies] > 0).any():  # one chain has an edge throughout, another never
        return mean, error, np.inf
    ratio = (length - 1) / length + between[varies] / within[varies]
    return mean, error, float(np.sqrt(ratio.max(initial=1.0)))

"""Candidate parents of the rows of a matrix: the likeliest under a mutation, by distances.

Exact nearest neighbours come from scikit-learn; approximate ones, for embeddings of many
dimensions, from PyNNDescent.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.edges import EdgeList, Ints
from outtrees._common.types import Array
from outtrees.candidates.links import Parts, linked
from outtrees.errors import MissingExtraError
from outtrees.models.base import Mutation

NEIGHBOURS = ("exact", "approximate")
# Up to so many dimensions scikit-learn takes trees, as fast and exact; beyond, all pairs.
MOST_EXACT = 15
_WIDER = 1.5  # neighbours that the search holds, over those asked for
# Pairs whose log-densities are held at once where all are compared: 32 MB.
_PAIRS_AT_ONCE = 2**22
_EMPTY: Ints = np.zeros(0, dtype=np.intp)


class MatrixCandidates(NamedTuple):
    """The candidates of each record, linked where they alone leave no out-tree."""

    edges: EdgeList
    # (T, k) log-densities of the k likeliest parents; None if one of these may be missing
    log_near: Array | None
    n_left: int  # how many records are not candidates of a record


def matrix_candidates(
    mutation: Mutation, X: Array, n_candidates: int, neighbours: str = "exact"
) -> MatrixCandidates:
    """Return the `n_candidates` likeliest parents of each record, with links between clusters.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> listed = matrix_candidates(GaussianMutation(transition="identity").start(X), X, 1)
    >>> len(listed.edges), listed.n_left
    (6, 2)
    """
    table = nearest_parents(mutation, X, n_candidates, neighbours)
    edges = joined(mutation, X, table, n_candidates)
    n_left = len(X) - 1 - table.shape[1]
    spaces = mutation._embeddings(X[:1], X[:1])
    several = spaces is not None and len(spaces) > 1
    if several or any(approximate_is_used(neighbours, space) for space in spaces or ()):
        return MatrixCandidates(edges, None, n_left)
    near = EdgeList.of_table(table)
    log_near = mutation._log_edges(X, X, near.child, near.parent).reshape(table.shape)
    return MatrixCandidates(edges, log_near, n_left)


def nearest_parents(
    mutation: Mutation,
    X: Array,  # (T, D)
    n_nearest: int,
    neighbours: str = "exact",
) -> Ints:
    """Return the `n_nearest` likeliest parents of each record, (T, k) with k ≤ T − 1.

    Where the density falls with a distance between the child and where its parent maps to (linear
    Gaussian and kernel mutations, and products of them), these are the nearest neighbours in units
    of the noise, by scikit-learn's trees: exact, about O(T log T) in few dimensions. A mixture
    takes the neighbours of every component together, and of these the likeliest: exact with one
    component that depends on the parent, very nearly so with several. All other mutations compare
    all pairs, `likeliest_parents`, exact.

    Beyond 15 dimensions scikit-learn compares all pairs too, O(T² D). With
    neighbours="approximate" PyNNDescent (an extra, `outtrees[neighbours]`) looks them up there in
    about O(T log T), and misses some.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.array([[0.0], [1.0], [3.0], [3.5]])
    >>> nearest_parents(GaussianMutation(transition="identity").start(X), X, 1).ravel()
    array([1, 0, 3, 2])
    """
    T = len(X)
    k = min(n_nearest, T - 1)
    if k == T - 1:
        return _others(T, k)
    spaces = mutation._embeddings(X, X)
    if spaces is None:
        return likeliest_parents(mutation, X, k)
    # Where all parents map to one place, or none matters, each is as good as any other.
    spaces = [space for space in spaces if np.ptp(space[1], axis=0).any()]
    if not spaces:
        return _others(T, k)
    tables = [_nearest(space, k, neighbours) for space in spaces]
    return tables[0] if len(tables) == 1 else _best(mutation, X, np.hstack(tables), k)


def likeliest_parents(
    mutation: Mutation,
    X: Array,  # (T, D)
    n_nearest: int,
) -> Ints:
    """Return what `nearest_parents` returns from all pairs, a block of children at a time.

    For every mutation; O(T² D) time, O(T k) memory.
    """
    k = min(n_nearest, len(X) - 1)
    table = np.empty((len(X), k), dtype=np.intp)
    for rows in _blocks(len(X), len(X)):
        log_beta = mutation._log_conditional(X[rows], X)
        log_beta[np.arange(len(log_beta)), np.arange(rows.start, rows.stop)] = -np.inf
        best = np.argpartition(-log_beta, k - 1, axis=1)[:, :k]
        # The record itself may be among the best if fewer than k others are possible at all.
        table[rows] = _without_self(best, np.arange(rows.start, rows.stop), len(X))
    return table


def joined(mutation: Mutation, X: Array, table: Ints, n_links: int) -> EdgeList:  # table (T, k)
    """Return the table's edges, with links where they leave no out-tree of all records.

    Each closed part gets its `n_links` best links to records outside: of every member's likeliest
    outside parent those that lose least against the member's listed parents. Repeated until one
    closed part is left; in each round their number is at least halved.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> mutation = GaussianMutation(transition="identity").start(X)
    >>> edges = joined(mutation, X, nearest_parents(mutation, X, 1), 1)
    >>> [f"{v} → {u}" for u, v in zip(edges.child, edges.parent)]
    ['1 → 0', '0 → 1', '2 → 1', '3 → 2', '1 → 2', '2 → 3']
    """
    edges = EdgeList.of_table(table)
    search = _OutsideSearch(mutation, X)

    def links(child: Ints, parent: Ints, parts: Parts) -> tuple[Ints, Ints]:
        more_child: list[Ints] = [_EMPTY]
        more_parent: list[Ints] = [_EMPTY]
        closed = np.flatnonzero(parts.closed)
        if len(closed) > 1:
            listed = EdgeList.of(child, parent, len(X))
            log_beta = mutation._log_edges(X, X, listed.child, listed.parent)
            log_rows = np.logaddexp.reduceat(log_beta, listed.starts[:-1])
            order = np.argsort(parts.part, kind="stable")
            ends = np.searchsorted(parts.part[order], np.arange(len(parts.closed) + 1))
            for c in closed:
                members = order[ends[c] : ends[c + 1]]
                outside = search.likeliest(members, parts.part != c)
                loss = log_rows[members] - mutation._log_edges(X, X, members, outside)
                best = np.argsort(loss, kind="stable")[:n_links]
                more_child.append(members[best])
                more_parent.append(outside[best])
        return np.concatenate(more_child), np.concatenate(more_parent)

    return EdgeList.of(*linked(edges.child, edges.parent, len(X), links), len(X))


class _OutsideSearch:
    """The likeliest parent of some records among those outside their set."""

    _SMALL = 1000  # members: so many neighbours and one more reach outside the set

    def __init__(self, mutation: Mutation, X: Array) -> None:
        self._mutation, self._X = mutation, X
        found = mutation._embeddings(X, X)
        self._spaces = [s for s in found or () if np.ptp(s[1], axis=0).any()]
        self._trees: list[Any] = []

    def likeliest(self, members: Ints, outside: NDArray[np.bool_]) -> Ints:  # (n,), (T,)
        if not self._spaces:
            return self._compared(members, outside)
        found = [self._near(i, members, outside) for i in range(len(self._spaces))]
        weights = [self._mutation._log_excess(self._X, self._X, members, f) for f in found]
        best = np.argmax(weights, axis=0)
        return np.asarray(np.array(found)[best, np.arange(len(members))], dtype=np.intp)

    def _near(self, space: int, members: Ints, outside: NDArray[np.bool_]) -> Ints:
        children, parents = self._spaces[space]
        if len(members) > self._SMALL:
            others = np.flatnonzero(outside)
            tree = search_tree(parents[others], 1)
            first: Ints = tree.kneighbors(children[members], return_distance=False)[:, 0]
            return others[first]
        if not self._trees:
            self._trees = [search_tree(s[1]) for s in self._spaces]
        near: Ints = self._trees[space].kneighbors(
            children[members], len(members) + 1, return_distance=False
        )
        return np.asarray(near[np.arange(len(members)), outside[near].argmax(axis=1)])

    def _compared(self, members: Ints, outside: NDArray[np.bool_]) -> Ints:
        others = np.flatnonzero(outside)
        best = np.empty(len(members), dtype=np.intp)
        for rows in _blocks(len(members), len(others)):
            log_beta = self._mutation._log_conditional(self._X[members[rows]], self._X[others])
            best[rows] = others[log_beta.argmax(axis=1)]
        return best


def _nearest(space: tuple[Array, Array], k: int, neighbours: str) -> Ints:
    """Return the k nearest parents of each child but itself, nearest first, (T, k)."""
    children, parents = space
    if approximate_is_used(neighbours, space):
        near = nearly_nearest(children, parents, k + 1)
        short = np.flatnonzero((near < 0).any(axis=1))
        if len(short):
            near[short] = _by_scikit_learn(children[short], parents, k + 1)
    else:
        near = _by_scikit_learn(children, parents, k + 1)
    return _without_self(near, np.arange(len(children)), len(parents), spare=1)


def _by_scikit_learn(children: Array, parents: Array, k: int) -> Ints:
    return np.asarray(search_tree(parents, k).kneighbors(children, return_distance=False))


def search_tree(points: Array, k: int = 5) -> Any:
    """Return scikit-learn's index of the k nearest neighbours."""
    from sklearn.neighbors import NearestNeighbors  # slow to load, and tables do without

    return NearestNeighbors(n_neighbors=k).fit(points)


def _without_self(best: Ints, rows: Ints, n_records: int, spare: int = 0) -> Ints:
    """Return the rows without the record itself; the last one goes where it is not there."""
    own: NDArray[np.bool_] = best == rows[:, None]
    if spare:
        own[~own.any(axis=1), -1] = True
        return best[~own].reshape(len(best), -1)
    for row in np.flatnonzero(own.any(axis=1)):  # another one, of density 0 like itself
        others = np.setdiff1d(np.arange(n_records), best[row])
        best[row, own[row]] = others[0] if others[0] != rows[row] else others[1]
    return best


def _best(mutation: Mutation, X: Array, table: Ints, k: int) -> Ints:
    """Return the k likeliest different records of each row, (T, k)."""
    table = np.sort(table, axis=1)
    edges = EdgeList.of_table(table)
    log_e = mutation._log_excess(X, X, edges.child, edges.parent).reshape(table.shape)
    # Below every density, but a second time the same record is still worse than a bad one.
    rank = np.where(np.isneginf(log_e), -1e300, log_e)
    rank[:, 1:][table[:, 1:] == table[:, :-1]] = -np.inf
    return np.take_along_axis(table, np.argpartition(-rank, k - 1, axis=1)[:, :k], axis=1)


def _others(n_records: int, k: int) -> Ints:
    """Return the k records after each one, in a circle."""
    return (np.arange(n_records)[:, None] + np.arange(1, k + 1)) % n_records


def _blocks(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, _PAIRS_AT_ONCE // width)
    for low in range(0, n_rows, step):
        yield slice(low, min(low + step, n_rows))


# Approximate neighbours -------------------------------------------------------------------


def approximate_is_used(neighbours: str, space: tuple[Array, Array]) -> bool:
    """Return whether parents in an embedding are looked up approximately."""
    return neighbours == "approximate" and space[1].shape[1] > MOST_EXACT


def nn_descent() -> Any:
    """Return the index class of PyNNDescent; raise ImportError with the remedy if it is missing."""
    try:
        from pynndescent import NNDescent
    except ImportError:
        raise MissingExtraError(
            "neighbours='approximate' needs PyNNDescent; install it with pip install "
            "'outtrees[neighbours]', or use neighbours='exact'"
        ) from None
    return NNDescent


def nearly_nearest(children: Array, parents: Array, k: int) -> Ints:
    """Return most of the k parents nearest to each child, (n, k); a row may hold −1 at its end.

    About O(n log n). On one thread and from one seed, so that the same records give the same rows.
    """
    index_of = nn_descent()
    # PyNNDescent computes in single precision: differences survive it best around 0.
    centre = parents.mean(axis=0)
    points = parents - centre
    held = min(int(_WIDER * k), len(parents) - 1)
    with warnings.catch_warnings():
        # Rows that it could not fill are looked up by the caller.
        warnings.simplefilter("ignore", UserWarning)
        index = index_of(points, n_neighbors=max(held, k), random_state=0, n_jobs=1)
        if np.array_equal(children, parents):
            found = index.neighbor_graph[0][:, :k]
        else:
            found = index.query(children - centre, k)[0]
    return np.asarray(found, dtype=np.intp)

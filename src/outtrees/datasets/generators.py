"""Records with a known truth: the paper's recipe for out-trees, and its spiral."""

from __future__ import annotations

import heapq
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from outtrees._common.random import as_generator

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


class Sampler(Protocol):
    """What a mutation with parameters can do, as far as generators need it."""

    def sample(self, parents: Any, rng: Any = None) -> Floats:
        """Return one child for each row of parents."""

    def sample_root(self, n: int, rng: Any = None) -> Floats:
        """Return n roots."""


def random_out_tree(n: int, random_state: Any = None) -> Ints:
    """Return an out-tree on n nodes, each of the n^(n−1) equally likely: parents (n,), root −1.

    A uniform labelled tree, read off a random Prüfer sequence, and a uniform root from which all
    edges point away (paper, section 2). O(n log n).

    Parameters
    ----------
    n : int
        The number of nodes.
    random_state : int, Generator, RandomState or None
        For the draw.

    Returns
    -------
    array of shape (n,)
        Parents, −1 at the root.

    Examples
    --------
    >>> random_out_tree(6, random_state=0)
    array([ 5, -1,  3,  1,  3,  1])
    """
    rng = as_generator(random_state)
    n = _count("n", n)
    neighbours: list[list[int]] = [[] for _ in range(n)]
    sequence = rng.integers(n, size=max(n - 2, 0)).tolist()
    missing = np.bincount(sequence, minlength=n) if sequence else np.zeros(n, dtype=np.intp)
    leaves = [int(u) for u in np.flatnonzero(missing == 0)]
    for v in sequence:
        u = heapq.heappop(leaves)
        neighbours[u].append(v)
        neighbours[v].append(u)
        missing[v] -= 1
        if missing[v] == 0:
            heapq.heappush(leaves, v)
    if n > 1:
        u, v = leaves
        neighbours[u].append(v)
        neighbours[v].append(u)

    parents = np.full(n, -1, dtype=np.intp)
    waiting = [int(rng.integers(n))]
    while waiting:
        v = waiting.pop()
        for u in neighbours[v]:
            if u != parents[v]:
                parents[u] = v
                waiting.append(u)
    return parents


def make_out_tree(n: int, mutation: Sampler, random_state: Any = None) -> tuple[Floats, Ints]:
    """Return records (n, D) and their true parents (n,), −1 at the root (paper, section 2).

    An out-tree uniform among all, a root from the mutation's root density, and each child from
    the conditional given its parent.

    Parameters
    ----------
    n : int
        The number of records.
    mutation : Mutation
        With parameters.
    random_state : int, Generator, RandomState or None
        For all draws.

    Returns
    -------
    X : array of shape (n, D)
        The records.
    parents : array of shape (n,)
        Their parents, −1 at the root.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> walk = GaussianMutation(
    ...     transition="identity", mutation_cov=np.eye(2), root_mean=[0, 0], root_cov=np.eye(2)
    ... )
    >>> X, parents = make_out_tree(100, walk, random_state=0)
    >>> X.shape, int((parents == -1).sum())
    ((100, 2), 1)
    """
    rng = as_generator(random_state)
    parents = random_out_tree(n, rng)
    root = np.flatnonzero(parents == -1)
    first = mutation.sample_root(1, rng)
    X = np.empty((len(parents), first.shape[1]))
    X[root] = first
    # A generation at a time: a uniform tree is about √n generations deep.
    by_parent = np.argsort(parents, kind="stable")
    begins = np.searchsorted(parents[by_parent], np.arange(len(parents) + 1))
    generation = root
    while len(generation):
        brood = [by_parent[begins[v] : begins[v + 1]] for v in generation]
        children = np.concatenate(brood)
        if len(children):
            X[children] = mutation.sample(X[parents[children]], rng)
        generation = children
    return X, parents


def make_spiral(n: int = 534, noise: float = 0.05, random_state: Any = 0) -> Floats:
    """Return n points along a noisy shrinking spiral in three dimensions, shape (n, 3).

    t ~ U(2π, 6π), point = (10 cos t / t, −10 sin t / t, t / 4π) + N(0, noise² I): the recipe of
    the literature (Ueda 1998, Rasmussen 1999) for the data of the paper's Figure 2, whose own
    534 points are not public. The default seed makes these the same for everybody.

    Parameters
    ----------
    n : int
        The number of points.
    noise : float
        Standard deviation around the curve.
    random_state : int, Generator, RandomState or None
        For all draws.

    Returns
    -------
    array of shape (n, 3)
        The points.

    Examples
    --------
    >>> make_spiral().shape
    (534, 3)
    """
    rng = as_generator(random_state)
    n = _count("n", n)
    if not (isinstance(noise, (int, float, np.number)) and 0 <= noise < np.inf):
        raise ValueError(f"noise must be a number >= 0; got {noise!r}.")
    t = rng.uniform(2 * np.pi, 6 * np.pi, size=n)
    curve = np.column_stack([10 * np.cos(t) / t, -10 * np.sin(t) / t, t / (4 * np.pi)])
    return curve + noise * rng.standard_normal(curve.shape)


def _count(name: str, value: object) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1; got {value!r}.")
    return int(value)

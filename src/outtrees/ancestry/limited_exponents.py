"""How much each kind of column should count where no record has more than so many children.

A limit on children makes supports surer than they are without it, so known parents ask for other
exponents under it. No formula sums such trees; chains sample them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees.ancestry.em import PossibleEdges
from outtrees.ancestry.exponents import PRIOR_SD, ExponentProblem
from outtrees.errors import NoSpanningTreeError
from outtrees.models.columns import Lineage, LineagePairs
from outtrees.trees.candidates import CandidateTrees
from outtrees.trees.limited import limited_trees

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_ROUNDS, _AVERAGED = 6, 6  # of Newton's steps, and how many more are averaged
_CHAINS = 2
_STEP = 0.5  # the longest step of a log-exponent


class LimitedExponents(NamedTuple):
    """Exponents under a limit, and how sure they are."""

    lineage: Lineage  # with its exponents
    error: float  # of the log-exponents by sampling, over that which the known parents leave


class _Moments(NamedTuple):
    """Of the slopes of log-weights, summed over a tree."""

    mean: Array  # (G,)
    cov: Array  # (G, G)


class _Group(NamedTuple):
    """The records and edges of one group with known parents."""

    records: Index  # (n,)
    edges: Index  # (m,), in the order of (child, parent)
    child: Index  # (m,), numbered within the group
    parent: Index  # (m,)
    known: dict[int, int]  # the same
    code: Index  # (m,) child · n + parent, rising


def learn_limited_exponents(
    lineage: Lineage,
    values: Sequence[Array],  # one (T, D_c) for each column
    pairs: LineagePairs,
    edges: PossibleEdges,
    known: Mapping[int, int],  # child → parent, −1 for a root
    max_children: int,
    random_state: np.random.Generator,
    *,
    names: Sequence[str],  # of the records, for what cannot be
    n_sweeps: int = 500,
    roots: str = "single",
    root_rate: float = 0.0,
) -> LimitedExponents:
    """Return the lineage whose exponents make the known parents most probable under the limit.

    As `learn_exponents`, but P is that of trees in which no record has more than `max_children`
    children. The slope of log P is a difference of two expectations, over the trees that have
    the known parents and over all that obey the limit; its curvature is the difference of the
    covariances. Both are sampled, so the exponents have a Monte-Carlo error, small where most
    parents of a group are known: `error` compares it, as the rounds show it, with the standard
    error that the known parents leave.

    Groups without known parents teach nothing and are not looked at. 12 rounds, in each of which
    every group with known parents is sampled by `limited_trees` once or twice.
    """
    plain = replace(lineage, exponents=None)
    problem = ExponentProblem(plain, values, pairs, edges, dict(known), roots, root_rate)
    groups = _groups_of(pairs, edges.groups, known)
    G, x = problem.n_kinds, np.zeros(problem.n_kinds)
    visited, curvatures = [], []
    for _ in range(_ROUNDS + _AVERAGED):
        exponents = np.exp(x)
        trees, slopes = problem.trees(exponents)
        slope, curvature = -x / PRIOR_SD**2, np.eye(G) / PRIOR_SD**2
        for group in groups:
            sides = slopes[:, group.edges], problem.alone[:, group.records]
            how = max_children, n_sweeps, random_state
            try:
                free = _sampled(group, trees, sides, {}, *how)
                told = _sampled(group, trees, sides, group.known, *how)
            except NoSpanningTreeError as error:
                first = names[group.records[0]]
                raise NoSpanningTreeError(f"among the relatives of {first!r}: {error}") from error
            slope = slope + exponents * (told.mean - free.mean)
            curvature = curvature + np.outer(exponents, exponents) * (free.cov - told.cov)
        x = x + np.clip(np.linalg.solve(_at_least(curvature), slope), -_STEP, _STEP)
        visited.append(x)
        curvatures.append(curvature)
    last = np.array(visited[_ROUNDS:])
    left = np.diag(np.linalg.inv(_at_least(np.mean(curvatures[_ROUNDS:], axis=0))))
    error = np.sqrt(last.var(axis=0, ddof=1) / _AVERAGED / left).max()
    found = replace(plain, exponents=np.exp(last.mean(axis=0))[problem.kind])
    return LimitedExponents(found, float(error))


def _groups_of(pairs: LineagePairs, groups: Index, known: Mapping[int, int]) -> list[_Group]:
    place, found = np.empty(len(groups), dtype=np.intp), []
    for number in np.unique(groups[list(known)]):
        records = np.flatnonzero(groups == number)
        n = len(records)
        place[records] = np.arange(n)
        edges = np.flatnonzero(groups[pairs.child] == number)
        code = place[pairs.child[edges]] * n + place[pairs.parent[edges]]
        order = np.argsort(code, kind="stable")
        edges, code = edges[order], code[order]
        told = {
            int(place[u]): int(place[v]) if v >= 0 else -1
            for u, v in known.items()
            if groups[u] == number
        }
        found.append(_Group(records, edges, code // n, code % n, told, code))
    return found


def _sampled(
    group: _Group,
    trees: CandidateTrees,
    sides: tuple[Array, Array],  # slopes of edges (G, m) and of roots (G, n)
    known: Mapping[int, int],
    max_children: int,
    n_sweeps: int,
    rng: np.random.Generator,
) -> _Moments:
    """Return the slopes' moments over the trees that obey the limit and have these parents."""
    by_edge, by_root = sides
    log_weight, log_root = (
        trees.log_weight[group.edges].copy(),
        trees.log_root[group.records].copy(),
    )
    for u, v in known.items():
        log_weight[(group.child == u) & (group.parent != v)] = -np.inf
        if v >= 0:
            log_root[u] = -np.inf
    if len(known) == len(group.records):  # one tree is left
        slopes = _of_trees(group, sides, np.array([[known[u] for u in range(len(known))]]))
        return _Moments(slopes[0], np.zeros((len(by_edge), len(by_edge))))
    found = limited_trees(
        group.child,
        group.parent,
        log_weight,
        log_root,
        max_children,
        roots=trees.roots,
        n_sweeps=n_sweeps,
        n_chains=_CHAINS,
        random_state=rng,
    )
    mean = by_edge @ found.edge_frequencies + by_root @ found.root_frequencies
    slopes = _of_trees(group, sides, found.trees)
    return _Moments(mean, np.atleast_2d(np.cov(slopes, rowvar=False)))


def _of_trees(group: _Group, sides: tuple[Array, Array], parents: Index) -> Array:
    """Return the slopes summed over each tree (number of trees, G)."""
    by_edge, by_root = sides
    total = (parents < 0) @ by_root.T
    tree, child = np.nonzero(parents >= 0)
    edge = np.searchsorted(group.code, child * parents.shape[1] + parents[tree, child])
    for g, slopes in enumerate(by_edge):
        total[:, g] += np.bincount(tree, slopes[edge], minlength=len(parents))
    return np.asarray(total)


def _at_least(curvature: Array) -> Array:
    """Return the matrix with no eigenvalue below the prior's, which sampled ones may be."""
    size, axes = np.linalg.eigh((curvature + curvature.T) / 2)
    return np.asarray((axes * np.maximum(size, 1 / PRIOR_SD**2)) @ axes.T)

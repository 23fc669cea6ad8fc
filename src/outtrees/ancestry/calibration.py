"""Calibration: how much each kind of column should count, learned from known parents.

A fitted model can be wrong about how records change *together*: cells that crowd keep apart and are
carried along together, sites of a sequence change in pairs, two columns say the same. Each edge is
then described well, yet supports are too modest or too sure. The likelihood of the records alone
does not show it; parents that are known do.

A limit on children makes supports surer than they are without it, so known parents need other
exponents under it. No formula sums such trees; chains sample them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from outtrees._common.arguments import as_count
from outtrees._common.progress import takes_long
from outtrees.ancestry.constraints import known_parents, named
from outtrees.ancestry.learning import Roots
from outtrees.ancestry.limited_children import no_limited_tree
from outtrees.ancestry.posterior import Posterior
from outtrees.candidates.edges import PossibleEdges
from outtrees.errors import NoSpanningTreeError, Option, RecordsError
from outtrees.models.columns import EdgeWeights, Lineage, LineagePairs
from outtrees.trees import OutTreeDistribution
from outtrees.trees.limited import limited_trees

if TYPE_CHECKING:
    from outtrees.ancestry.estimator import Ancestry

Array = NDArray[np.float64]
Index = NDArray[np.intp]

FEWEST = 20  # known parents; with fewer a fit would only follow its prior
# Exponents may be a factor of 1.6 from 1 within one standard deviation of their prior: a few known
# parents hardly move them, a hundred decide.
PRIOR_SD = 0.5
_MUCH_ERROR = 0.25  # of exponents by sampling, in standard errors that the known parents leave
_ROUNDS, _AVERAGED = 6, 6  # of Newton's steps, and how many more are averaged
_CHAINS = 2
_STEP = 0.5  # the longest step of a log-exponent


@takes_long
def calibrate(
    self: Ancestry,
    parents: Mapping[str, str | None],
    *,
    max_children: int | None = None,
    n_sweeps: int = 500,
    random_state: Any = None,
) -> Ancestry:
    """Learn from known parents how much each column should count, and count it so from now on.

    Supports rest on what the model takes for granted, above all that records change
    independently of each other given their parents. Where that is not so (cells that push each
    other, columns that repeat each other) they are too modest or too sure, which the parents of
    some records show. Each kind of column gets the exponent λ of its probabilities that makes
    these parents most probable, held near 1 by a prior: `lineage_.exponents`, in words in
    `describe`. All later answers use it; `log_likelihood_` remains that of the fit.

    The parents given here are not imposed on the trees, so that their own supports can be
    compared with the truth; but the honest test are other records than these.

    Parameters
    ----------
    parents : mapping of str to str
        From a child to its parent, None for a root; at least 20 that were not given to the fit.
    max_children : int, optional
        If given, the exponents are those of trees in which no record has more children than
        that, and only `limited_parents(max_children)` uses them: `limited_exponents_`. They
        are sampled; a warning says if that leaves more than a quarter of the standard error
        that the known parents leave.
    n_sweeps : int
        Rounds of the chains that sample them, at least 20; only used with max_children.
    random_state : int, Generator or None
        For these samples; by default that of the model.

    Returns
    -------
    Ancestry
        Itself, with changed supports.

    Raises
    ------
    RecordsError
        If a record is not known, or too few parents are.
    """
    posterior = self.fitted
    known = known_parents(posterior.records, parents, with_table=False)
    _check(posterior, known)
    problem = ExponentProblem(
        posterior.weights,
        posterior.pairs,
        posterior.edges,
        known,
        posterior.roots,
        posterior.readings[0].log_introduction,
    )
    if max_children is None:
        changed = posterior.with_exponents(learn_exponents(problem).lineage.exponents)
        self._posterior, self.readings_ = changed, list(changed.readings)
        if getattr(self, "dropped_mass_", None) is not None:
            self.dropped_mass_ = self._dropped_mass(self._constraints())
        return self
    most = as_count("max_children", max_children, 1)
    _check_limit(posterior, known, most)
    learned = learn_limited_exponents(
        problem, most, n_sweeps, self._generator(random_state), posterior.records.ids
    )
    if learned.error > _MUCH_ERROR:
        warnings.warn(
            f"sampling leaves the exponents unsure by {learned.error:.2f} of what the known "
            f"parents leave (at most {_MUCH_ERROR} is expected); raise n_sweeps, or give more "
            "known parents of the same groups",
            UserWarning,
            stacklevel=3,  # past the wrapper that shows progress
        )
    exponents = learned.lineage.exponents
    self.limited_exponents_ = {**self._limited_exponents, most: exponents}
    return self


def _check_limit(posterior: Posterior, known: Mapping[int, int], max_children: int) -> None:
    """Refuse known parents that no tree has, or none that obeys the limit."""
    try:
        _ = posterior.best_trees.given(known).log_z
    except NoSpanningTreeError as error:
        raise named(error, posterior.records.ids) from error
    children = Counter(v for v in known.values() if v >= 0)
    for v, number in children.most_common(1):
        if number > max_children:
            raise RecordsError(
                "no record may have more children than ",
                Option("max_children", max_children),
                f"; got {posterior.records.ids[v]!r} as the known parent of {number}. Correct the "
                "known parents or raise that number",
            )


def _check(posterior: Posterior, known: Mapping[int, int]) -> None:
    ids, edges = posterior.records.ids, posterior.edges
    number = np.bincount(edges.child, minlength=len(ids)) + edges.root_allowed
    # A record with one possible parent, such as one that was given to the fit, teaches nothing.
    telling = [u for u in known if number[u] > 1]
    if len(telling) < FEWEST:
        raise RecordsError(
            f"at least {FEWEST} known parents of records that could have had another must be "
            f"given; got {len(telling)} (parents that were given to the fit do not count). Give "
            "more, or leave supports as they are"
        )
    T = len(ids)
    code = edges.child.astype(np.int64) * T + edges.parent
    possible = set(code[posterior.log_weight > -np.inf].tolist())
    for u, v in known.items():
        if edges.root_allowed[u] if v < 0 else u * T + v in possible:
            continue
        what = "be a root" if v < 0 else f"descend from {ids[v]!r}"
        raise RecordsError(
            f"record {ids[u]!r} cannot {what} by the fitted model (dates, groups, forbidden pairs "
            "or candidates rule it out); correct or leave out that known parent"
        )


# All trees: exact --------------------------------------------------------------------------


class Learned(NamedTuple):
    """Exponents, and what they gained for the known parents."""

    lineage: Lineage  # with its exponents
    before: float  # log-probability of the known parents as fitted
    after: float  # with the exponents


def learn_exponents(problem: ExponentProblem) -> Learned:
    """Return the lineage whose exponents make the known parents most probable.

        maximise log P(known parents | records, λ) − Σ (log λ)² / 2 sd²,   sd = 0.5

    where P is exact: the sum over all trees with these parents, divided by the sum over all trees.
    Columns with the same kind of change share one λ. Weights of the trees are

        Σ_k w_k Π_c p_c(child | parent, k links)^λ_c

    O(evaluations · 2 sums over all trees), about twenty evaluations.
    """

    def loss(log_exponents: Array) -> tuple[float, Array]:
        value, slope = problem.log_known(np.exp(log_exponents))
        penalty = log_exponents / PRIOR_SD**2
        return 0.5 * float(penalty @ log_exponents) - value, penalty - slope

    start = np.zeros(problem.n_kinds)
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-9})
    found = np.exp(best.x)
    return Learned(
        replace(problem.lineage, exponents=found[problem.kind]),
        problem.log_known(np.ones(problem.n_kinds))[0],
        problem.log_known(found)[0],
    )


class ExponentProblem:
    """Trees for exponents of each kind; how probable known parents are in them, and its slope."""

    def __init__(
        self,
        weights: EdgeWeights,
        pairs: LineagePairs,
        edges: PossibleEdges,
        known: Mapping[int, int],  # child → parent, −1 for a root
        roots: Roots = "single",
        log_introduction: float = 0.0,
    ) -> None:
        self.lineage = lineage = replace(weights.lineage, exponents=None)
        names = [type(kernel).__name__ for kernel in lineage.kernels]
        self.kind = np.array([sorted(set(names)).index(name) for name in names])  # (C,)
        self.n_kinds = len(set(names))
        together = (self.kind == np.arange(self.n_kinds)[:, None]).astype(float)  # (G, C)
        with np.errstate(divide="ignore"):
            self.log_links = np.log(lineage.step_weights)  # (K,)
        links = range(1, lineage.generations + 1)
        background = weights.background
        rows = np.array([lineage.log_columns(pairs, background, k) for k in links])  # (K, C, E)
        self.impossible = np.isneginf(rows).any(axis=1)  # (K, E)
        rows[np.isneginf(rows)] = 0.0
        self.rows = np.array([together @ row for row in rows])  # (K, G, E)
        self.alone = together @ lineage.log_alone(background)  # (G, T)
        self.edges, self.known = edges, dict(known)
        self.roots, self.log_introduction = roots, log_introduction

    def trees(self, exponents: Array) -> tuple[OutTreeDistribution, Array]:
        """Return the trees, and the slopes of the edges' log-weights (G, E)."""
        steps = self.log_links[:, None] + np.einsum("kge,g->ke", self.rows, exponents)
        steps[self.impossible] = -np.inf
        log_weight = logsumexp(steps, axis=0)
        possible = log_weight > -np.inf
        shares = np.zeros_like(steps)  # of each number of links
        shares[:, possible] = np.exp(steps[:, possible] - log_weight[possible])
        slopes = np.einsum("ke,kge->ge", shares, self.rows)
        log_root = exponents @ self.alone + self.log_introduction
        return self.edges.trees(log_weight, log_root, self.roots), slopes

    def log_known(self, exponents: Array) -> tuple[float, Array]:
        """Return log P(known parents) and its slope by log λ (G,)."""
        trees, slopes = self.trees(exponents)
        given = trees.given(self.known)
        edge = given.edge_marginals - trees.edge_marginals
        root = given.root_marginals - trees.root_marginals
        return float(given.log_z - trees.log_z), exponents * (slopes @ edge + self.alone @ root)


# Trees with a limit on children: sampled -----------------------------------------------------


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
    problem: ExponentProblem,
    max_children: int,
    n_sweeps: int,
    rng: np.random.Generator,
    names: Sequence[str],  # of the records, for errors
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
    groups = _groups_of(problem.edges, problem.known)
    G, x = problem.n_kinds, np.zeros(problem.n_kinds)
    visited, curvatures = [], []
    for _ in range(_ROUNDS + _AVERAGED):
        exponents = np.exp(x)
        trees, slopes = problem.trees(exponents)
        slope, curvature = -x / PRIOR_SD**2, np.eye(G) / PRIOR_SD**2
        for group in groups:
            sides = slopes[:, group.edges], problem.alone[:, group.records]
            how = max_children, n_sweeps, rng
            try:
                free = _sampled(group, trees, sides, {}, *how)
                told = _sampled(group, trees, sides, group.known, *how)
            except NoSpanningTreeError as error:
                ids = [names[row] for row in group.records]
                raise no_limited_tree(error, ids, max_children) from error
            slope = slope + exponents * (told.mean - free.mean)
            curvature = curvature + np.outer(exponents, exponents) * (free.cov - told.cov)
        x = x + np.clip(np.linalg.solve(_at_least(curvature), slope), -_STEP, _STEP)
        visited.append(x)
        curvatures.append(curvature)
    last = np.array(visited[_ROUNDS:])
    left = np.diag(np.linalg.inv(_at_least(np.mean(curvatures[_ROUNDS:], axis=0))))
    unsure = np.sqrt(last.var(axis=0, ddof=1) / _AVERAGED / left).max()
    found = replace(problem.lineage, exponents=np.exp(last.mean(axis=0))[problem.kind])
    return LimitedExponents(found, float(unsure))


def _groups_of(listed: PossibleEdges, known: Mapping[int, int]) -> list[_Group]:
    groups = listed.groups
    place, found = np.empty(len(groups), dtype=np.intp), []
    for number in np.unique(groups[list(known)]):
        records = np.flatnonzero(groups == number)
        n = len(records)
        place[records] = np.arange(n)
        edges = np.flatnonzero(groups[listed.child] == number)
        code = place[listed.child[edges]] * n + place[listed.parent[edges]]
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
    trees: OutTreeDistribution,
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

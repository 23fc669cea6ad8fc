"""Dropped mass: how much probability a list of candidate parents leaves out.

For one record it is a share of weight,

    Σ_{v possible, not listed} w_uv / Σ_{v possible} w_uv,

the probability that the parent is not listed where every record chooses for itself (dates that
forbid cycles), and close to it otherwise. `DroppedMass` reports the mean over the records. The
shares come from the rows of a matrix (`matrix_dropped_mass`) or from the columns of a table
(`table_dropped_mass`); each way has its own upper bound, and both estimate the mean alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import total_ordering
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logsumexp

from outtrees._common.arguments import check_count
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.candidates.choices import log_sums
from outtrees.candidates.edges import OPEN, Constraints, PossibleEdges
from outtrees.candidates.matrix_search import MatrixCandidates
from outtrees.candidates.scan import Scanner
from outtrees.candidates.windows import possible_pairs, windows_of
from outtrees.models.base import Mutation
from outtrees.models.column import ColumnKernel
from outtrees.models.columns import (
    Drift,
    EdgeWeights,
    Lineage,
    Reversion,
    Sticky,
    Substitution,
    Transmission,
    TransmittedSequence,
    Waiting,
)

Index = NDArray[np.intp]

_PAIRS_AT_ONCE, _ROWS_AT_ONCE = 500_000, 16
_FAR = 40.0  # nats below a record's best parent: others are counted, not weighed
_MORE = 5  # times as many parents as a record has candidates are weighed


@total_ordering
@dataclass(frozen=True)
class DroppedMass:
    """The mean share of a record's probability on parents that are not candidates.

    ``float(mass)`` is the mean; a mass compares with numbers, and formats, as its mean does.

    Attributes
    ----------
    mean : float
    error : float
        The standard error of the mean, from the sample of records; 0 if it is exact.
    n_records : int
        How many records were examined.
    kind : {"exact", "bound", "estimate"}
        "exact": all records were examined. "bound": the mean is estimated from a sample, and
        `bound` holds for all records. "estimate": the mean is estimated, without a bound.
    bound : float or None
        An upper bound of the mean over all records, where one is known.

    Examples
    --------
    >>> mass = DroppedMass(0.002, 0.0005, 200, "bound", 0.01)
    >>> mass
    DroppedMass(mean=0.002, error=0.0005, n_records=200, kind='bound', bound=0.01)
    >>> float(mass), mass < 0.01, f"{mass:.1%}"
    (0.002, True, '0.2%')
    """

    mean: float
    error: float
    n_records: int
    kind: str = "estimate"
    bound: float | None = None

    def __float__(self) -> float:
        return self.mean

    def __format__(self, spec: str) -> str:
        return format(self.mean, spec) if spec else repr(self)

    # Comparisons with numbers: before 0.2, OutTreeDensity and OutTreeClassifier had a float here.
    def __eq__(self, other: object) -> bool:
        if isinstance(other, DroppedMass):
            return astuple(self) == astuple(other)
        return self.mean == other

    def __lt__(self, other: Any) -> bool:
        return bool(self.mean < other)

    def __hash__(self) -> int:
        return hash(self.mean)


def former_part(part: str) -> property:
    """Return the property `dropped_mass_<part>_`, the name of `dropped_mass_.<part>` before 0.2."""

    def get(estimator: Any) -> float | None:
        mass: DroppedMass = estimator.dropped_mass_
        warnings.warn(
            f"dropped_mass_{part}_ is deprecated; use dropped_mass_.{part}",
            FutureWarning,
            stacklevel=2,
        )
        value: float | None = getattr(mass, part)
        return value

    return property(get, doc=f"Deprecated: `dropped_mass_.{part}`.")


def _summary(
    shares: Array,  # (n,), of the records examined
    n_all: int,  # records of which these are a random sample
    bound: float | None,
) -> DroppedMass:
    n = len(shares)
    # Records examined leave no doubt about themselves: the error is that of the others.
    unseen = 1.0 - n / n_all
    error = float(np.sqrt(unseen / n) * shares.std(ddof=1)) if n > 1 else 0.0
    kind = "exact" if n == n_all else "estimate" if bound is None else "bound"
    return DroppedMass(float(shares.mean()), error, n, kind, bound)


# Of a matrix -------------------------------------------------------------------------------


def matrix_dropped_mass(
    mutation: Mutation,
    X: Array,  # (T, D)
    listed: MatrixCandidates,
    *,
    sharpness: float = 1.0,
    n_sampled: int = 200,
    random_state: Any = None,
) -> DroppedMass:
    """Return the share of a record's parents that is not listed, when weights are p^sharpness."""
    check_count("matrix_dropped_mass", "n_sampled", n_sampled, 2)
    n, edges = min(n_sampled, len(X)), listed.edges
    sample = np.sort(as_generator(random_state).permutation(len(X))[:n])
    shares = np.empty(n)
    for low in range(0, n, _ROWS_AT_ONCE):
        rows = sample[low : low + _ROWS_AT_ONCE]
        log_beta = _powered(mutation._log_conditional(X[rows], X), sharpness)
        log_beta[np.arange(len(rows)), rows] = -np.inf
        kept = [edges.parent[edges.starts[row] : edges.starts[row + 1]] for row in rows]
        shares[low : low + len(rows)] = dropped_shares(log_beta, kept)
    bound = None
    if listed.log_near is not None:
        bound = dropped_bound(_powered(listed.log_near, sharpness), listed.n_left)
    return _summary(shares, len(X), bound)


def dropped_shares(
    log_rows: Array,  # (n, K) log-weights of all parents of some records, −inf if impossible
    listed: Sequence[ArrayLike],  # which of the K are listed, of each record
) -> Array:
    """Return the exact shares that lists leave out (n,).

    Examples
    --------
    >>> weights = np.array([[0.0, 0.9, 0.1], [0.5, 0.0, 0.5], [0.3, 0.7, 0.0]])
    >>> with np.errstate(divide="ignore"):
    ...     dropped_shares(np.log(weights), [[1], [0, 2], [1]]).round(2)
    array([0.1, 0. , 0.3])
    """
    shares = np.empty(len(log_rows))
    for i, log_row in enumerate(log_rows):
        top = log_row.max(initial=-np.inf)
        # A record without any possible parent loses nothing.
        weight = np.exp(log_row - top) if top > -np.inf else np.zeros(len(log_row))
        left = weight.copy()
        left[np.asarray(listed[i], dtype=np.intp)] = 0.0
        shares[i] = left.sum() / max(weight.sum(), 1.0)  # at the top it is one
    return shares


def dropped_bound(
    log_listed: ArrayLike,  # (T, k) log-weights of the listed parents
    n_left: int,
) -> float:
    """Return an upper bound of the mean share left out, where the k likeliest are listed.

    None of the n_left others weighs more than the least of those listed, so a record's share is
    at most n_left w / (Σ listed + n_left w) with w its least listed weight. No sampling; loose
    where weights fall slowly.

    Examples
    --------
    >>> f"{dropped_bound(np.log([[0.6, 0.1], [0.4, 0.2]]), 2):.3f}"
    '0.311'
    """
    table = np.asarray(log_listed, dtype=np.float64)
    if n_left == 0:
        return 0.0
    log_left = np.log(n_left) + table.min(axis=1)
    kept = logsumexp(table, axis=1)
    with np.errstate(invalid="ignore"):
        share = np.where(np.isneginf(log_left), 0.0, expit(log_left - kept))
    return float(share.mean())


def _powered(log_weights: Array, sharpness: float) -> Array:
    """Return sharpness · log_weights; what is impossible stays so, even at sharpness 0."""
    possible = ~np.isneginf(log_weights)
    return np.multiply(
        log_weights, sharpness, out=np.full_like(log_weights, -np.inf), where=possible
    )


# Of a table --------------------------------------------------------------------------------


def table_dropped_mass(
    lineage: Lineage,
    values: Sequence[Array],  # one (T, D_c) for each column
    given: Constraints,
    edges: PossibleEdges,
    *,
    roots: str = "single",
    log_introduction: float = 0.0,
    n_records: int = 200,
    most_pairs: int = 1_500_000,
    most_searched: int = 300_000_000,
) -> DroppedMass:
    """Return the mean share of weight on possible parents that are not candidates.

    With roots="any" the root's weight is in the denominator too. Up to `most_pairs` all pairs of
    all records are weighed, and the mean is exact. Beyond, the sample is the same for the same
    table. Where its pairs would be more than `most_pairs`, implausibly early parents are excluded
    (`windows`: each is 16 nats less likely by its date than the likeliest), and if they are still
    too many the sample is made smaller. Up to `most_searched` pairs, and for columns where
    `can_be_bounded`, a search over all of them bounds the mean over all records as well.

    Examples
    --------
    >>> from outtrees.candidates import constraints, table_candidates
    >>> from outtrees.models.columns import Drift
    >>> cells, given = [np.array([[0.0], [1.0], [2.5], [9.0]])], constraints(4)
    >>> lineage = Lineage([Drift()]).start(cells)
    >>> lists = [table_candidates(lineage, cells, given, n) for n in (1, 2, 3)]
    >>> [f"{table_dropped_mass(lineage, cells, given, edges):.3f}" for edges in lists]
    ['0.294', '0.084', '0.000']
    """
    T = len(given.groups)
    found = windows_of(lineage, values, given, all_possible=True)
    n_pairs = int(found.sizes[given.open].sum())
    exact = n_pairs <= most_pairs
    sample = np.random.default_rng(1).permutation(given.open)
    sample = sample if exact else sample[:n_records]
    if found.sizes[sample].sum() > most_pairs:
        found = windows_of(lineage, values, given)
    enough = np.cumsum(found.sizes[sample]) <= most_pairs
    sample = np.sort(sample[: max(int(enough.sum()), 1)])
    shares = []
    weights = EdgeWeights(lineage, values, given.groups)
    log_roots = np.full(T, -np.inf)
    if roots == "any":
        allowed = given.root_allowed
        log_roots[allowed] = weights.log_root[allowed] + log_introduction
    for block in found.blocks(sample, _PAIRS_AT_ONCE):
        child, parent = possible_pairs(lineage, values, given, block, found)
        log_weight = weights.log_beta(child, parent)
        listed = np.isin(child * T + parent, edges.child * T + edges.parent)
        total = np.logaddexp(log_sums(child, log_weight, T), log_roots)[block]
        outside = log_sums(child[~listed], log_weight[~listed], T)[block]
        has = total > -np.inf
        shares.append(np.exp(outside[has] - total[has]))
    all_shares = np.concatenate(shares) if shares else np.zeros(0)
    n = len(all_shares)
    if not n:
        return DroppedMass(0.0, 0.0, 0, "exact", 0.0)
    if exact:
        return _summary(all_shares, n, float(all_shares.mean()))
    bound = None
    if n_pairs <= most_searched and can_be_bounded(lineage, values):
        log_edges = weights.log_beta(edges.child, edges.parent)
        bounds = dropped_bounds(weights, given, edges, log_edges, log_roots)
        has = given.root_allowed & (roots == "any")
        has[edges.child] = True
        bound = float(bounds[has & (given.known == OPEN)].mean())
    # Never "exact" by chance: parents that are implausibly early were perhaps excluded.
    return _summary(all_shares, max(len(given.open), n + 1), bound)


def can_be_bounded(lineage: Lineage, values: Sequence[Array]) -> bool:
    """Return whether the scores of a search are upper bounds of the weights, but for a factor.

    They are where compiled loops read the cells exactly, or too favourably: not for counts, clocks,
    K80, matrices, long tails, spreads of groups, uncertain or exact times, and waiting times
    without a peak; nor where columns are contrasted: the background is then as peaked as parents.
    """
    return not lineage.contrasted and all(
        _bounded(k, cells) for k, cells in zip(lineage.kernels, values, strict=True)
    )


def _bounded(kernel: ColumnKernel, cells: Array) -> bool:
    if isinstance(kernel, Transmission | TransmittedSequence):
        return False
    if isinstance(kernel, Waiting):
        known = cells[~np.isnan(cells).any(axis=1)]
        if kernel.unit == 0 or known[:, 2].any():
            return False
        halves = known[:, :2] / (kernel.unit / 2)
        # Beyond the table of waits the loops go on in a straight line: above a concave curve.
        peaked = kernel.table is not None or kernel.log_shape >= 0
        return peaked and bool((halves == np.round(halves)).all())
    if isinstance(kernel, Substitution):
        return kernel.model == "JC69" and not kernel.clock
    if isinstance(kernel, Reversion):
        return kernel.tail is None
    if isinstance(kernel, Sticky):  # loops count one of several categories as unknown
        return not (cells >= len(kernel.levels)).any()
    return type(kernel) is Drift and not kernel.clock and kernel.tail is None


def dropped_bounds(
    weights: EdgeWeights,
    given: Constraints,
    edges: PossibleEdges,
    log_edges: Array,  # (E,), log-weights of the candidates
    log_roots: Array,  # (T,), −inf where a record cannot be a root
) -> Array:
    """Return upper bounds of the share of weight outside the candidates (T,).

    Of each record the best parents are weighed. None of the others, n of them, scores more than s:
    the least that was kept, or 40 nats below the best. A score is the largest term of p(child |
    parent), a sum over numbers of links of products of two terms for each column with a background,
    so that the others weigh at most n · links · 2^columns · e^s. O(pairs) time, compiled.
    """
    lineage, values = weights.lineage, weights.values
    T, sought = len(given.groups), given.open
    n = _MORE * max(int(np.bincount(edges.child, minlength=T).max(initial=1)), 1)
    windows = windows_of(lineage, values, given, all_possible=True)
    best = Scanner(weights, upper=True).best(sought, n, windows, given, far=_FAR)
    found = np.bincount(best.child, minlength=T)
    top, least = np.full(T, -np.inf), np.full(T, np.inf)
    np.maximum.at(top, best.child, best.score)
    np.minimum.at(least, best.child, best.score)
    limit = np.where(found >= n, least, top - _FAR)
    listed = np.isin(best.child * T + best.parent, edges.child * T + edges.parent)
    weighed = np.bincount(edges.child, minlength=T) + np.bincount(best.child[~listed], minlength=T)
    left = np.zeros(T)
    left[sought] = np.maximum(best.possible - weighed[sought], 0)
    terms = lineage.generations * 2.0 ** int((np.asarray(lineage.outlier_shares) > 0).sum())
    with np.errstate(divide="ignore"):
        log_left = np.log(left * terms) + limit
    child, parent = best.child[~listed], best.parent[~listed]
    order = np.argsort(child, kind="stable")
    child, parent = child[order], parent[order]
    log_weight = weights.log_beta(child, parent)
    outside = np.logaddexp(log_sums(child, log_weight, T), log_left)
    inside = np.logaddexp(log_sums(edges.child, log_edges, T), log_roots)
    total = np.logaddexp(outside, inside)
    share = np.zeros(T)
    some = outside > -np.inf
    share[some] = np.exp(outside[some] - total[some])
    share[given.known != OPEN] = 0.0
    return share

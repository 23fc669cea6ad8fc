"""Learning: the parameters that make a table most probable, given its dates, over all trees.

    log p(cells | dates) = log Z(all columns) − log Z(dates)

Both are exact sums over trees: one with the weights of all columns, one with those of the dates
alone. What is learned of a waiting time is therefore learned from the other columns; the dates'
own density says nothing about it. Slopes come from the trees' edge probabilities, and L-BFGS
climbs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from outtrees.ancestry.waits import ReadingWeights, mean_waits, waiting_means, with_wait
from outtrees.candidates.choices import IndependentChoices, log_sums
from outtrees.candidates.edges import Constraints, PossibleEdges, all_edges
from outtrees.candidates.windows import in_order, possible_pairs, waiting_of, windows_of
from outtrees.errors import NoSpanningTreeError
from outtrees.inference.checkpoint import Checkpoint, digest
from outtrees.inference.importance import WeightedDraws
from outtrees.models.columns import ColumnKernel, Lineage
from outtrees.models.columns.background import Earlier
from outtrees.models.columns.earlier import earlier_pairs, log_backgrounds, with_backgrounds
from outtrees.models.columns.lineage import (
    Background,
    log_sum_of_links,
    order_by_cells,
    sample_by_cells,
)
from outtrees.models.priors import Normal, Prior

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Progress = Callable[[int, float], None]
Roots = Literal["single", "any"]

# An introduction is as likely beforehand as a share of all that an average record's possible
# parents weigh together: so many of all records, and half a one in tables of any size. A factor of
# e^0.8 either way is within one standard deviation.
_ROOT_SHARE, _ROOT_NUMBER, _ROOT_SPREAD = 0.02, 0.5, 0.8
FIRST_SHARES = (0.2, 0.7)  # of outliers, among which a start chooses
_MOST_PAIRS = 300_000  # beyond, parameters are learned from a sample of the records
_SAMPLED, _FEW = 300, 150  # records, at most: of such a sample, and of first climbs
_MOST_SAMPLED, _MOST_FEW = 350_000, 200_000  # pairs of these with parents and others, at most
_LEAST_SAMPLED = 50  # records, at least
# Waits this many nats less likely than a record's likeliest are left aside: in first climbs, and
# in the last ones, where they would change nothing in the first ten digits.
_UNLIKELY, _NEGLIGIBLE = 12.0, 40.0
_WORTH_PRUNING = 0.8  # of the edges: lists that would stay longer stay as they are

_SPREADS = (0.3, 0.8)  # narrow and wide ones, in means
_FIRST_SPREAD = 0.5  # standard deviation of a wait, in means
_WORTH_SPREADING = 0.05  # of the best reading's weight: such readings are tried with other spreads
ROUGH = 8  # steps of the first climb of a reading
# What a column must add to the log-likelihood for each of its parameters, and what all of them
# must add beside. Noise adds as much once in twenty times, and once in fifty.
_EACH_PARAMETER, _LEAST_GAIN = 1.0, 1.0
_FAR_MORE = 10.0  # nats beyond that with which no column is tried without
_FARTHEST = 8.0  # no parameter moves further than this from its start


class Point(NamedTuple):
    """Where a climb stands."""

    lineage: Lineage
    log_root: float  # log-weight of an introduction; 0 with a single root
    value: float  # log-likelihood + log-prior
    gain: float  # log p(cells | dates), against cells that do not follow any tree
    objectives: tuple[float, ...] = ()
    converged: bool = False
    n_iter: int = 0

    def as_reading(self, weight: float) -> Reading:
        """Return the reading that ends here."""
        return Reading(weight, self.lineage, self.log_root, *self[3:])


class Problem:
    """A table, its possible edges, and what records are compared with, ready to be climbed.

    Parameters
    ----------
    values : sequence of arrays (T, D_c)
    edges : PossibleEdges
    roots : {"single", "any"}
    rows : array, optional
        Of a large table: the records whose edges are listed. They choose their parents
        independently, as they do wherever dates are strict.
    """

    def __init__(
        self,
        lineage: Lineage,
        values: Sequence[Array],
        edges: PossibleEdges,
        roots: Roots,
        rows: Index | None = None,
    ) -> None:
        self.values, self.roots = values, roots
        self.T = len(edges.groups)
        self.sampled = rows is not None
        self.independent = self.sampled
        rows = np.arange(self.T) if rows is None else rows
        self.is_sampled = np.zeros(self.T, dtype=bool)
        self.is_sampled[rows] = True
        self.rows = rows
        # Densities without a parent, and the lineage's backgrounds that they are of.
        self._known: tuple[Any, dict[int, tuple[Array, Array]]] = None, {}
        self._earlier: Earlier | None = None
        self._list(lineage, edges.only(np.argsort(edges.child, kind="stable")))

    def _list(self, lineage: Lineage, edges: PossibleEdges) -> None:
        """Make these, sorted by child, the possible edges."""
        self.edges, self.child, self.parent = edges, edges.child, edges.parent
        self.pairs = lineage.pairs(self.values, self.values, self.child, self.parent)
        self._plans: list[Any] = [None, None]
        self._waits: tuple[Any, Array] | None = None  # a kernel of dates, and its log-weights
        self._pruned: dict[float, tuple[Any, Problem]] = {}  # the last one, and of which kernel

    def without_unlikely(self, lineage: Lineage, nats: float) -> Problem:
        """Return the problem without edges whose waits are so much less likely than others.

        Only where the waiting time is not learned, and where no other column can make up for it:
        likeness beyond that to all records is bounded by the number of these.
        """
        dates = lineage.dates
        if dates is None or self.roots == "single":  # one root may need any of the edges
            return self
        bounded = set(lineage.used) == {dates, *lineage.contrasted}
        if not bounded or len(lineage.kernels[dates].params) or lineage.outlier_shares[dates] > 0:
            return self
        kernel = lineage.kernels[dates]
        if nats in self._pruned and self._pruned[nats][0] is kernel:
            return self._pruned[nats][1]
        waits, result = self.log_waits(lineage), self
        best = np.full(self.T, -np.inf)
        np.maximum.at(best, self.child, waits)
        kept = (waits >= best[self.child] - nats) | ~self.edges.root_allowed[self.child]
        if kept.mean() <= _WORTH_PRUNING:
            result = copy(self)
            result._list(lineage, self.edges.only(kept))
        self._pruned[nats] = kernel, result
        return result

    def fewer(self, lineage: Lineage, given: Constraints) -> Problem:
        """Return the problem of a few of the records, for first climbs: itself if it has few.

        Only of a table that is a sample already: in one that can be climbed as a whole, few records
        would lead to lower maxima (spreads of groups that each have a handful of them).
        """
        if not self.sampled:
            return self
        now = len(self.rows)
        n = _number_sampled(_FEW, _MOST_FEW, len(self.child) / max(now, 1))
        if lineage.dates is None or now <= n:
            return self
        return problem_of(lineage, self.values, given, self.roots, n)

    # The sum over trees --------------------------------------------------------------------

    def trees(self, log_weight: Array, log_root: Array, which: int = 0) -> Any:
        """Return the distribution over trees with these weights of edges and roots."""
        if self.independent:
            return IndependentChoices(self.child, log_weight, self._roots_of(log_root))
        trees = self.edges.trees(log_weight, log_root, self.roots, plan=self._plans[which])
        self._plans[which] = trees.plan
        return trees

    def wait_links(self, lineage: Lineage, background: Background) -> Array:
        """Return the log-weights that dates give each edge at each number of links (K, E).

        Those of a waiting time that is not learned are kept.
        """
        dates = lineage.dates
        if dates is None:
            return lineage.log_links(self.pairs, background, [])
        kernel = lineage.kernels[dates]
        if self._waits is not None and self._waits[0] is kernel:
            return self._waits[1]
        waits = lineage.log_links(self.pairs, background, [dates])
        if not len(kernel.params) and not lineage.outlier_shares[dates] > 0:
            self._waits = kernel, waits
        return waits

    def log_waits(self, lineage: Lineage) -> Array:
        """Return the log-weight that dates alone give each edge (E,), 0 without dates."""
        links = self.wait_links(lineage, self.background(lineage))
        return log_sum_of_links(links + lineage.log_step_weights[:, None])

    def first_log_root(self, lineage: Lineage) -> float:
        """Return the log-weight of an introduction beforehand."""
        if self.roots == "single":
            return 0.0
        waits = self.log_waits(lineage)
        totals = log_sums(self.child, waits, self.T)
        known = totals[np.isfinite(totals)]
        share = _ROOT_SHARE + _ROOT_NUMBER / self.T
        return float(np.log(share) + (np.median(known) if len(known) else 0.0))

    # Value and slopes ----------------------------------------------------------------------

    def at(
        self, lineage: Lineage, log_root: float, centre: float, *, with_slopes: bool = True
    ) -> tuple[Point, Array]:
        """Return the value at these parameters, and its slopes (lineage's, then log_root's).

        Without slopes, which take most of the time, an empty array in their place.
        """
        dates = [] if lineage.dates is None else [lineage.dates]
        others = [c for c in lineage.used if c not in dates]
        background = self.background(lineage, remember=True)
        waits = self.wait_links(lineage, background)
        waits = waits + lineage.log_step_weights[:, None]  # (K, E)
        links = waits + lineage.log_links(self.pairs, background, others)
        log_weight, log_wait = log_sum_of_links(links), log_sum_of_links(waits)
        trees = self.trees(log_weight, lineage.log_root(background) + log_root)
        bare = self.trees(log_wait, np.full(self.T, log_root), 1)
        examined = float(self.is_sampled.mean())  # of all records, and so of all contacts
        less = self._less(lineage, background)
        gain = trees.log_z - bare.log_z + examined * lineage.log_common() - less
        value = gain + lineage.log_prior()
        introduction = Normal(centre, _ROOT_SPREAD)
        if self.roots == "any":
            value += introduction.log_density(log_root)
        point = Point(lineage, log_root, value, gain)
        if not with_slopes:
            return point, np.empty(0)
        by_link = trees.edge_marginals * _shares(links, log_weight)
        bare_by_link = bare.edge_marginals * _shares(waits, log_wait)

        slopes = lineage.slopes(self.pairs, by_link, background)
        if dates and len(lineage.kernels[dates[0]].params):
            slopes = slopes - lineage.slopes(self.pairs, bare_by_link, background, dates)
        slopes = slopes + lineage.slopes_of_links(by_link.sum(axis=1) - bare_by_link.sum(axis=1))
        slopes = slopes + lineage.slopes_of_roots(self.values, trees.root_marginals)
        slopes = slopes + lineage.slopes_of_background(background, self.is_sampled)
        slopes = slopes + examined * lineage.slopes_common()
        slopes = slopes + lineage.prior_slopes()
        if self.roots == "any":
            more = float(trees.root_marginals.sum() - bare.root_marginals.sum())
            slopes = np.append(slopes, more + introduction.slope(log_root))
        return point, slopes

    def background(self, lineage: Lineage, *, remember: bool = False) -> Background:
        """Return the densities without a parent; those that no parameter changes are kept."""
        if self._known[0] is not lineage.backgrounds:
            every = replace(lineage, outlier_shares=None)  # columns that are left out now as well
            found = log_backgrounds(every, self.values, self.edges.groups, self.rows)
            self._known = lineage.backgrounds, found
        return lineage.compared(self.values, self._known[1], remember=remember)

    def _less(
        self, lineage: Lineage, background: Background, columns: Sequence[int] | None = None
    ) -> float:
        """Return how much better ĝ, a column's cells before, predicts the cells than g.

        Of these columns together; all that are contrasted if they are not given.
        """
        known, rows = self._known[1], self.is_sampled
        return sum(
            float((known[c][1] - background.log_alone[c])[rows].sum())
            for c in (lineage.contrasted if columns is None else columns)
            if c in known
        )

    def gain_over_any(self, point: Point) -> float:
        """Return what a point gains over the same changes from any earlier record as a parent.

        That predicts all columns together, and is the better prediction where they repeat each
        other: what one says again then adds nothing.
        """
        lineage = point.lineage
        if not lineage.contrasted or lineage.backgrounds is None:
            return point.gain
        if self._earlier is None:
            self._earlier = earlier_pairs(lineage, self.values, self.edges.groups, self.rows)
        background = self.background(lineage)
        any_parent = lineage.log_any_parent(background, self._earlier)
        return point.gain - max(0.0, any_parent - self._less(lineage, background))

    def at_params(
        self, start: Lineage, theta: Array, centre: float, *, with_slopes: bool = True
    ) -> tuple[Point, Array]:
        """Return `at` for parameters of this lineage and, with any number of roots, log_root."""
        own, log_root = (theta, 0.0) if self.roots == "single" else (theta[:-1], float(theta[-1]))
        return self.at(start.with_params(own), log_root, centre, with_slopes=with_slopes)

    def priors(self, lineage: Lineage, centre: float) -> list[Prior | None]:
        """Return the prior of each of `params_of`, None where it is not one of a single one."""
        introduction = [Normal(centre, _ROOT_SPREAD)] if self.roots == "any" else []
        return [*lineage.priors(), *introduction]

    def params_of(self, lineage: Lineage, log_root: float) -> Array:
        """Return what `at_params` takes."""
        return np.append(lineage.params, log_root) if self.roots == "any" else lineage.params

    # The climb -----------------------------------------------------------------------------

    def climb(
        self,
        start: Lineage,
        log_root: float,
        *,
        max_iter: int = 100,
        tol: float = 1e-5,
        progress: Progress | None = None,
    ) -> Point:
        """Return the best parameters above this start."""
        centre = self.first_log_root(start)
        first = self.params_of(start, log_root)
        best: list[Point] = []
        trace: list[float] = []
        last: list[tuple[Array, float, Array]] = []

        def loss(theta: Array) -> tuple[float, Array]:
            if last and np.array_equal(theta, last[0][0]):  # the start is asked for twice
                return last[0][1:]
            point, slopes = self.at_params(start, theta, centre)
            if not best or point.value > best[0].value:
                best[:] = [point]
            trace.append(best[0].value)
            if progress is not None:
                progress(len(trace), best[0].value)
            last[:] = [(theta.copy(), -point.value, -slopes)]
            return -point.value, -slopes

        if not len(first):
            loss(first)
            return best[0]._replace(objectives=tuple(trace), converged=True)
        found = minimize(
            loss,
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=[(x - _FARTHEST, x + _FARTHEST) for x in first],
            # SciPy compares the gain with the value itself; here it counts for each record.
            options={"maxiter": max_iter, "ftol": tol * self.T / max(abs(loss(first)[0]), 1.0)},
        )
        return best[0]._replace(
            objectives=tuple(trace), converged=found.status != 1, n_iter=int(found.nit)
        )

    # Starts --------------------------------------------------------------------------------

    def started(self, lineage: Lineage) -> tuple[Lineage, float]:
        """Return the lineage with the best start and form of each column by itself.

        Spreads have several maxima: a column is first weighed alone with dates, each record
        choosing its parent independently, from every point of its grid. And return what contrasted
        columns gain in this way, those together that gain more than they must.
        """
        log_root = self.first_log_root(lineage)
        waits = self.log_waits(lineage)
        bare = IndependentChoices(self.child, waits, self._roots_of(np.full(self.T, log_root)))
        gains = 0.0
        for c in lineage.used:
            kernel = lineage.kernels[c]
            if c == lineage.dates or not len(kernel.params):
                continue
            share = float(lineage.outlier_shares[c])
            shares = FIRST_SHARES if share > 0 and c in lineage.contrasted else (share,)
            forms = [v.with_params(params) for v in kernel.variants() for params in v.start_grid()]
            if c in lineage.contrasted and lineage.backgrounds is not None:
                forms.append(lineage.backgrounds[c].kernel)  # as near as earlier cells are at all
            tried = []
            for moved in forms:
                logs = self._log_alone(_with_column(lineage, c, moved, share), c)
                for share in shares:
                    gain = self._gain_alone(*logs, share, waits, log_root) - bare.log_z
                    one = _with_column(lineage, c, moved, share)
                    tried.append((gain + moved.log_prior(), gain, one))
            _, gain, lineage = max(tried, key=lambda each: each[0])
            if c in lineage.contrasted:
                less = self._less(lineage, self.background(lineage), [c])
                gains += max(0.0, gain - less - _EACH_PARAMETER * _n_parameters(kernel))
        return lineage, gains

    def _roots_of(self, log_root: Array) -> Array:
        allowed = self.edges.root_allowed & self.is_sampled
        if self.roots == "single":  # only records without any possible parent, as dates have it
            has_parent = np.bincount(self.child, minlength=self.T) > 0
            allowed = allowed & ~has_parent
        return np.where(allowed, log_root, -np.inf)

    def _log_alone(self, lineage: Lineage, c: int) -> tuple[Array, Array]:
        """Return log p of one column along each edge (E,), and of each record by itself (T,).

        Contrasted columns: relative to the density without a parent.
        """
        background = self.background(lineage)
        parts = [
            lineage.log_steps(self.pairs, stretch, background, c, 1)
            for stretch in self.pairs.stretches
        ]
        alone = np.zeros(self.T) if background.is_relative(c) else background.log_alone[c]
        return np.concatenate([np.empty(0), *parts]), alone

    def _gain_alone(
        self, follows: Array, alone: Array, share: float, waits: Array, log_root: float
    ) -> float:
        """Return log Z of one column and the dates, parents being chosen independently."""
        with np.errstate(divide="ignore"):
            both = np.logaddexp(np.log1p(-share) + follows, np.log(share) + alone[self.child])
        trees = IndependentChoices(self.child, waits + both, self._roots_of(log_root + alone))
        return trees.log_z - float(alone[self.is_sampled].sum())


def _with_column(lineage: Lineage, c: int, kernel: Any, share: float) -> Lineage:
    shares = np.array(lineage.outlier_shares, dtype=np.float64)
    shares[c] = share
    return replace(lineage.with_kernel(c, kernel), outlier_shares=shares)


def _shares(links: Array, total: Array) -> Array:
    """Return the probability of each number of links, given the edge (K, E)."""
    if len(links) == 1:
        return np.ones_like(links)
    return np.exp(links - np.where(np.isfinite(total), total, 0.0))


# Readings ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Reading:
    """One explanation of a table: its parameters, what they explain, and its weight."""

    weight: float
    lineage: Lineage
    log_introduction: float  # log-weight of a root; 0 with a single one
    gain: float  # log p(cells | dates), against cells that do not follow any tree
    objectives: tuple[float, ...]  # the best log-likelihood + log-prior after each evaluation
    converged: bool
    n_iter: int
    # Where parameters are integrated out: their draws, and the lineage whose parameters they are.
    draws: WeightedDraws | None = None
    drawn: Lineage | None = None


class TableFit(NamedTuple):
    """The readings of a table, the best first, and the columns that were left out."""

    readings: tuple[Reading, ...]
    gains: dict[int, float]  # what each column that may be left out adds, nats
    left_out: tuple[int, ...]
    values: tuple[Array, ...]  # the cells of each column
    siblings: float = 0.0  # the chance that nothing in the cells tells the waiting time


def learn(
    lineage: Lineage,
    values: Sequence[Array],
    given: Constraints,
    roots: Roots,
    *,
    keep: Sequence[int] = (),
    max_iter: int = 100,
    tol: float = 1e-5,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> TableFit:
    """Return the readings of a table: what it says about its parents, and how sure that is.

    Where the waiting time is not given, many are tried, from the typical gap between dates to half
    of the whole time, with narrow and wide spreads: the other columns are fitted for each, and each
    reading is weighted by what it explains, gains together counting for at most ten nats. Columns
    that add too little to the best reading are left out one at a time, the weakest first, unless
    they are to be kept. Only the readings that remain are climbed to the end, over all trees.
    """
    # In an order that the cells decide: sums then round alike however the rows were given.
    order = order_by_cells(values)
    cells = [column[order] for column in values]
    try:
        climbs_of = partial(
            _Climbs, tol=tol, progress=progress, checkpoint=checkpoint or Checkpoint()
        )
        start, ordered = lineage.start(cells), given.in_order(order)
        told = say or (lambda text: None)
        fit = _learned(start, cells, ordered, roots, keep, max_iter, climbs_of, told)
    except NoSpanningTreeError:
        # It names records by their numbers, which are to be those of the table.
        lineage = lineage.start(values)
        problem_of(lineage, values, given, roots).at(lineage, 0.0, 0.0)
        raise
    return fit._replace(values=tuple(values))


def _learned(
    lineage: Lineage,
    values: Sequence[Array],
    given: Constraints,
    roots: Roots,
    keep: Sequence[int],
    max_iter: int,
    climbs_of: Callable[[Problem], _Climbs],
    say: Callable[[str], None],
) -> TableFit:
    """Return the readings of a table whose kernels have started."""
    problem = problem_of(lineage, values, given, roots)
    lineage = with_backgrounds(_with_rates(lineage, problem), values, given.groups)
    climbs = climbs_of(problem)
    waits = _first_waits(lineage, values)
    problem.independent = problem.sampled or lineage.dates is not None
    say("parameters" if len(waits) == 1 else f"parameters for {len(waits)} waiting times")
    rough = climbs_of(problem.fewer(lineage, given))
    points, alone = rough.of_waits(lineage, waits, ROUGH)
    gains: dict[int, float] = {}
    left_out: list[int] = []
    if any(c not in keep for c in points[0].lineage.optional):
        say("what each column adds")
        # Columns that repeat each other seem to gain together, most with waits as long as any:
        # so the waiting times for which they gain most by themselves count too.
        chosen = {int(np.argmax([point.value for point in points])), *np.argsort(alone)[-2:]}
        found = []
        for i in sorted(chosen):
            best = climbs.up(points[i].lineage, points[i].log_root, ROUGH)
            found.append(_without_gain(best, climbs, keep, float(np.log(len(waits)))))
        _, gains, left_out = max(found, key=lambda each: each[0])
    if left_out:
        for c in left_out:
            points = [p._replace(lineage=p.lineage.without(c)) for p in points]
        points = [rough.up(p.lineage, p.log_root, ROUGH) for p in points]
    weigh = ReadingWeights(points, values)
    points = weigh.that_count(_spread_out(points, rough, weigh))
    if problem.independent != problem.sampled:
        # Most of the way at a fraction of what all trees cost; then all trees.
        steps = min(ROUGH, max_iter)
        points = weigh.that_count([climbs.up(p.lineage, p.log_root, steps) for p in points])
        problem.independent = problem.sampled
    say(f"all trees of {len(problem.child):,} possible edges")
    points = [climbs.up(p.lineage, p.log_root, max_iter) for p in points]
    weights = weigh(points)
    order = np.argsort(-weights, kind="stable")
    readings = tuple(points[i].as_reading(float(weights[i])) for i in order)
    return TableFit(readings, gains, tuple(left_out), tuple(values), weigh.siblings)


def _with_rates(lineage: Lineage, problem: Problem) -> Lineage:
    """Return the lineage with the rates of contacts that these and the dates show by themselves.

    Other columns count beyond them. Rates that are learned beside others would be too sure: in a
    household that meets, each makes the other look like descent.
    """
    met = [c for c in lineage.used if lineage.kernels[c].relative]
    if not met or not lineage.contrasted:
        return lineage
    bare, problem = lineage, copy(problem)
    for c in lineage.contrasted:
        bare = bare.without(c)
    problem.independent = True
    bare = problem.started(bare)[0]
    found = problem.climb(bare, problem.first_log_root(bare), max_iter=ROUGH).lineage
    for c in met:
        kernel = replace(found.kernels[c], fixed=True)  # type: ignore[type-var]  # a dataclass
        lineage = _with_column(lineage, c, kernel, float(lineage.outlier_shares[c]))
    return lineage


def _without_gain(
    best: Point, climbs: _Climbs, keep: Sequence[int], searched: float
) -> tuple[float, dict[int, float], list[int]]:
    """Return what columns add beyond what they must, what each adds, and which are left out.

    The weakest goes first, until none is left or all that are left add far more than they must. Of
    all sets on the way the one that adds most beyond what its columns must add counts, unless it
    adds less than the search among waiting times may have found by chance.
    """

    def must_add(lineage: Lineage) -> dict[int, float]:
        optional = [c for c in lineage.optional if c not in keep]
        return {c: _EACH_PARAMETER * _n_parameters(lineage.kernels[c]) for c in optional}

    gains: dict[int, float] = {}
    gone: list[int] = []
    sets: list[tuple[float, list[int]]] = []
    while True:
        bars = must_add(best.lineage)
        sets.append((climbs.problem.gain_over_any(best) - sum(bars.values()), list(gone)))
        if not bars:
            break
        without = {c: climbs.up(best.lineage.without(c), best.log_root, ROUGH) for c in bars}
        over = {c: climbs.problem.gain_over_any(point) for c, point in without.items()}
        adds = {c: climbs.problem.gain_over_any(best) - gain for c, gain in over.items()}
        gains |= adds
        weakest = min(bars, key=lambda c: adds[c] - bars[c])
        if adds[weakest] > bars[weakest] + _FAR_MORE:
            break
        gone.append(weakest)
        best = without[weakest]
    if not must_add(best.lineage):  # the last set has no column that could be left out
        sets[-1] = sets[-1][0] + _LEAST_GAIN + searched, sets[-1][1]
    score, left_out = max(sets, key=lambda pair: pair[0])
    return score, gains, left_out


def _n_parameters(kernel: ColumnKernel) -> int:
    """Return how many parameters a column adds to a fit without it.

    The share of outliers too, where cells that change are not drawn from the background anyway. The
    rate of contacts by chance is known without any edge.
    """
    return 1 if kernel.relative else len(kernel.params) + (not kernel.from_background)


def _first_waits(lineage: Lineage, values: Sequence[Array]) -> list[tuple[float, float] | None]:
    """Return the waiting times (mean, sd) of the first climbs; None where it is given."""
    kernel = waiting_of(lineage)
    if kernel is None or kernel.is_given:
        return [None]
    assert lineage.dates is not None  # the kernel is there
    means = waiting_means(kernel, values[lineage.dates])
    return [(mean, kernel.sd or _FIRST_SPREAD * mean) for mean in means]


def _spread_out(points: list[Point], climbs: _Climbs, weigh: ReadingWeights) -> list[Point]:
    """Return the points, and those that matter with narrower and wider waiting times too."""
    kernels = [waiting_of(point.lineage) for point in points]
    if any(kernel is None or not kernel.fixed or kernel.sd is not None for kernel in kernels):
        return points
    weights, means = weigh.by_evidence(points), mean_waits([point.lineage for point in points])
    result = list(points)
    for point, weight, mean in zip(points, weights, means.tolist(), strict=True):
        if weight < _WORTH_SPREADING * weights.max():
            continue
        for spread in _SPREADS:
            here = with_wait(point.lineage, mean, spread * mean)
            result.append(climbs.up(here, point.log_root, ROUGH))
    return result


def problem_of(
    lineage: Lineage,
    values: Sequence[Array],
    given: Constraints,
    roots: Roots,
    n: int | None = None,
) -> Problem:
    """Return the problem of a table: of n of its records, or of as many as are not too many."""
    windows = windows_of(lineage, values, given, all_possible=True)
    if n is None and int(windows.sizes.sum()) <= _MOST_PAIRS:
        edges = all_edges(given)
        kept = in_order(lineage, values, edges.child, edges.parent)
        return Problem(lineage, values, edges.only(kept), roots)
    if n is None:
        n = _number_sampled(_SAMPLED, _MOST_SAMPLED, float(windows.sizes.mean()))
    rows = np.intersect1d(sample_by_cells(values, n), given.open)
    child, parent = possible_pairs(lineage, values, given, rows, windows)
    return Problem(lineage, values, given.edges(child, parent), roots, rows)


def _number_sampled(most: int, most_pairs: int, pairs_of_one: float) -> int:
    return int(min(most, max(_LEAST_SAMPLED, most_pairs // max(pairs_of_one, 1.0))))


@dataclass(frozen=True, eq=False)
class _Climbs:
    """Climbs in a fixed order, each of which a checkpoint may hold already."""

    problem: Problem
    tol: float
    progress: Progress | None
    checkpoint: Checkpoint

    def up(self, start: Lineage, log_root: float, max_iter: int) -> Point:
        """Return the end of the climb from this start."""
        number = self.checkpoint.begin()
        kept: Point | None = self.checkpoint.reached(number)
        if kept is not None:
            return kept
        nats = _UNLIKELY if max_iter <= ROUGH else _NEGLIGIBLE
        point = self.problem.without_unlikely(start, nats).climb(
            start, log_root, max_iter=max_iter, tol=self.tol, progress=self.progress
        )
        self.checkpoint.record(number, point)
        return point

    def of_waits(
        self, lineage: Lineage, waits: Sequence[tuple[float, float] | None], max_iter: int
    ) -> tuple[list[Point], list[float]]:
        """Return the end of a climb for each waiting time, from the best start that is known.

        And what columns gain by themselves, with each waiting time.
        """
        points: list[Point] = []
        alone: list[float] = []
        for wait in waits:
            here = lineage if wait is None else with_wait(lineage, *wait)
            log_root = self.problem.first_log_root(here)
            problem = self.problem.without_unlikely(here, _UNLIKELY)
            start, gains = problem.started(here)
            starts = [start]
            alone.append(gains)
            if points and wait is not None:
                best = max(points, key=lambda point: point.value)
                starts += [with_wait(p.lineage, *wait) for p in (best, points[-1])]
            values = [problem.at(s, log_root, log_root)[0].value for s in starts]
            points.append(self.up(starts[int(np.argmax(values))], log_root, max_iter))
        return points, alone


# Checkpoints -------------------------------------------------------------------------------


def lineage_checkpoint(
    path: str | os.PathLike[str], settings: dict[str, Any], lineage: Lineage
) -> Checkpoint:
    """Return the checkpoint of a table's fit in a file; its stages are the ends of climbs.

    Matrices of distances or weights do not change, and would be most of the file: they are left
    out, and put back from `lineage`.

    Parameters
    ----------
    settings : dict
        Everything that the fit depends on, besides the lineage.
    """

    def with_matrices(point: Point, matrices: Sequence[Any]) -> Point:
        kernels = tuple(
            replace(kernel, matrix=matrix) if hasattr(kernel, "matrix") else kernel  # type: ignore[type-var]  # kernels are dataclasses
            for kernel, matrix in zip(point.lineage.kernels, matrices, strict=True)
        )
        return point._replace(lineage=replace(point.lineage, kernels=kernels))

    given = [getattr(kernel, "matrix", None) for kernel in lineage.kernels]
    return Checkpoint.in_file(
        path,
        digest({**settings, "lineage": lineage}),
        lambda fields: with_matrices(Point(*fields), given),
        pack=lambda point: tuple(with_matrices(point, [None] * len(given))),
    )

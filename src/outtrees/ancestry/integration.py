"""Parameters integrated out: draws from their posterior in each reading of a table.

    p(θ | cells, dates) ∝ p(θ) Z(θ, all columns) / Z(θ, dates)

The sum over trees is exact for every θ, so only the parameters are sampled, not trees. Draws of a
reading are further members of the mixture that readings are: every answer averages over both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from outtrees._common.arguments import as_count
from outtrees.ancestry.learning import Point, Problem, Reading, Roots, TableFit, problem_of
from outtrees.ancestry.outbreak import MIXED, Outbreak
from outtrees.ancestry.posterior import Member, Posterior
from outtrees.ancestry.spread import dated
from outtrees.ancestry.waits import waiting_means
from outtrees.candidates.edges import Constraints
from outtrees.candidates.windows import waiting_of
from outtrees.errors import ArgumentError, InvalidWeightsError, NoSpanningTreeError, Option
from outtrees.inference.importance import (
    WeightedDraws,
    integrate,
    laplace_covariance,
    weighted_quantiles,
    widened,
)
from outtrees.io.tables import Table
from outtrees.models.columns import Lineage, Transmission
from outtrees.models.columns.lineage import order_by_cells
from outtrees.models.priors import Normal

if TYPE_CHECKING:
    from outtrees.ancestry.estimator import Ancestry

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# "auto" integrates up to so many records, possible edges and parameters.
MOST_RECORDS, MOST_EDGES, MOST_PARAMETERS = 300, 50_000, 40
_DRAWS, _LEAST_DRAWS = 128, 32  # of the first reading; of others in proportion to their weight
_LEAST_WEIGHT = 0.02  # of readings with draws; others keep their fitted parameters
_CLIMB = {"maxiter": 100, "ftol": 1e-6}  # to the mode in the coordinates of draws
# Draws from the prior, of all parameters and of each column's, the best of which are climbed from;
# and how often this is done again from a better mode.
_TRIED, _AGAIN = 12, 2
# Where climbs begin along each parameter if there are few, in standard deviations of its prior.
_ALONG, _FEW_PARAMETERS = (-1.5, -0.7, 0.0, 0.7, 1.5), 7
_FIRST_STEPS = 15  # of a climb, before it goes on if it is not too far behind
_HOPELESS = 30.0  # nats behind the best after them
_BETTER = 0.5  # nats by which a mode is another, better one
_ARRIVED = 0.05  # distance of two ends of climbs that are one mode
_SAME_MODE = 1.0  # standard deviations apart, up to which two modes are one
_MOST_MODES = 6  # that get draws of their own
# A narrow parameter of a mode has a shelf if the log-density so many standard deviations away falls
# by less than this part of what second derivatives say, and by few nats, with others at their best.
_NARROW, _AWAY, _SHELF, _SHELF_NATS = 0.6, (5.0, 3.0), 0.75, 5.0
_FAR_BEHIND = 7.0  # nats of evidence by which a mode does not count beside the best
# What parameters far out raise: weights beyond all numbers, no tree at all, a flat covariance.
_NO_DENSITY = (InvalidWeightsError, NoSpanningTreeError, np.linalg.LinAlgError)
_HIGH = 1e12  # what a climb sees there
_UNTAUGHT = 0.5  # chance that cells are like siblings' from which on they teach no waiting time


class Evidence(NamedTuple):
    """The logarithm of an integral over parameters, by importance sampling."""

    value: float
    error: float  # standard error


def is_small(T: int, n_edges: int, lineage: Lineage) -> bool:
    """Return whether parameters="auto" integrates over the parameters of such a table."""
    few = len(lineage.params) <= MOST_PARAMETERS
    return T <= MOST_RECORDS and n_edges <= MOST_EDGES and few


def integrated(
    fit: TableFit,
    given: Constraints,
    roots: Roots,
    seed: int,
    say: Callable[[str], None],
) -> TableFit:
    """Return the fit whose readings have draws of their parameters."""
    # In an order that the cells decide, as the fit itself: rows in another order, same draws.
    order = order_by_cells(fit.values)
    cells = [column[order] for column in fit.values]
    problem = problem_of(fit.readings[0].lineage, cells, given.in_order(order), roots)
    spread = 0.0 if fit.siblings > _UNTAUGHT else _spread_of_waits(fit)
    found = []
    say("posterior of the parameters")
    places: list[Place] = []  # of the best reading: tried in the others, which are like it
    for reading in fit.readings:
        start = opened(reading.lineage, spread)
        if reading.weight < _LEAST_WEIGHT or not len(problem.params_of(start, 0.0)):
            found.append(reading)
            continue
        drawn, of_reading = with_draws(problem, reading, start, seed, places)
        places = places or of_reading
        found.append(drawn)
    return fit._replace(readings=tuple(found))


class Target:
    """p(θ) p(cells | dates, θ) of a reading's parameters, and its slopes.

    In coordinates z in which every parameter is a standard normal beforehand.
    """

    def __init__(self, problem: Problem, start: Lineage) -> None:
        self.problem, self.start = problem, start
        self.centre = problem.first_log_root(start)
        self.priors = problem.priors(start, self.centre)

    def params_at(self, z: Array) -> Array:
        """Return the parameters at z (P,)."""
        pairs = zip(self.priors, z, strict=True)
        return np.array([x if prior is None else prior.from_normal(x) for prior, x in pairs])

    def normal_at(self, params: Array) -> Array:
        """Return the z of these parameters (P,)."""
        pairs = zip(self.priors, params, strict=True)
        return np.array([x if prior is None else prior.to_normal(x) for prior, x in pairs])

    def at_reading(self, reading: Reading) -> Array:
        """Return the z of a reading's parameters (P,)."""
        return self.normal_at(self.problem.params_of(self.start, reading.log_introduction))

    def blocks(self) -> list[Index]:
        """Return the parameters with a prior of their own: of each column, and all of them."""
        known = np.array([prior is not None for prior in self.priors])
        column = np.full(len(known), -1)  # also of the weight of an introduction
        own = self.start.columns_of_params
        column[: len(own)] = own
        blocks = [np.flatnonzero(known & (column == c)) for c in np.unique(column[column >= 0])]
        if len(blocks) > 1 or len(column) > len(own):
            blocks.append(np.flatnonzero(known))
        return [block for block in blocks if len(block)]

    def log_density(self, z: Array) -> float:
        """Return the log-density at z: −∞ where numbers overflow, or no tree is left."""
        try:
            with np.errstate(all="ignore"):
                params = self.params_at(z)
                start, centre = self.start, self.centre
                point = self.problem.at_params(start, params, centre, with_slopes=False)[0]
                return self._value(point, z)
        except _NO_DENSITY:
            return -np.inf

    def with_slopes(self, z: Array) -> tuple[float, Array]:
        """Return the log-density at z, and its slopes (P,)."""
        params = self.params_at(z)
        point, found = self.problem.at_params(self.start, params, self.centre)
        held = self.problem.params_of(point.lineage, point.log_root)
        own = [0.0 if p is None else p.slope(x) for p, x in zip(self.priors, held, strict=True)]
        # The prior's own slope, with the stretch of the coordinate, is that of the normal, −z.
        normal = np.array([0.0 if p is None else -x for p, x in zip(self.priors, z, strict=True)])
        stretch = np.exp(self._log_stretch(params, z))
        return self._value(point, z), (found - own) * stretch + normal

    def loss(self, z: Array) -> tuple[float, Array]:
        """Return minus `with_slopes`, and a high plain where there is no density."""
        try:
            with np.errstate(all="ignore"):
                value, slopes = self.with_slopes(z)
        except _NO_DENSITY:
            return _HIGH, np.zeros(len(z))
        return (-value, -slopes) if np.isfinite(value) else (_HIGH, np.zeros(len(z)))

    def _value(self, point: Point, z: Array) -> float:
        """Return the log-density at z: the normal's instead of each prior's.

        The prior is taken off where the model holds the parameter: shares do not come nearer to 0
        and 1 than a hair's breadth, and far out z would cost nothing otherwise.
        """
        held = self.problem.params_of(point.lineage, point.log_root)
        return point.value + float(self._log_stretch(held, z).sum())

    def _log_stretch(self, params: Array, z: Array) -> Array:
        """Return the logarithm of ∂ params / ∂ z (P,)."""
        normal = Normal()
        rows = zip(self.priors, params, z, strict=True)
        return np.array(
            [0.0 if p is None else normal.log_density(at) - p.log_density(x) for p, x, at in rows]
        )


class Mode(NamedTuple):
    """A place where the log-density is higher than around it."""

    at: Array  # (P,)
    value: float


class Place(NamedTuple):
    """Where the density of a reading is high: a mode, or a shelf beside one."""

    mode: Mode
    covariance: Array  # (P, P), of draws about it
    held: int | None  # the parameter that is held on a shelf

    @property
    def weight(self) -> float:
        """The log-evidence, but for a constant, as far as second derivatives tell it."""
        return self.mode.value + 0.5 * float(np.linalg.slogdet(self.covariance)[1])


def modes_of(target: Target, reading: Reading, seed: int) -> list[Array]:
    """Return the mode above a reading's parameters, and others of the same table, the best first.

    Columns that could be read in another way (a spread far narrower, another share that is kept)
    have modes that no climb from the first one reaches: from the best mode known, the parameters of
    one column at a time are drawn anew from their priors, and all of them together. Of few
    parameters each is also moved by itself: a mode may be so narrow that no draw is near it, and
    seeds that miss it would give other answers.
    """
    rng = np.random.default_rng(seed)
    found = [_climbed(target, target.at_reading(reading))]
    for _ in range(1 + _AGAIN):
        best = max(found, key=lambda mode: mode.value)
        if len(target.priors) <= _FEW_PARAMETERS:
            starts = _moved_along(target, best)
            found += [_climbed(target, at, best.value - _HOPELESS) for at in starts]
        for block in target.blocks():
            tried = np.repeat(best.at[None], _TRIED, axis=0)
            tried[:, block] = rng.normal(size=(_TRIED, len(block)))
            values = [target.log_density(z) for z in tried]
            if max(values) > -np.inf:
                highest = tried[int(np.argmax(values))]
                found.append(_climbed(target, highest, best.value - _HOPELESS))
        if max(mode.value for mode in found) < best.value + _BETTER:
            break
    found.sort(key=lambda mode: -mode.value)
    places: list[Array] = []
    for mode in found:
        again = any(np.linalg.norm(mode.at - at) < _ARRIVED for at in places)
        if mode.value > found[0].value - _HOPELESS and not again:
            places.append(mode.at)
    return places


def _moved_along(target: Target, mode: Mode) -> list[Array]:
    """Return a mode with one parameter at a time moved across its prior."""
    starts = []
    for i in np.flatnonzero([prior is not None for prior in target.priors]):
        for place in _ALONG:
            starts.append(mode.at.copy())
            starts[-1][i] = place
    return starts


def _shelves(
    target: Target, mode: Mode, covariance: Array, of: Collection[int] | None
) -> dict[int, list[Mode]]:
    """Return places beside a mode where the density is far higher than second derivatives say.

    For each parameter, or each of those given, on whose sides some are. A share that is kept has
    one where it nears its end: the cells no longer tell it, and only the prior falls off.
    """
    found: dict[int, list[Mode]] = {}
    spreads = np.sqrt(np.diag(covariance))
    narrow = [i for i in np.flatnonzero(spreads < _NARROW).tolist() if of is None or i in of]
    for i, sign in product(narrow, (-1.0, 1.0)):
        for away in _AWAY:
            normal = 0.5 * away**2
            with_others = covariance[:, i] / spreads[i]
            alone = np.where(np.arange(len(spreads)) == i, spreads[i], 0.0)
            tried = [mode.at + sign * away * step for step in (with_others, alone)]
            values = [target.log_density(at) for at in tried]
            if max(values) < mode.value - normal:
                continue
            beside = _climbed(target, tried[int(np.argmax(values))], np.inf, held=i)
            if mode.value - beside.value < min(_SHELF * normal, _SHELF_NATS):
                found.setdefault(i, []).append(beside)
                break
    return found


def _climbed(target: Target, start: Array, least: float = -np.inf, held: int | None = None) -> Mode:
    """Return the mode above a start; only a few steps unless it is then at least so high.

    One parameter may be held.
    """
    bounds = [(x - 5.0, x + 5.0) for x in start]
    if held is not None:
        bounds[held] = (start[held], start[held])
    options = _CLIMB | ({"maxiter": _FIRST_STEPS} if least > -np.inf else {})
    climb = minimize(
        target.loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    if climb.status == 1 and least > -np.inf and -climb.fun > least:  # it was not at its end
        return _climbed(target, np.asarray(climb.x), held=held)
    return Mode(np.asarray(climb.x), -float(climb.fun))


def with_draws(
    problem: Problem,
    reading: Reading,
    start: Lineage,
    seed: int,
    near: Sequence[Place] = (),
) -> tuple[Reading, list[Place]]:
    """Return the reading with draws of the parameters of `start`, and the places they are about.

    These are looked for, unless the ones found in a reading like it serve (`near`).
    """
    target = Target(problem, start)
    n_draws = max(_LEAST_DRAWS, round(_DRAWS * reading.weight))

    def drawn() -> WeightedDraws:
        first, *others = [(place.mode.at, place.covariance) for place in places]
        return integrate(target.log_density, *first, n_draws, seed, others)

    if near and len(near[0].mode.at) == len(target.priors):
        places = _moved(target, target.at_reading(reading), near)
        draws = drawn()
        if not draws.trusted:
            modes = [place.mode.at for place in places if place.held is None]
            places = _found(target, modes, [place.held for place in near if place.held is not None])
            draws = drawn()
    else:
        places = _found(target, modes_of(target, reading, seed))
        draws = drawn()
    params = np.array([target.params_at(row) for row in draws.params])
    return replace(reading, draws=replace(draws, params=params), drawn=start), places


def _found(
    target: Target, starts: Sequence[Array], ledges: Collection[int] | None = None
) -> list[Place]:
    """Return the places where the density of a reading is high, the heaviest first.

    Modes above these starts, and shelves: of these parameters if they are given, else of all.
    """
    modes = [_climbed(target, starts[0])]
    modes += [_climbed(target, at, modes[0].value - _HOPELESS) for at in starts[1:]]
    modes.sort(key=lambda mode: -mode.value)
    waiting: list[tuple[Mode, int | None]] = [(mode, None) for mode in modes]
    places: list[Place] = []
    for mode, held in waiting:
        # Second derivatives cannot make up for so much.
        hopeless = mode.value < modes[0].value - _HOPELESS
        if hopeless or len(places) == _MOST_MODES or _is_among(mode.at, places):
            continue
        places.append(_place(target, mode, held))
        if len(places) == 1:
            shelves = _shelves(target, mode, places[0].covariance, ledges)
            waiting += [(beside, i) for i, found in shelves.items() for beside in found]
    return _heaviest(places)


def _moved(target: Target, first: Array, near: Sequence[Place]) -> list[Place]:
    """Return places like the given ones in another reading, as wide; the heaviest first."""
    places: list[Place] = []
    best = -np.inf
    own = near[0]._replace(mode=Mode(first, -np.inf), held=None)
    for place in (own, *near):
        mode = _climbed(target, place.mode.at, best - _HOPELESS, place.held)
        best = max(best, mode.value)
        if not _is_among(mode.at, places):
            places.append(_place(target, mode, place.held, place.covariance))
    return _heaviest(places)


def _place(target: Target, mode: Mode, held: int | None, covariance: Array | None = None) -> Place:
    """Return the place of draws about a mode, as wide as the density is there unless it is said."""
    if covariance is None:
        covariance = laplace_covariance(target.with_slopes, mode.at, widest=1.0)
        covariance = widened(target.log_density, mode.at, covariance, widest=1.2)
    return Place(mode, covariance, held)


def _is_among(at: Array, places: Sequence[Place]) -> bool:
    """Return whether draws about one of these places come here."""
    off = [(at - place.mode.at, place.covariance) for place in places]
    return any(d @ np.linalg.solve(covariance, d) < _SAME_MODE**2 for d, covariance in off)


def _heaviest(places: Sequence[Place]) -> list[Place]:
    """Return those that count beside the heaviest place, which is the first."""
    ordered = sorted(places, key=lambda place: -place.weight)
    return [place for place in ordered if place.weight > ordered[0].weight - _FAR_BEHIND]


def opened(lineage: Lineage, spread: float) -> Lineage:
    """Return the lineage whose waiting time is learned near the one that was tried.

    Readings stand for the waiting times about theirs. Only within that reach the cells decide; the
    weights of readings among each other are not theirs alone (`outtrees.ancestry.learning`).
    """
    kernel = waiting_of(lineage)
    if kernel is None or not kernel.fixed or not spread > 0:
        return lineage
    assert lineage.dates is not None  # the kernel is there
    return lineage.with_kernel(lineage.dates, kernel.near(spread))


def _spread_of_waits(fit: TableFit) -> float:
    """Return half of the distance between waiting times that were tried, in logs."""
    lineage = fit.readings[0].lineage
    kernel = waiting_of(lineage)
    if kernel is None or isinstance(kernel, Transmission):
        return 0.0
    assert lineage.dates is not None  # the kernel is there
    means = waiting_means(kernel, fit.values[lineage.dates])
    return 0.5 * float(np.log(means[1] / means[0])) if len(means) > 1 else 0.5


# What is known of the parameters -----------------------------------------------------------


def is_integrated(posterior: Posterior) -> bool:
    """Return whether answers average over draws of the parameters."""
    return posterior.whole or any(reading.draws is not None for reading in posterior.readings)


def posterior(self: Ancestry, n_draws: int | None = None) -> Table:
    """Return draws of the parameters: reading, weight, and a column for each parameter.

    With parameters="fitted", the fitted parameters of each reading. `to_arviz` has the same
    for arviz.

    Parameters
    ----------
    n_draws : int, optional
        So many draws of equal weight, chosen among the weighted ones; by default all of these.

    Returns
    -------
    Table
        Columns reading (from 1), weight, and each parameter: "column: name (unit)".

    Examples
    --------
    >>> from outtrees import Ancestry
    >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
    >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0, keep=["ward"])
    >>> model.fit(table).posterior().columns[:3]
    ('reading', 'weight', 'ward: stickiness')
    """
    table = draws_table(self.fitted)
    if n_draws is None:
        return table
    n = as_count("n_draws", n_draws, 1)
    weights = np.array(table["weight"])
    # Systematic resampling: a draw comes up its expected number of times, but for rounding.
    marks = (np.arange(n) + self._generator(self._seed()).uniform()) / n
    chosen = np.searchsorted(np.cumsum(weights) / weights.sum(), marks)
    chosen = np.minimum(chosen, len(weights) - 1)
    drawn = {name: [cells[i] for i in chosen] for name, cells in table.items()}
    return Table(drawn | {"weight": [1 / n] * n})


def intervals(self: Ancestry, level: float = 0.95) -> Table:
    """Return how well each parameter is known.

    Parameters
    ----------
    level : float
        The share of the posterior that an interval holds.

    Returns
    -------
    Table
        Columns parameter, median, lower and upper.

    Raises
    ------
    ArgumentError
        If level is not between 0 and 1.

    Examples
    --------
    >>> from outtrees import Ancestry
    >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
    >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0, keep=["ward"])
    >>> model.fit(table).intervals().columns
    ('parameter', 'median', 'lower', 'upper')
    """
    if not 0 < level < 1:
        raise ArgumentError(
            Option("level"), f" must be between 0 and 1; got {level}. Write 0.95 for 95 %."
        )
    return intervals_table(self.fitted, level)


def draws_table(posterior: Posterior) -> Table:
    """Return one row for each set of parameters: reading, weight, and each parameter's value.

    Parameters are named "column: name (unit)". One that a reading does not learn is NaN there.
    """
    if isinstance(posterior.trees, Outbreak):
        values = posterior.trees.values()
        n = len(posterior.trees.draws.value)
        start: dict[str, list[Any]] = {"reading": [1] * n, "weight": [1 / n] * n}
        return Table(start | {name: cells.tolist() for name, cells in values.items()})
    rows = [_quantities(posterior, member) for member in posterior.members]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, list[Any]] = {
        "reading": [member.reading + 1 for member in posterior.members],
        "weight": [float(member.weight) for member in posterior.members],
    }
    return Table(columns | {name: [row.get(name, np.nan) for row in rows] for name in names})


def intervals_table(posterior: Posterior, level: float) -> Table:
    """Return the median of each parameter, and the interval that holds `level` of its posterior."""
    draws = draws_table(posterior)
    weights = np.array(draws["weight"])
    rows: dict[str, list[Any]] = {"parameter": [], "median": [], "lower": [], "upper": []}
    for name in draws.columns[2:]:
        values = np.array(draws[name])
        known = np.isfinite(values)
        low, middle, high = weighted_quantiles(
            values[known], weights[known], [0.5 - level / 2, 0.5, 0.5 + level / 2]
        )
        for key, cell in zip(rows, (name, middle, low, high), strict=True):
            rows[key].append(cell if key == "parameter" else float(cell))
    return Table(rows)


def _quantities(posterior: Posterior, member: Member) -> dict[str, float]:
    found: dict[str, float] = {}
    on_globe = {column.name for column in posterior.records.columns if column.projected}
    for c, quantity in member.lineage.quantities():
        unit = quantity.unit.replace("time", posterior.unit_of_time)
        if unit == "column":
            unit = "km" if c is not None and posterior.names[c] in on_globe else ""
        name = quantity.name if c is None else f"{posterior.names[c]}: {quantity.name}"
        found[f"{name} ({unit})" if unit else name] = quantity.value
    if posterior.roots == "any":
        found["log-weight of an introduction"] = member.log_introduction
    return found


def posterior_sentences(posterior: Posterior) -> list[str]:
    """Return whether parameters are integrated out, and how well that went."""
    if not is_integrated(posterior):
        return ["supports take the fitted parameters for granted."]
    if isinstance(posterior.trees, Outbreak):
        n = len(posterior.trees.draws.value)
        r_hat, effective, _ = posterior.trees.agreement
        return [
            f"supports are shares of {n} transmission trees, drawn together with their dates and "
            f"parameters (worth {effective:.0f} independent draws of the parameter that mixes "
            f"worst, R-hat {r_hat:.2f})."
        ]
    drawn = [(r, r.draws) for r in posterior.readings if r.draws is not None]
    n = sum(len(draws.weights) for _, draws in drawn)
    effective = sum(draws.effective_draws for _, draws in drawn)
    k = max(draws.pareto_k for _, draws in drawn)
    return [
        f"supports average over {n} draws of the parameters ({effective:.0f} effective, largest "
        f"Pareto k {k:.2f})."
    ]


def interval_sentences(posterior: Posterior) -> list[str]:
    """Return the intervals of parameters that are integrated out, in one sentence if there are."""
    if not is_integrated(posterior):
        return []
    table = intervals_table(posterior, 0.95)
    calendar = posterior.dates is not None and posterior.dates.calendar

    def said(name: str, value: float) -> str:
        return str(dated(value, calendar)) if name == "origin" else f"{value:.3g}"

    rows = zip(table["parameter"], table["lower"], table["upper"], strict=True)
    ranges = ", ".join(
        f"{name} {said(name, low)} to {said(name, high)}" for name, low, high in rows if low < high
    )
    return [f"95 % intervals: {ranges}."] if ranges else []


def draw_warnings(posterior: Posterior) -> list[str]:
    """Return what is wrong with the draws of the parameters, if anything is."""
    if isinstance(posterior.trees, Outbreak):
        r_hat, effective, apart = posterior.trees.agreement
        if r_hat <= MIXED:
            return []
        return [
            f"The chains that draw this outbreak do not agree (R-hat {r_hat:.2f}, {effective:.0f} "
            f"effective draws; supports of one chain are {apart:.2f} off their mean): supports "
            "average over both, and supports and intervals may be off by more than their errors. "
            "Stated generation times, delays or a share sampled help."
        ]
    bad = [r for r in posterior.readings if r.draws is not None and not r.draws.trusted]
    if not bad:
        return []
    weight = sum(reading.weight for reading in bad)
    k = max(reading.draws.pareto_k for reading in bad if reading.draws is not None)
    effective = min(r.draws.effective_draws for r in bad if r.draws is not None)
    return [
        f"The posterior of the parameters is hard to draw from (Pareto k {k:.2f}, {effective:.0f} "
        f"effective draws, in readings that hold {weight:.0%} of the weight): intervals are "
        "widened, and supports and evidence may be off by more than their errors. Fewer columns or "
        "stated waiting times help."
    ]

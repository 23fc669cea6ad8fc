"""Parameters integrated out: draws from their posterior in each reading of a table.

    p(θ | cells, dates) ∝ p(θ) Z(θ, all columns) / Z(θ, dates)

The sum over trees is exact for every θ, so only the parameters are sampled, not trees. Draws of a
reading are further members of the mixture that readings are: every answer averages over both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees.ancestry.learning import Problem, Reading, Roots, TableFit, problem_of, waiting_means
from outtrees.ancestry.posterior import Member, Posterior
from outtrees.candidates.edges import Constraints
from outtrees.errors import InvalidWeightsError, NoSpanningTreeError
from outtrees.inference.importance import integrate, laplace_covariance, weighted_quantiles
from outtrees.io.tables import Table
from outtrees.models.columns import Lineage, Transmission, Waiting
from outtrees.models.columns.lineage import order_by_cells

Array = NDArray[np.float64]

# "auto" integrates up to so many records, possible edges and parameters.
MOST_RECORDS, MOST_EDGES, MOST_PARAMETERS = 300, 50_000, 40
_DRAWS, _LEAST_DRAWS = 128, 32  # of the first reading; of others in proportion to their weight
_LEAST_WEIGHT = 0.02  # of readings with draws; others keep their fitted parameters
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
    for reading in fit.readings:
        start = opened(reading.lineage, spread)
        if reading.weight < _LEAST_WEIGHT or not len(problem.params_of(start, 0.0)):
            found.append(reading)
            continue
        found.append(with_draws(problem, reading, start, seed))
    return fit._replace(readings=tuple(found))


def with_draws(problem: Problem, reading: Reading, start: Lineage, seed: int) -> Reading:
    """Return the reading with draws of the parameters of `start`, from its own as mode."""
    log_root, centre = reading.log_introduction, problem.first_log_root(start)
    if len(start.params) > len(reading.lineage.params):  # the waiting time is open now
        point = problem.climb(start, log_root)
        mode = problem.params_of(point.lineage, point.log_root)
    else:
        mode = problem.params_of(start, log_root)

    def log_density(theta: Array) -> float:
        # Draws far out may overflow, or leave no tree: they have no probability.
        try:
            with np.errstate(all="ignore"):
                return problem.at_params(start, theta, centre, with_slopes=False)[0].value
        except (InvalidWeightsError, NoSpanningTreeError, np.linalg.LinAlgError):
            return -np.inf

    covariance = laplace_covariance(lambda theta: problem.at_params(start, theta, centre)[1], mode)
    n_draws = max(_LEAST_DRAWS, round(_DRAWS * reading.weight))
    draws = integrate(log_density, mode, covariance, n_draws, seed)
    return replace(reading, draws=draws, drawn=start)


def opened(lineage: Lineage, spread: float) -> Lineage:
    """Return the lineage whose waiting time is learned near the one that was tried.

    Readings stand for the waiting times about theirs. Only within that reach the cells decide; the
    weights of readings among each other are not theirs alone (`outtrees.ancestry.learning`).
    """
    dates = lineage.dates
    kernel = None if dates is None else lineage.kernels[dates]
    if not isinstance(kernel, Waiting) or not kernel.fixed or not spread > 0:
        return lineage
    assert dates is not None  # the kernel is there
    kernels = (*lineage.kernels[:dates], kernel.near(spread), *lineage.kernels[dates + 1 :])
    return replace(lineage, kernels=kernels)


def _spread_of_waits(fit: TableFit) -> float:
    """Return half of the distance between waiting times that were tried, in logs."""
    lineage = fit.readings[0].lineage
    kernel = None if lineage.dates is None else lineage.kernels[lineage.dates]
    if not isinstance(kernel, Waiting) or isinstance(kernel, Transmission):
        return 0.0
    assert lineage.dates is not None  # the kernel is there
    means = waiting_means(kernel, fit.values[lineage.dates])
    return 0.5 * float(np.log(means[1] / means[0])) if len(means) > 1 else 0.5


# What is known of the parameters -----------------------------------------------------------


def is_integrated(posterior: Posterior) -> bool:
    """Return whether answers average over draws of the parameters."""
    return any(reading.draws is not None for reading in posterior.readings)


def draws_table(posterior: Posterior) -> Table:
    """Return one row for each set of parameters: reading, weight, and each parameter's value.

    Parameters are named "column: name (unit)". One that a reading does not learn is NaN there.
    """
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
    calendar = any(c.kind == "date" and c.calendar for c in posterior.records.columns)
    found: dict[str, float] = {}
    for c, quantity in member.lineage.quantities():
        unit = quantity.unit.replace("time", "days" if calendar else "units of time")
        if unit == "column":
            unit = _unit_of(posterior, posterior.names[c]) if c is not None else ""
        name = quantity.name if c is None else f"{posterior.names[c]}: {quantity.name}"
        found[f"{name} ({unit})" if unit else name] = quantity.value
    if posterior.roots == "any":
        found["log-weight of an introduction"] = member.log_introduction
    return found


def _unit_of(posterior: Posterior, name: str) -> str:
    """Return the unit of a column's cells where it is known: km of places on a globe."""
    columns = {column.name: column for column in posterior.records.columns}
    return "km" if name in columns and columns[name].projected else ""


def posterior_sentences(posterior: Posterior) -> list[str]:
    """Return whether parameters are integrated out, how well that went, and their intervals."""
    if not is_integrated(posterior):
        return ["supports take the fitted parameters for granted."]
    drawn = [(r, r.draws) for r in posterior.readings if r.draws is not None]
    n = sum(len(draws.weights) for _, draws in drawn)
    effective = sum(draws.effective_draws for _, draws in drawn)
    k = max(draws.pareto_k for _, draws in drawn)
    table = intervals_table(posterior, 0.95)
    rows = zip(table["parameter"], table["lower"], table["upper"], strict=True)
    ranges = ", ".join(f"{name} {low:.3g} to {high:.3g}" for name, low, high in rows)
    return [
        f"supports average over {n} draws of the parameters ({effective:.0f} effective, largest "
        f"Pareto k {k:.2f}); 95 % intervals: {ranges}."
    ]


def draw_warnings(posterior: Posterior) -> list[str]:
    """Return what is wrong with the draws of the parameters, if anything is."""
    bad = [r for r in posterior.readings if r.draws is not None and not r.draws.trusted]
    if not bad:
        return []
    weight = sum(reading.weight for reading in bad)
    k = max(reading.draws.pareto_k for reading in bad if reading.draws is not None)
    effective = min(r.draws.effective_draws for r in bad if r.draws is not None)
    return [
        f"The posterior of the parameters is hard to draw from (Pareto k {k:.2f}, {effective:.0f} "
        f"effective draws, in readings that hold {weight:.0%} of the weight): supports, intervals "
        "and evidence may be off by more than their errors. Fewer columns or stated waiting times "
        "help."
    ]

"""How an infection spread: unsampled people, infection dates, children over time, parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from outtrees.ancestry.learning import Problem
from outtrees.ancestry.nearest import NearestSampled, transmission_edges, transmission_of
from outtrees.ancestry.outbreak import Outbreak
from outtrees.ancestry.posterior import Posterior
from outtrees.inference.importance import laplace_covariance
from outtrees.io.tables import Table
from outtrees.models.columns import Transmission
from outtrees.records.column import iso_day

Array = NDArray[np.float64]

_LEAST = 0.01  # support of the parents that infection dates are averaged over
# Of derivatives, in coordinates without constraints: wide, since sums on a grid have kinks.
_STEP = 0.05
_NORMAL = 1.959964  # of a 95 % interval
_INSIDE = (0.5, 0.025, 0.975)  # median and ends of a 95 % interval
_LINKS = ("child", "parent", "support", "direct", "unsampled")


class Spread(NamedTuple):
    """What the transmission model reports beside who infected whom; intervals hold 95 %."""

    parameters: Table  # parameter, estimate, error, lower, upper, given
    infections: Table  # record, sampled, infected (median), lower, upper
    links: Table  # child, parent, support, direct: that of infection by the parent itself,
    # unsampled: the expected number of people between
    reproduction: Table  # from, cases, children (of one case, expected), lower, upper


def spread_of(
    posterior: Posterior, min_support: float, n_trees: int, rng: np.random.Generator
) -> Spread:
    """Return the tables; raise if the model is not that of transmission."""
    dates = posterior.lineage.dates
    kernel = transmission_of(posterior.lineage)
    if dates is None or kernel is None:
        raise ValueError(
            "the fit must have used the transmission model; it did not. State generation_mean and "
            "delay_mean, or transmission=True."
        )
    calendar = posterior.records.column(posterior.names[dates]).calendar
    trees = posterior.trees
    if isinstance(trees, Outbreak):
        links, infections = _drawn_links_and_infections(posterior, trees, dates, min_support)
        parameters = _drawn_parameters(trees, kernel, calendar)
    else:
        links, infections = _links_and_infections(posterior, kernel, dates, min_support)
        parameters = _parameters(posterior, kernel, dates, calendar)
    return Spread(
        parameters,
        infections,
        links,
        children_by_date(posterior, dates, calendar, n_trees, rng),
    )


def dated(value: float, calendar: bool) -> Any:
    """Return a date as the table has it; nothing for days that no calendar has."""
    if not np.isfinite(value):
        return ""
    if not calendar:
        return float(value)
    try:
        return iso_day(value + 0.5)
    except OverflowError:
        return ""


# Links and infection dates -----------------------------------------------------------------


def _laws_of_edges(posterior: Posterior, which: NDArray[np.intp], beside: bool) -> Iterator[Array]:
    """Yield for each of these edges how probable the times left to the child's sampling are (m,).

    From the moment at which the strain left the parent, given the dates and sequences of both;
    with `beside`, or left an unsampled person above the parent.
    """
    child, parent = posterior.edges.child[which], posterior.edges.parent[which]
    values = posterior.values
    kernel, edges, clock = transmission_edges(posterior.lineage, values, values, child, parent)
    if not beside:
        edges = edges._replace(beside=np.zeros_like(edges.beside))
    for e in range(len(which)):
        one = type(edges)(*(part[e : e + 1] for part in edges))
        _, totals = kernel.weighed(one, clock, np.ones(1))
        yield totals.left[int(clock.with_sites)]


def _links_and_infections(
    posterior: Posterior, kernel: Transmission, dates: int, min_support: float
) -> tuple[Table, Table]:
    trees = posterior.trees
    assert isinstance(trees, NearestSampled)  # the transmission model has no others
    T, ids = len(posterior.records), posterior.records.ids
    # When a record was infected follows from its edge, whether descent from a record or from
    # beside it; who is between, if it is descent.
    drawn = trees.drawn_edges
    which = np.flatnonzero(drawn >= _LEAST)
    delays = np.zeros((T, len(kernel.delay_law)))
    for e, left in zip(which.tolist(), _laws_of_edges(posterior, which, True), strict=True):
        delays[posterior.edges.child[e]] += drawn[e] * (left @ kernel.delay_given_left)
    support = trees.edge_marginals
    which = np.flatnonzero(support >= min_support)
    which = which[np.lexsort((-support[which], posterior.edges.child[which]))]
    between = np.arange(kernel.n_links)
    links: dict[str, list[Any]] = {name: [] for name in _LINKS}
    for e, left in zip(which.tolist(), _laws_of_edges(posterior, which, False), strict=True):
        child, parent = int(posterior.edges.child[e]), int(posterior.edges.parent[e])
        shares = kernel.links_of(left)
        direct = float(support[e] * shares[0] / shares.sum())
        row = ids[child], ids[parent], float(support[e]), direct, float(shares @ between)
        for name, cell in zip(links, row, strict=True):
            links[name].append(cell)
    # Roots, and parents with less support: no more is known than that the record was infected.
    rest = np.maximum(1.0 - delays.sum(axis=1), 0.0)  # rounding may leave less than nothing
    below = np.cumsum(delays + rest[:, None] * kernel.delay_law, axis=1)
    calendar = posterior.records.column(posterior.names[dates]).calendar
    sampled = posterior.values[dates][:, 0]
    found: dict[str, list[Any]] = {
        "record": list(ids),
        "sampled": [dated(s, calendar) for s in sampled],
    }
    # The earliest infection has the longest delay.
    for name, level in (("infected", 0.5), ("lower", 0.975), ("upper", 0.025)):
        cell = (below < level).sum(axis=1)
        infected = sampled - (cell + 0.5) * kernel.step
        found[name] = [dated(infected[u], calendar) for u in range(T)]
    return Table(links), Table(found)


def _drawn_links_and_infections(
    posterior: Posterior, trees: Outbreak, dates: int, min_support: float
) -> tuple[Table, Table]:
    """Return both tables from drawn trees."""
    ids, edges, draws = posterior.records.ids, posterior.edges, trees.draws
    support, direct = trees.edge_marginals, trees.direct_marginals
    which = np.flatnonzero(support >= min_support)
    links: dict[str, list[Any]] = {name: [] for name in _LINKS}
    for e in which[np.lexsort((-support[which], edges.child[which]))].tolist():
        u, v = int(edges.child[e]), int(edges.parent[e])
        # With min_support 0, links that were never drawn: nothing is known of those between.
        drawn = draws.between[draws.parents[:, u] == v, u]
        between = float(drawn.mean()) if len(drawn) else 0.0
        row = ids[u], ids[v], float(support[e]), float(direct[e]), between
        for name, cell in zip(links, row, strict=True):
            links[name].append(cell)
    calendar = posterior.records.column(posterior.names[dates]).calendar
    found: dict[str, list[Any]] = {
        "record": list(ids),
        "sampled": [dated(s, calendar) for s in posterior.values[dates][:, 0]],
    }
    quantiles = np.quantile(draws.infected, _INSIDE, axis=0)
    for name, cells in zip(("infected", "lower", "upper"), quantiles, strict=True):
        found[name] = [dated(cell, calendar) for cell in cells]
    return Table(links), Table(found)


# Children over time ------------------------------------------------------------------------


def children_by_date(
    posterior: Posterior, dates: int, calendar: bool, n_trees: int, rng: np.random.Generator
) -> Table:
    """Return the mean number of sampled children by the week (or tenth) of the parent's date."""
    when = posterior.values[dates][:, 0]
    known = np.flatnonzero(np.isfinite(when))
    first = float(when[known].min()) if len(known) else 0.0
    width = 7.0 if calendar else max(float(np.ptp(when[known])) / 10, 1e-9) if len(known) else 1.0
    period = ((when[known] - first) // width).astype(int)
    n = int(period.max()) + 1 if len(known) else 0
    cases = np.bincount(period, minlength=n)
    drawn = np.empty((n_trees, n))
    for i, parents in enumerate(posterior.trees.sample(n_trees, rng)):
        children = np.bincount(parents[parents >= 0], minlength=len(when))[known]
        drawn[i] = np.bincount(period, children, minlength=n)
    expected = np.bincount(period, posterior.expected_children[known], minlength=n)
    rows = np.flatnonzero(cases)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0) if n else (expected, expected)
    return Table(
        {
            "from": [dated(first + width * i, calendar) for i in rows],
            "cases": cases[rows].tolist(),
            **{
                name: (part[rows] / cases[rows]).tolist()
                for name, part in (("children", expected), ("lower", low), ("upper", high))
            },
        }
    )


# Parameters --------------------------------------------------------------------------------


def covariance(problem: Problem, lineage: Any, log_root: float) -> Array:
    """Return the inverse of minus the second derivatives of log-likelihood + log-prior (P, P)."""
    centre = problem.first_log_root(lineage)

    def with_slopes(theta: Array) -> tuple[float, Array]:
        point, slopes = problem.at_params(lineage, theta, centre)
        return point.value, slopes

    return laplace_covariance(with_slopes, problem.params_of(lineage, log_root))


def _parameters(posterior: Posterior, kernel: Transmission, dates: int, calendar: bool) -> Table:
    lineage = posterior.lineage
    before = [c for c in lineage.used if c < dates]
    start = sum(len(lineage.kernels[c].params) for c in before)
    own = kernel.params
    among = np.zeros((0, 0))
    if len(own):
        problem = Problem(lineage, posterior.values, posterior.edges, posterior.roots)
        whole = covariance(problem, lineage, posterior.readings[0].log_introduction)
        among = whole[start : start + len(own), start : start + len(own)]

    def values(params: Array) -> Array:
        moved = kernel.with_params(params)
        return np.array(list(moved.values_of(moved.theta).values()))

    now = values(own)
    moves = _STEP * np.eye(len(own))
    slopes = np.array([(values(own + m) - values(own - m)) / (2 * _STEP) for m in moves])
    slopes = slopes.reshape(len(own), len(now))
    errors = np.sqrt(np.maximum(np.einsum("pi,pq,qi->i", slopes, among, slopes), 0.0))
    table: dict[str, list[Any]] = {
        name: [] for name in ("parameter", "estimate", "error", "lower", "upper", "given")
    }
    for name, value, error in zip(kernel.values_of(kernel.theta), now, errors, strict=True):
        if name in ("substitution_rate", "origin") and not kernel.with_sites:
            continue  # without sequences there is none
        low, high = _interval(name, float(value), float(error), kernel.first_date)
        cells = [float(value), low, high]
        if name == "origin":
            cells = [dated(cell, calendar) for cell in cells]
        given = getattr(kernel, name, None) is not None
        row = (name, cells[0], float(error), cells[1], cells[2], given)
        for column, cell in zip(table, row, strict=True):
            table[column].append(cell)
    return Table(table)


def _drawn_parameters(trees: Outbreak, kernel: Transmission, calendar: bool) -> Table:
    """Return medians, standard deviations and intervals of drawn parameters."""
    table: dict[str, list[Any]] = {
        name: [] for name in ("parameter", "estimate", "error", "lower", "upper", "given")
    }
    for name, values in trees.values().items():
        cells = [float(cell) for cell in np.quantile(values, _INSIDE)]
        error = float(values.std()) if cells[1] < cells[2] else 0.0
        if name == "origin":
            cells = [dated(cell, calendar) for cell in cells]
        row = (name, cells[0], error, *cells[1:], getattr(kernel, name, None) is not None)
        for column, cell in zip(table, row, strict=True):
            table[column].append(cell)
    return Table(table)


def _interval(name: str, value: float, error: float, first: float) -> tuple[float, float]:
    """Return the 95 % interval, normal where the parameter has no constraints."""
    if error == 0:
        return value, value
    if name == "sampled":
        off = _NORMAL * error / max(value * (1 - value), 1e-12)
        return float(expit(logit(value) - off)), float(expit(logit(value) + off))
    if name == "origin":
        factor = np.exp(_NORMAL * error / (first - value))
        return float(first - (first - value) * factor), float(first - (first - value) / factor)
    factor = np.exp(_NORMAL * error / value)
    return float(value / factor), float(value * factor)

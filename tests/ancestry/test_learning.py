"""Learning from a table: an exact objective, its slopes, and what is found in generated data."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from lineages import random_table
from oracles.edge_weights import slow_table, slow_weights
from oracles.edges import possible_edges
from outtrees.ancestry.learning import (
    _FARTHEST,
    _ROOT_SPREAD,
    Problem,
    learn,
    problem_of,
)
from outtrees.ancestry.waits import (
    reading_weights,
    siblings_chance,
    waiting_means,
    waiting_priors,
    with_wait,
)
from outtrees.candidates import constraints, in_order
from outtrees.candidates.windows import possible_pairs, windows_of
from outtrees.models.columns import (
    Counts,
    Distances,
    Drift,
    EdgeWeights,
    Lineage,
    Reversion,
    Sticky,
    Substitution,
    Waiting,
)
from outtrees.models.columns.earlier import with_backgrounds


def possible(lineage, values, **given):
    """Return the edges that the constraints and the dates leave."""
    edges = possible_edges(len(values[0]), **given)
    kept = in_order(lineage, values, edges.child, edges.parent)
    return edges.only(kept)


def begun(lineage, values, groups=None):
    """Return the lineage at its start, with the backgrounds of the table."""
    groups = np.zeros(len(values[0]), dtype=np.intp) if groups is None else groups
    return with_backgrounds(lineage.start(values), values, groups)


def moved(lineage, seed, size=0.3):
    """Return the lineage with other parameters than those of its start."""
    rng = np.random.default_rng(seed)
    return lineage.with_params(lineage.params + rng.normal(0, size, len(lineage.params)))


# The objective ---------------------------------------------------------------------------------


def with_dates(case, values):
    """Return all kinds of columns with dates of one sort."""
    values = [cells.copy() for cells in values]
    dates = values[-1]
    if case == "ties":
        dates[:, :2] = np.array([0.0, 0, 2, 2, 2])[: len(dates), None]
    elif case == "until":
        dates[:, 1] = dates[:, 0] + np.arange(len(dates)) % 3
    elif case == "censored":
        dates[-2:, 3] = 1.0
    elif case == "uncertain":
        dates[:, 2] = np.array([0.0, 1.5, 0, 3, 0.5])[: len(dates)]
    return values


def agrees_with_enumeration(lineage, values, edges, roots, log_root):
    problem = Problem(lineage, values, edges, roots)
    point, _ = problem.at(lineage, log_root, log_root)
    slow = slow_table(lineage, values, edges, roots, log_root)
    assert point.gain == pytest.approx(slow.gain, abs=1e-9)
    prior = lineage.log_prior()
    if roots == "any":  # the normal of introductions, at its centre
        prior -= np.log(_ROOT_SPREAD * np.sqrt(2 * np.pi))
    assert point.value == pytest.approx(slow.gain + prior, abs=1e-9)


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("generations", [1, 3])
@pytest.mark.parametrize("case", ["plain", "ties", "until", "censored", "uncertain", "loose"])
def test_the_objective_by_enumeration(case, generations, roots):
    """Every tree of five records, of all columns and of the dates alone; missing cells."""
    kernels, values = random_table(3, T=5, strict=case != "loose")
    values = with_dates(case, values)
    lineage = moved(begun(Lineage(kernels, generations), values), 1)
    edges = possible(lineage, values)
    agrees_with_enumeration(lineage, values, edges, roots, 0.0 if roots == "single" else -1.3)


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize(
    "given",
    [
        {"groups": np.array([0, 1, 0, 1, 1, 0])},
        {"known_parents": {4: 1, 2: 0}},
        {"forbidden": [(5, 0), (3, 1)]},
        {"root": 0},
        {"groups": np.array([0, 1, 0, 1, 1, 0]), "known_parents": {5: 0}},
    ],
    ids=lambda given: "+".join(given),
)
def test_the_objective_with_constraints_by_enumeration(given, roots):
    kernels, values = random_table(4, T=6)
    values[-1][0] = values[-1][1] = 0.0  # a group's first date is known
    lineage = moved(begun(Lineage(kernels, 2), values), 2)
    edges = possible(lineage, values, **given)
    agrees_with_enumeration(lineage, values, edges, roots, 0.0 if roots == "single" else -0.7)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_the_objective_without_dates_and_without_some_columns(roots):
    kernels, values = random_table(5, T=5)
    bare = moved(begun(Lineage(kernels[:-1]), values[:-1]), 3)
    agrees_with_enumeration(bare, values[:-1], possible(bare, values[:-1]), roots, 0.0)
    fewer = moved(begun(Lineage(kernels, 2), values).without(1).without(4), 3)
    assert fewer.used == (0, 2, 3, 5, 6, 7)
    agrees_with_enumeration(fewer, values, possible(fewer, values), roots, 0.0)


def test_without_dates_nothing_is_contrasted():
    """Weights are densities then, and a root's is that of its cells."""
    kernels, values = random_table(5, T=6)
    lineage = moved(begun(Lineage(kernels[:-1]), values[:-1]), 4)
    assert lineage.contrasted == ()
    weights = EdgeWeights(lineage, values[:-1], np.zeros(6, dtype=int))
    alone = sum(k.log_alone(v) for k, v in zip(lineage.kernels, values, strict=False))
    np.testing.assert_allclose(weights.log_root, alone)


@pytest.mark.parametrize("generations", [1, 3])
def test_edge_weights_are_those_of_the_formula(generations):
    kernels, values = random_table(6, T=8)
    groups = np.array([0, 0, 1, 0, 1, 1, 0, 1])
    lineage = moved(begun(Lineage(kernels, generations), values), 5)
    slow = slow_weights(lineage, values, groups)
    weights = EdgeWeights(lineage, values, groups)
    child, parent = np.nonzero((groups[:, None] == groups) & ~np.eye(8, dtype=bool))
    np.testing.assert_allclose(
        weights.log_beta(child, parent), slow.log_beta[child, parent], atol=1e-10
    )
    np.testing.assert_allclose(weights.log_root, slow.log_root, atol=1e-10)


def test_a_likely_parent_is_one_beyond_chance():
    """Records that are all alike in a column do not become parents by it."""
    kernels = [Waiting(mean=3.0, sd=1.0), Sticky(("a", "b"))]
    days = np.arange(0.0, 120, 3)
    values = [np.column_stack([days, days, 0 * days, 0 * days]), np.zeros((40, 1))]
    lineage = begun(Lineage(kernels), values)
    edges = possible(lineage, values)
    pairs = lineage.pairs(values, values, edges.child, edges.parent)
    weights = EdgeWeights(lineage, values, edges.groups)
    added = weights.log_beta_pairs(pairs) - lineage.log_waits(pairs, weights.background)
    for u in range(1, 40):  # no parent more than another
        assert np.ptp(added[edges.child == u]) < 1e-9
    # All but the first follow what is known; half of those that do not would have a new value.
    assert 0 < added[edges.child == 39].max() < np.log(3 / 2) + 0.01
    problem = Problem(lineage, values, edges, "any")
    assert problem.climb(lineage, -3.0).gain < 1.0  # less than its one parameter must add


# Slopes ----------------------------------------------------------------------------------------


def every_kind(T, dated):
    """Return kernels and cells of every kind, distances too, with missing ones."""
    rng = np.random.default_rng(3)
    kernels, values = random_table(9, T=T, missing=0.1, strict=dated)
    distances = np.abs(rng.normal(size=(T, T)))
    distances[2, :4] = np.nan
    kernels = [*kernels[:-1], Distances(distances), Waiting(strict=True)]
    values = [*values[:-1], np.arange(T, dtype=float)[:, None], values[-1]]
    return (kernels, values) if dated else (kernels[:-1], values[:-1])


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("generations", [1, 3])
@pytest.mark.parametrize("dated", [True, False])
def test_slopes_are_those_of_differences(dated, generations, roots):
    kernels, values = every_kind(12, dated)
    lineage = moved(begun(Lineage(kernels, generations), values), 7, 0.1)
    problem = Problem(lineage, values, possible(lineage, values), roots)
    centre = problem.first_log_root(lineage)
    theta = np.append(lineage.params, centre + 0.3) if roots == "any" else lineage.params

    def at(theta):
        here = lineage.with_params(theta[: len(lineage.params)])
        return problem.at(here, float(theta[-1]) if roots == "any" else 0.0, centre)

    slopes, differences = at(theta)[1], np.empty(len(theta))
    for i in range(len(theta)):
        ends = []
        for step in (1e-4, -1e-4):
            there = theta.copy()
            there[i] += step
            ends.append(at(there)[0].value)
        differences[i] = (ends[0] - ends[1]) / 2e-4
    # Differences over 2e-4 of a function of curvature ≲ 100 are right to about 1e-6.
    np.testing.assert_allclose(slopes, differences, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("variant", ["tail", "lognormal", "weibull", "given mean", "independent"])
def test_slopes_of_other_forms(variant):
    kernels, values = random_table(11, T=10, missing=0.0)
    wait = {
        "lognormal": Waiting(law="lognormal"),
        "weibull": Waiting(law="weibull"),
        "given mean": Waiting(mean=4.0),
    }.get(variant, Waiting())
    tail = 3.0 if variant == "tail" else None
    kernels = [replace(kernels[1], tail=tail), replace(kernels[3], tail=tail), wait]
    values = [values[1], values[3], values[-1]]
    lineage = moved(begun(Lineage(kernels, 2), values), 8, 0.1)
    problem = Problem(lineage, values, possible(lineage, values), "any")
    problem.independent = variant == "independent"
    slopes, theta = problem.at(lineage, -2.0, -2.0)[1], lineage.params
    for i in range(len(theta)):
        step = np.eye(len(theta))[i] * 1e-4
        ends = [
            problem.at(lineage.with_params(theta + sign * step), -2.0, -2.0)[0].value
            for sign in (1, -1)
        ]
        assert slopes[i] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-5, abs=2e-5)


# Climbs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("strict", [True, False])
def test_a_climb_never_falls_and_ends_where_slopes_vanish(roots, strict):
    """All kinds of columns, missing cells."""
    kernels, values = random_table(10 + strict, T=12, strict=strict)
    lineage = begun(Lineage(kernels), values)
    problem = Problem(lineage, values, possible(lineage, values), roots)
    seen = []
    centre = problem.first_log_root(lineage)
    point = problem.climb(
        lineage, centre, max_iter=500, tol=1e-11, progress=lambda i, value: seen.append((i, value))
    )
    assert point.converged
    assert (np.diff(point.objectives) >= 0).all()
    assert point.objectives[-1] == point.value
    assert point.value - point.objectives[0] > 1  # there was something to learn
    assert [i for i, _ in seen] == list(range(1, len(seen) + 1))
    again, slopes = problem.at(point.lineage, point.log_root, centre)
    assert again.value == pytest.approx(point.value, abs=1e-9)
    start = np.append(lineage.params, centre)[: len(slopes)]
    here = np.append(point.lineage.params, point.log_root)[: len(slopes)]
    inside = np.abs(here - start) < _FARTHEST - 1e-6  # a spread may want to be none
    assert inside.sum() >= len(slopes) - 1
    assert np.abs(slopes[inside]).max() < 0.02
    short = problem.climb(lineage, centre, max_iter=1, tol=0.0)
    assert not short.converged
    assert short.n_iter == 1


@pytest.mark.parametrize("kind", range(8))
def test_no_step_of_one_column_falls(kind):
    """Alone, a column's own mistake cannot hide behind the gains of the others."""
    for seed in range(2):
        kernels, values = random_table(seed, T=12, missing=0.1, strict=False)
        lineage = Lineage([kernels[kind]], 2).start([values[kind]])
        problem = Problem(lineage, [values[kind]], possible(lineage, [values[kind]]), "any")
        point = problem.climb(lineage, -1.0, max_iter=15, tol=0.0)
        assert (np.diff(point.objectives) >= 0).all()


def test_a_cell_that_no_other_record_of_its_group_has():
    """Nothing is there to compare it with: it says nothing, and slopes are numbers."""
    kernels, values = random_table(4, T=6, missing=0.0)
    groups = np.array([0, 0, 0, 1, 1, 1])
    values[0][[0, 1]] = np.nan
    lineage = moved(begun(Lineage(kernels, 2), values), 2)
    edges = possible(lineage, values, groups=groups)
    agrees_with_enumeration(lineage, values, edges, "any", -1.0)
    _, slopes = Problem(lineage, values, edges, "any").at(lineage, -1.0, -1.0)
    assert np.isfinite(slopes).all()


def test_a_step_far_away_has_a_value():
    """Line searches try covariances that are nearly singular."""
    dates, cells, _ = outbreak(1, T=10, D=3)
    lineage = Lineage([Waiting(mean=8.0, sd=2.0), Drift()]).start([dates, cells])
    problem = Problem(lineage, [dates, cells], possible(lineage, [dates, cells]), "any")
    far = np.array([15.0, 15, -15, -15, 15, -15, 0, 0, 0, 0])
    for sign in (1, -1):
        point, slopes = problem.at(lineage.with_params(lineage.params + sign * far), 0.0, 0.0)
        assert np.isfinite(point.value)
        assert np.isfinite(slopes).all()


def test_impossible_orders_are_no_edges():
    kernels, values = random_table(7, T=10, missing=0.0)
    lineage = Lineage(kernels)
    days = values[-1][:, 0]
    problem = problem_of(lineage.start(values), values, constraints(10), "single")
    assert (days[problem.child] >= days[problem.parent]).all()
    assert len(problem.child) == sum(
        days[u] >= days[v] for u in range(10) for v in range(10) if u != v
    )


# Readings --------------------------------------------------------------------------------------


def outbreak(seed, T=40, mean=8.0, sd=1.6, n_roots=4, D=2):
    """Return dates in whole days, places that wander along the tree, and the parents."""
    rng = np.random.default_rng(seed)
    days, parents = list(rng.uniform(0, 4 * mean, n_roots)), [-1] * n_roots
    place = list(rng.uniform(0, 40, (n_roots, D)))
    for i in range(3 * T):
        if i == len(days):  # all families died out
            days.append(rng.uniform(0, 4 * mean))
            parents.append(-1)
            place.append(rng.uniform(0, 40, D))
        for _ in range(rng.poisson(1.3)):
            days.append(days[i] + rng.gamma((mean / sd) ** 2, sd**2 / mean))
            parents.append(i)
            place.append(place[i] + rng.normal(size=D))
    order = np.argsort(days, kind="stable")[:T]
    row_of = {int(old): new for new, old in enumerate(order)}
    parents = np.array([row_of.get(parents[old], -1) for old in order])
    days = np.round(np.array(days)[order])
    return np.column_stack([days, days, 0 * days, 0 * days]), np.array(place)[order], parents


def answered(values, kernels, roots="any", background=True, **options):
    """Return the fit, and supports over all readings [child, parent], roots on the diagonal."""
    T = len(values[0])
    lineage = Lineage(kernels, background=background)
    fit = learn(lineage, values, constraints(T), roots, **options)
    edges = possible(fit.readings[0].lineage, values)
    chance = np.zeros((T, T))
    for reading in fit.readings:
        weights = EdgeWeights(reading.lineage, values, edges.groups)
        log_weight = weights.log_beta(edges.child, edges.parent)
        trees = edges.trees(log_weight, weights.log_root + reading.log_introduction, roots)
        chance[edges.child, edges.parent] += reading.weight * trees.edge_marginals
        chance[np.arange(T), np.arange(T)] += reading.weight * trees.root_marginals
    return fit, chance


@pytest.fixture(scope="module")
def followed():
    """Six outbreaks whose places follow the tree: the truth, fits and supports."""
    found = []
    for seed in range(1, 7):
        dates, place, parents = outbreak(seed)
        found.append((parents, *answered([dates, place], [Waiting(), Drift(offset=False)])))
    return found


def test_a_waiting_time_is_found(followed):
    assert len(_told(followed)) >= 4
    for fit in _told(followed):
        assert sum(reading.weight for reading in fit.readings) == pytest.approx(1.0)
        mean = sum(r.weight * r.lineage.kernels[0].moments[0] for r in fit.readings)
        # The means that are tried are about 1.5 times the last one apart; the truth is 8.
        assert 5.5 < mean < 11.5
        assert fit.readings[0].gain > 5


def _told(followed):
    """Return the fits that keep the place. In 40 records it may be too little evidence."""
    return [fit for _, fit, _ in followed if not fit.left_out]


def test_as_many_parents_are_right_as_promised(followed):
    right = promised = variance = 0.0
    for parents, _, chance in followed:
        guess = chance.argmax(axis=1)
        rows = np.arange(len(parents))
        truth = np.where(parents < 0, rows, parents)
        right += (guess == truth).sum()
        promised += chance[rows, guess].sum()
        variance += (chance[rows, guess] * (1 - chance[rows, guess])).sum()
    # Three binomial standard errors. Readings that are tempered promise less than they could.
    assert promised < right + 3 * np.sqrt(variance)
    assert promised > 0.4 * right > 48


def test_supports_are_neither_too_sure_nor_too_modest():
    """Where the model is true and the waiting time is known.

    When records were compared with all others, also with their children, 15 % less was promised.
    """
    right = promised = 0.0
    for seed in range(5):
        dates, place, parents = outbreak(seed, T=120, sd=3.0, n_roots=12)
        kernels = [Waiting(mean=8.0, sd=3.0), Drift(offset=False)]
        fit, chance = answered([dates, place], kernels)
        guess, rows = chance.argmax(axis=1), np.arange(120)
        right += (guess == np.where(parents < 0, rows, parents)).sum()
        promised += chance[rows, guess].sum()
        assert fit.left_out == ()
        assert fit.readings[0].lineage.outlier_shares[1] < 0.05  # there are none
    # Two binomial errors are 6 %.
    assert promised == pytest.approx(right, rel=0.1)


def test_places_of_areas_are_no_spikes():
    """Cases at the centres of counties, whose parents often are in the next one."""
    rng = np.random.default_rng(0)
    grid = np.arange(0, 52, 3.0)
    centres = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    centres = centres + rng.uniform(-0.3, 0.3, centres.shape)
    for seed in (1, 2):
        dates, place, _ = outbreak(seed, T=120, sd=3.0, n_roots=12)
        nearest = ((place[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        kernels = [Waiting(mean=8.0, sd=3.0), Drift(offset=False)]
        fit, _ = answered([dates, centres[nearest]], kernels)
        assert fit.left_out == ()
        spread = np.sqrt(np.diag(fit.readings[0].lineage.kernels[1].cov))
        assert ((spread > 0.5) & (spread < 3.0)).all()


def test_readings_are_sorted_and_few(followed):
    for fit in _told(followed):
        weights = [reading.weight for reading in fit.readings]
        assert weights == sorted(weights, reverse=True)
        assert min(weights) > 0.01 * max(weights)
        gains = np.array([reading.gain for reading in fit.readings])
        priors = priors_of(fit)
        told, beforehand = reading_weights(gains, priors), np.exp(priors) / np.exp(priors).sum()
        # A mixture of the two: the share of one is that of siblings.
        siblings = (weights - told) @ (beforehand - told) / ((beforehand - told) ** 2).sum()
        assert 0 <= siblings < 0.5
        np.testing.assert_allclose(weights, told + siblings * (beforehand - told), atol=1e-12)


def priors_of(fit):
    """Return the log-weights beforehand; readings of one mean waiting time share its own."""
    lineages = [reading.lineage for reading in fit.readings]
    means = [round(one.kernels[one.dates].moments[0], 6) for one in lineages]
    return waiting_priors(lineages, fit.values) - np.log([means.count(mean) for mean in means])


def test_the_shortest_waits_speak_for_siblings():
    """They count as they explain, without a step from one wait to the next."""
    days = np.array([[float(t), t, 0, 0] for t in range(30)])
    lineage = Lineage([Waiting()]).start([days])
    lineages = [with_wait(lineage, mean, 0.5 * mean) for mean in (1.0, 2.1, 4.2, 8.4)]
    shares = [
        siblings_chance(lineages, np.array([gain, 80.0, 90.0, 60.0]), [days])
        for gain in (0.0, 89.0, 91.0, 300.0)
    ]
    assert shares[0] < 1e-4
    assert abs(shares[1] - shares[2]) < 0.1
    assert shares[3] > 0.99
    ended = days + np.array([0.0, 3.0, 0, 0])  # children that wait from their parent's end
    assert siblings_chance(lineages, np.array([300.0, 80, 90, 60]), [ended]) == 0
    assert siblings_chance(lineages[:1], np.array([300.0]), [days]) == 0


def test_waits_that_cannot_matter_change_nothing():
    rng = np.random.default_rng(2)
    days = np.sort(rng.integers(0, 400, 60)).astype(float)
    values = [np.column_stack([days, days, 0 * days, 0 * days]), rng.normal(size=(60, 2))]
    lineage = Lineage([Waiting(mean=3.0, sd=1.0), Drift(offset=False)]).start(values)
    problem = Problem(lineage, values, possible(lineage, values), "any")
    fewer = problem.without_unlikely(lineage, 40.0)
    assert len(fewer.child) < 0.5 * len(problem.child)
    (point, slopes), (same, same_slopes) = problem.at(lineage, -1, -1), fewer.at(lineage, -1, -1)
    assert same.gain == pytest.approx(point.gain, abs=1e-9)
    np.testing.assert_allclose(same_slopes, slopes, atol=1e-9)
    # A waiting time that is learned may move; one root may need any of the edges.
    free = Lineage([Waiting(), Drift(offset=False)]).start(values)
    assert problem.without_unlikely(free, 40.0) is problem
    single = Problem(lineage, values, possible(lineage, values), "single")
    assert single.without_unlikely(lineage, 40.0) is single


def test_noise_is_left_out_and_nothing_is_promised():
    rng = np.random.default_rng(5)
    dates, _, parents = outbreak(3)
    noise = [rng.uniform(0, 60, (40, 2)), rng.integers(3, size=(40, 1)).astype(float)]
    kernels = [Waiting(), Drift(offset=False), Sticky(("a", "b", "c"))]
    fit, chance = answered([dates, *noise], kernels)
    assert set(fit.left_out) == {1, 2}
    assert set(fit.gains) == {1, 2}
    assert fit.readings[0].gain == pytest.approx(0.0, abs=1e-9)
    assert fit.readings[0].lineage.used == (0,)
    # Readings that explain nothing count as they did beforehand.
    weights = [reading.weight for reading in fit.readings]
    priors = np.exp(priors_of(fit))
    np.testing.assert_allclose(weights, priors / priors.sum(), atol=1e-9)
    rows = np.arange(40)
    promised = chance[rows, chance.argmax(axis=1)]
    assert promised[1:].mean() < 0.5
    right = chance.argmax(axis=1) == np.where(parents < 0, rows, parents)
    spread = np.sqrt((promised * (1 - promised)).sum())
    assert abs(right.sum() - promised.sum()) < 3 * spread + 5


def test_kept_columns_stay():
    rng = np.random.default_rng(5)
    dates, _, _ = outbreak(3)
    noise = rng.integers(3, size=(40, 1)).astype(float)
    values, kernels = [dates, noise], [Waiting(mean=8.0, sd=2.0), Sticky(("a", "b", "c"))]
    kept = learn(Lineage(kernels), values, constraints(40), "any", keep=[1])
    assert kept.left_out == ()
    assert kept.readings[0].lineage.used == (0, 1)
    gone = learn(Lineage(kernels), values, constraints(40), "any")
    assert gone.left_out == (1,)


def test_a_column_that_follows_stays_beside_one_that_does_not():
    rng = np.random.default_rng(6)
    dates, place, _ = outbreak(1)
    noise = rng.normal(size=(40, 1))
    kernels = [Waiting(mean=8.0, sd=2.0), Reversion(), Drift(offset=False)]
    fit = learn(Lineage(kernels), [dates, noise, place], constraints(40), "any")
    assert fit.left_out == (1,)
    assert fit.gains[2] > 8 > 4 > fit.gains[1]


def test_the_order_of_rows_does_not_matter():
    dates, place, _ = outbreak(2, T=25)
    kernels = [Waiting(), Drift(offset=False)]
    order = np.random.default_rng(0).permutation(25)
    _, chance = answered([dates, place], kernels)
    _, other = answered([dates[order], place[order]], kernels)
    np.testing.assert_allclose(other, chance[np.ix_(order, order)], atol=1e-6)


def test_spreads_of_large_tables_are_learned_beside_likely_parents():
    """Records once were compared with a thousand others, which lacked most of their parents.

    These then looked the better the narrower the spread of places was, until it was nothing.
    """
    T = 2500
    dates, place, parents = outbreak(5, T, n_roots=400)
    values, given = [dates, place], constraints(T)
    fit = learn(Lineage([Waiting(mean=8.0, sd=1.6), Drift(offset=False)]), values, given, "any")
    lineage = fit.readings[0].lineage
    assert lineage.used == (0, 1)
    step = np.sqrt(np.diag(lineage.kernels[1].cov))  # 1 in truth
    assert ((step > 0.4) & (step < 2.5)).all()  # learned from about a hundred records
    rows = np.flatnonzero(parents >= 0)[::10]
    child, parent = possible_pairs(lineage, values, given, rows, windows_of(lineage, values, given))
    weights = EdgeWeights(lineage, values, given.groups)
    waits = lineage.log_waits(lineage.pairs(values, values, child, parent), weights.background)

    def share_right(score):
        best = {u: v for _, u, v in sorted(zip(score, child, parent, strict=True))}
        return np.mean([best[u] == parents[u] for u in rows])

    assert share_right(weights.log_beta(child, parent)) > 0.2 + share_right(waits)


def test_given_waiting_times_are_the_only_reading():
    dates, place, _ = outbreak(2, T=20)
    for wait in (Waiting(mean=8.0, sd=1.6), Waiting(table=np.array([0, 0, 0, 1, 2, 3, 2, 1.0]))):
        values, kernels = [dates, place], [wait, Drift(offset=False)]
        fit = learn(Lineage(kernels), values, constraints(20), "any")
        assert [reading.weight for reading in fit.readings] == [1.0]
    # A given standard deviation stays, whatever the mean.
    kernels = [Waiting(sd=1.6), Drift(offset=False)]
    fit = learn(Lineage(kernels), [dates, place], constraints(20), "any")
    for reading in fit.readings:
        assert reading.lineage.kernels[0].moments[1] == pytest.approx(1.6)


def test_waiting_means_reach_from_the_gaps_to_half_of_the_time():
    days = np.array([0.0, 2, 4, 6, 8, 30])
    cells = np.column_stack([days, days, 0 * days, 0 * days])
    means = waiting_means(Waiting().start(cells), cells)
    assert means[0] == pytest.approx(2.0)
    assert means[-1] == pytest.approx(15.0)
    assert waiting_means(Waiting(mean=3.0).start(cells), cells) == [3.0]


def test_waiting_times_are_guessed_from_the_growth():
    """2⁶ records over 60 days: six generations of ten days."""
    days = np.linspace(0, 60, 64)
    cells = np.column_stack([days, days, 0 * days, 0 * days])
    lineages = [
        Lineage([Waiting(mean=mean, sd=2.0)]).start([cells]) for mean in (10.0, 10 * np.e, 5.0)
    ]
    priors = waiting_priors(lineages, [cells])
    np.testing.assert_allclose(priors, [0, -0.5, -(np.log(2) ** 2) / 2], atol=0.01)
    cells[3, 1] += 1.0  # a record lasts: no guess
    np.testing.assert_array_equal(waiting_priors(lineages, [cells]), 0.0)


def test_evidence_among_readings_counts_for_ten_nats():
    np.testing.assert_allclose(
        reading_weights(np.array([5.0, 4.0])), [0.731059, 0.268941], atol=1e-6
    )
    weights = reading_weights(np.array([500.0, 0.0]))
    assert weights[1] == pytest.approx(1 / (1 + np.exp(10)))


def test_constraints_are_obeyed():
    kernels, values = random_table(8, T=6)
    kernels = [kernels[1], kernels[4], Waiting(mean=4.0, sd=2.0, strict=False)]
    values = [values[1], values[4], values[-1]]
    given = constraints(6, known_parents={3: 1}, forbidden=[(5, 2)], root=0)
    fit = learn(Lineage(kernels), values, given, "single", max_iter=3, keep=[0, 1])
    edges = possible_edges(6, known_parents={3: 1}, forbidden=[(5, 2)], root=0)
    weights = EdgeWeights(fit.readings[0].lineage, values, edges.groups)
    log_weight = weights.log_beta(edges.child, edges.parent)
    trees = edges.trees(log_weight, weights.log_root, "single")
    chance = np.full((6, 6), -np.inf)
    chance[edges.child, edges.parent] = trees.edge_marginals
    assert chance[3, 1] == pytest.approx(1.0)
    assert chance[5, 2] == -np.inf
    assert trees.root_marginals[0] == pytest.approx(1.0)
    # The same constraints in another order of the records lead to the same parameters.
    slow = slow_table(fit.readings[0].lineage, values, edges, "single", 0.0)
    assert fit.readings[0].gain == pytest.approx(slow.gain, abs=1e-8)


# Recovery --------------------------------------------------------------------------------------


# A changed value goes anywhere alike: with the column's own marginal as target, the truth would be
# another model than the one fitted, and its stickiness another number.
CATEGORY = Sticky(tuple("abcd"), target="uniform")


def grown(seed, T=150, L=400):
    """Return a table grown from known parameters, and the parents."""
    rng = np.random.default_rng(seed)
    start = [
        np.zeros((1, 1)),
        np.zeros((1, 1)),
        np.full((1, 1), 5.0),
        rng.integers(4, size=(1, L)).astype(float),
        np.zeros((1, 4)),
    ]
    truth = [
        replace(Drift().start(np.array([[0.0], [1.0]])), mean_step=np.array([0.5]), cov=np.eye(1)),
        replace(CATEGORY.start(np.arange(4.0)[:, None]), stickiness=0.85),
        Counts(mean=5.0, survival=0.8),
        replace(Substitution().start(start[3]), rate=0.005),
        replace(Waiting().start(np.zeros((2, 4))), log_mean=np.log(6.0), log_shape=np.log(9.0)),
    ]
    values, parents = start, [-1]
    while len(parents) < T:  # each record of the last generation has one to three children
        last = np.arange(len(parents))[-max(1, len(parents) // 2) :]
        chosen = np.repeat(last, rng.integers(1, 3, size=len(last)))[: T - len(parents)]
        drawn = [k.sample(v[chosen], 1, rng) for k, v in zip(truth, values, strict=True)]
        values = [np.vstack([v, d]) for v, d in zip(values, drawn, strict=True)]
        parents += chosen.tolist()
    return values, np.array(parents)


@pytest.mark.slow
def test_parameters_are_recovered():
    """150 records: errors of four standard errors of what the true tree would give.

    One sd is 0.08 for a step and a spread of one, 0.035 for stickiness and survival, 6 % for the
    rate of 300 substitutions, 0.16 days for the mean wait. Unknown parents add to that: most are
    settled by 400 sites and the dates. A wait is one of those that were tried.
    """
    values, parents = grown(1)
    kernels = [Drift(), CATEGORY, Counts(), Substitution(), Waiting()]
    fit, chance = answered(values, kernels, "single")
    drift, sticky, counts, sequence, _ = fit.readings[0].lineage.kernels
    assert drift.mean_step[0] == pytest.approx(0.5, abs=0.34)
    assert drift.cov[0, 0] ** 0.5 == pytest.approx(1.0, abs=0.34)
    assert sticky.stickiness == pytest.approx(0.85, abs=0.14)
    assert counts.survival == pytest.approx(0.8, abs=0.14)
    assert sequence.rate == pytest.approx(0.005, rel=0.24)
    mean = sum(r.weight * r.lineage.kernels[-1].moments[0] for r in fit.readings)
    assert mean == pytest.approx(6.0, rel=0.3)
    rows, guess = np.arange(150), chance.argmax(axis=1)
    share = (guess == np.where(parents < 0, rows, parents)).mean()
    assert share > 0.9
    # Calibration: the expected number of right parents is near the number.
    assert chance[rows, guess].mean() == pytest.approx(share, abs=0.05)


# A negative control ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ByFrequency(Substitution):
    """Sequences without a parent as products of the letters' frequencies: what not to do."""

    log_frequency: Any = field(default=None, repr=False, kw_only=True)  # (C, L)

    def start(self, values):
        counts = np.array([(values == a).sum(axis=0) for a in range(4)]) + 0.25
        return replace(super().start(values), log_frequency=np.log(counts / counts.sum(axis=0)))

    def log_alone(self, values):
        codes = values.astype(int)
        return self.log_frequency[codes, np.arange(codes.shape[1])].sum(axis=1)

    def slopes_alone(self, values, weights):
        return np.zeros(len(self.params))


def branches(seed, T=60, L=300):
    """Return sequences and dates; record 1 founds a branch of about a third of all records."""
    rng = np.random.default_rng(seed)
    sequences, days, branch = [rng.integers(4, size=L)], [0.0], [0]

    def infect(parent, n_changes, which):
        child = sequences[parent].copy()
        sites = rng.choice(L, size=n_changes, replace=False)
        child[sites] = (child[sites] + rng.integers(1, 4, size=n_changes)) % 4
        sequences.append(child)
        days.append(days[parent] + rng.gamma(4.0, 1.25))
        branch.append(which)

    infect(0, 2, 1)
    for _ in range(T - 2):
        which = int(rng.random() > 0.65)
        infect(int(rng.choice(np.flatnonzero(np.array(branch) == which))), rng.poisson(2.0), which)
    dates = np.column_stack([days, days, np.zeros(T), np.zeros(T)])
    return np.array(sequences, dtype=float), dates


@pytest.mark.slow
def test_letters_frequencies_would_call_founders_of_branches_introductions():
    """One introduction only: every other root is wrong. 12 tables, means over them."""
    founder, others = {}, {}
    for model in (Substitution, ByFrequency):
        roots = []
        for seed in range(12):
            sequences, dates = branches(seed)
            kernels = [model(), Waiting(mean=5.0, sd=2.5, unit=0.0)]
            _, chance = answered([sequences, dates], kernels, background=False, max_iter=40)
            roots.append(np.diag(chance))
        founder[model] = np.mean([r[1] for r in roots])
        others[model] = np.mean([r[1:].sum() for r in roots])
    assert founder[Substitution] < 0.05
    assert founder[ByFrequency] > 0.15
    assert others[Substitution] < 2.0
    assert others[ByFrequency] > 3.0

"""What the transmission model tells beside the parents, against simulations and slow twins."""

import re

import numpy as np
import pytest

from outtrees import Ancestry
from outtrees.ancestry.learning import Problem
from outtrees.ancestry.spread import _links_and_infections, covariance, dated
from outtrees.models.columns import Transmission

GIVEN = {"generation_mean": 5.0, "generation_sd": 2.0, "delay_mean": 4.0, "delay_sd": 1.5}


def outbreak(T=14, L=300, seed=0):
    rng = np.random.default_rng(seed)
    infected, letters = np.zeros(T), np.zeros((T, L), dtype=int)
    for u in range(1, T):
        v = int(rng.integers(max(0, u - 4), u))
        infected[u] = infected[v] + rng.gamma(6, 5 / 6)
        letters[u] = letters[v]
        sites = rng.integers(L, size=rng.poisson(1.0))
        letters[u, sites] = (letters[u, sites] + 1) % 4
    days = np.floor(infected + rng.gamma(7, 4 / 7, size=T)).tolist()
    names = [f"p{i}" for i in range(T)]
    text = ["".join(row) for row in np.array(list("ACGT"))[letters]]
    return {"id": names, "day": days}, dict(zip(names, text, strict=True))


def fitted(**options):
    columns, sequences = outbreak()
    model = Ancestry(id="id", kinds={"day": "date"}, **options)
    return model.fit(columns, sequences=sequences)


@pytest.mark.parametrize("left", [3.0, 8.0, 14.0])
def test_links_and_delays_given_the_time_left_are_those_of_simulations(left):
    kernel = Transmission(**GIVEN, sampled=0.5, links=4)
    days = np.array([[float(t), t, 0, 0] for t in range(30)])
    kernel = kernel.start(days)
    rng = np.random.default_rng(0)
    n = 400_000
    weights = kernel._link_weights(kernel.theta)
    between = rng.choice(4, size=n, p=weights)
    delay = rng.gamma((4 / 1.5) ** 2, 1.5**2 / 4, size=n)
    times = rng.gamma(6.25, 4 / 5, size=(n, 3))
    total = delay + (times * (np.arange(3) < between[:, None])).sum(axis=1)
    near = abs(total - left) < kernel.step / 2
    at = np.zeros(len(kernel.laws.log_left))
    at[round(left / kernel.step)] = 1.0
    shares = kernel.links_of(at)
    # Up to four errors of the simulation, and a hundredth for the width of a cell.
    error = 4 * 0.5 / np.sqrt(near.sum()) + 0.01
    simulated = np.bincount(between[near], minlength=4) / near.sum()
    np.testing.assert_allclose(shares, simulated, atol=error)
    law = at @ kernel.delay_given_left
    middle = (np.arange(len(law)) + 0.5) * kernel.step
    assert law.sum() == pytest.approx(1.0)
    assert law @ middle == pytest.approx(delay[near].mean(), abs=4 * error)


def test_tables_have_all_records_and_agree_with_the_supports():
    found = fitted(**GIVEN, random_state=0)
    spread = found.spread(min_support=0.2, n_trees=400)
    assert spread.infections["record"] == [f"p{i}" for i in range(14)]
    for name in ("sampled", "infected", "lower", "upper"):
        assert len(spread.infections[name]) == 14
    columns = (spread.infections[name] for name in ("lower", "infected", "upper", "sampled"))
    for low, middle, high, sampled in zip(*columns, strict=True):
        assert low < middle < high <= sampled
        assert high - low < 12  # delays of 4 ± 1.5 days
    supports = found.parents(0.2)
    pairs = {(c, p) for c, p in zip(supports["child"], supports["parent"], strict=True) if p}
    assert pairs == set(zip(spread.links["child"], spread.links["parent"], strict=True))
    assert all(n >= 0 for n in spread.links["unsampled"])
    weeks = spread.reproduction
    total = sum(n * m for n, m in zip(weeks["cases"], weeks["children"], strict=True))
    assert total == pytest.approx(14 - found.fitted.trees.root_marginals.sum())
    for low, mean, high in zip(weeks["lower"], weeks["children"], weeks["upper"], strict=True):
        assert low <= high
        assert low <= mean
        assert mean <= high or mean < 0.05  # a child with less than 2.5 % is above the interval


@pytest.mark.parametrize("parameters", ["auto", "fitted"])
def test_infection_by_the_parent_itself_is_part_of_its_support(parameters):
    links = fitted(**GIVEN, parameters=parameters).spread(0.05).links
    rows = zip(links["support"], links["direct"], links["unsampled"], strict=True)
    for support, direct, unsampled in rows:
        assert 0 <= direct <= support + 1e-12
        # Somebody is between with the rest of the support, one person at least.
        assert unsampled >= 1 - direct / support - 1e-9


def test_drawn_parameters_lie_in_their_intervals_and_given_ones_stay():
    table = fitted(**GIVEN).spread().parameters
    rows = {name: i for i, name in enumerate(table["parameter"])}
    for name, value in GIVEN.items():
        i = rows[name]
        assert table["given"][i]
        assert table["lower"][i] == table["upper"][i] == pytest.approx(value)
        assert table["error"][i] == 0
    for name in ("sampled", "substitution_rate", "reproduction_number", "dispersion"):
        i = rows[name]
        assert 0 < table["lower"][i] < table["estimate"][i] < table["upper"][i]
        assert table["error"][i] > 0


def test_nobody_is_unsampled_where_all_are_sampled():
    assert set(fitted(**GIVEN, sampled=1.0).spread().links["unsampled"]) == {0.0}


def test_errors_are_those_of_second_differences_and_given_parameters_have_none():
    found = fitted(**GIVEN, parameters="fitted")
    table = found.spread().parameters
    rows = {name: i for i, name in enumerate(table["parameter"])}
    assert table["error"][rows["delay_mean"]] == 0
    assert table["given"][rows["delay_mean"]]
    posterior, lineage = found.fitted, found.lineage_
    log_root = posterior.readings[0].log_introduction
    problem = Problem(lineage, posterior.values, posterior.edges, posterior.roots)
    inverse = np.linalg.inv(covariance(problem, lineage, log_root))
    here, centre = lineage.params, problem.first_log_root(lineage)
    rate = next(i for i in range(len(here)) if here[i] == lineage.kernels[0].theta[5])
    values = []
    for move in (-0.05, 0.0, 0.05):
        moved = here.copy()
        moved[rate] += move
        values.append(problem.at(lineage.with_params(moved), log_root, centre)[0].value)
    second = (values[0] - 2 * values[1] + values[2]) / 0.05**2
    assert inverse[rate, rate] == pytest.approx(-second, rel=0.02)
    i = rows["substitution_rate"]
    assert 0 < table["lower"][i] < table["estimate"][i] < table["upper"][i]


def test_the_report_has_infections_people_between_and_no_weights():
    found = fitted(**GIVEN, sampled=0.5)
    spread = found.spread()
    data = found.report_data(spread=spread)
    infected, between = data.columns[-2:]
    assert infected.values == spread.infections["infected"]
    assert infected.text[0].startswith(f"{infected.values[0]:.3g} (")
    number = {(c, p): n for c, p, _, _, n in spread.links.rows()}
    for child, parent, cell in zip(data.ids, data.consensus, between.values, strict=True):
        assert cell == (None if parent < 0 else number[child, data.ids[parent]])
    assert data.draws.shape[1] == len(data.ids)  # "what if" is answered by those that agree
    assert data.weights is None


def test_other_models_have_no_spread():
    with pytest.raises(ValueError, match="transmission model"):
        Ancestry(id="id").fit({"id": list("abc"), "x": [0.1, 0.2, 0.9]}).spread()


def test_parents_with_little_support_leave_the_law_of_delays(monkeypatch):
    """Where no parent is looked at one by one, nothing but the delay is known of an infection."""
    monkeypatch.setattr("outtrees.ancestry.spread._LEAST", 2.0)
    found = fitted(**GIVEN, sampled=1.0, parameters="fitted").fitted
    dates = found.lineage.dates
    kernel = found.lineage.kernels[dates]
    _, infections = _links_and_infections(found, kernel, dates, 2.0)
    middle = int((np.cumsum(kernel.delay_law) < 0.5).sum())
    delays = np.array(infections["sampled"]) - np.array(infections["infected"])
    np.testing.assert_allclose(delays, (middle + 0.5) * kernel.step)


def test_given_parameters_are_told_as_given_and_the_origin_as_a_date():
    columns, sequences = outbreak()
    columns["day"] = [f"2024-03-{1 + int(day):02}" for day in columns["day"]]
    model = Ancestry(id="id", kinds={"day": "date"}, random_state=0, **GIVEN)
    found = model.fit(columns, sequences=sequences)
    table = found.spread().parameters
    told = dict(zip(table["parameter"], table["estimate"], strict=True))
    assert {name: told[name] for name in GIVEN} == GIVEN
    (sentence,) = [s for s in found.describe() if s.startswith("95 % intervals")]
    assert re.search(r"origin 202\d-\d\d-\d\d to 2024-\d\d-\d\d", sentence)


def test_dates_before_all_calendars_are_empty():
    assert dated(-1e7, calendar=True) == ""
    assert dated(-1e7, calendar=False) == -1e7

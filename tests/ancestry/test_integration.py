"""Parameters integrated out: against quadrature over parameters and enumeration of trees."""

from itertools import product

import numpy as np
import pytest
from scipy.special import ndtri

from oracles.edge_weights import slow_table
from oracles.posterior_ranks import fitted_table, posterior_of, simulate
from oracles.tempered_chains import tempered_chain, with_equal_draws
from outtrees import Ancestry
from outtrees.ancestry.learning import Problem
from outtrees.datasets import make_outbreak
from outtrees.errors import ArgumentError
from outtrees.io import load, save

WARDS = {"id": list("abcde"), "ward": ["N", "N", "S", "S", "W"]}
DATED = {"id": list("abcd"), "day": [0.0, 1.0, 2.0, 4.0], "ward": ["N", "N", "S", "S"]}


def by_quadrature(found, grids):
    """Return log evidence, supports of edges and of roots, over a grid of all parameters.

    The prior is that of the problem; the sum over trees is written out for every point.
    """
    posterior = found.fitted
    lineage = posterior.readings[0].drawn
    problem = Problem(lineage, posterior.values, posterior.edges, posterior.roots)
    centre = problem.first_log_root(lineage)
    n = len(lineage.params)
    logs, edges, roots = [], [], []
    for theta in product(*grids):
        theta = np.array(theta)
        log_root = float(theta[n]) if len(theta) > n else 0.0
        moved = lineage.with_params(theta[:n])
        slow = slow_table(moved, posterior.values, posterior.edges, posterior.roots, log_root)
        point = problem.at_params(lineage, theta, centre, with_slopes=False)[0]
        logs.append(slow.gain + point.value - point.gain)
        edges.append(slow.edge_marginals)
        roots.append(slow.root_marginals)
    top = max(logs)
    cell = np.prod([grid[1] - grid[0] for grid in grids])
    weights = np.exp(np.array(logs) - top)
    total = float(weights.sum())
    average = [np.tensordot(weights / total, np.array(part), 1) for part in (edges, roots)]
    return top + np.log(total * cell), *average


@pytest.mark.parametrize("case", ["one parameter", "three parameters"])
def test_supports_and_evidence_are_those_of_quadrature(case):
    options = {"id": "id", "background": False, "parameters": "integrated", "random_state": 1}
    if case == "one parameter":
        found = Ancestry(**options).fit(WARDS)
        grids = [np.linspace(-25, 25, 51)]
    else:
        wait = {"waiting_mean": 2.0, "waiting_sd": 1.0, "keep": ["ward"], "ties": False}
        found = Ancestry(**options, **wait, kinds={"day": "date"}).fit(DATED)
        shares = np.linspace(-15, 15, 16)  # that are kept, and that come from anywhere
        grids = [shares, shares, np.linspace(-8, 5, 12)]
    draws = found.readings_[0].draws
    assert draws.params.shape[1] == len(grids)
    assert draws.trusted
    log_evidence, edges, roots = by_quadrature(found, grids)
    assert abs(draws.log_evidence - log_evidence) < 4 * draws.standard_error + 1e-3
    assert found.log_evidence_.value == pytest.approx(draws.log_evidence)
    seen, errors = np.zeros_like(edges), np.zeros_like(edges)
    listed = found.edges_.child, found.edges_.parent
    seen[listed] = found.fitted.trees.edge_marginals
    errors[listed] = found.fitted.support_errors[0]
    assert (abs(seen - edges) < 4 * errors + 1e-3).all()
    assert (abs(found.fitted.trees.root_marginals - roots) < 0.02).all()
    # The test can fail: the fitted parameters alone give something else.
    one = found.fitted.best_trees.edge_marginals
    assert abs(one - edges[listed]).max() > (0.01 if len(grids) > 1 else 4e-4)


def test_parameters_of_which_a_table_says_nothing_keep_their_prior():
    """Shares are held off 0 by 1e-12; beyond, draws must still pay for being far out."""
    found = Ancestry(id="id", parameters="integrated", random_state=2).fit(WARDS)
    draws = found.readings_[0].draws
    outliers = draws.params[:, 1]  # after the stickiness
    prior = found.readings_[0].drawn.priors()[1]
    levels = np.array([0.1, 0.25, 0.5, 0.75])
    seen = [float(draws.weights @ (outliers < prior.from_normal(z))) for z in ndtri(levels)]
    assert draws.trusted
    np.testing.assert_allclose(seen, levels, atol=0.06)


@pytest.fixture(scope="module")
def outbreak():
    return make_outbreak(16, random_state=3)


def fit(outbreak, **options):
    model = Ancestry(id="case", roots="any", **options)
    return model.fit(outbreak.table, sequences=outbreak.sequences)


def test_seeds_change_supports_by_no_more_than_their_errors(outbreak):
    wait = {"waiting_mean": 5.0, "waiting_sd": 2.0}
    found = [fit(outbreak, random_state=seed, **wait) for seed in range(4)]
    supports = np.array([model.fitted.trees.edge_marginals for model in found])
    errors = np.sqrt(np.mean([model.fitted.support_errors[0] ** 2 for model in found], axis=0))
    off = abs(supports - supports.mean(axis=0)) / (errors + 1e-4)
    assert np.quantile(off, 0.999) < 3
    assert errors.max() < 0.05
    assert len({s.tobytes() for s in supports}) == len(supports)  # seeds do differ
    again = fit(outbreak, random_state=0, **wait)
    np.testing.assert_array_equal(again.fitted.trees.edge_marginals, supports[0])


def test_draws_have_names_units_intervals_and_survive_a_file(outbreak, tmp_path):
    found = fit(outbreak, parameters="integrated")
    table = found.posterior()
    assert sum(table["weight"]) == pytest.approx(1.0, abs=1e-4)
    assert "onset: mean (days)" in table.columns
    assert "ward: stickiness" in table.columns or "ward" in found.left_out_
    even = found.posterior(50)
    assert len(even) == 50
    name = table.columns[-1]
    mean = np.average(table[name], weights=table["weight"])
    spread = np.sqrt(np.average((np.array(table[name]) - mean) ** 2, weights=table["weight"]))
    assert abs(np.mean(even[name]) - mean) < 0.5 * spread
    parents = found.parents(errors=True)
    assert parents.columns == ("child", "parent", "support", "rank", "error")
    assert 0 <= max(parents["error"]) < 0.05
    intervals = found.intervals(0.9)
    rows = zip(*(intervals[key] for key in ("lower", "median", "upper")), strict=True)
    assert all(low <= middle <= high for low, middle, high in rows)
    assert any("draws of the parameters" in sentence for sentence in found.describe())
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        found.intervals(95)
    again = load(save(found, tmp_path / "model"))
    np.testing.assert_array_equal(
        again.fitted.trees.edge_marginals, found.fitted.trees.edge_marginals
    )
    new = {"case": ["new"], "onset": ["2024-03-20"]}
    placed = found.place(new, sequences={"new": outbreak.sequences["case02"]})
    assert sum(placed["support"]) <= 1 + 1e-9


def test_fitted_parameters_have_one_member_for_each_reading(outbreak):
    found = fit(outbreak, parameters="fitted")
    assert len(found.fitted.members) == len(found.readings_)
    assert (found.fitted.support_errors[0] == 0).all()
    assert found.describe()[-1] == "supports take the fitted parameters for granted."
    assert found.log_evidence_ is None


def test_auto_goes_by_size(monkeypatch, outbreak):
    assert fit(outbreak).readings_[0].draws is not None
    monkeypatch.setattr("outtrees.ancestry.integration.MOST_RECORDS", 15)
    assert fit(outbreak).readings_[0].draws is None
    assert fit(outbreak, parameters="integrated").readings_[0].draws is not None


def test_arviz_gets_draws_of_equal_weight(outbreak):
    arviz = pytest.importorskip("arviz", reason="an extra")
    data = fit(outbreak).to_arviz(40)
    assert isinstance(data, arviz.InferenceData)
    assert data.posterior.sizes["draw"] == 40


@pytest.mark.parametrize(
    ("case", "seed"), [("no dates", 6), ("dates, house and place, one root", 14)]
)
def test_columns_that_can_be_read_in_another_way_have_their_modes_found(case, seed):
    """The first climb ends 52 and 7 nats below the true parameters."""
    table = simulate(case, seed)
    assert table.trusted
    assert ((table.ranks > 1e-3) & (table.ranks < 1 - 1e-3)).all()


@pytest.mark.parametrize(("table", "seed"), [(3000, 4), (4000, 2)])
def test_a_narrow_mode_is_found_whatever_the_seed(table, seed):
    """Draws of all four parameters from their priors miss it under one of the two seeds."""
    one, other = (fitted_table("number", table, of)[1].draws for of in (0, seed))
    assert one.trusted
    assert other.trusted
    error = np.hypot(one.standard_error, other.standard_error)
    assert abs(one.log_evidence - other.log_evidence) < 3 * error


TWINS = [
    ("place", 3),
    ("no dates", 1),
    ("no dates, any roots", 1),
    ("dates, any roots", 2),
    ("dates, house and place, one root", 14),
]


@pytest.mark.slow  # chains of 1,000 sweeps, half a minute each
@pytest.mark.parametrize(("case", "seed"), TWINS)
def test_supports_are_those_of_long_tempered_chains(case, seed):
    problem, reading, *_ = fitted_table(case, seed)
    weights, found = posterior_of(problem, reading)._of_reading(0)
    ours = weights @ found / weights.sum()
    own_error = np.sqrt((weights / weights.sum()) ** 2 @ (found - ours) ** 2)
    batches = []
    for chain in range(2):
        rng = np.random.default_rng(chain)
        params = tempered_chain(problem, reading.drawn, 1000, rng)
        equal = posterior_of(problem, with_equal_draws(reading, reading.drawn, params))
        drawn = equal._of_reading(0)[1]
        batches += [part.mean(axis=0) for part in np.array_split(drawn, 10)]
    twin = np.mean(batches, axis=0)
    error = np.std(batches, axis=0, ddof=1) / np.sqrt(len(batches))
    counts = twin > 0.02
    off = ((ours - twin) / np.sqrt(error**2 + own_error**2 + 1e-8))[counts]
    assert abs(off).max() < 4
    assert np.sqrt((off**2).mean()) < 1.5
    assert abs(ours - twin).max() < 0.08

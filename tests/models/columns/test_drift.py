"""Numbers and places: the normal density, the clock, and cells without any spread."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from outtrees.models.columns import Drift

from .conftest import assert_slopes_agree, climbed, densities, legendre, weighted_sum


@pytest.fixture
def plane():
    column = np.random.default_rng(1).normal(size=(15, 2)) @ np.array([[2.0, 0.5], [0.0, 0.3]])
    kernel = Drift(clock=True).start(column)
    cov = np.array([[0.6, 0.2], [0.2, 0.4]])
    return replace(kernel, mean_step=np.array([0.3, -0.1]), cov=cov, rate=0.7), column


@pytest.mark.parametrize("k", [1, 2, 3])
def test_density_against_scipy(plane, k):
    kernel, column = plane
    child, parent = np.array([1, 2, 3, 4]), np.array([0, 1, 7, 3])
    elapsed = np.array([0.0, 0.5, 2.0, 40.0])
    found = kernel.log_steps(kernel.pairs(column, column, child, parent), k, elapsed)
    for edge in range(4):
        mean = column[parent[edge]] + k * kernel.mean_step
        cov = (k + 0.7 * elapsed[edge]) * kernel.cov
        right = stats.multivariate_normal(mean, cov).logpdf(column[child[edge]])
        assert found[edge] == pytest.approx(right, abs=1e-10)


def test_links_and_times_add_up():
    """One link over 0.4 units of time, then another over 1.1, are two links over 1.5."""
    kernel = replace(
        Drift(clock=True).start(np.array([[0.0], [2.0]])),
        mean_step=np.array([0.2]),
        cov=np.array([[0.5]]),
        rate=1.3,
    )
    points, weights = legendre(-20, 20, 300)
    child, parent = np.array([[1.7]]), np.array([[0.3]])
    n, zero = np.arange(len(points)), np.zeros(len(points), dtype=int)

    def log_p(children, parents, c, p, k, time):
        return kernel.log_steps(kernel.pairs(children, parents, c, p), k, np.full(len(c), time))

    first = np.exp(log_p(points, parent, n, zero, 1, 0.4))
    second = np.exp(log_p(child, points, zero, n, 1, 1.1))
    together = np.exp(log_p(child, parent, zero[:1], zero[:1], 2, 1.5))[0]
    assert weights @ (first * second) == pytest.approx(together, rel=1e-10)


def clock_problem(seed, K=1, T=14):
    rng = np.random.default_rng(seed)
    column = rng.normal(size=(T, 1))
    child, parent = np.triu_indices(T, 1)[::-1]
    elapsed = rng.gamma(1.0, size=len(child)) * (rng.random(len(child)) < 0.8)
    weights = rng.gamma(0.5, size=(K, len(child)))
    kernel = Drift(clock=True).start(column)
    return kernel, kernel.pairs(column, column, child, parent), weights, elapsed


@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("tail", [None, 3.0])
def test_slopes_with_a_clock_are_differences(K, tail):
    """With slow and fast clocks, weights of both signs."""
    for seed in range(4):
        kernel, pairs, weights, elapsed = clock_problem(seed, K)
        rng = np.random.default_rng(seed)
        weights = weights * rng.choice([-1.0, 1.0], size=weights.shape)
        for rate in (1e-3, 0.4, 30.0):
            moved = replace(kernel, rate=rate, tail=tail, mean_step=np.array([0.3]))
            assert_slopes_agree(
                moved.slopes(pairs, weights, elapsed),
                lambda p, m=moved, x=(pairs, weights, elapsed): weighted_sum(m.with_params(p), *x),
                moved.params,
            )


def test_a_child_starts_where_its_parent_ended():
    column = np.array([[0.0, 0.0, 5.0, 6.0], [5.1, 6.2, 9.0, 9.0], [1.0, 2.0, 3.0, 3.0]])
    kernel = replace(Drift(offset=False, ends=True).start(column), cov=np.diag([0.3, 0.7]))
    one, other = np.array([1]), np.array([0])
    law = stats.multivariate_normal([5.0, 6.0], kernel.cov)
    there = kernel.log_steps(kernel.pairs(column, column, one, other), 1)[0]
    assert there == pytest.approx(law.logpdf([5.1, 6.2]), abs=1e-12)
    back = kernel.log_steps(kernel.pairs(column, column, other, one), 1)[0]
    assert back == pytest.approx(
        stats.multivariate_normal([9.0, 9.0], kernel.cov).logpdf([0.0, 0.0])
    )
    # Cells without a parent: where records start.
    assert kernel.log_alone(column)[0] == pytest.approx(
        stats.multivariate_normal(column[:, :2].mean(axis=0), kernel.spread).logpdf([0.0, 0.0])
    )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_long_tails_against_scipy(plane, k):
    kernel, column = plane
    kernel = replace(kernel, tail=3.0)
    child, parent = np.array([1, 2, 3, 4]), np.array([0, 1, 7, 3])
    elapsed = np.array([0.0, 0.5, 2.0, 40.0])
    found = kernel.log_steps(kernel.pairs(column, column, child, parent), k, elapsed)
    for edge in range(4):
        mean = column[parent[edge]] + k * kernel.mean_step
        law = stats.multivariate_t(mean, (k + 0.7 * elapsed[edge]) * kernel.cov, df=3)
        assert found[edge] == pytest.approx(law.logpdf(column[child[edge]]), abs=1e-10)


def test_a_fit_may_choose_long_tails_unless_a_tail_was_asked_for(plane):
    kernel, _ = plane
    assert [variant.tail for variant in kernel.variants()] == [None, 3.0]
    assert [variant.tail for variant in replace(kernel, tail=7.0).variants()] == [7.0]


def test_rounded_cells_are_no_spike():
    """However often children repeat their parents, the spread stays that of rounding."""
    column = np.round(np.random.default_rng(0).normal(0, 2, size=(60, 1)))
    kernel = Drift(offset=False).start(column)
    same = np.arange(60)
    found = climbed(kernel, kernel.pairs(column, column, same, same), np.ones((1, 60)))
    assert found.cov[0, 0] == pytest.approx(1 / 12, rel=1e-2)
    lowest = kernel.with_params(kernel.params - 50.0)
    assert lowest.cov[0, 0] == pytest.approx(1 / 12, rel=1e-9)
    fine = column + 0.37 * np.arange(60)[:, None] / 1e5  # written with more digits
    kernel = Drift(offset=False).start(fine)
    found = climbed(kernel, kernel.pairs(fine, fine, same, same), np.ones((1, 60)))
    assert found.cov[0, 0] < 1e-3


def test_time_that_brings_no_spread_has_a_slow_clock():
    """Long times with small changes: the rate falls as far as its prior lets it."""
    rng = np.random.default_rng(0)
    elapsed = np.linspace(0, 10, 40)
    column = np.append(0.0, rng.normal(size=40) * np.where(elapsed > 5, 1e-3, 1.0))[:, None]
    kernel = Drift(clock=True).start(column)
    pairs = kernel.pairs(column, column, np.arange(1, 41), np.zeros(40, dtype=int))
    assert climbed(kernel, pairs, np.ones((1, 40)), elapsed).rate < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_slopes_with_a_clock_lead_where_an_independent_optimiser_ends(seed):
    rng = np.random.default_rng(seed)
    elapsed = rng.gamma(1.0, size=60)
    column = np.append(0.0, rng.normal(size=60) * np.sqrt(0.2 * (1 + 3 * elapsed)))[:, None]
    kernel = Drift(clock=True).start(column)
    pairs = kernel.pairs(column, column, np.arange(1, 61), np.zeros(60, dtype=int))
    weights = rng.random((1, 60))

    def loss(params):
        trial = replace(
            kernel, mean_step=params[:1], cov=np.exp(params[1:2])[None], rate=np.exp(params[2])
        )
        return -weighted_sum(trial, pairs, weights, elapsed) - trial.log_prior()

    best = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"maxiter": 2000}).fun
    found = climbed(kernel, pairs, weights, elapsed)
    assert weighted_sum(found, pairs, weights, elapsed) + found.log_prior() >= -best - 1e-6


def test_time_is_ignored_without_a_clock(plane):
    kernel, column = plane
    still = replace(kernel, clock=False)
    pairs = still.pairs(column, column, np.array([1, 2]), np.array([0, 0]))
    np.testing.assert_array_equal(
        still.log_steps(pairs, 2, np.array([3.0, 50.0])), still.log_steps(pairs, 2)
    )


def test_places_have_no_direction():
    column = np.arange(20.0).reshape(10, 2)
    kernel = Drift(offset=False).start(column)
    pairs = kernel.pairs(column, column, np.arange(1, 10), np.arange(9))
    assert (climbed(kernel, pairs, np.ones((1, 9))).mean_step == 0).all()
    assert len(kernel.params) == 3


@pytest.mark.parametrize(
    "slope", [1.0, 3.7, 1e-3, 1e5], ids=["equal", "steep", "flat", "other-scale"]
)
def test_places_on_a_line(slope):
    """Two coordinates that determine each other have no joint density; each alone has one."""
    for seed in range(40):
        x = np.random.default_rng(seed).normal(size=8)
        column = np.column_stack([x, slope * x + 2])
        kernel = Drift(offset=False).start(column)
        assert np.isfinite(densities(kernel, column, column, 1)).all()
        assert np.isfinite(kernel.log_alone(column)).all()


def test_the_scale_of_a_column_does_not_matter():
    """x → c·x shifts every log-density by −log c, from the tiniest to the largest units."""
    column = np.random.default_rng(2).normal(size=(10, 1))
    child, parent = np.arange(1, 10), np.arange(9)
    reference = None
    for scale in (1.0, 1e-12, 1e12):
        kernel = Drift().start(scale * column)
        pairs = kernel.pairs(scale * column, scale * column, child, parent)
        kernel = climbed(kernel, pairs, np.ones((1, 9)))
        shifted = kernel.log_steps(pairs, 1) + np.log(scale)
        reference = shifted if reference is None else reference
        np.testing.assert_allclose(shifted, reference, rtol=1e-5)  # where a climb stops


def test_spreads_are_log_normal_beforehand_and_correlations_uniform():
    column = np.random.default_rng(1).normal(size=(15, 2))
    kernel = replace(Drift(offset=False).start(column), finest=np.zeros(2))  # no rounding
    moved = kernel.with_params(np.array([0.7, 1.5, -1.1]))
    rho = moved.cov[0, 1] / np.sqrt(moved.cov[0, 0] * moved.cov[1, 1])
    logs = 0.5 * np.log(np.diag(moved.cov) / kernel.unit**2)
    np.testing.assert_allclose(logs, [0.7, -1.1], rtol=1e-9)
    slope = (1 - rho**2) / 2  # of the correlation by its coordinate; its density is 1/2
    expected = stats.norm(scale=2.0).logpdf([0.7, -1.1]).sum() + np.log(slope / 2)
    assert moved.log_prior() == pytest.approx(expected, abs=1e-9)


def test_correlations_of_three_coordinates_are_uniform_matrices():
    """Each correlation of such a matrix is Beta(3/2, 3/2), also the one that is no coordinate."""
    kernel = Drift(offset=False).start(np.random.default_rng(1).normal(size=(15, 3)))
    rng = np.random.default_rng(0)
    found = []
    for _ in range(3000):
        cov = kernel.with_params(np.array([prior.draw(rng) for prior in kernel.priors()])).cov
        exact = cov - np.diag((kernel.finest * kernel.unit) ** 2)
        found.append(exact[2, 1] / np.sqrt(exact[1, 1] * exact[2, 2]))
    law = stats.beta(1.5, 1.5, loc=-1, scale=2)
    assert stats.kstest(found, law.cdf).pvalue > 1e-3
    assert stats.kstest(found, stats.uniform(-1, 2).cdf).pvalue < 1e-6  # it can fail


@pytest.mark.parametrize("D", [1, 2, 3])
def test_slopes_of_correlated_coordinates_are_differences(D):
    rng = np.random.default_rng(D)
    column = rng.normal(size=(9, D)).round(1)  # rounding counts
    child, parent = np.nonzero(~np.eye(9, dtype=bool))
    weights = rng.normal(size=(2, len(child)))
    start = Drift().start(column)
    for params in (start.params, start.params + rng.normal(size=len(start.params))):
        kernel = start.with_params(params)
        np.testing.assert_allclose(kernel.params, params, rtol=1e-6, atol=1e-6)
        pairs = kernel.pairs(column, column, child, parent)
        assert_slopes_agree(
            kernel.slopes(pairs, weights),
            lambda p, k=kernel, pairs=pairs: weighted_sum(k.with_params(p), pairs, weights),
            kernel.params,
        )


def test_the_description_names_the_clock_only_if_it_runs(plane):
    kernel, _ = plane
    assert "1.43 units of time add as much variance" in kernel.describe()
    assert "units of time" not in replace(kernel, rate=0.0).describe()

"""Places that wander in some groups further than in others."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from outtrees.models.columns import Drift, GroupedDrift

from .conftest import assert_slopes_agree, climbed, weighted_sum

T, G = 24, 3


def problem(seed, K=2, strength=6.0, clock=True):
    """Return a kernel, pairs within groups, random weights, and the time that passed."""
    rng = np.random.default_rng(seed)
    groups = np.sort(rng.integers(G, size=T))
    places = rng.normal(size=(T, 2)) * np.array([0.5, 1.0, 3.0])[groups, None]
    cells = np.column_stack([places, groups])
    parent, child = np.triu_indices(T, 1)
    within = groups[parent] == groups[child]
    child, parent = child[within], parent[within]
    kernel = GroupedDrift(offset=True, clock=clock, group_strength=strength).start(cells)
    weights = rng.gamma(0.5, size=(K, len(child)))
    return kernel, cells, (child, parent), weights, rng.gamma(1.0, size=len(child))


@pytest.mark.parametrize("k", [1, 3])
def test_density_against_scipy(k):
    kernel, cells, (child, parent), _, elapsed = problem(0)
    scales, cov = np.array([0.4, 1.0, 2.5]), np.array([[0.6, 0.2], [0.2, 0.4]])
    step = np.array([0.3, -0.1])
    kernel = replace(kernel, scales=scales, cov=cov, rate=0.7, mean_step=step)
    found = kernel.log_steps(kernel.pairs(cells, cells, child, parent), k, elapsed)
    for edge, (u, v) in enumerate(zip(child, parent, strict=True)):
        spread = scales[int(cells[u, 2])] * (k + 0.7 * elapsed[edge]) * cov
        law = stats.multivariate_normal(cells[v, :2] + k * step, spread)
        assert found[edge] == pytest.approx(law.logpdf(cells[u, :2]), abs=1e-10)
    plain = Drift(clock=True).start(cells[:, :2])
    np.testing.assert_array_equal(kernel.log_alone(cells), plain.log_alone(cells[:, :2]))
    unknown = np.column_stack([cells[:1, :2], [-1.0]])  # no group that was fitted
    assert np.isfinite(kernel.log_alone(unknown)).all()


@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize("tail", [None, 3.0])
@pytest.mark.parametrize("K", [1, 2, 3])
def test_slopes_are_differences(clock, tail, K):
    """Missing places, a record whose group nobody knows, weights of both signs."""
    for seed in range(3):
        kernel, cells, ends, weights, elapsed = problem(seed, K, clock=clock)
        cells[3], cells[5, 2] = np.nan, -1.0
        rng = np.random.default_rng(seed)
        weights = weights * rng.choice([-1.0, 1.0], size=weights.shape)
        kernel = replace(kernel, tail=tail)
        kernel = kernel.with_params(kernel.params + rng.normal(size=len(kernel.params)) / 4)
        pairs = kernel.pairs(cells, cells, *ends)

        def value(params, kernel=kernel, of=(pairs, weights, elapsed)):
            return weighted_sum(kernel.with_params(params), *of)

        found = kernel.slopes(pairs, weights, elapsed)
        assert_slopes_agree(found, value, kernel.params)
        with pytest.raises(AssertionError):  # slopes of two groups exchanged
            assert_slopes_agree(found[[*range(len(found) - 2), -1, -2]], value, kernel.params)
        assert_slopes_agree(
            kernel.prior_slopes(),
            lambda params, kernel=kernel: kernel.with_params(params).log_prior(),
            kernel.params,
        )


@pytest.mark.parametrize("clock", [False, True])
def test_slopes_lead_to_the_maximum(clock):
    for seed in range(3):
        kernel, cells, ends, weights, elapsed = problem(seed, clock=clock)
        pairs = kernel.pairs(cells, cells, *ends)
        time = elapsed if clock else None

        def value(kernel, pairs=pairs, weights=weights, time=time):
            return weighted_sum(kernel, pairs, weights, time) + kernel.log_prior()

        def loss(x, kernel=kernel, value=value, clock=clock):
            lower = np.array([[np.exp(x[0]), 0], [x[1], np.exp(x[2])]])
            moved = replace(
                kernel,
                cov=lower @ lower.T,
                mean_step=x[3:5],
                scales=np.exp(x[5 : 5 + G]),
                rate=float(np.exp(x[-1])) if clock else 0.0,
            )
            return -value(moved)

        start = np.concatenate([np.zeros(5 + G), [0.0] * clock])
        best = -minimize(loss, start, method="BFGS", options={"gtol": 1e-6}).fun
        after = value(climbed(kernel, pairs, weights, time))
        assert after == pytest.approx(best, rel=1e-6) or after > best


def test_groups_that_are_alike_walk_as_one():
    kernel, cells, ends, weights, elapsed = problem(3)
    kernel = replace(kernel, scales=np.ones(G))
    places = cells[:, :2]
    plain = Drift(clock=True).start(places)
    pairs, plain_pairs = kernel.pairs(cells, cells, *ends), plain.pairs(places, places, *ends)
    np.testing.assert_allclose(
        kernel.slopes(pairs, weights, elapsed)[:-G],
        plain.slopes(plain_pairs, weights, elapsed),
        rtol=1e-10,
    )
    scales = sum(prior.log_density(0.0) for prior in kernel.priors()[-G:])
    assert kernel.log_prior() - scales == pytest.approx(plain.log_prior(), rel=1e-12)


def test_a_strong_prior_holds_groups_together():
    spreads = []
    for strength in (1.0, 6.0, 1e4):
        kernel, cells, ends, weights, _ = problem(3, strength=strength, clock=False)
        scales = climbed(kernel, kernel.pairs(cells, cells, *ends), weights).scales
        spreads.append(np.ptp(np.log(scales)))
    assert spreads[0] > spreads[1] > 1.0
    assert spreads[2] < 0.05


def test_stretches_count_as_the_whole_and_missing_places_as_nothing():
    kernel, cells, (child, parent), weights, elapsed = problem(4)
    cells[2] = np.nan
    pairs = kernel.pairs(cells, cells, child, parent)
    half = np.arange(len(child)) < len(child) // 2
    parts = [
        kernel.slopes(kernel.pairs(cells, cells, child[h], parent[h]), weights[:, h], elapsed[h])
        for h in (half, ~half)
    ]
    np.testing.assert_allclose(kernel.slopes(pairs, weights, elapsed), sum(parts), rtol=1e-10)
    gone = (child == 2) & (parent != 2)
    np.testing.assert_array_equal(kernel.log_steps(pairs, 1, elapsed)[gone], 0.0)


def test_samples_with_ends_start_where_their_parents_ended():
    cells = np.random.default_rng(1).normal(size=(12, 4))
    cells = np.column_stack([cells, np.repeat([0.0, 1.0], 6)])
    kernel = GroupedDrift(offset=False, ends=True).start(cells)
    kernel = replace(kernel, scales=np.array([1e-8, 1e-8]))
    drawn = kernel.sample(cells, 2, np.random.default_rng(0))
    assert drawn.shape == cells.shape
    np.testing.assert_allclose(drawn[:, :2], cells[:, 2:4], atol=1e-2)
    np.testing.assert_array_equal(drawn[:, :2], drawn[:, 2:4])
    np.testing.assert_array_equal(drawn[:, 4], cells[:, 4])
    assert kernel.sample_alone(7, np.random.default_rng(0)).shape == (7, 5)


def test_samples_have_the_spread_of_their_group():
    kernel, *_ = problem(5)
    kernel = replace(kernel, scales=np.array([0.25, 1.0, 4.0]), cov=np.eye(2))
    rng = np.random.default_rng(0)
    parents = np.repeat([[3.0, -1.0, 0.0], [3.0, -1.0, 2.0]], 20_000, axis=0)
    moved = kernel.sample(parents, 2, rng)
    np.testing.assert_array_equal(moved[:, 2], parents[:, 2])
    for rows, scale in ((slice(20_000), 0.25), (slice(20_000, None), 4.0)):
        # Squares of 40,000 normal numbers: a relative standard error of 0.007.
        variance = ((moved - parents)[rows, :2] ** 2).mean()
        assert variance == pytest.approx(2 * scale, rel=0.04)
    alone = kernel.sample_alone(500, rng)
    assert set(alone[:, 2]) == {0.0, 1.0, 2.0}
    assert np.isfinite(kernel.log_alone(alone)).all()


def test_distances_for_compiled_loops_are_the_walk_itself():
    kernel, cells, *_ = problem(6, clock=False)
    kernel = replace(
        kernel, scales=np.array([0.4, 1.0, 2.5]), cov=np.array([[0.6, 0.2], [0.2, 0.4]])
    )
    metric = kernel.quick(cells, 2, 1.0)
    group = np.flatnonzero(cells[:, 2] == cells[0, 2])
    child, parent = (side.ravel() for side in np.meshgrid(group, group))
    for k in (1, 2):
        right = kernel.log_steps(kernel.pairs(cells, cells, child, parent), k)
        apart = metric.child[k - 1, child] - metric.parent[k - 1, parent]
        quick = metric.constant[k - 1] + metric.shift[child] - 0.5 * (apart**2).sum(axis=1)
        np.testing.assert_allclose(quick, right, atol=1e-10)


def test_a_group_that_is_unknown_has_the_common_spread():
    kernel = replace(problem(5)[0], scales=np.array([0.25, 1.0, 4.0]))
    np.testing.assert_array_equal(
        kernel._scales_of(np.array([2.0, -1.0, np.nan, 0.0])), [4.0, 1.0, 1.0, 0.25]
    )

"""Counts: thinning and arrival, against a convolution and a chain of single links."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from outtrees.models.column import differences
from outtrees.models.columns import Counts

from .conftest import climbed, densities


@pytest.mark.parametrize("survival", [1e-6, 0.2, 0.9, 1 - 1e-6])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_against_a_convolution(survival, k):
    kernel = Counts(mean=2.3, survival=survival)
    counts = np.arange(40.0)
    for parent in (0, 1, 7, 30):
        kept = stats.binom.pmf(counts, parent, survival**k)
        arrived = stats.poisson.pmf(counts, (1 - survival**k) * 2.3)
        right = np.convolve(kept, arrived)[:40]
        found = densities(kernel, counts[:, None], np.array([[float(parent)]]), k)[:, 0]
        np.testing.assert_allclose(found, right, rtol=1e-8, atol=1e-300)


def test_the_poisson_distribution_is_stationary():
    kernel = Counts(mean=2.3, survival=0.6)
    counts = np.arange(60.0)[:, None]
    before = stats.poisson.pmf(counts[:, 0], 2.3)
    np.testing.assert_allclose(densities(kernel, counts, counts, 1) @ before, before, atol=1e-12)


def test_cells_without_a_parent_have_the_columns_mean_and_variance():
    column = np.array([0, 9, 1, 4, 12, 2, 0, 1, 3, 7], dtype=float)[:, None]
    kernel = Counts().start(column)
    points = np.arange(3000.0)
    p = np.exp(kernel.log_alone(points[:, None]))
    assert p @ points == pytest.approx((39 + 0.5) / 11, rel=1e-9)
    assert p @ points**2 - (p @ points) ** 2 == pytest.approx(column.var(), rel=1e-6)


@pytest.mark.parametrize("excess", [1e-12, 1e-8, 1e-5, 1e-3])
def test_a_hardly_overdispersed_column_is_nearly_poisson(excess):
    kernel = Counts(mean=4.0, variance=4.0 * (1 + excess))
    counts = np.arange(25.0)[:, None]
    # The log-densities differ by about excess·(x − mean)²/2.
    np.testing.assert_allclose(
        kernel.log_alone(counts), stats.poisson.logpmf(counts[:, 0], 4.0), atol=300 * excess + 1e-6
    )


def test_large_counts_beside_small_ones():
    """Small counts beside one of 100 000 stop early, and its own terms need no table."""
    kernel = Counts(mean=50.0, survival=0.5)
    rng = np.random.default_rng(0)
    cells = np.vstack([rng.integers(0, 3, size=(20_000, 2)), [[100_000, 100_200]]]).astype(float)
    tracemalloc.start()
    found, kept = kernel._kept_units(cells, 0.5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * 8 * len(cells)
    for i in (0, 7, 19_999, 20_000):
        x, y = cells[i]
        j = np.arange(min(x, y) + 1)
        logs = stats.binom.logpmf(j, y, 0.5) + stats.poisson.logpmf(x - j, 25.0)
        assert found[i] == pytest.approx(logsumexp(logs), rel=1e-10)
        assert kept[i] == pytest.approx(np.exp(logs - logsumexp(logs)) @ j, rel=1e-9)


@pytest.mark.parametrize("survival", [1e-3, 0.4, 0.97])
def test_slopes_are_those_of_the_log_probabilities(survival):
    kernel = Counts(mean=7.0, survival=survival)
    rng = np.random.default_rng(1)
    cells, weights = rng.poisson(7.0, (50, 2)).astype(float), rng.normal(size=(3, 50))

    def total(one):
        return sum(float(w @ one._log_pairs(cells, k, None)) for k, w in enumerate(weights, 1))

    found = kernel._slopes_cells(cells, weights, None)
    np.testing.assert_allclose(found, differences(total, kernel), rtol=1e-6, atol=1e-6)


def test_nothing_is_kept_over_many_links():
    kernel = Counts(mean=2.0, survival=1e-12)
    counts = np.arange(5.0)
    found = densities(kernel, counts[:, None], np.array([[3.0]]), 50)[:, 0]
    np.testing.assert_allclose(found, stats.poisson.pmf(counts, 2.0), rtol=1e-12)


def test_no_pair_of_known_cells():
    column = np.array([[3.0], [np.nan]])
    kernel = Counts().start(column)
    edge, other = np.array([0]), np.array([1])
    pairs = kernel.pairs(column, column, edge, other)
    assert kernel.log_steps(pairs, 1)[0] == kernel.log_alone(column)[0]
    np.testing.assert_array_equal(kernel.slopes(pairs, np.ones((1, 1))), [0.0])


def test_survival_is_recovered():
    """4000 links of a chain: the posterior's standard error is about 0.01."""
    truth = Counts(mean=3.0, survival=0.8)
    rng = np.random.default_rng(5)
    parents = rng.poisson(3.0, size=(4000, 1)).astype(float)
    children = truth.sample(parents, 1, rng)
    edges = np.arange(4000)
    kernel = replace(truth, survival=0.3)
    found = climbed(kernel, kernel.pairs(children, parents, edges, edges), np.ones((1, 4000)))
    assert found.survival == pytest.approx(0.8, abs=0.04)

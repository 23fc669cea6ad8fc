"""What every kernel of a column must do, on all of them."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from outtrees.models.columns import Substitution

from .conftest import assert_slopes_agree, climbed, densities, weighted_sum

LINKS = [1, 2, 3]


def all_pairs(T):
    child, parent = np.indices((T, T)).reshape(2, -1)
    return child[child != parent], parent[child != parent]


def random_problem(case, seed, K, signed=False):
    """Return pairs of a column with holes, weights of possible edges, and the time that passed."""
    rng = np.random.default_rng(seed)
    column = case.column[rng.integers(len(case.column), size=9)].copy()
    if isinstance(case.kernel, Substitution):
        column[rng.random(column.shape) < 0.15] = np.nan
    column[rng.random(9) < 0.2] = np.nan
    child, parent = all_pairs(9)
    pairs = case.kernel.pairs(column, column, child, parent)
    size = (K, len(child))
    weights = rng.normal(size=size) if signed else rng.gamma(0.3, size=size)
    weights *= rng.random(size) < 0.5
    for k in range(K):
        weights[k, np.isneginf(case.kernel.log_steps(pairs, k + 1))] = 0.0
    return pairs, weights, rng.gamma(1.0, 2.0, size=len(child))


@pytest.mark.parametrize("k", LINKS)
def test_children_sum_to_one(kernel_case, k):
    p = densities(kernel_case.kernel, kernel_case.points, kernel_case.column[:4], k)
    np.testing.assert_allclose(kernel_case.weights @ p, 1.0, atol=kernel_case.accuracy)


def test_cells_without_a_parent_sum_to_one(kernel_case):
    points, weights = kernel_case.alone or (kernel_case.points, kernel_case.weights)
    total = weights @ np.exp(kernel_case.kernel.log_alone(points))
    assert total == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("k", [2, 3])
def test_k_links_are_one_link_after_another(kernel_case, k):
    """∫ p(x | z, 1 link) p(z | y, k − 1 links) dz = p(x | y, k links)."""
    if not kernel_case.composes:
        pytest.skip("rounded dates add up before rounding, not after: see test_waiting.py")
    kernel, middle = kernel_case.kernel, kernel_case.points
    children, parents = kernel_case.column, kernel_case.column[:3]
    first = densities(kernel, middle, parents, k - 1)
    second = densities(kernel, children, middle, 1)
    composed = second @ (kernel_case.weights[:, None] * first)
    found = densities(kernel, children, parents, k)
    np.testing.assert_allclose(found, composed, atol=kernel_case.accuracy)
    assert found.max() > 1e-3  # or the comparison says nothing


@pytest.mark.parametrize("k", LINKS)
def test_missing_cells(kernel_case, k):
    """An unknown child pays nothing, with an unknown parent the density without one remains."""
    kernel, column = kernel_case.kernel, kernel_case.column
    unknown = np.full_like(column[:1], np.nan)
    np.testing.assert_array_equal(densities(kernel, unknown, column, k), 1.0)
    np.testing.assert_array_equal(densities(kernel, unknown, unknown, k), 1.0)
    if not isinstance(kernel, Substitution):  # sequences ask the parent's likes: see there
        right = np.exp(kernel.log_alone(column))
        np.testing.assert_allclose(densities(kernel, column, unknown, k)[:, 0], right, rtol=1e-12)
    np.testing.assert_array_equal(kernel.log_alone(unknown), 0.0)


def test_a_column_with_holes_is_read_edge_by_edge(kernel_case):
    kernel, column = kernel_case.kernel, kernel_case.column.copy()
    if isinstance(kernel, Substitution):
        pytest.skip("unread sites depend on all sequences: see test_substitution.py")
    column[[1, 4]] = np.nan
    child, parent = all_pairs(len(column))
    together = kernel.log_steps(kernel.pairs(column, column, child, parent), 2)
    zero = np.array([0])
    for edge in range(0, len(child), 7):
        u, v = child[edge], parent[edge]
        alone = kernel.pairs(column[u : u + 1], column[v : v + 1], zero, zero)
        assert kernel.log_steps(alone, 2)[0] == pytest.approx(together[edge], abs=1e-12)


def test_the_order_of_edges_does_not_matter(kernel_case):
    kernel, column = kernel_case.kernel, kernel_case.column
    child, parent = all_pairs(len(column))
    rng = np.random.default_rng(3)
    order = rng.permutation(len(child))
    pairs = kernel.pairs(column, column, child, parent)
    shuffled = kernel.pairs(column, column, child[order], parent[order])
    np.testing.assert_allclose(
        kernel.log_steps(shuffled, 2), kernel.log_steps(pairs, 2)[order], rtol=1e-13
    )
    weights = rng.normal(size=(2, len(child)))
    for k in (1, 2):
        weights[k - 1, np.isneginf(kernel.log_steps(pairs, k))] = 0.0
    np.testing.assert_allclose(
        kernel.slopes(shuffled, weights[:, order]), kernel.slopes(pairs, weights), rtol=1e-6
    )


# Learning ----------------------------------------------------------------------------------


def test_parameters_lead_back_to_the_kernel(kernel_case):
    kernel = kernel_case.kernel
    pairs, _, elapsed = random_problem(kernel_case, 0, 1)
    again = kernel.with_params(kernel.params)
    assert type(again) is type(kernel)
    np.testing.assert_allclose(again.params, kernel.params, rtol=1e-12, atol=1e-12)
    for k in LINKS:
        np.testing.assert_allclose(
            again.log_steps(pairs, k, elapsed), kernel.log_steps(pairs, k, elapsed), rtol=1e-10
        )
    np.testing.assert_array_equal(
        again.log_alone(kernel_case.column), kernel.log_alone(kernel_case.column)
    )
    assert again.log_prior() == pytest.approx(kernel.log_prior(), rel=1e-10)


def test_a_start_has_parameters_that_lead_back_to_it(kernel_case):
    """As a fit first sees the kernel, and at every point from which it may start."""
    pairs, _, elapsed = random_problem(kernel_case, 1, 1)
    for start in kernel_case.kernel.start(kernel_case.column).variants():
        again = start.with_params(start.params)
        np.testing.assert_allclose(
            again.log_steps(pairs, 1, elapsed), start.log_steps(pairs, 1, elapsed), rtol=1e-9
        )
        for params in start.start_grid():
            moved = start.with_params(params)
            np.testing.assert_allclose(moved.params, params, rtol=1e-9, atol=1e-9)
            assert np.isfinite(moved.log_prior())


@pytest.mark.parametrize("K", LINKS)
@pytest.mark.parametrize("timed", [True, False])
def test_slopes_are_differences(kernel_case, K, timed):
    """Weights of both signs, cells missing, with and without the time that passed."""
    kernel = kernel_case.kernel
    for seed in range(3):
        pairs, weights, elapsed = random_problem(kernel_case, seed, K, signed=True)
        time = elapsed if timed else None

        def value(params, pairs=pairs, weights=weights, time=time):
            return weighted_sum(kernel.with_params(params), pairs, weights, time)

        assert_slopes_agree(kernel.slopes(pairs, weights, time), value, kernel.params)


def test_wrong_slopes_would_be_noticed(kernel_case):
    """The test above can fail: one part in a thousand, or lost signs, are too much."""
    kernel = kernel_case.kernel
    if not len(kernel.params):
        pytest.skip("nothing is learned")
    pairs, weights, elapsed = random_problem(kernel_case, 0, 2, signed=True)

    def value(params):
        return weighted_sum(kernel.with_params(params), pairs, weights, elapsed)

    right = kernel.slopes(pairs, weights, elapsed)
    for wrong in (1.001 * right, kernel.slopes(pairs, abs(weights), elapsed)):
        with pytest.raises(AssertionError):
            assert_slopes_agree(wrong, value, kernel.params)


def test_slopes_of_cells_without_a_parent_are_differences(kernel_case):
    kernel, rng = kernel_case.kernel, np.random.default_rng(4)
    column = kernel_case.column.copy()
    column[2] = np.nan
    weights = rng.normal(size=len(column))
    assert_slopes_agree(
        kernel.slopes_alone(column, weights),
        lambda params: float(weights @ kernel.with_params(params).log_alone(column)),
        kernel.params,
    )


def test_slopes_of_the_prior_are_differences(kernel_case):
    kernel = kernel_case.kernel
    assert_slopes_agree(
        kernel.prior_slopes(),
        lambda params: kernel.with_params(params).log_prior(),
        kernel.params,
    )


def test_without_weights_there_is_no_slope(kernel_case):
    pairs, weights, elapsed = random_problem(kernel_case, 0, 2)
    found = kernel_case.kernel.slopes(pairs, 0 * weights, elapsed)
    np.testing.assert_array_equal(found, np.zeros(len(kernel_case.kernel.params)))


@pytest.mark.parametrize("seed", range(2))
def test_slopes_lead_where_an_independent_optimiser_ends(kernel_case, seed):
    kernel = kernel_case.kernel
    if not len(kernel.params):
        pytest.skip("nothing is learned")
    pairs, weights, elapsed = random_problem(kernel_case, seed, 1)

    def value(moved):
        return weighted_sum(moved, pairs, weights, elapsed) + moved.log_prior()

    found = climbed(kernel, pairs, weights, elapsed)
    best = minimize(
        lambda params: -value(kernel.with_params(params)),
        kernel.params,
        method="Nelder-Mead",
        options={"maxiter": 2000, "maxfev": 2000},
    )
    assert value(found) >= -best.fun - 1e-5 * max(1.0, abs(best.fun))


# Samples -----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", LINKS)
def test_samples_follow_the_density(kernel_case, k):
    """Chi-square at 1e-4 for what can be counted, means within 4.5 standard errors otherwise."""
    kernel, parent, n = kernel_case.kernel, kernel_case.column[:1], 4000
    drawn = kernel.sample(np.repeat(parent, n, axis=0), k, np.random.default_rng(k))
    assert drawn.shape == (n, parent.shape[1])
    p = kernel_case.weights * densities(kernel, kernel_case.points, parent, k)[:, 0]
    assert_samples_agree(drawn, p, kernel_case)


def test_samples_without_a_parent(kernel_case):
    if "waiting" in kernel_case.name:
        assert (kernel_case.kernel.sample_alone(5, np.random.default_rng(0)) == 0).all()
        return
    kernel, n = kernel_case.kernel, 4000
    drawn = kernel.sample_alone(n, np.random.default_rng(7))
    p = kernel_case.weights * np.exp(kernel.log_alone(kernel_case.points))
    if kernel_case.name == "grouped":
        drawn[:, -1] = kernel_case.points[0, -1]  # each draw has a group of its own
    assert_samples_agree(drawn, p, kernel_case)


def assert_samples_agree(drawn, p, case):
    points = case.points
    if not case.discrete:
        bounded = [np.tanh, lambda x: np.tanh(x) ** 2]
        powers = [] if case.long_tail else [lambda x: x, lambda x: x**2]
        for of in bounded + powers:
            sampled = of(drawn)
            error = sampled.std(axis=0) / np.sqrt(len(drawn))
            off = abs(sampled.mean(axis=0) - p @ of(points))
            assert (off <= 4.5 * error + max(1e-6, case.accuracy)).all()
        return
    place = {tuple(row): i for i, row in enumerate(points)}
    counts = np.bincount([place[tuple(row)] for row in drawn], minlength=len(points))
    assert_counts_agree(counts, p)


def assert_counts_agree(counts, p):
    expected = counts.sum() * p
    rare = expected < 5
    found = np.append(counts[~rare], counts[rare].sum())
    right = np.append(expected[~rare], expected[rare].sum())
    if right[-1] < 1e-6:
        assert found[-1] == 0
        found, right = found[:-1], right[:-1]
    statistic = ((found - right) ** 2 / right).sum()
    assert stats.chi2.sf(statistic, max(len(right) - 1, 1)) > 1e-4


def test_a_description_names_finite_numbers(kernel_case):
    text = kernel_case.kernel.describe()
    assert text
    assert "nan" not in text
    assert "inf" not in text

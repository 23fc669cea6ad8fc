"""What every kernel of a column must do, on all of them."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from outtrees.models.columns import Substitution

from .conftest import densities, weighted_sum

LINKS = [1, 2, 3]


def all_pairs(T):
    child, parent = np.indices((T, T)).reshape(2, -1)
    return child[child != parent], parent[child != parent]


def random_problem(case, seed, K):
    """Return pairs of a column with holes, and weights where the edge is possible."""
    rng = np.random.default_rng(seed)
    column = case.column[rng.integers(len(case.column), size=9)].copy()
    column[rng.random(9) < 0.2] = np.nan
    child, parent = all_pairs(9)
    pairs = case.kernel.pairs(column, column, child, parent)
    weights = rng.gamma(0.3, size=(K, len(child))) * (rng.random((K, len(child))) < 0.5)
    for k in range(K):
        weights[k, np.isneginf(case.kernel.log_steps(pairs, k + 1))] = 0.0
    return pairs, weights


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
    weights = rng.random((2, len(child)))
    for k in (1, 2):
        weights[k - 1, np.isneginf(kernel.log_steps(pairs, k))] = 0.0
    one = kernel.refit(pairs, weights)
    other = kernel.refit(shuffled, weights[:, order])
    assert weighted_sum(one, pairs, weights) == pytest.approx(
        weighted_sum(other, pairs, weights), rel=1e-9
    )


@pytest.mark.parametrize("K", LINKS)
def test_refit_never_lowers_its_objective(kernel_case, K):
    for seed in range(6):
        pairs, weights = random_problem(kernel_case, seed, K)
        kernel = kernel_case.kernel
        before = weighted_sum(kernel, pairs, weights)
        for _ in range(2):
            kernel = kernel.refit(pairs, weights)
            after = weighted_sum(kernel, pairs, weights)
            assert after >= before - 1e-9 * abs(before)
            before = after


def test_refit_alone_never_lowers_its_objective(kernel_case):
    kernel, column = kernel_case.kernel, kernel_case.column
    for seed in range(5):
        weights = np.random.default_rng(seed).gamma(0.3, size=len(column))
        before = weights @ kernel.log_alone(column) + kernel.log_prior()
        found = kernel.refit_alone(column, weights)
        after = weights @ found.log_alone(column) + found.log_prior()
        assert after >= before - 1e-10 * abs(before)


def test_refit_with_nothing_to_learn_from_changes_nothing_known(kernel_case):
    pairs, weights = random_problem(kernel_case, 0, 2)
    before = weighted_sum(kernel_case.kernel, pairs, 0 * weights)
    kernel = kernel_case.kernel.refit(pairs, 0 * weights)
    assert weighted_sum(kernel, pairs, 0 * weights) >= before - 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_refits_end_where_an_independent_optimiser_ends(kernel_case, seed):
    if not kernel_case.starts:
        pytest.skip("nothing is learned")
    pairs, weights = random_problem(kernel_case, seed, 1)
    kernel = kernel_case.kernel
    for _ in range(12):  # a refit may stop early (dates do), but repeated ones must arrive
        kernel = kernel.refit(pairs, weights)

    def loss(params):
        return -weighted_sum(kernel_case.vary(kernel_case.kernel, params), pairs, weights)

    best = min(
        minimize(loss, start, method="Nelder-Mead", options={"maxiter": 4000, "maxfev": 4000}).fun
        for start in kernel_case.starts
    )
    reached = weighted_sum(kernel, pairs, weights)
    assert reached >= -best - 1e-5 * max(1.0, abs(best))


@pytest.mark.parametrize("k", LINKS)
def test_samples_follow_the_density(kernel_case, k):
    """Chi-square at 1e-4 for what can be counted, means within 4.5 standard errors otherwise."""
    kernel, parent, n = kernel_case.kernel, kernel_case.column[:1], 4000
    drawn = kernel.sample(np.repeat(parent, n, axis=0), k, np.random.default_rng(k))
    assert drawn.shape == (n, parent.shape[1])
    p = kernel_case.weights * densities(kernel, kernel_case.points, parent, k)[:, 0]
    assert_samples_agree(drawn, kernel_case.points, p, kernel_case.discrete)


def test_samples_without_a_parent(kernel_case):
    if "waiting" in kernel_case.name:
        assert (kernel_case.kernel.sample_alone(5, np.random.default_rng(0)) == 0).all()
        return
    kernel, n = kernel_case.kernel, 4000
    drawn = kernel.sample_alone(n, np.random.default_rng(7))
    p = kernel_case.weights * np.exp(kernel.log_alone(kernel_case.points))
    assert_samples_agree(drawn, kernel_case.points, p, kernel_case.discrete)


def assert_samples_agree(drawn, points, p, discrete):
    if not discrete:
        for power in (1, 2):
            sampled = drawn**power
            error = sampled.std(axis=0) / np.sqrt(len(drawn))
            assert (np.abs(sampled.mean(axis=0) - p @ points**power) <= 4.5 * error + 1e-6).all()
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

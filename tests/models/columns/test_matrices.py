"""Distances and ready weights: densities by quadrature, the best scale, unknown pairs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from outtrees.models.columns import Distances, GivenWeights

from .conftest import assert_slopes_agree, climbed, weighted_sum


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    matrix = rng.gamma(2.0, size=(7, 7))
    matrix[2, 4] = np.nan
    np.fill_diagonal(matrix, 0.0)
    records = np.arange(7.0)[:, None]
    kernel = Distances(matrix).start(records)
    child, parent = np.nonzero(~np.eye(7, dtype=bool))
    return kernel, matrix, child, parent, kernel.pairs(records, records, child, parent)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_distances_follow_a_gamma(problem, k):
    kernel, matrix, child, parent, pairs = problem
    kernel = replace(kernel, scale=0.8)
    found = kernel.log_steps(pairs, k)
    for edge in range(len(child)):
        distance = matrix[child[edge], parent[edge]]
        right = stats.gamma(k, scale=0.8).logpdf(distance)
        if np.isnan(distance):
            right = kernel.log_alone(np.zeros((1, 1)))[0]
        assert found[edge] == pytest.approx(right, abs=1e-12)
    total = quad(lambda d: np.exp(kernel.log_steps(np.array([d]), k)[0]), 0, 60)[0]
    assert total == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("K", [1, 2, 3])
def test_slopes_are_differences(problem, K):
    kernel, _, _, _, pairs = problem
    weights = np.random.default_rng(K).normal(size=(K, len(pairs)))
    kernel = kernel.with_params(kernel.params + 0.3)

    def value(params):
        return weighted_sum(kernel.with_params(params), pairs, weights)

    assert_slopes_agree(kernel.slopes(pairs, weights), value, kernel.params)
    with pytest.raises(AssertionError):
        assert_slopes_agree(kernel.slopes(pairs, abs(weights)), value, kernel.params)
    assert_slopes_agree(
        kernel.prior_slopes(), lambda p: kernel.with_params(p).log_prior(), kernel.params
    )
    np.testing.assert_array_equal(kernel.slopes_alone(np.arange(7.0)[:, None], np.ones(7)), [0.0])
    assert kernel.with_params(kernel.params).scale == pytest.approx(kernel.scale, rel=1e-14)


def test_slopes_lead_to_the_best_scale(problem):
    kernel, _, _, _, pairs = problem
    for seed in range(5):
        weights = np.random.default_rng(seed).random((3, len(pairs)))

        def value(kernel, weights=weights):
            return weighted_sum(kernel, pairs, weights) + kernel.log_prior()

        best = minimize_scalar(
            lambda x, value=value: -value(replace(kernel, scale=np.exp(x))),
            bounds=(-6, 6),
            method="bounded",
        )
        assert value(climbed(kernel, pairs, weights)) >= -best.fun - 1e-9


def test_equal_records_at_distance_zero(problem):
    kernel = Distances(np.zeros((3, 3))).start(np.arange(3.0)[:, None])
    pairs = np.zeros(4)
    kernel = climbed(kernel, pairs, np.ones((1, 4)))
    assert np.isfinite(kernel.log_steps(pairs, 1)).all()
    assert np.isneginf(kernel.log_steps(pairs, 2)).all()


def test_given_weights_are_taken_as_they_are():
    matrix = np.log(np.array([[1.0, 0.2, 0.3], [0.4, 1.0, 0.5], [0.6, 0.7, 1.0]]))
    kernel = GivenWeights(matrix).start(np.arange(3.0)[:, None])
    records = np.arange(3.0)[:, None]
    pairs = kernel.pairs(records, records, np.array([2, 0]), np.array([1, 2]))
    np.testing.assert_array_equal(kernel.log_steps(pairs, 1), [np.log(0.7), np.log(0.3)])
    assert np.isneginf(kernel.log_steps(pairs, 2)).all()
    assert kernel.params.shape == kernel.slopes(pairs, np.ones((1, 2))).shape == (0,)
    assert kernel.with_params(kernel.params) is kernel


@pytest.mark.parametrize("kernel", [Distances(np.zeros((2, 2))), GivenWeights(np.zeros((2, 2)))])
def test_no_record_is_invented_from_a_matrix(kernel):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="cannot be simulated; give columns"):
        kernel.sample(np.zeros((1, 1)), 1, rng)
    with pytest.raises(ValueError, match="cannot be simulated; give columns"):
        kernel.sample_alone(2, rng)

"""Importance weights with a Pareto tail, and posteriors that are drawn from with them."""

import numpy as np
import pytest
from scipy.special import gammaln

from outtrees.inference.importance import (
    _WIDER,
    _adapted,
    _Mixture,
    _Proposal,
    integrate,
    laplace_covariance,
    smooth_weights,
    weighted_quantiles,
)


def test_smoothed_weights_know_a_heavy_tail_from_a_light_one():
    rng = np.random.default_rng(0)
    shapes = {k: smooth_weights(-k * np.log(rng.random(4000)))[1] for k in (0.2, 0.5, 1.0)}
    for k, estimate in shapes.items():
        assert estimate == pytest.approx(k, abs=0.2)  # about 190 tail draws: s.e. near 0.1
    logs = rng.normal(size=200)
    smoothed, _ = smooth_weights(logs)
    order = np.argsort(logs)
    assert (np.diff(smoothed[order][-40:]) >= 0).all()
    np.testing.assert_array_equal(smoothed[order][:-40], logs[order][:-40])
    assert np.isnan(smooth_weights(np.zeros(10))[1])


def log_gammas(x, shapes):
    """Return the log-density of logarithms of gammas: skew, with exponential tails to the left."""
    return float((shapes * x - np.exp(x) - gammaln(shapes)).sum())


def test_second_derivatives_of_narrow_directions_are_those_at_the_mode():
    """Steps of one size would leave the parabola: beyond it this log-density rises again."""
    width = 1e-3

    def both(x):
        z = x[0] / width
        value = -0.5 * z**2 if abs(z) < 2 else -2.0 + 0.01 * abs(x[0])
        slope = -z / width if abs(z) < 2 else 0.01 * np.sign(x[0])
        return value - 0.5 * x[1] ** 2, np.array([slope, -x[1]])

    found = laplace_covariance(both, np.zeros(2))
    np.testing.assert_allclose(found, np.diag([width**2, 1.0]), atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_skew_densities_of_several_parameters_are_integrated(seed):
    shapes = np.array([0.5, 1.0, 3.0, 20.0, 0.7, 5.0])
    mode = np.log(shapes)
    covariance = laplace_covariance(lambda x: (log_gammas(x, shapes), shapes - np.exp(x)), mode)
    found = integrate(lambda x: log_gammas(x, shapes), mode, covariance, 512, seed)
    assert found.trusted
    assert abs(found.log_evidence) < 4 * found.standard_error < 0.5
    # E exp(x) is the shape. Errors of a weighted mean.
    values = np.exp(found.params)
    mean = found.weights @ values
    error = np.sqrt(found.weights**2 @ (values - mean) ** 2)
    assert (abs(mean - shapes) < 4 * error).all()


def test_a_posterior_that_the_proposal_misses_is_not_trusted():
    """A second hill of the same height, 30 standard deviations off, is found in one seed of many.

    What can be said is that a proposal far too narrow is noticed.
    """
    found = integrate(
        lambda x: float(-0.5 * (x / 100) @ x), np.zeros(12), 1e-4 * np.eye(12), 32, seed=0
    )
    assert not found.trusted


def test_quantiles_of_weighted_draws():
    rng = np.random.default_rng(0)
    values = rng.normal(size=20_000)
    weights = np.exp(values - 0.5)  # makes it N(1, 1)
    found = weighted_quantiles(values, weights, [0.05, 0.5, 0.95])
    np.testing.assert_allclose(found, [1 - 1.645, 1.0, 1 + 1.645], atol=0.1)


def test_the_next_proposal_has_the_mean_and_covariance_of_weighted_draws():
    rng = np.random.default_rng(0)
    params = rng.normal(size=(4000, 2)) * [1.0, 3.0] + [50.0, -20.0]  # far from 0
    expected = _WIDER**2 * np.cov(params.T)
    first = _Proposal.of(params.mean(axis=0), expected)
    found = _adapted(_Mixture((first,), np.ones(1)), [first], params, np.zeros(4000))
    part = found.parts[0]
    np.testing.assert_allclose(part.centre, params.mean(axis=0))
    np.testing.assert_allclose(part.factor @ part.factor.T, expected, rtol=1e-3)


def test_quantiles_lie_between_the_middles_of_the_weights():
    values, weights = np.array([5.0, 1.0, 3.0]), np.array([0.2, 0.2, 0.6])  # middles 0.9, 0.1, 0.5
    at = [0.05, 0.1, 0.3, 0.5, 0.8, 0.95]
    right = [1.0, 1.0, 2.0, 3.0, 4.5, 5.0]
    for total in (1.0, 7.0):
        np.testing.assert_allclose(weighted_quantiles(values, total * weights, at), right)


@pytest.mark.parametrize("n", [25, 100, 400, 1000])
def test_the_tail_that_is_smoothed_are_a_fifth_or_three_roots(n):
    log_weights = np.random.default_rng(n).standard_cauchy(n) / 5
    smoothed, _ = smooth_weights(log_weights)
    changed = smoothed != log_weights
    assert changed.sum() == int(min(n / 5, 3 * np.sqrt(n)))
    assert log_weights[changed].min() > log_weights[~changed].max()

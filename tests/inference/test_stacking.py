"""Weights of a stack: against a general optimiser, and on data where the answer is known."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from outtrees.inference.likelihood import leaf_log_density
from outtrees.inference.stacking import default_candidates, stack_mutations, stacking_weights
from outtrees.models import GaussianMutation


def objective(w, log_densities):
    return logsumexp(log_densities, axis=0, b=w[:, None]).sum()


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_the_maximum(seed):
    log_densities = np.random.default_rng(seed).normal(size=(4, 60))
    w = stacking_weights(log_densities)
    assert w.sum() == pytest.approx(1.0)
    found = minimize(lambda z: -objective(softmax(z), log_densities), np.zeros(4), tol=1e-12)
    assert objective(w, log_densities) == pytest.approx(-found.fun, abs=1e-6)


def test_a_useless_candidate_gets_no_weight():
    rng = np.random.default_rng(0)
    log_densities = np.stack([rng.normal(size=50), rng.normal(size=50) - 30.0])
    np.testing.assert_allclose(stacking_weights(log_densities), [1.0, 0.0], atol=1e-9)
    impossible = np.stack([rng.normal(size=50), np.full(50, -np.inf)])
    np.testing.assert_allclose(stacking_weights(impossible), [1.0, 0.0], atol=1e-9)


def test_the_stack_is_a_normalised_mutation():
    X = np.random.default_rng(1).normal(size=(40, 1))
    candidates = {t: GaussianMutation(transition=t) for t in ("zero", "identity")}
    stack = stack_mutations(candidates, X, cv=3, random_state=0)
    grid = np.linspace(-9, 9, 4001)[:, None]
    density = np.exp(leaf_log_density(stack.mutation, X, grid))
    assert np.trapezoid(density, grid[:, 0]) == pytest.approx(1.0, abs=1e-6)
    again = stack_mutations(candidates, X, cv=3, random_state=0)
    np.testing.assert_array_equal(stack.weights, again.weights)


@pytest.mark.slow
def test_curves_and_columns_are_told_apart():
    """A noisy circle asks for maps or windows, integer codes for columns."""
    rng = np.random.default_rng(2)
    t = rng.uniform(0, 2 * np.pi, 90)
    circle = np.c_[np.cos(t), np.sin(t)] + 0.05 * rng.normal(size=(90, 2))
    codes = rng.integers(3, size=(90, 3)).astype(float)
    candidates = default_candidates(90)
    on_circle = stack_mutations(candidates, circle, cv=2, random_state=0, max_iter=30).weights
    on_codes = stack_mutations(candidates, codes, cv=2, random_state=0, max_iter=30).weights
    columns = np.array(["columns" in name for name in candidates])
    assert on_circle[columns].sum() < 0.2
    assert on_codes[columns].sum() > 0.8

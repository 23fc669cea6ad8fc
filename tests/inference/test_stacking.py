"""Weights of a stack: against a general optimiser, and with a useless model."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from outtrees.inference.stacking import stacking_weights


def objective(w, log_densities):
    return logsumexp(log_densities, axis=0, b=w[:, None]).sum()


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_the_maximum(seed):
    log_densities = np.random.default_rng(seed).normal(size=(4, 60))
    w = stacking_weights(log_densities)
    assert w.sum() == pytest.approx(1.0)
    found = minimize(lambda z: -objective(softmax(z), log_densities), np.zeros(4), tol=1e-12)
    assert objective(w, log_densities) == pytest.approx(-found.fun, abs=1e-6)


def test_a_useless_model_gets_no_weight():
    rng = np.random.default_rng(0)
    log_densities = np.stack([rng.normal(size=50), rng.normal(size=50) - 30.0])
    np.testing.assert_allclose(stacking_weights(log_densities), [1.0, 0.0], atol=1e-9)
    impossible = np.stack([rng.normal(size=50), np.full(50, -np.inf)])
    np.testing.assert_allclose(stacking_weights(impossible), [1.0, 0.0], atol=1e-9)

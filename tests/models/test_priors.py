"""Priors of single parameters: normalised, with their slopes, and draws that follow them."""

import numpy as np
import pytest

from outtrees.models.priors import LogInverseGamma, LogitBeta, Normal, log_dirichlet

PRIORS = [
    Normal(-1.0, 2.0),
    LogitBeta(0.5, 0.5),
    LogitBeta(0.2, 99.8),
    LogitBeta(6.0, 2.0),
    LogInverseGamma(1.0, 0.3),
    LogInverseGamma(6.0, 6.0),
]


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_a_prior_is_normalised_has_its_slopes_and_its_draws(prior):
    x = np.linspace(-200, 60, 100_001)
    with np.errstate(over="ignore"):
        density = np.exp([prior.log_density(at) for at in x])
    step = x[1] - x[0]
    assert density.sum() * step == pytest.approx(1.0, abs=1e-6)
    for at in (-2.0, 0.3, 1.5):
        change = (prior.log_density(at + 1e-5) - prior.log_density(at - 1e-5)) / 2e-5
        assert prior.slope(at) == pytest.approx(change, rel=1e-5, abs=1e-7)
    for z in (-6.0, -1.0, 0.0, 0.4, 3.0, 6.0):
        assert prior.to_normal(prior.from_normal(z)) == pytest.approx(z, abs=1e-6)
    below = np.cumsum(density) * step
    for z, share in ((-1.0, 0.158655), (0.5, 0.691462)):
        at = prior.from_normal(z)
        assert np.interp(at, x, below) == pytest.approx(share, abs=3e-3)  # of the grid
    rng = np.random.default_rng(0)
    draws = np.array([prior.draw(rng) for _ in range(2000)])
    mean = density @ x * step
    error = np.sqrt(density @ (x - mean) ** 2 * step / len(draws))
    assert abs(draws.mean() - mean) < 4 * error


def test_weights_of_links_are_normalised_in_their_coordinates():
    x = np.linspace(-40, 40, 4001)
    alpha = np.array([1.0, 0.5])
    log_weights = np.array([-np.logaddexp(0, x), x - np.logaddexp(0, x)])
    density = np.exp([log_dirichlet(column, alpha) for column in log_weights.T])
    assert density.sum() * (x[1] - x[0]) == pytest.approx(1.0, abs=1e-6)

"""The posterior of parameters against quadrature, and against what it may not be asked for."""

import numpy as np
import pytest
from scipy.special import logsumexp

from outtrees import OutTreeDensity
from outtrees.density.posterior import parameter_posterior
from outtrees.inference.likelihood import log_likelihood
from outtrees.models import GaussianMutation

WALK = np.random.default_rng(3).normal(size=(12, 1)).cumsum(axis=0)


def on_grid(mutation, X, *axes):
    """Return the points of a grid of `params`, their probabilities, and the log evidence."""
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    there = [mutation.with_params(point) for point in points]
    logs = np.array([log_likelihood(one, X) + one.log_prior() for one in there])
    cell = sum(np.log(axis[1] - axis[0]) for axis in axes)
    return points, np.exp(logs - logsumexp(logs)), logsumexp(logs) + cell


@pytest.mark.parametrize("seed", range(2))
def test_one_parameter_is_integrated_as_by_quadrature(seed):
    model = OutTreeDensity(GaussianMutation("spherical", "identity")).fit(WALK)
    found = model.posterior(256, random_state=seed)
    axis = model.mutation_.params[0] + np.linspace(-3, 4, 400)
    points, chances, evidence = on_grid(model.mutation_, WALK, axis)
    assert found.trusted
    assert found.log_evidence == pytest.approx(evidence, abs=4 * found.standard_error + 1e-3)
    cov = [model.mutation_.with_params(p).mutation_cov[0, 0] for p in points]
    at = np.interp([0.05, 0.5, 0.95], np.cumsum(chances), cov)
    low, middle, high = found.intervals(0.9)["mutation_cov"][:, 0, 0]
    np.testing.assert_allclose([low, middle, high], at, rtol=0.08)


def test_two_modes_are_weighed_by_their_evidence():
    """A linear map without offset: parents and children may be exchanged."""
    mutation = GaussianMutation(fit_offset=False)
    model = OutTreeDensity(mutation).fit(WALK - WALK.mean())
    found = parameter_posterior(model.mutation_, model.X_, 512)
    scale = model.mutation_.params[1]
    axes = np.linspace(-3, 4, 80), scale + np.linspace(-2, 3, 30)
    points, chances, evidence = on_grid(model.mutation_, model.X_, *axes)
    assert found.log_evidence == pytest.approx(evidence, abs=4 * found.standard_error + 1e-2)
    above = found.weights @ (found.params[:, 0] > 1.0)
    assert above == pytest.approx(chances @ (points[:, 0] > 1.0), abs=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mutation": "iid", "candidates": "knn", "n_candidates": 3}, "sum over all trees"),
        ({"mutation": "clouds"}, "1 to 40 parameters; got one with 0"),
    ],
)
def test_what_has_no_posterior_says_so(options, message):
    model = OutTreeDensity(random_state=0, **options).fit(WALK)
    with pytest.raises(ValueError, match=message):
        model.posterior()

"""The mixture of families by densities of records held out."""

import numpy as np
from scipy.special import logsumexp

from outtrees.bayes.stacking import default_families, stack_posteriors
from outtrees.inference.selection import stacking_weights
from outtrees.inference.variational import lower_bound
from outtrees.models.conjugate import GaussianPosterior

REALS = np.cumsum(np.random.default_rng(0).normal(size=(25, 2)), axis=0)
FAMILIES = {
    "cloud": GaussianPosterior(transition="zero"),
    "parzen": GaussianPosterior(transition="identity"),
}


def test_a_stack_is_a_posterior_with_the_weights_of_its_densities():
    stack = stack_posteriors(FAMILIES, REALS, random_state=0)
    np.testing.assert_allclose(stack.weights, stacking_weights(stack.log_densities))
    new = REALS[:3] + 0.1
    parts = [fit.posterior.log_predictive(new, REALS) for fit in stack.fits.values()]
    kept = stack.weights >= 1e-3
    right = logsumexp(np.array(parts), axis=0, b=stack.posterior.weights[:, None, None])
    np.testing.assert_allclose(stack.posterior.log_predictive(new, REALS), right, rtol=1e-10)
    # The Dirichlet's prior moves the weights by less than one record's worth.
    np.testing.assert_allclose(stack.posterior.weights, stack.weights[kept], atol=1.5 / len(REALS))
    assert np.isfinite(lower_bound(stack.posterior, REALS))


def test_few_records_get_the_first_family():
    stack = stack_posteriors(FAMILIES, REALS[:6], random_state=0)
    assert stack.weights.tolist() == [1.0, 0.0]
    assert list(stack.fits) == ["cloud"]


def test_clouds_far_apart_get_the_weight():
    rng = np.random.default_rng(0)
    apart = rng.normal(size=(60, 2)) * 0.3 + 4 * rng.integers(2, size=(60, 2))
    families = {"clouds": default_families()["clouds"], "cloud": FAMILIES["cloud"]}
    weights = stack_posteriors(families, apart, random_state=0).weights
    assert weights[0] > 0.9

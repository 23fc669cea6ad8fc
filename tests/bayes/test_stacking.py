"""Densities of records left out without a second fit, and the mixture of families by them."""

import numpy as np
import pytest
from scipy.special import logsumexp

from outtrees.bayes.stacking import leave_one_out, stack_posteriors
from outtrees.inference.selection import stacking_weights
from outtrees.inference.variational import fit_posterior, lower_bound, variational_trees
from outtrees.models.conjugate import GaussianPosterior, KernelPosterior, MixturePosterior

REALS = np.cumsum(np.random.default_rng(0).normal(size=(25, 2)), axis=0)
FAMILIES = {
    "parzen": GaussianPosterior(transition="identity"),
    "iid": GaussianPosterior(transition="zero"),
    "kernel": KernelPosterior(n_landmarks=10),
    "mixture": MixturePosterior(n_iid=3, n_local=2),
}


@pytest.mark.parametrize("transition", ["zero", "identity"])
def test_leaving_out_is_close_to_fitting_again(transition):
    X = REALS
    prior = GaussianPosterior(transition=transition).start(X).prior_
    family = GaussianPosterior(
        transition=transition,
        mean_prior=prior.centre,
        covariance_prior=prior.noise.scatter,
        root_covariance_prior=prior.root_noise.scatter,
    )
    q = fit_posterior(family, X, tol=1e-8).posterior
    quick, slow = leave_one_out(q, X), []
    for u in range(len(X)):
        rest = np.delete(X, u, axis=0)
        refit = fit_posterior(family, rest, tol=1e-8).posterior
        slow.append(logsumexp(refit.log_predictive(X[[u]], rest)) - np.log(len(rest)))
    log_pairs = q.log_predictive(X, X)
    np.fill_diagonal(log_pairs, -np.inf)
    optimistic = logsumexp(log_pairs, axis=1) - np.log(len(X) - 1)
    # Nearer than with the record left in. What is missed without trees in the way is the root: it
    # is likely the farthest record, and leaving that out makes the next one the root.
    share = {"zero": 0.5, "identity": 1.0}[transition]
    assert abs(quick.sum() - np.sum(slow)) < share * abs(optimistic.sum() - np.sum(slow))


@pytest.mark.parametrize("name", ["kernel", "mixture", "iid"])
def test_leaving_out_takes_edges_away_and_gives_children_other_parents(name):
    """Edge by edge: what `leave_one_out` adds up in one weighted sum."""
    family, X = FAMILIES[name], REALS
    q = fit_posterior(family, X, random_state=0).posterior
    quick, W, T = leave_one_out(q, X), variational_trees(q, X).edge_marginals, len(X)
    for u in (0, 7):
        without = W.copy()
        without[u] = 0.0
        for child in np.flatnonzero(W[:, u] > 1e-3):
            lost, others = W[child, u], np.delete(W[child], u)
            assert others.sum() > 1e-3  # else parents would go by their weights
            without[child] += lost * W[child] / others.sum()
            without[child, u] = 0.0
        refit = q.update(X, without)  # hidden shares stay those of q
        rest = np.delete(X, u, axis=0)
        slow = logsumexp(refit.log_predictive(X[[u]], rest)) - np.log(T - 1)
        assert quick[u] == pytest.approx(slow, abs=1e-9)


def test_leaving_out_a_record_without_children():
    X = np.concatenate([REALS, [[300.0, -300.0]]])  # nobody's likely parent
    family = GaussianPosterior(
        transition="identity",
        mean_prior=REALS.mean(axis=0),
        degrees_of_freedom_prior=1e4,
        covariance_prior=1e4 * np.eye(2),
        root_degrees_of_freedom_prior=50.0,
        root_covariance_prior=50.0 * np.eye(2),
    )
    q = fit_posterior(family, X).posterior
    assert variational_trees(q, X).edge_marginals[:, -1].max() < 1e-3
    assert np.isfinite(leave_one_out(q, X)).all()


def test_a_stack_is_a_posterior_with_the_weights_of_its_densities():
    families = {"cloud": GaussianPosterior(transition="zero"), "parzen": FAMILIES["parzen"]}
    stack = stack_posteriors(families, REALS, random_state=0)
    np.testing.assert_allclose(stack.weights, stacking_weights(stack.log_densities))
    new = REALS[:3] + 0.1
    parts = [fit.posterior.log_predictive(new, REALS) for fit in stack.fits]
    kept = stack.weights >= 1e-3
    right = logsumexp(np.array(parts)[kept], axis=0, b=stack.posterior.weights[:, None, None])
    np.testing.assert_allclose(stack.posterior.log_predictive(new, REALS), right, rtol=1e-10)
    # The Dirichlet's prior moves the weights by less than one record's worth.
    np.testing.assert_allclose(stack.posterior.weights, stack.weights[kept], atol=1.5 / len(REALS))
    assert np.isfinite(lower_bound(stack.posterior, REALS))

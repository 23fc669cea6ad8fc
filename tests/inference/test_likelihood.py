"""Likelihood, gradient and predictive densities, against slow twins and quadrature."""

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from oracles.enumeration import all_trees
from outtrees._common import edges
from outtrees.datasets import make_spiral
from outtrees.inference import fit_em
from outtrees.inference.likelihood import (
    leaf_log_density,
    log_likelihood,
    log_posterior_and_gradient,
    log_predictive_ratio,
    log_predictive_ratio_each,
    normalised_log_predictive,
    tree_distribution,
)
from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    PoissonMutation,
    ProductMutation,
)

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(9, 2))
COUNTS = RNG.poisson(3.0, size=(9, 2)).astype(float)
BITS = RNG.integers(2, size=(9, 3)).astype(float)

FAMILIES = [
    (GaussianMutation(), REAL),
    (GaussianMutation("diag", "scalar"), REAL),
    (GaussianMutation("spherical", "identity"), REAL),
    (GaussianMutation(transition="zero"), REAL),
    (KernelMutation(n_landmarks=4), REAL),
    (MixtureMutation(n_iid=2, n_local=1), REAL),
    (PoissonMutation(), COUNTS),
    (BernoulliMutation(), BITS),
    (CategoricalMutation(), BITS),
    (CategoricalMutation("full"), BITS),
    (ProductMutation([(GaussianMutation(), [1]), (PoissonMutation(), [0])]), COUNTS),
]
EACH_FAMILY = pytest.mark.parametrize(
    ("template", "X"),
    FAMILIES,
    ids=[f"{i}-{type(m).__name__}" for i, (m, _) in enumerate(FAMILIES)],
)


def moved(mutation, X):
    """Parameters that are nobody's maximum."""
    started = mutation.start(X, random_state=0)
    step = np.random.default_rng(4).normal(size=started.n_parameters)
    return started.with_params(started.params + 0.2 * step)


@EACH_FAMILY
def test_gradient_equals_finite_differences(template, X):
    mutation = moved(template, X)
    value, gradient = log_posterior_and_gradient(mutation, X)
    assert value == pytest.approx(log_likelihood(mutation, X) + mutation.log_prior(), rel=1e-13)
    assert np.abs(gradient).max() > 1e-2
    for i, slope in enumerate(gradient):
        step = np.zeros_like(gradient)
        step[i] = 1e-5
        high, low = (
            log_posterior_and_gradient(mutation.with_params(mutation.params + s), X)[0]
            for s in (step, -step)
        )
        assert (high - low) / 2e-5 == pytest.approx(slope, rel=1e-5, abs=1e-6)


@EACH_FAMILY
def test_likelihood_is_the_average_over_all_trees(template, X):
    mutation, few = moved(template, X), X[:4]
    log_beta, log_root = mutation.log_conditional(few, few), mutation.log_root(few)
    weights = [
        sum(log_root[u] if v < 0 else log_beta[u, v] for u, v in enumerate(parents))
        for parents in all_trees(4)
    ]
    assert len(weights) == 64
    expected = logsumexp(weights) - np.log(64)
    assert log_likelihood(mutation, few) == pytest.approx(expected, rel=1e-12)


@EACH_FAMILY
def test_one_record_ratios_equal_the_slow_twin(template, X):
    mutation = moved(template, X)
    together = log_predictive_ratio_each(mutation, X[:6], X[6:])
    slow = [log_predictive_ratio(mutation, X[:6], X[i : i + 1]) for i in range(6, 9)]
    np.testing.assert_allclose(together, slow, rtol=1e-11, atol=1e-11)


def test_joint_ratio_is_the_quotient_of_likelihoods_by_the_papers_formula():
    mutation, (X, new) = moved(GaussianMutation(), REAL), (REAL[:6], REAL[6:])
    T, U = len(X), len(new)
    log_z, log_z_all = (tree_distribution(mutation, data).log_z for data in (X, REAL))
    expected = log_z_all - log_z + (T - 1) * np.log(T) - (T + U - 1) * np.log(T + U)
    assert log_predictive_ratio(mutation, X, new) == pytest.approx(expected, rel=1e-12)


# Normalisation ---------------------------------------------------------------------------------

LINE = np.linspace(-14, 14, 1401)[:, None]
OLD = np.array([[-1.0], [-0.6], [0.2], [0.7], [1.9]])
WALK = GaussianMutation(
    transition="identity", mutation_cov=[[0.5]], root_mean=[0.0], root_cov=[[2.0]]
)


def integral(log_values):
    return np.trapezoid(np.exp(log_values), LINE[:, 0])


def test_the_papers_ratio_is_not_a_density():
    total = integral(log_predictive_ratio_each(WALK, OLD, LINE))
    assert total > 1.05
    iid = GaussianMutation(transition="zero").start(OLD)
    assert integral(log_predictive_ratio_each(iid, OLD, LINE)) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    "mutation",
    [
        WALK,
        GaussianMutation().start(OLD),
        MixtureMutation(n_iid=1).start(OLD, random_state=0),
        KernelMutation().start(OLD),
    ],
    ids=lambda m: type(m).__name__,
)
def test_leaf_density_integrates_to_one(mutation):
    assert integral(leaf_log_density(mutation, OLD, LINE)) == pytest.approx(1.0, abs=1e-6)


def test_normalised_ratio_integrates_to_one_within_its_error():
    total = integral(log_predictive_ratio_each(WALK, OLD, LINE))
    result = normalised_log_predictive(WALK, OLD, LINE[::20], n_draws=800, random_state=0)
    assert 0 < result.standard_error < 0.05
    assert abs(result.log_integral - np.log(total)) < 3 * result.standard_error
    assert 100 < result.effective_draws <= 800
    own = np.trapezoid(np.exp(result.log_density), LINE[::20, 0])
    assert abs(np.log(own)) < 3 * result.standard_error
    again = normalised_log_predictive(WALK, OLD, LINE[:1], n_draws=800, random_state=0)
    assert again.log_integral == result.log_integral


@pytest.mark.slow
def test_standard_error_is_the_spread_of_repeated_estimates():
    results = [
        normalised_log_predictive(WALK, OLD, OLD[:1], n_draws=60, random_state=seed)
        for seed in range(60)
    ]
    spread = np.std([r.log_integral for r in results], ddof=1)
    typical = np.mean([r.standard_error for r in results])
    assert 0.7 < spread / typical < 1.4


def test_normalised_ratio_refuses_a_single_draw():
    with pytest.raises(ValueError, match=r"n_draws of .* must be an integer of at least 2; got 1"):
        normalised_log_predictive(WALK, OLD, OLD, n_draws=1)


# Special cases and batches ---------------------------------------------------------------------


def test_identity_transition_is_a_parzen_estimate():
    X, new = make_spiral(80), make_spiral(40, noise=0.3, random_state=1)
    bandwidth = 0.17
    window = GaussianMutation(
        "spherical", "identity", mutation_cov=bandwidth**2 * np.eye(3), root_mean=None
    )
    expected = KernelDensity(bandwidth=bandwidth).fit(X).score_samples(new)
    np.testing.assert_allclose(leaf_log_density(window, X, new), expected, rtol=1e-10)


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_parent_free_mixture_is_a_gaussian_mixture(covariance):
    X = np.random.default_rng(5).normal(size=(60, 2)) + np.repeat([[0], [4], [9]], 20, axis=0)
    template = MixtureMutation(n_iid=3, n_local=0, covariance=covariance)
    fitted = fit_em(template.start(X, random_state=0), X).mutation
    means, covs = zip(*[(p.offset, p.mutation_cov) for p in fitted.parts], strict=True)
    theirs = GaussianMixture(3, covariance_type="full")
    theirs.weights_, theirs.means_, theirs.covariances_ = fitted.weights, np.array(means), covs
    theirs.precisions_cholesky_ = np.array([np.linalg.cholesky(np.linalg.inv(c)) for c in covs])
    np.testing.assert_allclose(
        leaf_log_density(fitted, X[:5], X), theirs.score_samples(X), rtol=1e-9
    )


@EACH_FAMILY
def test_leaf_density_equals_the_slow_twin_in_any_batch(template, X, monkeypatch):
    mutation = moved(template, X)
    together = leaf_log_density(mutation, X, X)
    slow = [
        np.log(np.mean([np.exp(mutation.log_conditional(x[None], v[None])[0, 0]) for v in X]))
        for x in X
    ]
    np.testing.assert_allclose(together, slow, rtol=1e-10)
    alone = [leaf_log_density(mutation, X, x[None])[0] for x in X]
    np.testing.assert_allclose(alone, together, rtol=1e-13)
    monkeypatch.setattr(edges, "_CELLS_AT_ONCE", 20)  # two rows at a time
    np.testing.assert_allclose(leaf_log_density(mutation, X, X), together, rtol=1e-13)
    ratios = log_predictive_ratio_each(mutation, X[:4], X[4:])
    monkeypatch.undo()
    np.testing.assert_allclose(
        log_predictive_ratio_each(mutation, X[:4], X[4:]), ratios, rtol=1e-12
    )

"""Variational Bayes: a bound that is one, never falls, and meets its twins."""

import numpy as np
import pytest
from scipy.special import logsumexp

from oracles.enumeration import all_trees
from outtrees.bayes.importance import importance_sample
from outtrees.datasets import make_out_tree
from outtrees.inference import fit_mutation
from outtrees.inference.variational import (
    fit_posterior,
    fit_variational,
    lower_bound,
    starts,
    variational_trees,
)
from outtrees.models import GaussianMutation
from outtrees.models.conjugate import (
    CategoricalPosterior,
    GaussianPosterior,
    KernelPosterior,
    MixturePosterior,
    PoissonPosterior,
    ProductPosterior,
)

RNG = np.random.default_rng(0)
REALS = np.cumsum(RNG.normal(size=(25, 2)), axis=0)
COUNTS = RNG.poisson(4.0, size=(25, 2)).astype(float)
CODES = RNG.integers(3, size=(25, 3)).astype(float)
FAMILIES = {
    "gaussian": (GaussianPosterior(), REALS),
    "gaussian-diag": (GaussianPosterior("diag"), REALS),
    "parzen": (GaussianPosterior(transition="identity"), REALS),
    "parzen-spherical": (GaussianPosterior("spherical", "identity"), REALS),
    "iid": (GaussianPosterior(transition="zero"), REALS),
    "kernel": (KernelPosterior(n_landmarks=10), REALS),
    "kernel-spherical": (KernelPosterior(covariance="spherical"), REALS),
    "mixture": (MixturePosterior(n_iid=3, n_local=2), REALS),
    "columns": (ProductPosterior(MixturePosterior()), REALS),
    "sticky": (CategoricalPosterior(), CODES),
    "categorical": (CategoricalPosterior("full"), CODES),
    "holes": (CategoricalPosterior("full"), np.where(RNG.random((25, 3)) < 0.2, np.nan, CODES)),
    "poisson": (PoissonPosterior(), COUNTS),
}


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_bound_never_falls(name, accelerate):
    family, X = FAMILIES[name]
    fit = fit_variational(family.start(X, 0), X, max_iter=25, tol=0.0, accelerate=accelerate)
    assert (np.diff(fit.lower_bounds) >= 0).all()
    assert fit.n_iter + 1 == len(fit.lower_bounds)
    assert fit.lower_bound == pytest.approx(lower_bound(fit.posterior, X), abs=1e-8)
    assert fit.lower_bounds[-1] > fit.lower_bounds[0]


@pytest.mark.parametrize("name", FAMILIES)
def test_each_half_of_a_step_raises_the_papers_bound(name):
    """The bound as the paper writes it, with any W and any q, against the collapsed one."""
    family, X = FAMILIES[name]
    q = family.start(X, 0)
    for _ in range(3):
        trees = variational_trees(q, X)
        W, r = trees.edge_marginals, trees.root_marginals

        def written(q, W=W, r=r, trees=trees):
            expected = np.where(W > 0, q.expected_log_conditional(X, X), 0.0)
            value = (W * expected).sum() + r @ q.log_root(X) + trees.entropy
            return value - (len(X) - 1) * np.log(len(X)) - q.kl()

        assert written(q) == pytest.approx(lower_bound(q, X, trees), abs=1e-7)
        step = q.update(X, W)
        assert written(step) >= written(q) - 1e-9
        assert lower_bound(step, X) >= written(step) - 1e-9
        q = step


def sequential_evidence(family, X, parents):
    """log ∫ p(θ) p(X | tree, θ) dθ by the chain rule of predictive densities."""
    seen, total = np.zeros((len(X), len(X))), 0.0
    for u, v in enumerate(parents):
        if v < 0:
            total += family.log_root(X[[u]])[0]
            continue
        total += family.update(X, seen).log_predictive(X[[u]], X[[v]])[0, 0]
        seen[u, v] = 1.0
    return total


@pytest.mark.parametrize(
    ("family", "X"),
    [
        pytest.param(GaussianPosterior(), REALS[:4], marks=pytest.mark.slow),
        (GaussianPosterior(transition="identity"), REALS[:5]),
        pytest.param(GaussianPosterior("diag"), REALS[:4], marks=pytest.mark.slow),
        (KernelPosterior(n_landmarks=2), REALS[:4]),
        (CategoricalPosterior("full"), CODES[:4]),
    ],
    ids=["gaussian", "parzen", "diag", "kernel", "categorical"],
)
def test_the_bound_lies_below_the_evidence(family, X):
    """The evidence of T ≤ 5 records, exactly: every tree's, parameters integrated out."""
    # Of the landmarks that may be drawn from four records, some leave a tail that 800 draws miss
    # (5.7 standard errors, Pareto k 0.41): they are the same in every run.
    fit = fit_posterior(family, X, random_state=2)
    trees = all_trees(len(X))  # with the landmarks of the fit
    evidence = logsumexp([sequential_evidence(fit.posterior, X, parents) for parents in trees])
    evidence -= np.log(len(trees))
    gap = evidence - fit.lower_bound
    assert 0 < gap < 4.0  # measured: 0.9 (parzen) to 2.9 (gaussian: 8 parameters, 4 records)
    sample = importance_sample(fit.posterior, X, 800, random_state=0)
    assert sample.log_evidence > fit.lower_bound  # it knows more than the bound, at least
    if sample.pareto_k < 0.7:
        assert abs(sample.log_evidence - evidence) < 5 * sample.standard_error
    # Wider proposals beside q often suffice for the others too.
    assert sample.pareto_k < 0.7 or family.__dict__.get("transition") != "identity"


def test_the_bound_of_a_mixture_lies_below_its_evidence():
    X = REALS[:5]
    fit = fit_posterior(MixturePosterior(), X, random_state=0)
    sample = importance_sample(fit.posterior, X, 250, random_state=0)
    assert fit.lower_bound < sample.log_evidence + 3 * sample.standard_error


def test_independent_records_leave_only_the_root_in_doubt():
    """transition="zero" makes trees irrelevant but for which record is the root."""
    fit = fit_posterior(GaussianPosterior(transition="zero"), REALS)
    sample = importance_sample(fit.posterior, REALS, 100, random_state=0)
    assert sample.effective_draws > 60  # some of the draws are from wider proposals than q
    assert 0 < sample.log_evidence - fit.lower_bound < 1.0


@pytest.mark.slow
def test_with_many_records_q_closes_in_on_maximum_likelihood():
    truth = GaussianMutation(
        covariance="diag",
        transition_matrix=[[0.8, 0.0], [0.2, 0.5]],
        offset=[0.5, -0.5],
        mutation_cov=np.diag([0.02, 0.05]),
        root_mean=np.zeros(2),
        root_cov=np.eye(2),
    )
    apart, width = [], []
    for T in (40, 400):
        X, _ = make_out_tree(T, truth, 0)
        correlation = {"start_correlation": 0.7}
        likely = fit_mutation(GaussianMutation("diag", prior_strength=0.0, **correlation), X)
        fit = fit_posterior(GaussianPosterior("diag", **correlation), X, tol=1e-6)
        mean = fit.posterior.mean()
        apart.append(np.abs(mean.transition_matrix - likely.mutation.transition_matrix).max())
        draws = [fit.posterior.draw(i).transition_matrix for i in range(50)]
        width.append(np.std(draws, axis=0).max())
    assert apart[1] < 0.02
    assert apart[1] < apart[0]
    assert width[1] < 0.6 * width[0]


def test_superfluous_components_empty_out():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    X = centres[rng.integers(3, size=120)] + rng.normal(size=(120, 2))
    fit = fit_posterior(MixturePosterior(n_iid=8, n_local=0), X, random_state=0, max_iter=500)
    assert (fit.posterior.counts > 1.0).sum() == 3


def test_a_wrong_update_is_noticed():
    class Wrong(GaussianPosterior):
        def _kl(self):
            return 5 * super()._kl()

    with pytest.raises(ArithmeticError, match=r"Wrong\.update lowered the lower bound"):
        fit_variational(Wrong().start(REALS), REALS, accelerate=False)


def test_evaluations_of_all_starts_are_counted():
    X = np.random.default_rng(0).normal(size=(20, 2))
    posterior = GaussianPosterior()
    each = [fit_variational(start, X) for start in starts(posterior, X, 1, 0)]
    turned = max(each, key=lambda fit: fit.lower_bound).posterior.turned()
    total = sum(fit.n_evaluations for fit in each) + fit_variational(turned, X).n_evaluations
    assert len(each) == 2
    assert fit_posterior(posterior, X, random_state=0).n_evaluations == total

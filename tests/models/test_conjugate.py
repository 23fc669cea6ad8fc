"""Conjugate posteriors against slow twins: the chain rule, quadrature, scipy's densities."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp

from outtrees.models import BernoulliMutation, ColumnMutation
from outtrees.models.columns import Counts
from outtrees.models.conjugate import (
    CategoricalPosterior,
    GaussianPosterior,
    KernelPosterior,
    MixturePosterior,
    PointPosterior,
    PoissonPosterior,
    ProductPosterior,
    make_posterior,
)
from outtrees.models.covariance import InverseWishart

from .angle import Angle

RNG = np.random.default_rng(0)
REALS = RNG.normal(size=(12, 2)) @ np.array([[1.0, 0.5], [0.0, 2.0]]) + [3.0, -1.0]
COUNTS = RNG.poisson(4.0, size=(12, 2)).astype(float)
CODES = RNG.integers(3, size=(12, 2)).astype(float)
HOLED = np.where(RNG.random(CODES.shape) < 0.2, np.nan, CODES)

# Families without anything hidden in an edge: there the bound is the evidence of a known tree.
PLAIN = {
    **{
        f"gaussian-{t}-{c}{'' if o is None else '-offset'}": (
            GaussianPosterior(c, t, o, transition_prior=0.5, transition_precision_prior=0.7),
            REALS,
        )
        for t in ("full", "identity", "zero")
        for o in (None, t == "identity")
        for c in ("full", "diag", "spherical")
    },
    "kernel-diag": (KernelPosterior(n_landmarks=5, ridge=0.3), REALS),
    "kernel-spherical": (KernelPosterior(n_landmarks=5, covariance="spherical"), REALS),
    "kernel-polynomial": (KernelPosterior("polynomial", degree=2), REALS),
    "categorical-full": (CategoricalPosterior("full"), CODES),
    "points-bernoulli": (PointPosterior(BernoulliMutation(), 50), 1.0 * (CODES > 0)),
    "points-counts": (PointPosterior(ColumnMutation(Counts()), 50), COUNTS[:, :1]),
    "points-angle": (PointPosterior(ColumnMutation(Angle()), 50), np.mod(REALS[:, :1], 6.28)),
    "product": (
        ProductPosterior(
            [
                (GaussianPosterior(), [0, 2]),
                (CategoricalPosterior("full"), [1]),
            ]
        ),
        np.column_stack([REALS[:, 0], CODES[:, 0], REALS[:, 1]]),
    ),
}
HIDDEN = {
    "categorical-sticky": (CategoricalPosterior("sticky"), CODES),
    "categorical-holes": (CategoricalPosterior("full"), HOLED),
    "sticky-holes": (CategoricalPosterior("sticky"), HOLED),
    "poisson": (PoissonPosterior(), COUNTS),
    "mixture": (MixturePosterior(n_iid=2, n_local=2), REALS),
    "mixture-free": (MixturePosterior(n_iid=2, n_local=0), REALS),
    "columns": (ProductPosterior(MixturePosterior(n_iid=1, n_local=1)), REALS),
}
ALL = PLAIN | HIDDEN


def family(name):
    template, X = ALL[name]
    return template.start(X, random_state=0), X


def some_edges(X, rng):
    """Every record but the first has one parent among the earlier ones."""
    W = np.zeros((len(X), len(X)))
    for u in range(1, len(X)):
        W[u, rng.integers(u)] = 1.0
    return W


@pytest.mark.parametrize("name", PLAIN)
def test_the_bound_of_a_known_tree_is_its_evidence(name):
    """Σ W E log p − KL = log p(children | parents) = Σ log predictive, one child at a time.

    The right side knows predictive densities and updates alone, the left one expected logs and
    divergences: together they leave no constant free.
    """
    posterior, X = family(name)
    W = some_edges(X, np.random.default_rng(1))
    q = posterior.update(X, W)
    bound = (W * q.expected_log_conditional(X, X)).sum() - q.kl()
    evidence, seen = 0.0, np.zeros_like(W)
    for u in range(1, len(X)):
        v = int(W[u].argmax())
        evidence += posterior.update(X, seen).log_predictive(X[[u]], X[[v]])[0, 0]
        seen[u, v] = 1.0
    assert bound == pytest.approx(evidence, abs=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_updates_add_to_the_prior(name):
    posterior, X = family(name)
    W = np.random.default_rng(1).random((len(X), len(X))) / len(X)
    np.fill_diagonal(W, 0.0)
    assert posterior.prior().kl() == pytest.approx(0.0, abs=1e-9)
    nothing = posterior.update(X, np.zeros_like(W))
    np.testing.assert_allclose(nothing.statistics, 0.0, atol=1e-12)
    q = posterior.update(X, W)
    assert q.kl() > 0
    again = q.with_statistics(q.statistics)
    np.testing.assert_array_equal(
        again.expected_log_conditional(X, X), q.expected_log_conditional(X, X)
    )
    # The order of the records says nothing.
    order = np.random.default_rng(2).permutation(len(X))
    shuffled = posterior.update(X[order], W[np.ix_(order, order)])
    np.testing.assert_allclose(shuffled.statistics, q.statistics, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_an_update_raises_the_bound_of_given_edges(name):
    """Σ W log β̃ − KL never falls, whatever is hidden in the edges."""
    posterior, X = family(name)
    W = np.random.default_rng(1).random((len(X), len(X))) / len(X)
    np.fill_diagonal(W, 0.0)
    values = []
    for _ in range(6):
        values.append((W * posterior.expected_log_conditional(X, X)).sum() - posterior.kl())
        posterior = posterior.update(X, W)
    assert (np.diff(values) >= -1e-9).all()


@pytest.mark.parametrize("name", ALL)
def test_expectations_are_those_of_draws(name):
    """E log p, the predictive density and KL, each within six standard errors of 150 draws."""
    posterior, X = family(name)
    W = some_edges(X, np.random.default_rng(1))
    q = posterior.update(X, W)
    rng = np.random.default_rng(3)
    draws = [q.draw(rng) for _ in range(150)]
    logs = np.array([theta.log_conditional(X[:3], X[5:7]) for theta in draws])
    mean, error = logs.mean(axis=0), logs.std(axis=0) / np.sqrt(len(draws))
    expected = q.expected_log_conditional(X[:3], X[5:7])
    if name in HIDDEN:  # summed-out hidden parts make it a bound from below
        assert (expected <= mean + 6 * error).all()
    else:
        assert (np.abs(expected - mean) <= 6 * error + 1e-9).all()
    densities = np.exp(logs)
    error = densities.std(axis=0) / np.sqrt(len(draws))
    predictive = np.exp(q.log_predictive(X[:3], X[5:7]))
    assert (np.abs(densities.mean(axis=0) - predictive) <= 6 * error + 1e-12).all()
    ratios = -np.array([q.log_prior_ratio(theta) for theta in draws])
    assert abs(ratios.mean() - q.kl()) <= 6 * ratios.std() / np.sqrt(len(draws)) + 1e-9


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_student_densities_are_scipys(kind):
    scatter = {"full": [[3.0, 1.0], [1.0, 2.0]], "diag": np.diag([3.0, 2.0])}.get(
        kind, 3 * np.eye(2)
    )
    q = InverseWishart(kind, 4.5, np.array(scatter))
    points, mean, spread = REALS, np.array([1.0, -1.0]), 1.7
    got = q.log_student(points, mean[None], np.array([spread]))[:, 0]
    if kind == "diag":
        scale = np.sqrt(np.diag(q.scatter) * spread / q.dof)
        right = stats.t(q.dof, mean, scale).logpdf(points).sum(axis=1)
    else:
        df = q.dof - 1 if kind == "full" else 2 * q.dof
        trace = q.scatter if kind == "full" else 2 * q.scatter
        right = stats.multivariate_t(mean, trace * spread / df, df).logpdf(points)
    np.testing.assert_allclose(got, right, rtol=1e-11)


def test_the_full_inverse_wishart_is_scipys():
    p, q = (
        InverseWishart("full", n, np.array(S))
        for n, S in [(5.0, [[3.0, 1.0], [1.0, 2.0]]), (7.5, [[1.0, 0.2], [0.2, 4.0]])]
    )
    cov = np.array([[2.0, 0.3], [0.3, 1.0]])
    right = stats.invwishart(p.dof, p.scatter).logpdf(cov)
    right -= stats.invwishart(q.dof, q.scatter).logpdf(cov)
    assert p.log_ratio(q, cov) == pytest.approx(right, rel=1e-12)


def test_the_prior_of_a_transition_is_scipys_matrix_normal():
    posterior = GaussianPosterior().start(REALS)
    q = posterior.update(REALS, some_edges(REALS, np.random.default_rng(1)))
    theta = q.draw(0)
    m, A, S = q.prior_.centre, theta.transition_matrix, theta.mutation_cov
    B = np.column_stack([A, theta.offset + A @ m - m])

    def log_density(mean, gram, noise):
        return stats.matrix_normal(mean, S, np.linalg.inv(gram)).logpdf(B) + stats.invwishart(
            noise.dof, noise.scatter
        ).logpdf(S)

    p = q.prior_
    right = log_density(p.coefficients, p.gram, p.noise)
    right -= log_density(q.coefficients, q.gram, q.noise)
    assert q.log_prior_ratio(theta) == pytest.approx(right, rel=1e-10)


@pytest.mark.parametrize("name", ["gaussian-full-full", "kernel-diag", "mixture", "columns"])
def test_predictive_densities_integrate_to_one(name):
    template = ALL[name][0]
    X = REALS[:, :1]
    q = template.start(X, random_state=0)
    area, _ = quad(lambda x: np.exp(q.log_predictive([[x]], X[:1])[0, 0]), -np.inf, np.inf)
    assert area == pytest.approx(1.0, abs=1e-6)
    root, _ = quad(lambda x: np.exp(q.log_root([[x]])[0]), -np.inf, np.inf)
    assert root == pytest.approx(1.0, abs=1e-6)


def test_predictive_probabilities_sum_to_one():
    q = PoissonPosterior().start(COUNTS[:, :1])
    support = np.arange(4000.0)[:, None]
    # Shape 1 + …: the tail beyond 4,000 is below 1e-12 for both.
    np.testing.assert_allclose(
        logsumexp(q.log_predictive(support, [[0.0], [3.0]]), 0), 0, atol=1e-9
    )
    assert logsumexp(q.log_root(support)) == pytest.approx(0.0, abs=1e-9)
    for kind in ("sticky", "full"):
        q = CategoricalPosterior(kind).start(HOLED[:, :1])
        values = q.coder.levels[0][:, None]
        sums = logsumexp(q.log_predictive(values, [[0.0], [1.0], [np.nan]]), axis=0)
        np.testing.assert_allclose(sums, 0.0, atol=1e-12)


def test_root_evidence_of_a_gaussian_is_an_integral_over_its_prior():
    posterior = GaussianPosterior().start(REALS[:, :1])
    p = posterior.prior_

    def inner(variance):
        marginal = stats.norm(p.centre[0], np.sqrt(variance * (1 + 1 / p.root_precision)))
        prior = stats.invgamma(p.root_noise.dof / 2, scale=p.root_noise.scatter[0, 0] / 2)
        return marginal.pdf(4.0) * prior.pdf(variance)

    right = np.log(quad(inner, 0, np.inf)[0])
    assert posterior.log_root([[4.0]])[0] == pytest.approx(right, abs=1e-7)


def test_the_root_of_a_draw_follows_its_record():
    """Given the record, mean and covariance are conjugate: compare with importance weights."""
    posterior = GaussianPosterior().start(REALS[:, :1])
    prior, record = posterior.prior_, REALS[:, :1].mean(axis=0) + 1.0
    rng = np.random.default_rng(0)
    given = np.array([prior.draw_root(rng, record) for _ in range(4000)], dtype=object)
    roots = [prior.draw_root(rng) for _ in range(4000)]
    means, variances = (np.array([np.ravel(root[i])[0] for root in roots]) for i in (0, 1))
    weights = stats.norm(means, np.sqrt(variances)).pdf(record[0])
    weights /= weights.sum()
    error = np.sqrt((weights**2).sum() * (weights @ (means - weights @ means) ** 2))
    drawn = np.array([root[0][0] for root in given])
    assert abs(drawn.mean() - weights @ means) <= 5 * error + 5 * drawn.std() / np.sqrt(len(drawn))
    # The record pulls the mean half of the way (κ_r = 1): the test could tell a draw without it.
    assert abs(weights @ means - prior.centre[0]) > 10 * error


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianPosterior("fll"), "covariance of .* must be one of"),
        (lambda: GaussianPosterior(transition="diag"), "transition of .* must be one of"),
        (lambda: GaussianPosterior(degrees_of_freedom_prior=0.5).start(REALS), "freedom > 1"),
        (lambda: GaussianPosterior(mean_prior=[0.0]).start(REALS), r"mean_prior of shape \(2,\)"),
        (lambda: GaussianPosterior(covariance_prior=-np.eye(2)).start(REALS), "positive definite"),
        (
            lambda: GaussianPosterior(prior_strength=0.0),
            "prior_strength of .* must be a number > 0",
        ),
        (lambda: KernelPosterior(ridge=0.0), "ridge of KernelPosterior must be a number > 0"),
        (lambda: KernelPosterior(prior_strength=0), "prior_strength of .* must be a number > 0"),
        (lambda: KernelPosterior(covariance="full"), "covariance of .* must be one of"),
        (lambda: KernelPosterior(mean_prior=[0.0]).start(REALS), "KernelPosterior expects mean_p"),
        (lambda: MixturePosterior(n_iid=0, n_local=0), "at least one component"),
        (lambda: MixturePosterior(components=["x"]), "expects posteriors in components"),
        (lambda: MixturePosterior(n_iid=13).start(REALS), "one record for each of its 13 clouds"),
        (lambda: MixturePosterior(n_local=2, local=PoissonPosterior()).start(COUNTS), "n_local=1"),
        (lambda: PoissonPosterior(root_prior=3).start(COUNTS), r"as a pair \(shape, rate\)"),
        (lambda: PoissonPosterior(root_prior=(1, 0)).start(COUNTS), "shape and rate > 0"),
        (lambda: PoissonPosterior().start(REALS), "expects counts 0, 1, 2"),
        (lambda: CategoricalPosterior(marginals=[[0.5, 0.5]]).start(CODES), "sum to one"),
        (lambda: ProductPosterior([(GaussianPosterior(), [0, 0])]), "in exactly one"),
        (lambda: ProductPosterior([(GaussianPosterior(), [0])]).start(REALS), "knows 1 columns"),
        (lambda: GaussianPosterior().kl(), "has no priors yet"),
        (lambda: GaussianPosterior().start(REALS).with_statistics([1.0]), "finite statistics"),
        (lambda: make_posterior("gausian"), "must be a Posterior, a Mutation or one of"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_given_priors_do_not_read_the_data():
    given = GaussianPosterior(
        mean_prior=[0.0, 0.0],
        transition_precision_prior=np.eye(2),
        covariance_prior=np.eye(2),
        root_covariance_prior=np.eye(2),
    )
    one, other = (given.start(X).prior() for X in (REALS, 5 * REALS + 1))
    np.testing.assert_array_equal(
        one.expected_log_conditional(REALS, REALS), other.expected_log_conditional(REALS, REALS)
    )
    np.testing.assert_array_equal(one.log_root(REALS), other.log_root(REALS))


def test_turning_reads_the_mutation_backwards():
    posterior = GaussianPosterior().start(REALS)
    transition = np.array([[0.8, 0.1], [-0.2, 0.5]])
    exact = posterior.at(transition, np.ones(2), np.eye(2), (REALS.mean(0), np.eye(2)), 1e7)
    np.testing.assert_allclose(exact.mean().transition_matrix, transition, atol=1e-5)
    np.testing.assert_allclose(exact.mean().offset, np.ones(2), atol=1e-5)
    turned = exact.turned().mean()
    np.testing.assert_allclose(turned.transition_matrix, np.linalg.inv(transition), atol=1e-4)
    assert replace(posterior, transition="identity").turned() is None


def test_a_kernel_of_products_is_the_linear_map():
    """k(x, z) = xᵀ z: features are a rotation of the parent, so both families are one model."""
    X = REALS - REALS.mean(axis=0)  # a kernel knows no centre
    shared = {"covariance_prior": np.eye(2), "mean_precision_prior": 0.01}
    kernel = KernelPosterior("linear", ridge=0.3, **shared).start(X)
    linear = GaussianPosterior(
        "diag", transition_prior=0.0, transition_precision_prior=0.3 * np.eye(2), **shared
    )
    W = some_edges(X, np.random.default_rng(1))
    ours, other = kernel.update(X, W), linear.start(X).update(X, W)
    for ask in ("expected_log_conditional", "log_predictive"):
        np.testing.assert_allclose(getattr(ours, ask)(X, X), getattr(other, ask)(X, X), rtol=1e-9)
    assert ours.kl() == pytest.approx(other.kl(), rel=1e-9)


def test_the_mean_of_a_kernel_posterior_is_the_ridge_regression():
    """KernelMutation's refit is the mode of the same weights, but for the prior of the offset."""
    posterior = KernelPosterior(ridge=0.2, mean_precision_prior=1e-9).start(REALS)
    W = some_edges(REALS, np.random.default_rng(1))
    mode = posterior.mutation_.refit(REALS, W)
    means = posterior.update(REALS, W).mean().means(REALS)
    np.testing.assert_allclose(means, mode.means(REALS), atol=1e-6)  # κ = 1e-9 of 11 edges


def test_a_kernel_posterior_doubts_what_it_has_not_seen():
    X = np.linspace(0.0, 1.0, 40)[:, None]
    q = KernelPosterior(gamma=20.0).start(X)
    q = q.update(X, np.eye(40, k=-1) * (np.arange(40) < 20))  # edges among the first half alone
    seen, unseen = q.log_predictive(q.mean().means(X), X).diagonal()[[5, 35]]
    assert seen > unseen + 1.0


@pytest.mark.parametrize("transition", ["full", "identity", "zero"])
def test_edges_that_follow_parameters_exactly(transition):
    """Against edges whose moments are those of the parameters, far from the prior's centre."""
    rng = np.random.default_rng(0)
    posterior = GaussianPosterior(transition=transition, fit_offset=True).start(REALS)
    A = {"full": np.array([[0.8, 0.1], [-0.2, 0.5]]), "identity": np.eye(2)}.get(
        transition, np.zeros((2, 2))
    )
    offset, parents = np.array([0.5, -2.0]), rng.normal([9.0, 4.0], size=(30, 2))
    design = np.column_stack([parents, np.ones(30)])
    noise = rng.normal(size=(30, 2))
    noise -= design @ np.linalg.lstsq(design, noise)[0]
    moments = parents.mean(axis=0), np.cov(parents.T, bias=True)
    found = posterior.at(A, offset, noise.T @ noise / 30, moments, 30.0)
    children = parents @ A.T + offset + noise
    expected = posterior._statistics_of(children, parents, np.eye(30))
    np.testing.assert_allclose(found.statistics_, expected, atol=1e-9)

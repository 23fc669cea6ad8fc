"""The infinite mixture against sums over all partitions, scipy's Student t, and quadrature."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from paper.dirichlet_mixture import (
    Base,
    DirichletProcessMixture,
    log_joint,
    sample_partitions,
    slice_sample,
)


def partitions(n):
    """Yield all partitions as labels in order of first appearance."""
    if n == 0:
        yield ()
        return
    for rest in partitions(n - 1):
        for label in range(max(rest, default=-1) + 2):
            yield (*rest, label)


def student(count, members, base):
    """Return scipy's predictive density of a cluster: the textbook formulas, nothing shared."""
    kappa, nu, centre, factor = base.arguments
    D = len(centre)
    members = np.reshape(members, (count, D))
    mean = members.mean(axis=0) if count else np.zeros(D)
    scatter = factor @ factor.T + (members - mean).T @ (members - mean)
    scatter += kappa * count / (kappa + count) * np.outer(mean - centre, mean - centre)
    middle = (kappa * centre + count * mean) / (kappa + count)
    dof = nu + count - D + 1
    shape = scatter * (kappa + count + 1) / ((kappa + count) * dof)
    return stats.multivariate_t(middle, shape, dof)


def exact_log_joint(base, X, labels):
    alpha, total = np.exp(base.log_alpha), 0.0
    seats = {}
    for t, label in enumerate(labels):
        members = seats.setdefault(label, [])
        share = len(members) if members else alpha
        total += np.log(share / (t + alpha))
        total += student(len(members), np.array(members), base).logpdf(X[t])
        members.append(X[t])
    return total


def exact_log_predictive(base, X, labels, points):
    alpha = np.exp(base.log_alpha)
    terms = [np.log(alpha) + student(0, np.empty((0, X.shape[1])), base).logpdf(points)]
    for k in range(max(labels) + 1):
        members = X[np.array(labels) == k]
        terms.append(np.log(len(members)) + student(len(members), members, base).logpdf(points))
    return logsumexp(np.array(terms), axis=0) - np.log(len(X) + alpha)


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.slow), 2], ids=["1 column", "2 columns"])
def case(request):
    D = request.param
    X = np.random.default_rng(D).normal(size=(6, D))
    X[3:] += 2.5
    base = Base(np.log(0.8), np.log(0.3), np.log(2.5), np.log(np.linspace(0.2, 0.4, D)))
    return X, base


def test_joint_probability_of_every_partition(case):
    X, base = case
    every = list(partitions(6))
    assert len(every) == 203  # Bell's number
    for labels in every[::7]:
        fast = log_joint(base, X, np.array(labels, dtype=np.intp), max(labels) + 1)
        assert fast == pytest.approx(exact_log_joint(base, X, labels), abs=1e-10)


def test_sampler_visits_partitions_by_their_probability(case):
    """Co-clustering and numbers of clusters against the sum over all 203 partitions."""
    X, base = case
    every = np.array(list(partitions(6)))
    log_p = np.array([exact_log_joint(base, X, labels) for labels in every])
    p = np.exp(log_p - logsumexp(log_p))
    rng = np.random.default_rng(0)
    start = np.zeros(6, dtype=np.intp)
    draws = sample_partitions(X, start, base, 10_000, rng, learn_every=0)
    labels = np.array([draw[1] for draw in draws])
    for u, v in itertools.combinations(range(6), 2):
        exact = p @ (every[:, u] == every[:, v])
        # Autocorrelation of single-site updates leaves about a fifth of the draws: 5 such errors.
        tolerance = 5 * np.sqrt(exact * (1 - exact) / 2_000)
        assert np.mean(labels[:, u] == labels[:, v]) == pytest.approx(exact, abs=tolerance)
    sizes = every.max(axis=1) + 1
    sampled = np.bincount([draw[2] for draw in draws], minlength=7) / len(draws)
    for k in range(1, 7):
        exact = p @ (sizes == k)
        assert sampled[k] == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / 2_000))


@pytest.mark.slow
def test_predictive_density_is_the_average_over_partitions(case):
    X, base = case
    D = X.shape[1]
    every = list(partitions(6))
    log_p = np.array([exact_log_joint(base, X, labels) for labels in every])
    points = np.random.default_rng(5).normal(size=(4, D)) * 2
    each = np.array([exact_log_predictive(base, X, labels, points) for labels in every])
    exact = logsumexp(each + (log_p - logsumexp(log_p))[:, None], axis=0)

    model = DirichletProcessMixture()
    model.n_features_in_ = D
    model.mean_, model.scale_, model.X_ = np.zeros(D), np.ones(D), X
    rng = np.random.default_rng(1)
    start = np.zeros(6, dtype=np.intp)
    model.chains_ = [sample_partitions(X, start, base, 4_000, rng, learn_every=0) for _ in "ab"]
    error = model.monte_carlo_error(points)
    assert error < 0.1
    assert model.score(points) == pytest.approx(exact.sum(), abs=4 * error)
    np.testing.assert_allclose(model.score_samples(points), exact, atol=0.05)


@pytest.mark.slow
def test_base_is_drawn_by_its_posterior():
    """One unknown scale: quadrature over it times the sum over all 15 partitions of four."""
    X = np.array([[-1.0], [-0.8], [0.9], [1.1]])
    fixed = Base(0.0, np.log(0.3), np.log(2.0), np.array([np.log(0.1)]))
    grid = np.log(np.linspace(0.001**0.25, 1.0, 400) ** 4)  # finer where scales are small
    log_p = [
        logsumexp(
            [
                log_joint(Base(*fixed.vector[:3], np.array([g])), X, np.array(z), max(z) + 1)
                for z in partitions(4)
            ]
        )
        for g in grid
    ]
    p = np.exp(np.array(log_p) - max(log_p))
    exact = np.trapezoid(grid * p, grid) / np.trapezoid(p, grid)

    rng = np.random.default_rng(0)
    labels, at, seen = np.zeros(4, dtype=np.intp), fixed, []
    for _ in range(3_000):
        ((_, labels, k),) = sample_partitions(X, labels, at, 1, rng, learn_every=0)

        def along(value, labels=labels, k=k):
            base = Base(*fixed.vector[:3], np.array([value]))
            return log_joint(base, X, labels, k) if base.log_prior() == 0 else -np.inf

        value = slice_sample(along, at.log_scales[0], rng)
        at = Base(*fixed.vector[:3], np.array([value]))
        seen.append(value)
    batches = np.array(seen).reshape(30, -1).mean(axis=1)
    error = batches.std(ddof=1) / np.sqrt(30)
    assert error < 0.1
    assert np.mean(seen) == pytest.approx(exact, abs=4 * error)


@pytest.mark.slow
def test_prior_and_simulator_agree():
    """Geweke's test of the whole sampler, base included.

    After every step the records are drawn anew from their clusters; so the base and the number of
    clusters must keep the distribution that they have without any records.
    """
    rng = np.random.default_rng(2)
    T = 5
    low, high = np.log(Base.BOUNDS).T
    base = Base(*rng.uniform(low[:3], high[:3]), rng.uniform(low[3:], high[3:]))
    labels = np.zeros(T, dtype=np.intp)
    X = rng.normal(size=(T, 1))
    seen = []
    for _ in range(2_400):
        ((base, labels, k),) = sample_partitions(X, labels, base, 1, rng, learn_every=1)
        kappa, nu, _, factor = base.arguments
        X = np.empty((T, 1))
        for j in range(k):
            variance = factor[0, 0] ** 2 / rng.chisquare(nu)
            mean = rng.normal(0.0, np.sqrt(variance / kappa))
            members = labels == j
            X[members, 0] = rng.normal(mean, np.sqrt(variance), size=members.sum())
        seen.append([*base.vector, k])
    seen = np.array(seen)
    batches = seen.reshape(40, -1, seen.shape[1]).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(40)
    # The prior: uniform logarithms, and the Chinese restaurant's number of tables given α.
    alphas = np.exp(rng.uniform(low[0], high[0], size=200_000))
    tables = np.mean(sum(alphas / (alphas + t) for t in range(T)))
    expected = np.array([*(0.5 * (low + high)), tables])
    assert (error < 0.3).all()  # else the test could not fail
    assert (np.abs(batches.mean(axis=0) - expected) < 4 * error).all()


def test_density_integrates_to_one_in_the_units_of_the_data():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(100, 1, (30, 1)), rng.normal(120, 3, (30, 1))])
    model = DirichletProcessMixture(n_sweeps=120, n_warmup=60, random_state=0).fit(X)
    grid = np.linspace(-400, 620, 40_001)
    total = np.trapezoid(np.exp(model.score_samples(grid[:, None])), grid)
    assert total == pytest.approx(1.0, abs=5e-3)  # tails of the Student t beyond the grid


def test_chains_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="n_warmup must be less than n_sweeps"):
        DirichletProcessMixture(n_sweeps=10, n_warmup=10).fit(np.eye(3))

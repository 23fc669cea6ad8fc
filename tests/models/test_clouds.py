"""Clouds against sums over all partitions, scipy's Student t, and quadrature."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from outtrees.models.cloud_kernels import chain, draw_base, gather_statistics, log_joint
from outtrees.models.clouds import (
    Base,
    CloudsMutation,
    Draw,
    column_order,
    sample_partitions,
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
    kappa, nu, D = base.kappa, base.nu, len(base.log_scales)
    centre = np.zeros(D)
    members = np.reshape(members, (count, D))
    mean = members.mean(axis=0) if count else np.zeros(D)
    scatter = np.diag(base.scales) + (members - mean).T @ (members - mean)
    scatter += kappa * count / (kappa + count) * np.outer(mean - centre, mean - centre)
    middle = (kappa * centre + count * mean) / (kappa + count)
    dof = nu + count - D + 1
    shape = scatter * (kappa + count + 1) / ((kappa + count) * dof)
    return stats.multivariate_t(middle, shape, dof)


def fast_log_joint(base, X, labels):
    labels = np.array(labels, dtype=np.intp)
    return log_joint(base.vector, *gather_statistics(X, labels, labels.max() + 1))


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
        assert fast_log_joint(base, X, labels) == pytest.approx(
            exact_log_joint(base, X, labels), abs=1e-10
        )


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
def test_base_is_drawn_by_its_posterior():
    """One unknown scale: quadrature over it times the sum over all 15 partitions of four."""
    X = np.array([[-1.0], [-0.8], [0.9], [1.1]])
    fixed = Base(0.0, np.log(0.3), np.log(2.0), np.array([np.log(0.1)]))
    grid = np.log(np.linspace(0.001**0.25, 1.0, 400) ** 4)  # finer where scales are small
    log_p = [
        logsumexp(
            [fast_log_joint(Base(*fixed.vector[:3], np.array([g])), X, z) for z in partitions(4)]
        )
        for g in grid
    ]
    p = np.exp(np.array(log_p) - max(log_p))
    exact = np.trapezoid(grid * p, grid) / np.trapezoid(p, grid)

    rng = np.random.default_rng(0)
    labels, at, seen = np.zeros(4, dtype=np.intp), fixed, []
    for _ in range(3_000):
        ((_, labels, _),) = sample_partitions(X, labels, at, 1, rng, learn_every=0)
        vector, statistics = at.vector, gather_statistics(X, labels, labels.max() + 1)
        draw_base(rng, vector, np.eye(4)[3:], Base.bounds(1), *statistics)
        at = Base.of(vector)
        seen.append(vector[3])
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
        X = np.empty((T, 1))
        for j in range(k):
            variance = base.scales[0] / rng.chisquare(base.nu)
            mean = rng.normal(0.0, np.sqrt(variance / base.kappa))
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


def test_density_given_one_partition_is_that_of_its_clusters(case):
    X, base = case
    points = np.random.default_rng(5).normal(size=(4, X.shape[1])) * 2
    for labels in list(partitions(6))[::29]:
        draw = Draw(base, np.array(labels, dtype=np.intp), max(labels) + 1)
        fast = CloudsMutation.given([draw], X).log_root(points)
        np.testing.assert_allclose(fast, exact_log_predictive(base, X, labels, points), atol=1e-10)


@pytest.mark.slow
def test_predictive_density_is_the_average_over_partitions(case):
    X, base = case
    every = list(partitions(6))
    log_p = np.array([exact_log_joint(base, X, labels) for labels in every])
    points = np.random.default_rng(5).normal(size=(4, X.shape[1])) * 2
    each = np.array([exact_log_predictive(base, X, labels, points) for labels in every])
    exact = logsumexp(each + (log_p - logsumexp(log_p))[:, None], axis=0)
    rng = np.random.default_rng(1)
    draws = sample_partitions(X, np.zeros(6, dtype=np.intp), base, 8_000, rng, learn_every=0)
    found = CloudsMutation.given(draws[::8], X).log_root(points)
    np.testing.assert_allclose(found, exact, atol=0.05)


@pytest.fixture(scope="module")
def skewed():
    rng = np.random.default_rng(3)
    normal = rng.normal(size=(120, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    return np.column_stack([np.exp(normal[:, 0]), 50 + 5 * normal[:, 1] ** 3])


@pytest.mark.parametrize("scores", [False, True])
def test_density_integrates_to_one(skewed, scores):
    """By importance sampling from a wide Student density, with the density's own tails."""
    clouds = CloudsMutation(scores, n_chains=1).start(skewed, random_state=0)
    middle, spread = np.median(skewed, axis=0), np.cov(skewed.T)
    proposal = stats.multivariate_t(middle, spread, 1.0, seed=0)
    points = proposal.rvs(40_000)
    ratios = np.exp(clouds.log_root(points) - proposal.logpdf(points))
    error = ratios.std() / np.sqrt(len(ratios))
    assert error < 0.03  # else the test could not fail
    assert ratios.mean() == pytest.approx(1.0, abs=4 * error)


def test_samples_follow_the_density(skewed):
    """Of normal scores: each column's own probabilities of what is drawn are uniform."""
    clouds = CloudsMutation(scores=True, n_chains=1, n_sweeps=40, n_warmup=20).start(
        skewed, random_state=0
    )
    drawn = clouds.sample_root(500, rng=1)
    again = clouds.sample(drawn[:5], rng=2)
    assert again.shape == (5, 2)
    for margin, column in zip(clouds.margins, drawn.T, strict=True):
        score = margin._normal_score(column)
        np.testing.assert_allclose(margin._quantile(score), column, rtol=1e-6)
        inner = np.sort(stats.norm.cdf(score))
        assert abs(inner - np.linspace(0, 1, len(inner))).max() < 0.12  # fit, not truth


def test_normal_scores_are_ahead_on_skewed_columns_and_not_on_clouds(skewed):
    rng = np.random.default_rng(0)
    # Each column by itself has one broad hump: where the clouds are is seen in both alone.
    angle = 2 * np.pi * rng.integers(5, size=240) / 5
    apart = rng.normal(size=(240, 2)) * 0.3 + 2 * np.stack([np.cos(angle), np.sin(angle)], 1)
    for X, ahead in ((skewed, True), (apart, False)):
        train, test = X[::2], X[1::2]
        plain, scored = (
            CloudsMutation(scores, n_chains=2).start(train, random_state=0).log_root(test).mean()
            for scores in (False, True)
        )
        assert (scored > plain) == ahead


def test_rounded_values_make_no_peaks():
    """Codes 0 and 1 in equal numbers: a density of about 1/2 over an interval of length 2."""
    X = np.tile([[0.0], [1.0]], (100, 1))
    for scores in (False, True):
        clouds = CloudsMutation(scores).start(X, random_state=0)
        assert np.exp(clouds.log_root(X[:2])) == pytest.approx([0.5, 0.5], abs=0.2)


def test_order_of_records_does_not_matter(skewed):
    shuffled = np.random.default_rng(0).permutation(skewed)
    first, second = (
        CloudsMutation(scores=True, n_sweeps=20, n_warmup=10).start(X, random_state=0)
        for X in (skewed, shuffled)
    )
    np.testing.assert_array_equal(first.log_root(skewed[:5]), second.log_root(skewed[:5]))


def test_chains_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="n_warmup must be less than n_sweeps"):
        CloudsMutation(n_sweeps=10, n_warmup=10)


def test_nothing_is_left_to_a_prior():
    assert CloudsMutation().start(np.arange(8.0)[:, None], 0).log_prior() == 0.0


def slow_regression(X, y, penalties, most):
    """Return averaged coefficients and variance: dense algebra, each model by itself."""
    n, d = X.shape
    logs, coefs, variances = [], [], []
    for penalty in penalties:
        taken, b = [], np.zeros(0)
        for k in range(most + 1):
            if k:
                left = (X.T @ (y - X[:, taken] @ b)) ** 2 / (X**2).sum(axis=0)
                left[taken] = -1.0
                taken = [*taken, int(left.argmax())]
            A = X[:, taken]
            b = np.linalg.solve(A.T @ A + penalty * np.eye(k), A.T @ y)
            # y is multivariate t: normal with covariance σ² (I + A Aᵀ / penalty), σ² ~ IG(½, .01).
            shape = np.eye(n) + A @ A.T / penalty
            log = stats.multivariate_t(np.zeros(n), shape * 0.02, df=1.0).logpdf(y)
            logs.append(log - np.log(len(list(itertools.combinations(range(d), k)))))
            coefs.append(np.zeros(d))
            coefs[-1][taken] = b
            quadratic = y @ np.linalg.solve(shape, y)
            variances.append((0.01 + quadratic / 2) / (0.5 + n / 2 - 1))
    weights = np.exp(np.array(logs) - logsumexp(logs))
    return weights @ np.array(coefs), weights @ np.array(variances)


def test_regressions_of_a_chain_are_averaged_by_their_evidence():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) @ rng.normal(size=(4, 4))
    X[:, 3] = X[:, 0] - 0.5 * X[:, 1] + 0.3 * rng.normal(size=30)
    penalties = np.array([3.0, 0.1])
    coefs, variances = chain(X.T @ X, 30, np.arange(4), penalties, 2)
    for d in range(1, 4):
        exact = slow_regression(X[:, :d], X[:, d], penalties, min(d, 2))
        np.testing.assert_allclose(coefs[d, :d], exact[0], rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(variances[d], exact[1], rtol=1e-8)
        assert (coefs[d, d:] == 0.0).all()


def test_sparse_clouds_win_where_each_column_follows_the_one_before():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 30))
    for d in range(1, 30):
        X[:, d] = 0.8 * X[:, d - 1] + 0.6 * X[:, d]
    train, test = X[:60], X[60:]
    plain, sparse = (
        CloudsMutation(sparse=sparse).start(train, random_state=0).log_root(test).mean()
        for sparse in (False, True)
    )
    assert sparse > plain + 1.0  # nats for each record; found: 5.9


def test_sparse_clouds_are_normalised():
    """By a sum over a grid."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    X[:, 1] += X[:, 0]
    clouds = CloudsMutation(sparse=True).start(X, random_state=0)
    grid = np.linspace(-12.0, 12.0, 161)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    total = np.exp(clouds.log_root(points)).sum() * (grid[1] - grid[0]) ** 2
    assert total == pytest.approx(1.0, abs=0.01)  # tails of Student densities lie outside


def test_sparse_clouds_take_columns_that_do_not_vary():
    """Each fold of a table of codes may hold such a column; a warning fails this test."""
    X = np.random.default_rng(0).normal(size=(30, 4))
    X[:, [1, 3]] = 2.0
    centred = X - X.mean(axis=0)
    assert sorted(column_order(centred.T @ centred)) == [0, 1, 2, 3]
    clouds = CloudsMutation(sparse=True).start(X, random_state=0)
    assert np.isfinite(clouds.log_root(X)).all()

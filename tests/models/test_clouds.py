"""Clouds against sums over all partitions, scipy's Student t, and quadrature."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from outtrees.models.cloud_kernels import gather_statistics
from outtrees.models.clouds import (
    Base,
    CloudsMutation,
    Draw,
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
    return log_joint(base, gather_statistics(X, labels, labels.max() + 1))


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

        now = at.log_scales[0]

        def along(step, labels=labels, now=now):
            return fast_log_joint(Base(*fixed.vector[:3], np.array([now + step])), X, labels)

        value = now + slice_sample(along, np.log(0.001) - now, -now, rng)
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
    clouds = CloudsMutation(scores).start(skewed, random_state=0)
    middle, spread = np.median(skewed, axis=0), np.cov(skewed.T)
    proposal = stats.multivariate_t(middle, spread, 1.0, seed=0)
    points = proposal.rvs(40_000)
    ratios = np.exp(clouds.log_root(points) - proposal.logpdf(points))
    error = ratios.std() / np.sqrt(len(ratios))
    assert error < 0.03  # else the test could not fail
    assert ratios.mean() == pytest.approx(1.0, abs=4 * error)


def test_samples_follow_the_density(skewed):
    """Of normal scores: each column's own probabilities of what is drawn are uniform."""
    clouds = CloudsMutation(scores=True, n_sweeps=40, n_warmup=20).start(skewed, random_state=0)
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
    apart = rng.normal(size=(240, 2)) * 0.3 + rng.choice([-2.0, 2.0], size=(240, 2))
    for X, ahead in ((skewed, True), (apart, False)):
        train, test = X[::2], X[1::2]
        plain, scored = (
            CloudsMutation(scores).start(train, random_state=0).log_root(test).mean()
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

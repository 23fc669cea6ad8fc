"""What the paper says of the tdid likelihood: Theorem 1, exchangeability, normalisation."""

import itertools

import numpy as np
import pytest

from outtrees.inference.likelihood import log_likelihood
from outtrees.models import GaussianMutation, MixtureMutation, PoissonMutation


def random_covariance(rng, D):
    factor = rng.normal(size=(D, D))
    return factor @ factor.T + 0.3 * np.eye(D)


def iid_log_densities(X, mean, cov):
    residual = X - mean
    squared = np.sum(residual * np.linalg.solve(cov, residual.T).T, axis=1)
    return -0.5 * (squared + np.linalg.slogdet(2 * np.pi * cov)[1])


@pytest.mark.parametrize("transition", ["zero", "full"])
def test_theorem_1(transition):
    """A conditional that ignores the parent makes the tdid likelihood the iid likelihood."""
    rng = np.random.default_rng(1)
    for _ in range(250):
        T, D = int(rng.integers(2, 25)), int(rng.integers(1, 5))
        mean, cov = rng.normal(size=D) * 3, random_covariance(rng, D)
        zeros = np.zeros((D, D))
        mutation = GaussianMutation(
            transition=transition,
            transition_matrix=zeros,
            offset=mean,
            mutation_cov=cov,
            root_mean=mean,
            root_cov=cov,
        )
        X = rng.normal(size=(T, D)) * 4
        expected = iid_log_densities(X, mean, cov)
        scale = np.abs(expected).sum()
        assert abs(log_likelihood(mutation, X) - expected.sum()) <= 1e-12 * scale


def test_theorem_1_needs_its_condition():
    """Another transition gives another likelihood: the test above can fail."""
    rng = np.random.default_rng(2)
    X, eye = rng.normal(size=(10, 2)), np.eye(2)
    given = {"offset": [0, 0], "mutation_cov": eye, "root_mean": [0, 0], "root_cov": eye}
    mutation = GaussianMutation(transition_matrix=0.1 * eye, **given)
    expected = iid_log_densities(X, np.zeros(2), eye).sum()
    assert abs(log_likelihood(mutation, X) - expected) > 1e-3


@pytest.mark.parametrize(
    "mutation",
    [GaussianMutation(), MixtureMutation(n_iid=2), PoissonMutation()],
    ids=lambda m: type(m).__name__,
)
def test_exchangeable(mutation):
    rng = np.random.default_rng(3)
    X = rng.poisson(4.0, size=(30, 2)).astype(float)
    started = mutation.start(X, random_state=0)
    value = log_likelihood(started, X)
    for _ in range(10):
        shuffled = log_likelihood(started, rng.permutation(X))
        assert shuffled == pytest.approx(value, rel=1e-12)
    assert log_likelihood(started, X[:, ::-1]) != pytest.approx(value, rel=1e-6)


WALK = GaussianMutation(
    transition_matrix=[[0.8]],
    offset=[0.3],
    mutation_cov=[[1.0]],
    root_mean=[-0.5],
    root_cov=[[1.0]],
)


@pytest.mark.parametrize(("T", "step"), [(2, 0.5), (3, 0.9)])
def test_integrates_to_one(T, step):
    """The trapezoidal rule converges exponentially for sums of Gaussians."""
    line = np.arange(-6.5, 7.0, step)
    total = sum(
        np.exp(log_likelihood(WALK, np.array(point)[:, None]))
        for point in itertools.product(line, repeat=T)
    )
    assert total * step**T == pytest.approx(1.0, abs=1e-5)


def test_counts_sum_to_one():
    mutation = PoissonMutation(root_rate=[1.0], immigration=[0.4], branching=[0.5])
    pairs = itertools.product(range(18), repeat=2)
    total = sum(np.exp(log_likelihood(mutation, np.array(pair)[:, None])) for pair in pairs)
    assert total == pytest.approx(1.0, abs=1e-6)

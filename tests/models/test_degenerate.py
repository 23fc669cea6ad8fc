"""Duplicates, constant and collinear columns, large offsets: finite, or refused with a remedy."""

from dataclasses import replace

import numpy as np
import pytest

from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    PoissonMutation,
)
from outtrees.models.category import _best_stickiness

REAL = {
    "full": GaussianMutation(),
    "ecm": GaussianMutation(transition="diag"),
    "scalar": GaussianMutation(transition="scalar"),
    "parzen": GaussianMutation(transition="identity"),
    "iid": GaussianMutation(transition="zero"),
    "kernel": KernelMutation(n_landmarks=8),
    "kernel-linear": KernelMutation("linear"),
    "mixture": MixtureMutation(n_iid=2, n_local=1),
}


def _hard_weights(X):
    """Every record's parent is its nearest other record: the trap that duplicates set."""
    distance = ((X[:, None] - X[None]) ** 2).sum(axis=2) + np.diag(np.full(len(X), np.inf))
    return np.eye(len(X))[distance.argmin(axis=1)]


def _spoiled(how):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3))
    if how == "duplicates":
        X[12:] = X[:12]
    elif how == "constant":
        X[:, 1] = 0.1
    elif how == "collinear":
        X[:, 2] = X[:, 0] - 2 * X[:, 1]
    elif how == "discrete":
        X = np.round(X)
    elif how == "identical":
        X[:] = X[0]
    elif how == "few":
        X = rng.normal(size=(3, 3))
    return X


@pytest.mark.parametrize("mutation", REAL.values(), ids=REAL.keys())
@pytest.mark.parametrize(
    "how", ["duplicates", "constant", "collinear", "discrete", "identical", "few"]
)
def test_refits_stay_finite_and_climb(mutation, how):
    X = _spoiled(how)
    W = _hard_weights(X)
    current = mutation.start(X, random_state=0)
    values = [current.objective(X, W)]
    for _ in range(30):
        current = current.refit(X, W)
        values.append(current.objective(X, W))
    assert np.isfinite(values).all()
    # Where everything is equal, log-densities are large and so is their rounding.
    assert (np.diff(values) >= -1e-7 * np.abs(values[-1])).all()
    assert np.isfinite(current.log_conditional(X, X)).all()
    assert np.isfinite(current.gradient(X, W)).all()


def test_prior_bounds_the_variance_of_duplicates_as_documented():
    X = _spoiled("duplicates")
    parzen = GaussianMutation(transition="identity", prior_strength=2.0).start(X)
    fitted = parzen.refit(X, _hard_weights(X))
    T, D = X.shape
    mode = T ** (-2 / (D + 4)) * np.cov(X.T, bias=True) + 1e-6 * np.diag(X.var(axis=0))
    np.testing.assert_allclose(parzen.prior_cov, mode)
    np.testing.assert_allclose(fitted.mutation_cov, 2.0 * mode / (T + 2.0), rtol=1e-9)


def test_prior_is_zero_without_strength_and_at_its_mode():
    X = _spoiled("none")
    assert GaussianMutation(prior_strength=0).start(X).log_prior() == 0.0
    assert GaussianMutation(mutation_cov=np.eye(2), transition_matrix=np.eye(2)).log_prior() == 0.0
    parzen = GaussianMutation(transition="identity", reg_covar=0).start(X)
    assert abs(parzen.log_prior()) < 1e-12  # starts with the bandwidth that the prior expects
    assert parzen.with_params(parzen.params + 0.1).log_prior() < -1e-3


def test_without_prior_a_singular_covariance_is_refused_with_the_remedy():
    X = _spoiled("constant")
    with pytest.raises(ValueError, match=r"singular .* use prior_strength > 0"):
        GaussianMutation(prior_strength=0).start(X)
    X = _spoiled("duplicates")
    parzen = GaussianMutation(transition="identity", prior_strength=0).start(X)
    with pytest.raises(ValueError, match=r"singular .* use prior_strength > 0"):
        parzen.refit(X, _hard_weights(X))


def test_units_and_origin_do_not_matter():
    """Rescaled and shifted records give the same density, transformed."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    scale, shift = np.array([1e-4, 1e5]), np.array([3.0, 1e7])
    W = rng.random((40, 40)) / 40
    for mutation in (GaussianMutation(), GaussianMutation(transition="identity")):
        plain = mutation.start(X).refit(X, W)
        moved = mutation.start(X * scale + shift).refit(X * scale + shift, W)
        np.testing.assert_allclose(
            moved.log_conditional(X * scale + shift, X * scale + shift) + np.log(scale).sum(),
            plain.log_conditional(X, X),
            atol=1e-7,
        )


def test_undetermined_directions_of_the_transition_stay_where_they_are():
    X = _spoiled("collinear")
    W = np.random.default_rng(2).random((24, 24))
    first = GaussianMutation().start(X).refit(X, W)
    null = np.array([1.0, -2.0, -1.0]) / np.sqrt(6)
    np.testing.assert_allclose(X @ null, 0.0, atol=1e-12)
    # The same map on the data, written with another matrix, is as good and is left alone.
    matrix = first.transition_matrix + np.outer([3.0, -1.0, 2.0], null)
    other = replace(first, transition_matrix=matrix)
    for mutation in (first, other):
        again = mutation.refit(X, W)
        np.testing.assert_allclose(again.transition_matrix, mutation.transition_matrix, atol=1e-8)
        np.testing.assert_allclose(
            again.log_conditional(X, X), first.log_conditional(X, X), rtol=1e-6
        )


@pytest.mark.parametrize("constant", [0.3, 1e6 + 0.1])
def test_rounding_noise_of_a_constant_column_is_not_regressed_on(constant):
    X = np.random.default_rng(3).normal(size=(44, 3))
    X[:, 1] = constant
    assert X.mean(axis=0)[1] != constant  # else there would be no noise
    W = np.random.default_rng(4).random((44, 44))
    fitted = GaussianMutation(start_correlation=0.0).start(X).refit(X, W)
    np.testing.assert_array_equal(fitted.transition_matrix[:, 1], 0.0)
    np.testing.assert_allclose(fitted.transition_matrix[1], 0.0, atol=1e-12)


def test_no_weight_at_all_leaves_the_prior():
    X = _spoiled("none")
    nothing = np.zeros((24, 24))
    for mutation in REAL.values():
        started = mutation.start(X, random_state=0)
        refitted = started.refit(X, nothing)
        assert refitted.log_prior() >= started.log_prior() - 1e-12
        np.testing.assert_allclose(refitted.refit(X, nothing).params, refitted.params, atol=1e-9)


def test_impossible_values_are_minus_infinity_not_nan():
    bits = BernoulliMutation(
        root_probability=[0.5, 0.5], child_probability=[[0.0, 0.5], [1.0, 0.5]]
    )
    both = np.array([[0.0, 1.0], [1.0, 1.0]])
    assert np.isneginf(bits.log_conditional(both, both)[[0, 1], [1, 0]]).all()
    np.testing.assert_allclose(np.diag(bits.log_conditional(both, both)), np.log(0.5))
    counts = PoissonMutation(root_rate=[1.0], immigration=[0.0], branching=[1.0])
    log_pairs = counts.log_conditional([[0.0], [2.0]], [[0.0], [2.0]])
    np.testing.assert_allclose(log_pairs[:, 1], [-2.0, np.log(2.0) - 2.0])
    assert log_pairs[0, 0] == 0.0
    assert np.isneginf(log_pairs[1, 0])


def test_constant_discrete_columns():
    zeros = np.zeros((10, 2))
    W = (1 - np.eye(10)) / 10
    for mutation in (
        BernoulliMutation(),
        PoissonMutation(),
        CategoricalMutation(),
        CategoricalMutation("full"),
    ):
        fitted = mutation.start(zeros).refit(zeros, W)
        assert np.isfinite(fitted.objective(zeros, W))
        assert np.isfinite(fitted.gradient(zeros, W)).all()
        assert (fitted.log_conditional(zeros, zeros) > np.log(0.8)).all()


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        ([[0.0], [0.0], [1.0], [1.0]], 1.0),  # links between equals only
        ([[0.0], [1.0], [0.0], [1.0]], 0.0),  # links between different ones only
    ],
)
def test_stickiness_without_prior_may_reach_the_ends(X, expected):
    W = np.zeros((4, 4))
    W[[1, 3], [0, 2]] = 1.0
    started = CategoricalMutation(prior_strength=0).start(X)
    assert started.refit(X, W).stickiness[0] == expected


def test_a_refit_that_saw_nothing_changes_nothing():
    flat = np.zeros((4, 4))
    assert _best_stickiness(flat, np.full(3, 1 / 3), 0.0, 0.37) == 0.37
    X = np.random.default_rng(0).normal(size=(12, 1))
    mixture = MixtureMutation(n_iid=1, n_local=1, weight_concentration=1.0).start(X, 0)
    assert mixture._reweighed(list(mixture.parts), [0.0, 0.0]) is mixture

"""Wrong options and values are refused in one sentence that says what to do."""

import numpy as np
import pytest
from scipy import stats

from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    Mutation,
    PoissonMutation,
    ProductMutation,
    make_mutation,
)

EYE = np.eye(2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianMutation("ful"), "covariance of .* must be one of 'full', .*; got 'ful'"),
        (lambda: GaussianMutation(transition="none"), "transition of .* must be one of 'full'"),
        (
            lambda: GaussianMutation(prior_strength=-1),
            "prior_strength of .* must be a number >= 0; got",
        ),
        (lambda: GaussianMutation(prior_strength=True), "prior_strength of .* must be a number"),
        (lambda: GaussianMutation(reg_covar=np.nan), "reg_covar of .* must be a number >= 0"),
        (lambda: GaussianMutation(start_correlation=1.5), ">= 0 and <= 1; got 1.5"),
        (
            lambda: GaussianMutation(fit_offset="yes"),
            "fit_offset of .* must be one of None, True, False",
        ),
        (lambda: GaussianMutation(mutation_cov=EYE), "expects transition_matrix beside"),
        (
            lambda: GaussianMutation(mutation_cov=EYE, transition_matrix=np.eye(3)),
            r"transition_matrix of shape \(2, 2\)",
        ),
        (
            lambda: GaussianMutation(transition="zero", mutation_cov=EYE, transition_matrix=EYE),
            "expects no transition_matrix",
        ),
        (
            lambda: GaussianMutation("diag", "identity", mutation_cov=EYE + 0.1),
            "mutation_cov to fit the options",
        ),
        (
            lambda: GaussianMutation("full", "identity", mutation_cov=-EYE),
            "mutation_cov is expected to be positive definite",
        ),
        (lambda: KernelMutation("sigmoid"), "kernel of .* must be one of"),
        (lambda: KernelMutation(ridge=0), "ridge of .* must be a number > 0; got 0"),
        (
            lambda: KernelMutation(n_landmarks=0),
            "n_landmarks of .* must be an integer of at least 1",
        ),
        (lambda: KernelMutation(gamma="auto"), "gamma of .* must be a number > 0"),
        (
            lambda: KernelMutation(covariance="full"),
            "covariance of .* must be one of 'diag', 'spherical'",
        ),
        (lambda: MixtureMutation(n_iid=0, n_local=0), "at least one component"),
        (lambda: MixtureMutation([]), "at least one component"),
        (lambda: MixtureMutation(["gaussian"]), "mutations in components; got 'gaussian'"),
        (lambda: MixtureMutation(weight_concentration=0.5), "weight_concentration .* >= 1"),
        (
            lambda: MixtureMutation(n_iid=1.5),
            "n_iid of .* must be an integer of at least 0; got 1.5",
        ),
        (lambda: CategoricalMutation("loose"), "kind of .* must be one of 'sticky', 'full'"),
        (lambda: PoissonMutation(immigration=[1.0]), "Give all three or none"),
        (
            lambda: BernoulliMutation(root_probability=[0.5], child_probability=[[2.0], [0.5]]),
            r"probabilities in \[0, 1\]",
        ),
        (lambda: ProductMutation([GaussianMutation()]), r"groups as \(mutation, columns\) pairs"),
        (lambda: ProductMutation([(GaussianMutation(), [0, 0])]), "list every column once"),
        (lambda: ProductMutation([(GaussianMutation(), [1])]), "list every column once"),
        (
            lambda: make_mutation("gausian"),
            "'gaussian', 'parzen', 'parzen-diag', .* got 'gausian'",
        ),
        (lambda: make_mutation(3), "got 3"),
    ],
)
def test_wrong_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("mutation", "X", "message"),
    [
        (PoissonMutation(), [[1.0], [-2.0]], "counts 0, 1, 2, .* has -2 in row 1, column 0"),
        (PoissonMutation(), [[1.0], [0.5]], "counts 0, 1, 2, .* has 0.5 in row 1, column 0"),
        (PoissonMutation(), [[1.0], [np.nan]], "complete records"),
        (BernoulliMutation(), [[1.0], [2.0]], "cells 0 or 1, .* has 2 in row 1, column 0"),
        (GaussianMutation(), [[1.0], [np.nan]], "NaN .first in row 1, column 0.*CategoricalMut"),
        (GaussianMutation(), [["a"], ["b"]], "expects numbers in X"),
        (MixtureMutation([PoissonMutation()]), [[1.0], [0.5]], "PoissonMutation expects counts"),
        (MixtureMutation(n_iid=3), [[1.0], [0.5]], "each of its 3 iid components, but X has 2"),
        (
            MixtureMutation(n_local=2, local=PoissonMutation()),
            [[1.0], [2.0]],
            "expects n_local=1 for PoissonMutation",
        ),
        (CategoricalMutation(categories=[[0, 1]]), [[0.0], [2.0]], r"one of \[0.0, 1.0\] in col"),
        (CategoricalMutation(categories=[[0], [1]]), [[0.0], [2.0]], "each of the 1 columns"),
        (ProductMutation([(GaussianMutation(), [0])]), np.ones((3, 2)), "put every column of X"),
        (KernelMutation(lambda x, z: -float(x @ z)), [[1.0], [2.0]], "positive semi-definite"),
        (KernelMutation(lambda x, z: np.inf), [[1.0], [2.0]], r"k\(record 0, landmark 0\) is inf"),
    ],
)
def test_wrong_values_at_start(mutation, X, message):
    with pytest.raises(ValueError, match=message):
        mutation.start(X)


@pytest.mark.parametrize("mutation", [GaussianMutation(), KernelMutation(), PoissonMutation()])
def test_steps_that_overflow_are_refused(mutation):
    started = mutation.start([[1.0], [3.0], [4.0]])
    with pytest.raises(ValueError, match="take a smaller step"):
        started.with_params(started.params + 1e4)
    with pytest.raises(ValueError, match="entry 0 is NaN; take a smaller step"):
        started.with_params(started.params * np.nan)


def test_unknown_category_after_start():
    started = CategoricalMutation().start([[0.0], [1.0]])
    with pytest.raises(ValueError, match="parents has 2 in row 0; list it in categories"):
        started.log_conditional([[0.0]], [[2.0]])


def test_listed_categories_may_be_unseen():
    started = CategoricalMutation(categories=[[0, 1, 2]]).start([[0.0], [1.0]])
    np.testing.assert_allclose(np.exp(started.log_root([[2.0]])), 1 / 9)


def test_root_is_asked_for_when_only_the_conditional_was_given():
    parzen = GaussianMutation(transition="identity", mutation_cov=EYE)
    with pytest.raises(ValueError, match="expects root_mean and root_cov"):
        parzen.log_root([[0.0, 0.0]])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gaussian", GaussianMutation),
        ("parzen", GaussianMutation),
        ("iid", GaussianMutation),
        ("kernel", KernelMutation),
        ("mixture", MixtureMutation),
        ("categorical", CategoricalMutation),
        ("poisson", PoissonMutation),
        ("bernoulli", BernoulliMutation),
    ],
)
def test_every_name_makes_a_model_that_starts(name, kind):
    mutation = make_mutation(name)
    assert type(mutation) is kind
    assert make_mutation(mutation) is mutation
    bits = np.random.default_rng(0).integers(2, size=(20, 2))
    assert mutation.start(bits, random_state=0).log_conditional(bits, bits).shape == (20, 20)


def test_names_differ_in_what_they_fix():
    bits = np.random.default_rng(0).integers(2, size=(20, 2))
    parzen, iid = (make_mutation(name).start(bits) for name in ("parzen", "iid"))
    np.testing.assert_array_equal(parzen.transition_matrix, EYE)
    np.testing.assert_array_equal(iid.transition_matrix, 0 * EYE)


class LaplaceMutation(Mutation):
    """A model without an M-step of its own: the smallest file a user could write."""

    def __init__(self, log_scale=None):
        self.log_scale = log_scale

    n_features = property(lambda self: None if self.log_scale is None else 1)

    def _start(self, X, random_state):
        return LaplaceMutation(np.zeros(1))

    def _log_conditional(self, children, parents):
        return stats.laplace(parents.T, np.exp(self.log_scale)).logpdf(children)

    def _log_root(self, X):
        return stats.norm.logpdf(X[:, 0])

    def _sample(self, parents, rng):
        return parents + rng.laplace(size=parents.shape) * np.exp(self.log_scale)

    def _sample_root(self, n, rng):
        return rng.normal(size=(n, 1))

    def _gradient(self, X, edge_marginals):
        distance = np.abs(X - X.T) / np.exp(self.log_scale)
        return np.array([(edge_marginals * (distance - 1)).sum()])

    def _params(self):
        return self.log_scale

    def _with_params(self, params):
        return LaplaceMutation(params)

    def _log_prior(self):
        return 0.0


def test_a_model_with_a_gradient_only_is_refitted_by_it():
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(15, 1)), rng.random((15, 15))
    np.fill_diagonal(W, 0.0)
    started = LaplaceMutation().start(X)
    fitted = started.refit(X, W)
    expected = (W * np.abs(X - X.T)).sum() / W.sum()
    np.testing.assert_allclose(np.exp(fitted.log_scale), expected, rtol=1e-4)
    assert fitted.objective(X, W) > started.objective(X, W)
    assert fitted.refit(X, W).objective(X, W) >= fitted.objective(X, W)

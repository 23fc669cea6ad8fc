"""Special cases that other people's code computes too."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from outtrees._common.order import record_order
from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    PoissonMutation,
    ProductMutation,
)
from outtrees.models.kernel import _basis


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(size=(30, 3)), rng.normal(4.0, 0.7, size=(25, 3))])


@pytest.fixture
def tree(X):
    """A hard tree: every record but the root, 0, has one earlier parent."""
    rng = np.random.default_rng(1)
    parents = np.array([rng.integers(t) for t in range(1, len(X))])
    edge_marginals = np.zeros((len(X), len(X)))
    edge_marginals[np.arange(1, len(X)), parents] = 1.0
    return parents, edge_marginals


def uniform(n):
    return (1 - np.eye(n)) / (n - 1)


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_zero_transition_is_a_single_gaussian(X, covariance):
    iid = GaussianMutation(covariance, "zero", prior_strength=0).start(X)
    expected = GaussianMixture(1, covariance_type=covariance, reg_covar=0).fit(X).score_samples(X)
    np.testing.assert_allclose(iid.log_root(X), expected, rtol=1e-10)
    np.testing.assert_allclose(iid.log_conditional(X, X[:2])[:, 1], expected, rtol=1e-10)
    # Whatever the tree, an iid model refits to the same parameters when each record counts once.
    refitted = iid.refit(X, uniform(len(X)))
    np.testing.assert_allclose(refitted.log_conditional(X, X[:1])[:, 0], expected, rtol=1e-10)


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_iid_mixture_starts_as_scikit_learns(X, covariance):
    mixture = MixtureMutation(n_iid=3, n_local=0, covariance=covariance).start(X, random_state=4)
    # In units of the columns' spread, but for round clouds, and in an order that values decide.
    spread = X.std(axis=0)
    if covariance == "spherical":
        spread = np.full(X.shape[1], np.sqrt(X.var(axis=0).mean()))
    Z = (X - X.mean(axis=0)) / spread
    model = GaussianMixture(
        3, covariance_type=covariance, reg_covar=1e-6, max_iter=200, random_state=4
    ).fit(Z[record_order(X)])
    expected = model.score_samples(Z) - np.log(spread).sum()
    np.testing.assert_allclose(mixture.log_conditional(X, X[:2])[:, 1], expected, rtol=1e-12)
    np.testing.assert_allclose(mixture.log_root(X), expected, rtol=1e-12)


def test_iid_mixture_refits_as_scikit_learn_iterates(X):
    """Without priors one refit with every record counted once is one EM step of scikit-learn."""
    mixture = MixtureMutation(
        n_iid=2, n_local=0, prior_strength=0, weight_concentration=1.0, reg_covar=0
    ).start(X, random_state=0)
    bent = mixture.with_params(mixture.params + 0.3 * np.random.default_rng(2).normal(size=19))
    model = GaussianMixture(
        2,
        reg_covar=0,
        max_iter=1,
        weights_init=bent.weights,
        means_init=[part.offset for part in bent.parts],
        precisions_init=[np.linalg.inv(part.mutation_cov) for part in bent.parts],
    )
    with pytest.warns(ConvergenceWarning):  # a single iteration is what is asked for
        model.fit(X)
    np.testing.assert_allclose(
        bent.refit(X, uniform(len(X))).log_conditional(X, X[:1])[:, 0],
        model.score_samples(X),
        rtol=1e-10,
    )


def test_parzen_leaf_predictive_is_kernel_density(X):
    parzen = GaussianMutation("spherical", "identity", mutation_cov=0.49 * np.eye(3))
    points = X[::5] + 0.1
    log_pairs = parzen.log_conditional(points, X)
    expected = KernelDensity(bandwidth=0.7, rtol=0).fit(X).score_samples(points)
    np.testing.assert_allclose(
        np.logaddexp.reduce(log_pairs, axis=1) - np.log(len(X)), expected, rtol=1e-10
    )


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "linear"])
def test_kernel_refit_is_kernel_ridge_on_a_hard_tree(X, tree, kernel):
    parents, edge_marginals = tree
    mutation = KernelMutation(
        kernel, gamma=0.2, degree=2, ridge=0.8, n_landmarks=None, fit_offset=False
    ).start(X)
    model = KernelRidge(alpha=0.8, kernel=kernel, gamma=0.2, degree=2, coef0=1.0)
    model.fit(X[parents], X[1:])
    points = np.random.default_rng(3).normal(2.0, 2.0, size=(20, 3))
    np.testing.assert_allclose(
        mutation.refit(X, edge_marginals).means(points), model.predict(points), rtol=1e-7, atol=1e-7
    )


def test_units_of_columns_do_not_matter_to_a_kernel_of_default_width(X):
    """Nor where a column begins, for "rbf"; a given width is one for the numbers as they are."""
    units, start = np.array([0.01, 1.0, 1000.0]), np.array([5.0, -3.0, 1e4])
    points = X[:5] + 0.1

    def features(mutation, X, points):
        return mutation.start(X, random_state=0).features(points)

    curve = KernelMutation(n_landmarks=8)
    here, there = (
        features(curve, *(x * u + b for x in (X, points))) for u, b in ((1, 0), (units, start))
    )
    np.testing.assert_allclose(there, here, rtol=1e-6)
    given = replace(curve, gamma=0.3)
    assert not np.allclose(features(given, X * units, points * units), features(given, X, points))
    # A column that is constant but for rounding says nothing.
    constant = np.full(len(X), 0.1) + 1e-17 * np.arange(len(X))
    every = replace(curve, n_landmarks=None)
    padded = features(
        every, np.column_stack([X, constant]), np.column_stack([points, constant[:5]])
    )
    wider = replace(every, gamma=1 / 4)  # of four columns
    sd = X.std(axis=0)
    alone = features(wider, X / sd, points / sd)
    # Products of features do not depend on the order of the landmarks, which rounding may change.
    np.testing.assert_allclose(padded @ padded.T, alone @ alone.T, rtol=1e-6)


def test_linear_refit_is_linear_regression_on_a_hard_tree(X, tree):
    parents, edge_marginals = tree
    fitted = GaussianMutation(prior_strength=0).start(X).refit(X, edge_marginals)
    model = LinearRegression().fit(X[parents], X[1:])
    np.testing.assert_allclose(fitted.transition_matrix, model.coef_, rtol=1e-9)
    np.testing.assert_allclose(fitted.offset, model.intercept_, rtol=1e-9)
    residuals = X[1:] - model.predict(X[parents])
    np.testing.assert_allclose(fitted.mutation_cov, residuals.T @ residuals / (len(X) - 1))


def test_full_matrix_refit_counts_links():
    codes = np.array([[0.0], [0.0], [1.0], [2.0], [1.0]])
    edge_marginals = np.zeros((5, 5))
    edge_marginals[[1, 2, 3, 4], [0, 0, 2, 2]] = 1.0
    mutation = CategoricalMutation("full", prior_strength=0).start(codes)
    matrix = mutation.refit(codes, edge_marginals).matrices[0]
    np.testing.assert_allclose(matrix[:, 0], [0.5, 0.5, 0.0])  # 0 → 0 and 0 → 1
    np.testing.assert_allclose(matrix[:, 1], [0.0, 0.5, 0.5])  # 1 → 2 and 1 → 1
    np.testing.assert_allclose(matrix[:, 2], mutation.matrices[0][:, 2])  # never a parent


def test_binary_matrix_is_the_bernoulli_mutation():
    rng = np.random.default_rng(4)
    bits = rng.integers(2, size=(20, 2)).astype(float)
    edge_marginals = rng.random((20, 20)) / 20
    one = CategoricalMutation("full").start(bits).refit(bits, edge_marginals)
    other = BernoulliMutation().start(bits).refit(bits, edge_marginals)
    np.testing.assert_allclose(
        one.log_conditional(bits, bits), other.log_conditional(bits, bits), rtol=1e-10
    )
    np.testing.assert_allclose(one.log_prior(), other.log_prior(), rtol=1e-10)


IID = {
    "gaussian": GaussianMutation(start_correlation=0.0),
    "gaussian-diag": GaussianMutation("diag", "diag", start_correlation=0.0),
    "kernel": KernelMutation(start_correlation=0.0),
    "mixture": MixtureMutation(n_iid=2, n_local=0),
    "sticky": CategoricalMutation(start_correlation=0.0),
    "full": CategoricalMutation("full", start_correlation=0.0),
    "poisson": PoissonMutation(start_correlation=0.0),
    "bernoulli": BernoulliMutation(start_correlation=0.0),
    "product": ProductMutation(
        [(GaussianMutation(transition="zero"), [1]), (PoissonMutation(start_correlation=0.0), [0])]
    ),
}


@pytest.mark.parametrize("mutation", IID.values(), ids=IID.keys())
def test_iid_is_contained(mutation):
    X = np.random.default_rng(5).integers(2, size=(30, 2)).astype(float)
    started = mutation.start(X, random_state=0)
    expected = np.repeat(started.log_root(X)[:, None], 30, axis=1)
    np.testing.assert_allclose(started.log_conditional(X, X), expected, rtol=1e-12, atol=1e-12)


def test_stationary_start_keeps_the_iid_gaussian(X):
    """Children of root records are distributed as root records, whatever the correlation."""
    started = GaussianMutation(prior_strength=0).start(X)
    A = started.transition_matrix
    assert 0.5 < A[0, 0] < 1
    np.testing.assert_allclose(A @ started.root_mean + started.offset, started.root_mean)
    np.testing.assert_allclose(A @ started.root_cov @ A.T + started.mutation_cov, started.root_cov)


def test_one_landmark_is_scaled_by_its_root():
    np.testing.assert_allclose(_basis(np.array([[4.0]])), [[0.5]])


def test_products_with_several_components_are_not_distances(X):
    """Their weights are sums, which no single distance ranks."""
    mixed = MixtureMutation(n_iid=0, n_local=2).start(X[:, :1], 0)
    product = ProductMutation([(mixed, [0]), (GaussianMutation(), [1])]).start(X[:, :2], 0)
    assert mixed._embeddings(X[:, :1], X[:, :1]) is not None
    assert product._embeddings(X[:, :2], X[:, :2]) is None
    plain = ProductMutation([(GaussianMutation(), [0]), (GaussianMutation(), [1])])
    assert len(plain.start(X[:, :2], 0)._embeddings(X[:, :2], X[:, :2])) == 1


@pytest.mark.parametrize("transition", ["full", "identity"])
@pytest.mark.parametrize("fit_offset", [True, False])
def test_the_free_parameters_have_names(X, transition, fit_offset):
    mutation = GaussianMutation(transition=transition, fit_offset=fit_offset).start(X)
    expected = ["transition_matrix"] * (transition == "full") + ["offset"] * fit_offset
    assert list(mutation._named()) == [*expected, "mutation_cov"]

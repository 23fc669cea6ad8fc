"""OutTreeDensity: what a fit holds, what it answers, and what it refuses."""

import pickle

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity
from sklearn.utils._param_validation import InvalidParameterError

from outtrees import OutTreeDensity, OutTreeDistribution
from outtrees.datasets import make_spiral
from outtrees.inference.likelihood import leaf_log_density
from outtrees.models import GaussianMutation, MixtureMutation
from outtrees.trees.parents import are_out_trees

mpl.use("Agg")
SPIRAL = make_spiral(120)
PLAIN = np.random.default_rng(0).normal(size=(40, 3))


@pytest.fixture(scope="module")
def model():
    return OutTreeDensity("gaussian").fit(SPIRAL)


def test_what_a_fit_holds(model):
    assert model.converged_
    assert model.n_iter_ + 1 == len(model.log_likelihoods_)
    assert (np.diff(model.log_likelihoods_) >= 0).all()
    T = len(SPIRAL)
    dist = OutTreeDistribution(
        model.mutation_.log_conditional(SPIRAL, SPIRAL), model.mutation_.log_root(SPIRAL)
    )
    assert model.log_likelihood_ == pytest.approx(dist.log_z - (T - 1) * np.log(T), abs=1e-8)
    np.testing.assert_allclose(model.edge_marginals_, dist.edge_marginals, atol=1e-10)
    np.testing.assert_allclose(
        model.edge_marginals_.sum(axis=1) + model.root_marginals_, 1.0, atol=1e-12
    )


def test_scores_do_not_depend_on_the_batch(model):
    X = make_spiral(30, random_state=1)
    together = model.score_samples(X)
    np.testing.assert_allclose(together, [model.score_samples(x[None])[0] for x in X], rtol=1e-12)
    assert model.score(X) == pytest.approx(together.sum())
    # The paper's joint ratio is another quantity.
    assert model.log_predictive(X) != pytest.approx(together.sum(), abs=0.1)


def test_it_describes_a_spiral_better_than_one_gaussian(model):
    X = make_spiral(200, random_state=2)
    assert model.score(X) > GaussianMixture().fit(SPIRAL).score(X) * len(X) + 100


def test_parzen_is_scikit_learns_kernel_density():
    width = 0.3
    parzen = GaussianMutation(
        transition="identity", covariance="spherical", mutation_cov=width**2 * np.eye(3)
    )
    right = KernelDensity(bandwidth=width).fit(SPIRAL).score_samples(PLAIN)
    np.testing.assert_allclose(leaf_log_density(parzen, SPIRAL, PLAIN), right, rtol=1e-10)


def test_samples_follow_the_papers_recipe(model):
    X, parents = model.sample(50, random_state=0)
    assert X.shape == (50, 3)
    assert are_out_trees(parents[None], single_root=True).all()
    np.testing.assert_array_equal(X, model.sample(50, random_state=0)[0])
    # Children lie where the mutation puts them: whitened residuals have unit variance.
    child = parents >= 0
    m = model.mutation_
    residual = X[child] - X[parents[child]] @ m.transition_matrix.T - m.offset
    white = np.linalg.solve(np.linalg.cholesky(m.mutation_cov), residual.T)
    assert 0.6 < white.var() < 1.5
    trees = model.sample_trees(5, random_state=0)
    assert are_out_trees(trees, single_root=True).all()


def test_auto_weighs_several_mutations():
    X = PLAIN[:, :2]
    model = OutTreeDensity("auto", cv=2, max_iter=3, tol=1e-6, random_state=0)
    with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=3"):
        model.fit(X)
    assert model.cv_results_["weight"].sum() == pytest.approx(1.0)
    assert model.best_candidate_ in model.cv_results_["params"]
    assert isinstance(model.mutation_, MixtureMutation)
    T = len(X)
    assert model.log_likelihood_ == pytest.approx(model.tree_.log_z - (T - 1) * np.log(T), abs=1e-6)
    axis = np.linspace(-8, 8, 120)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    mass = np.exp(model.score_samples(grid)).sum() * (axis[1] - axis[0]) ** 2
    assert mass == pytest.approx(1.0, abs=0.01)  # a coarse grid
    assert model.sample(5, random_state=0)[0].shape == (5, 2)


def test_auto_options_are_chosen_by_cross_validation():
    model = OutTreeDensity("mixture", n_components="auto", cv=2, random_state=0, tol=0.1).fit(PLAIN)
    assert model.mutation_.n_iid == model.best_candidate_["n_components"]
    means = model.cv_results_["mean_log_density"]
    assert means[model.cv_results_["params"].index(model.best_candidate_)] == means.max()


def test_early_stopping_keeps_the_best_on_held_out_records():
    model = OutTreeDensity("gaussian", early_stopping=True, random_state=0).fit(SPIRAL)
    assert len(model.X_) == len(SPIRAL)
    assert len(model.validation_scores_) > 1


def test_exhausted_iterations_are_not_called_converged():
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        model = OutTreeDensity("gaussian", max_iter=1).fit(SPIRAL)
    assert not model.converged_


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.where(PLAIN > 2, np.nan, PLAIN), "Input X contains NaN"),
        (np.where(PLAIN > 2, np.inf, PLAIN), "Input X contains infinity"),
        (PLAIN[:1], "Found array with 1 sample"),
        (PLAIN[:, :0], "Found array with 0 feature"),
        (PLAIN[:, 0], "Expected 2D array, got 1D array instead"),
        (None, "X is None"),
        ([[1.0, 2.0], [3.0]], "rows have different lengths: row 0 has 2, row 1 has 1"),
        (np.ones((5, 2)), "all 5 rows are identical"),
        (
            pd.DataFrame({"a": [1.0, 2], "b": ["x", "y"]}),
            r"column 'b' must be numbers, dates or categories; got text.*\(first value 'x'\)",
        ),
        (pd.DataFrame([[1.0, 2], [3, 4]], columns=["a", "a"]), "column name 'a' occurs 2 times"),
    ],
)
def test_records_that_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        OutTreeDensity("gaussian").fit(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.column_stack([PLAIN, np.ones(40)]), "column 3 is constant"),
        (np.r_[PLAIN, PLAIN[:2]], "2 rows are exact duplicates"),
        (PLAIN * [1, 1, 1e13], "differ in scale by .*; use StandardScaler"),
    ],
)
def test_records_that_are_warned_of(X, message):
    with pytest.warns(UserWarning, match=message):
        model = OutTreeDensity("gaussian", max_iter=500).fit(X)
    assert np.isfinite(model.score_samples(X)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_iter": 0}, r"'max_iter' parameter of OutTreeDensity must be an int in the range"),
        ({"max_iter": True}, "Got True instead"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"tol": float("nan")}, "'tol' parameter"),
        ({"mutation": "gausian"}, r"must be a str among .* Got 'gausian' instead"),
        ({"solver": "newton"}, r"must be a str among"),
        ({"random_state": "x"}, "'random_state' parameter"),
        ({"prior_strength": -1}, "'prior_strength' parameter"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        OutTreeDensity(**options).fit(PLAIN)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 3}, "is for mutation='mixture'"),
        ({"mutation": GaussianMutation(), "prior_strength": 3.0}, "set it there"),
        ({"mutation": "auto", "early_stopping": True}, "leave out early_stopping"),
        (
            {"mutation": "gaussian", "early_stopping": True, "validation_fraction": 0.99},
            "at least 2 are needed",
        ),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(ValueError, match=message):
        OutTreeDensity(**options).fit(PLAIN)


def test_not_fitted_yet():
    with pytest.raises(NotFittedError):
        OutTreeDensity("gaussian").score_samples(PLAIN)
    with pytest.raises(NotFittedError):
        _ = OutTreeDensity("gaussian").tree_


def test_names_are_kept_and_compared():
    table = pd.DataFrame(PLAIN, columns=["a", "b", "c"])
    model = OutTreeDensity("iid").fit(table)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.score_samples(table[["b", "a", "c"]])


def test_integers_are_accepted():
    X = np.random.default_rng(1).integers(9, size=(30, 2)).astype(np.uint8)
    models = [OutTreeDensity("parzen", max_iter=500) for _ in range(2)]
    with pytest.warns(ConvergenceWarning, match="duplicate"):
        scores = [
            m.fit(X.astype(t)).score_samples(X) for m, t in zip(models, (float, "u1"), strict=True)
        ]
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("options", [{}, {"candidates": "knn", "n_candidates": 6}], ids=str)
def test_the_trees_of_the_fit_are_kept(monkeypatch, options):
    model = OutTreeDensity("parzen", random_state=0, **options).fit(PLAIN)
    again = pickle.loads(pickle.dumps(model))  # without trees, which are made when asked for
    assert again.tree_.log_z == model.tree_.log_z
    for name in ("tree_distribution", "candidate_trees"):
        monkeypatch.delattr(f"outtrees.density.estimator.{name}")
    assert model.sample_trees(2, random_state=0).shape == (2, len(PLAIN))
    with pytest.raises(NameError):
        pickle.loads(pickle.dumps(model)).sample_trees()

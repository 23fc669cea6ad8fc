"""OutTreeDensity on records with missing cells."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from sklearn.utils.estimator_checks import parametrize_with_checks

from outtrees import OutTreeDensity
from outtrees.density.incomplete import _is_level
from outtrees.models import CategoricalMutation, GaussianMutation, ProductMutation

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)) @ np.array([[1.0, 0.7], [0.0, 0.7]])
HOLEY = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
OPTIONS = {"missing": "integrate", "max_iter": 15, "random_state": 0}


def test_the_error_names_what_to_do():
    with pytest.raises(ValueError, match=r"OutTreeImputer, which accepts NaN, fit an OutTreeDens"):
        OutTreeDensity("gaussian").fit(HOLEY)
    with pytest.raises(ValueError, match=r"missing='integrate'"):
        OutTreeDensity("gaussian").fit(X).score_samples(HOLEY)
    with pytest.raises(ValueError, match=r"'missing' parameter of OutTreeDensity must be"):
        OutTreeDensity("gaussian", missing="drop").fit(X)


# A few random steps may or may not look level: that is not what this is about.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("mutation", ["gaussian", "mixture", "iid"])
def test_densities_are_normalised_and_marginals_are_their_integrals(mutation):
    model = OutTreeDensity(mutation, **OPTIONS).fit(HOLEY)
    grid = np.linspace(-9, 9, 1201)
    for x in (-0.7, 0.4):
        line = np.column_stack([np.full_like(grid, x), grid])
        integral = trapezoid(np.exp(model.score_samples(line)), grid)
        marginal = np.exp(model.score_samples([[x, np.nan]]))
        np.testing.assert_allclose(marginal, integral, rtol=1e-4)
    column = np.column_stack([grid, np.full_like(grid, np.nan)])
    np.testing.assert_allclose(trapezoid(np.exp(model.score_samples(column)), grid), 1, rtol=1e-4)
    np.testing.assert_allclose(model.score_samples([[np.nan, np.nan]]), 0.0, atol=1e-9)


def test_a_fit_to_incomplete_records_is_near_that_to_complete_ones():
    whole = OutTreeDensity("gaussian", max_iter=50).fit(X)
    holey = OutTreeDensity("gaussian", **{**OPTIONS, "max_iter": 30}).fit(HOLEY)
    new = np.random.default_rng(1).normal(size=(200, 2)) @ np.array([[1.0, 0.7], [0.0, 0.7]])
    difference = holey.score_samples(new) - whole.score_samples(new)
    assert abs(difference.mean()) < 0.3
    assert np.isnan(holey.X_).any()
    assert holey.completed_.shape == (20, 40, 2)
    known = ~np.isnan(HOLEY)
    np.testing.assert_allclose(holey.completed_[:, known], np.tile(X[known], (20, 1)))
    assert np.isfinite(holey.log_likelihood_)


def test_complete_records_are_fitted_as_ever():
    options = {"max_iter": 20, "tol": 1e-2}
    plain = OutTreeDensity("gaussian", **options).fit(X)
    same = OutTreeDensity("gaussian", missing="integrate", **options).fit(X)
    np.testing.assert_array_equal(plain.mutation_.params, same.mutation_.params)
    np.testing.assert_allclose(same.score_samples(X), plain.score_samples(X))
    row = np.array([[0.3, 0.5]])
    np.testing.assert_allclose(
        same.score_samples(np.vstack([row, [[np.nan, 0.0]]]))[0], plain.score_samples(row)[0]
    )
    assert same.tree_.n_records == 40


def test_trees_are_averaged_over_completions():
    model = OutTreeDensity("gaussian", **OPTIONS).fit(HOLEY)
    total = model.edge_marginals_.sum(axis=1) + model.root_marginals_
    np.testing.assert_allclose(total, 1.0, atol=1e-9)
    trees = model.sample_trees(50, random_state=0)
    assert trees.shape == (50, 40)
    assert ((trees == -1).sum(axis=1) == 1).all()
    with pytest.raises(ValueError, match="no single distribution over trees"):
        model.tree_  # noqa: B018, the property raises
    with pytest.raises(ValueError, match="log_predictive needs complete records"):
        model.log_predictive(X[:2])
    again = model.set_params(max_iter=200).fit(X)
    assert again.tree_.n_records == 40
    assert not hasattr(again, "completed_")


def test_a_fit_that_still_rises_has_not_converged():
    rising, level = np.arange(16.0), np.random.default_rng(0).normal(size=16)
    assert not _is_level(rising)
    assert _is_level(level)
    assert _is_level(np.zeros(1))


def test_categories_beside_numbers():
    table = np.column_stack(
        [HOLEY, np.where(RNG.random(40) < 0.2, np.nan, RNG.integers(3, size=40))]
    )
    groups = [(GaussianMutation(transition="scalar"), [0, 1]), (CategoricalMutation(), [2])]
    model = OutTreeDensity(ProductMutation(groups), **OPTIONS).fit(table)
    every = np.array([[0.1, 0.2, c] for c in (0.0, 1.0, 2.0)])
    total = np.exp(model.score_samples(every)).sum()
    np.testing.assert_allclose(total, np.exp(model.score_samples([[0.1, 0.2, np.nan]])), rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "lbfgs"},
        {"early_stopping": True},
        {"prior_strength": "auto"},
    ],
)
def test_options_without_meaning_for_hidden_cells_are_refused(options):
    with pytest.raises(ValueError, match=f"X has NaN and {next(iter(options))}="):
        OutTreeDensity(**{**OPTIONS, **options}).fit(HOLEY)
    with pytest.raises(ValueError, match="hidden cells can be integrated out for Gaussian and"):
        OutTreeDensity("kernel", **OPTIONS).fit(HOLEY)
    with pytest.raises(ValueError, match="column 1 is more than 1e"):
        OutTreeDensity("gaussian", **OPTIONS).fit(HOLEY + np.array([0.0, 1e7]))


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [OutTreeDensity("gaussian", missing="integrate", max_iter=5, random_state=0)]
)
def test_conformity(estimator, check):
    check(estimator)

"""OutTreeDensity: what its options do, and what a fit leaves behind."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from outtrees import OutTreeDensity
from outtrees.datasets import make_spiral
from outtrees.density.learning import PRIOR_STRENGTHS, split
from outtrees.inference.likelihood import leaf_log_density, log_likelihood, log_predictive_ratio
from outtrees.models import CategoricalMutation, GaussianMutation, MixtureMutation

X = make_spiral(100)
NEW = make_spiral(30, random_state=2)


@pytest.fixture(scope="module")
def model():
    return OutTreeDensity("gaussian").fit(X)


def test_log_predictive_is_the_papers_ratio(model):
    assert model.log_predictive(NEW[:9]) == log_predictive_ratio(model.mutation_, X, NEW[:9])


def test_the_last_value_is_likelihood_plus_prior(model):
    penalised = model.log_likelihood_ + model.mutation_.log_prior()
    assert model.log_likelihoods_[-1] == pytest.approx(penalised, rel=1e-12)
    assert model.mutation_.log_prior() < -0.1


def test_pickle_and_clone_keep_what_they_should(model):
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.score_samples(NEW), model.score_samples(NEW))
    fresh = clone(OutTreeDensity(GaussianMutation("diag"), tol=1e-2))
    assert (fresh.tol, fresh.mutation.covariance) == (1e-2, "diag")
    assert not hasattr(fresh, "mutation_")


def test_a_second_fit_forgets_the_first():
    model = OutTreeDensity("parzen", prior_strength="auto", cv=2, random_state=0).fit(X[:40])
    tree = model.tree_
    assert hasattr(model, "cv_results_")
    model.set_params(prior_strength=1.0).fit(X)
    assert not hasattr(model, "cv_results_")
    assert model.tree_ is not tree
    assert model.tree_.n_records == len(X)


def test_an_interrupted_fit_leaves_no_fit(monkeypatch):
    started = OutTreeDensity("parzen").fit(X[:30])

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("outtrees.density.learning.fit_mutation", interrupted)
    with pytest.raises(KeyboardInterrupt):
        started.fit(X)
    assert not hasattr(started, "mutation_")


def test_missing_cells_where_the_mutation_takes_them():
    rng = np.random.default_rng(0)
    cells = rng.integers(3, size=(40, 2)).astype(float)
    cells[rng.random(cells.shape) < 0.1] = np.nan
    model = OutTreeDensity(CategoricalMutation()).fit(cells)
    assert np.isfinite(model.score_samples(cells)).all()
    assert model.__sklearn_tags__().input_tags.allow_nan
    assert not OutTreeDensity("gaussian").__sklearn_tags__().input_tags.allow_nan


def test_more_columns_than_rows_are_fine_with_a_prior():
    wide = np.random.default_rng(0).normal(size=(6, 9))
    assert np.isfinite(OutTreeDensity("gaussian").fit(wide).score_samples(wide)).all()
    with pytest.raises(ValueError, match="'full' covariance needs more than 9 rows for 9 columns"):
        OutTreeDensity("gaussian", prior_strength=0).fit(wide)


def test_prior_strength_by_cross_validation_works_on_an_object_too():
    mutation = GaussianMutation(transition="identity")
    model = OutTreeDensity(mutation, prior_strength="auto", cv=2, random_state=0).fit(X[:50])
    table = model.cv_results_
    assert [p["prior_strength"] for p in table["params"]] == list(PRIOR_STRENGTHS)
    np.testing.assert_allclose(table["se_log_density"], table["std_log_density"] / np.sqrt(50))
    assert model.best_candidate_ == table["params"][int(np.argmax(table["mean_log_density"]))]
    assert model.mutation_.prior_strength == model.best_candidate_["prior_strength"]
    assert mutation.prior_strength == 1.0
    again = clone(model).fit(X[:50])
    np.testing.assert_array_equal(again.cv_results_["mean_log_density"], table["mean_log_density"])


def test_options_reach_the_mutation():
    options = {"n_components": 2, "prior_strength": 7.0, "reg_covar": 1e-3, "tol": 1.0}
    found = OutTreeDensity("mixture", random_state=0, **options).fit(X).mutation_
    assert isinstance(found, MixtureMutation)
    assert (found.n_iid, found.prior_strength, found.reg_covar) == (2, 7.0, 1e-3)


def test_early_stopping_scores_records_it_did_not_fit():
    model = OutTreeDensity("parzen", early_stopping=True, validation_fraction=0.25, random_state=0)
    model.fit(X)
    training, held_out = split(X, 0.25, 0)
    assert len(training) == 75
    assert {tuple(x) for x in np.vstack([training, held_out])} == {tuple(x) for x in X}
    start = GaussianMutation(transition="identity").start(training)
    first = log_likelihood(start, training) + start.log_prior()
    assert model.log_likelihoods_[0] == pytest.approx(first, rel=1e-12)
    scores = model.validation_scores_
    assert scores[0] == pytest.approx(leaf_log_density(start, training, held_out).mean())
    best = leaf_log_density(model.mutation_, training, held_out).mean()
    assert best == pytest.approx(scores.max())
    assert model.X_.shape == X.shape
    assert model.log_likelihood_ == pytest.approx(log_likelihood(model.mutation_, X), rel=1e-12)


@pytest.mark.parametrize("solver", ["em", "lbfgs", "gradient"])
def test_exhausted_iterations_warn_with_a_remedy(solver):
    model = OutTreeDensity("gaussian", solver=solver, max_iter=1)
    with pytest.warns(ConvergenceWarning, match=r"converge in max_iter=1 .* raise max_iter"):
        model.fit(X)
    assert (model.converged_, model.n_iter_) == (False, 1)


def test_verbose_prints_each_step(capsys):
    model = OutTreeDensity("parzen", verbose=1).fit(X[:40])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    assert lines[0].startswith("iteration 1: log posterior")

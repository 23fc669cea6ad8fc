"""OutTreeDensity over candidates: the dense fit where all are listed; refusals; saved models."""

import warnings

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.base import clone

from outtrees import OutTreeDensity
from outtrees.candidates.plan import CandidatesWarning, matrix_way
from outtrees.datasets import make_spiral
from outtrees.inference.likelihood import leaf_log_density, log_likelihood
from outtrees.trees.parents import are_out_trees

# With few candidates much probability is left out, which is told; a test of its own looks at that.
pytestmark = pytest.mark.filterwarnings("ignore:.*outside the candidates hold")


SPIRAL = make_spiral(80)
NEW = make_spiral(20, random_state=5)


@pytest.fixture(scope="module")
def model():
    return OutTreeDensity("mixture", candidates="knn", n_candidates=8, random_state=0).fit(SPIRAL)


@pytest.mark.parametrize("mutation", ["gaussian", "mixture", "poisson"])
def test_all_candidates_are_all_pairs(mutation):
    X = np.random.default_rng(0).poisson(4.0, size=(40, 2)) if mutation == "poisson" else SPIRAL
    options = {"max_iter": 8, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short fits, duplicates among counts
        dense = OutTreeDensity(mutation, candidates="dense", **options).fit(X)
        listed = OutTreeDensity(mutation, candidates="knn", n_candidates=len(X) - 1, **options)
        listed.fit(X)
    assert (dense.candidates_, listed.candidates_) == ("dense", "knn")
    np.testing.assert_allclose(listed.log_likelihoods_, dense.log_likelihoods_, rtol=1e-10)
    assert listed.log_likelihood_ == pytest.approx(dense.log_likelihood_, rel=1e-10)
    np.testing.assert_allclose(listed.score_samples(X), dense.score_samples(X), atol=1e-8)
    np.testing.assert_allclose(listed.edge_marginals_.toarray(), dense.edge_marginals_, atol=1e-8)
    assert (float(listed.dropped_mass_), listed.dropped_mass_.error) == (0.0, 0.0)
    assert listed.dropped_mass_.bound == 0.0


def test_what_a_fit_holds(model):
    T = len(SPIRAL)
    assert model.converged_
    assert model.n_iter_ + 1 == len(model.log_likelihoods_)
    assert model.tree_.listed
    assert issparse(model.edge_marginals_)
    assert model.candidate_edges_.shape[1] >= 8 * T
    assert model.edge_marginals_.nnz <= model.candidate_edges_.shape[1]
    np.testing.assert_allclose(
        model.edge_marginals_.sum(axis=1) + model.root_marginals_, 1.0, atol=1e-10
    )
    assert are_out_trees(model.sample_trees(3, random_state=0), single_root=True).all()
    # A bound, from the same trees that tree_ answers for.
    assert model.log_likelihood_ < log_likelihood(model.mutation_, SPIRAL)
    assert model.tree_.log_z - (T - 1) * np.log(T) == pytest.approx(model.log_likelihood_)
    assert model.sample(7, random_state=0)[0].shape == (7, 3)


def test_what_is_dropped_is_told(model):
    beta = np.exp(model.mutation_.log_conditional(SPIRAL, SPIRAL))
    np.fill_diagonal(beta, 0.0)
    kept = np.zeros_like(beta)
    kept[tuple(model.candidate_edges_)] = 1.0
    share = 1 - (beta * kept).sum(axis=1) / beta.sum(axis=1)
    assert model.dropped_mass_ == pytest.approx(share.mean())  # 80 records: all were looked at
    assert (model.dropped_mass_.error, model.dropped_mass_.kind) == (0.0, "exact")
    assert model.dropped_mass_ <= model.dropped_mass_.bound <= 1.0
    wider = clone(model).set_params(n_candidates=40).fit(SPIRAL)
    assert wider.dropped_mass_ < model.dropped_mass_


@pytest.mark.slow
def test_a_stack_over_candidates():
    several = OutTreeDensity("auto", candidates="knn", n_candidates=10, cv=2, max_iter=2)
    with pytest.warns(UserWarning, match="did not converge"):
        several.set_params(random_state=0).fit(SPIRAL[:30])
    assert several.candidates_ == "knn"
    assert several.cv_results_["weight"].sum() == pytest.approx(1.0)


def test_densities_are_those_of_all_training_records(model):
    np.testing.assert_array_equal(
        model.score_samples(NEW), leaf_log_density(model.mutation_, SPIRAL, NEW)
    )
    assert model.score_samples(NEW[3:4])[0] == pytest.approx(model.score_samples(NEW)[3])


def test_a_fit_over_few_candidates_is_close_to_the_dense_one(model):
    dense = OutTreeDensity("mixture", random_state=0).fit(SPIRAL)
    gap = model.score_samples(NEW).mean() - dense.score_samples(NEW).mean()
    assert abs(gap) < 0.15  # nats per record, of 80 records


def test_saved_and_loaded(model, tmp_path):
    pytest.importorskip("safetensors")
    from outtrees.io import load, save

    back = load(save(model, tmp_path / "model"))
    assert back.get_params() == model.get_params()
    assert back.score_samples(NEW).tobytes() == model.score_samples(NEW).tobytes()
    assert back.edge_marginals_.data.tobytes() == model.edge_marginals_.data.tobytes()
    assert back.dropped_mass_ == model.dropped_mass_


def test_a_dense_refit_forgets_the_list(model):
    again = clone(model).fit(SPIRAL[:30])
    again.set_params(candidates="dense").fit(SPIRAL[:30])
    assert not hasattr(again, "candidate_edges_")
    assert not hasattr(again, "dropped_mass_")
    assert again.edge_marginals_.shape == (30, 30)
    assert not issparse(again.edge_marginals_)


def test_early_stopping_and_choices():
    stopped = OutTreeDensity(
        "gaussian",
        candidates="knn",
        n_candidates=6,
        early_stopping=True,
        random_state=0,
        max_iter=30,
    ).fit(SPIRAL[:40])
    assert len(stopped.validation_scores_) >= 2
    assert len(stopped.X_) == 40
    chosen = OutTreeDensity(
        "parzen", candidates="knn", n_candidates=6, prior_strength="auto", cv=2, random_state=0
    ).fit(SPIRAL[:24])
    assert "prior_strength" in chosen.best_candidate_


# Which way a fit goes ------------------------------------------------------------------------


def test_auto_goes_by_the_number_of_records(monkeypatch):
    model = OutTreeDensity("parzen", n_candidates=40, random_state=0)
    assert model.fit(SPIRAL).candidates_ == "dense"
    monkeypatch.setattr("outtrees.candidates.plan.MOST_DENSE_MATRIX", 79)
    with pytest.warns(CandidatesWarning, match="All pairs of 80 records would take very") as told:
        model.fit(SPIRAL)
    assert model.candidates_ == "knn"
    assert [warning.filename for warning in told] == [__file__]  # where the user called fit


@pytest.mark.filterwarnings("default")
def test_much_probability_left_out_is_told():
    model = OutTreeDensity("gaussian", candidates="knn", n_candidates=1, random_state=0)
    with pytest.warns(
        CandidatesWarning, match=r"outside the candidates hold .*%.*; raise n_cand"
    ) as told:
        model.fit(SPIRAL)
    assert model.dropped_mass_.mean > 0.01
    assert told[0].filename == __file__


def test_what_does_not_fit_is_refused_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: 10**9)
    dense = OutTreeDensity("gaussian", candidates="dense")
    with pytest.raises(
        MemoryError, match=r"60,000 records need about 460.8 GB .*; 1.0 GB are free"
    ):
        matrix_way(dense, 60_000)
    with pytest.raises(MemoryError, match="Use candidates='knn'"):
        matrix_way(dense, 60_000)
    with pytest.raises(MemoryError, match="options chosen here need all pairs"):
        matrix_way(OutTreeDensity("gaussian", solver="lbfgs"), 60_000, can_be_sparse=False)
    assert matrix_way(OutTreeDensity("gaussian", candidates="knn"), 60_000) == "knn"
    # Nor is a list of edges made that would not fit.
    for way in ("knn", "auto"):
        with pytest.raises(
            MemoryError, match=r"candidates of 1,000,000 records need .* GB.*smaller n_candidates"
        ):
            matrix_way(OutTreeDensity("gaussian", candidates=way), 1_000_000)
    # Fits at the same time need memory at the same time.
    assert matrix_way(dense, 2500, n_jobs=1) == "dense"
    with pytest.raises(MemoryError):
        matrix_way(dense, 2500, n_jobs=2)


def test_refusals(model):
    with pytest.raises(ValueError, match="log_predictive needs the sum over all trees"):
        model.log_predictive(NEW)
    with pytest.raises(ValueError, match=r"solver must be 'em' for .*; got 'lbfgs'"):
        OutTreeDensity("gaussian", solver="lbfgs", candidates="knn").fit(SPIRAL)
    with pytest.raises(ValueError, match="missing='integrate' needs all pairs"):
        OutTreeDensity("gaussian", missing="integrate", candidates="knn").fit(
            np.where(SPIRAL > 1.4, np.nan, SPIRAL)
        )
    for wrong in ({"candidates": "sparse"}, {"n_candidates": 0}, {"n_candidates": 2.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            OutTreeDensity(**wrong).fit(SPIRAL)

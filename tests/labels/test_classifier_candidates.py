"""OutTreeClassifier over candidates: labels along trees of listed edges."""

import numpy as np
import pytest
from scipy.sparse import issparse

from outtrees.candidates.plan import CandidatesWarning
from outtrees.labels import classifier
from outtrees.labels.classifier import OutTreeClassifier
from outtrees.labels.model import FOUNDERS

# With few candidates much probability is left out, which is told; a test of its own looks at that.
pytestmark = pytest.mark.filterwarnings("ignore:.*outside the candidates hold")


FEW = {"n_chains": 2, "n_draws": 30, "burn_in": 5, "random_state": 0}
FIXED = {**FEW, "stickiness": 0.9, "sharpness": 1.0}


def moons(n=40, seed=0, n_known=4):
    """Two half circles, a few labels known in each."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, np.pi, n)
    upper = np.column_stack([np.cos(t), np.sin(t)])
    X = np.concatenate([upper, [1.0, 0.4] - upper]) + 0.05 * rng.normal(size=(2 * n, 2))
    truth = np.repeat([0, 1], n)
    y = np.full(2 * n, -1)
    known = np.concatenate([rng.permutation(n)[:n_known], n + rng.permutation(n)[:n_known]])
    y[known] = truth[known]
    return X, y, truth


@pytest.mark.parametrize("joint", [False, "fresh"])
def test_few_candidates_find_the_labels(joint):
    X, y, truth = moons()
    model = OutTreeClassifier(candidates="knn", n_candidates=6, joint=joint, **FIXED).fit(X, y)
    assert model.candidates_ == "knn"
    assert (model.transduction_ == truth).mean() > 0.95
    assert (model.predict(X) == truth).mean() > 0.95
    assert issparse(model.edge_marginals_)
    np.testing.assert_allclose(
        model.edge_marginals_.sum(axis=1) + model.root_marginals_, 1.0, atol=1e-10
    )
    assert 0 < model.dropped_mass_ < 1
    assert model.dropped_mass_ <= model.dropped_mass_.bound + 4 * model.dropped_mass_.error


def test_all_candidates_are_all_pairs():
    """The same posterior, drawn with other numbers: within the errors of both."""
    X, y, _ = moons(10)
    options = {**FEW, "n_draws": 100, "stickiness": 0.8, "sharpness": 0.5}
    dense = OutTreeClassifier(candidates="dense", **options).fit(X, y)
    listed = OutTreeClassifier(candidates="knn", n_candidates=19, **options).fit(X, y)
    np.testing.assert_allclose(listed.mutation_.params, dense.mutation_.params, rtol=1e-8)
    assert listed.dropped_mass_ == 0.0
    error = np.hypot(dense.label_errors_, listed.label_errors_)
    gap = np.abs(dense.label_distributions_ - listed.label_distributions_)
    # 32 numbers are compared; errors are themselves estimated, from 20 batches.
    assert (gap <= 5 * error + 1e-9).all()
    assert error.max() < 0.1


@pytest.mark.filterwarnings("ignore:.*the chains disagree")  # too few steps: settings matter here
def test_settings_are_the_dense_ones_where_records_are_few():
    X, y, _ = moons(15)
    dense = OutTreeClassifier(candidates="dense", **FEW).fit(X, y)
    listed = OutTreeClassifier(candidates="knn", n_candidates=29, **FEW).fit(X, y)
    assert (listed.stickiness_, listed.sharpness_) == (dense.stickiness_, dense.sharpness_)
    scores = dense.choice_.scores[dense.choice_.fresh != FOUNDERS]  # which need all pairs
    np.testing.assert_allclose(listed.choice_.scores, scores, rtol=1e-6)


def test_settings_are_chosen_in_neighbourhoods_where_records_are_many(monkeypatch):
    monkeypatch.setattr(classifier, "_CHOICE_RECORDS", 30)
    X, y, truth = moons(40, n_known=12)
    model = OutTreeClassifier(candidates="knn", n_candidates=6, **FEW).fit(X, y)
    assert model.choice_ is not None
    assert (model.transduction_ == truth).mean() > 0.9


def test_saved_and_loaded(tmp_path):
    pytest.importorskip("safetensors")
    from outtrees.io import load, save

    X, y, _ = moons(12)
    model = OutTreeClassifier(candidates="knn", n_candidates=5, **FIXED).fit(X, y)
    back = load(save(model, tmp_path / "model"))
    assert back.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    assert back.edge_marginals_.data.tobytes() == model.edge_marginals_.data.tobytes()
    assert back.get_params() == model.get_params()


def test_auto_goes_by_the_number_of_records(monkeypatch):
    X, y, _ = moons(30)
    model = OutTreeClassifier(n_candidates=5, **FIXED)
    model.fit(X, y)
    assert model.candidates_ == "dense"
    assert not hasattr(model, "dropped_mass_")
    monkeypatch.setattr("outtrees.candidates.plan.MOST_DENSE_MATRIX", 29)
    with pytest.warns(CandidatesWarning, match="only the 5 best candidate parents"):
        model.fit(X, y)
    assert model.candidates_ == "knn"
    monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: 8 * 16 * len(X) ** 2 - 1)
    with pytest.raises(MemoryError, match="options chosen here need all pairs"):
        OutTreeClassifier(method="hill-climb", **FIXED).fit(X, y)


@pytest.mark.parametrize("wrong", [{"method": "hill-climb"}, {"joint": True}], ids=str)
def test_what_needs_all_pairs_is_refused(wrong):
    X, y, _ = moons(12)
    with pytest.raises(ValueError, match="candidates='knn' is for method='posterior'"):
        OutTreeClassifier(candidates="knn", **wrong, **FIXED).fit(X, y)

"""Every estimator, saved and loaded, gives the same answers to the last bit."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

pytest.importorskip("safetensors")

from outtrees.ancestry import Ancestry
from outtrees.bayes.estimator import BayesianOutTree
from outtrees.density.estimator import OutTreeDensity
from outtrees.imputation.imputer import OutTreeImputer
from outtrees.io import load, save
from outtrees.labels.classifier import OutTreeClassifier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(14, 3))
NEW = RNG.normal(size=(6, 3))
LABELS = np.array([0, 1, 2] * 3 + [-1] * 5)
GAPS = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
MIXED = np.column_stack([GAPS[:, :2], np.array([0.0, 1.0, np.nan, 2.0, 1.0, 0.0, 1.0] * 2)])


def quietly(fit, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # short fits are fits
        return fit(*arguments, **options)


def saved(model, tmp_path):
    return load(save(model, tmp_path / "model"))


# A dozen records under families with many parameters: their draws cannot be trusted, and what is
# read back must be the same all the same.
@pytest.mark.filterwarnings("ignore:edge_marginals_ and root_marginals_ may be off")
@pytest.mark.parametrize("mutation", ["gaussian", "kernel", "mixture", "columns"])
def test_bayesian(tmp_path, mutation):
    model = quietly(BayesianOutTree(mutation, max_iter=3, random_state=0).fit, X)
    back = saved(model, tmp_path)
    assert back.score_samples(NEW).tobytes() == model.score_samples(NEW).tobytes()
    assert back.edge_marginals_.tobytes() == model.edge_marginals_.tobytes()
    assert back.lower_bound_ == model.lower_bound_


@pytest.mark.parametrize(
    "options",
    [{"method": "posterior"}, {"joint": True}, {"n_components": 2}],
    ids=lambda options: next(iter(options)),
)
def test_classifier(tmp_path, options):
    model = OutTreeClassifier(
        n_draws=5, n_chains=2, burn_in=1, stickiness=0.8, random_state=0, **options
    )
    back = saved(quietly(model.fit, X, LABELS), tmp_path)
    assert back.predict_proba(NEW).tobytes() == model.predict_proba(NEW).tobytes()
    assert back.transduction_.tobytes() == model.transduction_.tobytes()
    assert back.edge_marginals_.tobytes() == model.edge_marginals_.tobytes()


@pytest.mark.parametrize(
    ("table", "categorical"), [(GAPS, "auto"), (MIXED, [2])], ids=["continuous", "mixed"]
)
def test_imputer(tmp_path, table, categorical):
    model = OutTreeImputer(
        categorical=categorical, n_draws=3, n_chains=2, burn_in=1, max_iter=2, random_state=0
    )
    quietly(model.fit, table)
    back = saved(model, tmp_path)
    assert back.transform(table).tobytes() == model.transform(table).tobytes()
    other = table[::-1][:5].copy()
    assert back.transform(other).tobytes() == model.transform(other).tobytes()


def test_ancestry(tmp_path):
    T = 10
    ids = [f"r{i}" for i in range(T)]
    table = {
        "id": ids,
        "onset": [f"2020-03-{i + 1:02d}" for i in range(T - 1)] + ["2020-03"],
        "x": RNG.normal(size=T),
        "ward": list("ABBABAABBA"),
        "visits": [0, 3, 1, 2, 7, 4, 9, 6, 5, 12],
        "lat": 52 + RNG.random(T),
        "lon": 13 + RNG.random(T),
    }
    letters = np.array(list("ACGT"))[RNG.integers(4, size=(T, 30))]
    sequences = {name: "".join(row) for name, row in zip(ids, letters, strict=True)}
    forbidden = {("r3", "r2"), ("r4", "r2")}
    model = Ancestry(max_iter=4, forbidden=forbidden, progress=lambda *_: None, random_state=0)
    quietly(model.fit, table, sequences=sequences)
    back = saved(model, tmp_path)
    assert back.progress is None
    assert back.forbidden == model.forbidden
    for answer in ("parents", "credible_parents", "readings", "describe"):
        assert repr(getattr(back, answer)()) == repr(getattr(model, answer)())
    evidence = [repr(one.column_evidence(1, random_state=0)) for one in (back, model)]
    assert evidence[0] == evidence[1]
    assert [one.weight for one in back.readings_] == [one.weight for one in model.readings_]
    assert (back.left_out_, back.column_gains_) == (model.left_out_, model.column_gains_)
    assert back.fitted.log_weight.tobytes() == model.fitted.log_weight.tobytes()
    assert back.log_likelihood_ == model.log_likelihood_
    np.testing.assert_array_equal(back.tree(), model.tree())
    assert back.to_newick() == model.to_newick()
    assert back.records.describe() == model.records.describe()


def test_density_of_incomplete_records(tmp_path):
    """What was integrated out stays so: the completions are saved with the model."""
    model = quietly(
        OutTreeDensity("gaussian", missing="integrate", max_iter=3, random_state=0).fit, GAPS
    )
    back = saved(model, tmp_path)
    assert back.score_samples(GAPS).tobytes() == model.score_samples(GAPS).tobytes()
    assert back.edge_marginals_.tobytes() == model.edge_marginals_.tobytes()

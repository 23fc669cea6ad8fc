"""What may not matter to any estimator: order of rows and columns, units, names, threads, batches.

Records are exchangeable (paper, section 1). Each estimator is asked the same of the same records in
another form. Seeds stay as they are: random starts, folds and chains may not depend on the form.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from outtrees import (
    Ancestry,
    BayesianOutTree,
    OutTreeClassifier,
    OutTreeDensity,
    OutTreeImputer,
)
from outtrees._common.order import record_order
from outtrees.models import KernelMutation

# Three clouds for 30 records are too many for draws that can be trusted (Pareto k 1.05); what does
# not matter may not matter to them either.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:edge_marginals_ and root_marginals_ may be off"),
]

CHAINS: dict[str, Any] = {"n_chains": 2, "n_draws": 8, "random_state": 0}
# Fits end within 1e-4 nats of a maximum: sums in another order end at another point there.
CLOSE = 2e-3


def clouds(n=30, seed=0):
    """Return records in three clouds of different widths, and which cloud each is from."""
    rng = np.random.default_rng(seed)
    cloud = rng.integers(3, size=n)
    centres = 2.5 * np.random.default_rng(0).normal(size=(3, 3))
    return centres[cloud] + rng.normal(size=(n, 3)) * [0.4, 0.8, 1.2], cloud


def holed(X):
    holes = np.random.default_rng(1).random(X.shape) < 0.12
    holes[holes.all(axis=1)] = False
    return np.where(holes, np.nan, X)


@dataclass
class Answers:
    """What an estimator says, by what it is about."""

    records: dict[str, Any] = field(default_factory=dict)  # (T, …)
    pairs: dict[str, Any] = field(default_factory=dict)  # (T, T)
    densities: dict[str, Any] = field(default_factory=dict)  # (n,), log, of new records
    new: dict[str, Any] = field(default_factory=dict)  # (n, …) of new records
    cells: dict[str, Any] = field(default_factory=dict)  # (T, D), in the units of the columns
    single: dict[str, float] = field(default_factory=dict)


X, CLOUD = clouds()
NEW = clouds(6, seed=5)[0]
Y = np.where(np.random.default_rng(3).random(len(X)) < 0.5, CLOUD, -1)


def density_answers(model, X, new, ignored):
    model.fit(X)
    pairs = model.edge_marginals_
    return Answers(
        records={"root": model.root_marginals_},
        pairs={"edge": pairs.toarray() if hasattr(pairs, "toarray") else pairs},
        densities={"density": model.score_samples(new)},
    )


def label_answers(model, X, new, y):
    model.fit(X, y)
    return Answers(
        records={"labels": model.label_distributions_, "errors": model.label_errors_},
        pairs={"edge": model.edge_marginals_},
        new={"labels": model.predict_proba(new)},
        single={"stickiness": model.stickiness_, "sharpness": model.sharpness_},
    )


def imputed_answers(model, X, new, ignored):
    filled = model.fit_transform(X)
    return Answers(
        cells={"filled": filled, "std": model.std_, "error": model.standard_error_},
    )


def density(*arguments, **options):
    return density_answers, OutTreeDensity(*arguments, **options), X


CASES = {
    "gaussian": density("gaussian"),
    "default": density(random_state=0),
    "parzen": density("parzen"),
    "iid": density("iid"),
    "landmarks": density(KernelMutation(n_landmarks=10), random_state=0),
    "mixture": density("mixture", n_components=3, random_state=0),
    "folds": density("parzen", prior_strength="auto", cv=3, random_state=0),
    "held-out": density("parzen", early_stopping=True, random_state=0),
    "knn": density("mixture", candidates="knn", n_candidates=8, random_state=0),
    "hidden-cells": (
        density_answers,
        OutTreeDensity("parzen", missing="integrate", max_iter=4, random_state=0),
        holed(X),
    ),
    "bayes": (density_answers, BayesianOutTree("gaussian"), X),
    "bayes-mixture": (
        density_answers,
        BayesianOutTree("mixture", n_components=3, random_state=0),
        X,
    ),
    "labels": (label_answers, OutTreeClassifier(**CHAINS), X),
    "labels-given": (
        label_answers,
        OutTreeClassifier(stickiness=0.9, sharpness=1.0, joint="fresh", **CHAINS),
        X,
    ),
    "labels-climbed": (
        label_answers,
        OutTreeClassifier(
            method="hill-climb", stickiness=0.9, sharpness=1.0, n_init=2, random_state=0
        ),
        X,
    ),
    "imputer": (imputed_answers, OutTreeImputer("gaussian", max_iter=4, **CHAINS), holed(X)),
    "imputer-mixture": (
        imputed_answers,
        OutTreeImputer("mixture", max_iter=4, **CHAINS),
        holed(X),
    ),
}
SLOW_CASES = {
    "columns": density("columns", random_state=0),
    "stack": density("auto", cv=2, random_state=0),
    "bayes-stack": (density_answers, BayesianOutTree("auto", random_state=0, max_iter=30), X),
    "imputer-stack": (imputed_answers, OutTreeImputer(max_iter=3, **CHAINS), holed(X)),
}
ALL = {**CASES, **SLOW_CASES}
NAMES = [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_CASES)]


@pytest.fixture(scope="module")
def as_given():
    """Return what each estimator says of the records as they are, found once."""
    found: dict[str, Answers] = {}

    def answers(name):
        if name not in found:
            ask, model, X = ALL[name]
            found[name] = ask(model, X, NEW, Y)
        return found[name]

    return answers


def assert_same(found, expected, tolerance=CLOSE):
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], atol=tolerance, rtol=0, err_msg=name)


@pytest.mark.parametrize("name", NAMES)
def test_order_of_rows(name, as_given):
    ask, model, X = ALL[name]
    order = np.random.default_rng(7).permutation(len(X))
    before, after = as_given(name), ask(model, X[order], NEW, Y[order])
    assert_same(after.records, {k: v[order] for k, v in before.records.items()})
    assert_same(after.cells, {k: v[order] for k, v in before.cells.items()})
    assert_same(after.pairs, {k: v[np.ix_(order, order)] for k, v in before.pairs.items()})
    for part in ("densities", "new", "single"):
        assert_same(getattr(after, part), getattr(before, part))


# Covariances climb as Cholesky factors, which know the order of columns: accelerated steps take
# another way to the same maximum. Where a fit ends on the way, it ends a little elsewhere.
ON_THE_WAY = {"held-out": 0.02}


@pytest.mark.parametrize("name", NAMES)
def test_order_of_columns(name, as_given):
    if name == "gaussian":
        pytest.skip("these few records have two maxima 0.4 nats apart, and each way finds one")
    if name == "default":
        pytest.skip("its partitions are sampled, the scales of columns in their order")
    if name == "knn":
        pytest.skip("where its maximum is flat, other records are the likeliest eight")
    if name == "hidden-cells":
        pytest.skip("its chains draw the cells of a record column by column, and report no error")
    ask, model, X = ALL[name]
    columns = [2, 0, 1]
    before, after = as_given(name), ask(model, X[:, columns], NEW[:, columns], Y)
    if after.cells:  # chains that draw column by column agree within their errors
        error = np.hypot(before.cells["error"][:, columns], after.cells["error"])
        apart = after.cells["filled"] - before.cells["filled"][:, columns]
        assert (np.abs(apart) <= 6 * error + 1e-9).mean() > 0.98
    # Supports of Bayesian trees average over draws, whose numbers go to the columns in their order.
    about = () if name.startswith("bayes") else ("records", "pairs")
    for part in (*about, "densities", "new", "single"):
        tolerance = ON_THE_WAY.get(name, CLOSE)
        assert_same(getattr(after, part), getattr(before, part), tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_units_and_offsets(name, as_given):
    if name == "landmarks":
        pytest.skip("the width of its kernel is one length in all columns")
    ask, model, X = ALL[name]
    units, offsets = np.array([256.0, 0.25, 4.0]), np.array([-3.0, 100.0, 0.5])
    before, after = as_given(name), ask(model, X * units + offsets, NEW * units + offsets, Y)
    volume = np.log(units).sum()
    shift = {"filled": offsets}
    in_units = {k: v * units + shift.get(k, 0.0) for k, v in before.cells.items()}
    assert_same(
        {k: v / units for k, v in after.cells.items()}, {k: v / units for k, v in in_units.items()}
    )
    assert_same(after.densities, {k: v - volume for k, v in before.densities.items()})
    for part in ("records", "pairs", "new", "single"):
        assert_same(getattr(after, part), getattr(before, part))


@pytest.mark.parametrize("name", ["mixture", "bayes-mixture", "labels-given", "imputer"])
def test_threads(name, as_given):
    ask, model, X = ALL[name]
    with threadpool_limits(2):
        found = ask(model, X, NEW, Y)
    for part in vars(found):
        assert_same(getattr(found, part), getattr(as_given(name), part))


@pytest.mark.parametrize("name", ["mixture", "knn", "bayes-mixture", "labels-given"])
def test_new_records_one_by_one(name):
    ask, model, X = ALL[name]
    ask(model, X, NEW, Y)
    answer = model.predict_proba if hasattr(model, "predict_proba") else model.score_samples
    alone = np.concatenate([answer(record[None]) for record in NEW])
    # The same but for the order of sums in BLAS, which depends on the shape.
    np.testing.assert_allclose(answer(NEW), alone, rtol=1e-12, atol=1e-12)


def test_names_of_classes():
    model, X = ALL["labels-given"][1:]
    names = np.array(["a", "b", "c", "?"])  # in the order of the numbers
    numbered, named = model.fit(X, Y).label_distributions_, OutTreeClassifier(**model.get_params())
    named.set_params(unlabeled="?").fit(X, names[Y])
    np.testing.assert_array_equal(numbered, named.label_distributions_)
    # In another order of the names the chains draw other labels: the same within their errors.
    names = np.array(["z", "y", "x", "?"])
    named.set_params(n_draws=60).fit(X, names[Y])
    longer = OutTreeClassifier(**{**model.get_params(), "n_draws": 60}).fit(X, Y)
    apart = named.label_distributions_[:, ::-1] - longer.label_distributions_
    error = np.hypot(named.label_errors_[:, ::-1], longer.label_errors_)
    assert (np.abs(apart) <= 5 * error + 1e-9).all()


def test_names_of_categories():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.integers(3, size=(10, 4)), 4, axis=0)
    X = np.where(rng.random(X.shape) < 0.2, rng.integers(3, size=X.shape), X).astype(float)
    codes = np.array([7.0, -1.0, 2.5])[X.astype(int)]
    plain, coded = (OutTreeDensity("categorical").fit(table) for table in (X, codes))
    np.testing.assert_allclose(
        coded.score_samples(codes[:5]), plain.score_samples(X[:5]), atol=CLOSE
    )
    np.testing.assert_allclose(coded.edge_marginals_, plain.edge_marginals_, atol=CLOSE)


@pytest.mark.parametrize("name", ["labels", "labels-given", "imputer", "imputer-mixture"])
def test_seeds_within_errors(name):
    """Chains of other seeds say the same within five of their reported errors."""
    ask, model, X = ALL[name]
    options = {**model.get_params(), "n_draws": 40}
    found = [ask(type(model)(**options | {"random_state": s}), X, NEW, Y) for s in range(3)]
    for other in found[1:]:
        for part, value, error in (("records", "labels", "errors"), ("cells", "filled", "error")):
            one, two = getattr(found[0], part), getattr(other, part)
            if value in one:
                bar = 5 * np.hypot(one[error], two[error]) + 1e-9
                assert (np.abs(one[value] - two[value]) <= bar).all(), value


@pytest.mark.parametrize("name", ["folds", "knn"])
def test_seeds_of_folds_and_samples_of_parents(name, as_given):
    """Where a seed chooses only what is held out, or which pairs are looked at, fits agree."""
    ask, model, X = ALL[name]
    found = ask(type(model)(**model.get_params() | {"random_state": 1}), X, NEW, Y)
    for part in ("records", "pairs", "densities"):
        assert_same(getattr(found, part), getattr(as_given(name), part))


def test_seeds_of_an_ancestry():
    """Supports of fitted parameters do not depend on the seed; sampled ones within their errors."""
    table = small_table()
    models = [
        Ancestry(id="case", random_state=seed, parameters="fitted").fit(table) for seed in range(2)
    ]
    one, two = (supports(model) for model in models)
    assert one == two
    limited = [model.limited_parents(2, 0.0, n_sweeps=1000) for model in models]
    one, two = (
        {(row.child, row.parent): (row.support, row.error) for row in found} for found in limited
    )
    for edge in one.keys() | two.keys():
        (p, error), (q, other) = one.get(edge, (0.0, 0.0)), two.get(edge, (0.0, 0.0))
        assert abs(p - q) <= 5 * np.hypot(error, other) + 1e-3, edge


def test_cells_of_new_records_one_by_one():
    model, X = ALL["imputer"][1:]
    model = type(model)(**model.get_params()).fit(X)
    new = NEW.copy()
    new[[0, 2, 3], [1, 0, 2]] = np.nan
    alone = np.concatenate([model.transform(record[None]) for record in new])
    np.testing.assert_allclose(model.transform(new), alone, rtol=1e-10, atol=1e-10)


def test_names_of_categories_of_an_imputer():
    """In the same order of the names, the same; in another, within the errors."""
    rng = np.random.default_rng(0)
    codes = np.repeat(rng.integers(3, size=10), 3)
    other = np.where(rng.random(30) < 0.2, rng.integers(3, size=30), codes)
    hidden = rng.random(30) < 0.2
    found = {}
    for names in ("abc", "pqr", "zyx"):
        first, second = (np.array(list(names))[c].astype(object) for c in (codes, other))
        second[hidden] = np.nan
        model = OutTreeImputer("categorical", max_iter=4, **CHAINS | {"n_draws": 40})
        model.fit(np.column_stack([first, second]))
        order = np.argsort(np.argsort(list(names)))
        found[names] = model.probabilities_[1][:, order], model.standard_error_[:, 1]
    np.testing.assert_array_equal(found["abc"][0], found["pqr"][0])
    apart = np.abs(found["abc"][0] - found["zyx"][0]).max(axis=1)
    assert (apart <= 5 * np.hypot(found["abc"][1], found["zyx"][1]) + 1e-9).all()


def supports(model):
    """Return the support of each pair (child, parent) of names."""
    table = model.parents(min_support=0.0)
    return dict(
        zip(zip(table["child"], table["parent"], strict=True), table["support"], strict=True)
    )


def small_table(n=14):
    rng = np.random.default_rng(2)
    day = np.cumsum(rng.integers(1, 5, size=n))
    x = np.cumsum(rng.normal(size=n)) * 3.0
    return {
        "case": [f"c{i}" for i in range(n)],
        "day": day.tolist(),
        "x": x.tolist(),
        "ward": [str(w) for w in rng.integers(3, size=n)],
    }


def test_order_of_the_rows_of_a_table():
    table = small_table()
    order = np.random.default_rng(3).permutation(len(table["case"]))
    shuffled = {name: [column[i] for i in order] for name, column in table.items()}
    renamed = dict(table)
    renamed["ward"] = [{"0": "north", "1": "a", "2": "m"}[w] for w in table["ward"]]
    others = dict(reversed(table.items()))
    moved = {**table, "x": [1000.0 * value + 7.0 for value in table["x"]]}
    before = supports(Ancestry(id="case").fit(table))
    for form in (shuffled, renamed, others, moved):
        found = supports(Ancestry(id="case").fit(form))
        assert found.keys() == before.keys()
        for edge, support in before.items():
            assert found[edge] == pytest.approx(support, abs=1e-4), edge


def test_the_order_of_records_is_that_of_their_values():
    rng = np.random.default_rng(0)
    X = rng.integers(4, size=(60, 3)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(2, size=60)
    sorted_X = X[record_order(X, y)]
    for _ in range(5):
        p = rng.permutation(60)
        found = record_order(X[p], y[p])
        np.testing.assert_array_equal(X[p][found], sorted_X)
        columns = rng.permutation(3)
        other = X[p][:, columns] * [2.0, 0.5, 8.0] - 3.0
        np.testing.assert_array_equal(record_order(other, y[p]), found)
    assert not np.array_equal(record_order(X), record_order(X, y))
    # No column has the last word: sorted by any of them the order would be another.
    assert all((np.diff(column[~np.isnan(column)]) < 0).any() for column in sorted_X.T)

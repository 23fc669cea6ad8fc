"""Data frames of categories, dates and numbers: as numbers, and back."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from outtrees import OutTreeClassifier, OutTreeDensity, OutTreeImputer, RecordsError, load, save
from outtrees.inference.frames import coded_frame
from outtrees.models import CategoricalMutation, GaussianMutation, ProductMutation, make_mutation
from outtrees.models.column import ColumnMutation
from outtrees.models.normal import Reversion


def frame(n=30, seed=0):
    rng = np.random.default_rng(seed)
    day = pd.to_timedelta(rng.integers(0, 30, n), "D")
    return pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "ward": pd.Categorical(rng.choice(["S", "N"], n)),
            "when": pd.Timestamp("2020-03-05") + day,
            "sick": rng.random(n) < 0.5,
            "street": rng.choice(["b", "a", "c"], n),
        }
    )


def by_hand(table):
    """Codes of the same table, written without the code under test."""
    days = (table["when"] - pd.Timestamp("1970-01-01")).dt.days
    wards, streets = {"N": 0, "S": 1}, {"a": 0, "b": 1, "c": 2}
    return np.column_stack(
        [
            table["x"],
            [wards.get(w, np.nan) for w in table["ward"]],
            days,
            table["sick"].astype(float),
            [streets[s] for s in table["street"]],
        ]
    )


def test_densities_are_those_of_the_product_of_the_kinds():
    table = frame()
    table.loc[3, "ward"] = None
    product = ProductMutation([(GaussianMutation(), [0, 2]), (CategoricalMutation(), [1, 3, 4])])
    expected = OutTreeDensity(product, random_state=0).fit(by_hand(table))
    found = OutTreeDensity(random_state=0).fit(table)
    np.testing.assert_allclose(
        found.score_samples(table), expected.score_samples(by_hand(table)), rtol=1e-10
    )
    assert found.feature_names_in_.tolist() == list(table.columns)
    assert [column["kind"] for column in found.table_columns_.values()] == [
        *("continuous", "categorical", "date", "categorical", "categorical")
    ]


def test_pandas_and_polars_agree_and_texts_are_dates_where_they_look_so(tmp_path):
    table = frame()
    model = OutTreeDensity("gaussian", random_state=0).fit(table)
    scores = model.score_samples(table)
    again = OutTreeDensity("gaussian", random_state=0).fit(pl.from_pandas(table))
    np.testing.assert_array_equal(again.score_samples(pl.from_pandas(table)), scores)
    texts = table.assign(when=table["when"].dt.strftime("%Y-%m-%d"), ward=table["ward"].astype(str))
    np.testing.assert_array_equal(model.score_samples(texts), scores)
    save(model, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").score_samples(table), scores)


def test_drawn_records_have_the_categories_and_dates_of_the_frame():
    drawn = OutTreeDensity("gaussian").fit(frame()).sample_table(20, random_state=0)
    assert drawn.columns == ("parent", *frame().columns)
    assert set(drawn["ward"]) == {"N", "S"}
    assert {when.year for when in drawn["when"]} == {2020}
    assert sum(parent == -1 for parent in drawn["parent"]) == 1


def test_a_frame_of_numbers_is_left_alone():
    numbers = frame()[["x"]].assign(n=1)
    model = OutTreeDensity("gaussian")
    assert coded_frame(model, numbers, reset=True) is numbers
    assert not hasattr(model, "table_columns_")
    model.fit(frame())
    model.fit(numbers.assign(n=np.arange(30)))
    assert not hasattr(model, "table_columns_")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ward": "Q"}, r"column 'ward' .* at the fit \(N, S\); got 'Q' in row 0\. Mark"),
        ({"x": np.nan}, r"column 'x' has no value in row 0 \(30 empty in all\)"),
    ],
)
def test_new_records_that_do_not_fit_are_named(change, message):
    model = OutTreeDensity("gaussian").fit(frame())
    with pytest.raises(RecordsError, match=message):
        model.score_samples(frame().assign(**change))


def test_other_columns_than_those_of_the_fit_are_named():
    model = OutTreeDensity("gaussian").fit(frame())
    for other in (frame()[["when", "x", "ward", "sick", "street"]], frame().drop(columns="sick")):
        names = ", ".join(map(repr, other.columns))
        with pytest.raises(RecordsError, match=rf"in their order \('x', 'ward', .* got {names}\. "):
            model.score_samples(other)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([f"note {i}" for i in range(30)], "column 'new' must be .* got text, 30 values that"),
        ([(1, 2)] * 30, r"column 'new' must be .* got \(1, 2\) in row 0\. Drop"),
    ],
)
def test_columns_of_no_kind_are_refused(cells, message):
    with pytest.raises(RecordsError, match=message):
        OutTreeDensity().fit(frame().assign(new=cells))


def test_labels_are_those_of_the_product_of_the_kinds():
    table = frame(24)
    known = np.where(np.arange(24) % 2, table["ward"] == "N", -1)
    settings = {"stickiness": 0.8, "sharpness": 1.0, "n_draws": 20, "random_state": 0}
    product = ProductMutation(
        [
            (make_mutation("parzen-diag"), [0, 2]),
            (CategoricalMutation(), [1, 3, 4]),
        ]
    )
    expected = OutTreeClassifier(product, **settings).fit(by_hand(table), known)
    found = OutTreeClassifier("parzen-diag", **settings).fit(table, known)
    np.testing.assert_array_equal(found.label_distributions_, expected.label_distributions_)
    np.testing.assert_array_equal(
        found.predict_proba(table), expected.predict_proba(by_hand(table))
    )


def test_imputer_fills_dates_in_with_dates():
    table = frame()[["x", "when", "ward"]]
    hidden = table.copy()
    hidden.loc[4, "when"] = pd.NaT
    imputer = OutTreeImputer("gaussian", max_iter=3, random_state=0)
    filled = imputer.fit_transform(hidden)
    assert table["when"].min() < filled[4, 1] < table["when"].max()
    kept = [row for row in range(30) if row != 4]
    assert [pd.Timestamp(filled[row, 1]) for row in kept] == table["when"][kept].tolist()
    assert pd.Timestamp(imputer.sample(1, random_state=0)[0, 4, 1]).year == 2020


def test_labels_beside_missing_numbers_are_those_of_columns_that_change_alone():
    table = frame(24)
    table.loc[[2, 5], "x"] = np.nan
    table.loc[7, "when"] = pd.NaT
    known = np.where(np.arange(24) % 2, table["ward"] == "N", -1)
    settings = {"stickiness": 0.8, "sharpness": 1.0, "n_draws": 20, "random_state": 0}
    alone = [(ColumnMutation(Reversion()), [d]) for d in (0, 2)]
    product = ProductMutation([*alone, (CategoricalMutation(), [1, 3, 4])])
    expected = OutTreeClassifier(product, **settings).fit(by_hand(table), known)
    found = OutTreeClassifier(**settings).fit(table, known)
    np.testing.assert_array_equal(found.label_distributions_, expected.label_distributions_)
    new = frame(24).assign(x=np.nan)
    np.testing.assert_array_equal(found.predict_proba(new), expected.predict_proba(by_hand(new)))
    whole = OutTreeClassifier(**settings).fit(frame(24), known)
    with pytest.raises(RecordsError, match=r"column 'x' has no value in row 0 .* fit to a table"):
        whole.predict(new)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_imputer_keeps_the_types_of_columns(library):
    table = frame()
    table["age"] = pd.array(np.arange(30) % 7 * 10, dtype="Int64")
    table["sick"] = table["sick"].astype("boolean")
    table["ward"] = table["ward"].astype("category")
    whole = table if library == "pandas" else pl.from_pandas(table)
    imputer = OutTreeImputer("gaussian", max_iter=3, random_state=0).set_output(transform=library)
    gaps = table.copy()
    for row, name in enumerate(["ward", "sick", "when", "street", "x"]):
        gaps.loc[row, name] = None
    filled = imputer.fit_transform(gaps if library == "pandas" else pl.from_pandas(gaps))
    assert list(filled.dtypes) == list(whole.dtypes)
    kept = filled[10:]
    assert kept.equals(whole[10:])
    gaps.loc[7, "age"] = pd.NA  # a mean is no whole number
    filled = imputer.fit_transform(gaps if library == "pandas" else pl.from_pandas(gaps))
    assert str(filled["age"].dtype).lower() == "float64"
    assert not np.isnan(filled["age"].to_numpy()).any()
    assert isinstance(imputer.set_output(transform="default").transform(gaps), np.ndarray)

"""What OutTreeImputer promises its users, on tables of several kinds."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outtrees.datasets import make_out_tree, make_spiral
from outtrees.imputation.imputer import OutTreeImputer
from outtrees.models import (
    CategoricalMutation,
    GaussianMutation,
    PoissonMutation,
    ProductMutation,
)

# So few draws disagree, of which the imputer rightly warns.
pytestmark = pytest.mark.filterwarnings("ignore:the chains of OutTreeImputer")

QUICK = {"n_draws": 4, "n_chains": 2, "burn_in": 1, "max_iter": 3, "random_state": 0}


def holey(T=40, D=3, seed=0, share=0.2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(T, D)) @ rng.normal(size=(D, D)) + 5
    X[rng.random(X.shape) < share] = np.nan
    return X


@pytest.fixture(scope="module")
def spiral():
    X = make_spiral(120)
    hidden = np.random.default_rng(1).random(X.shape) < 0.15
    return X, hidden, np.where(hidden, np.nan, X)


def test_observed_cells_stay_and_hidden_ones_are_near_the_truth(spiral):
    X, hidden, table = spiral
    imputer = OutTreeImputer(random_state=0, max_iter=8, n_draws=5).fit(table)
    filled = imputer.transform(table)
    np.testing.assert_array_equal(filled[~hidden], X[~hidden])
    error = np.sqrt(np.mean((filled - X)[hidden] ** 2))
    column_means = np.broadcast_to(np.nanmean(table, axis=0), X.shape)
    assert error < 0.85 * np.sqrt(np.mean((column_means - X)[hidden] ** 2))
    assert (imputer.std_[hidden] > 0).all()
    for zero in (imputer.std_, imputer.standard_error_, imputer.r_hat_ - 1):
        assert (zero[~hidden] == 0).all()
    assert sum(imputer.weights_.values()) == pytest.approx(1)
    assert set(imputer.mutations_) == {name for name, w in imputer.weights_.items() if w > 0}


def test_fit_transform_is_fit_and_transform_and_the_seed_decides():
    X = holey()
    first = OutTreeImputer(**QUICK)
    filled = first.fit_transform(X)
    np.testing.assert_array_equal(filled, first.transform(X))
    np.testing.assert_array_equal(filled, OutTreeImputer(**QUICK).fit_transform(X))
    other = OutTreeImputer(**{**QUICK, "random_state": 1}).fit_transform(X)
    assert not np.array_equal(filled, other)


def test_new_records_are_each_by_themselves():
    X = holey(50)
    imputer = OutTreeImputer(**QUICK).fit(X)
    new = holey(12, seed=0, share=0.4) + 0.01
    together = imputer.transform(new)
    alone = np.vstack([imputer.transform(new[[i]]) for i in range(12)])
    np.testing.assert_allclose(together, alone, rtol=1e-9)
    np.testing.assert_array_equal(together[~np.isnan(new)], new[~np.isnan(new)])
    assert not np.isnan(together).any()


def test_a_training_record_is_known_again():
    X = holey(30)
    X[3] = [0.0, np.nan, 1.0]
    imputer = OutTreeImputer(**QUICK).fit(X)
    other = X[[3]].copy()
    other[0, 0] = -0.0
    other[0, 1] = -np.nan
    np.testing.assert_array_equal(imputer.transform(other)[0, 1], imputer.transform(X)[3, 1])


def test_samples_are_complete_and_spread_as_std_says():
    X = holey(40, share=0.3)
    imputer = OutTreeImputer("gaussian", n_draws=60, n_chains=2, random_state=0).fit(X)
    draws = imputer.sample(120, random_state=0)
    hidden = np.isnan(X)
    assert draws.shape == (120, 40, 3)
    assert not np.isnan(draws).any()
    np.testing.assert_array_equal(draws[:, ~hidden], np.tile(X[~hidden], (120, 1)))
    mean, spread = draws.mean(axis=0)[hidden], draws.std(axis=0)[hidden]
    filled, std = imputer.transform(X)[hidden], imputer.std_[hidden]
    # Draws of a chain are correlated: the mean of 120 has the error of far fewer.
    assert np.abs((mean - filled) / std).max() < 0.6
    assert 0.9 < np.median(spread / std) < 1.1
    with pytest.raises(ValueError, match=r"raise n_draws or n_chains"):
        imputer.sample(121)


@pytest.mark.slow
def test_intervals_cover():
    """90 % intervals from mean and std cover 85 to 95 % of hidden cells, over simulated data."""
    walk = GaussianMutation(
        transition="scalar",
        transition_matrix=0.9 * np.eye(4),
        mutation_cov=0.2 * np.eye(4) + 0.1,
        root_mean=np.zeros(4),
        root_cov=np.eye(4),
    )
    inside = []
    for seed in range(6):
        X = make_out_tree(60, walk, seed)[0]
        hidden = np.random.default_rng(100 + seed).random(X.shape) < 0.2
        imputer = OutTreeImputer(
            GaussianMutation(transition="scalar"), n_draws=20, n_chains=2, random_state=seed
        )
        filled = imputer.fit_transform(np.where(hidden, np.nan, X))
        inside.append(np.abs(filled - X)[hidden] < 1.645 * imputer.std_[hidden])
    # About 290 cells: the share has a standard error of 1.8 %.
    assert 0.85 <= np.concatenate(inside).mean() <= 0.95


def test_a_record_with_all_cells_hidden():
    X = holey(30)
    X[7] = np.nan
    for mutation in ("auto", "gaussian"):
        imputer = OutTreeImputer(mutation, **QUICK).fit(X)
        filled = imputer.transform(X)
        assert np.isfinite(filled).all()
        assert (np.abs(filled[7] - np.nanmean(X, axis=0)) < 2 * np.nanstd(X, axis=0)).all()
        assert (imputer.std_[7] > 0).all()
        assert np.isfinite(imputer.transform(np.full((1, 3), np.nan))).all()


def test_a_column_without_any_value_is_named():
    X = holey()
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match="column 1 has no value at all"):
        OutTreeImputer().fit(X)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(ValueError, match="column 'b' has no value at all"):
        OutTreeImputer().fit(frame)


def mixed_frame(T=40):
    rng = np.random.default_rng(0)
    size = rng.normal(size=T)
    frame = pd.DataFrame(
        {
            "size": size,
            "colour": np.where(size > 0, "red", "blue").astype(object),
            "legs": rng.integers(1, 4, size=T) * 2.0,
            "tame": size + rng.normal(size=T) > 0,
        }
    )
    frame.loc[3, "size"] = np.nan
    frame.loc[[5, 6], "colour"] = None
    frame.loc[[8, 9], "legs"] = np.nan
    return frame


@pytest.mark.parametrize("mutation", ["auto", "gaussian", "parzen"])
def test_text_booleans_and_numbers_in_one_frame(mutation):
    frame = mixed_frame()
    imputer = OutTreeImputer(mutation, **QUICK).set_output(transform="pandas")
    filled = imputer.fit_transform(frame)
    assert list(filled.columns) == list(frame.columns) == list(imputer.get_feature_names_out())
    assert not filled.isna().any().any()
    assert set(filled["colour"]) == {"red", "blue"}
    known = frame["colour"].notna()
    assert (filled["colour"] == frame["colour"])[known].all()
    assert {type(cell) for cell in filled["tame"]} == {bool}
    assert filled["tame"].tolist() == frame["tame"].tolist()
    assert set(imputer.categories_) == {"colour", "tame"}
    np.testing.assert_allclose(imputer.probabilities_["colour"].sum(axis=1), 1.0)
    assert (imputer.std_[[5, 6], 1] < 1).all()
    new = frame.iloc[:2].copy()
    new.loc[0, ["colour", "size"]] = [None, np.nan]
    assert imputer.transform(new)["colour"].isin(["red", "blue"]).all()
    draws = imputer.sample(3, random_state=0)
    assert draws.shape == (3, 40, 4)
    assert set(draws[:, 5, 1]) <= {"red", "blue"}


def test_numbers_as_categories_come_back_as_they_are():
    frame = mixed_frame()[["size", "legs"]]
    imputer = OutTreeImputer(categorical=["legs"], **QUICK).set_output(transform="polars")
    filled = imputer.fit_transform(pl.from_pandas(frame))
    assert isinstance(filled, pl.DataFrame)
    assert set(filled["legs"].to_list()) <= {2.0, 4.0, 6.0}
    by_place = OutTreeImputer(categorical=[1], **QUICK).fit_transform(frame.to_numpy())
    by_mask = OutTreeImputer(categorical=[False, True], **QUICK).fit_transform(frame.to_numpy())
    np.testing.assert_array_equal(by_place, filled.to_numpy())
    np.testing.assert_array_equal(by_place, by_mask)
    with pytest.raises(ValueError, match=re.escape("the values [2.0, 4.0, 6.0], but row 0 has 3")):
        OutTreeImputer(categorical=[1], **QUICK).fit(frame.to_numpy()).transform([[0.0, 3.0]])


def test_categories_alone():
    X = np.random.default_rng(0).integers(3, size=(30, 4)).astype(float)
    X[4, 1] = X[5] = np.nan
    imputer = OutTreeImputer("categorical", categorical=range(4), **QUICK).fit(X)
    assert set(imputer.transform(X)[5]) <= {0.0, 1.0, 2.0}
    assert list(imputer.mutations_) == ["categorical"]


def test_a_mutation_of_ones_own():
    X = np.column_stack([holey(30, 2), np.random.default_rng(0).integers(2, size=30)])
    X[3, 2] = np.nan
    groups = [(GaussianMutation(transition="diag"), [0, 1]), (CategoricalMutation(), [2])]
    imputer = OutTreeImputer(ProductMutation(groups), categorical=[2], **QUICK).fit(X)
    assert imputer.weights_ == {"ProductMutation": 1.0}
    assert imputer.transform(X)[3, 2] in (0.0, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mutation": GaussianMutation(), "categorical": [1]}, "columns [0, 1, 2] as continuous"),
        ({"mutation": PoissonMutation()}, "takes the columns [] as continuous"),
        ({"mutation": "iid", "categorical": [1]}, "takes no categorical columns, but 1 of 3"),
        ({"mutation": "mixture", "categorical": [1]}, "takes no categorical columns"),
        ({"mutation": "categorical"}, "takes only categorical columns, but 0 of 3"),
        ({"categorical": ["x"]}, "categorical names the column 'x'"),
        ({"categorical": [3]}, "categorical names column 3, but there are 3 columns"),
        ({"categorical": [True, False]}, "must have 3 entries; got 2"),
        ({"n_draws": 1}, "'n_draws' parameter of OutTreeImputer must be an int in the range"),
        ({"mutation": "poisson"}, "'mutation' parameter of OutTreeImputer"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        OutTreeImputer(**{**QUICK, **options}).fit(holey())


def test_text_needs_to_be_named_categorical():
    with pytest.raises(ValueError, match="column 'colour' is text, but categorical does not name"):
        OutTreeImputer(categorical=["legs"], **QUICK).fit(mixed_frame())
    cells = np.array([[1.0, "a"], [2.0, "b"], [3.0, 4.0]], dtype=object)
    with pytest.raises(ValueError, match="column 1 holds text and numbers"):
        OutTreeImputer(**QUICK).fit(cells)


def test_constant_columns_and_few_records():
    X = holey(12)
    X[:, 2] = 4.0
    X[[1, 2], 2] = np.nan
    filled = OutTreeImputer(**QUICK).fit_transform(X)
    np.testing.assert_allclose(filled[[1, 2], 2], 4.0, atol=0.5)
    few = np.array([[1.0, 2.0], [np.nan, 3.0], [2.0, np.nan]])
    assert np.isfinite(OutTreeImputer(**QUICK).fit_transform(few)).all()


def test_chains_that_disagree_are_warned_of():
    """Two draws of each of two chains, from anywhere, seldom agree: whatever the seed."""
    warned = 0
    for seed in range(6):
        options = QUICK | {"n_draws": 2, "burn_in": 0, "random_state": seed}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            OutTreeImputer("parzen", **options).fit(mixed_frame())
        warned += any("chains of OutTreeImputer still disagree" in str(w.message) for w in caught)
    assert warned >= 3


def test_progress_is_shown_when_asked_for(capsys):
    OutTreeImputer(**QUICK).fit(holey())
    assert capsys.readouterr() == ("", "")
    OutTreeImputer(verbose=1, **QUICK).fit(holey())
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "[##############################]" in shown.err


def test_inside_a_pipeline():
    pipeline = make_pipeline(OutTreeImputer("iid", **QUICK), StandardScaler())
    assert np.isfinite(pipeline.fit_transform(holey())).all()


def test_intervals_cover_what_was_held_out():
    """Two clouds and long tails: standard deviations alone are too wide for the middle."""
    rng = np.random.default_rng(2)
    X = rng.standard_t(3, size=(100, 5)) + 3 * rng.integers(2, size=(100, 1))
    hidden = rng.random(X.shape) < 0.25
    imputer = OutTreeImputer(random_state=0, n_chains=2, n_draws=10)
    imputer.fit(np.where(hidden, np.nan, X))
    for level in (0.5, 0.9):
        low, high = imputer.interval(level)
        inside = ((low <= X) & (high >= X))[hidden].mean()
        # 125 hidden cells, and about 90 held out: standard errors of 4.5 and 5 % at one half.
        assert abs(inside - level) < 3 * np.sqrt(level * (1 - level) * (1 / 125 + 1 / 90))
        np.testing.assert_array_equal(low[~hidden], X[~hidden])
    np.testing.assert_allclose((high - low)[hidden], 2 * 1.6448536 * imputer.std_[hidden])
    with pytest.raises(ValueError, match="level"):
        imputer.interval(1.5)


def test_intervals_of_a_single_mutation_are_normal():
    X = holey(40)
    imputer = OutTreeImputer("gaussian", random_state=0, n_chains=2, n_draws=5).fit(X)
    low, high = imputer.interval(0.9)
    hidden = np.isnan(X)
    np.testing.assert_allclose((high - low)[hidden], 2 * 1.6448536 * imputer.std_[hidden])
    assert len(imputer.surprises_) == 0

"""The catalogue of bad inputs: what is refused or warned of, and the first line of the message."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

from outtrees import OutTreeDensity

GOOD = np.random.default_rng(0).normal(size=(20, 3))


def with_cell(value):
    X = GOOD.copy()
    X[4, 1] = value
    return X


def frame(**columns):
    return pd.DataFrame({"a": GOOD[:, 0], **columns})


REFUSED = {
    "nan": (with_cell(np.nan), ValueError, r"^Input X contains NaN\.\n.*drop those records"),
    "inf": (with_cell(np.inf), ValueError, "Input X contains infinity or a value too large"),
    "no rows": (
        GOOD[:0],
        ValueError,
        r"Found array with 0 sample\(s\) .* minimum of 2 is required",
    ),
    "no columns": (GOOD[:, :0], ValueError, r"Found array with 0 feature\(s\)"),
    "one row": (
        GOOD[:1],
        ValueError,
        r"Found array with 1 sample\(s\) .* minimum of 2 is required",
    ),
    "1-D": (GOOD[:, 0], ValueError, "Expected 2D array, got 1D array instead"),
    "3-D": (GOOD[None], ValueError, "Found array with dim 3"),
    "complex": (GOOD + 1j, ValueError, "Complex data not supported"),
    "text": (
        frame(b=[f"note {i}" for i in range(20)]),
        ValueError,
        r"^column 'b' must be numbers, dates or categories; got text, 20 values",
    ),
    "text array": (
        np.array([["1", "2"], ["3", "a"]]),
        ValueError,
        r"^column 1 is text \(first value 'a' in row 1\)",
    ),
    "object cell": (
        np.array([[1.0, {}], [2.0, 3.0]], dtype=object),
        TypeError,
        r"^column 1, row 0: float\(\) argument must be",
    ),
    "huge integer": (
        np.array([[1.0, 10**400], [2.0, 3.0]], dtype=object),
        ValueError,
        r"^column 1, row 0: numbers must be below 1.8e308; got one of 401 digits",
    ),
    "sparse": (scipy.sparse.csr_array(GOOD), TypeError, "Sparse data was passed for X"),
    "ragged": (
        [[1.0, 2.0], [3.0, 4.0], [1.0]],
        ValueError,
        "^rows have different lengths: row 0 has 2, row 2 has 1",
    ),
    "ragged from the second": (
        [[1.0, 2.0], [3.0], [1.0]],
        ValueError,
        "^rows have different lengths: row 0 has 2, row 1 has 1",
    ),
    "none": (None, ValueError, "^X is None"),
    "array of dates": (
        np.zeros((5, 2), dtype="datetime64[s]"),
        ValueError,
        "^column 0 is a date",
    ),
    "missing integer": (
        frame(b=pd.array([1] * 19 + [pd.NA], dtype="Int64")),
        ValueError,
        "Input X contains NaN",
    ),
    "mixed names": (
        pd.DataFrame(GOOD, columns=["a", "b", 3]),
        TypeError,
        "Feature names are only supported if all input features have string names",
    ),
    "duplicate names": (
        pd.DataFrame(GOOD, columns=["a", "b", "a"]),
        ValueError,
        "^column name 'a' occurs 2 times",
    ),
    "identical rows": (
        np.repeat(GOOD[:1], 10, axis=0),
        ValueError,
        "^all 10 rows are identical; no density to estimate",
    ),
}


@pytest.mark.parametrize(("X", "error", "message"), REFUSED.values(), ids=list(REFUSED))
def test_refused_records(X, error, message):
    with pytest.raises(error, match=message):
        OutTreeDensity("gaussian").fit(X)


def test_float32_overflow():
    with np.errstate(over="ignore"):
        huge = (1e39 * np.abs(GOOD)).astype(np.float32)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        OutTreeDensity("gaussian").fit(huge)


def test_constant_column():
    X = pd.DataFrame(GOOD, columns=["a", "b", "c"]).assign(c=4.0)
    with pytest.warns(
        ConvergenceWarning,
        match="^column 'c' is constant; covariance regularised by reg_covar=1e-06",
    ):
        model = OutTreeDensity("gaussian").fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    assert model.converged_


@pytest.mark.parametrize(
    ("copies", "message"),
    [
        (12, "^12 rows are exact duplicates; likelihood is unbounded without reg_covar > 0"),
        (1, "^1 row is an exact duplicate; likelihood is unbounded"),
    ],
)
def test_duplicate_rows(copies, message):
    with pytest.warns(ConvergenceWarning, match=message):
        model = OutTreeDensity("parzen").fit(np.vstack([GOOD, GOOD[:copies]]))
    assert model.converged_


def test_scales_too_far_apart():
    with pytest.warns(
        UserWarning, match=r"^columns differ in scale by \de\+1\d; use StandardScaler"
    ):
        OutTreeDensity("parzen").fit(GOOD * [1e13, 1.0, 1.0])


def test_discrete_models_are_not_warned_of_discreteness(recwarn):
    bits = (GOOD > 0).astype(float)
    bits[:, 2] = 1.0
    assert OutTreeDensity("bernoulli").fit(bits).converged_
    assert not recwarn.list


# After the fit -----------------------------------------------------------------------------------


def test_unfitted():
    for call in ("score_samples", "score", "log_predictive"):
        with pytest.raises(NotFittedError, match="This OutTreeDensity instance is not fitted yet"):
            getattr(OutTreeDensity("gaussian"), call)(GOOD)
    for call in ("sample", "sample_trees"):
        with pytest.raises(NotFittedError, match="This OutTreeDensity instance is not fitted yet"):
            getattr(OutTreeDensity("gaussian"), call)()
    assert not hasattr(OutTreeDensity("gaussian"), "tree_")


def test_wrong_records_at_predict_time():
    model = OutTreeDensity("parzen").fit(GOOD)
    with pytest.raises(ValueError, match="X has 2 features, but OutTreeDensity is expecting 3"):
        model.score_samples(GOOD[:, :2])
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        model.score_samples(GOOD[:0])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.log_predictive(with_cell(np.nan))
    with pytest.warns(
        UserWarning, match="X has feature names, but OutTreeDensity was fitted without"
    ):
        model.score_samples(pd.DataFrame(GOOD, columns=["a", "b", "c"]))
    assert model.score_samples(GOOD[:1]).shape == (1,)
    with pytest.raises(ValueError, match="n must be an integer >= 1; got 0"):
        model.sample(0)
    with pytest.raises(ValueError, match="random_state must be None"):
        model.sample(3, random_state="x")


# Parameters --------------------------------------------------------------------------------------

BAD_PARAMETERS = [
    *[
        ("max_iter", value, rf"an int in the range \[1, inf\)\. Got {value!r} instead\.")
        for value in (-1, 0, 1.5, "10", True)
    ],
    ("tol", -1e-3, r"a float in the range \[0.0?, inf\)"),
    ("tol", float("nan"), r"a float in the range \[0.0?, inf\)"),
    ("tol", True, "Got True instead"),
    ("n_init", 0, r"an int in the range \[1, inf\)"),
    ("early_stopping", "yes", "an instance of 'bool'"),
    ("validation_fraction", 1.0, r"a float in the range \(0.0?, 1.0?\)"),
    ("n_iter_no_change", 0, r"an int in the range \[1, inf\)"),
    ("mutation", "gausian", r"a str among \{.*'gaussian'.*\} or an instance of .*Got 'gausian'"),
    ("mutation", 3, "Got 3 instead"),
    ("solver", "newton", r"a str among \{.*'em'.*\}\. Got 'newton' instead"),
    ("n_components", -1, r"an int in the range \[0, inf\), a str among \{'auto'\} or None"),
    ("n_components", True, "Got True instead"),
    ("prior_strength", "strong", r"a str among \{'auto'\}"),
    ("prior_strength", -1, r"in the range \[0.0?, inf\)"),
    ("reg_covar", -1e-9, r"in the range \[0.0?, inf\)"),
    ("cv", 1, r"an int in the range \[2, inf\)"),
    ("n_jobs", 1.5, "Got 1.5 instead"),
    ("random_state", "x", "Got 'x' instead"),
    ("random_state", True, "Got True instead"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD_PARAMETERS)
def test_bad_parameters(name, value, message):
    with pytest.raises(
        InvalidParameterError, match=f"The '{name}' parameter of OutTreeDensity must be .*{message}"
    ):
        OutTreeDensity(**{name: value}).fit(GOOD)


def test_unknown_parameter():
    with pytest.raises(
        ValueError, match=r"Invalid parameter 'foo' for estimator OutTreeDensity\(\)"
    ):
        OutTreeDensity().set_params(foo=1)


def test_parameters_are_checked_before_records():
    with pytest.raises(InvalidParameterError):
        OutTreeDensity("gaussian", max_iter=0).fit(None)


def test_too_few_records_to_hold_some_out():
    with pytest.raises(ValueError, match="leaves 1 of 2 records to fit; at least 2 are needed"):
        OutTreeDensity("parzen", early_stopping=True).fit(GOOD[:2])

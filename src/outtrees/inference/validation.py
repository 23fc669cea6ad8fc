"""What a fit may be given: parameters, and records; refusals that name the place and a remedy."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from outtrees._common.types import Array
from outtrees.models.base import Mutation

_LARGEST_SCALE_RATIO = 1e12


def check_records(
    estimator: BaseEstimator,
    X: Any,
    *,
    allows_missing: bool,
    reset: bool,
) -> Array:
    """Return the records as a float array (T, D), checked as scikit-learn does.

    Where scikit-learn's message does not name the place, ours does. What a fit keeps (``reset``) is
    a copy: answers must not change with what the caller writes into X afterwards.
    """
    if X is None:
        raise ValueError("X is None; pass the records as an array of shape (n_samples, n_features)")
    if reset:
        _refuse_duplicate_names(X)
    _refuse_dates(X)
    try:
        checked = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=np.float64,
            copy=reset,
            ensure_all_finite="allow-nan" if allows_missing else True,
            ensure_min_samples=2 if reset else 1,
        )
    except (TypeError, ValueError, OverflowError) as error:
        better = _explained(X, error)
        if better is None:
            raise
        raise better from error
    return np.asarray(checked)


def _refuse_duplicate_names(X: Any) -> None:
    names = getattr(X, "columns", None)
    if names is None:
        return
    listed = list(names)
    for name in listed:
        if listed.count(name) > 1:
            raise ValueError(
                f"column name {name!r} occurs {listed.count(name)} times; rename the columns"
            )


def _refuse_dates(X: Any) -> None:
    """A column of dates alone would pass as nanoseconds; beside others its error is unreadable."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is not None and hasattr(X, "columns"):
        pairs = zip(X.columns, list(dtypes), strict=True)
        dates = [name for name, dtype in pairs if getattr(dtype, "kind", "") in ("m", "M")]
    else:
        kind = getattr(getattr(X, "dtype", None), "kind", "")
        dates = [0] if kind in ("m", "M") else []
    if dates:
        raise ValueError(f"column {dates[0]!r} is a date; convert it to a number first")


def _explained(X: Any, error: Exception) -> Exception | None:
    """Return an error that names the place, or None if scikit-learn's own says enough."""
    if str(error).startswith("Input X contains NaN"):
        return ValueError(
            "Input X contains NaN.\nFill the missing cells in first with OutTreeImputer, which "
            "accepts NaN, fit an OutTreeDensity with missing='integrate', or drop those records."
        )
    if isinstance(X, (list, tuple)) and X and all(isinstance(row, (list, tuple)) for row in X):
        lengths = [len(row) for row in X]
        for row, length in enumerate(lengths):
            if length != lengths[0]:
                return ValueError(
                    f"rows have different lengths: row 0 has {lengths[0]}, row {row} has {length}"
                )
    for name, column in cells_of_columns(X):
        if column.dtype.kind not in "OUS":
            continue
        for row, cell in enumerate(column):
            try:
                float(cell)
            except ValueError:
                return ValueError(
                    f"column {name!r} is text (first value {str(cell)!r} in row {row}); "
                    "drop or encode it"
                )
            except TypeError as reason:
                return TypeError(f"column {name!r}, row {row}: {reason}")
            except OverflowError:
                return ValueError(
                    f"column {name!r}, row {row}: numbers must be below 1.8e308; got one of "
                    f"{len(str(cell))} digits; divide the column or drop it"
                )
    return None


def cells_of_columns(X: Any) -> Iterator[tuple[Any, NDArray[Any]]]:
    """Yield (name, cells) of a table of any kind."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        for name in X.columns:
            yield name, np.asarray(X[name])
        return
    if hasattr(X, "toarray"):  # sparse: scikit-learn's message says what to do
        return
    table = np.asarray(X)
    if table.ndim == 2:
        for position in range(table.shape[1]):
            yield position, table[:, position]


def warn_of_degenerate_records(
    X: Array,  # (T, D)
    mutation: Mutation,
    names: NDArray[Any] | None,  # (D,)
) -> None:
    """Say what in the records makes a continuous density degenerate.

    Does nothing for mutations without covariances. Warned of: constant columns, exact duplicates
    of rows, columns whose scales differ too much for floating point.

    Raises
    ------
    ValueError
        If all rows are identical; if a full covariance without prior has fewer rows than it needs.
    """
    # A mixture of categories has `reg_covar` too; only categories may be missing.
    if not hasattr(mutation, "reg_covar") or np.isnan(X).any():
        return
    T, D = X.shape
    spread = np.ptp(X, axis=0)
    if not spread.any():
        raise ValueError(f"all {T} rows are identical; no density to estimate")
    no_prior = getattr(mutation, "prior_strength", 1.0) == 0
    if no_prior and getattr(mutation, "covariance", "full") == "full" and D >= T:
        raise ValueError(
            f"'full' covariance needs more than {D} rows for {D} columns; use 'diag' or a prior "
            f"(there are {T} rows, and prior_strength=0)"
        )
    for d in np.flatnonzero(spread == 0):
        name = int(d) if names is None else str(names[d])
        warnings.warn(
            f"column {name!r} is constant; covariance regularised by "
            f"reg_covar={mutation.reg_covar}",
            ConvergenceWarning,
            stacklevel=4,
        )
    copies = T - len(np.unique(X, axis=0))
    if copies:
        found = (
            "1 row is an exact duplicate" if copies == 1 else f"{copies} rows are exact duplicates"
        )
        warnings.warn(
            f"{found}; likelihood is unbounded without reg_covar > 0 and prior_strength > 0 "
            f"(here {mutation.reg_covar} and {getattr(mutation, 'prior_strength', None)})",
            ConvergenceWarning,
            stacklevel=4,
        )
    varying = spread[spread > 0]
    ratio = varying.max() / varying.min()
    if ratio > _LARGEST_SCALE_RATIO:
        warnings.warn(
            f"columns differ in scale by {ratio:.0e}; use StandardScaler",
            UserWarning,
            stacklevel=4,
        )

"""A table as its user has it ↔ standardised columns and codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from outtrees._common.types import Array
from outtrees.imputation.stack import Table
from outtrees.inference.validation import _columns, check_records

_TEXT = "OUS"  # NumPy's kinds of columns that may hold text


def read_cells(
    estimator: BaseEstimator, X: Any, *, reset: bool
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the cells (n, D), missing ones as NaN or None, and which columns hold text.

    A table without text comes back as floats.
    """
    text = _text_columns(X)
    if not text.any():
        return check_records(estimator, X, allows_missing=True, reset=reset), text
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    table = np.empty((len(X), len(text)), dtype=object)
    for d, (name, column) in enumerate(_columns(X)):
        if text[d]:
            table[:, d] = [None if _is_missing(cell) else cell for cell in column]
            continue
        cells = check_array(
            np.asarray(column, dtype=object)[:, None],
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            input_name=f"column {name!r}",
        )
        table[:, d] = cells[:, 0]
    if reset and len(table) < 2:
        raise ValueError(
            f"Found array with {len(table)} sample(s) while a minimum of 2 is required by "
            f"{type(estimator).__name__}."
        )
    return table, text


def _text_columns(X: Any) -> NDArray[np.bool_]:
    """Return which columns hold text or other objects that are no numbers."""
    if hasattr(X, "toarray") or not (hasattr(X, "columns") or getattr(X, "ndim", 0) == 2):
        return np.zeros(0, dtype=bool)
    if not hasattr(X, "columns") and getattr(X.dtype, "kind", "f") not in _TEXT:
        return np.zeros(0, dtype=bool)
    return np.array([_holds_text(column) for _, column in _columns(X)], dtype=bool)


def _holds_text(column: NDArray[Any]) -> bool:
    if column.dtype.kind not in _TEXT:
        return False
    return any(isinstance(cell, (str, bytes)) for cell in column)


def _is_missing(cell: Any) -> bool:
    """None, NaN, and pandas' NA, which is neither equal nor unequal to itself."""
    return cell is None or type(cell).__name__ == "NAType" or cell != cell


@dataclass(frozen=True)
class Columns:
    """What kind each column is, its scale or its categories; learned from the observed cells."""

    categorical: list[int]
    levels: list[NDArray[Any]]  # of the categorical columns, sorted
    mean: Array  # (D,), 0 for categorical columns
    scale: Array  # (D,), 1 for categorical columns
    text: bool  # whether cells are objects

    def table(self, cells: NDArray[Any]) -> Table:
        """Return standardised columns and codes; NaN stays.

        Raises
        ------
        ValueError
            For a category that was not there when the columns were learned.
        """
        result = np.empty(cells.shape)
        for d in range(cells.shape[1]):
            if d not in self.categorical:
                result[:, d] = (cells[:, d].astype(np.float64) - self.mean[d]) / self.scale[d]
        for d, levels in zip(self.categorical, self.levels, strict=True):
            place = {level: code for code, level in enumerate(levels.tolist())}
            for row, cell in enumerate(cells[:, d].tolist()):
                if _is_missing(cell):
                    result[row, d] = np.nan
                elif cell in place:
                    result[row, d] = place[cell]
                else:
                    raise ValueError(
                        f"column {d} is categorical with the values {levels.tolist()}, but row "
                        f"{row} has {cell!r}; mark it as missing or fit again with it."
                    )
        return Table(result, self.categorical, [len(levels) for levels in self.levels])

    def cells(self, table: Array) -> NDArray[Any]:
        """Return complete standardised columns and codes as the user's values, (…, D)."""
        result = (table * self.scale + self.mean).astype(object if self.text else np.float64)
        for d, levels in zip(self.categorical, self.levels, strict=True):
            result[..., d] = levels[table[..., d].astype(np.intp)]
        return np.asarray(result)


def learn_columns(
    cells: NDArray[Any],
    text: NDArray[np.bool_],
    categorical: Any,
    X: Any,
    names: NDArray[Any] | None,
) -> Columns:
    """Return the kinds, scales and categories of the columns.

    Raises
    ------
    ValueError
        For a column without any value, an unknown name of a column, or text in a column that is
        not categorical.
    """
    D = cells.shape[1]
    shown = [repr(d if names is None else str(names[d])) for d in range(D)]
    missing = np.array([[_is_missing(cell) for cell in row] for row in cells.tolist()])
    for d in np.flatnonzero(missing.all(axis=0)):
        raise ValueError(
            f"column {shown[d]} has no value at all, so there is nothing to fill it in with; drop "
            "the column."
        )
    chosen = _chosen(categorical, text, X, names, D)
    levels = []
    for d in chosen:
        present = [cell for cell in cells[:, d].tolist() if not _is_missing(cell)]
        kinds = {isinstance(cell, (str, bytes)) for cell in present}
        if len(kinds) > 1:
            raise ValueError(f"column {shown[d]} holds text and numbers; make it one or the other.")
        levels.append(np.array(sorted(set(present))))
    for d in range(D):
        if d < len(text) and text[d] and d not in chosen:
            raise ValueError(
                f"column {shown[d]} is text, but categorical does not name it; add it there, or "
                "use categorical='auto'."
            )
    mean, scale = np.zeros(D), np.ones(D)
    for d in range(D):
        if d not in chosen:
            column = cells[:, d].astype(np.float64)
            low, high = np.nanmin(column), np.nanmax(column)
            # A constant column is centred on its value exactly.
            mean[d] = low if low == high else np.nanmean(column)
            scale[d] = 1.0 if low == high else np.nanstd(column)
    return Columns(chosen, levels, mean, scale, bool(text.any()))


def _chosen(
    categorical: Any, text: NDArray[np.bool_], X: Any, names: NDArray[Any] | None, D: int
) -> list[int]:
    """Return the positions of the categorical columns."""
    if categorical is None:
        return []
    if isinstance(categorical, str):  # "auto": by the types of a table's columns
        found = {d for d in range(len(text)) if text[d]}
        dtypes = list(getattr(X, "dtypes", [])) if hasattr(X, "columns") else []
        for d, dtype in enumerate(dtypes):
            if str(dtype).lower().startswith(("bool", "category", "categorical", "enum")):
                found.add(d)
        return sorted(found)
    listed = np.asarray(categorical)
    if listed.dtype == bool:
        if listed.shape != (D,):
            raise ValueError(
                f"categorical as a mask is expected to have {D} entries, but has {listed.size}."
            )
        return [int(d) for d in np.flatnonzero(listed)]
    return sorted({_position(item, names, D) for item in categorical})


def _position(item: Any, names: NDArray[Any] | None, D: int) -> int:
    if isinstance(item, str):
        known = [] if names is None else [str(name) for name in names]
        if item in known:
            return known.index(item)
        raise ValueError(
            f"categorical names the column {item!r}, but the columns are {known or list(range(D))}."
        )
    if not 0 <= int(item) < D:
        raise ValueError(f"categorical names column {item}, but there are {D} columns.")
    return int(item)

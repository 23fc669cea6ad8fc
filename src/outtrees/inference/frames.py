"""Data frames with categories and dates as numbers, with the column kinds of the command line.

Numbers stay as they are; booleans, categories and text that recurs become positions among their
sorted values; dates become days since 1970-01-01. What each column was is kept in
`estimator.table_columns_`, in the form in which the command line keeps it in model files, so that a
model fitted to a data frame reads a CSV file of the same columns and the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outtrees._common.types import Array
from outtrees.errors import RecordsError
from outtrees.models import CategoricalMutation, Mutation, ProductMutation, make_mutation
from outtrees.models.column import ColumnMutation
from outtrees.models.normal import Reversion
from outtrees.records.dates import read_dates
from outtrees.records.kinds import infer_kind
from outtrees.records.table import Table

TableColumns = dict[str, dict[str, Any]]  # name → {"kind": …, "levels": … or None}
_EPOCH = np.datetime64("1970-01-01", "us")
_TRUTH = ("False", "True")


def coded_frame(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return a data frame of numbers for one with categories or dates; anything else unchanged.

    With reset, learn the kind and the categories of each column (`estimator.table_columns_`);
    otherwise use those learned.

    Raises
    ------
    RecordsError
        For a column that is neither numbers, dates nor categories, and for a category that was not
        there when the estimator was fitted.
    """
    if reset:
        estimator.__dict__.pop("table_columns_", None)
    frame = _as_frame(X)
    if frame is None:
        return X
    known: TableColumns | None = getattr(estimator, "table_columns_", None)
    if not reset and known is None:
        return X
    if not reset and list(known or ()) != frame.columns:
        raise RecordsError(
            f"columns must be those of the fit, in their order ({_listed(known or ())}); got "
            f"{_listed(frame.columns)}. Choose and order them, for example X[list(fitted.columns)]."
        )
    if reset and len(set(frame.columns)) < len(frame.columns):
        return X
    kinds = {name: _kind(frame, name) for name in frame.columns}
    if reset and all(kind == "continuous" for kind in kinds.values()):
        return X
    columns: TableColumns = {}
    coded: dict[str, Array] = {}
    for name in frame.columns:
        column = None if known is None or reset else known[name]
        cells, levels = _coded(frame, name, kinds[name], column)
        coded[name] = cells
        columns[name] = {"kind": kinds[name], "levels": levels}
    if reset:
        estimator.table_columns_ = columns
    return type(X)(coded)


def decoded(columns: TableColumns, X: Array) -> dict[str, list[Any]]:
    """Return columns of numbers as they were in the data frame: categories, dates, numbers.

    Examples
    --------
    >>> columns = {"ward": {"kind": "categorical", "levels": ["N", "S"]}}
    >>> decoded(columns, np.array([[1.0], [0.0]]))
    {'ward': ['S', 'N']}
    """
    table: dict[str, list[Any]] = {}
    for values, (name, column) in zip(X.T, columns.items(), strict=True):
        if column["levels"] is not None:
            table[name] = [column["levels"][int(v)] if v == v else None for v in values]
        elif column["kind"] == "date":
            table[name] = [day_as_date(v) if v == v else None for v in values]
        else:
            table[name] = values.tolist()
    return table


def day_as_date(day: float) -> Any:
    """Return the date and time of a day since 1970-01-01, to the second.

    Examples
    --------
    >>> print(day_as_date(18326.5))
    2020-03-05 12:00:00
    """
    return (_EPOCH + np.timedelta64(round(day * 86400), "s")).astype("datetime64[s]").item()


def dates_as_days(X: Any) -> tuple[Any, list[int]]:
    """Return a data frame with its columns of dates as days, and their positions.

    Text that looks like dates stays text: only columns of a type of dates count.
    """
    import narwhals as nw

    frame = _as_frame(X)
    if frame is None:
        return X, []
    dated = [frame[name].dtype in (nw.Datetime, nw.Date) for name in frame.columns]
    if not any(dated):
        return X, []
    changed = X.copy() if hasattr(X, "iloc") else X.clone()
    for name, is_date in zip(frame.columns, dated, strict=True):
        if is_date:
            cells = frame[name].to_list()
            days = _days(name, cells, [is_missing(cell) for cell in cells])
            if hasattr(X, "iloc"):
                changed[name] = days
            else:
                changed = changed.with_columns(type(X[name])(name, days))
    return changed, [d for d, is_date in enumerate(dated) if is_date]


def truth_columns(X: Any) -> list[int]:
    """Return the positions of the columns of truth values in a data frame."""
    import narwhals as nw

    frame = _as_frame(X)
    names = [] if frame is None else frame.columns
    return [d for d, name in enumerate(names) if frame[name].dtype == nw.Boolean]


def as_they_came(
    cells: NDArray[Any],  # (…, D)
    dates: Sequence[int],
    truths: Sequence[int],
) -> NDArray[Any]:
    """Return cells as objects with dates and truth values in these columns; numbers unchanged."""
    if not len(dates) and cells.dtype != object:
        return cells
    result = np.array(cells, dtype=object)
    kinds: tuple[tuple[Sequence[int], Callable[[float], Any]], ...] = (
        (dates, day_as_date),
        (truths, bool),
    )
    for positions, made in kinds:
        for d in positions:
            column = result[..., d]
            for place in np.ndindex(column.shape):
                column[place] = made(float(column[place]))
    return result


def like_frame(X: Any, cells: NDArray[Any]) -> Any:
    """Return cells (n, D) as a data frame with the types of the columns of X.

    Numbers with a fraction in a column of whole numbers make it one of floats.
    """
    columns = {}
    for d, name in enumerate(X.columns):
        dtype, values = X[name].dtype, cells[:, d]
        is_whole = dtype.kind in "iu" if hasattr(dtype, "kind") else dtype.is_integer()
        if is_whole:
            values = values.astype(np.float64)
        keeps = not is_whole or bool((values == np.round(values)).all())
        if hasattr(X, "iloc"):
            column = type(X[name])(values.tolist(), index=X.index)
            columns[name] = column.astype(dtype) if keeps else column
        else:
            column = type(X[name])(name, values.tolist())
            columns[name] = column.cast(dtype) if keeps else column
    return type(X)(columns)


def suited_mutation(
    estimator: Any, mutation: str | Mutation, numbers: str | None = None, *, gaps: bool = False
) -> Any:
    """Return the mutation for the columns of the estimator: `mutation` unless some are categories.

    A mutation by its name then changes the numbers, or `numbers` does if given, and the categories
    change by tables of their own. With `gaps`, some numbers are missing: each column of numbers
    changes by itself (`Reversion`), so that these can be integrated out pair by pair.
    """
    columns: TableColumns | None = getattr(estimator, "table_columns_", None)
    if columns is None or isinstance(mutation, Mutation) or mutation == "categorical":
        return mutation
    levels = [column["levels"] for column in columns.values()]
    discrete = [d for d, names in enumerate(levels) if names is not None]
    if gaps and discrete:
        alone = [
            (ColumnMutation(Reversion()), [d]) for d, names in enumerate(levels) if names is None
        ]
        return ProductMutation([*alone, (CategoricalMutation(), discrete)])
    return by_kinds(levels, numbers or mutation, otherwise=mutation)


def missing_numbers(estimator: Any, X: Array) -> bool:
    """Return whether a number is missing in a data frame that also has categories."""
    columns = list(getattr(estimator, "table_columns_", {}).values())
    numbers = [d for d, column in enumerate(columns) if column["levels"] is None]
    return 0 < len(numbers) < len(columns) and bool(np.isnan(X[:, numbers]).any())


def by_kinds(
    levels: Sequence[Sequence[str] | None], numbers: str, otherwise: str | None = None
) -> Any:
    """Return the mutation that suits the columns: one for numbers, one for categories, or both.

    Parameters
    ----------
    levels : sequence
        The categories of each column, None for numbers.
    numbers : str
        The mutation for columns of numbers beside categories.
    otherwise : str, optional
        The mutation where there are no categories; by default the same.
    """
    discrete = [d for d, names in enumerate(levels) if names is not None]
    continuous = [d for d, names in enumerate(levels) if names is None]
    if not discrete:
        return numbers if otherwise is None else otherwise
    if not continuous:
        return "categorical"
    return ProductMutation(
        [(make_mutation(numbers), continuous), (CategoricalMutation(), discrete)]
    )


def refuse_missing_numbers(estimator: Any, X: Array, remedy: str) -> None:
    """Refuse an empty cell among the numbers of a mixed data frame, by the name of its column."""
    columns: TableColumns = getattr(estimator, "table_columns_", {})
    for d, (name, column) in enumerate(columns.items()):
        empty = np.flatnonzero(np.isnan(X[:, d]))
        if column["levels"] is None and len(empty):
            raise RecordsError(
                f"column {name!r} has no value in row {empty[0]} ({len(empty)} empty in all); "
                f"{remedy}",
                column=name,
            )


def _as_frame(X: Any) -> Any:
    """Return a narwhals frame of a pandas or polars one, None for anything else."""
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        return None
    import narwhals as nw

    if not all(isinstance(name, str) for name in X.columns):
        return None
    if len(set(X.columns)) < len(list(X.columns)):
        return None
    try:
        return nw.from_native(X, eager_only=True)
    except TypeError:
        return None


def _kind(frame: Any, name: str) -> str:
    """Return "continuous", "categorical", "date", or "text" where the cells will say."""
    import narwhals as nw

    dtype = frame[name].dtype
    if dtype.is_numeric():
        return "continuous"
    if dtype in (nw.Categorical, nw.Enum, nw.Boolean):
        return "categorical"
    if dtype in (nw.Datetime, nw.Date):
        return "date"
    cells = [cell for cell in frame[name].to_list() if not is_missing(cell)]
    if all(isinstance(cell, bool) for cell in cells):
        return "categorical"
    if not all(isinstance(cell, str) for cell in cells):
        return "continuous"  # objects: numbers, or refused by name where numbers are made of them
    if len(set(cells)) < 2:
        return "categorical"
    kind, why = infer_kind(name, cells, list(range(len(cells))))
    if kind in ("date", "categorical"):
        return kind
    if kind in ("continuous", "count"):
        return "continuous"
    raise RecordsError(
        f"column {name!r} must be numbers, dates or categories; got {why} (first value "
        f"{cells[0][:40]!r}). Drop it, or make it a category: astype('category') in pandas, "
        "cast(Categorical) in polars.",
        column=name,
    )


def _coded(
    frame: Any, name: str, kind: str, known: Mapping[str, Any] | None
) -> tuple[Array, list[str] | None]:
    """Return a column as numbers, NaN where missing, and its categories."""
    cells = frame[name].to_list()
    missing = [is_missing(cell) for cell in cells]
    if known is not None and known["levels"] is not None:
        kind = "categorical"
    if kind == "categorical":
        texts = ["" if empty else str(cell) for cell, empty in zip(cells, missing, strict=True)]
        here = {text for text, empty in zip(texts, missing, strict=True) if not empty}
        if known is None:
            levels = list(_TRUTH) if here <= set(_TRUTH) else sorted(here)
        else:
            levels = list(known["levels"])
        strangers = sorted(here - set(levels))
        if strangers:
            raise RecordsError(
                f"column {name!r} must hold categories that were there at the fit "
                f"({', '.join(levels[:10])}); got {strangers[0]!r} in row "
                f"{texts.index(strangers[0])}. Mark it as missing, or fit again with it.",
                column=name,
            )
        place = {level: float(code) for code, level in enumerate(levels)}
        return np.array(
            [np.nan if e else place[t] for t, e in zip(texts, missing, strict=True)]
        ), levels
    if kind == "date":
        return _days(name, cells, missing), None
    numbers = [np.nan if empty else cell for cell, empty in zip(cells, missing, strict=True)]
    return _as_numbers(numbers, name), None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _as_numbers(cells: list[Any], name: str) -> Array:
    result = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            result[row] = float(cell)
        except (TypeError, ValueError):
            raise RecordsError(
                f"column {name!r} must be numbers, dates or categories; got {cell!r} in row {row}. "
                "Drop the column, or make it a category.",
                column=name,
            ) from None
    return result


def _days(name: str, cells: list[Any], missing: list[bool]) -> Array:
    """Return days since 1970-01-01; texts are read as the command line reads them."""
    present = [row for row, empty in enumerate(missing) if not empty]
    if any(isinstance(cells[row], str) for row in present):
        texts = ["" if missing[row] else str(cell) for row, cell in enumerate(cells)]
        return np.asarray(
            read_dates(Table((name,), (texts,), None, "", None), name, texts, present).values
        )
    days = np.full(len(cells), np.nan)
    for row in present:
        stamp = cells[row]
        if getattr(stamp, "tzinfo", None) is not None:
            from datetime import UTC

            stamp = stamp.astimezone(UTC).replace(tzinfo=None)
        days[row] = (np.datetime64(stamp, "us") - _EPOCH.astype("datetime64[us]")) / np.timedelta64(
            1, "D"
        )
    return days


def is_missing(cell: Any) -> bool:
    """None, NaN, NaT, and pandas' NA, which is neither equal nor unequal to itself."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or cell != cell

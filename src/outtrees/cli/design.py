"""From records to the matrix of numbers that density, label and impute take."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from outtrees._common.text import counted
from outtrees.cli.errors import CommandError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from outtrees.records import Column, Records

NUMBERS = ("continuous", "count", "date", "place")
CATEGORIES = ("categorical", "sequence")


class Design(NamedTuple):
    """Records as numbers, and how to read them back."""

    X: NDArray[np.float64]  # (T, D), NaN is missing
    names: list[str]  # (D,)
    levels: list[tuple[str, ...] | None]  # (D,), categories that the numbers stand for
    kinds: list[str]  # (D,)
    calendar: list[bool]  # (D,), whether numbers are days since 1970-01-01

    @property
    def discrete(self) -> list[int]:
        """The positions of categories."""
        return [d for d, levels in enumerate(self.levels) if levels is not None]

    @property
    def continuous(self) -> list[int]:
        """The positions of numbers."""
        return [d for d, levels in enumerate(self.levels) if levels is None]


def design(records: Records, *, codes: bool = True, only: Collection[str] | None = None) -> Design:
    """Return the columns of the records side by side; labels are left out.

    With codes, categories become positions in their levels. Without, they become the numbers that
    they are written as, and text is refused. With only, other columns are passed over.
    """
    import numpy as np

    parts: list[Any] = []
    names: list[str] = []
    levels: list[tuple[str, ...] | None] = []
    kinds: list[str] = []
    calendar: list[bool] = []
    for column in records.columns:
        if column.kind not in NUMBERS + CATEGORIES:
            continue
        values = column.values
        width = values.shape[1]
        here = [column.name] if width == 1 else [f"{column.name}.{i + 1}" for i in range(width)]
        if only is not None and not set(here) & set(only):
            continue
        coded = column.kind in CATEGORIES and codes
        if column.kind in CATEGORIES and not codes:
            values = _as_numbers(column)
        parts.append(values)
        names += here
        levels += [column.levels if coded else None] * width
        kinds += [column.kind] * width
        calendar += [column.calendar] * width
    if not parts and only is None:
        raise CommandError(
            "no column is left to learn from; see the kinds above, and name some with "
            "--kind COLUMN=KIND"
        )
    X = np.hstack(parts) if parts else np.empty((len(records), 0))
    return Design(X, names, levels, kinds, calendar)


def _as_numbers(column: Column) -> Any:
    import numpy as np

    try:
        numbers = np.array([float(level) for level in column.levels or ()] + [np.nan])
    except ValueError:
        first = next((text for text in column.text if text), "")
        raise CommandError(
            f"column {column.name!r} is text (first value {first[:40]!r}), but this --mutation "
            f"takes numbers; use --mutation kinds, or --ignore {column.name!r}"
        ) from None
    codes = np.where(np.isnan(column.values), len(numbers) - 1, column.values)
    return numbers[codes.astype(int)]


def refuse_missing(
    found: Design,
    records: Records,
    mutation: str,
    remedy: str = "fill them in with 'outtrees impute'",
) -> None:
    """Refuse an empty cell among numbers, by name, where the mutation cannot do without it."""
    import numpy as np

    if mutation == "categorical":
        return
    for d in found.continuous:
        empty = np.flatnonzero(np.isnan(found.X[:, d]))
        if len(empty):
            raise CommandError(
                f"record {records.ids[empty[0]]!r} has no {found.names[d]!r} "
                f"({counted(len(empty), 'record')} without); {remedy}, or leave the column out "
                "with --ignore"
            )


def by_kinds(found: Design, numbers: str) -> Any:
    """Return the mutation that suits the columns: `numbers`, one for categories, or both."""
    from outtrees.inference import frames

    return frames.by_kinds(found.levels, numbers)


def remember_columns(model: Any, found: Design) -> None:
    """Write into a fitted model which columns it learned from; it is saved with the model."""
    model.table_columns_ = {
        name: {"kind": kind, "levels": None if levels is None else list(levels)}
        for name, kind, levels in zip(found.names, found.kinds, found.levels, strict=True)
    }


def columns_of(model: Any, width: int) -> tuple[list[str], list[list[str] | None]]:
    """Return names and levels of the columns that a model learned from."""
    known = getattr(model, "table_columns_", None)
    if known is not None:
        return list(known), [column["levels"] for column in known.values()]
    names = getattr(model, "feature_names_in_", None)
    named = [f"x{d + 1}" for d in range(width)] if names is None else [str(name) for name in names]
    return named, [None] * width


def cells(values: Any, levels: list[str] | tuple[str, ...] | None) -> list[Any]:
    """Return numbers as they are, and categories by their names.

    Examples
    --------
    >>> cells([0.0, 1.0], ("north", "south")), cells([0.5], None)
    (['north', 'south'], [0.5])
    """
    numbers = [float(value) for value in values]
    return numbers if levels is None else [levels[int(number)] for number in numbers]


def readable(found: Design, value: float, d: int) -> Any:
    """Return a value of column d as the table has it: category, calendar date, or number."""
    if found.calendar[d]:
        from outtrees.records.column import iso_day

        return iso_day(round(value))
    return cells([value], found.levels[d])[0]

"""One column of the records: its kind, its values as numbers, its cells as they were read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from outtrees._common.text import counted, shown

Array = NDArray[np.float64]

_YEARS = (1500, 2100)  # whole numbers between are years, where the name says when
KINDS = ("continuous", "categorical", "count", "date", "sequence", "place", "label")
# What a column can be besides: these do not become a Column.
ROLES = ("ignore", "parent", "introduction", "group", "id")
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?", ".")
_EPOCH = date(1970, 1, 1)
# float() would also take "nan", "infinity" and "1_000".
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Column:
    """What was observed of every record in one respect.

    Attributes
    ----------
    name : str
    kind : {"continuous", "categorical", "count", "date", "sequence", "place", "label"}
    values : array of shape (T, D)
        NaN is missing. "categorical", "label": codes into `levels`. "sequence": codes into
        `levels`, one column a site. "date": days, since 1970-01-01 if `calendar`. "place": x, y
        and perhaps z in the units given, or km east and north of the centre if latitudes and
        longitudes were given.
    levels : tuple of str, or None
        The categories or the alphabet.
    text : tuple of str
        The cells as read, "" for missing; of a sequence a short digest, equal for equal sequences;
        of a place "x, y".
    calendar : bool
        Whether dates came as calendar dates.
    uncertainty : array of shape (T,), or None
        The half-width of each date in days, 0 where the date is exact or missing.
    reason : str
        Why the column has this kind.
    projected : bool
        Whether the cells of a place are latitudes and longitudes ("lat, lon" in `text`), which
        `values` holds as km east and north of their centre.
    end_values : array of shape (T, D), or None
        Of a place: where each record was at its end, in the units of `values`; where it began if
        the end is unknown. None if records do not move.
    sets : array of shape (T, D), or None
        Of DNA with IUPAC codes such as R: the bases that each site may be, as the sum of 1 (A), 2
        (C), 4 (G) and 8 (T), 15 where it was not read. None if no code stands for two or three.

    Examples
    --------
    >>> ward = Column("ward", "categorical", [[0], [1], [np.nan]], ("A", "B"), ("A", "B", ""))
    >>> len(ward), ward.n_missing, ward.summary
    (3, 1, 'A, B')
    """

    name: str
    kind: str
    values: Array  # (T, D)
    levels: tuple[str, ...] | None
    text: tuple[str, ...]
    calendar: bool = False
    uncertainty: Array | None = None  # (T,)
    reason: str = ""
    projected: bool = False
    end_values: Array | None = None  # (T, D)
    sets: NDArray[np.uint8] | None = None  # (T, D)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}; got {self.kind!r}")
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 2 or len(values) != len(self.text):
            raise ValueError(
                f"values of column {self.name!r} must have the shape ({len(self.text)}, D), one "
                f"row for each cell of text; got {values.shape}"
            )
        if self.uncertainty is not None and np.shape(self.uncertainty) != (len(values),):
            raise ValueError(
                f"uncertainty of column {self.name!r} must have shape ({len(values)},); got "
                f"{np.shape(self.uncertainty)}"
            )
        if self.end_values is not None and np.shape(self.end_values) != values.shape:
            raise ValueError(
                f"end_values of column {self.name!r} must have the shape of its values, "
                f"{values.shape}; got {np.shape(self.end_values)}"
            )
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Whether nothing at all is known, for each record, (T,)."""
        return np.asarray(np.isnan(self.values).all(axis=1))

    @property
    def unit_of_time(self) -> str:
        """What dates, and times between them, are counted in."""
        if self.calendar:
            return "days"
        return "years" if are_years(cell for cell in self.text if cell) else "units of time"

    @property
    def n_missing(self) -> int:
        """The number of records of which nothing is known here."""
        return int(self.missing.sum())

    @property
    def states(self) -> list[tuple[str, ...]]:
        """The states of each cell of a category, (T,): several if it is polymorphic.

        A cell without a code whose text is not empty holds several, with " / " between.
        """
        levels = self.levels or ()
        return [
            tuple(filter(None, text.split(" / "))) if value != value else (levels[int(value)],)
            for value, text in zip(self.values[:, 0].tolist(), self.text, strict=True)
        ]

    def take(self, rows: Any) -> Self:
        """Return the column of these records only; the levels stay.

        Parameters
        ----------
        rows : array of int or bool
            Positions, or a mask.

        Returns
        -------
        Column
            These cells.
        """
        rows = np.asarray(rows)
        return replace(
            self,
            values=self.values[rows],
            text=tuple(self.text[i] for i in rows.tolist()),
            uncertainty=None if self.uncertainty is None else self.uncertainty[rows],
            end_values=None if self.end_values is None else self.end_values[rows],
            sets=None if self.sets is None else self.sets[rows],
        )

    @property
    def summary(self) -> str:
        """What values there are, in a few words."""
        present = self.values[~self.missing]
        if not len(present):
            return "none"
        if self.kind in ("categorical", "label") and self.levels is not None:
            return _listed(self.levels)
        if self.kind == "sequence" and self.levels is not None:
            alphabet = "".join(self.levels)
            known = 1 - np.isnan(present).mean()
            return f"{self.values.shape[1]} sites of {shown(alphabet, 24)}, {known:.0%} known"
        low, high = np.nanmin(present, axis=0), np.nanmax(present, axis=0)
        ranges = [f"{self._value(a)} to {self._value(b)}" for a, b in zip(low, high, strict=True)]
        vague = 0 if self.uncertainty is None else int((self.uncertainty > 0).sum())
        return ", ".join(ranges) + (f", {vague} uncertain" if vague else "")

    def _value(self, value: float) -> str:
        return iso_day(value) if self.calendar else f"{value:.6g}"


def are_years(cells: Iterable[str]) -> bool:
    """Return whether all cells are years by their size, 1500 to 2100."""
    low, high = _YEARS
    return all(len(cell) == 4 and cell.isdigit() and low <= int(cell) <= high for cell in cells)


def is_number(cell: str) -> bool:
    """Return whether a cell is written as a number; infinity counts, to be refused by name.

    Examples
    --------
    >>> [is_number(cell) for cell in ("-3.5", "1e6", "1_000", "nan", "inf", "")]
    [True, True, False, False, True, False]
    """
    return bool(_NUMBER.fullmatch(cell) or _INFINITE.fullmatch(cell))


def are_numbers(cells: Iterable[str]) -> bool:
    """Return whether all cells that are not empty are written as numbers."""
    return all(is_number(cell) for cell in cells if cell)


def first_not(cells: list[str], present: list[int]) -> int | None:
    """Return the first of the present rows whose cell is no finite number, None if all are."""
    for row in present:
        cell = cells[row]
        if not _NUMBER.fullmatch(cell) or math.isinf(float(cell)):
            return row
    return None


def as_numbers(cells: list[str], present: list[int]) -> Array:
    """Return the cells as numbers, (T,), NaN where missing."""
    values = np.full(len(cells), np.nan)
    values[present] = [float(cells[row]) for row in present]
    return values


def iso_day(days: float) -> str:
    """Return the calendar date of a number of days since 1970-01-01.

    Examples
    --------
    >>> iso_day(18000.9), iso_day(-0.5)
    ('2019-04-14', '1969-12-31')
    """
    return (_EPOCH + timedelta(days=int(np.floor(days)))).isoformat()


def with_sets(reason: str, n_sets: int) -> str:
    """Return why a column has its kind, and how many of its cells hold several states.

    Examples
    --------
    >>> with_sets("text", 2)
    'text; 2 cells are one of several states'
    """
    verb = "is" if n_sets == 1 else "are"
    return f"{reason}; {counted(n_sets, 'cell')} {verb} one of several states" if n_sets else reason


def _listed(levels: Sequence[str], length: int = 36) -> str:
    full = ", ".join(shown(level, 20) for level in levels)
    if len(full) <= length:
        return full
    parts = []
    for level in levels:
        parts.append(shown(level, 16))
        if len(", ".join(parts)) > length - 14:
            break
    return f"{len(levels)}: {', '.join(parts)}, …"

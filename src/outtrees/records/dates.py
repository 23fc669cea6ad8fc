"""Cells that are dates: what they say in days, and how exactly."""

from __future__ import annotations

import calendar
import re
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import NamedTuple

import numpy as np

from outtrees._common.text import quoted
from outtrees.errors import Option
from outtrees.records.column import Array, Column, is_number
from outtrees.records.table import Table

_EPOCH = date(1970, 1, 1).toordinal()
_ISO = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:[T ](?P<time>\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?) ?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?)?)?",
    re.ASCII,
)
_WRITTEN = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})", re.ASCII)  # 5.3.2020 or 3/5/2020
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
    *("october", "november", "december"),
)
# 5 Mar 2020, 05-March-2020, Mar 5, 2020
_NAMED = re.compile(
    r"(?P<day>\d{1,2})[ .-]+(?P<month>[a-z]{3,9})[ .,-]+(?P<year>\d{4})"
    r"|(?P<month_>[a-z]{3,9})[ .]+(?P<day_>\d{1,2}),? +(?P<year_>\d{4})",
    re.ASCII | re.IGNORECASE,
)
# 2009–2013, 2020-03-05/2020-03-09, 2020-03-05 to 2020-03-09
_RANGE = re.compile(r"(\d{4})\s*-\s*(\d{4})|(\S+)\s*(?:/|–|—|\bto\b)\s*(\S+)", re.ASCII)
_VAGUE = re.compile(r"(.+?)\s*(?:±|\+/-)\s*(\d+(?:\.\d*)?)", re.ASCII)
_REMEDY = "write dates as 2020-03-05 (or 2020-03, or 2020, if no more is known)"


class Dates(NamedTuple):
    """Days and their half-widths."""

    values: Array  # (T,), days since 1970-01-01 if calendar, NaN where missing
    calendar: bool
    uncertainty: Array | None  # (T,), 0 where exact or missing; None if all are exact


def look_like_dates(cells: list[str], present: list[int]) -> bool:
    """Return whether every cell present is written as a calendar date, one of them at least fully.

    Years alone are plain numbers.
    """
    full = False
    for row in present:
        cell = _exact_part(cells[row])[0]
        iso = _ISO.fullmatch(cell)
        if iso is None and not is_date(cell):
            return False
        full = full or iso is None or iso["month"] is not None
    return full


def is_date(cell: str) -> bool:
    """Return whether a cell is written as a calendar date.

    Examples
    --------
    >>> [is_date(cell) for cell in ("2020-03-05", "5 Mar 2020", "2009–2013", "05.03.20")]
    [True, True, True, False]
    """
    cell = _exact_part(cell)[0]
    if _ISO.fullmatch(cell) or _WRITTEN.fullmatch(cell) or _ends(cell) is not None:
        return True
    return _by_name(cell) is not None


def _by_name(cell: str) -> tuple[int, int, int] | None:
    """Return year, month and day of a date whose month is an English word, None if it is none."""
    found = _NAMED.fullmatch(cell)
    if found is None:
        return None
    day, month, year = (found[name] or found[f"{name}_"] for name in ("day", "month", "year"))
    months = [m for m, name in enumerate(_MONTHS, start=1) if name.startswith(month.lower())]
    return (int(year), months[0], int(day)) if months else None


def read_dates(
    table: Table,
    name: str,
    cells: list[str],
    present: list[int],
    day_first: bool | None = None,
) -> Dates:
    """Return the dates of a column.

    Plain numbers stay what they are, in the units given. Calendar dates are

    - ISO: 2020-03-05, 2020-03-05T10:00 (a fraction of the day; zones are converted to UTC);
    - 2020-03 and 2020: the middle of the month or year ± half of it, so that first and last day
      are both within (beside other calendar dates; a column of bare years counts in years, and
      so does the waiting time);
    - 2009–2013 or 2020-03-05/2020-03-09: the middle, ± half of the range;
    - 5 Mar 2020, 05-March-2020 or March 5, 2020, with English months;
    - 05.03.2020 or 05/03/2020, if over the whole column some day above 12, or day = month
      throughout, shows which is which, or else `day_first` says it.

    "± n" (or "+/- n") after a date or number gives its half-width in days.
    """
    split = {row: _exact_part(cells[row]) for row in present}
    values = np.full(len(cells), np.nan)
    widths = np.zeros(len(cells))
    odd = [row for row, (cell, _) in split.items() if not is_number(cell)]
    numbers = not odd
    first = split[present[0]][0] if present else ""
    calendar_first = _ISO.fullmatch(first) is not None or _ends(first) is not None
    if odd and len(odd) < len(split) / 2 and not calendar_first:
        raise table.error(
            odd[0],
            name,
            f"{quoted(cells[odd[0]])} is not a number like the other dates; "
            "write all dates as numbers or all as 2020-03-05",
        )
    if not numbers:
        day_first = _day_first(table, name, split, day_first)
    known: dict[str, tuple[float, float]] = {}  # many records share few dates
    for row, (cell, width) in split.items():
        try:
            if cell not in known:
                known[cell] = (float(cell), 0.0) if numbers else _days(cell, day_first)
        except ValueError as error:
            raise table.error(
                row,
                name,
                f"{quoted(cell)} is not a date{f' ({error})' if str(error) else ''}; {_REMEDY}",
            ) from None
        middle, half = known[cell]
        if not np.isfinite(middle):
            raise table.error(row, name, f"{quoted(cell)} is infinite; {_REMEDY}")
        values[row] = middle
        widths[row] = half + width
    return Dates(values, not numbers and bool(split), widths if widths.any() else None)


def in_days(years: Column) -> Column:
    """Return a column of bare years as calendar dates: the middle of each year, ± half of it."""
    known = np.array([_days(cell, None) if cell else (np.nan, 0.0) for cell in years.text])
    values, widths = known.reshape(-1, 2).T
    return replace(years, values=values[:, None], calendar=True, uncertainty=widths)


def _ends(cell: str) -> tuple[str, str] | None:
    """Return the two dates of a range, None if the cell is not one."""
    found = _RANGE.fullmatch(cell)
    if found is None:
        return None
    first, last = found[1] or found[3], found[2] or found[4]
    return (first, last) if _ISO.fullmatch(first) and _ISO.fullmatch(last) else None


def _exact_part(cell: str) -> tuple[str, float]:
    vague = _VAGUE.fullmatch(cell)
    return (vague[1], float(vague[2])) if vague else (cell, 0.0)


def _days(cell: str, day_first: bool | None) -> tuple[float, float]:
    """Return the middle and the half-width of a calendar date in days since 1970-01-01."""
    written = _WRITTEN.fullmatch(cell)
    if written:
        one, two, year = int(written[1]), int(written[3]), int(written[4])
        day, month = (one, two) if day_first else (two, one)
        return float(date(year, month, day).toordinal() - _EPOCH), 0.0
    by_name = _by_name(cell)
    if by_name is not None:
        return float(date(*by_name).toordinal() - _EPOCH), 0.0
    iso = _ISO.fullmatch(cell)
    if iso is None:
        ends = _ends(cell)
        if ends is None:
            raise ValueError
        (first, before), (last, after) = (_days(end, day_first) for end in ends)
        if first - before > last + after:
            raise ValueError("it ends before it begins")
        first, last = first - before, last + after
        return (first + last) / 2, (last - first) / 2
    year = int(iso["year"])
    if iso["day"] is None:
        first_month, last_month = (1, 12) if iso["month"] is None else (int(iso["month"]),) * 2
        if not 1 <= first_month <= 12:
            raise ValueError("month must be in 1..12")
        last_day = calendar.monthrange(year, last_month)[1]
        first = date(year, first_month, 1).toordinal() - _EPOCH
        last = date(year, last_month, last_day).toordinal() - _EPOCH
        return (first + last) / 2, (last - first) / 2
    midnight = datetime(year, int(iso["month"]), int(iso["day"]))
    days = float(midnight.toordinal() - _EPOCH)
    return days + _fraction(iso["time"], iso["zone"]) / timedelta(days=1), 0.0


def _fraction(time: str | None, zone: str | None) -> timedelta:
    if time is None:
        return timedelta()
    hours, minutes, *seconds = (float(part) for part in time.split(":"))
    if hours > 23 or minutes > 59 or (seconds and seconds[0] >= 61):
        raise ValueError(f"there is no {time} o'clock")
    since = timedelta(hours=hours, minutes=minutes, seconds=seconds[0] if seconds else 0.0)
    if zone in (None, "Z"):
        return since
    sign = -1 if zone[0] == "-" else 1
    return since - sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))


def _day_first(
    table: Table, name: str, split: dict[int, tuple[str, float]], said: bool | None
) -> bool | None:
    """Return whether the day stands before the month: as cells show, else as was said."""
    day_first = month_first = open_ = None  # a row that shows it, each
    for row, (cell, _) in split.items():
        written = _WRITTEN.fullmatch(cell)
        if not written:
            continue
        one, two = int(written[1]), int(written[3])
        if one > 12 and two <= 12:
            day_first = row if day_first is None else day_first
        elif two > 12 and one <= 12:
            month_first = row if month_first is None else month_first
        elif one != two and open_ is None:
            open_ = row
    if day_first is not None and month_first is not None:
        raise table.error(
            day_first,
            name,
            f"{quoted(split[day_first][0])} puts the day first, "
            f"but {quoted(split[month_first][0])} ({table.spot(month_first)}) the month; "
            f"{_REMEDY}",
        )
    shows = month_first if said else day_first
    if said is not None and shows is not None:
        raise table.error(
            shows,
            name,
            f"{quoted(split[shows][0])} puts the {'month' if said else 'day'} first, but ",
            Option("day_first", said),
            " says otherwise; leave that out, or correct the cell",
        )
    if day_first is None and month_first is None and open_ is not None:
        if said is not None:
            return said
        raise table.error(
            open_,
            name,
            f"{quoted(split[open_][0])} may be either day or month "
            "first, and no other cell of the column shows which; pass ",
            Option("day_first", True),
            " or ",
            Option("day_first", False),
            f", or {_REMEDY}",
        )
    return day_first is not None

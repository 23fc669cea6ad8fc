"""What a column is: guessed by simple rules, or made what it was asked to be."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from outtrees._common.text import quoted
from outtrees.records.column import (
    Column,
    are_years,
    as_numbers,
    first_not,
    is_number,
    with_sets,
)
from outtrees.records.dates import is_date, look_like_dates, read_dates
from outtrees.records.names import names_age, names_date, names_units, names_year
from outtrees.records.sequences import align, looks_like_dna
from outtrees.records.table import Table

_SET = re.compile(r"\{(.+ / .+)\}")
_FEW = 5  # so many different whole numbers, if they recur, are categories
_LARGEST_COUNT = 30  # beyond, a Gaussian fits counts and whatever else whole numbers may be
_SOME = 0.1  # so many of the cells of a household or a ward share their value with another
_LONG_CODE = 9  # digits; quantities are seldom written so exactly, codes of places are
_LONG_UNIQUE, _ENOUGH = 8, 10  # digits of numbers that all differ, such as passports; how many


def infer_kind(name: str, cells: list[str], present: list[int]) -> tuple[str, str]:
    """Return the kind of a column and the reason, by the rules 2 to 6 of `read_records`.

    Examples
    --------
    >>> infer_kind("ward", ["A", "B", "A", "B"], [0, 1, 2, 3])
    ('categorical', 'text, 2 values that recur')
    >>> infer_kind("onset", ["2020-03-05", "", "2020-03"], [0, 2])
    ('date', 'calendar dates')
    """
    number: dict[str, int] = {}
    for row in present:
        number[cells[row]] = number.get(cells[row], 0) + 1
    different = list(number)
    shared = sum(count for count in number.values() if count > 1)
    recur = shared >= len(present) / 2
    some = shared >= _SOME * len(present)
    if len(different) < 2:
        return "ignore", "the only value is the same everywhere" if different else "no value"
    if look_like_dates(different, list(range(len(different)))):
        return "date", "calendar dates"
    if all(is_number(cell) for cell in different):
        return _number_kind(name, different, recur, some)
    if looks_like_dna(different):
        return "sequence", "DNA of one length"
    if names_date(name):
        odd = [cell for cell in different if not is_date(cell)]
        if sum(any(c.isdigit() for c in cell) for cell in different) > len(different) / 2:
            return "ignore", f"called a date, but {quoted(odd[0])} is not written as 2020-03-05"
    if recur or (some and names_units(name)):
        return "categorical", f"text, {len(different)} values that recur"
    return "ignore", f"text, {len(different)} values that hardly recur"


def _number_kind(name: str, cells: list[str], recur: bool, some: bool) -> tuple[str, str]:
    values = np.array([float(cell) for cell in cells])
    if names_year(name) and are_years(cells):
        return "date", "years"
    if names_date(name):
        return "date", "years" if are_years(cells) else "numbers, called a date"
    if (values != np.round(values)).any():
        return "continuous", "numbers with decimals"
    if names_age(name) and len(values) > 2:
        return "continuous", "whole numbers, called an age"
    code = "written as codes" if _are_codes(cells, unique=not some) else ""
    if names_units(name):
        code = f"called {name}"
    if code and some:
        return "categorical", f"{len(cells)} whole numbers that recur, {code}"
    if code:
        return "ignore", f"whole numbers that hardly recur, {code}: they name, not measure"
    different = len(np.unique(values))
    if different <= 2 or (different <= _FEW and recur):
        return "categorical", f"{different} whole numbers that recur"
    if values.min() < 0:
        return "continuous", "whole numbers, some negative"
    if values.max() <= _LARGEST_COUNT:
        return "count", f"whole numbers up to {values.max():g}"
    return "continuous", f"whole numbers, some above {_LARGEST_COUNT}"


def _are_codes(cells: list[str], unique: bool) -> bool:
    """Return whether whole numbers are written as nobody writes quantities.

    Those that do not recur need fewer digits for that.
    """
    if not all(cell.isdigit() for cell in cells):
        return False
    sizes = {len(cell) for cell in cells}
    padded = any(cell.startswith("0") and len(cell) > 1 for cell in cells)
    long = _LONG_UNIQUE if unique and len(cells) >= _ENOUGH else _LONG_CODE
    return len(sizes) == 1 and (padded or min(sizes) >= long)


def make_column(
    table: Table,
    name: str,
    cells: list[str],
    kind: str,
    reason: str,
    day_first: bool | None = None,
) -> Column:
    """Return the column as the kind asked for, or say which cell does not fit."""
    present = [row for row, cell in enumerate(cells) if cell]
    text = tuple(cells)
    if kind in ("continuous", "count"):
        _check_numbers(table, name, cells, present, kind)
        values = as_numbers(cells, present)
        return Column(name, kind, values[:, None], None, text, reason=reason)
    if kind == "date":
        dates = read_dates(table, name, cells, present, day_first)
        return Column(
            name,
            kind,
            dates.values[:, None],
            None,
            text,
            calendar=dates.calendar,
            uncertainty=dates.uncertainty,
            reason=reason,
        )
    if kind == "sequence":
        return sequence_column(name, text, lambda row: table.where(row, name), reason)
    # {a / b}: one of several states. They stay in the text, and no code is known.
    sets = [_SET.fullmatch(cell) for cell in text]
    levels, codes = coded(
        tuple("" if found else cell for found, cell in zip(sets, text, strict=True)),
        {state for found in sets if found for state in found[1].split(" / ")},
    )
    text = tuple(found[1] if found else cell for found, cell in zip(sets, text, strict=True))
    why = with_sets(reason, len(sets) - sets.count(None))
    return Column(name, kind, codes[:, None], levels, text, reason=why)


def sequence_column(
    name: str,
    texts: Sequence[str],
    where: Callable[[int], str],
    reason: str,
    letters: str | None = None,
) -> Column:
    """Return aligned sequences as a column; `where` and `letters` are those of `align`."""
    found = align(texts, where, letters)
    cells = found.values, found.alphabet, found.digests
    return Column(name, "sequence", *cells, reason=reason, sets=found.sets)


def coded(
    text: tuple[str, ...], also: AbstractSet[str] = frozenset()
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the levels, numbers by size and text by alphabet, and each cell's code (T,).

    `also` are levels that no cell has to itself.
    """
    found = (set(text) | also) - {""}
    by_size = all(is_number(level) for level in found)
    levels = sorted(found, key=lambda level: (float(level), level) if by_size else (0.0, level))
    code = {level: float(i) for i, level in enumerate(levels)}
    return tuple(levels), np.array([code.get(cell, np.nan) for cell in text])


def _check_numbers(
    table: Table, name: str, cells: list[str], present: list[int], kind: str
) -> None:
    bad = first_not(cells, present)
    if bad is not None:
        raise table.error(
            bad,
            name,
            f"the cell must be a finite number; got {quoted(cells[bad])}. Correct it, leave it "
            "empty if it is unknown, or give the column another kind, such as "
            "'categorical' or 'ignore'",
        )
    if kind == "count":
        for row in present:
            value = float(cells[row])
            if value < 0 or value != int(value):
                raise table.error(
                    row,
                    name,
                    f"the cell must be a count (0, 1, 2, …); got {quoted(cells[row])}. Correct it "
                    "or give the column the kind 'continuous'",
                )

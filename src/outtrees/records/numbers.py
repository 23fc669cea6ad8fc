"""Cells that are numbers."""

from __future__ import annotations

import math
import re

import numpy as np

from outtrees.records.column import Array

# float() would also take "nan", "infinity" and "1_000".
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)


def is_number(cell: str) -> bool:
    """Return whether a cell is written as a number; infinity counts, to be refused by name.

    Examples
    --------
    >>> [is_number(cell) for cell in ("-3.5", "1e6", "1_000", "nan", "inf", "")]
    [True, True, False, False, True, False]
    """
    return bool(_NUMBER.fullmatch(cell) or _INFINITE.fullmatch(cell))


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

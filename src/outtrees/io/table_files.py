"""Tables as CSV that a spreadsheet shows and does not run."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from outtrees._common.files import write_atomically

# Spreadsheets take a cell that begins so for a formula; the wide forms too, in some languages.
_FORMULA = re.compile("[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def neutral(cell: Any) -> str:
    """Return a cell as text that no spreadsheet executes.

    A cell that begins with =, +, -, @, a tab or a line end gets an apostrophe before it, unless
    it is a plain number. None and NaN become empty; numbers keep every digit.

    Examples
    --------
    >>> [neutral(cell) for cell in ("=1+1", "-3.5", "-x", -3.5, None, "a=b")]
    ["'=1+1", '-3.5', "'-x", '-3.5', '', 'a=b']
    """
    if cell is None:
        return ""
    if type(cell) is float and math.isfinite(cell):  # asked first: most cells of results are
        return repr(cell)
    if type(cell) is not str and isinstance(cell, Real) and not isinstance(cell, (bool, Integral)):
        return "" if math.isnan(cell) else repr(float(cell))
    text = str(cell)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def to_csv(columns: Mapping[str, Sequence[Any]], *, delimiter: str = ",") -> str:
    """Return a table as CSV text, its cells and its header made `neutral`.

    Examples
    --------
    >>> print(to_csv({"child": ["a", "=b"], "support": [0.5, 1]}))
    child,support
    a,0.5
    '=b,1
    """
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) > 1:
        raise ValueError(
            "columns are expected to have one length, but they have "
            + ", ".join(f"{len(cells)} ({name!r})" for name, cells in columns.items())
        )
    # Not csv.writer: that of Python 3.11 leaves a lone carriage return without quotation marks,
    # and what follows would begin a row, as a formula perhaps.
    special = re.compile(f'[{re.escape(delimiter)}"\\r\\n]|^\\s|\\s$')
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    return "".join(
        delimiter.join(_quoted(neutral(cell), special) for cell in row) + "\n" for row in rows
    )


def _quoted(text: str, special: re.Pattern[str]) -> str:
    return '"' + text.replace('"', '""') + '"' if special.search(text) else text


def write_csv(path: str | os.PathLike[str], columns: Mapping[str, Sequence[Any]]) -> Path:
    """Write a table as CSV, or as TSV if the path ends so, whole or not at all; return the path.

    See `neutral` for what becomes of cells that a spreadsheet would take for formulas.
    """
    delimiter = "\t" if Path(path).suffix.lower() in (".tsv", ".tab") else ","
    return write_atomically(path, to_csv(columns, delimiter=delimiter))

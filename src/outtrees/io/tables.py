"""Tables of results: named columns that print themselves, and CSV that a spreadsheet shows and
does not run.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, overload

from outtrees._common.files import write_atomically
from outtrees._common.text import html_table
from outtrees.errors import library

_ROWS_SHOWN = 30
# Spreadsheets take a cell that begins so for a formula; the wide forms too, in some languages.
_FORMULA = re.compile("[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


class Table:
    """Rows and named columns of a result; prints itself, in a notebook as HTML.

    `len` counts rows, a loop yields rows, `table[3]` is a row and `table["parent"]` a column. Rows
    are named tuples. `dict(table)` has the columns.

    Parameters
    ----------
    columns : mapping of str to sequence
        Cells of each column, equally many.

    Examples
    --------
    >>> table = Table({"child": ["b", "c"], "parent": ["a", ""], "support": [0.9, 0.25]})
    >>> print(table)
    child  parent  support
    b      a         0.900
    c                0.250
    >>> len(table), table["child"], table[0]
    (2, ['b', 'c'], Row(child='b', parent='a', support=0.9))
    >>> [child for child, parent, support in table if support > 0.5]
    ['b']
    >>> print(table[1:])
    child  parent  support
    c                0.250
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = {name: list(cells) for name, cells in columns.items()}
        lengths = {len(cells) for cells in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of a table must be equally long; got {sorted(lengths)}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def __iter__(self) -> Iterator[Any]:
        return map(_row_type(self.columns)._make, zip(*self._columns.values(), strict=True))

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    @overload
    def __getitem__(self, key: slice) -> Table: ...
    @overload
    def __getitem__(self, key: int) -> Any: ...
    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str):
            if key not in self._columns:
                raise KeyError(
                    f"{key!r} is not a column; the columns are {', '.join(self.columns)}"
                )
            return self._columns[key]
        if isinstance(key, slice):
            return Table({name: cells[key] for name, cells in self._columns.items()})
        if not -len(self) <= operator.index(key) < len(self):
            raise IndexError(f"row {key} is asked for, but the table has {len(self)} rows")
        return _row_type(self.columns)(*(cells[key] for cells in self._columns.values()))

    def __eq__(self, other: object) -> bool:
        return self._columns == other._columns if isinstance(other, Table) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # columns are lists

    def keys(self) -> tuple[str, ...]:
        """Return the names of the columns, so that `dict(table)` has the columns.

        Returns
        -------
        tuple of str
            The names.
        """
        return self.columns

    def values(self) -> list[list[Any]]:
        """Return the columns.

        Returns
        -------
        list of list
            The cells of each column.
        """
        return list(self._columns.values())

    def items(self) -> list[tuple[str, list[Any]]]:
        """Return the names of the columns, each with its cells.

        Returns
        -------
        list of (str, list)
            Names and cells.
        """
        return list(self._columns.items())

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows, as a loop over the table does.

        Yields
        ------
        Row
            A named tuple.
        """
        return iter(self)

    def head(self, n: int) -> Table:
        """Return the first n rows.

        Parameters
        ----------
        n : int
            The number of rows.

        Returns
        -------
        Table
            At most n rows.
        """
        return self[:n]

    def to_pandas(self) -> Any:
        """Return a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            With the same columns.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        return _library("pandas").DataFrame(self._columns)

    def to_polars(self) -> Any:
        """Return a polars data frame.

        Returns
        -------
        polars.DataFrame
            With the same columns.

        Raises
        ------
        MissingExtraError
            If polars is not installed.
        """
        return _library("polars").DataFrame(self._columns, strict=False)

    def __str__(self) -> str:
        shown = self.head(_ROWS_SHOWN)
        texts = [[name, *map(_text, cells)] for name, cells in shown.items()]
        widths = [max(map(len, column), default=0) for column in texts]
        right = [_is_number(cells) for cells in shown.values()]
        lines = []
        for row in zip(*texts, strict=True):
            cells = (
                f"{cell:>{width}}" if to_right else f"{cell:{width}}"
                for cell, width, to_right in zip(row, widths, right, strict=True)
            )
            lines.append("  ".join(cells).rstrip())
        if len(self) > _ROWS_SHOWN:
            lines.append(f"… {len(self) - _ROWS_SHOWN} more rows")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it; names of records are text, never markup."""
        shown = self.head(_ROWS_SHOWN)
        right = {i for i, cells in enumerate(shown.values()) if _is_number(cells)}
        rest = len(self) - len(shown)
        more = f"\n<p>… {rest} more rows</p>" if rest else ""
        return html_table(self.columns, ([_text(c) for c in row] for row in shown), right) + more


@lru_cache
def _row_type(names: tuple[str, ...]) -> Any:
    """Return the named tuple of a row; a name that is no identifier becomes _0, _1, …"""
    return namedtuple("Row", names, rename=True)


def _library(name: str) -> Any:
    return library(
        name,
        f"to_{name} needs {name}, which is not installed; run 'pip install {name}', or use "
        "dict(table)",
    )


def _text(cell: Any) -> str:
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def _is_number(cells: Sequence[Any]) -> bool:
    return bool(cells) and all(isinstance(cell, (int, float)) for cell in cells)


def neutral(cell: Any) -> str:
    r"""Return a cell as text that neither spreadsheets nor terminals execute.

    A cell that begins with =, +, -, @, a tab or a line end gets an apostrophe before it, unless
    it is a plain number. Control characters, but for tabs and line ends, are written as escapes:
    a file of results is looked at with cat and less. None and NaN become empty; numbers keep every
    digit.

    Parameters
    ----------
    cell : object
        Text, a number, None.

    Returns
    -------
    str
        The text to write.

    Examples
    --------
    >>> [neutral(cell) for cell in ("=1+1", "-3.5", "-x", -3.5, None, "a=b")]
    ["'=1+1", '-3.5', "'-x", '-3.5', '', 'a=b']
    >>> print(neutral("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    if cell is None:
        return ""
    if type(cell) is float and math.isfinite(cell):  # asked first: most cells of results are
        return repr(cell)
    if type(cell) is not str and isinstance(cell, Real) and not isinstance(cell, (bool, Integral)):
        return "" if math.isnan(cell) else repr(float(cell))
    text = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", str(cell))
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def to_csv(columns: Mapping[str, Sequence[Any]] | Table, *, delimiter: str = ",") -> str:
    """Return a table as CSV text, its cells and its header made `neutral`.

    Parameters
    ----------
    columns : mapping of str to sequence, or Table
        The table.
    delimiter : str
        Between cells.

    Returns
    -------
    str
        The text.

    Raises
    ------
    ValueError
        If columns are not equally long.

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
            "columns of a table must be equally long; got "
            + ", ".join(f"{len(cells)} ({name!r})" for name, cells in columns.items())
        )
    # Not csv.writer: that of Python 3.11 leaves a lone carriage return without quotation marks,
    # and what follows would begin a row, as a formula perhaps.
    special = re.compile(f'[{re.escape(delimiter)}"\\r\\n]|^\\s|\\s$')
    rows = [list(columns.keys()), *zip(*columns.values(), strict=True)]
    return "".join(
        delimiter.join(_quoted(neutral(cell), special) for cell in row) + "\n" for row in rows
    )


def _quoted(text: str, special: re.Pattern[str]) -> str:
    return '"' + text.replace('"', '""') + '"' if special.search(text) else text


def write_csv(path: str | os.PathLike[str], columns: Mapping[str, Sequence[Any]] | Table) -> Path:
    """Write a table as CSV, or TSV if the path ends in .tsv, whole or not at all; return the path.

    See `neutral` for what becomes of cells that a spreadsheet would take for formulas.

    Parameters
    ----------
    path : path
        The file; TSV if it ends in .tsv or .tab.
    columns : mapping of str to sequence, or Table
        The table.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_csv(f"{folder}/out.csv", {"a": [1, 2]}).read_text().splitlines()
    ['a', '1', '2']
    """
    delimiter = "\t" if Path(path).suffix.lower() in (".tsv", ".tab") else ","
    return write_atomically(path, to_csv(columns, delimiter=delimiter))

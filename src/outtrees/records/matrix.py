"""A square matrix of numbers between named records."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from outtrees._common.text import counted, first_ten, quoted
from outtrees.errors import Option, RecordsError
from outtrees.records.column import MISSING, Array, is_number
from outtrees.records.files import MAX_BYTES, read_source
from outtrees.records.sequences import check_unique
from outtrees.records.table import delimited_rows


def read_matrix(
    path: str | os.PathLike[str],
    *,
    encoding: str = "utf-8",
    max_bytes: int = MAX_BYTES,
    unknown: bool = False,
) -> tuple[tuple[str, ...], Array]:
    """Return identities (T,) and matrix (T, T) of a CSV or TSV file with names on two sides.

    The first row and the first column name the records; entry [u, v] stands in the row of u and
    the column of v, so a matrix of log-weights has children in rows and parents in columns.
    Columns are put in the order of the rows. "-inf" is allowed (a parent that is ruled out);
    empty cells are allowed on the diagonal, and become 0. If ``unknown``, other cells may be empty
    or NA as well, and become NaN: distances that were not measured.

    Parameters
    ----------
    path : path
        A CSV or TSV file, plain or gzip.
    encoding : str
        Of its text.
    max_bytes : int
        Larger files are refused.
    unknown : bool
        Whether cells beside the diagonal may be empty.

    Returns
    -------
    ids : tuple of str
        Identities.
    matrix : array of shape (T, T)
        Numbers.

    Raises
    ------
    RecordsError
        If the matrix is not square, the names differ, or a cell is no number.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/distances.csv", "w") as file:
    ...         print("id,a,b", "a,,2", "b,2,", sep=chr(10), file=file)
    ...     read_matrix(f"{folder}/distances.csv")[1]
    array([[0., 2.],
           [2., 0.]])
    """
    source = read_source(path, max_bytes)
    header, rows, lines = delimited_rows(source, encoding)
    corner = header[0].strip() == "" or len(header) == len(rows[0] if rows else [])
    across = [name.strip() for name in header[1 if corner else 0 :]]  # R leaves the corner out
    down = [row[0].strip() for row in rows]
    T = len(rows)
    if T == 0:
        raise RecordsError(f"{source.name} has no data rows; it holds only a header")
    check_unique(down, lines, source.name, "line")
    check_unique(across, range(2, len(across) + 2), source.name, "column")
    if set(down) != set(across):
        _refuse_names(source.name, down, across)
    for row, line in zip(rows, lines, strict=True):  # before T² numbers are asked for
        if len(row) != T + 1:
            raise RecordsError(
                f"{source.name} line {line}: a row must be a name and {T} numbers; got {len(row)} "
                "fields. Correct that line"
            )
    matrix = np.empty((T, T))
    for u, (row, line) in enumerate(zip(rows, lines, strict=True)):
        try:
            matrix[u] = row[1:]
        except ValueError:
            matrix[u] = _row(source.name, line, row[1:], down[u], across, unknown)
        if np.isnan(matrix[u]).any() or (matrix[u] == np.inf).any():
            matrix[u] = _row(source.name, line, row[1:], down[u], across, unknown)
    if down != across:
        place = {name: v for v, name in enumerate(across)}
        matrix = matrix[:, [place[name] for name in down]]
    return tuple(down), matrix


def in_order_of(wanted: Sequence[str], ids: Sequence[str], matrix: Array, title: str) -> Array:
    """Return a matrix between `ids` in the order of the records; both must be the same."""
    place = {name: row for row, name in enumerate(ids)}
    known = set(wanted)
    strangers = [name for name in ids if name not in known]
    without = [name for name in wanted if name not in place]
    if strangers or without:
        parts = [f"{len(strangers)} are not records: {first_ten(strangers)}"] * bool(strangers)
        parts += [
            f"{counted(len(without), 'record')} {'is' if len(without) == 1 else 'are'} not in it: "
            f"{first_ten(without)}"
        ] * bool(without)
        raise RecordsError(
            f"{title}: identities do not match those of the table; {'; '.join(parts)}. Name the "
            "same records in both, or another column with ",
            Option("id"),
            records=[*strangers, *without],
        )
    order = [place[name] for name in wanted]
    return matrix[np.ix_(order, order)]


def _row(
    title: str, line: int, cells: Sequence[str], name: str, across: Sequence[str], unknown: bool
) -> Array:
    """Return the numbers of a row that has empty cells, or refuse it by name."""
    numbers = np.zeros(len(cells))
    for v, cell in enumerate(cells):
        cell = cell.strip()
        if is_number(cell) and float(cell) < np.inf:
            numbers[v] = float(cell)
        elif unknown and across[v] != name and cell in MISSING:
            numbers[v] = np.nan
        elif cell or across[v] != name:
            raise RecordsError(
                f"{title} line {line}, column {quoted(across[v])}: a cell must be a number or "
                f"-inf; got {quoted(cell)}. Only the diagonal may be empty"
            )
    return numbers


def _refuse_names(title: str, down: list[str], across: list[str]) -> None:
    rows, columns = set(down), set(across)
    only_down = [name for name in down if name not in columns]
    only_across = [name for name in across if name not in rows]
    parts = []
    if only_down:
        parts.append(f"only in the first column: {first_ten(only_down)}")
    if only_across:
        parts.append(f"only in the first row: {first_ten(only_across)}")
    raise RecordsError(
        f"{title}: the first row and the first column must hold the same names; got "
        f"{'; '.join(parts)}. Name the same records in both"
    )

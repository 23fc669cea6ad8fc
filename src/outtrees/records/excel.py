"""Tables from spreadsheets (.xlsx), with openpyxl."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from outtrees._common.files import size_text
from outtrees._common.text import first_ten, quoted, shown
from outtrees.errors import Option, RecordsError, library
from outtrees.records.files import HARMLESS, LARGEST_RATIO, ZIP, Source
from outtrees.records.frames import CELL_BYTES, cell_text
from outtrees.records.table import Table, table_of

_MOST_ROWS = 2**20
_ERRORS = ("#N/A", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!")


def is_excel(source: Source) -> bool:
    """Return whether the contents are a spreadsheet of the kind that is read here."""
    return source.extension in (".xlsx", ".xlsm") and source.data.startswith(ZIP)


def read_excel(source: Source, sheet: str | None, max_bytes: int) -> Table:
    """Return the table on a sheet, the first by default; its first row names the columns.

    Formulas have the values that were saved with them; those that are errors are missing. Empty
    rows are skipped.
    """
    openpyxl = library(
        "openpyxl",
        f"{source.name} is a spreadsheet, which needs openpyxl; install it (pip install "
        "'outtrees[excel]'), or save the table as CSV",
    )
    _check_size(source, max_bytes)
    try:
        book = openpyxl.load_workbook(
            io.BytesIO(source.data), read_only=True, data_only=True, keep_links=False
        )
        names = [page.title for page in book.worksheets]
        if sheet is None:
            page = book.worksheets[0]
        elif sheet in names:
            page = book[sheet]
        else:
            raise RecordsError(
                Option("sheet", sheet), f" must be a sheet of {source.name}; got {quoted(sheet)}. "
                f"Its sheets are {first_ten(names)}",
            )  # fmt: skip
        page.reset_dimensions()  # what the file says of its size is often wrong
        rows, lines = _rows(page, source, max_bytes)
    except RecordsError:
        raise
    except Exception as error:  # of the archive, of its XML, of what openpyxl makes of them
        raise RecordsError(
            f"{source.name} is a damaged spreadsheet ({shown(error)}); save the table as CSV"
        ) from None
    if not rows:
        raise RecordsError(f"{source.name} has no data rows; its sheet is empty")
    width = max(len(row) for row in rows)
    rows = [row + [""] * (width - len(row)) for row in rows]
    return table_of(rows[0], rows[1:], lines[1:], source)


def _rows(page: Any, source: Source, max_bytes: int) -> tuple[list[list[str]], list[int]]:
    """Return the rows that are not empty, without empty cells at their ends, and their numbers."""
    rows: list[list[str]] = []
    lines: list[int] = []
    size = 0
    for line, values in enumerate(page.iter_rows(values_only=True), start=1):
        if line > _MOST_ROWS:  # a row may call itself the billionth, and all before it are listed
            raise RecordsError(
                f"{source.name} has more rows than the {_MOST_ROWS:,} of a spreadsheet; save the "
                "table as CSV",
                file=source.name,
            )
        cells = [_text(value, line) for value in values]
        # A text that stands in many cells is in the file once.
        size += CELL_BYTES * len(cells) + sum(map(len, cells))
        if size > max_bytes:
            raise RecordsError(
                f"{source.name}: its cells take more than {size_text(max_bytes)} by row {line:,} (",
                Option("max_bytes"),
                ")",
                file=source.name,
            )
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            rows.append(cells)
            lines.append(line)
    return rows, lines


def _text(value: Any, line: int) -> str:
    if isinstance(value, str) and value in _ERRORS:
        return ""
    if type(value).__module__ == "datetime" and not hasattr(value, "year"):
        return str(value)  # times of day and durations
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))  # whole numbers are floats in some files
    return cell_text(value, "sheet", line)


def _check_size(source: Source, max_bytes: int) -> None:
    """Refuse an archive that opens to too much; no more is read than its directory says."""
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            total = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise RecordsError(
            f"{source.name} is a damaged spreadsheet ({shown(error)}); get it again"
        ) from None
    if total > min(max_bytes, max(LARGEST_RATIO * len(source.data), HARMLESS)):
        raise RecordsError(
            f"{source.name}: {size_text(len(source.data))} open to {size_text(total)} (limits: "
            f"{LARGEST_RATIO} times as much, and ",
            Option("max_bytes"),
            f" = {size_text(max_bytes)}); save the table as CSV if you trust it",
            file=source.name,
        )

"""Tables of text cells, and how CSV and TSV files become one."""

from __future__ import annotations

import csv
import io
import re
import threading
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from outtrees._common.text import quoted, shown
from outtrees.errors import Message, Option, Part, RecordsError
from outtrees.records.files import Source

_DELIMITERS = "\t,;|"
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_STRAY = Message(
    "close the quotation mark, or pass ",
    Option("quotes", False),
    " if marks are letters like others",
)
_csv_lock = threading.Lock()


@dataclass(frozen=True)
class Table:
    """Cells as text, column by column; `where` says in which line or row one stood."""

    names: tuple[str, ...]
    cells: tuple[list[str], ...]  # one list for each column
    file: str | None  # None: from memory
    sha256: str
    lines: list[int] | None = None  # of a file: on which line each row began
    row_names: list[str] | None = None

    def __len__(self) -> int:
        return len(self.cells[0]) if self.cells else len(self.row_names or ())

    def column(self, name: str) -> list[str]:
        """Return the cells of a column."""
        return self.cells[self.names.index(name)]

    def known(self, missing: Set[str]) -> Table:
        """Return the table with empty cells for those that mean "not known"."""
        cells = tuple(["" if cell in missing else cell for cell in column] for column in self.cells)
        return replace(self, cells=cells)

    def where(self, row: int, column: str | None = None) -> str:
        """Return for example "cases.csv line 7, column 'onset'"."""
        place = f"{self.file} {self.spot(row)}" if self.file else self.spot(row)
        return place if column is None else f"{place}, column {quoted(column)}"

    def spot(self, row: int) -> str:
        """Return for example "line 7", or "row 5" of a table that has no lines."""
        return f"row {row}" if self.lines is None else f"line {self.lines[row]}"

    def line(self, row: int) -> int:
        """Return the line of the file, or the position of the row."""
        return row if self.lines is None else self.lines[row]

    def error(self, row: int, column: str | None, *parts: Part) -> RecordsError:
        """Return the error of a cell; the message begins with its place."""
        return RecordsError(
            f"{self.where(row, column)}: ",
            *parts,
            file=self.file,
            line=None if self.lines is None else self.lines[row],
            column=column,
        )

    @property
    def title(self) -> str:
        """The name of the file, or words for a table without one."""
        return self.file or "the table"


def read_delimited(source: Source, encoding: str = "utf-8", quotes: bool = True) -> Table:
    """Return the table of a CSV or TSV file whose first line names the columns.

    The delimiter follows from the extension (.csv, .tsv, .tab), else, and for a .csv whose header
    has no comma, from the header: whichever of tab, comma, semicolon and bar is most frequent.
    Blank lines are skipped, blanks around cells are dropped, and so are columns without name and
    cells at the end, which spreadsheets leave. Where semicolons delimit, commas are decimal ones.
    Without quotes, quotation marks are letters like others.
    """
    header, rows, lines, delimiter = _split(source, encoding, quotes)
    n = len(header)
    for row, line in zip(rows, lines, strict=True):
        if len(row) != n:
            remedy = Message("put cells that contain the delimiter in quotation marks")
            if any("\n" in cell for cell in row):
                remedy = Message("a cell goes on over several lines: ", _STRAY)
            elif not quotes:
                remedy = Message("correct that line, or leave ", Option("quotes", False), " out")
            raise RecordsError(
                f"{source.name} line {line}: {len(row)} fields, header has {n}; ",
                remedy,
                file=source.name,
                line=line,
            )
    table = table_of(header, rows, lines, source)
    if delimiter != ";":
        return table
    return replace(table, cells=tuple(_with_points(column) for column in table.cells))


def table_of(header: list[str], rows: list[list[str]], lines: list[int], source: Source) -> Table:
    """Return the table of rows that are as long as the header; lines say where they stood."""
    if not rows:
        raise RecordsError(f"{source.name} has no data rows; it holds only a header")
    columns = [[cell.strip() for cell in column] for column in zip(*rows, strict=True)]
    names = [name.strip() for name in header]
    row_names = None
    if names[0] == "":  # as R and pandas write row names
        row_names, names, columns = columns[0], names[1:], columns[1:]
    while names and names[-1] == "" and not any(columns[-1]):
        names, columns = names[:-1], columns[:-1]
    check_names(names, source.name)
    return Table(tuple(names), tuple(columns), source.name, source.sha256, lines, row_names)


def delimited_rows(source: Source, encoding: str) -> tuple[list[str], list[list[str]], list[int]]:
    """Return header, rows, and the line on which each row begins."""
    return _split(source, encoding)[:3]


def _split(
    source: Source, encoding: str, quotes: bool = True
) -> tuple[list[str], list[list[str]], list[int], str]:
    text = source.text(encoding)
    if not text.strip():
        raise RecordsError(f"{source.name} has no data rows; it is empty")
    delimiter = _delimiter(source, text, quotes)
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        strict=True,
        quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
    )
    rows: list[list[str]] = []
    lines: list[int] = []
    # A cell may be a whole genome. The limit is one for all readers, hence the lock.
    with _csv_lock:
        before = csv.field_size_limit(len(text) + 1)
        begin = 1
        try:
            for row in reader:
                if row and (len(row) > 1 or row[0].strip()):
                    rows.append(row)
                    lines.append(begin)
                begin = reader.line_num + 1
        except csv.Error as error:
            raise RecordsError(
                f"{source.name} line {begin}: {shown(error)}; ",
                _STRAY,
                file=source.name,
                line=begin,
            ) from None
        finally:
            csv.field_size_limit(before)
    return rows[0], rows[1:], lines[1:], delimiter


def _with_points(cells: list[str]) -> list[str]:
    """Return numbers such as 21,5 with a point; other cells as they are."""
    return [cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in cells]


def _delimiter(source: Source, text: str, quotes: bool) -> str:
    header = next(line for line in text.splitlines() if line.strip())
    if source.extension in (".tsv", ".tab"):
        return "\t"
    if source.extension == ".csv" and "," in header:
        return ","
    bare = re.sub(r'"[^"]*"', "", header) if quotes else header
    best = max(_DELIMITERS, key=bare.count)
    return best if bare.count(best) else ","


def check_names(names: Sequence[Any], title: str) -> None:
    """Refuse columns without a name, names that are no text, and names that occur twice."""
    for position, name in enumerate(names):
        if not isinstance(name, str):
            raise RecordsError(
                f"{title}: column names must be text; got {shown(repr(name))} for column "
                f"{position}. Rename it, for example to {str(name)!r}"
            )
        if name == "":
            raise RecordsError(f"{title}: column {position + 1} has no name; give it one")
    for name, count in Counter(names).items():
        if count > 1:
            raise RecordsError(
                f"{title}: column name {quoted(name)} occurs {count} times; rename all but one"
            )

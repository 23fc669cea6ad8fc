"""From a file, a data frame or a mapping to records, and sequences joined to them by identity."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from outtrees._common.text import counted, first_ten, free_name, quoted, shown
from outtrees.errors import Message, Option, RecordsError
from outtrees.records.assembling import check_columns, check_kinds, from_table
from outtrees.records.column import MISSING, Column
from outtrees.records.dates import look_like_dates
from outtrees.records.excel import is_excel, read_excel
from outtrees.records.files import MAX_BYTES, Source, read_source
from outtrees.records.frames import read_frame, read_parquet
from outtrees.records.kinds import make_column, sequence_column
from outtrees.records.nexus import read_nexus
from outtrees.records.places import with_coordinates
from outtrees.records.records import Records
from outtrees.records.sequences import check_unique, read_fasta
from outtrees.records.table import Table, read_delimited

MAPPING = "sequences in memory"
_FASTA = (".fasta", ".fa", ".fas", ".fna", ".faa")


def read_records(
    source: Any,
    *,
    id: str | None = None,
    kinds: Mapping[str, str] | None = None,
    sequences: str | os.PathLike[str] | Mapping[Any, str] | None = None,
    unsequenced: str = "error",
    extra_sequences: str = "error",
    places: Mapping[str, Sequence[str]] | None = None,
    place_end: Sequence[str] = (),
    tracks: bool = True,
    day_first: bool | None = None,
    coordinates: Mapping[str, Any] | None = None,
    missing: Iterable[str] = MISSING,
    unique_within: str = "table",
    sheet: str | None = None,
    encoding: str = "utf-8",
    quotes: bool = True,
    max_bytes: int = MAX_BYTES,
) -> Records:
    """Return the records of a table, a FASTA or NEXUS file, a data frame or a mapping.

    Parameters
    ----------
    source : path, data frame or mapping
        A path to CSV or TSV (the first line names the columns; the delimiter follows from the
        extension, else from the header), Parquet (needs pyarrow or polars), .xlsx (needs openpyxl),
        aligned FASTA or NEXUS (needs dendropy), each plain or gzip; a pandas or polars data frame;
        a mapping from names of columns to cells.
    id : str, optional
        The column of identities. By default row names (a first column without a name; the index of
        a pandas frame unless it counts from 0), else a column called "id", else the first column
        if it is text and all its cells differ, or if it counts 1, 2, 3, …, else a column called
        for example case_id, patient or Pat-Nr of whole numbers that all differ, else the records
        are numbered from 1.
    kinds : mapping of str to str, optional
        From a column to what it is: "continuous", "categorical", "count", "date", "sequence",
        "place", "label" (a category to be predicted), "parent" (identity of the known parent,
        "root" if there is none, empty if unknown), "introduction" (yes where a record is known to
        have no parent among the records), "group" (only records of the same group can be related),
        "ignore". Columns not named get a kind by the rules below.
    sequences : path or mapping, optional
        Aligned FASTA or NEXUS, or identity → text ("" for a record without), joined by identity:
        to the name as it is, to the first word of a FASTA header or what stands in it before the
        first bar (`name|…|2020-03-05`), or to a NEXUS name with blanks for underscores. Dates in
        such headers are used if the table has none.
    unsequenced : {"error", "missing"}
        What to do about records that `sequences` do not name: refuse them, or take all their sites
        as unread.
    extra_sequences : {"error", "ignore"}
        What to do about sequences that belong to no record: refuse them, or leave them out.
    places : mapping of str to sequence of str, optional
        From the name of a place to the two or three columns that hold its coordinates. By default
        found by name: x and y (and z; also easting and northing, x_coord, xpixel, utm_x, …), lat
        and lon (or latitude, longitude, long, lng), alone or with a common word as in home_x,
        home_y. Latitudes and longitudes become km east and north of their centre; see
        `outtrees.records.places.project` for the error.
    place_end : sequence of str
        Columns of the place at which each record ended, if the (first) place is where it began. By
        default found by name: x_end and y_end, or last_x and last_y, beside x and y.
    tracks : bool
        Whether a long table, one row for each object and frame, becomes one record for each object;
        see `outtrees.records.tracks.find_tracks`. A note says that it did.
    day_first : bool, optional
        Whether 05/03/2020 is in March (or in May), where no cell of its column shows it.
    coordinates : mapping of str to path, data frame or mapping, optional
        From a column, such as tract, to a table of where its values lie: its values in a column of
        the same name, or in the first one, and coordinates in columns called as above.
    missing : iterable of str
        Cells that mean "not known".
    unique_within : {"table", "group"}
        Where identities must differ: in the whole table, or, if records of different groups are
        never spoken of together, in each group. Parents are then looked for in the child's group.
    sheet : str, optional
        The sheet of a spreadsheet; the first by default.
    encoding : str
        Of text files.
    quotes : bool
        Whether quotation marks in CSV and TSV enclose cells; if not, they are letters like others.
    max_bytes : int
        Larger files, packed or unpacked, are refused.

    Returns
    -------
    Records
        Identities and columns.

    Raises
    ------
    RecordsError
        One line that names file, line, column and remedy.
    FileNotFoundError
        If there is no such file.

    Notes
    -----
    The kind of a column that is not named in `kinds`; the first rule that fits decides, and
    `Records.describe` prints which:

    1. "parent" or "known_parent", all cells identities: parent. Another column of which more than
       half of the cells are identities of records, if it is text, or numbers and "parent",
       "mother", "infector", "biter", … is a word of its name: ignored, for true parents would be
       read off instead of found. Yes and no in a column called for example import or introduced:
       ignored, with the advice to give it the kind "introduction". "likely_parent",
       "parent_support" and "root_probability" are results of outtrees, no observations: ignored.
    2. No value, or one only: ignored.
    3. All cells calendar dates (2020-03-05, 2020-03-05T10:00, 2020-03, 05.03.2020): date.
    4. All cells numbers: date if the name says when (date, onset, day, sampling_time, …);
       continuous if some have decimals or they are ages; if the name is that of a unit (family_id,
       ward, tract, …) or they are written as codes (0042, 39005970100), categorical if a tenth of
       the cells share their value with another, else ignored; categorical if there are two values,
       or up to 5 and most recur; continuous if some are negative; count up to 30; continuous
       beyond.
    5. All cells DNA of one length, 20 sites at least: sequence.
    6. Text: categorical if at least half of the cells share their value with another (a tenth, if
       the name is that of a unit); else ignored.

    `Ancestry` then leaves out what would count twice: see `outtrees.records.evidence.as_evidence`.

    Labels and groups are never guessed. Everything is one pass over the cells, O(cells).

    Examples
    --------
    >>> records = read_records(
    ...     {"case": ["p1", "p2", "p3"], "onset": ["2020-03-05", "2020-03-09", "2020-03"]},
    ...     sequences={"p1": "ACGT", "p2": "ACGA", "p3": "ACNA"},
    ... )
    >>> records.ids, [(column.name, column.kind) for column in records.columns]
    (('p1', 'p2', 'p3'), [('onset', 'date'), ('sequence', 'sequence')])
    >>> records.column("onset").uncertainty.tolist()
    [0.0, 0.0, 15.0]
    """
    if source is None:
        raise RecordsError("source is None; give a path, a data frame or a mapping of columns")
    for name, value, choices in (
        ("unsequenced", unsequenced, ("error", "missing")),
        ("extra_sequences", extra_sequences, ("error", "ignore")),
        ("unique_within", unique_within, ("table", "group")),
    ):
        if value not in choices:
            raise RecordsError(Option(name), f" must be one of {', '.join(choices)}; got {value!r}")
    absent = frozenset(missing) | {""}
    asked = dict(kinds or {})
    check_kinds(asked)
    found = None if sequences is None else _read_sequences(sequences, encoding, max_bytes)
    reading: dict[str, Any] = {"encoding": encoding, "quotes": quotes, "max_bytes": max_bytes}
    contents = _contents(source, sheet=sheet, **reading)
    names = [column.name for column in (found.columns if found else ())]
    if isinstance(contents, _Characters):
        records = _from_characters(contents, id, asked, names)
    else:
        check_columns(asked, [*contents.names, *names], contents.title)
        where = dict(places or {})
        notes: tuple[str, ...] = ()
        for column, given in (coordinates or {}).items():
            located = read_text(given, **reading)
            contents, axes, note = with_coordinates(contents, column, located, absent)
            where[f"place of {column}"] = axes
            notes += (note,)
        records = from_table(
            contents, id, asked, where, absent, unique_within, place_end, tracks, day_first
        )
        records = replace(records, notes=records.notes + notes)
    if found is None:
        return records
    hint = _id_hint(contents, found.names) if isinstance(contents, Table) else ""
    if any(column.kind == "date" for column in records.columns):
        found = found._replace(columns=[c for c in found.columns if c.kind != "date"])
    new = _join(found, records.ids, hint, unsequenced, extra_sequences)
    return _joined(records, found, new, asked)


def read_cells(source: Any, **reading: Any) -> dict[str, list[str]]:
    """Return the cells of a table as text, column by column; none of FASTA and NEXUS files.

    `reading` is how a file is read: sheet, encoding, quotes, max_bytes, as of `read_records`.

    Examples
    --------
    >>> read_cells({"id": ["a", "b"], "x": [1.5, None]})
    {'id': ['a', 'b'], 'x': ['1.5', '']}
    """
    contents = _contents(source, **reading)
    if isinstance(contents, _Characters):
        return {}
    return dict(zip(contents.names, contents.cells, strict=True))


def read_text(source: Any, **reading: Any) -> Table:
    """Return a table of text cells as it stands in a file, a data frame or a mapping.

    `reading` as of `read_cells`.
    """
    if isinstance(source, Table):
        return source
    contents = _contents(source, **reading)
    if isinstance(contents, _Characters):
        raise RecordsError(
            f"{contents.title} holds sequences; a table with named columns must be given"
        )
    return contents


def _contents(
    source: Any,
    *,
    sheet: str | None = None,
    encoding: str = "utf-8",
    quotes: bool = True,
    max_bytes: int = MAX_BYTES,
) -> Table | _Characters:
    if not isinstance(source, (str, os.PathLike)):
        return read_frame(source)
    file = read_source(source, max_bytes, spreadsheets=True)
    if is_excel(file):
        return read_excel(file, sheet, max_bytes)
    if sheet is not None:
        raise RecordsError(
            Option("sheet", sheet),
            f" is for spreadsheets, but {file.name} is not one; leave it out",
        )
    if file.data[:4] == b"PAR1":
        return read_parquet(file, max_bytes)
    if _is_nexus(file) or _is_fasta(file):
        return _read_characters(file, encoding)
    return read_delimited(file, encoding, quotes)


def _joined(
    records: Records, found: _Characters, new: Iterable[Column], asked: Mapping[str, str]
) -> Records:
    columns = list(records.columns)
    taken = {column.name for column in columns}
    for column in _with_kinds(new, asked):
        name = free_name(column.name, taken)
        taken.add(name)
        columns.append(replace(column, name=name))
    title = found.title if found.title not in records.provenance else f"{found.title} (sequences)"
    provenance = {**records.provenance, title: found.sha256}
    return replace(records, columns=tuple(columns), provenance=provenance)


def _id_hint(table: Table, names: Sequence[str]) -> Message | str:
    """Return the advice to use the column that holds the names of the sequences, if one does."""
    wanted = set(names)
    for name, cells in zip(table.names, table.cells, strict=True):
        if wanted <= set(cells):  # some may have no sequence
            return Message(f"Column {quoted(name)} holds these names: pass ", Option("id", name))
    return ""


def _from_characters(
    found: _Characters, id: str | None, asked: dict[str, str], others: Sequence[str]
) -> Records:
    if id is not None:
        raise RecordsError(
            f"{found.title} names its records itself; leave ",
            Option("id", id),
            " out, or give a table with that column and this file as sequences",
        )
    check_columns(asked, [*(column.name for column in found.columns), *others], found.title)
    ignored = tuple(name for name, kind in asked.items() if kind == "ignore")
    return Records(
        ids=tuple(_own_names(found)),
        columns=tuple(_with_kinds(found.columns, asked)),
        ignored=ignored,
        provenance={found.title: found.sha256},
        roles=tuple((name, "ignored", "asked for") for name in ignored),
    )


def _with_kinds(columns: Iterable[Column], asked: Mapping[str, str]) -> list[Column]:
    """Return ready-made columns with the kinds asked for, as far as they can have them."""
    result = []
    for column in columns:
        kind = asked.get(column.name, column.kind)
        if kind == "ignore":
            continue
        if kind != column.kind and (column.kind, kind) != ("categorical", "label"):
            raise RecordsError(
                f"column {quoted(column.name)} holds {column.kind} characters ({column.reason}) "
                f"and cannot become {kind!r}; ask for 'ignore' or leave it out of kinds"
            )
        result.append(replace(column, kind=kind))
    return result


# Sequences and characters, joined to the records by identity ------------------------------------


class _Characters(NamedTuple):
    """Columns whose rows are named, from a file of sequences or characters."""

    names: list[str]
    columns: list[Column]
    title: str
    sha256: str
    form: str  # of the names: "header" lines of FASTA, "taxon" labels of NEXUS, or "plain"


def _is_nexus(source: Source) -> bool:
    """Return whether the contents begin as a NEXUS file does."""
    return source.data.lstrip(b"\xef\xbb\xbf \r\n\t")[:6].upper() == b"#NEXUS"


def _is_fasta(source: Source) -> bool:
    """Return whether a file is FASTA by its first letter or, as comments may lead, its name."""
    return source.extension in _FASTA or source.data.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] == b">"


def _read_characters(source: Source, encoding: str) -> _Characters:
    """Return what a FASTA or NEXUS file holds; names are whole header lines, as written."""
    if _is_nexus(source):
        names, columns = read_nexus(source, encoding)
        check_unique(names, range(1, len(names) + 1), source.name, "taxon number")
        return _Characters(names, columns, source.name, source.sha256, "taxon")
    names, sequences, lines = read_fasta(source, encoding)
    check_unique(names, lines, source.name, "line")
    column = sequence_column(
        "sequence",
        sequences,
        lambda row: f"{source.name} line {lines[row]}, record '{shown(names[row])}'",
        f"sequences of {source.name}",
    )
    dates = _header_dates(names, source, lines)
    return _Characters(names, [column, *dates], source.name, source.sha256, "header")


def _header_dates(names: list[str], source: Source, lines: list[int]) -> list[Column]:
    """Return the column of dates that stand in the same field of all headers, name|…|date."""
    fields = [[field.strip() for field in name.split("|")] for name in names]
    for k in range(1, min(len(field) for field in fields)):
        cells = [field[-k] for field in fields]
        rows = list(range(len(cells)))
        if look_like_dates(cells, rows):
            table = Table(("date",), (cells,), source.name, source.sha256, lines)
            why = f"dates in the headers of {source.name}"
            return [make_column(table, "date", cells, "date", why)]
    return []


def _read_sequences(
    sequences: str | os.PathLike[str] | Mapping[Any, str], encoding: str, max_bytes: int
) -> _Characters:
    """Return the sequences of a file or of a mapping from identity to text."""
    if not isinstance(sequences, Mapping):
        return _read_characters(read_source(sequences, max_bytes), encoding)
    names = [str(name) for name in sequences]
    check_unique(names, range(len(names)), MAPPING, "position")
    texts = []
    for name, text in zip(names, sequences.values(), strict=True):
        if not isinstance(text, str):
            raise RecordsError(
                f"the sequence of '{shown(name)}' must be text; got {type(text).__name__}. Write "
                "its letters"
            )
        texts.append("".join(text.split()))
    if not names:
        raise RecordsError("sequences hold no sequence; leave them out or give one for each record")
    column = sequence_column(
        "sequence", texts, lambda row: f"sequence of '{shown(names[row])}'", "given"
    )
    contents = repr(list(zip(names, texts, strict=True))).encode("utf-8", "backslashreplace")
    return _Characters(names, [column], MAPPING, hashlib.sha256(contents).hexdigest(), "plain")


def _own_names(characters: _Characters) -> list[str]:
    """Return identities for sequences that stand alone: of headers first words, if they differ."""
    if characters.form != "header":
        return characters.names
    first = [name.split()[0] for name in characters.names]
    fields = [name.split("|")[0].strip() for name in first]
    for names in (fields, first):
        if all(names) and len(set(names)) == len(names):
            return names
    return characters.names


def _join(
    characters: _Characters,
    ids: Sequence[str],
    hint: Message | str = "",
    unsequenced: str = "error",
    extra: str = "error",
) -> list[Column]:
    """Return the columns in the order of the identities.

    A name matches as it is; or by its first word, or what stands in it before the first bar (FASTA
    headers go on after it); or with blanks for underscores (NEXUS). The way that matches most is
    used for all. `hint` says what to do about sequences without a record, if more than the obvious
    is known.
    """
    if len(set(ids)) != len(ids):
        raise RecordsError(
            f"{characters.title}: sequences are joined by identity, but several records share one; "
            "give the records names that differ, or write the sequences into a column of the table"
        )
    ways = [characters.names]
    if characters.form == "header":
        ways.append([name.split()[0] for name in characters.names])
        ways.append([name.split("|")[0].strip() for name in characters.names])
    if characters.form == "taxon":
        ways.append([name.replace("_", " ") for name in characters.names])
    wanted = set(ids)
    best = max(ways, key=lambda names: len(wanted.intersection(names)))
    place = {name: row for row, name in enumerate(best)}
    strangers = [name for name in best if name not in wanted]
    left_out = len(strangers) if extra == "ignore" and len(strangers) < len(best) else 0
    used = [name for name in best if name in wanted] if left_out else best
    if len(set(used)) != len(used):  # only by a part of the names: the whole names differ
        check_unique(used, range(1, len(used) + 1), characters.title, "sequence number")
    strangers = [] if left_out else strangers
    without = [name for name in ids if name not in place]
    refused = without if unsequenced == "error" else []
    if strangers or refused:
        parts: list[str] = []
        remedies: list[Message | str] = []
        if strangers:
            parts.append(f"{len(strangers)} without a record: {first_ten(strangers)}")
            rename = Message(
                "Rename or remove what has no record, or pass ", Option("extra_sequences", "ignore")
            )
            remedies.append(hint or rename)
        if refused:
            number = counted(len(refused), "record")
            parts.append(f"{number} without a sequence: {first_ten(refused)}")
        if refused and not (strangers and hint):  # with the right identities there may be none
            remedies.append(
                Message("If these were never sequenced, pass ", Option("unsequenced", "missing"))
            )
        raise RecordsError(
            f"{characters.title}: identities do not match; {'; '.join(parts)}",
            *(part for remedy in remedies for part in (". ", remedy)),
            records=[*strangers, *refused],
            file=characters.title,
        )
    rows = np.array([place.get(name, -1) for name in ids])
    columns = [_spread(column, rows) for column in characters.columns]
    if not left_out:
        return columns
    said = f", {counted(left_out, 'sequence')} without a record left out"
    return [replace(column, reason=column.reason + said) for column in columns]


def _spread(column: Column, rows: np.ndarray) -> Column:
    """Return the column in the order of rows, nothing known where a row is −1."""
    without = int((rows < 0).sum())
    found = column.take(rows)
    if not without:
        return found
    values = found.values.copy()
    values[rows < 0] = np.nan
    sets = found.sets
    if sets is not None:
        sets = np.where((rows < 0)[:, None], np.uint8(15), sets)
    text = tuple("" if row < 0 else cell for row, cell in zip(rows, found.text, strict=True))
    reason = f"{column.reason}, {counted(without, 'record')} without one"
    return replace(found, values=values, text=text, reason=reason, sets=sets)

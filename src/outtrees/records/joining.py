"""Sequences and characters, found their records by identity."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from outtrees.errors import Message, Option, RecordsError
from outtrees.records.column import Column, counted, first_ten, shown
from outtrees.records.dates import look_like_dates
from outtrees.records.files import Source, read_source
from outtrees.records.kinds import make_column
from outtrees.records.nexus import read_nexus
from outtrees.records.sequences import align, check_unique, read_fasta
from outtrees.records.table import Table

MAPPING = "sequences in memory"
_FASTA = (".fasta", ".fa", ".fas", ".fna", ".faa")


class Characters(NamedTuple):
    """Columns whose rows are named, from a file of sequences or characters."""

    names: list[str]
    columns: list[Column]
    title: str
    sha256: str
    form: str  # of the names: "header" lines of FASTA, "taxon" labels of NEXUS, or "plain"


def is_nexus(source: Source) -> bool:
    """Return whether the contents begin as a NEXUS file does."""
    return source.data.lstrip(b"\xef\xbb\xbf \r\n\t")[:6].upper() == b"#NEXUS"


def is_fasta(source: Source) -> bool:
    """Return whether a file is FASTA by its first letter or, as comments may lead, its name."""
    return source.extension in _FASTA or source.data.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] == b">"


def read_characters(source: Source, encoding: str) -> Characters:
    """Return what a FASTA or NEXUS file holds; names are whole header lines, as written."""
    if is_nexus(source):
        names, columns = read_nexus(source, encoding)
        check_unique(names, range(1, len(names) + 1), source.name, "taxon number")
        return Characters(names, columns, source.name, source.sha256, "taxon")
    names, sequences, lines = read_fasta(source, encoding)
    check_unique(names, lines, source.name, "line")
    found = align(
        sequences, lambda row: f"{source.name} line {lines[row]}, record '{shown(names[row])}'"
    )
    why = f"sequences of {source.name}"
    column = Column("sequence", "sequence", found.values, found.alphabet, found.digests, reason=why)
    dates = _header_dates(names, source, lines)
    return Characters(names, [column, *dates], source.name, source.sha256, "header")


def _header_dates(names: list[str], source: Source, lines: list[int]) -> list[Column]:
    """Return the column of dates that stand in the same field of all headers, name|…|date."""
    fields = [[field.strip() for field in name.split("|")] for name in names]
    for k in range(1, min(len(field) for field in fields)):
        cells = [field[-k] for field in fields]
        rows = list(range(len(cells)))
        if look_like_dates(cells, rows):
            table = Table(("date",), (cells,), source.name, source.sha256, lines)
            why = f"dates in the headers of {source.name}"
            return [make_column(table, "date", cells, "date", why, frozenset({""}))]
    return []


def read_sequences(
    sequences: str | os.PathLike[str] | Mapping[Any, str], encoding: str, max_bytes: int
) -> Characters:
    """Return the sequences of a file or of a mapping from identity to text."""
    if not isinstance(sequences, Mapping):
        return read_characters(read_source(sequences, max_bytes), encoding)
    names = [str(name) for name in sequences]
    check_unique(names, range(len(names)), MAPPING, "position")
    texts = []
    for name, text in zip(names, sequences.values(), strict=True):
        if not isinstance(text, str):
            raise RecordsError(
                f"the sequence of '{shown(name)}' is expected to be text, but it is a "
                f"{type(text).__name__}"
            )
        texts.append("".join(text.split()))
    if not names:
        raise RecordsError("sequences hold no sequence; leave them out or give one for each record")
    found = align(texts, lambda row: f"sequence of '{shown(names[row])}'")
    column = Column(
        "sequence", "sequence", found.values, found.alphabet, found.digests, reason="given"
    )
    contents = repr(list(zip(names, texts, strict=True))).encode("utf-8", "backslashreplace")
    return Characters(names, [column], MAPPING, hashlib.sha256(contents).hexdigest(), "plain")


def own_names(characters: Characters) -> list[str]:
    """Return identities for sequences that stand alone: of headers first words, if they differ."""
    if characters.form != "header":
        return characters.names
    first = [name.split()[0] for name in characters.names]
    fields = [name.split("|")[0].strip() for name in first]
    for names in (fields, first):
        if all(names) and len(set(names)) == len(names):
            return names
    return characters.names


def join(
    characters: Characters,
    ids: Sequence[str],
    hint: Message | str = "",
    unsequenced: str = "error",
    extra: str = "error",
) -> list[Column]:
    """Return the columns in the order of the identities.

    A name matches as it is; or by its first word, or what stands in it before the first bar (FASTA
    headers go on after it); or with blanks for underscores (NEXUS). The way that matches most is
    used for all.

    Parameters
    ----------
    hint : Message or str
        What to do about sequences without a record, if more than the obvious is known.
    unsequenced : {"error", "missing"}
        Whether records without a sequence are refused, or all their sites unread.
    extra : {"error", "ignore"}
        Whether sequences without a record are refused or left out.

    Raises
    ------
    RecordsError
        If a sequence has no record or a record no sequence, and that is an error; it lists them.
        If no sequence has a record.
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
    text = tuple("" if row < 0 else cell for row, cell in zip(rows, found.text, strict=True))
    reason = f"{column.reason}, {counted(without, 'record')} without one"
    return replace(found, values=values, text=text, reason=reason)

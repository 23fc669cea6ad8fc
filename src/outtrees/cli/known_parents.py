"""A file of known parents: child and parent in each row, an empty parent for a root."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping

from outtrees.cli.failing import CommandError


def read_known_parents(
    path: str | os.PathLike[str], place: Mapping[str, int], encoding: str, max_bytes: int
) -> dict[str, str | None]:
    """Return child → parent, None for a root; the first row holds the names of the two columns."""
    from outtrees.records.files import read_source

    source = read_source(path, max_bytes)
    rows = list(csv.reader(io.StringIO(source.text(encoding))))
    known: dict[str, str | None] = {}
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        if len(row) != 2:
            raise CommandError(
                f"{source.name} line {number}: two fields, child and parent, are expected, but "
                f"there are {len(row)}"
            )
        child, parent = (cell.strip() for cell in row)
        for name in (child, parent or child):
            if name not in place:
                raise CommandError(
                    f"{source.name} line {number}: {name[:60]!r} is no record; name records as the "
                    "table does, and leave the parent of a root empty"
                )
        if known.setdefault(child, parent or None) != (parent or None):
            raise CommandError(
                f"{source.name} line {number}: {child!r} is given two parents; keep one"
            )
    if not known:
        raise CommandError(f"{source.name} has no data rows; write child,parent below a header")
    return known

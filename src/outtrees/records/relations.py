"""What a table says outright: who is whose parent, and who cannot be related."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from outtrees._common.cycles import cycle_of
from outtrees.errors import RecordsError
from outtrees.records.column import first_ten, quoted, shown
from outtrees.records.kinds import coded
from outtrees.records.table import Table

ROOT = "root"


def read_parents(
    table: Table,
    name: str,
    cells: list[str],
    ids: Sequence[str],
    missing: frozenset[str],
    homes: Sequence[str],
) -> dict[int, int]:
    """Return the known parents: row of the child → row of the parent, or −1.

    A cell holds the identity of the parent, "root" for a record known to have none among the
    records (unless a record is called so), or nothing if the parent is unknown. Of several records
    of one name, the one with the child's home is meant.

    Raises
    ------
    RecordsError
        If a parent is no record, a record descends from itself, directly or around a circle.
    """
    place = {identity: row for row, identity in enumerate(ids)}
    at_home = {key: row for row, key in enumerate(zip(homes, ids, strict=True))}
    parents: dict[int, int] = {}
    strangers = []
    for row, cell in enumerate(cells):
        if cell in missing and cell not in place:
            continue
        # A column of whole numbers with gaps comes out of a data frame as 3.0.
        short = cell.removesuffix(".0")
        ways = [at_home.get((homes[row], cell)), at_home.get((homes[row], short))]
        ways += [place.get(cell), place.get(short)]
        found = next((way for way in ways if way is not None), None)
        if found is None and cell.lower() == ROOT:
            parents[row] = -1
        elif found is None:
            strangers.append(f"{shown(cell, 30)} ({table.spot(row)})")
        elif found == row:
            raise table.error(
                row,
                name,
                f"{quoted(cell)} is given as its own parent; write "
                f"{ROOT!r} if it has none among the records, nothing if its parent is unknown",
            )
        else:
            parents[row] = found
    if strangers:
        raise RecordsError(
            f"{table.title}, column {quoted(name)}: {len(strangers)} known parents are no records: "
            f"{first_ten(strangers)}; add those records, write {ROOT!r}, or leave the cells empty"
        )
    circle = cycle_of(parents)
    if circle:
        raise table.error(
            circle[0],
            name,
            f"the known parents go around in a circle: "
            f"{first_ten([ids[row] for row in circle])}; correct one of them",
        )
    return parents


YES = frozenset({"1", "1.0", "true", "yes", "y", "t"})
NO = frozenset({"0", "0.0", "false", "no", "n", "f"})


def are_yes_or_no(cells: Iterable[str]) -> bool:
    """Return whether all cells say yes or no, and some say each."""
    found = {cell.lower() for cell in cells}
    return found <= YES | NO and not found.isdisjoint(YES) and not found.isdisjoint(NO)


def read_introductions(
    table: Table, name: str, cells: list[str], missing: frozenset[str], parents: dict[int, int]
) -> dict[int, int]:
    """Return the known parents and, with parent −1, the records of which the column says yes."""
    known = dict(parents)
    for row, cell in enumerate(cells):
        if cell in missing or cell.lower() in NO:
            continue
        if cell.lower() not in YES:
            raise table.error(
                row,
                name,
                f"an introduction must be marked yes, and other records no; got {quoted(cell)}. "
                "Write yes, no, or nothing",
            )
        if known.setdefault(row, -1) >= 0:
            raise table.error(
                row, name, "the record is marked as an introduction, but has a known parent"
            )
    return known


def read_groups(
    table: Table, name: str, cells: list[str], missing: frozenset[str]
) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Return the names of the groups, and which one each record belongs to, (T,)."""
    for row, cell in enumerate(cells):
        if cell in missing:
            raise table.error(
                row,
                name,
                "every record is expected to belong to a group, but the "
                "cell is empty; name its group",
            )
    names, codes = coded(tuple(cells))
    return tuple(names), codes.astype(np.intp)


def check_groups(
    parents: dict[int, int], groups: NDArray[np.intp], ids: Sequence[str], table: Table
) -> None:
    """Refuse a known parent from another group."""
    for child, parent in parents.items():
        if parent >= 0 and groups[child] != groups[parent]:
            raise table.error(
                child,
                None,
                f"the known parent {quoted(ids[parent])} is in another group "
                "than its child; only records of the same group can be related",
            )

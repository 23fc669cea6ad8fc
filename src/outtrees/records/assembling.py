"""From a table of text to records: identities first, then every column in its role or kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import lgamma, log

import numpy as np
from numpy.typing import NDArray

from outtrees._common.cycles import cycle_of
from outtrees._common.text import first_ten, quoted, shown
from outtrees.errors import Option, RecordsError
from outtrees.records.column import KINDS, ROLES, Column, are_numbers, is_number
from outtrees.records.frames import IN_MEMORY
from outtrees.records.kinds import coded, infer_kind, make_column
from outtrees.records.names import (
    RESULTS,
    names_age,
    names_introductions,
    names_records,
    words,
)
from outtrees.records.places import find_ends, find_places, is_geographic, read_place
from outtrees.records.records import Records
from outtrees.records.sequences import check_unique
from outtrees.records.table import Table
from outtrees.records.tracks import find_tracks

_IDENTITIES = "holds identities; if these are known parents: kind parent"
INTRODUCTIONS = "says yes or no; if yes means brought in from elsewhere: kind introduction"
_RESULT = "found by outtrees, not observed"
_LOG_CHANCE = log(1e-4)  # measurements that all differ by a chance smaller than this are names
_PARENT_WORDS = {"parent", "mother", "father", "infector", "ancestor", "biter", "advisor"}
_NOBODY = ("0", "0.0", "-1", "-1.0")  # what stands for an unknown parent where parents are numbers
_PARENT_NAMES = ("parent", "known_parent", "known parent")
_ROOT = "root"
_YES = frozenset({"1", "1.0", "true", "yes", "y", "t"})
_NO = frozenset({"0", "0.0", "false", "no", "n", "f"})
Cells = Mapping[str, list[str]]


def from_table(
    table: Table,
    id: str | None,
    asked: dict[str, str],  # column → kind
    places: dict[str, Sequence[str]],  # place → columns
    missing: frozenset[str],
    unique_within: str = "table",
    place_end: Sequence[str] = (),
    tracks: bool = True,
    day_first: bool | None = None,
) -> Records:
    """Return the records of a table; see `outtrees.records.read_records` for the rules."""
    known = table.known(missing)
    found = find_tracks(known, id, asked, places) if tracks else None
    guessed: Mapping[str, tuple[str, str]] = {}  # column → kind, reason
    ends: dict[str, tuple[str, ...]] = {}
    if found is not None:
        table = known = found.table
        id, guessed, ends = found.id, found.kinds, found.ends
    coordinates = [name for names in places.values() for name in names]
    check_columns(dict.fromkeys(place_end, "place"), table.names, table.title)
    reserved = [*place_end, *(name for names in ends.values() for name in names)]
    taken = {**dict.fromkeys([*coordinates, *reserved], "place"), **asked}
    homes = _homes(table, asked) if unique_within == "group" else [""] * len(table)
    ids, id_column, why = _identities(table, id, taken, homes)
    cells = {name: known.column(name) for name in known.names if name != id_column}
    if found is not None:
        why = "recurs over frames"
    roles = [] if why is None else [(id_column or "(row names)", "id", why)]
    free = {name: column for name, column in cells.items() if name not in reserved}
    grouped = _places(table, free, asked, places)
    ends.update(_ends(grouped, places, place_end))
    wanted = {**asked, **dict.fromkeys(coordinates, "place")}
    first_of = {names[0]: place for place, names in grouped.items()}
    in_place = {name for names in (*grouped.values(), *ends.values()) for name in names}
    parents: dict[int, int] = {}
    groups = None
    group_names: tuple[str, ...] = ()
    columns: list[Column] = []
    for name, column in cells.items():
        if name in first_of:
            columns.append(_place(table, first_of[name], grouped, ends, cells, wanted))
        if name in in_place:
            continue
        kind, reason = _kind(name, column, asked, ids)
        if name in guessed and name not in asked:
            constant = kind not in KINDS and guessed[name][0] == "continuous"
            kind, reason = (kind, reason) if constant else guessed[name]
        if kind in KINDS:
            columns.append(make_column(table, name, column, kind, reason, day_first))
            continue
        roles.append((name, "ignored" if kind == "ignore" else kind, reason))
        if kind == "parent":
            parents = _read_parents(table, name, ids, missing, homes)
        elif kind == "group":
            group_names, groups = _read_groups(table, name, column)
    for name in (name for name, role, _ in roles if role == "introduction"):
        parents = _read_introductions(table, name, cells[name], parents)
    if groups is not None:
        _check_groups(parents, groups, ids, table)
    return Records(
        ids=tuple(ids),
        columns=tuple(columns),
        known_parents=parents,
        groups=groups,
        group_names=group_names,
        ignored=tuple(name for name, role, _ in roles if role == "ignored"),
        provenance={table.file or IN_MEMORY: table.sha256},
        roles=tuple(roles),
        until=None if found is None else found.until,
        notes=() if found is None else (found.sentence,),
    )


# Checks of what was asked for ----------------------------------------------------------------


def check_kinds(asked: Mapping[str, str]) -> None:
    """Refuse kinds that do not exist, and two columns for what there is only one of."""
    for name, kind in asked.items():
        if kind not in KINDS + ROLES:
            raise RecordsError(
                f"the kind of column {quoted(name)} must be one of "
                f"{', '.join(KINDS + ROLES)}; got {kind!r}"
            )
    for role in ("id", "parent", "introduction", "group"):
        names = [name for name, kind in asked.items() if kind == role]
        if len(names) > 1:
            raise RecordsError(
                f"at most one column may be of kind {role!r}; got {first_ten(names)}. Keep one "
                "and ignore the others"
            )


def check_columns(asked: Mapping[str, str], names: Sequence[str], title: str) -> None:
    """Refuse kinds of columns that are not there."""
    unknown = [name for name in asked if name not in names]
    if unknown:
        raise RecordsError(
            f"{title} has no column {first_ten(unknown)}; its columns are {first_ten(names)}"
        )


# Roles ---------------------------------------------------------------------------------------


def _homes(table: Table, asked: Mapping[str, str]) -> list[str]:
    """Return the group of each row."""
    name = next((name for name, kind in asked.items() if kind == "group"), None)
    return [""] * len(table) if name is None else table.column(name)


def _identities(
    table: Table, id: str | None, asked: Mapping[str, str], homes: list[str]
) -> tuple[list[str], str | None, str | None]:
    """Return identities, the column they came from if any, and why (None: they are numbers)."""
    asked_id = next((name for name, kind in asked.items() if kind == "id"), None)
    if id is not None and asked_id is not None and id != asked_id:
        raise RecordsError(
            Option("id", id), " and ", Option("kinds", {asked_id: "id"}), " contradict each other"
        )
    name = asked_id if id is None else id
    why: str | None = "asked for"
    if name is not None:
        check_columns({name: "id"}, table.names, table.title)
        if asked.get(name, "id") != "id":
            raise RecordsError(
                f"column {quoted(name)} is asked to be both id and {asked[name]!r}; choose one"
            )
    elif table.row_names is not None:
        return _checked(table, table.row_names, None, asked, homes), None, "row names"
    else:
        free = [name for name in table.names if name not in asked]
        called = [name for name in free if name.lower() == "id"]
        if called:
            name, why = called[0], "called id"
        elif free[:1] == [*table.names[:1]] and _are_names(table.cells[0], homes):
            name, why = free[0], "first column, text, all different"
        elif free[:1] == [*table.names[:1]] and _numbers_records(free, table.cells[0]):
            name, why = free[0], "first column, numbers the records"
        elif (number := _numbered(table, free, homes)) is not None:
            name, why = number, f"called {number}, whole numbers, all different"
        else:
            return [str(row + 1) for row in range(len(table))], None, None
    return _checked(table, table.column(name), name, asked, homes), name, why


def _are_names(cells: list[str], homes: list[str]) -> bool:
    distinct = set(cells)
    # Numbers may be measurements, dates never are names.
    return (
        _differ(cells, homes)
        and "" not in distinct
        and not any(is_number(cell) for cell in distinct)
        and infer_kind("", cells, list(range(len(cells))))[0] in ("ignore", "categorical")
    )


def _numbered(table: Table, names: Sequence[str], homes: list[str]) -> str | None:
    """Return the first column of whole numbers that all differ and is called an identity."""
    for name in names:
        cells = table.column(name)
        if (
            names_records(name)
            and _PARENT_WORDS.isdisjoint(words(name))
            and len(cells) > 2
            and all(cell.removesuffix(".0").isdigit() for cell in cells)
            and _differ(cells, homes)
            and infer_kind(name, cells, list(range(len(cells))))[0] != "date"
        ):
            return name
    return None


def _numbers_records(names: Sequence[str], cells: list[str]) -> bool:
    """Return whether the first column is 1, 2, 3, …, or whole numbers that differ by design.

    Measurements as close to each other as these would coincide somewhere.
    """
    coordinates = {name for group in find_places(list(names)).values() for name in group}
    if len(names) < 2 or names[0] in coordinates or len(cells) < 3:
        return False
    if cells == [str(row + 1) for row in range(len(cells))]:
        return True
    if not all(cell.isdigit() for cell in cells) or len(set(map(int, cells))) < len(cells):
        return False
    if infer_kind(names[0], cells, list(range(len(cells))))[0] == "date" or names_age(names[0]):
        return False
    numbers = [int(cell) for cell in cells]
    n, width = len(numbers), max(numbers) - min(numbers) + 1
    log_all_differ = lgamma(width + 1) - lgamma(width - n + 1) - n * log(width)
    return log_all_differ < _LOG_CHANCE


def _differ(ids: list[str], homes: list[str]) -> bool:
    """Return whether no identity occurs twice in one home."""
    return len(set(zip(homes, ids, strict=True))) == len(ids)


def _checked(
    table: Table,
    ids: list[str],
    column: str | None,
    asked: Mapping[str, str],
    homes: list[str],
) -> list[str]:
    for row, identity in enumerate(ids):
        if identity == "":
            raise table.error(row, column, "the identity must not be empty; name the record")
    if _differ(ids, homes):
        return ids
    lines = [table.line(row) for row in range(len(ids))]
    names = [f"{i} of {home}" if home else i for i, home in zip(ids, homes, strict=True)]
    remedy = "rename or remove the repeats"
    group = next((name for name, kind in asked.items() if kind == "group"), None)
    if group is not None and not any(homes) and _differ(ids, _homes(table, asked)):
        remedy = (
            f"within the groups of {quoted(group)} they differ: give each group its own fit with "
            "fit_populations (outtrees populations), or name records by group and identity"
        )
    check_unique(names, lines, table.title, "row" if table.lines is None else "line", remedy)
    return ids


def _kind(
    name: str, cells: list[str], asked: Mapping[str, str], ids: Sequence[str]
) -> tuple[str, str]:
    if name in asked:
        return asked[name], "asked for"
    if name in RESULTS:
        return "ignore", _RESULT
    present = [row for row, cell in enumerate(cells) if cell]
    if name.lower() in _PARENT_NAMES and present and "parent" not in asked.values():
        found = {cells[row].removesuffix(".0") for row in present} | {cells[row] for row in present}
        if found <= {*ids, *(f"{i}.0" for i in ids), "root"}:
            return "parent", f"called {name}, holds identities"
    kind, reason = infer_kind(name, cells, present)
    if names_introductions(name) and _are_yes_or_no(cells[row] for row in present):
        return "ignore", INTRODUCTIONS  # no attribute that a child could have from its parent
    if kind in KINDS and _holds_identities(name, [cells[row] for row in present], ids):
        return "ignore", _IDENTITIES
    return kind, reason


def _holds_identities(name: str, cells: list[str], ids: Sequence[str]) -> bool:
    """Return whether a column names other records: then it is not evidence, but perhaps the answer.

    Numbers may be identities by chance, so their column must be called a parent's as well.
    """
    called = not _PARENT_WORDS.isdisjoint(words(name))
    if not called and all(is_number(cell) for cell in cells):
        return False
    names = set(ids)
    if called:
        cells = [cell for cell in cells if cell in names or cell not in _NOBODY]
    found = sum(cell in names or cell.removesuffix(".0") in names for cell in cells)
    return found > len(cells) / 2


# Places --------------------------------------------------------------------------------------


def _places(
    table: Table,
    cells: Cells,
    asked: Mapping[str, str],
    places: Mapping[str, Sequence[str]],
) -> dict[str, tuple[str, ...]]:
    """Return the places and their columns: those asked for, then those found by name."""
    found: dict[str, tuple[str, ...]] = {}
    for place, names in places.items():
        found[place] = (names,) if isinstance(names, str) else tuple(names)
        check_columns(dict.fromkeys(found[place], "place"), list(cells), table.title)
    taken = {name for names in found.values() for name in names}
    single = [name for name, kind in asked.items() if kind == "place" and name not in taken]
    # Columns of one coordinate each belong together; cells such as "3, 7" are a whole place.
    loose = [name for name in single if are_numbers(cells[name])]
    for name in single:
        if name not in loose:
            found[name] = (name,)
    if loose:
        by_name = find_places(loose)
        together = set(loose) == {name for names in by_name.values() for name in names}
        found.update(by_name if together else {"place": tuple(loose)})
    taken = {name for names in found.values() for name in names}
    free = [name for name in cells if name not in asked and name not in taken]
    for place, names in find_places(free).items():
        numbers = all(are_numbers(cells[name]) for name in names)
        if numbers and any(cells[names[0]]) and place not in found:
            found[place] = names
    return found


def _ends(
    grouped: dict[str, tuple[str, ...]],
    places: Mapping[str, Sequence[str]],
    place_end: Sequence[str],
) -> dict[str, tuple[str, ...]]:
    """Return place → columns of its end, and take the ends out of the places."""
    if place_end:
        if not grouped:
            raise RecordsError(
                Option("place_end", list(place_end)),
                " needs a place where records begin; name its columns x and y, or pass ",
                Option("places"),
            )
        return {next(iter(grouped)): tuple(place_end)}
    found = find_ends([place for place in grouped if place not in places])
    return {
        place: grouped.pop(end)
        for place, end in found.items()
        if len(grouped[end]) == len(grouped[place])
        and is_geographic(grouped[end]) == is_geographic(grouped[place])
    }


def _place(
    table: Table,
    place: str,
    grouped: Mapping[str, tuple[str, ...]],
    ends: Mapping[str, tuple[str, ...]],
    cells: Cells,
    asked: Mapping[str, str],
) -> Column:
    names = grouped[place]
    last = ends.get(place, ())
    found = read_place(
        table, {name: cells[name] for name in names}, {name: cells[name] for name in last}
    )
    why = "asked for" if any(name in asked for name in names) else "found by name"
    projected = is_geographic(names)
    if projected:
        why += f", km east and north of the centre of {', '.join(names)}"
    elif len(names) > 1:
        why += f", {', '.join(names)}"
    if last:
        why += f"; at the end {', '.join(last)}"
    return Column(
        place,
        "place",
        found.values,
        None,
        found.text,
        reason=why,
        projected=projected,
        end_values=found.end_values,
    )


# Known parents and groups --------------------------------------------------------------------


def _read_parents(
    table: Table,
    name: str,
    ids: Sequence[str],
    missing: frozenset[str],
    homes: Sequence[str],
) -> dict[int, int]:
    """Return the known parents: row of the child → row of the parent, or −1.

    A cell holds the identity of the parent, "root" for a record known to have none among the
    records (unless a record is called so), or nothing if the parent is unknown. Of several records
    of one name, the one with the child's home is meant.
    """
    place = {identity: row for row, identity in enumerate(ids)}
    at_home = {key: row for row, key in enumerate(zip(homes, ids, strict=True))}
    parents: dict[int, int] = {}
    strangers = []
    for row, cell in enumerate(table.column(name)):
        if cell in missing and cell not in place:
            continue
        # A column of whole numbers with gaps comes out of a data frame as 3.0.
        short = cell.removesuffix(".0")
        ways = [at_home.get((homes[row], cell)), at_home.get((homes[row], short))]
        ways += [place.get(cell), place.get(short)]
        found = next((way for way in ways if way is not None), None)
        if found is None and cell.lower() == _ROOT:
            parents[row] = -1
        elif found is None:
            strangers.append(f"{shown(cell, 30)} ({table.spot(row)})")
        elif found == row:
            raise table.error(
                row,
                name,
                f"{quoted(cell)} is given as its own parent; write "
                f"{_ROOT!r} if it has none among the records, nothing if its parent is unknown",
            )
        else:
            parents[row] = found
    if strangers:
        raise RecordsError(
            f"{table.title}, column {quoted(name)}: {len(strangers)} known parents are not "
            f"records: {first_ten(strangers)}; add those records, write {_ROOT!r}, or leave the "
            "cells empty"
        )
    circle = cycle_of(parents)
    if circle:
        raise table.error(
            circle[0],
            name,
            f"the known parents form a cycle: "
            f"{first_ten([ids[row] for row in circle])}; correct one of them",
        )
    return parents


def _are_yes_or_no(cells: Iterable[str]) -> bool:
    """Return whether all cells say yes or no, and some say each."""
    found = {cell.lower() for cell in cells}
    return found <= _YES | _NO and not found.isdisjoint(_YES) and not found.isdisjoint(_NO)


def _read_introductions(
    table: Table, name: str, cells: list[str], parents: dict[int, int]
) -> dict[int, int]:
    """Return the known parents and, with parent −1, the records of which the column says yes."""
    known = dict(parents)
    for row, cell in enumerate(cells):
        if not cell or cell.lower() in _NO:
            continue
        if cell.lower() not in _YES:
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


def _read_groups(
    table: Table, name: str, cells: list[str]
) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Return the names of the groups, and which one each record belongs to, (T,)."""
    for row, cell in enumerate(cells):
        if not cell:
            raise table.error(
                row,
                name,
                "every record must belong to a group; got an empty cell. Name its group",
            )
    names, codes = coded(tuple(cells))
    return tuple(names), codes.astype(np.intp)


def _check_groups(
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

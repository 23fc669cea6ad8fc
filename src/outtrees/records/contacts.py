"""Contacts between records, and stays of records at places, as tables list them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from outtrees._common.text import first_ten, quoted
from outtrees.errors import RecordsError
from outtrees.records.column import MISSING, Array
from outtrees.records.dates import Dates, read_dates
from outtrees.records.reading import read_text
from outtrees.records.table import Table

# Names of columns, in small letters, in order of preference.
_CONTACTS = {
    "from": ("from", "source", "infector", "case_a", "a", "id1", "case1"),
    "to": ("to", "target", "infectee", "contact", "case_b", "b", "id2", "case2"),
    "date": ("date", "contact_date", "date_of_contact", "day", "when", "time"),
    "type": ("type", "kind", "contact_type", "type_of_contact", "setting"),
}
_STAYS = {
    "record": ("record", "case", "id", "patient", "name", "person", "case_id", "patient_id"),
    "place": ("place", "ward", "location", "room", "unit", "site", "address"),
    "from": ("from", "start", "begin", "since", "arrival", "admission", "arrived", "in"),
    "until": ("until", "to", "end", "discharge", "departure", "left", "out"),
}
ONE_TYPE = "contact"


class ContactList(NamedTuple):
    """Who met whom, by the names that the file gives them."""

    title: str
    first: list[str]
    second: list[str]
    earliest: Array  # (n,), the earliest day that the date of the contact allows; NaN if unknown
    calendar: bool | None  # None without dates
    types: list[str]

    def among(self, names: Set[str]) -> ContactList | None:
        """Return the contacts between records of these names, None if there is none."""
        both = zip(self.first, self.second, strict=True)
        rows = [row for row, pair in enumerate(both) if pair[0] in names and pair[1] in names]
        first, second, types = (
            [cells[row] for row in rows] for cells in (self.first, self.second, self.types)
        )
        some = self._replace(first=first, second=second, types=types, earliest=self.earliest[rows])
        return some if rows else None


class StayList(NamedTuple):
    """Who was where, and when."""

    title: str
    record: list[str]
    place: list[str]
    begin: Array  # (n,), −inf if unknown
    end: Array  # (n,), inf if unknown
    calendar: bool | None

    def among(self, names: Set[str]) -> StayList | None:
        """Return the stays of records of these names, None if there is none."""
        rows = [row for row, name in enumerate(self.record) if name in names]
        record, place = ([cells[row] for row in rows] for cells in (self.record, self.place))
        some = self._replace(record=record, place=place, begin=self.begin[rows], end=self.end[rows])
        return some if rows else None


def read_contacts(
    source: Any,
    *,
    day_first: bool | None = None,
    missing: Iterable[str] = MISSING,
    **reading: Any,  # as of `read_cells`
) -> ContactList:
    """Return the contacts that a table lists, one in each row.

    Its columns are called from and to, and perhaps date and type; capitals do not matter, and a few
    other names are known (infector, infectee, contact_date, setting, …). A table with neither from
    nor to lists contacts in its first two columns.

    Examples
    --------
    >>> found = read_contacts({"from": ["a", "b"], "to": ["b", "c"], "type": ["home", ""]})
    >>> found.first, found.second, found.types
    (['a', 'b'], ['b', 'c'], ['home', 'contact'])
    """
    table = read_text(source, **reading).known(set(missing))
    place = _places(table, _CONTACTS)
    if "from" not in place and "to" not in place and len(table.names) >= 2:
        place = {name: c for name, c in place.items() if c > 1} | {"from": 0, "to": 1}
    _require(table, place, ("from", "to"), "contacts")
    if {"support", "in_tree"} <= set(table.names):
        raise RecordsError(
            f"{table.title}: contacts must have been observed; got candidate parents that outtrees "
            "found, with the columns 'support' and 'in_tree'. Give the contacts that the results "
            "came from, or none"
        )
    first, second = (table.cells[place[name]] for name in ("from", "to"))
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        if not a or not b:
            raise table.error(row, None, "a contact names two records; fill in the other")
    dates = _dates(table, place.get("date"), day_first)
    types = [ONE_TYPE] * len(table)
    if "type" in place:
        types = [cell or ONE_TYPE for cell in table.cells[place["type"]]]
    earliest = np.full(len(table), np.nan)
    if dates is not None:
        earliest = dates.values - (0.0 if dates.uncertainty is None else dates.uncertainty)
    return ContactList(table.title, first, second, earliest, _calendar(dates), types)


def read_stays(
    source: Any,
    *,
    day_first: bool | None = None,
    missing: Iterable[str] = MISSING,
    **reading: Any,  # as of `read_cells`
) -> StayList:
    """Return the stays that a table lists, one in each row: record, place, from, until.

    Capitals do not matter, and a few other names are known (patient, ward, admission, discharge,
    …). An empty `from` is before all dates, an empty `until` after all dates.

    Examples
    --------
    >>> found = read_stays({"record": ["a", "b"], "place": ["N", "N"], "from": [1, 4],
    ...                     "until": [5, ""]})
    >>> found.begin.tolist(), found.end.tolist()
    ([1.0, 4.0], [5.0, inf])
    """
    table = read_text(source, **reading).known(set(missing))
    place = _places(table, _STAYS)
    _require(table, place, ("record", "place", "from", "until"), "stays")
    who, where = (table.cells[place[name]] for name in ("record", "place"))
    for row, cells in enumerate(zip(who, where, strict=True)):
        if not all(cells):
            raise table.error(row, None, "a stay needs a record and a place; fill in the other")
    sides = [_dates(table, place[name], day_first) for name in ("from", "until")]
    given = [dates for dates in sides if dates is not None]
    if len({dates.calendar for dates in given}) > 1:
        raise RecordsError(
            f"{table.title}: from and until must be written alike; got calendar dates in one and "
            "numbers in the other. Write both as 2020-03-05 or both as numbers",
            file=table.file,
        )
    begin, end = np.full(len(table), -np.inf), np.full(len(table), np.inf)
    for dates, limits, sign in zip(sides, (begin, end), (-1.0, 1.0), strict=True):
        if dates is not None:
            width = 0.0 if dates.uncertainty is None else dates.uncertainty
            limits[:] = np.where(np.isnan(dates.values), limits, dates.values + sign * width)
    for row in np.flatnonzero(end < begin)[:1].tolist():
        raise table.error(row, None, "a stay must begin before it ends; correct from or until")
    return StayList(table.title, who, where, begin, end, _calendar(given[0] if given else None))


def _places(table: Table, names: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return where the column of each role stands, of those that there are."""
    small = [name.strip().lower().replace(" ", "_") for name in table.names]
    result: dict[str, int] = {}
    for role, choices in names.items():
        found = [small.index(name) for name in choices if name in small]
        free = [c for c in found if c not in result.values()]
        if free:
            result[role] = free[0]
    return result


def _require(table: Table, place: Mapping[str, int], roles: Sequence[str], what: str) -> None:
    lacking = [role for role in roles if role not in place]
    if lacking:
        raise RecordsError(
            f"{table.title}: a table of {what} must have the columns {', '.join(roles)}; got "
            f"{first_ten(table.names)}. Rename the column{'s' * (len(lacking) > 1)} that stand"
            f"{'s' * (len(lacking) == 1)} for {' and '.join(map(quoted, lacking))}",
            file=table.file,
        )


def _dates(table: Table, column: int | None, day_first: bool | None) -> Dates | None:
    """Return the dates of a column, None if it is not there or empty."""
    if column is None:
        return None
    cells = table.cells[column]
    present = [row for row, cell in enumerate(cells) if cell]
    if not present:
        return None
    return read_dates(table, table.names[column], cells, present, day_first)


def _calendar(dates: Dates | None) -> bool | None:
    return None if dates is None else dates.calendar

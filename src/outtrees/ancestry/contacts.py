"""From lists of contacts and stays to the columns of pairs that the model weighs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.edges import within_runs
from outtrees._common.text import counted, first_ten, free_name
from outtrees.ancestry.columns import DateOptions, ModelColumn, date_cells, main_date
from outtrees.errors import RecordsError
from outtrees.models.columns import Contacts
from outtrees.records import Records
from outtrees.records.contacts import ContactList, StayList, read_contacts, read_stays

Array = NDArray[np.float64]
Index = NDArray[np.intp]

CONTACTS, STAYS = "contacts", "stays"
TOGETHER, AFTER = "together", "after"
_MOST_TYPES = 10  # the rarer ones are taken together
_OTHER_TYPES = "other"
_MOST_PAIRS = 20_000_000  # of records that were at one place, one after the other


class Found(NamedTuple):
    """Columns of pairs, one for each type of contact, and sentences on what did not count."""

    columns: list[ModelColumn]
    notes: list[str]


class _Window(NamedTuple):
    """When each record fell ill, at the earliest and at the latest; no limit if unknown."""

    earliest: Array  # (T,)
    latest: Array  # (T,)
    strict: bool  # whether parents must be earlier than their children

    def in_order(self, child: Index, parent: Index) -> NDArray[np.bool_]:
        """Return which pairs the dates allow (E,)."""
        if not self.strict:
            return np.ones(len(child), dtype=bool)
        return self.earliest[parent] <= self.latest[child]


def met_columns(
    contacts: Any, stays: Any, records: Records, dates: DateOptions, directed: bool, taken: set[str]
) -> Found:
    """Return the columns of pairs that met, by lists of contacts and of stays, if there are any.

    A column whose name is taken gets a mark behind it.
    """
    found = Found([], [])
    if contacts is not None:
        listed = contacts if isinstance(contacts, ContactList) else read_contacts(contacts)
        found = contact_columns(listed, records, dates, directed=directed)
    if stays is not None:
        there = stays if isinstance(stays, StayList) else read_stays(stays)
        more = stay_columns(there, records, dates, found.columns)
        found = Found(found.columns + more.columns, found.notes + more.notes)
    columns = [c._replace(name=free_name(c.name, taken)) for c in found.columns]
    return found._replace(columns=columns)


def contact_columns(
    found: ContactList, records: Records, dates: DateOptions, *, directed: bool
) -> Found:
    """Return a column for each type of contact, the rarest type first.

    A contact counts for v → u unless its date lies after u's: whoever infected u met u before. A
    contact without a date counts always. Where contacts are directed, only v → u counts of a
    contact from v to u.
    """
    rows, notes = _rows(found.title, [found.first, found.second], records, "contact")
    first, second = rows
    window = _window(records, dates, found.calendar, found.title)
    kept = (first >= 0) & (second >= 0)
    for wrong, why in (
        (kept & (first == second), "name one record twice"),
        (kept & (_groups(records)[first] != _groups(records)[second]), "join two groups"),
    ):
        kept &= ~wrong
        if wrong.any():
            notes.append(
                f"{counted(int(wrong.sum()), 'contact')} of {found.title} {why}: left out."
            )
    names, code = _types(found.types, kept, notes, found.title)
    listed = np.flatnonzero(kept)
    child, parent, row = second[listed], first[listed], listed
    if not directed:
        child, parent = np.append(child, first[listed]), np.append(parent, second[listed])
        row = np.append(row, listed)
    early = ~(found.earliest[row] > window.latest[child])  # unknown dates are early enough
    possible = window.in_order(child, parent)
    useful = np.bincount(row[early & possible], minlength=len(kept)) > 0
    late = int((kept & ~useful).sum())
    if late:
        notes.append(
            f"{counted(late, 'contact')} of {found.title} came after the child's date, or from "
            "the later of two records: not counted."
        )
    used = early & possible
    columns: list[ModelColumn] = []
    for t, name in enumerate(names, start=1):
        title = f"{CONTACTS} {name}" if len(names) > 1 else CONTACTS
        one = child[used & (code[row] == t)], parent[used & (code[row] == t)]
        columns += _columns(title, *one, records, window, directed, columns)
    return Found(columns, notes)


def stay_columns(
    found: StayList, records: Records, dates: DateOptions, met: Sequence[ModelColumn] = ()
) -> Found:
    """Return the columns of pairs that were at one place; those that `met` are set aside.

    "together": at the same place at the same time, from a day not after the child's date on.
    "after": not so, but the child came to a place, not after its own date, that the parent had
    left before. Overlaps come from intervals sorted by place and begin: O(stays log stays + pairs).
    """
    (who,), notes = _rows(found.title, [found.record], records, "stay")
    window = _window(records, dates, found.calendar, found.title)
    kept = np.flatnonzero(who >= 0)
    places = np.unique([found.place[i] for i in kept], return_inverse=True)[1].ravel()
    groups = _groups(records)
    spot = places * (int(groups.max()) + 1) + groups[who[kept]]  # one place for each group
    stays = _Stays(who[kept], spot, found.begin[kept], found.end[kept])
    columns: list[ModelColumn] = []
    both = _in_order(*_together(stays, window), window)
    columns += _columns(f"{STAYS} {TOGETHER}", *both, records, window, True, met)
    if sum(n * n for n in Counter(spot.tolist()).values()) > _MOST_PAIRS:
        notes.append(
            f"too many records of {found.title} were at one place to compare who came after whom: "
            "only those that were there together count."
        )
        return Found(columns, notes)
    ends = _in_order(*_after(stays, window), window)
    columns += _columns(f"{STAYS} {AFTER}", *ends, records, window, True, [*met, *columns])
    return Found(columns, notes)


def _in_order(child: Index, parent: Index, window: _Window) -> tuple[Index, Index]:
    possible = window.in_order(child, parent)
    return child[possible], parent[possible]


# Pairs -------------------------------------------------------------------------------------


class _Stays(NamedTuple):
    who: Index  # (n,)
    spot: Index  # (n,), where
    begin: Array  # (n,)
    end: Array  # (n,)


def _together(stays: _Stays, window: _Window) -> tuple[Index, Index]:
    """Return child and parent that were at one place at one time, before the child's date."""
    order = np.lexsort((stays.begin, stays.spot))
    who, spot = stays.who[order], stays.spot[order]
    begin, end = stays.begin[order], stays.end[order]
    # Stay j began while i lasted: those that stand after i, up to i's end at the same spot.
    last = _last_at(spot, begin, spot, end)
    sizes = np.maximum(last - np.arange(len(who)) - 1, 0)
    i = np.repeat(np.arange(len(who)), sizes)
    j = within_runs(sizes) + i + 1
    since = begin[j]  # when both were there
    child, parent = np.append(who[j], who[i]), np.append(who[i], who[j])
    known = (np.append(since, since) <= window.latest[child]) & (child != parent)
    return child[known], parent[known]


def _after(stays: _Stays, window: _Window) -> tuple[Index, Index]:
    """Return child and parent where the child came to a place that the parent had left."""
    came = stays.begin <= window.latest[stays.who]
    # Of several stays at a place the child's last arrival and the parent's first departure decide.
    child, child_spot, arrival = _extreme(stays.who[came], stays.spot[came], -stays.begin[came])
    parent, parent_spot, departure = _extreme(stays.who, stays.spot, stays.end)
    arrival = -arrival
    order = np.lexsort((departure, parent_spot))
    first = np.searchsorted(parent_spot[order], child_spot, side="left")
    last = _last_at(parent_spot[order], departure[order], child_spot, arrival, side="left")
    sizes = np.maximum(last - first, 0)
    at = np.repeat(np.arange(len(child)), sizes)
    place = within_runs(sizes) + first[at]
    u, v = child[at], parent[order][place]
    return u[u != v], v[u != v]


def _last_at(spots: Index, keys: Array, spot: Index, key: Array, side: str = "right") -> Index:
    """Return how many entries, sorted by spot and key, come up to each (spot, key)."""
    combined = np.concatenate([spots, spot])
    values = np.concatenate([keys, key])
    # Entries before queries at ties with side "right", after them with "left".
    asks = np.repeat([0, 1] if side == "right" else [1, 0], [len(spots), len(spot)])
    order = np.lexsort((asks, values, combined))
    is_entry = order < len(spots)
    before = np.cumsum(is_entry)
    result = np.empty(len(spot), dtype=np.intp)
    result[order[~is_entry] - len(spots)] = before[~is_entry]
    return result


def _extreme(who: Index, spot: Index, key: Array) -> tuple[Index, Index, Array]:
    """Return the smallest key of each record at each spot."""
    order = np.lexsort((key, who, spot))
    who, spot, key = who[order], spot[order], key[order]
    first = np.append(True, (who[1:] != who[:-1]) | (spot[1:] != spot[:-1]))[: len(who)]
    return who[first], spot[first], key[first]


def _columns(
    name: str,
    child: Index,
    parent: Index,
    records: Records,
    window: _Window,
    directed: bool,
    earlier: Sequence[ModelColumn],
) -> list[ModelColumn]:
    """Return the column of these pairs without those of earlier columns, none if there are none.

    They are some of all pairs of one group; of the ordered ones if contacts are directed and dates
    do not say which record is the later one.
    """
    T = len(records)

    def number(key: NDArray[np.int64]) -> float:  # of pairs, two orders being one if undirected
        return float(len(key if directed else np.unique(np.minimum(key, key % T * T + key // T))))

    kernels = [c.kernel for c in earlier if isinstance(c.kernel, Contacts)]
    aside = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(k.key for k in kernels)]))
    key = np.setdiff1d(child.astype(np.int64) * T + parent, aside)
    if not len(key):
        return []
    sizes = np.unique(_groups(records), return_counts=True)[1].astype(np.float64)
    total = float((sizes * (sizes - 1)).sum()) / (1 if directed and not window.strict else 2)
    kernel = Contacts(T, key, number(key), max(total - number(aside), number(key)), aside)
    return [ModelColumn(name, kernel, np.arange(T, dtype=np.float64)[:, None])]


# Names, dates and types --------------------------------------------------------------------


def _rows(
    title: str, sides: Sequence[Sequence[str]], records: Records, noun: str
) -> tuple[list[Index], list[str]]:
    """Return the rows of the records named, −1 for unknown ones, and a sentence on these."""
    place = {name: row for row, name in enumerate(records.ids)}
    rows = [np.array([place.get(name, -1) for name in side], dtype=np.intp) for side in sides]
    unknown = np.any([side < 0 for side in rows], axis=0) if len(rows[0]) else np.zeros(0, bool)
    n, total = int(unknown.sum()), len(unknown)
    if not total:
        raise RecordsError(f"{title} lists no {noun}; give a table with rows, or leave it out")
    if not n:
        return rows, []
    strangers = list(dict.fromkeys(x for side in sides for x in side if x not in place))
    if 2 * n > total:
        raise RecordsError(
            f"{title}: {n:,} of {counted(total, noun)} name records that are not in the table, "
            f"such as {first_ten(strangers[:3])}; records are called {first_ten(records.ids[:3])}. "
            "Name records as the table does"
        )
    return rows, [
        f"{n:,} of {counted(total, noun)} in {title} name records that are not in the table "
        f"({first_ten(strangers)}): left out."
    ]


def _groups(records: Records) -> Index:
    if records.groups is None:
        return np.zeros(len(records), dtype=np.intp)
    return np.asarray(records.groups, dtype=np.intp)


def _window(records: Records, dates: DateOptions, calendar: bool | None, title: str) -> _Window:
    """Return when each record fell ill, in the days that a list counts in."""
    T, column = len(records), main_date(records, dates)
    if column is None:  # dates of contacts have nothing to be compared with
        return _Window(np.full(T, -np.inf), np.full(T, np.inf), strict=False)
    if calendar is not None and calendar != column.calendar:
        ways = {True: "calendar dates", False: "numbers"}
        raise RecordsError(
            f"{title}: dates must be written as in column {column.name!r}, {ways[column.calendar]};"
            f" got {ways[calendar]}. Write both alike"
        )
    cells = date_cells(records, column, dates)
    known = ~np.isnan(cells[:, 0])
    earliest = np.where(known, cells[:, 0] - cells[:, 2], -np.inf)
    latest = np.where(known, cells[:, 0] + cells[:, 2], np.inf)
    return _Window(earliest, latest, dates.strict)


def _types(
    cells: Sequence[str], kept: NDArray[np.bool_], notes: list[str], title: str
) -> tuple[list[str], Index]:
    """Return the types, the rarest first, and the number of each contact's, counted from 1."""
    number = Counter(cell for cell, is_kept in zip(cells, kept, strict=True) if is_kept)
    names = [name for name, _ in number.most_common()]
    if len(names) > _MOST_TYPES:
        rare = set(names[_MOST_TYPES - 1 :])
        notes.append(
            f"{title} has {len(names)} types of contact: the {len(rare)} rarest count as one."
        )
        cells = [_OTHER_TYPES if cell in rare else cell for cell in cells]
        return _types(cells, kept, [], title)
    names = names[::-1]
    place = {name: t for t, name in enumerate(names, start=1)}
    return names, np.array([place.get(cell, 0) for cell in cells], dtype=np.intp)

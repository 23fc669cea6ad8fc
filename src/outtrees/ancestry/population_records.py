"""The records of each population in a table, cut out when they are needed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from outtrees.errors import RecordsError
from outtrees.records import Records


class Populations(Mapping[str, tuple[Records, dict[str, Any]]]):
    """Each population's own records and what is known of them, cut out when asked for.

    Parameters
    ----------
    records : Records
        With groups.
    known_parents : mapping of identities, or None
    forbidden : iterable of pairs of identities, or None
    """

    def __init__(self, records: Records, known_parents: Any = None, forbidden: Any = None) -> None:
        if records.groups is None:
            raise RecordsError(
                "records are expected to say to which population they belong, but they have no "
                "groups; read them with kinds={'site': 'group'}, or give by='site'"
            )
        self.records = records
        order = np.argsort(records.groups, kind="stable")
        groups = records.groups[order]
        starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
        names = [records.group_names[groups[i]] for i in starts]
        self._rows = dict(zip(names, np.split(order, starts[1:]), strict=True))
        self._known: dict[str, dict[Any, Any]] = {name: {} for name in names}
        self._forbidden: dict[str, list[tuple[Any, Any]]] = {name: [] for name in names}
        place: dict[str, list[int]] = {}
        for row, name in enumerate(records.ids):
            place.setdefault(name, []).append(row)
        for child, parent in dict(known_parents or {}).items():
            ends = (child,) if parent is None or parent == "" else (child, parent)
            home = self._homes(ends, place)
            if len(home) > 1:
                raise RecordsError(
                    f"the known parent {parent!r} of {child!r} belongs to another population; "
                    "correct one of the two"
                )
            self._known[home.pop()][child] = parent
        for pair in forbidden or ():
            home = self._homes(pair, place)
            if len(home) == 1:  # else they are no pair anyway
                self._forbidden[home.pop()].append(tuple(pair))

    def _homes(self, ends: Any, place: Mapping[str, list[int]]) -> set[str]:
        for name in ends:
            if str(name) not in place:
                raise RecordsError(
                    f"no record is called {str(name)!r}; identities are like {next(iter(place))!r}"
                )
            if len(place[str(name)]) > 1:
                raise RecordsError(
                    f"{len(place[str(name)])} populations have a record called {str(name)!r}; say "
                    "parents in a column of kind 'parent', or give the records names that differ"
                )
        groups = self.records.groups
        assert groups is not None  # asked in the constructor
        return {self.records.group_names[groups[place[str(name)][0]]] for name in ends}

    def sizes(self) -> dict[str, int]:
        """Return the number of records of each population."""
        return {name: len(rows) for name, rows in self._rows.items()}

    def __getitem__(self, name: str) -> tuple[Records, dict[str, Any]]:
        own = replace(self.records.take(self._rows[name]), groups=None, group_names=())
        return own, {
            "known_parents": self._known[name] or None,
            "forbidden": self._forbidden[name] or None,
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def digest_of(records: Records) -> str:
    """Return a digest of everything that a fit may see."""
    digest = hashlib.sha256()

    def add(part: Any) -> None:
        raw = part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)

    add((records.ids, sorted(records.known_parents.items()), records.group_names))
    for column in records.columns:
        add((column.name, column.kind, column.levels, column.text, column.calendar))
        add((column.values.shape, column.values.dtype.str))
        add(np.ascontiguousarray(column.values).tobytes())
        add(b"" if column.uncertainty is None else np.asarray(column.uncertainty).tobytes())
    assert records.groups is not None  # asked by `Populations`
    add(np.asarray(records.groups, dtype="<i8").tobytes())
    return digest.hexdigest()

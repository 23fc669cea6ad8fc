"""A long table of tracks, one row for each object and frame, as records: one for each object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from outtrees._common.text import counted, free_name, quoted
from outtrees.records.column import are_numbers, is_number
from outtrees.records.names import names_records, word_set, words
from outtrees.records.places import find_places
from outtrees.records.table import Table

_TRACKS = word_set(
    "track tracks trackid tid trajectory traj cell cellid particle object nucleus label"
)
_FRAMES = word_set(
    "frame frames timepoint timepoints tp slice time t tmin tsec thour timestep step"
)
# What describes the way of an object, and not the object.
_MOVEMENT = word_set(
    "distance distances displacement velocity velocities speed angle path heading direction "
    "turning acceleration straightness confinement"
)
_NEARLY_ALL = 0.95
_MEDIAN = "median over each track"


class Tracks(NamedTuple):
    """One row for each track, and what its columns are."""

    table: Table
    id: str
    kinds: dict[str, tuple[str, str]]  # column → kind and reason
    ends: dict[str, tuple[str, ...]]  # place → columns of its end
    until: str
    sentence: str


def find_tracks(
    table: Table,
    id: str | None,
    asked: Mapping[str, str],
    places: Mapping[str, Sequence[str]],
) -> Tracks | None:
    """Return the tracks of a table, None if it holds none; cells that mean nothing are empty.

    A table holds tracks if an identity (the one asked for; else a column called track, cell,
    particle, … or id) recurs, on average three times, at different frames (a column of numbers
    called frame, time, t, slice, … or asked to be the date), frames are shared by identities, and
    there is a place or the identity is called a track.

    The record of a track has its first frame as date and its last as end; the first and last place;
    cells that do not change; the median of numbers that do. Left out are numbers that count on
    with the frames; those about movement, by name or because nearly every track begins with 0 or
    nothing; and text that changes. O(cells log rows).
    """
    cells = dict(zip(table.names, table.cells, strict=True))
    spots = {place: tuple(names) for place, names in places.items()}
    if not spots:
        free = [name for name in table.names if asked.get(name, "place") == "place"]
        spots = {
            place: names
            for place, names in find_places(free).items()
            if all(are_numbers(cells[name]) for name in names)
        }
    homes = [cells[name] for name, kind in asked.items() if kind == "group" and name in cells]
    for name in _identities(table.names, id, asked, bool(spots)):
        for frame in _frames(table.names, asked, name):
            rows = _rows(cells[name], cells[frame], homes[0] if homes else None)
            if rows is not None:
                return _collected(table, name, frame, rows, asked, spots)
    return None


def _identities(
    names: Sequence[str], id: str | None, asked: Mapping[str, str], placed: bool
) -> list[str]:
    given = id or next((name for name, kind in asked.items() if kind == "id"), None)
    if given is not None:
        return [given] if given in names else []
    free = [name for name in names if name not in asked]
    called = [name for name in free if not _TRACKS.isdisjoint(words(name))]
    others = [name for name in free if names_records(name) and name not in called]
    return called + (others if placed else [])


def _frames(names: Sequence[str], asked: Mapping[str, str], identity: str) -> list[str]:
    dates = [name for name in names if asked.get(name) == "date"]
    if dates:
        return dates
    return [
        name
        for name in names
        if name not in asked and name != identity and not _FRAMES.isdisjoint(words(name))
    ]


def _rows(
    identities: list[str], frames: list[str], homes: list[str] | None
) -> list[list[int]] | None:
    """Return the rows of each track in the order of frames, None if these are no tracks."""
    if not all(is_number(cell) for cell in frames) or "" in identities:
        return None
    found: dict[tuple[str, str], list[int]] = {}
    for row, identity in enumerate(identities):
        found.setdefault((homes[row] if homes else "", identity), []).append(row)
    T = len(identities)
    if len(found) < 2 or 3 * len(found) > T or 2 * len(set(frames)) > T:
        return None
    time = [float(cell) for cell in frames]
    tracks = [sorted(rows, key=time.__getitem__) for rows in found.values()]
    for rows in tracks:
        if any(time[a] == time[b] for a, b in pairwise(rows)):
            return None
    return sorted(tracks, key=lambda rows: time[rows[0]])


def _collected(
    table: Table,
    identity: str,
    frame: str,
    tracks: list[list[int]],
    asked: Mapping[str, str],
    places: Mapping[str, tuple[str, ...]],
) -> Tracks:
    columns: dict[str, list[str]] = {}
    kinds: dict[str, tuple[str, str]] = {}
    ends: dict[str, tuple[str, ...]] = {}
    of_place = {name: place for place, names in places.items() for name in names}
    until = free_name(f"{frame}_end", table.names)
    firsts = [rows[0] for rows in tracks]
    lasts = [rows[-1] for rows in tracks]
    for name, cells in zip(table.names, table.cells, strict=True):
        if name == frame:
            columns[name], columns[until] = _at(cells, firsts), _at(cells, lasts)
            kinds[name] = "date", "first frame of each track"
            kinds[until] = "date", "last frame of each track, its end"
        elif name in of_place:
            axes = [table.column(axis) for axis in places[of_place[name]]]
            known = [[row for row in rows if all(axis[row] for axis in axes)] for rows in tracks]
            end = free_name(f"{name}_end", table.names)
            columns[name] = [cells[rows[0]] if rows else "" for rows in known]
            columns[end] = [cells[rows[-1]] if rows else "" for rows in known]
            ends[of_place[name]] = (*ends.get(of_place[name], ()), end)
        elif name == identity or name in asked:
            numbers = asked.get(name) in ("continuous", "count")
            summary = _medians if numbers else _first_known
            columns[name] = summary(cells, tracks)
        else:
            columns[name], reason = _summary(name, cells, tracks)
            if reason == _MEDIAN:
                kinds[name] = "continuous", reason
            elif reason:
                kinds[name] = "ignore", reason
    shorter = replace(
        table,
        names=tuple(columns),
        cells=tuple(columns.values()),
        lines=None if table.lines is None else [table.lines[row] for row in firsts],
        row_names=None,
    )
    placed = ", first and last place" if places else ""
    sentence = (
        f"{counted(len(table), 'row')} are {counted(len(tracks), 'track')} ({quoted(identity)}) "
        f"over frames ({quoted(frame)}): one record for each, with first and last frame{placed}; "
        "for a record of each row say tracks=False (--no-tracks)"
    )
    return Tracks(shorter, identity, kinds, ends, until, sentence)


def _summary(name: str, cells: list[str], tracks: list[list[int]]) -> tuple[list[str], str]:
    """Return one cell for each track, and the reason if it is a median or to be ignored."""
    first = _first_known(cells, tracks)
    moves = not _MOVEMENT.isdisjoint(words(name))
    if moves:
        return first, "about movement along the track, by its name"
    known = [[cells[row] for row in rows if cells[row]] for rows in tracks]
    if all(len(set(found)) < 2 for found in known):
        return first, ""
    if not all(is_number(cell) for found in known for cell in found):
        return first, "text that changes within tracks"
    numbers = [np.array([float(cell) for cell in found]) for found in known]
    long = [values for values in numbers if len(values) > 1]
    if all((np.diff(values) > 0).all() for values in long):
        return first, "counts on with the frames"
    begin = [cells[rows[0]] for rows in tracks]
    nothing = sum(not cell or float(cell) == 0 for cell in begin)
    if nothing >= _NEARLY_ALL * len(tracks):
        return first, "0 or nothing where tracks begin: about movement"
    return _medians(cells, tracks), _MEDIAN


def _medians(cells: list[str], tracks: list[list[int]]) -> list[str]:
    found = []
    for rows in tracks:
        known = [cells[row] for row in rows if cells[row]]
        if not all(is_number(cell) for cell in known):
            return _first_known(cells, tracks)  # refused by name later
        found.append(repr(float(np.median([float(c) for c in known]))) if known else "")
    return found


def _first_known(cells: list[str], tracks: list[list[int]]) -> list[str]:
    return [next((cells[row] for row in rows if cells[row]), "") for rows in tracks]


def _at(cells: list[str], rows: list[int]) -> list[str]:
    return [cells[row] for row in rows]

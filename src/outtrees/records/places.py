"""Cells that are places: plane coordinates, or latitudes and longitudes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from outtrees._common.text import first_ten, free_name, quoted
from outtrees.errors import RecordsError
from outtrees.records.column import Array, as_numbers, first_not
from outtrees.records.names import words
from outtrees.records.table import Table

EARTH_RADIUS_KM = 6371.0088  # mean radius
_LATITUDES = ("lat", "latitude")
_LONGITUDES = ("lon", "long", "lng", "longitude")
_EAST = ("x", "easting", "eastings", "east")
_NORTH = ("y", "northing", "northings", "north")
_AXIS = {
    **dict.fromkeys(_LATITUDES, "lat"),
    **dict.fromkeys(_LONGITUDES, "lon"),
    **dict.fromkeys(_EAST, "x"),
    **dict.fromkeys(_NORTH, "y"),
    "z": "z",
}
# Words beside an axis that do not say whose place it is: x_coord, xpixel, pos_x, UTM_X.
_EMPTY = (
    *("coord", "coords", "coordinate", "cor", "pixel", "pixels", "pix", "px", "position", "pos"),
    *("location", "loc", "centroid", "utm", "um", "km", "gps", "wgs84", "dec", "decimal", "deg"),
    "point",
)
_GLUED = re.compile(rf"([xyz])({'|'.join(_EMPTY)})|({'|'.join(_EMPTY)})([xyz])")
_STARTS = ("start", "first", "begin", "initial")
_ENDS = ("end", "last", "final", "stop")


def project(latitude: Array, longitude: Array, about: tuple[Array, Array] | None = None) -> Array:
    """Return km east and north of the centre of the places, (T, 2).

    ``about``, latitudes and longitudes of other places, says whose centre it is instead.

    Equirectangular about the mean latitude φ₀ and the (circular) mean longitude λ₀:

        east = R cos φ₀ (λ − λ₀),   north = R (φ − φ₀).

    Distances north–south are exact on the sphere. At latitude φ those east–west come out
    cos φ₀ / cos φ times as long as they are, wrong by about tan φ₀ (φ − φ₀): 2 % at 52° north
    and 100 km from the centre's latitude, 20 % at 1,000 km. For records spread over continents
    give plane coordinates of a projection made for them.

    Examples
    --------
    >>> project(np.array([52.0, 53.0]), np.array([13.0, 13.0])).round(1).tolist()
    [[0.0, -55.6], [0.0, 55.6]]
    """
    phi, lam = np.deg2rad(latitude), np.deg2rad(longitude)
    centred = (phi, lam) if about is None else (np.deg2rad(about[0]), np.deg2rad(about[1]))
    # Everything missing: there is no centre, and none is needed.
    known = ~np.isnan(centred[0])
    phi_0 = centred[0][known].mean() if known.any() else 0.0
    turns = np.exp(1j * centred[1][known]).sum()  # so that 179° and −179° are neighbours
    lam_0 = np.angle(turns)
    difference = np.angle(np.exp(1j * (lam - lam_0)))
    east = EARTH_RADIUS_KM * np.cos(phi_0) * difference
    return np.column_stack([east, EARTH_RADIUS_KM * (phi - phi_0)])


def is_geographic(names: Sequence[str]) -> bool:
    """Return whether two columns are by their names a latitude and a longitude, in any order."""
    return {_axis(name)[0] for name in names} == {"lat", "lon"} and len(names) == 2


def find_places(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the places that names of columns imply: name of the place → its columns.

    Examples
    --------
    >>> find_places(["id", "lat", "lon", "home_x", "home_y", "x"])
    {'place': ('lat', 'lon'), 'home': ('home_x', 'home_y')}
    >>> find_places(["xpixel", "ypixel", "x_end", "y_end"])
    {'place': ('xpixel', 'ypixel'), 'end': ('x_end', 'y_end')}
    """
    found: dict[str, tuple[str, ...]] = {}
    for rest, axes in _by_rest(names).items():
        for pair in (("lat", "lon"), ("x", "y", "z"), ("x", "y")):
            if all(axis in axes for axis in pair):
                place = " ".join(word for word in rest if word not in _EMPTY) or "place"
                # Two pairs of one meaning, such as x, y and utm_x, utm_y: the first is used.
                found.setdefault(place, tuple(axes[axis] for axis in pair))
                break
    return found


def find_ends(places: Iterable[str]) -> dict[str, str]:
    """Return which place is the end of which, by their names.

    Examples
    --------
    >>> find_ends(["place", "end", "home first", "home last", "final"])
    {'place': 'end', 'home first': 'home last'}
    """
    places = list(places)
    found: dict[str, str] = {}
    for end in places:
        rest = tuple(word for word in words(end) if word not in _ENDS)
        if len(rest) == len(words(end)):
            continue
        for begin in places:
            begun = tuple(w for w in words(begin) if w not in _STARTS and w != "place")
            if begun == rest and begin != end and begin not in found:
                found[begin] = end
                break
    return found


def _by_rest(names: Iterable[str]) -> dict[tuple[str, ...], dict[str, str]]:
    """Return for each remainder of names without their axis: axis → name."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for name in names:
        axis, rest = _axis(name)
        if axis:
            found.setdefault(rest, {}).setdefault(axis, name)
    return found


def _axis(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the axis that a name implies ("" if none or several) and its other words."""
    parts: list[str] = []
    for word in words(name):
        glued = _GLUED.fullmatch(word)
        parts += [part for part in glued.groups() if part] if glued else [word]
    at = [i for i, part in enumerate(parts) if part in _AXIS]
    if len(at) != 1:
        return "", ()
    return _AXIS[parts[at[0]]], tuple(part for i, part in enumerate(parts) if i != at[0])


def with_coordinates(
    table: Table, column: str, located: Table, missing: frozenset[str]
) -> tuple[Table, tuple[str, ...], str]:
    """Return the table with the coordinates of a column's values, their columns, and a sentence.

    `located` holds the values in a column of the same name, or in its first one.
    """
    if column not in table.names:
        raise RecordsError(
            f"{table.title} has no column {quoted(column)} whose values could have coordinates; "
            f"its columns are {first_ten(table.names)}"
        )
    key = located.names.index(column) if column in located.names else 0
    axes = next(
        iter(find_places(n for c, n in enumerate(located.names) if c != key).values()), None
    )
    if axes is None:
        raise RecordsError(
            f"{located.title} must have coordinates beside {quoted(located.names[key])}, in "
            f"columns such as lat and lon, or x and y; got {first_ten(located.names)}. Rename them"
        )
    row_of: dict[str, int] = {}
    for row, cell in enumerate(located.cells[key]):
        if row_of.setdefault(cell, row) != row:
            raise located.error(
                row, located.names[key], f"{quoted(cell)} has two rows of coordinates; keep one"
            )
    cells = table.column(column)
    rows = [row_of.get(cell, row_of.get(cell.removesuffix(".0"))) for cell in cells]
    there = [cell for cell in cells if cell not in missing]
    lost = [c for c, row in zip(cells, rows, strict=True) if row is None and c not in missing]
    if 2 * len(lost) > len(there):
        raise RecordsError(
            f"{located.title} has coordinates for {len(there) - len(lost)} of {len(there)} cells "
            f"of {quoted(column)}, and none for {first_ten(sorted(set(lost))[:3])}; name places as "
            "the table does"
        )
    names = tuple(free_name(name, table.names) for name in axes)
    new = tuple(["" if row is None else located.column(name)[row] for row in rows] for name in axes)
    sentence = f"{column}: coordinates from {located.title} ({', '.join(axes)})"
    if lost:
        sentence += f", none for {first_ten(sorted(set(lost)))}"
    joined = replace(table, names=(*table.names, *names), cells=(*table.cells, *new))
    return joined, names, sentence


class Place(NamedTuple):
    """Coordinates of the records, and of their ends if these are given."""

    values: Array  # (T, D)
    text: tuple[str, ...]
    end_values: Array | None  # (T, D); where records began if their end is unknown


def read_place(
    table: Table,
    columns: Mapping[str, list[str]],
    ends: Mapping[str, list[str]] | None = None,
) -> Place:
    """Return a place; columns, and ends if records have moved at their end, hold the cells.

    One column holds cells such as "3.5, 7" (with comma, semicolon or blank between), two or three
    hold one coordinate each. The text of degrees has the latitude first, whatever their order.
    """
    numbers, text = _coordinates(table, columns)
    geographic = is_geographic(tuple(columns))
    values = project(numbers[0], numbers[1]) if geographic else np.column_stack(numbers)
    if not ends:
        return Place(values, text, None)
    last = _coordinates(table, ends)[0]
    if len(last) != len(numbers) or is_geographic(tuple(ends)) != geographic:
        raise RecordsError(
            f"the end of a place must be written as its beginning is; got "
            f"{', '.join(map(quoted, ends))} for {', '.join(map(quoted, columns))}. Name columns "
            "of the same coordinates"
        )
    about = (numbers[0], numbers[1])
    end_values = project(last[0], last[1], about) if geographic else np.column_stack(last)
    return Place(values, text, np.where(np.isnan(end_values), values, end_values))


def _coordinates(
    table: Table, columns: Mapping[str, list[str]]
) -> tuple[list[Array], tuple[str, ...]]:
    """Return each coordinate, (T,), latitude first, and the text."""
    names = tuple(columns)
    if len(names) == 1:
        columns = _split(table, names[0], columns[names[0]])
    if not 2 <= len(columns) <= 3:
        raise RecordsError(
            f"a place must have 2 or 3 coordinates; got {len(columns)} from "
            f"{', '.join(map(quoted, names))}. List them in places=, for example "
            "{'home': ('x', 'y')}"
        )
    T = len(table)
    known: list[int] | None = None
    numbers = []
    for name, cells in columns.items():
        present = [row for row in range(T) if cells[row]]
        bad = first_not(cells, present)
        if bad is not None:
            raise table.error(
                bad,
                name,
                f"a coordinate must be a number; got {quoted(cells[bad])}. Correct it, or leave "
                "the cell empty",
            )
        if known is not None and present != known:
            row = min(set(present) ^ set(known))
            raise table.error(
                row,
                None,
                f"the place {', '.join(map(quoted, columns))} is given in "
                "part; fill in all coordinates or leave all empty",
            )
        known = present
        numbers.append(as_numbers(cells, present))
    geographic = is_geographic(names)
    written, text = list(columns.values()), [""] * T
    if geographic and _axis(names[0])[0] != "lat":
        written, numbers = written[::-1], numbers[::-1]
    for row in known or []:
        text[row] = ", ".join(cells[row] for cells in written)
    if not geographic:
        return numbers, tuple(text)
    latitude, longitude = numbers
    for values, limit, what in ((latitude, 90, "latitude"), (longitude, 360, "longitude")):
        wrong = np.flatnonzero(np.abs(values) > limit)
        if len(wrong):
            raise table.error(
                int(wrong[0]),
                None,
                f"a {what} must be within ±{limit} degrees; got {values[wrong[0]]:g}. Rename the "
                "columns to x and y if they are not degrees",
            )
    return numbers, tuple(text)


def _split(table: Table, name: str, cells: list[str]) -> dict[str, list[str]]:
    parts = [re.split(r"\s*[,;]\s*|\s+", cell.strip("() ")) if cell else [""] for cell in cells]
    sizes = [len(part) for part, cell in zip(parts, cells, strict=True) if cell]
    size = sizes[0] if sizes else 2
    for row, part in enumerate(parts):
        if cells[row] and len(part) != size:
            raise table.error(
                row,
                name,
                f"a place must have {size} coordinates as in the first cell; got "
                f"{quoted(cells[row])}. Write for example 3.5, 7",
            )
    return {
        f"{name} {axis}": [part[d] if len(part) == size else "" for part in parts]
        for d, axis in enumerate("xyz"[:size] if size <= 3 else map(str, range(size)))
    }

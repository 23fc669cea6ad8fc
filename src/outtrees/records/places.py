"""Cells that are places: plane coordinates, or latitudes and longitudes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from outtrees.errors import RecordsError
from outtrees.records.column import Array, quoted
from outtrees.records.numbers import as_numbers, first_not
from outtrees.records.table import Table

EARTH_RADIUS_KM = 6371.0088  # mean radius
_LATITUDES = ("lat", "latitude")
_LONGITUDES = ("lon", "long", "lng", "longitude")


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
    ends = {(_words(name) or [""])[-1] for name in names}
    return len(names) == 2 and not ends.isdisjoint(_LATITUDES) and not ends.isdisjoint(_LONGITUDES)


def find_places(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the places that names of columns tell of: name of the place → its columns.

    Examples
    --------
    >>> find_places(["id", "lat", "lon", "home_x", "home_y", "x"])
    {'place': ('lat', 'lon'), 'home': ('home_x', 'home_y')}
    """
    by_prefix: dict[str, dict[str, str]] = {}
    for name in names:
        words = _words(name)
        if words:
            by_prefix.setdefault(" ".join(words[:-1]), {})[words[-1]] = name
    found: dict[str, tuple[str, ...]] = {}
    for prefix, ends in by_prefix.items():
        lat = next((ends[end] for end in _LATITUDES if end in ends), None)
        lon = next((ends[end] for end in _LONGITUDES if end in ends), None)
        if lat is not None and lon is not None:
            found[prefix or "place"] = (lat, lon)
        elif "x" in ends and "y" in ends:
            found[prefix or "place"] = tuple(ends[end] for end in "xyz" if end in ends)
    return found


def read_place(
    table: Table, columns: Mapping[str, list[str]], missing: frozenset[str]
) -> tuple[Array, tuple[str, ...]]:
    """Return the coordinates of a place, (T, D), and its text; columns hold the cells.

    One column holds cells such as "3.5, 7" (with comma, semicolon or blank between), two or three
    hold one coordinate each. The text of degrees has the latitude first, whatever their order.
    """
    names = tuple(columns)
    if len(names) == 1:
        columns = _split(table, names[0], columns[names[0]], missing)
    if not 2 <= len(columns) <= 3:
        raise RecordsError(
            f"a place is expected to have 2 or 3 coordinates, but {', '.join(map(quoted, names))} "
            f"give {len(columns)}; list them in places=, for example {{'home': ('x', 'y')}}"
        )
    T = len(table)
    known: list[int] | None = None
    numbers = []
    for name, cells in columns.items():
        present = [row for row in range(T) if cells[row] not in missing]
        bad = first_not(cells, present)
        if bad is not None:
            raise table.error(
                bad,
                name,
                f"a coordinate is expected, but the cell is "
                f"{quoted(cells[bad])}; write a number, or leave the cell empty",
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
    if geographic and _words(names[0])[-1] not in _LATITUDES:
        written, numbers = written[::-1], numbers[::-1]
    for row in known or []:
        text[row] = ", ".join(cells[row] for cells in written)
    if not geographic:
        return np.column_stack(numbers), tuple(text)
    latitude, longitude = numbers
    for values, limit, what in ((latitude, 90, "latitude"), (longitude, 360, "longitude")):
        wrong = np.flatnonzero(np.abs(values) > limit)
        if len(wrong):
            raise table.error(
                int(wrong[0]),
                None,
                f"a {what} is expected within ±{limit} degrees, but "
                f"it is {values[wrong[0]]:g}; rename the columns to x and y if they are no degrees",
            )
    return project(latitude, longitude), tuple(text)


def _split(
    table: Table, name: str, cells: list[str], missing: frozenset[str]
) -> dict[str, list[str]]:
    parts = [
        ("",) if cell in missing else re.split(r"\s*[,;]\s*|\s+", cell.strip("() "))
        for cell in cells
    ]
    sizes = [len(part) for part, cell in zip(parts, cells, strict=True) if cell not in missing]
    size = sizes[0] if sizes else 2
    for row, part in enumerate(parts):
        if cells[row] not in missing and len(part) != size:
            raise table.error(
                row,
                name,
                f"{size} coordinates are expected as in the first cell, "
                f"but it is {quoted(cells[row])}; write for example 3.5, 7",
            )
    return {
        f"{name} {axis}": [part[d] if len(part) == size else "" for part in parts]
        for d, axis in enumerate("xyz"[:size] if size <= 3 else map(str, range(size)))
    }


def _words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return re.findall(r"[a-z0-9]+", spaced.lower())

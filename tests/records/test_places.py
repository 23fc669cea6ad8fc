"""Places: found by name, in km for degrees, beside distances on the sphere."""

import numpy as np
import pytest

from outtrees.errors import RecordsError
from outtrees.records import read_records
from outtrees.records.places import EARTH_RADIUS_KM, project


def great_circle(latitude, longitude):
    """Distances on the sphere by the haversine formula, (T, T) km."""
    phi, lam = np.deg2rad(latitude), np.deg2rad(longitude)
    half = np.sin((phi[:, None] - phi) / 2) ** 2
    half += np.cos(phi[:, None]) * np.cos(phi) * np.sin((lam[:, None] - lam) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(half))


@pytest.mark.parametrize("centre", [(52.0, 13.0), (-33.0, 179.9), (0.0, -180.0), (10.0, 359.0)])
def test_distances_beside_the_sphere(centre):
    rng = np.random.default_rng(0)
    latitude = centre[0] + rng.uniform(-0.9, 0.9, size=40)  # 100 km each way
    longitude = (centre[1] + rng.uniform(-1.5, 1.5, size=40) + 180) % 360 - 180
    plane = project(latitude, longitude)
    distance = np.linalg.norm(plane[:, None] - plane, axis=2)
    exact = great_circle(latitude, longitude)
    # The promise of the docstring, tan φ₀ (φ − φ₀); the mean is not quite the middle.
    promised = np.tan(np.deg2rad(abs(centre[0]))) * np.deg2rad(1.0) + 1e-3
    off = ~np.eye(40, dtype=bool)
    worst = np.abs(distance / np.where(off, exact, 1.0) - 1)[off].max()
    assert worst < promised
    assert worst > promised / 20  # the error is real, and said


def test_latitudes_and_longitudes_by_name():
    table = {"id": ["a", "b", "c"], "lon": [13.0, 13.0, None], "lat": [52.0, 53.0, None]}
    records = read_records(table)
    place = records.column("place")
    assert place.kind == "place"
    # One degree of the meridian: 2π R / 360.
    degree = 2 * np.pi * EARTH_RADIUS_KM / 360
    np.testing.assert_allclose(place.values[:2], [[0, -degree / 2], [0, degree / 2]], atol=1e-9)
    assert np.isnan(place.values[2]).all()
    assert place.text == ("52.0, 13.0", "53.0, 13.0", "")
    assert "km east and north of the centre of lat, lon" in records.describe()


def test_plane_coordinates():
    table = {"x": [1.0, 2], "y": [3.0, 4], "z": [5, 6.0], "homeX": [0, 1], "homeY": [2, 3.5]}
    records = read_records({"id": ["a", "b"], **table})
    assert [(c.name, c.kind) for c in records.columns] == [("place", "place"), ("home", "place")]
    assert records.column("place").values.tolist() == [[1, 3, 5], [2, 4, 6]]
    assert records.column("home").values.tolist() == [[0, 2], [1, 3.5]]
    # Asked for otherwise, or not numbers: no place.
    other = read_records(table, kinds={"x": "continuous", "homeX": "ignore"})
    assert "place" not in {c.kind for c in other.columns}
    text = read_records({"x": ["u", "u", "v", "v"], "y": [1, 2, 3.5, 4]})
    assert [c.kind for c in text.columns] == ["categorical", "continuous"]


def test_places_asked_for():
    table = {"e": [1.0, 2], "n": [3, 4.5], "spot": ["1.5, 2", "(3 4)"]}
    for options in ({"places": {"here": ("e", "n")}}, {"kinds": {"e": "place", "n": "place"}}):
        columns = read_records(table, **options).columns
        assert columns[0].kind == "place"
        assert columns[0].values.tolist() == [[1, 3], [2, 4.5]]
    spot = read_records(table, kinds={"spot": "place"}).column("spot")
    assert spot.values.tolist() == [[1.5, 2], [3, 4]]
    assert spot.text == ("1.5, 2", "3, 4")
    degrees = {"latitude": [1, 2.5], "longitude": [3, 3]}
    found = read_records(degrees, kinds={"latitude": "place", "longitude": "place"}).columns
    assert [c.name for c in found] == ["place"]
    assert np.ptp(found[0].values[:, 1]) == pytest.approx(1.5 * np.pi / 180 * EARTH_RADIUS_KM)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (
            {"lat": [52, 91], "lon": [0, 0]},
            {},
            "row 1: a latitude must be within ±90 degrees; got 91. Rename the columns",
        ),
        ({"x": [1, None], "y": [1, 2]}, {}, "row 1: the place 'x', 'y' is given in part; fill in"),
        ({"x": [1, "u"], "y": [1, 2]}, {"places": {"p": ("x", "y")}}, "row 1, column 'x': a coord"),
        ({"s": ["1, 2", "3"]}, {"kinds": {"s": "place"}}, "row 1, column 's': a place must have 2"),
        ({"s": ["1, 2, 3, 4"]}, {"kinds": {"s": "place"}}, "must have 2 or 3 coordinates"),
        ({"s": [1, 2]}, {"kinds": {"s": "place"}}, "must have 2 or 3 coordinates; got 1 from 's'"),
    ],
)
def test_refused_places(table, options, message):
    with pytest.raises(RecordsError, match=message):
        read_records(table, **options)


# Coordinates of the values of a column ---------------------------------------------------------

TRACTS = {
    "region": ["t1", "t2", "t3"],
    "people": [5, 6, 7],
    "long": [-84, -83, -82],
    "lat": [40] * 3,
}
CASES = {"case": ["a", "b", "c"], "tract": ["t2", "t1", "t2"]}


def test_values_of_a_column_have_coordinates():
    records = read_records(CASES, coordinates={"tract": TRACTS})
    place = records.column("place of tract")
    assert place.kind == "place"
    assert place.projected
    assert place.text == ("40, -83", "40, -84", "40, -83")
    assert any("tract: coordinates from" in note for note in records.notes)


def test_a_column_of_the_same_name_holds_the_values():
    located = {"x": [1.0, 2.0], "y": [3.0, 4.0], "tract": ["t1", "t2"]}
    place = read_records(CASES, coordinates={"tract": located}).column("place of tract")
    np.testing.assert_array_equal(place.values, [[2, 4], [1, 3], [2, 4]])


def test_values_without_coordinates_are_unknown_or_refused():
    cases = {"case": list("abcd"), "tract": ["t2", "t1", "t9", ""]}
    records = read_records(cases, coordinates={"tract": TRACTS})
    assert records.column("place of tract").missing.tolist() == [False, False, True, True]
    assert any("none for 't9'" in note for note in records.notes)
    with pytest.raises(RecordsError, match="coordinates for 1 of 3 cells of 'tract', and none for"):
        read_records(
            CASES, coordinates={"tract": {"region": ["t1", "T2"], "x": [1, 2], "y": [3, 4]}}
        )


@pytest.mark.parametrize(
    ("column", "located", "words"),
    [
        ("county", TRACTS, "has no column 'county'"),
        ("tract", {"region": ["t1"], "people": [5]}, "must have coordinates beside 'region'"),
        ("tract", {"r": ["t1", "t1"], "x": [1, 2], "y": [1, 2]}, "'t1' has two rows"),
    ],
)
def test_coordinates_that_cannot_be_used(column, located, words):
    with pytest.raises(RecordsError, match=words):
        read_records(CASES, coordinates={column: located})

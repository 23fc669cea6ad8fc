"""What names and contents of columns say: units, ages, dates, identities, places."""

import numpy as np
import pytest

from outtrees.records import read_records
from outtrees.records.kinds import infer_kind
from outtrees.records.names import date_rank, names_date, names_units
from outtrees.records.places import find_ends, find_places, is_geographic

RNG = np.random.default_rng(5)


def kind(name, cells):
    cells = [str(cell) for cell in cells]
    return infer_kind(name, cells, list(range(len(cells))))[0]


@pytest.mark.parametrize("name", ["family_ID", "household", "ward", "Cens_tract", "countyFIPS"])
def test_whole_numbers_of_units_are_categories(name):
    cells = RNG.integers(1000, 1040, size=100)
    assert kind(name, cells) == "categorical"
    assert kind(name + "_size", cells) == "continuous"
    assert kind("n_" + name, cells) == "continuous"
    # If every record has its own, it says nothing.
    assert kind(name, range(1000, 1100)) == "ignore"


def test_codes_are_categories_whatever_their_name():
    many = ["0042", "0107", "0042", "0107", "0311", "0311", "0500", "0500", "0601", "0600"]
    assert kind("column", many) == "categorical"
    assert kind("column", ["39005970100", "39005970200", "39139002400"] * 4) == "categorical"
    assert kind("income", [f"{n}" for n in RNG.integers(10, 99, 60) * 1000]) == "continuous"


@pytest.mark.parametrize("name", ["Pat-Nr", "patient", "Lot no", "case_id"])
def test_whole_numbers_that_differ_name_the_records_if_they_are_called_so(name):
    numbers = [f"{n}" for n in RNG.choice(9000, 20, replace=False) + 1_000_000]
    table = {"who": ["x", "y"] * 10, name: numbers}
    assert read_records(table).ids == tuple(numbers)
    table = {"who": ["x", "y"] * 10, f"{name} count": numbers}
    assert read_records(table).ids == tuple(map(str, range(1, 21)))


def test_ages_are_numbers():
    assert kind("age", [3, 4, 5, 3, 4, 5, 7, 8]) == "continuous"  # not a count
    assert kind("age_group", [1, 2, 3, 1, 2, 3]) == "continuous"  # ordered
    assert kind("dosage", [3, 4, 5, 6, 7, 8]) == "count"
    assert kind("age", [0, 1, 0, 1]) == "categorical"


def test_numbers_that_say_when():
    for name in ("onset", "day", "sampling_day", "date", "time_of_death", "OnsetDay"):
        assert names_date(name), name
    for name in ("update", "days_ill", "daytime_visits", "sample", "half_time_score"):
        assert not names_date(name), name
    assert date_rank("date_onset") < date_rank("sample_date") < date_rank("reported")
    assert date_rank("reported") < date_rank("date") < date_rank("date_recovered")
    assert not names_units("household_income")


@pytest.mark.parametrize(
    "names",
    [
        ("x", "y"), ("xpixel", "ypixel"), ("x_coord", "y_coord"), ("UTM_X", "UTM_Y"),
        ("easting", "northing"), ("pos_x", "pos_y"), ("X", "Y"), ("xPos", "yPos"), ("lat", "lng"),
        ("Latitude", "Longitude"), ("decimalLatitude", "decimalLongitude"), ("coordX", "coordY"),
    ],
)  # fmt: skip
def test_pairs_that_are_one_place(names):
    assert find_places(["id", *names, "age"]) == {"place": names}
    assert is_geographic(names) == any("lat" in name.lower() for name in names)


def test_what_is_no_place():
    assert find_places(["x", "age"]) == {}
    assert find_places(["xylophone", "yield"]) == {}
    assert find_places(["x_a", "y_b"]) == {}
    assert find_places(["x", "y", "utm_x", "utm_y"]) == {"place": ("x", "y")}
    assert find_ends(["home", "work"]) == {}


def test_plane_coordinates_stay_as_they_are():
    east, north = RNG.uniform(6e5, 7e5, 8), RNG.uniform(9e6, 9.1e6, 8)
    records = read_records({"easting": east, "northing": north})
    np.testing.assert_array_equal(records.column("place").values, np.column_stack([east, north]))


def test_numbers_that_name_the_records():
    ids = [2569, 3542, 17, 1030]
    table = {"id_case": ids, "dose": [1.5, 2, 3, 4]}
    assert read_records(table).ids == tuple(map(str, ids))
    assert read_records({"dose": table["dose"], "patient_id": ids}).ids == tuple(map(str, ids))
    # A quantity that happens to differ everywhere does not.
    assert read_records({"weight": ids, "dose": table["dose"]}).ids == ("1", "2", "3", "4")
    # Parents in numbers, 0 where nobody is known, are not evidence.
    biters = {"id_case": [5, 6, 7, 8, 9, 10], "id_biter": [0, 5, 5, 0, 0, 0], "v": range(6)}
    assert read_records(biters).ignored == ("id_biter",)

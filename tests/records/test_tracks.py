"""Long tables of tracks become records; places have ends."""

import numpy as np
import pytest

from outtrees.errors import RecordsError
from outtrees.records import read_records
from outtrees.records.evidence import as_evidence


def film(seed=0, n=12, frames=40):
    """One row for each cell and frame, and the first and last rows of each cell."""
    rng = np.random.default_rng(seed)
    rows, spans = [], {}
    for cell in range(1, n + 1):
        begin = int(rng.integers(0, frames - 8))
        end = int(rng.integers(begin + 5, frames))
        place = rng.uniform(0, 500, 2)
        track = []
        for i, frame in enumerate(range(begin, end + 1)):
            step = rng.normal(size=2)
            place = place + step
            track.append(
                {
                    "Nr": len(rows) + i + 1,
                    "cell": cell,
                    "frame": frame,
                    "xpixel": place[0],
                    "ypixel": place[1],
                    "area": 50 + cell + rng.normal(),
                    "well": "A1" if cell % 2 else "B2",
                    "dx": float(np.hypot(*step)) if i else np.nan,
                    "speed": float(np.hypot(*step)),
                    "state": rng.choice(["round", "flat"]),
                }
            )
        rows += track
        spans[str(cell)] = track
    return {name: [row[name] for row in rows] for name in rows[0]}, spans


def test_tracks_become_records():
    table, spans = film()
    records = read_records(table)
    assert sorted(records.ids, key=int) == list(spans)
    assert {c.name: c.kind for c in records.columns} == {
        "frame": "date", "frame_end": "date", "place": "place", "area": "continuous",
        "well": "categorical",
    }  # fmt: skip
    assert records.until == "frame_end"
    first = [spans[i][0] for i in records.ids]
    last = [spans[i][-1] for i in records.ids]
    place = records.column("place")
    for values, rows in ((place.values, first), (place.end_values, last)):
        np.testing.assert_array_equal(values, [[r["xpixel"], r["ypixel"]] for r in rows])
    assert records.column("frame").values[:, 0].tolist() == [r["frame"] for r in first]
    assert records.column("frame_end").values[:, 0].tolist() == [r["frame"] for r in last]
    areas = [np.median([r["area"] for r in spans[i]]) for i in records.ids]
    np.testing.assert_allclose(records.column("area").values[:, 0], areas)
    assert set(records.ignored) == {"Nr", "dx", "speed", "state"}
    assert (
        f"{len(table['cell'])} rows are 12 tracks ('cell') over frames ('frame')"
        in (records.describe().splitlines()[1])
    )
    # The end stays beside the one date that is evidence.
    assert [c.name for c in as_evidence(records).columns if c.kind == "date"] == [
        "frame", "frame_end",
    ]  # fmt: skip
    some = records.take([3, 1])
    np.testing.assert_array_equal(some.column("place").end_values, place.end_values[[3, 1]])


def test_the_order_of_rows_does_not_matter():
    table, _ = film()
    mixed = np.random.default_rng(1).permutation(len(table["cell"]))
    shuffled = {name: [cells[i] for i in mixed] for name, cells in table.items()}
    one, two = read_records(table), read_records(shuffled)
    order = [two.ids.index(i) for i in one.ids]
    np.testing.assert_array_equal(
        one.column("place").end_values, two.column("place").end_values[order]
    )


def test_tables_that_hold_no_tracks():
    table, _ = film()
    rows = read_records(table, tracks=False)
    assert (len(rows), rows.until, rows.notes) == (len(table["cell"]), None, ())
    # Cells in two rows of one frame; no column of frames; one row for each cell.
    twice = {name: [*cells, cells[0]] for name, cells in table.items()}
    assert len(read_records(twice)) == len(twice["cell"])
    unframed = {name: cells for name, cells in table.items() if name != "frame"}
    assert len(read_records(unframed)) == len(unframed["cell"])
    plain = {"cell": [f"c{i}" for i in range(9)], "time": range(9), "x": range(9), "y": range(9)}
    assert len(read_records(plain)) == 9


def test_tracks_of_groups():
    table, spans = film()
    two = {name: [*cells, *cells] for name, cells in table.items()}
    two["film"] = ["a"] * len(table["cell"]) + ["b"] * len(table["cell"])
    records = read_records(two, kinds={"film": "group"}, unique_within="group")
    assert len(records) == 2 * len(spans)
    assert records.group_names == ("a", "b")


# Ends of places ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end", [("x_end", "y_end"), ("last_x", "last_y"), ("end_x", "end_y"), ("xFinal", "yFinal")]
)
def test_places_at_the_end(end):
    table = {"x": [0.0, 1, 2], "y": [3.0, 4, 5], end[0]: [1.0, np.nan, 7], end[1]: [2.0, np.nan, 8]}
    (place,) = read_records(table).columns
    np.testing.assert_array_equal(place.values, [[0, 3], [1, 4], [2, 5]])
    np.testing.assert_array_equal(place.end_values, [[1, 2], [1, 4], [7, 8]])
    assert "at the end" in place.reason


def test_an_end_that_is_named():
    table = {"x": [0.0, 1], "y": [3.0, 4], "gone_east": [1.5, 2.5], "gone_north": [2.5, 3.5]}
    (place,) = read_records(table, place_end=("gone_east", "gone_north")).columns
    np.testing.assert_array_equal(place.end_values, [[1.5, 2.5], [2.5, 3.5]])
    with pytest.raises(RecordsError, match="must be written as its beginning is; got 'gone_east'"):
        read_records({**table, "up": [0, 1]}, place_end=["gone_east", "gone_north", "up"])
    with pytest.raises(RecordsError, match="has no column 'nowhere'"):
        read_records(table, place_end=["nowhere", "x"])


def test_ends_in_degrees_have_the_centre_of_the_beginnings():
    table = {"lat": [52.0, 53], "lon": [13.0, 13], "lat_end": [53.0, 53], "lon_end": [13.0, 13]}
    (place,) = read_records(table).columns
    np.testing.assert_allclose(place.end_values[0], place.values[1], atol=1e-9)


def test_an_end_alone_is_a_place():
    (place,) = read_records({"x_end": [0.0, 1], "y_end": [3.0, 4]}).columns
    assert place.end_values is None

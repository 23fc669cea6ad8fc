"""Data frames and Parquet say the same as CSV."""

import subprocess
import sys
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from outtrees.errors import RecordsError
from outtrees.records import read_records

COLUMNS = {
    "id": ["a", "b", "c", "d"],
    "day": [date(2020, 3, 5), date(2020, 3, 9), None, date(2021, 1, 1)],
    "x": [0.1, 1 / 3, None, 2e-300],
    "n": [3, None, 8, 12],
    "flag": [True, False, None, True],
    "ward": ["N", "S", None, "N"],
}
CSV = f"""id,day,x,n,flag,ward
a,2020-03-05,0.1,3,True,N
b,2020-03-09,{1 / 3!r},,False,S
c,,,8,,
d,2021-01-01,2e-300,12,True,N
"""


@pytest.fixture
def expected(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(CSV)
    return read_records(path)


def assert_same(one, two):
    assert one.ids == two.ids
    assert [c.name for c in one.columns] == [c.name for c in two.columns]
    for a, b in zip(one.columns, two.columns, strict=True):
        assert (a.kind, a.levels, a.calendar) == (b.kind, b.levels, b.calendar)
        np.testing.assert_array_equal(a.values, b.values)


def test_mapping(expected):
    assert [c.kind for c in expected.columns] == [
        *("date", "continuous", "count", "categorical", "categorical"),
    ]
    assert_same(read_records(COLUMNS), expected)
    assert_same(read_records({k: np.array(v, dtype=object) for k, v in COLUMNS.items()}), expected)


@pytest.mark.parametrize("dtype", ["numpy", "nullable", "datetime"])
def test_pandas(expected, dtype):
    frame = pd.DataFrame(COLUMNS)
    if dtype == "nullable":
        frame = frame.convert_dtypes()
    if dtype == "datetime":
        frame["day"] = pd.to_datetime(frame["day"])
        frame["ward"] = frame["ward"].astype("category")
    records = read_records(frame)
    assert_same(records, expected)
    assert records.column("day").text == ("2020-03-05", "2020-03-09", "", "2021-01-01")
    assert_same(read_records(frame.set_index("id")), expected)
    assert read_records(frame.iloc[::2].drop(columns="id")).ids == ("0", "2")


def test_polars(expected):
    polars = pytest.importorskip("polars")
    assert_same(read_records(polars.DataFrame(COLUMNS)), expected)


def test_pyarrow(expected):
    pyarrow = pytest.importorskip("pyarrow")
    assert_same(read_records(pyarrow.table(COLUMNS)), expected)


def test_other_cells():
    when = np.array(["2020-03-05", "NaT", "2020-03-06"], dtype="datetime64[D]")
    table = {"when": when, "d": [Decimal("1.5"), Decimal("NaN"), Decimal(3)]}
    records = read_records(table)
    np.testing.assert_array_equal(records.column("when").values[:, 0], [18326, np.nan, 18327])
    np.testing.assert_array_equal(records.column("d").values[:, 0], [1.5, np.nan, 3])
    zoned = pd.DataFrame({"t": pd.to_datetime(["2020-03-05T12:00", None], utc=True)})
    column = read_records(zoned, kinds={"t": "date"}).column("t")
    np.testing.assert_array_equal(column.values[:, 0], [18326.5, np.nan])


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_parquet(expected, tmp_path, library, monkeypatch):
    polars = pytest.importorskip("polars")
    if library == "pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)  # as if it were not installed
    path = tmp_path / "t.parquet"
    polars.DataFrame(COLUMNS).write_parquet(path)
    records = read_records(path)
    assert_same(records, expected)
    assert list(records.provenance) == ["t.parquet"]
    with pytest.raises(RecordsError, match=r"4 rows of 6 columns, 192 bytes; limit 100 bytes|limi"):
        read_records(path, max_bytes=100)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(RecordsError, match=r"^t\.parquet is a damaged Parquet file"):
        read_records(path)


def test_parquet_of_many_equal_cells_is_refused_unopened(tmp_path):
    polars = pytest.importorskip("polars")
    path = tmp_path / "t.parquet"
    polars.DataFrame({"a": np.zeros(1_000_000, dtype=np.int64)}).write_parquet(path)
    assert path.stat().st_size < 50_000
    with pytest.raises(RecordsError, match=r"open to 1000000 rows of 1 columns, 8\.0 MB; limit 1"):
        read_records(path, max_bytes=1_000_000)


def test_parquet_without_a_library_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match=r"needs pyarrow or polars; .*pip install pyarrow"):
        read_records(path)


def test_reading_a_csv_loads_nothing_heavy(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(CSV)
    code = (
        "import sys; from outtrees.records import read_records; read_records(sys.argv[1]); "
        "heavy = {'pandas', 'polars', 'pyarrow', 'dendropy', 'sklearn'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)

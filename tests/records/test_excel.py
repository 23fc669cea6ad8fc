"""Spreadsheets beside the same table as CSV; bounds, damage, and the reader that is not there."""

import io
import sys
import zipfile
from datetime import date, datetime

import numpy as np
import pytest

from outtrees.errors import RecordsError
from outtrees.records import read_records

ROWS = [
    ["case", "onset", "age", "ward", "score"],
    ["p1", date(2020, 3, 5), 31, "N", 0.5],
    ["p2", datetime(2020, 3, 9), 40, "N", 1.25],
    [None, None, None, None, None],
    ["p3", None, 7, "S", "#N/A"],
    ["p4", date(2020, 3, 11), 12, "S", -3],
]
CSV = """case,onset,age,ward,score
p1,2020-03-05,31,N,0.5
p2,2020-03-09,40,N,1.25
p3,,7,S,
p4,2020-03-11,12,S,-3
"""


@pytest.fixture
def book(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    made = openpyxl.Workbook()
    for row in ROWS:
        made.active.append(row)
    made.create_sheet("second")
    for row in (["id", "v"], ["a", 1.5], ["b", 2]):
        made["second"].append(row)
    made.create_sheet("nothing")
    path = tmp_path / "cases.xlsx"
    made.save(path)
    made.close()
    return path


def test_a_spreadsheet_is_read_as_its_csv(book, tmp_path):
    (tmp_path / "cases.csv").write_text(CSV)
    one, two = read_records(book), read_records(tmp_path / "cases.csv")
    assert one.ids == two.ids
    for column, other in zip(one.columns, two.columns, strict=True):
        assert (column.name, column.kind, column.text) == (other.name, other.kind, other.text)
        np.testing.assert_array_equal(column.values, other.values)
    assert list(one.provenance) == ["cases.xlsx"]


def test_sheets(book, tmp_path):
    assert read_records(book, sheet="second").ids == ("a", "b")
    with pytest.raises(RecordsError, match=r"got 'third'. Its sheets are 'Sheet', 'second', 'noth"):
        read_records(book, sheet="third")
    with pytest.raises(RecordsError, match="its sheet is empty"):
        read_records(book, sheet="nothing")
    (tmp_path / "cases.csv").write_text(CSV)
    with pytest.raises(RecordsError, match=r"sheet='second' is for spreadsheets, but cases.csv"):
        read_records(tmp_path / "cases.csv", sheet="second")


def test_errors_name_the_row_of_the_sheet(book):
    with pytest.raises(RecordsError, match=r"^cases\.xlsx line 2, column 'ward': the cell must be"):
        read_records(book, kinds={"ward": "continuous"})


def test_bounds(book, tmp_path):
    with pytest.raises(RecordsError, match="max_bytes"):
        read_records(book, max_bytes=2**10)
    with pytest.raises(RecordsError, match=r"open to .*limits: 200 times as much"):
        read_records(bomb(tmp_path))


def test_damaged(book, tmp_path):
    path = tmp_path / "bad.xlsx"
    path.write_bytes(book.read_bytes()[:-200])
    with pytest.raises(RecordsError, match=r"^bad\.xlsx is a damaged spreadsheet"):
        read_records(path)
    path.write_bytes(archive({"xl/workbook.xml": b"<not"}))
    with pytest.raises(RecordsError, match=r"^bad\.xlsx is a damaged spreadsheet"):
        read_records(path)


def test_without_the_reader(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    path = tmp_path / "cases.xlsx"
    path.write_bytes(archive({"a": b"b"}))
    with pytest.raises(ImportError, match=r"needs openpyxl; install it \(pip install 'outtrees\[e"):
        read_records(path)


def archive(members):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return made.getvalue()


def bomb(tmp_path):
    path = tmp_path / "bomb.xlsx"
    path.write_bytes(archive({"xl/worksheets/sheet1.xml": b"\0" * 2**24}))
    return path

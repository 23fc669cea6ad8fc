"""Small files that would open to much more are refused before the memory is taken."""

import io
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from outtrees.errors import RecordsError
from outtrees.records import read_records

LONG = "x" * 100_000


def cells(n):
    return {"id": [f"r{i}" for i in range(n)], "a": [LONG] * n}


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_a_text_that_parquet_holds_once(tmp_path, monkeypatch, library):
    polars = pytest.importorskip("polars")
    if library == "pyarrow":
        pytest.importorskip("pyarrow")
    path = tmp_path / "x.parquet"
    polars.DataFrame(cells(600)).write_parquet(path)
    assert path.stat().st_size < 200_000
    if library == "polars":
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(RecordsError, match=r"open to 600 rows of 2 columns, 60\.0 MB; limit 50\.0"):
        read_records(path, max_bytes=50_000_000)
    # Where it is allowed, the text is still there once.
    tracemalloc.start()
    if library == "pyarrow":
        assert len(read_records(path, kinds={"a": "ignore"})) == 600
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_refused_before_it_is_read(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    # Plain pages, packed: 30 MB as they are read.
    table = arrow.table({"a": [LONG] * 300})
    parquet.write_table(table, path, use_dictionary=False, compression="zstd")
    del table
    pool = arrow.default_memory_pool()
    before = pool.max_memory()
    with pytest.raises(RecordsError, match=r"open to 300 rows of 1 columns, 30\.0 MB; limit 20\.0"):
        read_records(path, max_bytes=20_000_000)
    assert pool.max_memory() == before


@pytest.mark.parametrize("cell", [[1.0] * 50, b"xyz", {"b": 1}])
def test_parquet_cells_of_many_values_are_refused_unread(tmp_path, cell):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table({"id": ["r", "s"], "a": [cell, cell]}), path)
    with pytest.raises(
        RecordsError, match=r"^x\.parquet, column 'a': cells must be numbers, text or dates"
    ):
        read_records(path)


def test_parquet_keeps_every_kind_of_cell(tmp_path):
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "id": ["a", "b", "c"],
            "kind": pandas.Categorical(["u", None, "v"]),
            "size": pandas.Categorical([1, 2, 1]),
            "when": pandas.to_datetime(["2020-01-01", None, "2020-01-03"]),
            "x": [1.5, np.nan, 2.25],
        }
    )
    frame.to_parquet(tmp_path / "x.parquet")
    from outtrees.records.reading import read_cells

    assert read_cells(tmp_path / "x.parquet") == {
        "id": ["a", "b", "c"],
        "kind": ["u", "", "v"],
        "size": ["1", "2", "1"],
        "when": ["2020-01-01", "", "2020-01-03"],
        "x": ["1.5", "", "2.25"],
    }


def sheet(path, change=lambda name, xml: xml, rows=(("x", 1), ("y", 2))):
    """Write a spreadsheet, with the XML of its parts changed."""
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (("id", "a"), *rows):
        book.active.append(row)
    made = io.BytesIO()
    book.save(made)
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, change(member.filename, old.read(member)))
    return path


def test_a_spreadsheet_with_a_billionth_row(tmp_path):
    path = sheet(
        tmp_path / "x.xlsx",
        lambda _, xml: xml.replace(b'<row r="3"', b'<row r="3000000000"'),
    )
    with pytest.raises(RecordsError, match=r"^x\.xlsx has more rows than the 1,048,576 of a spre"):
        read_records(path)


def test_a_text_that_a_spreadsheet_holds_once(tmp_path):
    form = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    listed = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{form}"/></Types>'.encode()

    def share(_, xml):
        xml = xml.replace(b"</Types>", listed)
        return xml.replace(b't="inlineStr"><is><t>LONG</t></is>', b't="s"><v>0</v>')

    path = sheet(tmp_path / "x.xlsx", share, [(f"r{i}", "LONG") for i in range(400)])
    start = b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        text = start + b"<si><t>" + b"x" * 30_000 + b"</t></si></sst>"
        archive.writestr("xl/sharedStrings.xml", text)
    assert path.stat().st_size < 100_000
    with pytest.raises(RecordsError, match=r"^x\.xlsx: its cells take more than 10\.0 MB by row"):
        read_records(path, max_bytes=10_000_000)


def test_sequences_ask_for_memory_first(monkeypatch):
    monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: 10_000)
    monkeypatch.setattr("outtrees.records.sequences._HARMLESS", 1000)
    with pytest.raises(MemoryError, match=r"^sequences of 2 records with 1000 sites need about 32"):
        read_records({"id": ["a", "b"]}, sequences={"a": "ACGTA" * 200, "b": "ACGTC" * 200})


def test_a_set_of_a_billion_characters(tmp_path):
    path = tmp_path / "x.nex"
    path.write_bytes(
        b"#NEXUS\nbegin data; dimensions ntax=2 nchar=2; format datatype=standard; matrix x 01\n"
        b" y 00; end;\nbegin sets; charset a = 1-9999999999999; end;\n"
    )
    assert read_records(path).ids == ("x", "y")

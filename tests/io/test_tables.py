"""CSV that a spreadsheet does not run, and that is read back as it was."""

import csv
import pickle
import sys

import numpy as np
import pytest

from outtrees.io import neutral, to_csv, write_csv
from outtrees.io.tables import Table
from outtrees.records import read_records

FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=cmd|'/c calc'!A1", "＝1"]


@pytest.mark.parametrize("cell", [*FORMULAS, "-", "+", "--1", "-1-1", "+1 ", "-0x10", "-١"])
def test_formulas_are_neutralised(cell):
    assert neutral(cell) == "'" + cell


@pytest.mark.parametrize("cell", ["-3.5", "+2", "-1e-7", "-.5", "3", "a=b", "", "'=x", "x@y", "−3"])
def test_other_text_stays(cell):
    assert neutral(cell) == cell


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (-3.5, "-3.5"),
        (np.float64(0.1), "0.1"),
        (np.int64(-4), "-4"),
        (True, "True"),
        (np.nan, ""),
        (None, ""),
        (1 / 3, repr(1 / 3)),
        (-np.inf, "-inf"),
    ],
)
def test_values(cell, text):
    assert neutral(cell) == text


@pytest.mark.parametrize("name", ["out.csv", "out.tsv"])
def test_no_cell_of_a_file_is_a_formula(tmp_path, name):
    columns = {"=child": [*FORMULAS, 'quo"te', "a,b\tc"], "value": np.arange(11) - 3.5}
    path = write_csv(tmp_path / name, columns)
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t" if name.endswith("tsv") else ","))
    assert rows[0] == ["'=child", "value"]
    assert [row[0] for row in rows[1:]] == [*("'" + cell for cell in FORMULAS), 'quo"te', "a,b\tc"]
    assert [float(row[1]) for row in rows[1:]] == columns["value"].tolist()
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_read_back_as_records(tmp_path):
    values = np.random.default_rng(0).normal(size=20)
    path = write_csv(tmp_path / "t.csv", {"id": [f"r{i}" for i in range(20)], "x": values})
    np.testing.assert_array_equal(read_records(path).column("x").values[:, 0], values)


def test_unequal_columns_are_refused():
    with pytest.raises(ValueError, match=r"equally long; got 1 \('a'\), 2 \('b'\)"):
        to_csv({"a": [1], "b": [1, 2]})


def _table():
    return Table({"child": ["b", "<b>c"], "parent": ["a", ""], "support": [0.9, 0.25]})


def test_a_table_counts_indexes_and_yields_rows():
    table = _table()
    assert len(table) == 2
    assert [row.child for row in table] == ["b", "<b>c"]
    child, parent, support = table[-1]
    assert (child, parent, support) == ("<b>c", "", 0.25)
    assert table["support"] == [0.9, 0.25]
    assert len(table[1:]) == 1
    assert dict(table) == {name: table[name] for name in table.columns}
    assert "child" in table
    assert table == pickle.loads(pickle.dumps(table)) != table[1:]


def test_a_wrong_row_or_column_is_named():
    with pytest.raises(KeyError, match="'mother' is not a column; the columns are child, parent"):
        _table()["mother"]
    with pytest.raises(IndexError, match="row 2 is asked for, but the table has 2 rows"):
        _table()[2]


def test_a_notebook_shows_names_as_text():
    html = _table()._repr_html_()
    assert "&lt;b&gt;c" in html
    assert "<b>" not in html
    assert html.count("<tr>") == 3
    assert "… 70 more rows" in Table({"a": range(100)})._repr_html_()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library, monkeypatch):
    frame = getattr(_table(), f"to_{library}")()
    assert list(frame.columns) == ["child", "parent", "support"]
    assert list(frame["support"]) == [0.9, 0.25]
    assert read_records(_table(), id="child").ids == ("b", "<b>c")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"needs {library}, .*pip install {library}"):
        getattr(_table(), f"to_{library}")()

"""CSV that a spreadsheet does not run, and that is read back as it was."""

import csv

import numpy as np
import pytest

from outtrees.io import neutral, to_csv, write_csv
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

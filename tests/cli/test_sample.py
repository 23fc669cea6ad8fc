"""`outtrees sample`, from files to files."""

import csv
import json

import numpy as np

from outtrees.io import load


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_sample_is_that_of_the_estimator(outtrees, model, tmp_path):
    out = tmp_path / "new.csv"
    result = outtrees("sample", model, "-n", 5, "--seed", 3, "--out", out)
    assert result.exit_code == 0, result.output
    X, parents = load(model).sample(5, random_state=3)
    found = rows(out)
    assert list(found[0])[:2] == ["id", "true_parent"]  # as drawn from an ancestry
    assert [row["id"] for row in found] == ["r1", "r2", "r3", "r4", "r5"]
    assert [row["true_parent"] for row in found] == ["" if p < 0 else f"r{p + 1}" for p in parents]
    np.testing.assert_array_equal([float(row["x2"]) for row in found], X[:, 1])
    printed = outtrees("sample", model, "-n", 5, "--seed", 3)
    assert printed.stdout == out.read_text()
    table = json.loads(outtrees("sample", model, "-n", 5, "--seed", 3, "--json").stdout)["sample"]
    np.testing.assert_array_equal(table["x2"], X[:, 1])
    assert "\n1 record written" in "\n" + outtrees("sample", model, "-n", 1, "--out", out).stdout


def test_sample_to_a_folder_that_is_not_there(refused, model, tmp_path):
    assert "no such folder" in refused("sample", model, "--out", tmp_path / "a" / "b", code=3)


def test_more_records_than_memory(refused, model):
    """Refused before anything is drawn, however many they are."""
    for n in (10**12, 10**30):
        said = refused("sample", model, "-n", n, code=4)
        assert f"{n:,} new records need about" in said
        assert "Draw fewer with -n" in said

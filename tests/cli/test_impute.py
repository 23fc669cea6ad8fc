"""`outtrees impute`, from files to files."""

import csv
import json
import warnings

import numpy as np
import pytest

from outtrees import OutTreeImputer


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_impute_keeps_what_is_there(outtrees, mixed, tmp_path):
    notes = ["note", "", *(f"tree {i}" for i in range(1, 24))]  # hardly recur: ignored
    lines = mixed.read_text().splitlines()
    noted = [line.replace(",", f",{note},", 1) for line, note in zip(lines, notes, strict=True)]
    mixed.write_text("\n".join(noted))
    result = outtrees(
        "impute", mixed, "--kind", "species=label", "--mutation", "gaussian", "--n-draws", 4,
        "--seed", 1, "--out", tmp_path / "i", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    before, after = rows(mixed), rows(tmp_path / "i" / "filled.csv")
    for old, new in zip(before, after, strict=True):
        assert old["id"] == new["id"]
        assert old["species"] == new["species"]
        assert old["note"] == new["note"]
        assert list(old) == list(new)
        for name in ("height", "colour"):
            assert old[name] in ("", new[name])
            assert new[name] != ""
    codes = {"": np.nan, "blue": 0, "red": 1}
    X = np.array([[float(row["height"] or "nan"), codes[row["colour"]]] for row in before])
    imputer = OutTreeImputer("gaussian", categorical=[1], n_draws=4, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws are noisy
        filled = imputer.fit_transform(X)
    assert float(after[5]["height"]) == pytest.approx(filled[5, 0], rel=1e-9)
    assert codes[after[8]["colour"]] == filled[8, 1]
    cells = json.loads(result.stdout)["cells"]
    assert list(zip(cells["record"], cells["column"], strict=True)) == [
        ("t5", "height"),
        ("t8", "colour"),
    ]
    assert all(sd > 0 for sd in cells["sd"])

"""`outtrees density`, from files to files."""

import csv
import json

import numpy as np
import pytest

from outtrees import OutTreeDensity
from outtrees.io import load


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_density_is_that_of_the_estimator(outtrees, spiral, tmp_path):
    path, X = spiral
    result = outtrees("density", path, "--out", tmp_path / "d", "--seed", 1, "--mutation", "parzen")
    assert result.exit_code == 0, result.output
    expected = OutTreeDensity("parzen", random_state=1).fit(X).score_samples(X)
    found = rows(tmp_path / "d" / "densities.csv")
    assert [row["record"] for row in found] == [f"s{i}" for i in range(14)]
    np.testing.assert_array_equal([float(row["log_density"]) for row in found], expected)
    lowest = f"s{int(np.argmin(expected))}"
    table = result.stdout.split("outliers first")[1].splitlines()
    assert table[2].split()[0] == lowest


def test_a_saved_density_scores_other_tables(outtrees, spiral, tmp_path):
    path, _ = spiral
    assert outtrees("density", path, "--out", tmp_path / "d", "--max-iter", 5).exit_code == 0
    model = tmp_path / "d" / "model.safetensors"
    new = tmp_path / "new.csv"
    new.write_text("name,w,v,u\nn1,0.75,1.5,0.25\nn2,0.5,-1.25,0.5\n")  # another order
    kinds = [part for name in "uvw" for part in ("--kind", f"{name}=continuous")]
    result = outtrees("density", new, "--model", model, "--json", *kinds)
    assert result.exit_code == 0, result.output
    expected = load(model).score_samples([[0.25, 1.5, 0.75], [0.5, -1.25, 0.5]])
    assert json.loads(result.stdout)["densities"]["log_density"] == pytest.approx(
        expected.tolist(), rel=1e-12
    )


def test_a_saved_density_refuses_other_columns(outtrees, refused, spiral, mixed, tmp_path):
    path, _ = spiral
    assert outtrees("density", path, "--out", tmp_path / "d", "--max-iter", 5).exit_code == 0
    model = tmp_path / "d" / "model.safetensors"
    line = refused("density", mixed, "--model", model)
    assert "lacks column 'u' of the model (columns: u, v, w)" in line
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("height,colour\n" + "".join(f"{i}.5,{'rb'[i % 2]}\n" for i in range(9)))
    assert outtrees("density", numbers, "--out", tmp_path / "e", "--max-iter", 5).exit_code == 0
    strange = tmp_path / "strange.csv"
    strange.write_text("height,colour\n1.5,r\n2.5,green\n3.5,r\n2.5,green\n")
    line = refused("density", strange, "--model", tmp_path / "e" / "model.safetensors")
    assert line.startswith("column 'colour' holds 'green', which the model has not seen; it knows")


def test_density_of_numbers_and_categories(outtrees, mixed, tmp_path):
    arguments = ["density", mixed, "--ignore", "species", "--out", tmp_path / "d", "--max-iter", 5]
    assert "has no 'height'" in outtrees(*arguments).stderr
    mixed.write_text(mixed.read_text().replace("t5,,", "t5,9.5,"))
    result = outtrees(*arguments)
    assert result.exit_code == 0, result.output
    shown = outtrees("show", tmp_path / "d" / "model.safetensors")
    assert "columns: height (continuous), colour (categorical)" in shown.stdout
    assert "learned from 24 records with 2 columns" in shown.stdout
    drawn = outtrees("sample", tmp_path / "d" / "model.safetensors", "-n", 30, "--seed", 0)
    table = list(csv.DictReader(drawn.stdout.splitlines()))
    assert {row["colour"] for row in table} == {"red", "blue"}


def test_density_with_empty_cells_integrated_out(outtrees, mixed):
    arguments = ["density", mixed, "--ignore", "species", "--max-iter", 5, "--seed", 1, "--json"]
    assert "; integrate them out with --missing integrate, or" in outtrees(*arguments).stderr
    result = outtrees(*arguments, "--missing", "integrate")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["densities"]["log_density"]
    assert len(found) == 24
    assert np.isfinite(found).all()


def test_densities_that_are_no_numbers_are_refused(refused, model, spiral, monkeypatch):
    monkeypatch.setattr(OutTreeDensity, "score_samples", lambda self, X: np.full(len(X), np.nan))
    line = refused("density", spiral[0], "--model", model)
    assert line.startswith("the model gives no density to record 's0' (14 in all); fill in its")


def test_a_model_without_names_takes_columns_in_order(outtrees, refused, model, spiral, mixed):
    result = outtrees("density", spiral[0], "--model", model, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["densities"]["log_density"]
    np.testing.assert_array_equal(found, load(model).score_samples(spiral[1]))
    line = refused("density", mixed, "--model", model, "--ignore", "species", "--ignore", "colour")
    assert line.startswith("the model learned from 3 columns without names, but")


def test_what_is_saved_of_a_density_scores_alike(outtrees, mixed, tmp_path):
    """The model file gives back the densities, with the cells integrated out again."""
    arguments = ["--ignore", "species", "--missing", "integrate", "--json"]
    first = outtrees(
        "density", mixed, *arguments, "--max-iter", 5, "--seed", 1, "--out", tmp_path / "d"
    )
    summary = json.loads(first.stdout)
    again = outtrees("density", mixed, *arguments, "--model", summary["files"]["model.safetensors"])
    assert json.loads(again.stdout)["densities"] == summary["densities"]


def test_density_of_calendar_dates_and_places(outtrees, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(
        "id,onset,x,y\n" + "".join(f"r{i},2020-03-{i + 1:02},{i % 3}.5,{i}.25\n" for i in range(9))
    )
    result = outtrees("density", path, "--json", "--max-iter", 5)
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["densities"]["log_density"]) == 9

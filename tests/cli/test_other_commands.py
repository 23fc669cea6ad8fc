"""density, label, impute, sample and show, from files to files."""

import csv
import importlib
import json
import warnings

import numpy as np
import pytest

from outtrees import OutTreeDensity
from outtrees.datasets import make_spiral
from outtrees.io import load, save


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def needs(module, name):
    """Return the estimator; skip until it is there."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        pytest.skip(f"{name} is not there yet")


N = 14


@pytest.fixture(scope="module")
def spiral(tmp_path_factory):
    X = make_spiral(N, random_state=0)
    path = tmp_path_factory.mktemp("spiral") / "spiral.csv"
    lines = [f"s{i},{x!r},{y!r},{z!r}" for i, (x, y, z) in enumerate(X.tolist())]
    path.write_text("name,u,v,w\n" + "\n".join(lines) + "\n")
    return path, X


@pytest.fixture
def mixed(tmp_path):
    """Two clouds with a category each; cells and labels missing here and there."""
    rng = np.random.default_rng(0)
    lines = ["id,height,colour,species"]
    for i in range(24):
        side = i % 2
        height = "" if i == 5 else f"{10 * side + rng.normal():.3f}"
        colour = "" if i == 8 else ["red", "blue"][side]
        species = "" if i >= 18 else ["oak", "elm"][side]
        lines.append(f"t{i},{height},{colour},{species}")
    path = tmp_path / "mixed.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


# density ---------------------------------------------------------------------------------------


def test_density_is_that_of_the_estimator(outtrees, spiral, tmp_path):
    path, X = spiral
    result = outtrees("density", path, "--out", tmp_path / "d", "--seed", 1, "--mutation", "parzen")
    assert result.exit_code == 0, result.output
    expected = OutTreeDensity("parzen", random_state=1).fit(X).score_samples(X)
    found = rows(tmp_path / "d" / "densities.csv")
    assert [row["record"] for row in found] == [f"s{i}" for i in range(N)]
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


# label and impute ------------------------------------------------------------------------------


@pytest.mark.parametrize("joint", ["no", "auto"])
def test_label_finds_the_side(joint, outtrees, mixed, tmp_path):
    needs("outtrees.labels.classifier", "OutTreeClassifier")
    mixed.write_text(mixed.read_text().replace("t5,,", "t5,9.5,"))
    options = ["--seed", 1, "--json", "--joint", joint, "--out", tmp_path / "l"]
    result = outtrees("label", mixed, "--label", "species", *options)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["labels"]
    expected = {f"t{i}": ["oak", "elm"][i % 2] for i in range(18, 24)}
    assert dict(zip(found["record"], found["label"], strict=True)) == expected
    written = rows(tmp_path / "l" / "labels.csv")
    assert len(written) == 24
    for row in written:
        assert float(row["p(elm)"]) + float(row["p(oak)"]) == pytest.approx(1)
        assert row["given"] in ("", row["label"])


def test_label_of_discrete_characters(outtrees, tmp_path):
    needs("outtrees.labels.classifier", "OutTreeClassifier")
    path = tmp_path / "x.csv"
    lines = [f"a{i},{i % 2},{i % 2},{i % 2},{'?' if i > 9 else 'xy'[i % 2]}" for i in range(14)]
    path.write_text("id,p,q,r,kind\n" + "\n".join(lines) + "\n")
    result = outtrees("label", path, "--label", "kind", "--seed", 1, "--stickiness", "0.9")
    assert result.exit_code == 0, result.output
    assert "4 labels found, 10 were given; stickiness 0.9" in result.stdout


def test_impute_keeps_what_is_there(outtrees, mixed, tmp_path):
    OutTreeImputer = needs("outtrees.imputation.imputer", "OutTreeImputer")
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


@pytest.mark.parametrize("command", [["label", "--label", "species"], ["impute"], ["density"]])
def test_check_runs_nothing(outtrees, mixed, monkeypatch, command):
    mixed.write_text(mixed.read_text().replace("t5,,", "t5,9.5,"))
    for name in ("density.OutTreeDensity", "labels.classifier.OutTreeClassifier"):
        monkeypatch.setattr(f"outtrees.{name}.fit", None, raising=False)
    result = outtrees(*command, mixed, "--check", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["check"]["fits"] is True
    assert "checked only; nothing was run" in result.stderr


# sample and show -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(spiral):
    return save(
        OutTreeDensity("parzen", random_state=0).fit(spiral[1]), spiral[0].parent / "m.safetensors"
    )


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


def test_show_says_what_was_learned(outtrees, model):
    result = outtrees("show", model)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "OutTreeDensity, with mutation='parzen', random_state=0"
    assert "learned from 14 records with 3 columns" in lines
    assert "converged" in lines
    assert json.loads(outtrees("show", model, "--json").stdout)["sentences"] == lines


def test_show_and_sample_of_a_mutation(outtrees, refused, spiral, model, tmp_path):
    path = save(load(model).mutation_, tmp_path / "mutation.safetensors")
    assert outtrees("show", path).stdout.startswith("GaussianMutation, ")
    assert "from which no population can be drawn" in refused("sample", path)
    assert "gives no densities" in refused("density", spiral[0], "--model", path)

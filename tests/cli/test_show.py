"""`outtrees show`."""

import json

import pytest

from outtrees.io import load, save


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


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("log_likelihood_", None), ("table_columns_", {"a": 3}), ("X_", 7), ("mutation_", [{}])],
)
def test_a_model_that_makes_no_sense_is_refused_in_a_sentence(
    outtrees, refused, spiral, model, tmp_path, attribute, value
):
    """Its checksum fits: somebody wrote it so."""
    nonsense = load(model)
    setattr(nonsense, attribute, value)
    path = save(nonsense, tmp_path / "nonsense.safetensors")
    for command in (("show", path), ("sample", path), ("density", spiral[0], "--model", path)):
        result = outtrees(*command)
        assert result.exit_code in (0, 2), result.output
        assert "Traceback" not in result.output
    if attribute != "mutation_":
        line = refused("show", path)
        assert "holds a OutTreeDensity whose contents do not belong together" in line


def test_a_folder_of_results(outtrees, refused, ancestry, tmp_path):
    out = tmp_path / "results"
    assert ancestry("--out", out).exit_code == 0
    result = outtrees("show", out)
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()[:2]
    assert first.startswith("results of 'outtrees ancestry', all as it wrote them: ")
    assert second.startswith("Ancestry, ")
    with open(out / "parents.csv", "a") as file:
        file.write("x")
    assert "is not as one run left it: parents.csv is not what the run wrote" in refused(
        "show", out
    )
    (out / "parents.csv").unlink()
    assert "parents.csv is missing" in refused("show", out)
    assert "a folder without results.json" in refused("show", tmp_path)


def test_results_of_another_command_are_not_replaced(refused, ancestry, spiral, tmp_path):
    out = tmp_path / "results"
    assert ancestry("--out", out).exit_code == 0
    line = refused("density", spiral[0], "--out", out)
    assert f"'{out}' holds the results of 'outtrees ancestry'; name another --out" in line

"""`outtrees show`."""

import json

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

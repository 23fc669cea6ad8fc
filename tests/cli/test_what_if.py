"""`outtrees what-if`."""

import csv
import json

import pytest

from outtrees.io import load


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder of results, and its model."""
    from click.testing import CliRunner

    from cli.outbreak import write_outbreak
    from outtrees.cli import main

    folder = tmp_path_factory.mktemp("what-if")
    files = write_outbreak(folder)
    out = folder / "results"
    command = ["ancestry", files.cases, "--id", "case", "--date", "onset", "--ignore", "outcome"]
    command += ["--sequences", files.dna, "--waiting-mean", "3.5", "--waiting-sd", "1.2"]
    done = CliRunner().invoke(main, [str(part) for part in [*command, "--out", out, "--quiet"]])
    assert done.exit_code == 0, done.output
    return out, load(out / "model.safetensors")


def test_what_if_is_that_of_python(outtrees, results, tmp_path):
    folder, model = results
    rows = [r for r in model.parents(0.001).rows() if r[3] == 2]
    child, parent = rows[0][0], rows[0][1]
    other = next(r for r in model.parents(0.3).rows() if r[0] != child and r[1])
    said = json.loads(
        outtrees(
            "what-if", folder, "--suppose", f"{child}={parent}", "--rule-out",
            f"{other[0]}={other[1]}", "--min-change", 0, "--json", "--out", tmp_path / "changes",
        ).stdout
    )  # fmt: skip
    expected = model.what_if({child: parent or None}, 0.0, not_parent=[(other[0], other[1])])
    assert said["changes"] == [row._asdict() for row in expected]
    written = list(csv.DictReader((tmp_path / "changes" / "what_if.csv").read_text().splitlines()))
    assert len(written) == len(expected)
    found = {(r["child"], r["parent"]): float(r["support_if"]) for r in written}
    assert found[child, parent] == pytest.approx(1)
    assert found[other[0], other[1]] == 0


def test_introduction_and_no_introduction(outtrees, results):
    folder, model = results
    child = model.records.ids[-1]
    result = outtrees("what-if", folder / "model.safetensors", "--introduction", child)
    assert result.exit_code == 0, result.output
    assert "(root)" in result.stdout
    assert outtrees("what-if", folder, "--rule-out", f"{child}=").exit_code == 0


def test_what_cannot_be_asked_is_refused(refused, results, model):
    folder, fitted = results
    first, last = fitted.records.ids[0], fitted.records.ids[-1]
    assert "nothing is supposed" in refused("what-if", folder)
    assert "'nobody' is not a record" in refused("what-if", folder, "--suppose", "nobody=x")
    assert "no record is called 'nobody'" in refused("what-if", folder, "--introduction", "nobody")
    refused("what-if", folder, "--suppose", f"{first}={last}", "--suppose", f"{last}={first}")
    assert "must be a model of 'outtrees ancestry'" in refused(
        "what-if", model, "--introduction", "x"
    )

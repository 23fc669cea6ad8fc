"""`outtrees convert`."""

import csv
import json

import pytest
from click.testing import CliRunner

from cli.outbreak import write_outbreak
from outtrees.cli import main
from outtrees.io import load


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder of results."""
    folder = tmp_path_factory.mktemp("convert")
    files = write_outbreak(folder)
    command = ["ancestry", files.cases, "--id", "case", "--date", "onset", "--ignore", "outcome"]
    command += ["--waiting-mean", "3.5", "--waiting-sd", "1.2", "--sequences", files.dna]
    command += ["--out", folder / "results", "--quiet"]
    done = CliRunner().invoke(main, [str(part) for part in command])
    assert done.exit_code == 0, done.output
    return folder / "results"


def test_results_become_auspice_and_a_folder(outtrees, refused, results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = outtrees("convert", results, "--to", "auspice", "--json")
    assert json.loads(said.stdout)["files"] == {"auspice.json": "auspice.json"}
    assert json.loads((tmp_path / "auspice.json").read_text())["version"] == "v2"
    done = outtrees("convert", results / "model.safetensors", "--to", "epicontacts", "--out", "e")
    assert done.exit_code == 0, done.output
    linelist = list(csv.DictReader((tmp_path / "e" / "linelist.csv").read_text().splitlines()))
    assert [row["id"] for row in linelist] == list(load(results / "model.safetensors").records.ids)
    assert "is there already" in refused("convert", results, "--to", "auspice", code=3)
    assert "is no folder" in refused(
        "convert", results, "--to", "dot", "--out", "nowhere/x.dot", code=3
    )


def test_what_cannot_be_converted_is_refused(refused, results, model, tmp_path):
    out = ("--out", tmp_path / "x")
    assert "must be a model of 'outtrees ancestry'" in refused(
        "convert", model, "--to", "dot", *out
    )
    refused("convert", tmp_path / "nothing", "--to", "dot", *out, code=3)
    refused("convert", tmp_path / "nothing", "--to", "csv", *out, code=3)
    assert "are tables already: records.csv, parents.csv" in refused(
        "convert", results, "--to", "csv", *out
    )
    assert "takes one folder" in refused("convert", results, results, "--to", "dot", *out)
    # Dates without fractions are frames; three records of this outbreak have none.
    assert not (tmp_path / "x").exists()


@pytest.mark.usefixtures("untried")
def test_tracks_and_items_become_tables_that_ancestry_reads(outtrees, refused, tmp_path):
    (tmp_path / "res_track.txt").write_text("1 0 4 0\n2 5 9 1\n3 5 8 1\n4 0 9 0\n")
    done = outtrees(
        "convert", tmp_path / "res_track.txt", "--to", "csv", "--out", tmp_path / "t.csv"
    )
    assert "4 records with 4 columns" in done.stdout
    # It says what to do with the table.
    assert "t.csv --id track --date begin --until end; add --ignore parent" in done.stdout
    done = outtrees(
        "ancestry", tmp_path / "t.csv", "--id", "track", "--date", "begin", "--until", "end",
        "--check",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (tmp_path / "items").write_text("*ITEM DESCRIPTIONS\n# A/ 1,1\n# B/ 1,2\n")
    (tmp_path / "chars").write_text("*CHARACTER LIST\n#1. hairs/ 1. absent/ 2. present/\n")
    done = outtrees(
        "convert",
        tmp_path / "items",
        tmp_path / "chars",
        "--to",
        "csv",
        "--out",
        tmp_path / "i.csv",
    )
    assert done.exit_code == 0, done.output
    assert (tmp_path / "i.csv").read_text() == "item,hairs\nA,absent\nB,present\n"
    (tmp_path / "bad.txt").write_text("nothing of the kind\n")
    assert "four whole numbers" in refused(
        "convert", tmp_path / "bad.txt", "--to", "csv", "--out", tmp_path / "b.csv"
    )

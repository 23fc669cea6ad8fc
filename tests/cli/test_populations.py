"""`outtrees populations`: many populations from the command line."""

import csv
import json
from pathlib import Path

import pytest

from dask_cluster import cluster
from outtrees.io import write_csv
from population_tables import population_table


@pytest.fixture
def cases(tmp_path):
    return write_csv(tmp_path / "cases.csv", population_table(3, 8))


@pytest.fixture
def populations(outtrees, cases):
    def run(*more):
        return outtrees("populations", cases, "--id", "id", "--by", "site", *more)

    return run


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_tables_are_written_and_told(populations, tmp_path):
    result = populations("--out", tmp_path / "out", "--jobs", "1", "--seed", "3")
    assert result.exit_code == 0, result.output
    for said in ("site 0", "expected number of right parents", "populations.csv", "3 groups"):
        assert said in result.stdout
    with open(tmp_path / "out" / "parents.csv", newline="") as file:
        assert {row["population"] for row in csv.DictReader(file)} == {"site 0", "site 1", "site 2"}


def test_again_changes_nothing_and_other_options_are_refused(populations, tmp_path):
    out = ("--out", tmp_path / "out", "--jobs", "1")
    result = populations(*out, "--json")
    summary = json.loads(result.stdout)
    assert summary["populations"] == 3
    assert summary["failures"] == {}
    before = files(tmp_path / "out")
    assert populations(*out).exit_code == 0
    assert files(tmp_path / "out") == before
    result = populations(*out, "--max-iter", "7")
    assert result.exit_code == 2
    assert "holds another run (--max-iter was 100 and is 7)" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_failed_population_is_one_line(populations, tmp_path):
    out = ("--out", tmp_path / "out", "--jobs", "1")
    none = [f"--forbid=p1r{i}=p1r{j}" for i in (0, 1) for j in range(8) if i != j]
    result = populations(*out, *none)
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: population 'site 1' could not be fitted: ")
    assert "(record 'p1r0'; record 'p1r1')" in line


def test_refusals(refused, populations, cases, tmp_path):
    command = ("populations", cases, "--id", "id", "--by", "site")
    assert "--out must be a folder" in refused(*command)
    out = ("--out", tmp_path / "out")
    assert "Missing option '--by'" in refused("populations", cases, *out)
    assert "no column 'nowhere'" in refused("populations", cases, "--by", "nowhere", *out)
    assert "No such option" in refused(*command, *out, "--root", "p0r0")
    assert not (tmp_path / "out").exists()


def test_what_it_would_cost(populations, tmp_path):
    result = populations("--out", tmp_path / "out", "--check")
    assert result.exit_code == 0
    assert "checked only; nothing was written" in result.stdout
    assert not (tmp_path / "out").exists()


def test_all_populations_fail(populations, tmp_path):
    none = [
        f"--forbid=p{k}r{i}=p{k}r{j}"
        for k in range(3) for i in (0, 1) for j in range(8) if i != j
    ]  # fmt: skip
    result = populations("--out", tmp_path / "out", "--jobs", "1", *none)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("outtrees: no population could be fitted")


@pytest.mark.slow
def test_scheduler(outtrees, populations, cases, tmp_path):
    """The same files, of populations and of densities whose folds are fitted elsewhere."""
    pytest.importorskip("distributed", reason="Dask is not installed: pip install outtrees[dask]")
    density = ("density", cases, "--ignore", "ward", "--ignore", "site", "--mutation", "auto")
    density += ("--jobs", "1", "--seed", "3", "--out")
    with cluster(tmp_path, n_workers=1) as running:
        scheduler = ("--scheduler", running.address)
        result = populations("--out", tmp_path / "there", "--seed", "3", *scheduler)
        assert result.exit_code == 0, result.output
        result = outtrees(*density, tmp_path / "density there", *scheduler)
        assert result.exit_code == 0, result.output
    populations("--out", tmp_path / "here", "--jobs", "1", "--seed", "3")
    assert files(tmp_path / "there") == files(tmp_path / "here")
    outtrees(*density, tmp_path / "density here")
    there, here = (files(tmp_path / f"density {place}") for place in ("there", "here"))
    assert there[Path("densities.csv")] == here[Path("densities.csv")]


def test_without_dask(refused, cases, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    line = refused(
        "populations", cases, "--by", "site", "--out", tmp_path / "x", "--scheduler", "tcp://h:1"
    )
    assert line == "--scheduler tcp://h:1 needs Dask; install it with pip install 'outtrees[dask]'"


def test_names_used_again_in_another_population(outtrees, tmp_path):
    table = population_table(2, 6)
    names = {"cell": [name[2:] for name in table.pop("id")]}
    path = write_csv(tmp_path / "cells.csv", names | table)
    result = outtrees("populations", path, "--by", "site", "--jobs", "1", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    with open(tmp_path / "out" / "parents.csv", newline="") as file:
        found = {(row["population"], row["child"]) for row in csv.DictReader(file)}
    assert found == set(zip(table["site"], names["cell"], strict=True))

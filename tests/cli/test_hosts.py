"""`outtrees ancestry` with several samples of a host, and with variants within samples."""

import csv
import json

import pytest

from outtrees.datasets import make_sampled_outbreak

TIMES = ("--generation-mean", 5, "--generation-sd", 2.2, "--delay-mean", 5, "--delay-sd", 2.2)


@pytest.fixture
def files(tmp_path):
    made = make_sampled_outbreak(6, repeats=1.0, drift=0.3, variants=2, random_state=2)
    for name, table in (("cases.csv", made.table), ("variants.csv", made.variants)):
        with open(tmp_path / name, "w", newline="") as file:
            rows = zip(*table.values(), strict=True)
            csv.writer(file).writerows([list(table), *rows])
    text = "".join(f">{name}\n{dna}\n" for name, dna in made.sequences.items())
    (tmp_path / "dna.fasta").write_text(text)
    return tmp_path, made


def arguments(folder):
    return (
        *("ancestry", folder / "cases.csv", "--id", "sample", "--sequences", folder / "dna.fasta"),
        *TIMES,
    )


def test_hosts_and_variants(outtrees, files):
    folder, made = files
    result = outtrees(
        *arguments(folder), "--host", "host", "--variants", folder / "variants.csv", "--json"
    )
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    hosts = set(made.table["host"])
    assert {row["child"] for row in summary["parents"]} == hosts
    assert summary["records"] == len(hosts) == 6
    assert {"cases.csv", "dna.fasta", "variants.csv"} <= set(summary["inputs"])
    assert "two_founders" in summary["transmission"]["parameters"]["parameter"]


def test_refusals(refused, files):
    folder, _ = files
    assert "cases.csv has no column 'who'" in refused(*arguments(folder), "--host", "who")
    said = refused(*arguments(folder), "--host", "host", "--parameters", "fitted")
    assert "--host needs the transmission model" in said
    (folder / "variants.csv").write_text("sample,position,base\np1,1,A\n")
    said = refused(*arguments(folder), "--variants", folder / "variants.csv")
    assert "must have the columns sample, position, base, frequency" in said

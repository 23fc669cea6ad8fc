"""`outtrees demo` writes example files; what it tells to type works."""

import json
import shlex

import pytest

FILES = {
    *("cases.csv", "dna.fasta", "infectors.csv", "contacts.csv", "stays.csv", "sites.csv"),
    *("animals.csv", "patients.csv", "points.csv"),
}


def test_files_are_written_and_nothing_of_the_users_is_lost(outtrees, refused, tmp_path):
    folder = tmp_path / "my demo"
    assert outtrees("demo", folder).exit_code == 0
    assert {path.name for path in folder.iterdir()} == FILES
    assert outtrees("demo", folder).exit_code == 0  # the same files again
    (folder / "animals.csv").write_text("mine")
    assert "'outtrees demo" not in refused("demo", folder)
    assert "animals.csv' exists already, with other contents" in refused("demo", folder)
    assert (folder / "animals.csv").read_text() == "mine"


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize("job", [0, 1, 2, 3])
def test_what_it_prints_can_be_typed(outtrees, tmp_path, job):
    printed = json.loads(outtrees("demo", tmp_path / "my demo", "--json").stdout)["next"][job]
    words = shlex.split(printed)
    assert words[0] == "outtrees"
    assert outtrees(*words[1:], "--check").exit_code == 0


def test_run_compares_with_the_truth(outtrees, tmp_path):
    result = outtrees("demo", tmp_path, "--run", "--json")
    told = json.loads(result.stdout)
    # Each record is right or not; by its supports the variance of their number is below 40 / 4.
    assert abs(told["right"] - told["expected_right"]) < 3 * 10**0.5
    assert (tmp_path / "report.html").exists()

"""`outtrees ancestry` on candidate parents, and with a checkpoint."""

import json
import re

import pytest


def test_candidates_are_chosen_and_told_of(ancestry, outbreak):
    result = ancestry("--json", "--candidates", "knn", "--n-candidates", 6)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert 0 <= summary["dropped_mass"]["mean"] < 0.01
    assert summary["dropped_mass"]["error"] >= 0
    best = {row["child"]: row["parent"] or "" for row in summary["parents"] if row["rank"] == 1}
    assert best == outbreak.parents
    assert re.search(r"\d\.\d s  candidate parents of 14 records", result.stderr)
    assert "parents that are no candidates hold" in result.stderr
    quiet = ancestry("--json", "--quiet", "--candidates", "knn")
    assert quiet.stderr == ""
    assert json.loads(ancestry("--json").stdout)["dropped_mass"] is None


def test_too_many_records_for_all_pairs_is_a_warning(ancestry, monkeypatch):
    monkeypatch.setattr("outtrees.candidates.plan.MOST_DENSE", 10)
    result = ancestry()
    assert result.exit_code == 0, result.output
    sentence = "All pairs of 14 records would take very long, so only the 20 best candidate parents"
    assert result.stderr.count(sentence) == 1
    assert "--candidates dense insists on all" in result.stderr
    check = ancestry("--check")
    assert "a rough guess" in check.stdout


def test_what_does_not_fit_is_refused_with_a_remedy(ancestry, monkeypatch):
    monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: 1000)
    for way, remedy in (("dense", "--candidates knn"), ("knn", "a smaller --n-candidates")):
        result = ancestry("--candidates", way)
        assert result.exit_code == 4
        assert f"Use {remedy}" in result.stderr


def test_a_checkpoint_is_removed_when_it_has_served(ancestry, tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"
    assert ancestry("--checkpoint", path).exit_code == 0
    assert not path.exists()

    def fail(*arguments):
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr("outtrees.cli.results.whole_folder", fail)
        assert ancestry("--checkpoint", path, "--out", tmp_path / "results").exit_code == 3
    assert path.exists()  # the fit is not lost
    other = ancestry("--checkpoint", path, "--roots", "any")
    assert other.exit_code == 2
    assert "'fit.checkpoint' is no checkpoint of this table with these settings" in other.stderr
    assert ancestry("--checkpoint", path, "--out", tmp_path / "results").exit_code == 0
    assert not path.exists()


@pytest.mark.parametrize("option", [("--candidates", "some"), ("--n-candidates", "0")])
def test_options_are_checked(ancestry, option):
    assert ancestry(*option).exit_code == 2

"""`outtrees ancestry` with known parents to calibrate by, and with a limit on children."""

import csv
import json

import pytest


def test_known_parents_make_columns_count(ancestry, outbreak, tmp_path, monkeypatch):
    path = tmp_path / "known.csv"
    rows = [f"{child},{parent}" for child, parent in outbreak.parents.items()]
    path.write_text("\n".join(["child,parent", *rows, ""]))
    few = ancestry("--calibrate", path, "--out", tmp_path / "results")
    assert few.exit_code == 2
    assert "at least 20 known parents" in few.stderr
    assert not (tmp_path / "results").exists()
    monkeypatch.setattr("outtrees.ancestry.calibration.FEWEST", 5)
    result = ancestry("--json", "--calibrate", path)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert any("known parents ask for" in sentence for sentence in summary["parameters"])
    narrow = ancestry("--calibrate", path, "--max-children", 1)
    assert narrow.exit_code == 2
    assert "--max-children 1 is contradicted by" in narrow.stderr
    both = ancestry("--json", "--calibrate", path, "--max-children", 9, "--seed", 0)
    assert both.exit_code == 0, both.output
    words = " ".join(json.loads(both.stdout)["parameters"])
    assert "where no record has more than 9 children, columns count as often" in words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("child,parent\n", "known.csv has no data rows; write child,parent below a header"),
        ("child,parent\nnobody,\n", "line 2: 'nobody' is not a record"),
        ("child,parent\n{0},nobody\n", "line 2: 'nobody' is not a record"),
        ("child,parent\n{0},{1},3\n", "line 2: there must be two fields, child and parent"),
        ("child,parent\n{0},{1}\n{0},{2}\n", "line 3: {0!r} is given two parents; keep one"),
    ],
)
def test_files_of_known_parents_that_cannot_be_read(ancestry, outbreak, tmp_path, text, message):
    names = list(outbreak.parents)
    path = tmp_path / "known.csv"
    path.write_text(text.format(*names))
    result = ancestry("--calibrate", path)
    assert result.exit_code == 2
    assert message.format(*names) in result.stderr


def test_a_limit_on_children_is_sampled_beside_the_exact_supports(ancestry, tmp_path):
    result = ancestry("--json", "--max-children", 2, "--seed", 0, "--out", tmp_path / "results")
    assert result.exit_code == 0, result.output
    limited = json.loads(result.stdout)["parents_limited"]
    with (tmp_path / "results" / "parents_limited.csv").open() as file:
        written = list(csv.DictReader(file))
    assert [row["child"] for row in written] == limited["child"]
    assert any(float(row["error"]) > 0 for row in written)
    narrow = ancestry("--max-children", 1)
    assert narrow.exit_code == 2
    assert "every record has at most 1 children" in narrow.stderr
    assert ancestry("--max-children", 0).exit_code == 2

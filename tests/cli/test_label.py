"""`outtrees label`, from files to files."""

import csv
import json

import pytest


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("joint", ["no", "auto"])
def test_label_finds_the_side(joint, outtrees, mixed, tmp_path):
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
    path = tmp_path / "x.csv"
    lines = [f"a{i},{i % 2},{i % 2},{i % 2},{'?' if i > 9 else 'xy'[i % 2]}" for i in range(14)]
    path.write_text("id,p,q,r,kind\n" + "\n".join(lines) + "\n")
    result = outtrees("label", path, "--label", "kind", "--seed", 1, "--stickiness", "0.9")
    assert result.exit_code == 0, result.output
    assert "4 labels found, 10 were given; stickiness 0.9" in result.stdout

"""`outtrees ancestry` with contacts, stays and known introductions."""

import csv
import hashlib
import json

import numpy as np
import pytest


@pytest.fixture
def cases(tmp_path):
    """Write cases and who met whom; return the folder and the parents."""
    rng = np.random.default_rng(3)
    days, parents = [0], [""]
    for u in range(1, 40):
        v = int(rng.integers(max(0, u - 8), u))
        days.append(days[v] + int(rng.integers(5, 10)))
        parents.append(f"case{v:02}")
    names = [f"case{u:02}" for u in range(40)]
    pairs = [(v, u) for u, v in zip(names, parents, strict=True) if v and rng.random() < 0.8]
    pairs += [tuple(rng.choice(names, 2, replace=False)) for _ in range(20)]
    write(tmp_path / "cases.csv", ["case", "onset"], zip(names, days, strict=True))
    write(tmp_path / "met.csv", ["from", "to"], pairs)
    write(
        tmp_path / "stays.csv",
        ["patient", "ward", "admission", "discharge"],
        [(a, f"w{i}", days[names.index(a)], "") for i, pair in enumerate(pairs) for a in pair],
    )
    return tmp_path, dict(zip(names, parents, strict=True))


def write(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture
def run(outtrees, cases):
    def of(*more):
        return outtrees(
            "ancestry", cases[0] / "cases.csv", "--date", "onset", "--waiting-mean", 7,
            "--waiting-sd", 1.5, *more,
        )  # fmt: skip

    return of


def right(result, parents):
    summary = json.loads(result.stdout)
    best = {row["child"]: row["parent"] for row in summary["parents"] if row["rank"] == 1}
    return sum(best[name] == parent for name, parent in parents.items() if parent), summary


def test_contacts_are_read_counted_and_told(run, cases):
    folder, parents = cases
    bare, _ = right(run("--json"), parents)
    found, summary = right(run("--json", "--contacts", folder / "met.csv"), parents)
    assert found > bare + 5
    assert summary["column_gains"]["contacts"] > 5
    shown = run(
        "--contacts", folder / "met.csv", "--stays", folder / "stays.csv", "--out", folder / "out"
    ).stdout
    assert "contacts:" in shown
    assert "of true pairs" in shown
    assert (folder / "out" / "model.safetensors").exists()
    # Every file that was read is in the list of the results and in the report, by its hash.
    inputs = json.loads((folder / "out" / "results.json").read_text())["inputs"]
    assert inputs == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in ("cases.csv", "met.csv", "stays.csv")
    }
    assert all(digest in (folder / "out" / "report.html").read_text() for digest in inputs.values())


def test_directed_contacts_and_stays(run, cases):
    folder, parents = cases
    bare, _ = right(run("--json"), parents)
    result = run("--json", "--contacts", folder / "met.csv", "--contacts-directed")
    assert right(result, parents)[0] > bare + 5
    found, summary = right(run("--json", "--stays", folder / "stays.csv"), parents)
    assert found > bare
    assert "stays together" in summary["column_gains"]


def test_unknown_names_are_told_or_refused(run, refused, cases):
    folder, _ = cases
    with open(folder / "met.csv", "a", encoding="utf-8") as file:
        file.write("case01,nobody\n")
    result = run("--contacts", folder / "met.csv")
    assert "name records that are not in the table ('nobody'): left out" in result.stderr
    write(folder / "other.csv", ["from", "to"], [("A", "B"), ("case01", "C")])
    table = folder / "cases.csv"
    said = refused("ancestry", table, "--date", "onset", "--contacts", folder / "other.csv")
    assert "2 of 2 contacts name records that are not in the table, such as 'A', 'B', 'C'" in said


@pytest.mark.parametrize(
    ("option", "header", "rows", "words"),
    [
        ("--contacts", ["who"], [["case01"]], "must have the columns from, to"),
        ("--contacts", ["from", "to"], [["case01", ""]], "line 2: a contact names two records"),
        ("--contacts", ["from", "to"], [], "no"),
        ("--contacts", ["from", "to", "date"], [["case01", "case02", "2020-01-05"]],
         "dates must be written as in column 'onset', numbers; got calendar dates"),
        ("--stays", ["record", "place"], [["case01", "x"]], "Rename the columns that stand for"),
        ("--stays", ["record", "place", "from", "until"], [["case01", "x", 5, 3]],
         "line 2: a stay must begin before it ends"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read(refused, cases, option, header, rows, words):
    folder, _ = cases
    write(folder / "list.csv", header, rows)
    table = folder / "cases.csv"
    assert words in refused("ancestry", table, "--date", "onset", option, folder / "list.csv")


def test_directed_needs_contacts(refused, cases):
    table = cases[0] / "cases.csv"
    assert "add it" in refused("ancestry", table, "--date", "onset", "--contacts-directed")


# Introductions -------------------------------------------------------------------------------


def test_known_introductions_have_no_parent(run):
    result = run("--json", "--introductions", "case07, case11", "--introductions", "case20")
    summary = json.loads(result.stdout)
    roots = {row["child"]: row for row in summary["parents"] if row["parent"] is None}
    for name in ("case07", "case11", "case20"):
        assert roots[name]["support"] == pytest.approx(1)
    assert "case39" not in roots or roots["case39"]["support"] < 1


def test_introductions_without_dates_make_several_roots(outtrees, tmp_path):
    write(tmp_path / "t.csv", ["case", "x"], [(f"c{i}", i + 0.5) for i in range(8)])
    result = outtrees("ancestry", tmp_path / "t.csv", "--introductions", "c0,c5", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["parents"]
    sure = {row["child"] for row in rows if row["parent"] is None and row["support"] > 0.999}
    assert sure >= {"c0", "c5"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--introductions", "case07,nobody"], "'nobody' is not a record"),
        (["--introductions", "case07", "--known-parent", "case07=case01"], "contradict each other"),
        (["--introductions", "case07,case09", "--roots", "single"], "pass --roots any"),
    ],
)
def test_introductions_that_cannot_be(refused, cases, options, words):
    assert words in refused("ancestry", cases[0] / "cases.csv", "--date", "onset", *options)


def test_a_column_of_introductions_is_suggested_and_used(outtrees, tmp_path):
    rows = [(f"c{i}", 3 * i, "yes" if i % 5 == 0 else "no") for i in range(12)]
    write(tmp_path / "t.csv", ["case", "onset", "imported"], rows)
    wait = ("--waiting-mean", 5, "--waiting-sd", 2, "--json")
    result = outtrees("ancestry", tmp_path / "t.csv", *wait)
    assert "pass --introduction-column imported" in result.stderr
    result = outtrees("ancestry", tmp_path / "t.csv", *wait, "--introduction-column", "imported")
    assert "pass --introduction-column" not in result.stderr
    found = json.loads(result.stdout)["parents"]
    sure = {row["child"] for row in found if row["parent"] is None and row["support"] > 0.999}
    assert sure >= {"c0", "c5", "c10"}


def test_coordinates_of_tracts(outtrees, refused, tmp_path):
    rng = np.random.default_rng(0)
    where = {f"t{i}": rng.uniform(0, 100, 2).round(2) for i in range(10)}
    rows = [(f"c{i}", 3 * i, f"t{i % 10}") for i in range(20)]
    write(tmp_path / "t.csv", ["case", "onset", "tract"], rows)
    write(tmp_path / "tracts.csv", ["tract", "x", "y"], [(k, *xy) for k, xy in where.items()])
    result = outtrees(
        "ancestry", tmp_path / "t.csv", "--waiting-mean", 5, "--waiting-sd", 2,
        "--coordinates", f"tract={tmp_path / 'tracts.csv'}",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "tract: coordinates from tracts.csv (x, y)" in result.stdout
    assert "one-to-one with 'place of tract'" in result.stdout
    said = refused("ancestry", tmp_path / "t.csv", "--coordinates", "tracts.csv")
    assert "--coordinates must be COLUMN=FILE" in said

"""`outtrees ancestry` from files to files."""

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from oracles.newick import read_newick
from outtrees.io import CLASSES

FILES = {"parents.csv", "records.csv", "tree.newick", "tree.nexus", "tree.graphml", "report.html"}
if "Ancestry" in CLASSES:
    FILES.add("model.safetensors")
can_save = pytest.mark.skipif(
    "Ancestry" not in CLASSES, reason="Ancestry is not among the classes that can be saved yet"
)


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_everything_is_printed_and_written(ancestry, outbreak, tmp_path):
    out = tmp_path / "results"
    result = ancestry("--out", out, "--seed", 1)
    assert result.exit_code == 0, result.output
    for line in ("onset     date", "ward      categorical", "sequence  sequence"):
        assert re.search(line.replace("  ", " +"), result.stdout)
    assert re.search(r"log-likelihood -?\d+\.\d+ after \d+ iterations?, converged", result.stdout)
    assert {path.name for path in out.iterdir()} == FILES | {"results.json"}
    for name in FILES:
        assert str(out / name) in result.stdout
    found = rows(out / "parents.csv")
    best = {row["child"]: row["parent"] for row in found if row["rank"] == "1"}
    assert best == outbreak.parents  # three substitutions a link leave no doubt
    assert all(0.1 <= float(row["support"]) <= 1 + 1e-9 for row in found)
    assert [row["record"] for row in rows(out / "records.csv")] == outbreak.ids
    names, above, _ = read_newick((out / "tree.newick").read_text())
    named = {
        name: names[parent] if parent >= 0 else ""
        for name, parent in zip(names, above, strict=True)
    }
    assert named == outbreak.parents
    promised = float(re.search(r"right parents: ([\d.]+) of 14", result.stdout)[1])
    assert 13 < promised <= 14
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "outtrees ancestry" in page
    assert "--seed 1" in page


def test_without_out_nothing_is_written(ancestry, tmp_path):
    before = sorted(tmp_path.iterdir())
    result = ancestry()
    assert result.exit_code == 0
    assert "no files written; --out FOLDER" in result.stdout
    assert sorted(tmp_path.iterdir()) == before


def test_json_is_all_of_stdout(ancestry, outbreak, tmp_path):
    result = ancestry("--json", "--out", tmp_path / "results")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert summary["format"] == 1
    assert summary["command"] == "ancestry"
    assert summary["records"] == 14
    assert summary["converged"] is True
    assert 13 < summary["expected_right"] <= 14
    assert {c["name"]: c["kind"] for c in summary["columns"]}["onset"] == "date"
    best = {row["child"]: row["parent"] for row in summary["parents"] if row["rank"] == 1}
    assert best == {child: parent or None for child, parent in outbreak.parents.items()}
    assert set(summary["files"]) == FILES
    assert "probable parents" in result.stderr
    quiet = ancestry("--json", "--quiet")
    assert json.loads(quiet.stdout)["files"] == {}
    assert quiet.stderr == ""


def test_quiet_prints_nothing(ancestry, tmp_path):
    result = ancestry("--quiet", "--out", tmp_path / "results")
    assert result.output == ""
    assert (tmp_path / "results" / "parents.csv").exists()


def test_the_same_seed_gives_the_same_files(ancestry, tmp_path):
    for name in ("one", "two"):
        assert ancestry("--seed", 5, "--out", tmp_path / name).exit_code == 0
    for name in FILES - {"report.html"}:  # which names the folder in its command
        one, two = ((tmp_path / folder / name).read_bytes() for folder in ("one", "two"))
        assert one == two


def test_an_existing_folder_keeps_what_is_not_replaced(ancestry, tmp_path):
    out = tmp_path / "results"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / "parents.csv").write_text("old")
    assert ancestry("--out", out).exit_code == 0
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "parents.csv").read_text().startswith("child,parent,support,rank\n")
    assert {path.name for path in out.iterdir()} == FILES | {"results.json"} | {"notes.txt"}


def test_check_estimates_and_does_not_run(ancestry, tmp_path):
    result = ancestry("--check", "--out", tmp_path / "results")
    assert result.exit_code == 0
    assert re.search(r"memory: about [\d.]+ kB \(free: ", result.stdout)
    assert "time: about" in result.stdout
    assert not (tmp_path / "results").exists()
    estimate = json.loads(ancestry("--check", "--json").stdout)["check"]
    assert estimate["fits"] is True
    assert estimate["memory_bytes"] > 8 * 14 * 14
    assert estimate["seconds"] >= 0


def test_options_reach_the_model(ancestry, outbreak, tmp_path):
    child, parent = "p14", next(i for i in outbreak.ids if i != outbreak.parents["p14"])
    result = ancestry(
        "--json", "--roots", "any", "--known-parent", f"{child}={parent}",
        "--forbid", f"p13={outbreak.parents['p13']}", "--no-strict-dates", "--min-support", "0",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    support = {(row["child"], row["parent"]): row["support"] for row in summary["parents"]}
    assert support[child, parent] == pytest.approx(1)
    assert support.get(("p13", outbreak.parents["p13"]), 0) == 0
    assert sum(summary["n_roots"]) == pytest.approx(1)
    rooted = json.loads(ancestry("--json", "--no-strict-dates", "--root", "p3").stdout)
    assert {row["child"] for row in rooted["parents"] if row["parent"] is None} == {"p3"}


def test_labels_are_predicted(outtrees, outbreak, tmp_path):
    result = outtrees(
        "ancestry", outbreak.cases, "--date", "onset", "--label", "outcome", "--seed", 1,
        "--waiting-mean", "3.5", "--waiting-sd", "1.2",
        "--out", tmp_path / "results", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "labels" in json.loads(result.stdout)
    assert {row["record"] for row in rows(tmp_path / "results" / "labels.csv")} == {"p5", "p6"}


def test_groups_known_parents_until_and_censored(outtrees, tmp_path):
    table = tmp_path / "cells.csv"
    table.write_text(
        "cell,dish,born,divided,open,x,y,mother\n"
        "a,1,0,5,0,0.0,0.1,\nb,1,5,9,0,0.5,0.2,a\nc,1,5,12,0,0.1,0.9,\nd,1,9,15,1,0.4,0.3,\n"
        "e,2,0,4,0,9.0,9.5,root\nf,2,4,8,0,9.1,9.2,\ng,2,4,9,0,9.9,9.2,\n"
    )
    result = outtrees(
        "ancestry", table, "--date", "born", "--until", "divided", "--censored", "open",
        "--group", "dish", "--parent-column", "mother", "--place", "x,y", "--json",
        "--min-support", "0", "--waiting-mean", "2", "--waiting-sd", "1",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    parents = json.loads(result.stdout)["parents"]
    group = dict.fromkeys("abcd", 1) | dict.fromkeys("efg", 2)
    assert all(group[r["child"]] == group[r["parent"]] for r in parents if r["parent"])
    support = {(row["child"], row["parent"]): row["support"] for row in parents}
    assert support["b", "a"] == pytest.approx(1)
    assert support["e", None] == pytest.approx(1)


def matrix(path, ids, entry):
    lines = [",".join(["", *ids])]
    lines += [",".join([u, *(str(entry(u, v)) for v in ids)]) for u in ids]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("option", ["--distances", "--log-weights"])
def test_matrices_are_matched_by_identity(outtrees, outbreak, tmp_path, option):
    """Rows in another order; the true parent is nearest (distance 1), or has the most weight."""
    near = outbreak.parents

    def entry(child, parent):
        if child == parent:
            return ""
        close = near[child] == parent or near[parent] == child
        return (1 if close else 30) if option == "--distances" else (0 if close else -30)

    path = matrix(tmp_path / "matrix.csv", outbreak.ids[::-1], entry)
    result = outtrees(
        "ancestry", outbreak.cases, "--date", "onset", "--ignore", "ward", "--ignore", "outcome",
        option, path, "--json", "--waiting-mean", "3.5", "--waiting-sd", "1.2",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    parents = json.loads(result.stdout)["parents"]
    best = {row["child"]: row["parent"] or "" for row in parents if row["rank"] == 1}
    assert best == near


def test_cells_that_a_spreadsheet_would_run_are_neutral(outtrees, tmp_path):
    hostile = "=cmd|'/c calc'!A1"
    table = tmp_path / "x.csv"
    table.write_text(f'name,a\n"{hostile}",0.5\nb,1.5\n"\x1b[2Jc",2.25\nd,2.5\n')
    out = tmp_path / "results"
    result = outtrees("ancestry", table, "--id", "name", "--out", out)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    for name in ("parents.csv", "records.csv"):
        cells = [cell for row in rows(out / name) for cell in row.values()]
        assert f"'{hostile}" in cells
        assert hostile not in cells


def test_long_tables_are_cut_on_screen(outtrees, tmp_path):
    table = tmp_path / "x.csv"
    table.write_text("id,day\n" + "".join(f"r{i},{i}\n" for i in range(60)))
    out = tmp_path / "results"
    arguments = ["ancestry", table, "--date", "day", "--waiting-mean", 2, "--waiting-sd", 1]
    result = outtrees(*arguments, "--out", out)
    assert result.exit_code == 0, result.output
    written = len(rows(out / "parents.csv"))
    assert f"… {written - 40} more rows; all are in {out / 'parents.csv'}" in result.stdout
    assert "give --out FOLDER for all" in outtrees(*arguments).stdout


@can_save
def test_a_saved_ancestry_is_shown_and_sampled(ancestry, outtrees, tmp_path):
    assert ancestry("--out", tmp_path / "results").exit_code == 0
    model = tmp_path / "results" / "model.safetensors"
    shown = outtrees("show", model)
    assert shown.exit_code == 0, shown.output
    assert "substitutions a link" in shown.stdout
    drawn = outtrees("sample", model, "-n", 6, "--seed", 1)
    assert drawn.exit_code == 0, drawn.output
    assert len(drawn.stdout.splitlines()) == 7
    assert drawn.stdout == outtrees("sample", model, "-n", 6, "--seed", 1).stdout


def test_a_real_process(outbreak, tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "outtrees", "ancestry", outbreak.cases, "--date", "onset",
         "--sequences", outbreak.dna, "--out", tmp_path / "results", "--json", "--jobs", "1",
         "--waiting-mean", "3.5", "--waiting-sd", "1.2"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["records"] == 14
    assert {path.name for path in (tmp_path / "results").iterdir()} == FILES | {"results.json"}


def test_cases_that_were_never_sequenced(ancestry, outbreak, refused, outtrees, tmp_path):
    """The same files as with an N written for every site by hand."""
    blocks = outbreak.dna.read_text().split(">")[1:]
    sites = len(blocks[0].split()[1])
    without = [block.split()[0] for block in blocks[3:5]]
    arguments = ["--id", "case", "--date", "onset", "--ignore", "outcome"]
    arguments += ["--waiting-mean", "3.5", "--waiting-sd", "1.2"]
    by_hand, short = tmp_path / "n.fasta", tmp_path / "short.fasta"
    short.write_text("".join(f">{b}" for b in blocks if b.split()[0] not in without))
    by_hand.write_text(short.read_text() + "".join(f">{name}\n{'N' * sites}\n" for name in without))
    line = refused("ancestry", outbreak.cases, *arguments, "--sequences", short)
    assert line.endswith(
        "2 records without a sequence: 'p4', 'p5'. If these were never sequenced, pass "
        "--unsequenced missing"
    )
    tables = []
    for dna in (by_hand, short):
        result = outtrees(
            "ancestry", outbreak.cases, *arguments, "--sequences", dna, "--unsequenced", "missing",
            "--out", tmp_path / dna.stem,
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        assert "2 records without a sequence: all sites of 'sequence' count as" in result.stdout
        tables.append((tmp_path / dna.stem / "parents.csv").read_bytes())
    assert tables[0] == tables[1]


@pytest.mark.usefixtures("untried")
def test_what_might_be_the_answer_or_a_row_number_is_told(outtrees, outbreak, tmp_path):
    lines = outbreak.cases.read_text().splitlines()
    order = sorted(range(1, len(lines)), key=lambda row: lines[row].split(",")[1])
    more = {row: f",{n},{outbreak.parents[outbreak.ids[row - 1]]}" for n, row in enumerate(order)}
    more[0] = ",number,true_parent"
    path = tmp_path / "more.csv"
    path.write_text("\n".join(line + more[row] for row, line in enumerate(lines)))
    result = outtrees("ancestry", path, "--id", "case", "--date", "onset", "--check")
    assert result.exit_code == 0, result.output
    told = next(line for line in result.stdout.splitlines() if line.startswith("true_parent"))
    assert told.split()[1] == "ignored"
    assert told.endswith("if these are known parents: kind parent")
    assert "column 'number' rises with 'onset'; if it numbers the records or" in result.stderr
    known = outtrees(
        "ancestry", path, "--id", "case", "--date", "onset", "--parent-column", "true_parent",
        "--ignore", "number", "--check",
    )  # fmt: skip
    assert f"{len(order) - 1} known, 0 roots" in known.stdout
    assert "rises" not in known.stderr


def test_quotation_marks_as_letters(outtrees, refused, tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text('id\tday\tsize\na\t0\t"7"\nb\t3\t6" x 8"\nc\t5\t"7"\nd\t6\t"oh\n')
    line = refused("ancestry", path, "--date", "day")
    assert line.startswith("texts.tsv line 5: ")
    assert line.endswith("or pass --no-quotes if marks are letters like others")
    result = outtrees("ancestry", path, "--date", "day", "--no-quotes", "--waiting-mean", 2)
    assert result.exit_code == 0, result.output
    assert '"7", "oh, 6" x 8"' in result.stdout


# Waiting times, readings and columns left out ---------------------------------------------------


@pytest.fixture(scope="module")
def line_list(tmp_path_factory):
    """Cases of four wards, one ward after the other, and a column of noise."""
    rng = np.random.default_rng(2)
    lines = ["case,onset,ward,age"]
    for i in range(24):
        lines.append(f"c{i},{2 * i},{'NSEW'[i // 6]},{rng.normal(50, 9):.1f}")
    path = tmp_path_factory.mktemp("line_list") / "cases.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_what_is_not_known_is_told_first(outtrees, line_list):
    arguments = ["ancestry", line_list, "--date", "onset"]
    result = outtrees(*arguments)
    assert result.exit_code == 0, result.output
    warned = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert warned[0].startswith("warning: The waiting time from parent to child is not known: 8 ")
    assert "state --waiting-mean and --waiting-sd, or --disease." in warned[0]
    assert re.search(r"age adds -?\d+\.\d nats: left out; --keep age keeps it\.", result.stderr)
    assert "what each column adds to distinguish parents from others" in result.stdout
    told = json.loads(outtrees(*arguments, "--json").stdout)
    assert told["left_out"] == ["age"]
    assert set(told["column_gains"]) == {"ward", "age"}
    assert sum(row["weight"] for row in told["readings"]) > 0.9
    assert set(told["readings"][0]) == {"waiting_mean", "waiting_sd", "gain", "weight", "differ"}
    heavy = [row for row in told["readings"] if row["weight"] > 0.05]
    assert ("readings of the table" in result.stdout) == (len(heavy) > 1)


def test_columns_are_kept_and_waiting_times_stated(outtrees, line_list):
    arguments = ["ancestry", line_list, "--date", "onset", "--json", "--keep", "age"]
    result = outtrees(*arguments, "--disease", "Covid", "--waiting-mean", "5")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert "age" not in told["left_out"]
    assert not any("is not known" in warning for warning in told["warnings"])
    assert told["parameters"][0].startswith("published serial interval of COVID-19: mean 4.7 days")
    assert "doi:10.1016/j.ijid.2020.02.060" in told["parameters"][0]
    (reading,) = told["readings"]
    assert reading["waiting_mean"] == pytest.approx(5)
    assert reading["waiting_sd"] == pytest.approx(2.9)
    wide = outtrees(*arguments, "--waiting-mean", "5", "--waiting-sd", "5", "--roots", "single")
    told = json.loads(wide.stdout)
    assert any("--waiting-law lognormal" in warning for warning in told["warnings"])
    assert told["n_roots"][1] == pytest.approx(1)
    lognormal = ["--waiting-mean", "5", "--waiting-sd", "5", "--waiting-law", "lognormal"]
    told = json.loads(outtrees(*arguments, *lognormal).stdout)
    assert not any("--waiting-law" in warning for warning in told["warnings"])


# Known parents to calibrate by, and a limit on children -----------------------------------------


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


# Candidate parents, and a checkpoint -------------------------------------------------------------


def test_candidates_are_chosen_and_told_of(ancestry, outbreak):
    result = ancestry("--json", "--candidates", "knn", "--n-candidates", 6)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert 0 <= summary["dropped_mass"]["mean"] < 0.01
    assert summary["dropped_mass"]["error"] >= 0
    best = {row["child"]: row["parent"] or "" for row in summary["parents"] if row["rank"] == 1}
    assert best == outbreak.parents
    assert re.search(r"\d\.\d s  candidate parents of 14 records", result.stderr)
    assert "parents outside the candidates hold" in result.stderr
    quiet = ancestry("--json", "--quiet", "--candidates", "knn")
    assert quiet.stderr == ""
    assert json.loads(ancestry("--json").stdout)["dropped_mass"] is None


def test_too_many_records_for_all_pairs_is_a_warning(ancestry, monkeypatch):
    monkeypatch.setattr("outtrees.candidates.plan.MOST_DENSE", 10)
    result = ancestry()
    assert result.exit_code == 0, result.output
    sentence = "All pairs of 14 records would take very long, so only the 20 best candidate parents"
    assert result.stderr.count(sentence) == 1
    assert "--candidates dense takes all" in result.stderr
    check = ancestry("--check")
    assert "of one core, by fits of up to" in check.stdout


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

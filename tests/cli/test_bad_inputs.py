"""The catalogue of bad inputs, as the command line meets it: its line and its exit code."""

import gzip
import json
import os
import pickle
import re

import pytest

COMMANDS = [["ancestry"], ["density"], ["label", "--label", "a"], ["impute"]]
FILES = {
    "60 not UTF-8": (
        b"id,a\nx,1\n\xff,2\n",
        r"^x\.csv: byte 0xff at line 3 is not utf-8; pass .* --encoding latin-1$",
    ),
    "61 UTF-16": (
        "id,a\nx,1\n".encode("utf-16"),
        r"^x\.csv must be utf-8 text; got UTF-16\. Pass --encoding utf-16$",
    ),
    "61 NUL": (b"id,a\nx,1\ny,\x00\n", r"^x\.csv: NUL character at line 3"),
    "62 too many fields": (b"id,a\nx,1\ny,2,3\n", r"^x\.csv line 3: 3 fields, header has 2"),
    "63 only a header": (b"id,a\n", r"^x\.csv has no data rows"),
    "63 empty": (b"", r"^x\.csv has no data rows"),
    "64 gzip bomb": (
        gzip.compress(bytes(50_000_000)),
        r"^x\.csv: [\d.]+ kB of gzip open to more than [\d.]+ MB \(limits: .*--max-bytes = 4\.3 GB",
    ),
    "18 duplicate columns": (b"id,a,a\nx,1,2\n", r"^x\.csv: column name 'a' occurs 2 times"),
    "duplicate identities": (b"id,a\nx,1\nx,2\n", r"^x\.csv: identities .*'x \(lines 2, 3\)'"),
}


@pytest.fixture
def write(tmp_path):
    def file(name, data):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return file


@pytest.fixture
def table(write):
    return write("t.csv", "id,day,a,b\nu,0,0.5,x\nv,2,1.5,y\nw,3,2.25,x\nz,5,1.25,y\n")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("case", FILES)
def test_unreadable_tables(refused, write, case, command):
    data, line = FILES[case]
    assert re.search(line, refused(*command, write("x.csv", data)))


@pytest.mark.parametrize("command", [*COMMANDS, ["sample"], ["show"]], ids=lambda c: c[0])
def test_58_missing_file(refused, command, tmp_path):
    path = tmp_path / "none.csv"
    assert refused(*command, path, code=3) == f"no such file: {str(path)!r}"


@pytest.mark.parametrize("command", [*COMMANDS, ["sample"], ["show"]], ids=lambda c: c[0])
def test_59_not_a_regular_file(refused, command, tmp_path):
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it: reading would wait for ever
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero"):
        assert "is not a regular file" in refused(*command, path)


def test_54_and_58_of_the_other_files(refused, table, tmp_path):
    none = tmp_path / "none"
    for option in ("--sequences", "--distances", "--log-weights", "--generation-time"):
        assert "no such file" in refused("ancestry", table, option, none, code=3)
        assert "is not a regular file" in refused("ancestry", table, option, tmp_path)
    assert "no such file" in refused("density", table, "--model", none, code=3)


@pytest.mark.parametrize("command", [*COMMANDS, ["sample"], ["show"]], ids=lambda c: c[0])
def test_55_larger_than_max_bytes(refused, write, command):
    path = write("x.csv", b"id,a\n" + b"x,1\n" * 1000)
    line = refused(*command, path, "--max-bytes", "2k")
    assert line.startswith("x.csv is 4.0 kB; limit 2.0 kB (--max-bytes)")
    assert "is not a size; write for example" in refused(*command, path, "--max-bytes", "much")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_53_would_not_fit_in_memory(refused, write, command, monkeypatch, tmp_path):
    """Refused before anything is allocated, by --check as well."""
    monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: 1000)
    path = write("x.csv", "id,a,c\n" + "".join(f"r{i},{'uv'[i % 2]},{i}.5\n" for i in range(20)))
    path.write_text(path.read_text().replace("r3,v", "r3,"))
    for more in ([], ["--check"], ["--out", tmp_path / "results"]):
        line = refused(*command, path, *more, code=4)
        pattern = r"20 records needs about [\d.]+ kB of memory; 1\.0 kB are free\. \w+"
        assert re.search(pattern, line)
    assert not (tmp_path / "results").exists()


def test_the_library_out_of_memory_is_4_too(refused, table, monkeypatch):
    def no_room(*_, **__):
        raise MemoryError("Unable to allocate 9 TB")

    monkeypatch.setattr("outtrees.density.estimator.OutTreeDensity.fit", no_room)
    assert refused("density", table, code=4) == "Unable to allocate 9 TB"


LONG = "n" * 1_000_000
HOSTILE = ["</script><img src=x onerror=alert(1)>", "=cmd|'/c calc'!A1", "..\\..\\x",
           "../../x", "abc\u202efdp.exe", LONG]  # fmt: skip


def test_72_hostile_names(outtrees, write, tmp_path):
    path = write(
        "x.csv", "name,day\n" + "".join(f'"{name}",{2 * i}\n' for i, name in enumerate(HOSTILE))
    )
    out = tmp_path / "results"
    result = outtrees("ancestry", path, "--id", "name", "--date", "day", "--out", out)
    assert result.exit_code == 0, result.output
    assert "\u202e" not in result.output
    assert max(map(len, result.output.splitlines())) < 400
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results", "x.csv"]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<img src=x" not in page
    assert LONG[:300] not in page
    assert "'=cmd|" in (out / "parents.csv").read_text()


def test_hostile_names_in_complaints_stay_on_one_line(refused, table):
    for name in HOSTILE:
        line = refused("ancestry", table, "--root", name)
        assert len(line) <= 2000
        assert "\u202e" not in line
    line = refused("ancestry", table, "--kind", "a\nb\x1b[2J=count")
    assert "\x1b" not in line


CONTRADICTIONS = {
    "two kinds": (["--date", "day", "--label", "day"], "column 'day' is asked to be both date and"),
    "kind and option": (["--kind", "day=count", "--date", "day"], "both count and date; choose"),
    "id and kind": (
        ["--id", "id", "--kind", "id=count"],
        "'id' is asked to be both id and 'count'",
    ),
    "place and ignored": (["--place", "day,a", "--ignore", "a"], "both ignore and part of a place"),
    "two waiting times": (
        ["--generation-time", "none", "--waiting-mean", "3"],
        "--generation-time and --waiting-mean contradict each other",
    ),
    "two matrices": (["--distances", "x", "--log-weights", "y"], "--log-weights and --distances"),
    "known and forbidden": (
        ["--known-parent", "v=u", "--forbid", "v=u"],
        "--known-parent v=u and --forbid v=u contradict each other",
    ),
    "two parents": (["--known-parent", "v=u", "--known-parent", "v=w"], "gives 'v' two parents"),
    "root with a parent": (["--root", "v", "--known-parent", "v=u"], "--root 'v' and --known-pare"),
    "circle": (["--known-parent", "v=u", "--known-parent", "u=v"], "form a cycle: 'v' ← 'u' ← "),
    "own parent": (["--known-parent", "v=v"], "a record cannot be its own parent"),
    "later parent": (
        ["--date", "day", "--known-parent", "u=z"],
        "record 'z' (day 5) is given as the parent of 'u' (day 0), but parents come before their "
        "children; correct a date or the parent, or pass --no-strict-dates",
    ),
    "roots misspelt": (
        ["--root", "any"],
        "for any number of roots pass --roots any; ",
    ),
    "no common root": (
        [
            "--forbid",
            "v=u",
            "--forbid",
            "v=w",
            "--forbid",
            "v=z",
            "--date",
            "day",
            "--roots",
            "single",
        ],
        "; use --roots any if several records may have no parent among the others; else correct",
    ),
    "disease and its waiting times": (
        ["--generation-time", "none", "--disease", "measles"],
        "--generation-time and --disease contradict each other",
    ),
    "disease without dates": (
        ["--disease", "measles", "--kind", "day=count"],
        "--disease needs a column of dates, but there is none",
    ),
    "censored without date": (["--censored", "b"], "--censored says which dates are open, but"),
}
WRONG = {
    "unknown column": (["--date", "onset"], "t.csv has no column 'onset'; its columns are 'id'"),
    "unknown id": (["--id", "case"], "t.csv has no column 'case'; its columns are"),
    "unknown kind": (["--kind", "a=colour"], "one of continuous, categorical, count,"),
    "no kind": (["--kind", "a"], "--kind must be COLUMN=KIND; got 'a'. Write for example"),
    "one coordinate": (["--place", "a"], "--place must be two or three columns; got 'a'"),
    "unknown root": (["--root", "q"], "--root 'q' is not a record; records are called 'u', 'v'"),
    "unknown parent": (
        ["--known-parent", "u=q"],
        "--known-parent u=q: 'q' is not a record; records",
    ),
    "no pair": (["--forbid", "u"], "--forbid must be CHILD=PARENT; got 'u'"),
    "unknown choice": (["--roots", "two"], "'two' is not one of 'auto', 'single', 'any'"),
    "unknown disease": (
        ["--disease", "measels"],
        "--disease must be a disease with a published waiting time, such as measles",
    ),
    "unknown law": (["--waiting-law", "normal"], "'normal' is not one of 'gamma', 'lognormal'"),
    "unknown column to keep": (["--keep", "q"], "keep must name columns that take part, such as"),
    "no generations": (["--links", "0"], "0 is not in the range x>=1"),
    "NaN": (["--waiting-mean", "nan"], "'nan' is not a finite number"),
    "infinite": (["--date-uncertainty", "inf"], "'inf' is not a finite number"),
    "support": (
        ["--min-support", "2"],
        "2.0 is not in the range 0<=x<=1; see 'outtrees ancestry --help'",
    ),
    "unknown option": (["--dates", "day"], "No such option '--dates'"),
    "unknown encoding": (["--encoding", "latin-99"], "'latin-99' is not the name of an encoding"),
    "two dates": (["--kind", "a=date", "--date", "day"], "--kind 'a=ignore'"),
}


@pytest.mark.parametrize("case", [*CONTRADICTIONS, *WRONG])
def test_options_that_cannot_be(refused, table, case):
    options, line = {**CONTRADICTIONS, **WRONG}[case]
    assert line in refused("ancestry", table, *options)


def test_identities_that_do_not_match(refused, table, write):
    dna = write("dna.fasta", ">u\nACGT\n>v\nACGT\n>q\nACGA\n")
    line = refused("ancestry", table, "--sequences", dna)
    assert "dna.fasta: identities do not match; 1 without a record: 'q'" in line
    assert "2 records without a sequence: 'w', 'z'" in line
    named = write("n.csv", "nr,name,a\n1,u,0.5\n2,v,1.5\n3,q,2.5\n")
    assert refused("ancestry", named, "--sequences", dna).endswith("pass --id name")
    square = write("d.csv", ",u,v\nu,0,1\nv,1,0\n")
    line = refused("ancestry", table, "--distances", square)
    assert "2 records are not in it: 'w', 'z'" in line


def test_tables_too_small_to_learn_from(refused, write):
    one = write("one.csv", "id,a\nu,0.5\n")
    assert refused("density", one)
    same = write("same.csv", "id,a\nu,1\nv,1\n")
    assert "no column is left to learn from" in refused("density", same)
    assert "at least one column besides the identities" in refused("ancestry", same)


def test_label_needs_labels_and_gaps(refused, table, write):
    assert "every record has its 'b'" in refused("label", table, "--label", "b")
    assert "Missing option '--label'" in refused("label", table)
    gaps = write("g.csv", "id,a,b\nu,,x\nv,1.5,y\nw,2.5,\n")
    line = refused("label", gaps, "--label", "b")
    assert line.startswith("record 'u' has no 'a' (1 record without); fill them in with 'outtr")
    assert "neither a number nor auto" in refused(
        "label", gaps, "--label", "b", "--stickiness", "x"
    )


def test_impute_needs_gaps(refused, table):
    assert "has no empty cell; there is nothing to fill" in refused("impute", table)


def test_density_of_text_by_a_mutation_for_numbers(refused, table):
    line = refused("density", table, "--mutation", "gaussian")
    assert line.startswith("column 'b' is text (first value 'x'), but this --mutation takes")


class Trap:
    def __reduce__(self):
        return os.system, ("echo run",)


@pytest.mark.parametrize("command", ["show", "sample"])
def test_66_to_71_files_that_are_no_models(refused, outtrees, table, write, tmp_path, command):
    assert "this is a pickle; pickles can run code" in refused(
        command, write("m", pickle.dumps(Trap()))
    )
    assert refused(command, table).startswith("t.csv: ")
    assert refused(command, write("m", b"")).startswith("m: ")
    assert outtrees("density", table, "--ignore", "b", "--out", tmp_path / "d").exit_code == 0
    whole = (tmp_path / "d" / "model.safetensors").read_bytes()
    assert "checksum mismatch" in refused(command, write("m", whole[:-9]))
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    assert "checksum mismatch" in refused(command, write("m", flipped))


def test_out_that_cannot_be_a_folder(refused, table, tmp_path):
    (tmp_path / "file").write_text("mine")
    line = refused("ancestry", table, "--out", tmp_path / "file", code=3)
    assert "is a file, but --out must be a folder" in line
    line = refused("ancestry", table, "--out", tmp_path / "file" / "deeper", code=3)
    assert "cannot be made" in line
    (tmp_path / "there" / "parents.csv").mkdir(parents=True)
    line = refused("ancestry", table, "--out", tmp_path / "there", code=3)
    assert "is not a regular file; move it away" in line
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_out_without_permission(refused, table, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "no permission" in refused("ancestry", table, "--out", tmp_path / "closed" / "x", code=3)


def test_debug_shows_the_traceback(outtrees, tmp_path):
    result = outtrees("ancestry", tmp_path / "none.csv", "--debug")
    assert result.exit_code == 3
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("outtrees: no such file")


def test_what_nobody_foresaw_is_one_line_with_exit_code_1(refused, table, monkeypatch):
    def broken(*_, **__):
        raise TypeError("unsupported\noperand")

    monkeypatch.setattr("outtrees.density.estimator.OutTreeDensity.fit", broken)
    line = refused("density", table, code=1)
    assert line.startswith("unexpected TypeError: unsupported operand; this is a fault")


def test_nothing_but_the_error_with_json(outtrees, tmp_path):
    result = outtrees("ancestry", tmp_path / "none.csv", "--json")
    assert result.stdout == ""
    with pytest.raises(json.JSONDecodeError):
        json.loads(result.stdout)


def test_waiting_times_without_dates(refused, write, table):
    times = write("w.csv", "0.5\n0.5\n")
    number = ("--kind", "day=continuous")  # by its name it would be a date
    line = refused("ancestry", table, *number, "--generation-time", times)
    assert line.startswith("--generation-time needs a column of dates, but there is none; name it")
    assert "--kind 'onset=date' (columns: 'day', 'a', 'b')" in line
    line = refused("ancestry", table, *number, "--waiting-mean", 3)
    assert line.startswith("--waiting-mean needs a column of dates")


@pytest.mark.usefixtures("untried")
def test_marks_of_unknown_cells(outtrees, write):
    path = write("m.csv", "id,age\nu,30\nv,-9\nw,44\nx,51\ny,62\nz,-9\n")
    found = outtrees("ancestry", path, "--check")
    assert "'age': -9 is its only negative value; if it means unknown, pass --na -9" in found.stderr
    found = outtrees("ancestry", path, "--check", "--na", "-9", "--json")
    assert json.loads(found.stdout)["columns"][0]["missing"] == 2
    assert "-9" not in found.stderr


def test_a_table_is_no_model(refused, table):
    assert "this is not a model of outtrees" in refused("show", table)


def test_a_sample_is_csv(refused, table, tmp_path):
    line = refused("sample", table, "--out", tmp_path / "new.xlsx")
    assert line.endswith("write for example --out sample.csv")

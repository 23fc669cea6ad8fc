"""Tables become records: identities, kinds, relations, and what is printed of them."""

import gzip
import hashlib

import numpy as np
import pytest

from outtrees.errors import RecordsError
from outtrees.records import Records, read_records
from outtrees.records.kinds import infer_kind

CASES = """case,onset,age,ward,visits,note,infector
p1,2020-03-05,31.5,N,0,first,
p2,2020-03-09,40,N,3,,p1
p3,,7.25,S,12,seen twice,p1
p4,2020-03-11,NA,S,1,"a, b",root
p5,2020-03-12,55,N,2,late,p4
p6,2020-03-20,61,S,7,x,p4
"""


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text(CASES)
    return path


def kinds_of(records):
    return {column.name: column.kind for column in records.columns}


def test_a_table(cases):
    records = read_records(cases, kinds={"infector": "parent"})
    assert records.ids == ("p1", "p2", "p3", "p4", "p5", "p6")
    assert kinds_of(records) == {
        "onset": "date",
        "age": "continuous",
        "ward": "categorical",
        "visits": "count",
    }
    assert records.ignored == ("note",)
    assert records.known_parents == {1: 0, 2: 0, 3: -1, 4: 3, 5: 3}
    assert records.groups is None
    onset = records.column("onset")
    assert onset.calendar
    np.testing.assert_array_equal(
        onset.values[:, 0],
        [18326, 18330, np.nan, 18332, 18333, 18341],  # `date -d 2020-03-05 +%s` / 86400
    )
    assert onset.text == ("2020-03-05", "2020-03-09", "", *onset.text[3:])
    np.testing.assert_array_equal(
        records.column("age").values[:, 0], [31.5, 40, 7.25, np.nan, 55, 61]
    )
    ward = records.column("ward")
    assert ward.levels == ("N", "S")
    assert ward.values[:, 0].tolist() == [0, 0, 1, 1, 0, 1]
    assert records.provenance == {"cases.csv": hashlib.sha256(cases.read_bytes()).hexdigest()}


def test_what_is_printed(cases):
    # As it stands p3 has a parent in another ward.
    with pytest.raises(RecordsError, match="line 4: the known parent 'p1' is in another group"):
        read_records(cases, kinds={"infector": "parent", "ward": "group"})
    cases.write_text(CASES.replace("7.25,S", "7.25,N").replace("55,N", "55,S"))
    records = read_records(cases, kinds={"infector": "parent", "ward": "group"})
    assert records.groups.tolist() == [0, 0, 0, 1, 1, 1]
    first = "first column, text, all different"
    assert records.describe().splitlines() == [
        "6 records from cases.csv",
        "column    kind        values                    missing  why this kind",
        f"case      id          p1, p2, ...                     0  {first}",
        "ward      group       2 groups                        0  asked for",
        "infector  parent      4 known, 1 roots                1  asked for",
        "onset     date        2020-03-05 to 2020-03-20        1  calendar dates",
        "age       continuous  7.25 to 61                      1  numbers with decimals",
        "visits    count       0 to 12                         0  whole numbers up to 12",
        "note      ignored                                        text, 5 values that hardly recur",
    ]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1.5", "2", "3"], "continuous"),
        (["-1", "2", "7", "3"], "continuous"),
        (["1e3", "2e-5", ".5"], "continuous"),
        (["0", "1", "1", "0"], "categorical"),
        (["1", "7"], "categorical"),
        (["0", "1", "2", "2", "1", "0"], "categorical"),
        (["0", "1", "2", "3", "4"], "count"),  # few, but none recurs
        ([str(i) for i in range(12)], "count"),
        ([str(i) for i in range(40)], "continuous"),
        (["1998", "2003", "2003", "2010", "2001", "1999", "2000"], "continuous"),
        (["yes", "no", "yes", "no"], "categorical"),
        (["True", "False", "True"], "categorical"),
        (["a", "b", "c", "d"], "ignore"),
        (["a", "a", "a"], "ignore"),
        (["", "", ""], "ignore"),
        (["2020-03-05", "2020-03", "2020"], "date"),
        (["2020", "2021", "2025"], "continuous"),
        (["05.03.2020", "17.3.2020"], "date"),
        (["2020-03-05T10:00", "2020-03-06 11:30:15"], "date"),
        (["ACGTACGTACGTACGTACGT", "ACGTACGTACGTACGTACNN"], "sequence"),
        (["ACGT", "ACGA"], "ignore"),
        (["1", "2", "x", "1", "2", "x"], "categorical"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value)[:24],
)
def test_guessed_kinds(cells, kind):
    present = [row for row, cell in enumerate(cells) if cell]
    assert infer_kind("column", cells, present)[0] == kind


def test_numbers_called_a_date():
    assert infer_kind("onset_date", ["0", "3", "4", "9"], [0, 1, 2, 3])[0] == "date"
    assert infer_kind("update", ["0.5", "3"], [0, 1])[0] == "continuous"


def test_kinds_asked_for():
    table = {"a": [3, 4, 5, 6], "b": ["x", "y", "x", "z"], "c": [0, 1, 2, 3], "d": [1, 2, 3, 4]}
    asked = {"a": "categorical", "b": "label", "c": "date", "d": "ignore"}
    records = read_records(table, kinds=asked)
    assert kinds_of(records) == {"a": "categorical", "b": "label", "c": "date"}
    assert records.column("a").levels == ("3", "4", "5", "6")
    assert records.column("b").values[:, 0].tolist() == [0, 1, 0, 2]
    assert not records.column("c").calendar
    assert records.ignored == ("d",)
    assert records.ids == ("1", "2", "3", "4")  # nothing names them


def test_levels_in_the_order_of_numbers():
    column = read_records({"a": ["10", "9", "10", "9", "2"]}, kinds={"a": "categorical"}).columns[0]
    assert column.levels == ("2", "9", "10")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("ID,a\nx,1\ny,2\nz,9\n", ("x", "y", "z")),
        (",a\nx,1\ny,2\nz,9\n", ("x", "y", "z")),  # row names
        ("a,name\n1,x\n2,y\n9,z\n", ("1", "2", "3")),
        ("name,a\nx,1\nx,2\nz,9\n", ("1", "2", "3")),  # repeats: no identities
        ("day,a\n2020-01-01,1\n2020-01-02,2\n2020-01-05,9\n", ("1", "2", "3")),
    ],
)
def test_identities(tmp_path, text, ids):
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert read_records(path).ids == ids


def test_known_parents_by_name():
    table = {"id": [1, 2, 3, 4], "parent": [np.nan, 1.0, 1.0, 2.0], "v": [0.5, 1, 2, 3]}
    records = read_records(table)
    assert records.known_parents == {1: 0, 2: 0, 3: 1}
    # Cells that are no identities are no parents.
    table["parent"] = ["a", "b", "a", "b"]
    assert kinds_of(read_records(table)) == {"parent": "categorical", "v": "continuous"}


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        (["b", "c", "a"], r"row 0, column 'p': the known parents form a cycle: 'a', 'b',"),
        (["", "b", ""], r"row 1, column 'p': 'b' is given as its own parent; write 'root' if"),
        (
            ["x", "a", "y"],
            r"column 'p': 2 known parents are not records: 'x \(row 0\)', 'y \(row 2",
        ),
    ],
)
def test_impossible_parents(parents, message):
    with pytest.raises(RecordsError, match=message):
        read_records({"id": ["a", "b", "c"], "p": parents}, kinds={"p": "parent"})


def test_a_record_may_be_called_root():
    records = read_records({"id": ["root", "b"], "p": ["", "root"]}, kinds={"p": "parent"})
    assert records.known_parents == {1: 0}


def test_a_long_line_of_parents_is_no_circle():
    ids = [f"r{i}" for i in range(50_000)]
    records = read_records({"id": ids, "p": ["root", *ids[:-1]]}, kinds={"p": "parent"})
    assert records.known_parents[49_999] == 49_998


def test_taking_some(cases):
    records = read_records(cases, kinds={"infector": "parent"})
    some = records.take([4, 3, 1])
    assert some.ids == ("p5", "p4", "p2")
    assert some.known_parents == {0: 1, 1: -1}  # p2's parent is gone, and what was known of it
    assert some.column("ward").values[:, 0].tolist() == [0, 1, 0]
    assert some.column("ward").levels == ("N", "S")
    assert some.column("onset").text == ("2020-03-12", "2020-03-11", "2020-03-09")
    mask = np.array([True, False, False, False, False, True])
    assert records.take(mask).ids == ("p1", "p6")
    assert records.take([-1]).ids == ("p6",)
    with pytest.raises(RecordsError, match="identities must differ"):
        records.take([0, 0])
    with pytest.raises(KeyError, match="no column 'wrad'; the columns are 'onset'"):
        records.column("wrad")


@pytest.mark.parametrize(
    ("name", "delimiter"),
    [
        ("t.tsv", "\t"),
        ("t.txt", "\t"),
        ("t.csv", ";"),
        ("t.dat", "|"),
        ("t", ","),
        ("t.csv", ","),
        ("t.csv.gz", ","),
        ("t.tab.gz", "\t"),
    ],
)
def test_delimiters_and_packing(tmp_path, name, delimiter):
    text = "id,a,b\r\nx,1.5,u\r\n\r\ny,2.5,\r\nz, 7.5 ,u\r\n".replace(",", delimiter)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    records = read_records(path, kinds={"b": "categorical"})
    assert records.ids == ("x", "y", "z")
    assert records.column("a").values[:, 0].tolist() == [1.5, 2.5, 7.5]
    assert records.column("b").text == ("u", "", "u")
    assert list(records.provenance) == [name]


def test_byte_order_mark_encodings_and_long_cells(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffid,a\nä,1.5\nb,2\n".encode())
    assert read_records(path).ids == ("ä", "b")
    path.write_bytes("id,a\nä,1.5\nb,2\n".encode("latin-1"))
    assert read_records(path, encoding="latin-1").ids == ("ä", "b")
    for encoding in ("utf-16", "utf16", "UTF-32"):
        path.write_bytes("id,a\nä,1.5\nb,2\n".encode(encoding))
        assert read_records(path, encoding=encoding).ids == ("ä", "b")
    with pytest.raises(RecordsError, match="'utf-9' is not the name of an encoding"):
        read_records(path, encoding="utf-9")
    long = "x" * 1_000_000
    path.write_text(f"id,a\n{long},1.5\nb,2\n")
    assert read_records(path).ids == (long, "b")
    assert all(len(line) < 120 for line in read_records(path).describe().splitlines())


def test_lines_within_cells_are_counted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('id,a,n\nx,1,"one\ntwo"\ny,2,\nz,?,\nw,oops,\n')
    with pytest.raises(
        RecordsError, match=r"^t\.csv line 6, column 'a': the cell must be a finite"
    ):
        read_records(path, kinds={"a": "continuous"})


HOSTILE = ["</script><img src=x onerror=alert(1)>", "=cmd|'/c calc'!A1", "..\\..\\x", "\u202eevil"]


def test_hostile_names_stay_text():
    records = read_records({"id": HOSTILE, "a": [1.5, 2, 3, 4]})
    assert records.ids == tuple(HOSTILE)
    with pytest.raises(RecordsError, match=r"'\\u202eevil \(rows 0, 1\)'"):
        read_records({"id": ["\u202eevil"] * 2, "a": [1, 2]})


def test_records_check_themselves():
    column = read_records({"a": [1.5, 2.0]}).columns[0]
    with pytest.raises(RecordsError, match="column 'a' has 2 cells for 1 records"):
        Records(("x",), (column,))


def test_reading_a_file_twice_gives_the_same(cases):
    one, two = read_records(cases), read_records(cases)
    assert one.describe() == two.describe()
    assert one.provenance == two.provenance


def test_decimal_commas_where_semicolons_delimit(tmp_path):
    path = tmp_path / "lab.csv"
    path.write_text("case;ct;note\na;21,5;1,2 or 3\nb;-20,75;x\nc;19;y\n")
    records = read_records(path)
    assert records.column("ct").values[:, 0].tolist() == [21.5, -20.75, 19.0]
    path.write_text('case,ct\na,"21,5"\nb,"20,75"\nc,"1,234"\n')  # here it may be thousands
    assert "ct" in read_records(path).ignored


def test_empty_columns_that_a_spreadsheet_leaves_at_the_end(tmp_path):
    path = tmp_path / "sheet.csv"
    path.write_text("case,age,,\na,1.5,,\nb,2.5,,\n")
    assert [column.name for column in read_records(path).columns] == ["age"]
    path.write_text("case,age,,\na,1.5,,\nb,2.5,7,\n")
    with pytest.raises(RecordsError, match="column 3 has no name"):
        read_records(path)


def test_a_first_column_that_counts_the_rows_is_no_measurement():
    records = read_records({"case": ["1", "2", "3"], "age": ["4.5", "5.5", "9.5"]})
    assert records.ids == ("1", "2", "3")
    assert kinds_of(records) == {"age": "continuous"}
    assert kinds_of(read_records({"visits": ["1", "2", "3"]})) == {"visits": "count"}
    square = {"x": ["1", "2", "3"], "y": ["4", "4", "5"]}
    assert kinds_of(read_records(square)) == {"place": "place"}
    assert "day" in kinds_of(read_records({"day": ["1", "3", "2"], "age": ["4.5", "5.5", "9.5"]}))


def test_a_first_column_of_numbers_that_differ_by_design_names_the_records():
    rng = np.random.default_rng(0)
    ages = [f"{age:.1f}" for age in rng.uniform(1, 90, 60)]

    def kinds(name, numbers):
        return kinds_of(read_records({name: [str(n) for n in numbers], "value": ages}))

    shuffled = rng.permutation(np.arange(1, 61))
    assert kinds("PN", shuffled) == {"value": "continuous"}
    assert kinds("PN", rng.choice(np.arange(500, 620), 60, replace=False)) == {
        "value": "continuous"
    }
    # Numbers so far apart may differ by chance; dates and ages are never names.
    assert "grams" in kinds("grams", rng.choice(9_000, 60, replace=False) + 1_000)
    assert "day" in kinds("day", shuffled)
    assert "age" in kinds("age", shuffled)


def test_a_point_is_an_unknown_cell():
    records = read_records({"case": ["a", "b", "c"], "ct": ["21.5", ".", "20.5"]})
    assert records.column("ct").n_missing == 1


def test_a_picture_is_no_table(tmp_path):
    path = tmp_path / "tree.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(RecordsError, match=r"tree\.png is not a text file; give CSV"):
        read_records(path)


@pytest.mark.parametrize(
    ("name", "ids", "cells", "kind"),
    [
        ("true_parent", ["a", "b", "c", "d"], ["", "a", "a", "b"], "ignored"),
        ("infector", ["a", "b", "c", "d"], ["outside", "a", "a", "b"], "ignored"),
        ("true_infector", ["1", "2", "3", "4"], ["", "1.0", "1.0", "2.0"], "ignored"),
        ("ward", ["a", "b", "c", "d"], ["N", "N", "a", "a"], "categorical"),
        ("visits", ["1", "2", "3", "4"], ["", "1", "1", "2"], "categorical"),
    ],
)
def test_a_column_of_identities_is_no_evidence(name, ids, cells, kind):
    records = read_records({"id": ids, "x": [0.5, 1.5, 2.5, 3.5], name: cells})
    kinds = {c.name: c.kind for c in records.columns} | {n: role for n, role, _ in records.roles}
    assert kinds[name] == kind
    asked = read_records({"id": ids, name: cells}, kinds={name: "categorical"})
    assert asked.column(name).kind == "categorical"


def test_quotation_marks_that_are_letters(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text('id\tsize\tx\na\t6"\t1\nb\t"6\t2\nc\t6\t7"\nd\t7\t3\n')
    with pytest.raises(RecordsError, match=r"several lines: close the .* or pass quotes=False"):
        read_records(path)
    records = read_records(path, kinds={"size": "categorical"}, quotes=False)
    assert records.column("size").text == ('6"', '"6', "6", "7")


def test_a_message_holds_no_tab_of_the_file(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text('"a"b\tc\n1\t2\n')
    with pytest.raises(RecordsError, match=r"line 1: '\\t' expected after") as failure:
        read_records(path)
    assert str(failure.value).isprintable()


# Introductions -------------------------------------------------------------------------------


def imports(**more):
    return {
        "case": list("abcdef"),
        "onset": [f"2020-03-0{d}" for d in range(1, 7)],
        "import": ["True", "False", "False", "True", "", "False"],
        **more,
    }


def test_yes_and_no_called_import_is_suggested_never_used():
    records = read_records(imports())
    assert records.known_parents == {}
    assert [column.name for column in records.columns] == ["onset"]
    assert "elsewhere: kind introduction" in records.describe()
    other = read_records(imports(imported_from=list("xyxyxy")))
    assert other.column("imported_from").kind == "categorical"  # not yes or no


def test_introductions_are_known_roots():
    records = read_records(imports(), kinds={"import": "introduction"})
    assert dict(records.known_parents) == {0: -1, 3: -1}
    assert "2 introductions" in records.describe()
    both = read_records(
        imports(parent=["", "a", "", "root", "a", ""]), kinds={"import": "introduction"}
    )
    assert dict(both.known_parents) == {0: -1, 1: 0, 3: -1, 4: 0}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"import": ["yes", "no", "maybe", "no", "no", "no"]}, "must be marked yes.*got 'maybe'"),
        ({"parent": ["", "a", "", "a", "", ""]}, "marked as an introduction, but has a known"),
    ],
)
def test_introductions_that_cannot_be(more, words):
    with pytest.raises(RecordsError, match=words):
        read_records(imports(**more), kinds={"import": "introduction"})

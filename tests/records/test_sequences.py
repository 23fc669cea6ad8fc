"""Sequences as codes, beside a dictionary letter by letter; files of characters; joining."""

from pathlib import Path

import numpy as np
import pytest

from outtrees.errors import RecordsError
from outtrees.records import read_records
from outtrees.records.sequences import align

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"


def codes(*sequences, letters=None):
    found = align(list(sequences), lambda row: f"row {row}", letters)
    return "".join(found.alphabet), found.values


def test_dna_letter_by_letter():
    rng = np.random.default_rng(0)
    letters = np.array(list("ACGTUacgtuNnRYSWKMBDHVryX-.?"))
    weights = np.where(np.isin(letters, list("ACGTUacgtu")), 8.0, 1.0)
    table = rng.choice(letters, size=(40, 60), p=weights / weights.sum())
    alphabet, values = codes(*["".join(row) for row in table])
    assert alphabet == "ACGT"
    code = {"A": 0.0, "C": 1.0, "G": 2.0, "T": 3.0, "U": 3.0}
    slow = [[code.get(letter.upper(), np.nan) for letter in row] for row in table]
    np.testing.assert_array_equal(values, slow)


@pytest.mark.parametrize(
    ("sequences", "alphabet", "first"),
    [
        (["ACGT", "NNNN"], "ACGT", [0, 1, 2, 3]),
        (["NNNN", "----"], "ACGT", [np.nan] * 4),
        (["MKVH", "MKRD"], "ACDEFGHIKLMNPQRSTVWY", [10, 8, 17, 6]),  # also ambiguous DNA
        (["ELVX", "EIV*"], "ACDEFGHIKLMNPQRSTVWY", [3, 9, 17, np.nan]),
        (["0120", "01?-"], "012", [0, 1, 2, 0]),
        (["N01n", "0011"], "01N", [2, 0, 1, 2]),  # N is a letter like others here
        (["äöü.", "äöä."], "äöü", [0, 1, 2, np.nan]),
        (["😀b", "b😀"], "B😀", [1, 0]),
    ],
)
def test_alphabets(sequences, alphabet, first):
    found, values = codes(*sequences)
    assert found == alphabet
    np.testing.assert_array_equal(values[0], first)


def test_letters_may_be_said():
    assert codes("MKVH", "MKRD", letters="dna")[0] == "ACGT"
    assert codes("ACGT", "AAAA", letters="protein")[0] == "ACDEFGHIKLMNPQRSTVWY"


def test_digests_tell_equal_sequences():
    found = align(["ACGT", "acgt", "ACGA", ""], lambda row: "")
    one, two, three, none = found.digests
    assert one == two != three
    assert none == ""
    assert np.isnan(found.values[3]).all()


@pytest.fixture
def fasta(tmp_path):
    path = tmp_path / "dna.fasta"
    path.write_text("; a comment\n>b second of two\nAC\nGT\n\n>a first\r\nNN gt\n")
    return path


def test_fasta_alone(fasta):
    records = read_records(fasta)
    assert records.ids == ("b", "a")
    column = records.column("sequence")
    assert column.kind == "sequence"
    np.testing.assert_array_equal(column.values, [[0, 1, 2, 3], [np.nan, np.nan, 2, 3]])
    assert records.describe().splitlines()[-1].split("  ") == [
        *("sequence", "sequence", "4 sites of ACGT, 75% known"),
        *("", "", "", "0", "sequences of dna.fasta"),
    ]


def test_joined_by_identity_not_by_order(fasta):
    table = {"id": ["a", "b"], "x": [1.5, 2]}
    records = read_records(table, sequences=fasta)
    column = records.column("sequence")
    np.testing.assert_array_equal(column.values, [[np.nan, np.nan, 2, 3], [0, 1, 2, 3]])
    assert set(records.provenance) == {"table in memory", "dna.fasta"}
    # The whole header serves as well as its first word.
    table["id"] = ["a first", "b second of two"]
    joined = read_records(table, sequences=fasta).column("sequence")
    np.testing.assert_array_equal(joined.values, column.values)
    mapping = read_records({"id": ["a", "b"]}, sequences={"b": "AC GT", "a": ""})
    np.testing.assert_array_equal(mapping.column("sequence").missing, [True, False])


def test_a_name_that_is_taken():
    table = {"id": ["a", "b", "c", "d"], "sequence": ["u", "u", "v", "v"]}
    records = read_records(table, sequences=dict.fromkeys("abcd", "ACGT"))
    assert [column.name for column in records.columns] == ["sequence", "sequence_"]


def test_identities_that_do_not_match(fasta):
    ids = ["a", *(f"n{i}" for i in range(12))]
    with pytest.raises(RecordsError) as caught:
        read_records({"id": ids, "x": range(13)}, sequences=fasta)
    assert str(caught.value) == (
        "dna.fasta: identities do not match; 1 without a record: 'b'; 12 records without a "
        "sequence: 'n0', 'n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7', 'n8', 'n9', … (12 in all). "
        "Rename or remove what has no record, or pass extra_sequences='ignore'. If these were "
        "never sequenced, pass unsequenced='missing'"
    )
    with pytest.raises(RecordsError, match="Column 'case' holds these names: pass id='case'"):
        read_records({"x": [7, 8], "case": ["b second of two", "a first"]}, sequences=fasta)


def test_records_without_a_sequence(fasta):
    table = {"id": ["c", "a", "b"], "x": [0.5, 1.5, 2.5]}
    with pytest.raises(RecordsError) as caught:
        read_records(table, sequences=fasta)
    assert str(caught.value) == (
        "dna.fasta: identities do not match; 1 record without a sequence: 'c'. If these were never "
        "sequenced, pass unsequenced='missing'"
    )
    column = read_records(table, sequences=fasta, unsequenced="missing").column("sequence")
    whole = read_records({"id": ["a", "b"]}, sequences=fasta).column("sequence")
    assert np.isnan(column.values[0]).all()
    np.testing.assert_array_equal(column.values[1:], whole.values)
    assert (column.n_missing, column.text) == (1, ("", *whole.text))
    assert column.reason == "sequences of dna.fasta, 1 record without one"
    with pytest.raises(RecordsError, match=r"match; 1 without a record: 'b'\. Rename or remove"):
        read_records({"id": ["c", "a"]}, sequences=fasta, unsequenced="missing")
    with pytest.raises(RecordsError, match="unsequenced must be one of error, missing"):
        read_records(table, sequences=fasta, unsequenced="drop")


def test_the_hint_at_another_column_allows_for_records_without_a_sequence(fasta):
    table = {"x": [7, 8, 9], "case": ["b second of two", "a first", "c"]}
    with pytest.raises(RecordsError, match=r"\. Column 'case' holds these names: pass id='case'$"):
        read_records(table, sequences=fasta)


def test_first_words_that_repeat_do_not_join(tmp_path):
    path = tmp_path / "x.fasta"
    path.write_text(">a 1\nAC\n>a 2\nAC\n")
    assert read_records(path).ids == ("a 1", "a 2")
    with pytest.raises(RecordsError, match=r"'a \(sequence numbers 1, 2\)'"):
        read_records({"id": ["a", "b"]}, sequences=path)


NEXUS = """#NEXUS
begin taxa; dimensions ntax=3; taxlabels A_1 'B c' C; end;
begin characters;
dimensions nchar=4; format datatype=standard symbols="012" missing=? gap=-;
matrix
A_1 01?0
'B c' 1-{01}1
C 2001
;
end;
begin characters; dimensions nchar=5; format datatype=dna missing=? gap=-;
matrix
A_1 ACGTN
'B c' AC-T?
C RCGTA
;
end;
begin characters; dimensions nchar=2; format datatype=continuous;
matrix
A_1 1.5 2
'B c' 3 7
C 4 5
;
end;
"""


def test_nexus(tmp_path):
    pytest.importorskip("dendropy")
    path = tmp_path / "x.nex"
    path.write_text(NEXUS)
    records = read_records(path, kinds={"c2": "ignore", "c4": "label"})
    assert records.ids == ("A_1", "B c", "C")
    kinds = [(column.name, column.kind) for column in records.columns]
    assert kinds == [
        *(("c1", "categorical"), ("c3", "categorical"), ("c4", "label")),
        *(("sequence5", "sequence"), ("c6", "continuous"), ("c7", "continuous")),
    ]
    assert records.column("c1").text == ("0", "1", "2")
    assert records.column("c3").text == ("", "0 / 1", "0")  # unknown, polymorphic, known
    assert np.isnan(records.column("c3").values[:2, 0]).all()
    nan = np.nan
    np.testing.assert_array_equal(
        records.column("sequence5").values,
        [[0, 1, 2, 3, nan], [0, 1, nan, 3, nan], [nan, 1, 2, 3, 0]],
    )
    assert records.column("c6").values[:, 0].tolist() == [1.5, 3, 4]
    with pytest.raises(RecordsError, match=r"column 'c1' holds categorical .* become 'date'"):
        read_records(path, kinds={"c1": "date"})
    with pytest.raises(RecordsError, match=r"x\.nex names its records itself; leave id='c1' out"):
        read_records(path, id="c1")
    # Blanks for underscores, as the format has it.
    joined = read_records({"id": ["C", "B c", "A 1"]}, sequences=path, kinds={"c2": "ignore"})
    assert joined.column("c1").text == ("2", "1", "0")


@pytest.mark.parametrize("name", ["crustacea_isopods_Kavanagh2007", "fungi_Hibbett1993"])
def test_nexus_and_csv_of_the_same_matrix_agree(name):
    pytest.importorskip("dendropy")
    folder = SHARED / "taxonomy" / name
    if not folder.exists():
        pytest.skip("the character matrices are not part of the project")
    nexus = read_records(folder / "matrix.nex")
    table = read_records(
        folder / "matrix.csv",
        id="taxon",
        missing=["?", "-"],
        kinds={column.name: "categorical" for column in nexus.columns},
    )
    assert [i.replace("_", " ") for i in nexus.ids] == list(table.ids)
    for column in nexus.columns:
        cells = table.column(column.name).text
        # {02} of the table is "0 / 2".
        kept = [" / ".join(c.strip("{}")) if "{" in c else c for c in cells]
        assert column.text == tuple(kept)
        assert np.isnan(column.values[["{" in c for c in cells], 0]).all()


def test_nexus_names_characters_and_states(tmp_path):
    """As teiphy writes TEI apparatus: CHARSTATELABELS, and readings that may be either."""
    path = tmp_path / "tei.nex"
    path.write_text(
        """#NEXUS
        begin data;
          dimensions ntax=4 nchar=4;
          format datatype=standard symbols="0 1 2" missing=? gap=-;
          charstatelabels 1 B10K1V1 / wine water, 2 'St. John''s, 1' / 'the word' a_word logos,
            3, 4 B10K1V1 / same same;
          matrix A 0101  B 1{12}00  C (01)2?0  D 10-1;
        end;"""
    )
    records = read_records(path)
    names = [column.name for column in records.columns]
    assert names == ["B10K1V1", "St. John's, 1", "c3", "B10K1V1 (4)"]
    first, second, third, fourth = records.columns
    assert first.text == ("wine", "water", "wine / water", "water")
    assert first.levels == ("water", "wine")
    assert first.reason.endswith("1 cell is one of several states")
    np.testing.assert_array_equal(first.values[:, 0], [1, 0, np.nan, 0])
    assert second.text == ("a_word", "a_word / logos", "logos", "the word")
    assert third.text == ("0", "0", "", "")
    assert fourth.levels == ("0", "1")  # states of one name stay apart


def test_the_outbreak():
    folder = SHARED / "ancestry" / "outbreak_fake"
    if not folder.exists():
        pytest.skip("the outbreak is not part of the project")
    records = read_records(
        folder / "cases_true_tree.csv",
        id="case",
        kinds={"onset": "date", "true_infector": "parent"},
        sequences=folder / "dna.fasta",
    )
    assert len(records) == 30
    assert len(records.known_parents) == 27
    values = records.column("sequence").values
    assert values.shape == (30, 10_000)
    varies = (values != values[0]).any(axis=0)
    assert varies.sum() == 79  # as its description says


@pytest.mark.slow
def test_a_hundred_thousand_records(tmp_path):
    # A quadratic loop anywhere would take hours here.
    T = 100_000
    path = tmp_path / "dna.fasta"
    path.write_text("".join(f">r{i}\n{'ACGT'[i % 4] * 4}\n" for i in reversed(range(T))))
    table = {"id": [f"r{i}" for i in range(T)], "p": ["root", *(f"r{i}" for i in range(T - 1))]}
    records = read_records(table, kinds={"p": "parent"}, sequences=path)
    assert records.column("sequence").values[:, 0].tolist() == [i % 4 for i in range(T)]


def test_nexus_cut_anywhere_is_refused(tmp_path):
    """dendropy alone reads some of these, in part, and loops forever over others."""
    pytest.importorskip("dendropy")
    path = tmp_path / "x.nex"
    whole = [i for i in range(len(NEXUS)) if NEXUS[:i].rstrip().endswith("end;")]
    for cut in range(6, len(NEXUS)):
        path.write_text(NEXUS[:cut])
        if cut in whole and cut > 100:  # after a block of characters
            assert read_records(path).ids == ("A_1", "B c", "C")
        else:
            with pytest.raises(RecordsError, match=r"is truncated: 'end;' must|has no characters"):
                read_records(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dimensions ntax=3", "dimens[ons ntax=3", "it ends within a block; close every comment"),
        ("C 2001\n", "", "1 taxa have no characters: 'C'; write"),
        ("ntax=3", "ntax=30", "ntax is 30, but there are 3 taxa|cannot be read"),
        ("C 2001", "C 201", "cannot be read as NEXUS|must have 4 characters; got 3"),
        ("A_1 01?0", "A_1 09?0", "cannot be read as NEXUS: .*line 6"),
    ],
)
def test_broken_nexus(tmp_path, old, new, message):
    pytest.importorskip("dendropy")
    path = tmp_path / "x.nex"
    assert old in NEXUS
    path.write_text(NEXUS.replace(old, new, 1))
    with pytest.raises(RecordsError, match=message):
        read_records(path)


# Headers name|…|date, and sequences without a record ---------------------------------------------


@pytest.fixture
def bars(tmp_path):
    path = tmp_path / "bars.fasta"
    headers = [f"case {i}|lab|2020-03-{i + 1:02d}" for i in range(5)]
    headers = [header.replace(" ", "_") for header in headers]
    path.write_text("".join(f">{header}\nACGT{'ACGTA'[i]}\n" for i, header in enumerate(headers)))
    return path


def test_headers_with_bars(bars):
    ids = [f"case_{i}" for i in (3, 1, 0, 2, 4)]
    records = read_records({"id": ids, "v": [0.5, 1, 2, 3, 4]}, sequences=bars)
    assert [(c.name, c.kind) for c in records.columns] == [
        ("v", "continuous"), ("sequence", "sequence"), ("date", "date"),
    ]  # fmt: skip
    assert records.column("date").text == tuple(f"2020-03-0{i + 1}" for i in (3, 1, 0, 2, 4))
    assert records.column("date").reason == "dates in the headers of bars.fasta"
    # Dates of the table come first.
    days = [f"2021-01-0{i + 1}" for i in range(5)]
    records = read_records({"id": ids, "onset": days}, sequences=bars)
    assert [c.name for c in records.columns] == ["onset", "sequence"]
    # Sequences that stand alone.
    alone = read_records(bars)
    assert alone.ids == tuple(f"case_{i}" for i in range(5))
    assert alone.column("date").calendar


def test_headers_whose_first_fields_repeat_stay_whole(tmp_path):
    path = tmp_path / "gi.fasta"
    path.write_text(">gi|1|x\nACGT\n>gi|2|y\nACGA\n")
    assert read_records(path).ids == ("gi|1|x", "gi|2|y")


def test_sequences_without_a_record_left_out(bars):
    table = {"id": ["case_1", "case_4"], "v": [0.5, 1]}
    with pytest.raises(RecordsError, match="or pass extra_sequences='ignore'"):
        read_records(table, sequences=bars)
    records = read_records(table, sequences=bars, extra_sequences="ignore")
    assert records.column("date").text == ("2020-03-02", "2020-03-05")
    assert records.column("sequence").reason.endswith("3 sequences without a record left out")
    # That none matches is still a mistake.
    with pytest.raises(RecordsError, match="5 without a record"):
        read_records({"id": ["p", "q"], "v": [1, 2]}, sequences=bars, extra_sequences="ignore")

"""Several samples of one host, and variants within samples, as tables and VCF files give them."""

import numpy as np
import pytest

from outtrees import read_records
from outtrees.errors import RecordsError
from outtrees.records.samples import by_host, read_variants, with_variants

TABLE = {
    "sample": ["b1", "a2", "a1", "c1"],
    "who": ["b", "a", "a", "c"],
    "day": [4, 9, 1, 6],
    "ward": ["N", "S", "", "N"],
}
DNA = {"b1": "ACGTA", "a2": "ACGTT", "a1": "NNNNN", "c1": "ACGNA"}
KINDS = {"day": "date", "who": "categorical"}


def records(**changed):
    return read_records(TABLE | changed, id="sample", kinds=KINDS, sequences=DNA)


def variants(rows):
    names = "sample", "position", "base", "frequency"
    return read_variants(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_hosts_are_the_records():
    hosts = by_host(records(), "who")
    assert hosts.ids == ("b", "a", "c")
    assert hosts.samples.table.ids == ("b1", "a2", "a1", "c1")
    assert hosts.samples.host.tolist() == [0, 1, 1, 2]
    # a1 is the first sample of a, but a2 the first with a sequence; the ward is known of a2.
    assert hosts.column("day").values[:, 0].tolist() == [4, 9, 6]
    assert hosts.column("ward").text == ("N", "S", "N")
    assert [c.name for c in hosts.columns] == ["day", "ward", "sequence"]
    assert by_host(records(), None).samples is None


def test_some_of_the_hosts():
    listed = [("a2", 1, "G", 0.2), ("c1", 2, "A", 0.3)]
    hosts = with_variants(by_host(records(), "who"), variants(listed))
    some = hosts.take([2, 1])
    assert some.ids == ("c", "a")
    assert some.samples.table.ids == ("a2", "a1", "c1")
    assert some.samples.host.tolist() == [1, 1, 0]
    assert some.samples.at.tolist() == [[0, 0], [2, 1]]
    only = hosts.take(np.array([True, False, True])).samples
    assert only.table.ids == ("b1", "c1")
    assert only.at.tolist() == [[1, 1]]
    np.testing.assert_allclose(only.shares, [[0.3, 0.7, 0, 0]])


def test_known_parents_are_those_of_hosts():
    kinds = KINDS | {"by": "parent"}
    table = TABLE | {"by": ["a1", "a1", "", "b1"]}
    hosts = by_host(read_records(table, id="sample", kinds=kinds, sequences=DNA), "who")
    assert hosts.known_parents == {0: 1, 2: 0}  # that a2 came from a1 says nothing


@pytest.mark.parametrize(
    ("changed", "name", "message"),
    [
        ({}, "host", "host.* must name a column that says whose samples these are; got 'host'"),
        ({"who": ["b", "a", "", "c"]}, "who", "sample 'a1' must have a host in column 'who'"),
    ],
)
def test_refused_hosts(changed, name, message):
    with pytest.raises(RecordsError, match=message):
        by_host(records(**changed), name)


def test_a_host_is_in_one_group():
    kinds = KINDS | {"ward": "group"}
    wards = {"ward": ["N", "S", "N", "N"]}
    table = read_records(TABLE | wards, id="sample", kinds=kinds, sequences=DNA)
    with pytest.raises(RecordsError, match="samples of host 'a' must be in one group"):
        by_host(table, "who")


def test_hosts_need_dates_and_sequences():
    table = read_records(TABLE, id="sample", kinds=KINDS)
    with pytest.raises(RecordsError, match="needs columns of dates and of sequences"):
        by_host(table, "who")


def test_the_rest_has_the_letter_of_the_sequence():
    found = with_variants(records(), variants([("b1", 2, "t", 0.25), ("a2", 5, "G", 0.01)])).samples
    assert not found.several
    assert found.at.tolist() == [[0, 1]]  # one in a hundred is taken for an error
    np.testing.assert_allclose(found.shares, [[0, 0.75, 0, 0.25]])
    both = variants([("c1", 4, "T", 0.4), ("c1", 4, "G", 0.6)])  # was not read there
    np.testing.assert_allclose(with_variants(records(), both).samples.shares, [[0, 0, 0.6, 0.4]])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("b1", 9, "T", 0.2)], "position 9 of 'b1': positions must be those of the alignment, 1"),
        ([("x", 1, "T", 0.2)], "samples must have the names of the table"),
        ([("b1", 1, "T", 0.7), ("b1", 1, "G", 0.5)], "must add up to at most 1; got 1.2"),
        ([("c1", 4, "T", 0.4)], "must add up to 1 where the base of the rest is not known"),
        ([("b1", 1, "A", 0.8)], "must add up to 1 where the base of the rest is not known"),
        ([("b1", 1, "N", 0.8)], "base must be A, C, G or T; got 'N'"),
        ([("b1", 0, "A", 0.8)], "position must be a number from 1; got '0'"),
        ([("b1", 1, "A", 80)], "frequency must be between 0 and 1; got '80'"),
        ([("b1", "", "A", 0.8)], "a variant needs all of its four cells"),
        ([("b1", 3, "CG", 0.3)], "base must be A, C, G or T; got 'CG'"),
        ([("b1", 3, "T", 0.3), ("b1", 3, "t", 0.3)], "have a row already; keep one of them"),
    ],
)
def test_refused_variants(rows, message):
    with pytest.raises(RecordsError, match=message):
        with_variants(records(), variants(rows))


def test_variants_need_dna():
    table = read_records(TABLE, id="sample", kinds=KINDS)
    with pytest.raises(RecordsError, match="variants need one column of DNA"):
        with_variants(table, variants([("b1", 1, "T", 0.2)]))


HEAD = "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tb1\ta2\n"


def vcf(folder, *rows, head=HEAD):
    path = folder / "found.vcf"
    path.write_text(head + "".join("\t".join(map(str, row)) + "\n" for row in rows))
    return path


def test_a_vcf_file(tmp_path):
    path = vcf(
        tmp_path,
        ("chr", 2, ".", "C", "T,G", ".", ".", ".", "GT:AF", "0:0.1,0.2", "0:."),
        ("chr", 4, ".", "T", "TA", ".", ".", ".", "GT:AF", "0:0.1", "0:0.3"),  # an insertion
        ("chr", 5, ".", "A", "T", ".", ".", ".", "AD:GT", "90,10:0", "20,60:1"),
    )
    found = with_variants(records(), read_variants(path)).samples
    assert found.at.tolist() == [[0, 1], [0, 4], [1, 4]]
    # What is left has the reference's base, whatever the sequence has.
    np.testing.assert_allclose(
        found.shares, [[0, 0.7, 0.2, 0.1], [0.9, 0, 0, 0.1], [0.25, 0, 0, 0.75]]
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("chr", 2, ".", "C", "T", ".", ".", ".", "GT", "0", "0"), "must have AF or AD"),
        (("chr", 2, ".", "C", "T", ".", ".", ".", "AD", "9", "1,2"), "one number for each base"),
        (("chr", 2, ".", "C", "T", ".", ".", ".", "AD", "9,x", "1,2"), "AD must be counts of rea"),
        (("chr", 2, ".", "C", "T", ".", ".", ".", "AF", "0.2"), "10 fields, header has 11"),
        (("chr", "x", ".", "C", "T", ".", ".", ".", "AF", "0.2", "0"), "position must be a num"),
        (("other", 2, ".", "C", "T", ".", ".", ".", "AF", "0.2", "0"), "must be of one sequence"),
        (("chr", 1, ".", "A", "T", ".", ".", ".", "AD", "8,2", "."), "AD of a position must be"),
    ],
)
def test_refused_vcf_files(tmp_path, row, message):
    first = ("chr", 1, ".", "A", "G", ".", ".", ".", "AD", "8,2", ".")
    with pytest.raises(RecordsError, match=message):
        read_variants(vcf(tmp_path, *([] if row[8] == "GT" else [first]), row))


def test_a_merged_vcf_file(tmp_path):
    """Bases of other samples are "." there, and so are sites without any."""
    path = vcf(
        tmp_path,
        ("chr", 1, ".", "A", ".", ".", ".", ".", "AD", "80", "70"),
        ("chr", 2, ".", "C", "T,G", ".", ".", ".", "AF:AD", "0.2,.:.", ".:60,.,20"),
    )
    found = with_variants(records(), read_variants(path)).samples
    assert found.at.tolist() == [[0, 1], [1, 1]]
    np.testing.assert_allclose(found.shares, [[0, 0.8, 0, 0.2], [0, 0.75, 0.25, 0]])
    nothing = read_variants(vcf(tmp_path, ("chr", 1, *".A....", "AD", "8", "7")))
    with pytest.raises(RecordsError, match="must have single bases that differ within samples"):
        with_variants(records(), nothing)


def test_a_vcf_file_without_samples(tmp_path):
    head = "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n"
    row = ("chr", 2, ".", "C", "T", ".", ".", "AF=0.1")
    with pytest.raises(RecordsError, match="must have a column for each sample; got none"):
        read_variants(vcf(tmp_path, row, head=head))
    with pytest.raises(RecordsError, match="must have a line that begins with #CHROM"):
        read_variants(vcf(tmp_path, row, head="##fileformat=VCFv4.2\n"))

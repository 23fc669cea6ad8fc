"""The catalogue of bad inputs, as far as it touches reading: one line that names the place."""

import bz2
import gzip
import os
import threading

import numpy as np
import pandas as pd
import pytest

from outtrees._common.files import write_atomically
from outtrees.errors import OutTreesError, RecordsError
from outtrees.records import files, read_matrix, read_records
from outtrees.records.files import read_source

FILES = {
    "empty": (b"", r"^x\.csv has no data rows; it is empty"),
    "blank": (b"\n \n", r"^x\.csv has no data rows; it is empty"),
    "only a header": (b"id,a\n", r"^x\.csv has no data rows; it holds only a header"),
    "too many fields": (
        b"id,a\nx,1\ny,2,3\n",
        r"^x\.csv line 3: 3 fields, header has 2; put cells",
    ),
    "too few fields": (b"id,a,b\nx,1,2\n\ny,2\n", r"^x\.csv line 4: 2 fields, header has 3"),
    "not UTF-8": (
        b"id,a\nx,1\n\xff,2\n",
        r"^x\.csv: byte 0xff at line 3 is not utf-8; pass the en",
    ),
    "UTF-16": (
        "id,a\nx,1\n".encode("utf-16"),
        r"^x\.csv must be utf-8 text; got UTF-16.* encoding='utf-16'",
    ),
    "NUL": (b"id,a\nx,1\ny,\x00\n", r"^x\.csv: NUL character at line 3"),
    "duplicate columns": (b"id,a,a\nx,1,2\n", r"^x\.csv: column name 'a' occurs 2 times; rename"),
    "nameless column": (b"id,,a\nx,1,2\n", r"^x\.csv: column 2 has no name; give it one"),
    "duplicate identities": (
        b"id,a\nx,1\ny,2\nx,3\ny,4\nz,5\nx,6\n",
        r"^x\.csv: identities must differ; got 2 .*: 'x \(lines 2, 4, 7\)', 'y \(lines 3, 5\)'",
    ),
    "empty identity": (
        b"id,a\nx,1\n,2\n",
        r"^x\.csv line 3, column 'id': the identity must not be empty",
    ),
    "open quotation mark": (b'id,a\nx,1\ny,"2\nz,3\n', r"^x\.csv line 3: .*close the quotation"),
    "text after a quotation": (b'id,a\nx,1\ny,"2"3\n', r"^x\.csv line 3: .*pass quotes=False"),
    "infinite": (b"id,a\nx,1.5\ny,2\nz,inf\n", r"^x\.csv line 4, column 'a': the cell must be"),
    "overflow": (b"id,a\nx,1.5\ny,2\nz,1e999\n", r"^x\.csv line 4, column 'a': the cell must be a"),
    "zip": (b"PK\x03\x04....", r"^x\.csv is a zip archive or a spreadsheet \(\.xlsx\); unpack it"),
    "bzip2": (bz2.compress(b"id,a\nx,1\n"), r"^x\.csv is packed with bzip2; unpack it"),
    "damaged gzip": (gzip.compress(b"id,a\nx,1\n")[:-1] + b"?", r"^x\.csv is a damaged gzip file"),
    "truncated gzip": (
        gzip.compress(b"id,a\nx,1\n" * 99)[:-9],
        r"^x\.csv is a truncated gzip file",
    ),
    "gzip and more": (gzip.compress(b"id,a\nx,1\n") + b"more", r"^x\.csv is a gzip file followed"),
    "empty FASTA name": (b">x\nAC\n> \nAC\n", r"^x\.csv line 3: a name must follow '>'"),
    "FASTA without letters": (b">x\nAC\n>y\n>z\nAC", r"^x\.csv line 3: 'y' has no sequence; write"),
    "unequal FASTA": (
        b">x\nACG\n>y\nAC\n>z\nA-G",
        r"^x\.csv line 3, record 'y': the sequence must have 3 sites, as in x\.csv line 1.*; got 2",
    ),
    "duplicate FASTA": (b">x\nAC\n>x\nAC\n", r"^x\.csv: identities .* 'x \(lines 1, 3\)'"),
    "broken NEXUS": (
        b"#NEXUS\nbegin data; dimensions ntax=2 nchar=2; matrix x 01 y 0",
        r"^x\.csv is truncated: 'end;' must stand at its end",
    ),
    "NEXUS without characters": (
        b"#NEXUS\nbegin trees; end;",
        r"^x\.csv has no characters; it must have a DATA",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_refused_files(tmp_path, name):
    data, message = FILES[name]
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    with pytest.raises(RecordsError, match=message) as caught:
        read_records(path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert isinstance(caught.value, OutTreesError)
    assert isinstance(caught.value, ValueError)


CELLS = {
    "continuous": (
        "x",
        r"row 2, column 'a': the cell must be a finite number; got 'x'. Cor",
    ),
    "count": (
        "1.5",
        r"row 2, column 'a': the cell must be a count \(0, 1, 2, …\); got '1.5",
    ),
    "date": (
        "2020-02-03",
        r"row 2, column 'a': '2020-02-03' is not a number like the other dates",
    ),
    "group": ("", r"row 2, column 'a': every record must belong to a group"),
    "sequence": ("123", r"row 2, column 'a': the sequence must have 1 sites, as in .*; got 3"),
    "place": ("x", r"row 0, column 'a'|a place must have 2 or 3 coordinates"),
}


@pytest.mark.parametrize("kind", CELLS)
def test_cells_that_do_not_fit_the_kind_asked_for(kind):
    cell, message = CELLS[kind]
    with pytest.raises(RecordsError, match=message):
        read_records({"a": ["1", "2", cell]}, kinds={"a": kind})


TABLES = {
    "none": (None, RecordsError, "^source is None"),
    "a number": (3, TypeError, "^records must be a path, .* got int"),
    "an array": (np.zeros((2, 2)), TypeError, "^records must be a path, .* got ndarr"),
    "no columns": ({}, RecordsError, "has no columns"),
    "no rows": ({"a": []}, RecordsError, "has no data rows"),
    "no rows in a frame": (pd.DataFrame({"a": []}), RecordsError, "has no data rows"),
    "ragged": (
        {"a": [1, 2], "b": [1]},
        RecordsError,
        "^columns have different lengths: 'a' has 2, 'b' has 1",
    ),
    "a cell that is an object": (
        {"a": [1, {}]},
        RecordsError,
        "^row 1, column 'a': a cell must be a number, text or date; got a dict",
    ),
    "a cell that is a list": (
        pd.DataFrame({"a": [[1], [2]]}),
        RecordsError,
        "^row 0, column 'a': .* got a list",
    ),
    "text for a column": ({"a": "xyz"}, RecordsError, "'a' must be a sequence of cells"),
    "2-D column": ({"a": np.zeros((2, 2))}, RecordsError, r"'a' .* got shape \(2, 2\)"),
    "duplicate names": (
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        RecordsError,
        "column name 'a' occurs 2 times",
    ),
    "names that are no text": (
        pd.DataFrame([[1, 2]], columns=["a", 3]),
        RecordsError,
        "names must be text; got 3 for column 1. Rename it, for example to '3'",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_refused_tables(name):
    table, error, message = TABLES[name]
    with pytest.raises(error, match=message):
        read_records(table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "b"}, "^the table has no column 'b'; its columns are 'a', 'c'"),
        ({"kinds": {"b": "date"}}, "^the table has no column 'b'"),
        ({"kinds": {"a": "dates"}}, "^the kind of column 'a' .* continuous, .* got 'dates'"),
        (
            {"kinds": {"a": "group", "c": "group"}},
            "^at most one column may be of kind 'group'; got",
        ),
        ({"id": "a", "kinds": {"c": "id"}}, "contradict each other"),
        ({"id": "a", "kinds": {"a": "date"}}, "asked to be both id and 'date'; choose one"),
        ({"places": {"home": ("a", "z")}}, "^the table has no column 'z'"),
        ({"sequences": {}}, "^sequences hold no sequence"),
        ({"sequences": {"1": 3}}, "^the sequence of '1' must be text; got int"),
    ],
)
def test_refused_options(options, message):
    with pytest.raises(RecordsError, match=message):
        read_records({"a": [1, 2, 3], "c": [4.5, 5, 6]}, **options)


WHOLE = {
    "table": (
        b"id,onset,age,ward,lat,lon,parent\na,2020-03-05,1.5,N,52,13,\nb,2020-03,2,S,53,14,a\n"
        b"c,17.03.2020,NA,N,,,a\n"
    ),
    "matrix": b",a,b\na,0,1\nb,-inf,0\n",
    "sequences": b">a x\nACGT\n>b\nAC-N\n",
    "packed": gzip.compress(b"id,a\nx,1\ny,2\n", mtime=0),
}


@pytest.mark.parametrize("name", WHOLE)
def test_damaged_anyhow_it_is_read_or_refused_in_one_line(tmp_path, name):
    rng = np.random.default_rng(0)
    path = tmp_path / "x.csv"
    letters = list(b"\x00\xff,;\t\n\r\"'()[]{}>#-?.:/0129aAZ\xe2 ")
    messages = []
    for _ in range(400):
        data = list(WHOLE[name])
        for _ in range(rng.integers(1, 5)):
            place = int(rng.integers(len(data)))
            data[place : place + int(rng.integers(3))] = rng.choice(letters, rng.integers(3))
        path.write_bytes(bytes(np.array(data, dtype=np.uint8)))
        for reader in (read_records, read_matrix):
            try:
                reader(path)
            except RecordsError as error:
                messages.append(str(error))
    assert 10 < len(messages) < 790  # some of both
    assert all(len(message.splitlines()) == 1 for message in messages)


# What is no plain file ----------------------------------------------------------------------


@pytest.mark.parametrize("reader", [read_records, read_matrix])
def test_no_such_file(reader, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^no such file: '.*x\.csv'"):
        reader(tmp_path / "x.csv")


def test_not_a_regular_file(tmp_path):
    with pytest.raises(RecordsError, match="is not a regular file but a directory; give a file"):
        read_records(tmp_path)
    with pytest.raises(RecordsError, match="'/dev/zero' is not a regular file but a device"):
        read_records("/dev/zero")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(RecordsError, match="is not a regular file but a device or a pipe"):
        read_records(fifo)  # would wait forever for a writer


def test_a_file_over_the_limit(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("id,a\n" + "x,1\n" * 500)
    with pytest.raises(RecordsError, match=r"^x\.csv is 2\.0 kB; limit 1\.0 kB \(max_bytes\)"):
        read_records(path, max_bytes=1000)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert path.stat().st_size < 1000
    with pytest.raises(RecordsError, match=r"bytes of gzip open to more than 2\.0 kB"):
        read_records(path, max_bytes=1000)


def test_a_gzip_bomb_is_not_opened(tmp_path, monkeypatch):
    bomb = tmp_path / "x.csv.gz"
    bomb.write_bytes(gzip.compress(b"\n" * 50_000_000))
    with pytest.raises(RecordsError, match=r"^x\.csv\.gz: 48\.\d kB of gzip open to more than"):
        read_source(bomb)
    # It is the ratio that was refused: without that limit the same file opens.
    monkeypatch.setattr(files, "LARGEST_RATIO", 10**9)
    assert len(read_source(bomb).data) == 50_000_000


def test_several_gzip_members(tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"id,a\nx,1.5\n") + gzip.compress(b"y,2\n") + b"\0" * 20)
    assert read_records(path).ids == ("x", "y")


def test_the_limit_of_the_csv_module_is_left_as_it_was(tmp_path):
    import csv

    before = csv.field_size_limit()
    path = tmp_path / "x.csv"
    path.write_text("id,a\n" + "".join(f"{'x' * 200_000}{i},{i}.5\n" for i in range(4)))
    threads = [threading.Thread(target=read_records, args=[path]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert csv.field_size_limit() == before


# Writing --------------------------------------------------------------------------------------


def test_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "out.txt"
    write_atomically(path, "old")
    os.chmod(path, 0o640)

    def fail(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new")
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]
    assert path.read_text() == "old"
    assert write_atomically(path, "näw") == path
    assert path.read_bytes() == "näw".encode()
    assert path.stat().st_mode & 0o777 == 0o640


def test_links_stay_and_devices_are_not_replaced(tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    with pytest.raises(OSError, match="'/dev/null' is not a regular file"):
        write_atomically("/dev/null", "x")
    with pytest.raises(FileNotFoundError, match=r"no such folder: .*nowhere'; make it first"):
        write_atomically(tmp_path / "nowhere" / "x", "x")

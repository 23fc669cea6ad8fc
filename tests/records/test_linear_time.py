"""Readers take time that grows with the file: four times the file, about four times the time."""

import contextlib
import gzip
import random
import time

import pytest

from outtrees.errors import RecordsError
from outtrees.records import read_records
from outtrees.records.files import read_source

DATA = (
    b"begin data; dimensions ntax=2 nchar=2; format datatype=standard; matrix x 01\n y 00; end;\n"
)


def taxa(n):
    rows = b"".join(b"t%d 01\n" % i for i in range(n))
    return (
        b"#NEXUS\nbegin data; dimensions ntax=%d nchar=2; format datatype=standard; matrix\n" % n
        + rows
        + b"; end;\n"
    )


# Name: (file, contents of size n, n). Each was quadratic in some version.
CASES = {
    "empty gzip members": ("x.csv.gz", lambda n: gzip.compress(b"") * n, 20_000),
    "gzip padding": ("x.csv.gz", lambda n: (gzip.compress(b"") + b"\0" * 99) * n, 4_000),
    "open brackets": ("x.nex", lambda n: b"#NEXUS\n" + DATA + b"[" * n, 20_000),
    "nested brackets": ("x.nex", lambda n: b"#NEXUS\n" + b"[" * n + b"]" * n + DATA, 10_000),
    "taxa": ("x.nex", taxa, 1_000),
    "comments": ("x.nex", lambda n: b"#NEXUS\n" + b"[a]" * n + DATA, 10_000),
    "quotation marks": ("x.csv", lambda n: b"id,a\n" + b'"' * n + b"\ny,1\n", 100_000),
}


def seconds(path):
    best = []
    for _ in range(3):
        begin = time.process_time()
        with contextlib.suppress(RecordsError):
            read_records(path)
        best.append(time.process_time() - begin)
    return min(best)


@pytest.mark.parametrize("name", CASES)
def test_linear(tmp_path, name):
    file, contents, n = CASES[name]
    path = tmp_path / file
    path.write_bytes(contents(20))
    seconds(path)  # imports
    path.write_bytes(contents(n))
    short = seconds(path)
    path.write_bytes(contents(4 * n))
    # 4 if linear, 16 if quadratic; the constant is for what a busy machine takes now and then.
    assert seconds(path) < 8 * short + 0.02


def test_members_of_every_size_are_joined(tmp_path):
    path = tmp_path / "x.gz"
    parts = [random.Random(n).randbytes(n) for n in (0, 1, 999, 1024, 70_000, 3_000_000, 0, 5)]
    path.write_bytes(b"".join(gzip.compress(part) + b"\0" * (len(part) % 3) for part in parts))
    assert read_source(path).data == b"".join(parts)


def test_comments_are_cut_out(tmp_path):
    path = tmp_path / "x.nex"
    path.write_bytes(b"#NEXUS\n[ntax=9 [nested]] " + DATA + b"[end]")
    assert read_records(path).ids == ("x", "y")

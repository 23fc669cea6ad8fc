"""Matrices between named records."""

import numpy as np
import pytest

from outtrees.errors import RecordsError
from outtrees.records import read_matrix


def matrix_of(tmp_path, text, name="m.csv"):
    path = tmp_path / name
    path.write_text(text)
    return read_matrix(path)


def test_columns_follow_the_rows(tmp_path):
    ids, matrix = matrix_of(tmp_path, ",b,a\na,-1.5, \nb,-inf,-3\n".replace("-inf,-3", ",-3"))
    assert ids == ("a", "b")
    assert matrix.tolist() == [[0, -1.5], [-3, 0]]


def test_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    expected = rng.normal(size=(30, 30))
    expected[3, 4] = -np.inf
    names = [f"r {i}" for i in range(30)]
    rows = [
        "\t".join([name, *map(repr, map(float, row))])
        for name, row in zip(names, expected, strict=True)
    ]
    for header in ("\t".join(["", *names]), "\t".join(names)):  # R leaves out the corner
        ids, matrix = matrix_of(tmp_path, "\n".join([header, *rows]), "m.tsv")
        assert ids == tuple(names)
        np.testing.assert_array_equal(matrix, expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",a,b\n", r"^m\.csv has no data rows"),
        (",a,b\na,0,1\n", r"^m\.csv: the first row .* only in the first row: 'b'"),
        (",a,b\na,0,1\nc,1,0\n", r"only in the first column: 'c'; only in the first row: 'b'"),
        (",a,b\na,0,1\nb,1\n", r"^m\.csv line 3: a row must be a name and 2 numbers; got 2 f"),
        (",a,b\na,0,x\nb,1,0\n", r"^m\.csv line 2, column 'b': a cell must be a number or -inf"),
        (",a,b\na,0,\nb,1,0\n", r"^m\.csv line 2, column 'b': .* Only the diagonal may be empty"),
        (",a,b\na,0,nan\nb,1,0\n", r"^m\.csv line 2, column 'b': .* got 'nan'"),
        (",a,b\na,0,inf\nb,1,0\n", r"^m\.csv line 2, column 'b': .* got 'inf'"),
        (",a,a\na,0,1\na,1,0\n", r"^m\.csv: identities must differ; .*lines 2, 3"),
        # A million names and no numbers: refused before a million squared are asked for.
        (
            "," + ",".join(map(str, range(10**5))) + "\n" + "\n".join(map(str, range(10**5))),
            "1 fie",
        ),
    ],
    ids=lambda value: value[:20],
)
def test_refused_matrices(tmp_path, text, message):
    with pytest.raises(RecordsError, match=message):
        matrix_of(tmp_path, text)


def test_distances_that_were_not_measured(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text(",a,b,c\na,,1,\nb,1,0,NA\nc,2,3,0\n")
    ids, matrix = read_matrix(path, unknown=True)
    assert ids == ("a", "b", "c")
    np.testing.assert_array_equal(matrix, [[0, 1, np.nan], [1, 0, np.nan], [2, 3, 0]])
    with pytest.raises(RecordsError, match="Only the diagonal may be empty"):
        read_matrix(path)

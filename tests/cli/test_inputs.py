"""Tables of generation times, with and without a column of times."""

import pytest

from outtrees.cli.errors import CommandError
from outtrees.cli.inputs import read_generation_time


def read(tmp_path, text):
    path = tmp_path / "w.csv"
    path.write_text(text)
    return read_generation_time(path, "utf-8", 10**6)


@pytest.mark.parametrize("text", ["w\n0.25\n0.75\n", "0.25\n0.75", '"w"\n0.25\n\n0.75\n'])
def test_one_column_begins_at_one_unit(tmp_path, text):
    chances, sentence = read(tmp_path, text)
    assert chances == [0, 0.25, 0.75]
    assert sentence == (
        "generation times of w.csv: its first entry is the probability of waiting 1 unit; "
        "mean 1.75 units"
    )


@pytest.mark.parametrize("text", ["t,w\n0,0.5\n3,1.5\n", "3\t1.5\n0\t0.5\n", "0;0.5\n3;1.5\n"])
def test_two_columns_name_their_times(tmp_path, text):
    chances, sentence = read(tmp_path, text)
    assert chances == [0.5, 0, 0, 1.5]
    assert "times from its first column" in sentence
    assert sentence.endswith("mean 2.25 units")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "w.csv has no data rows"),
        ("w\n", "w.csv has no data rows"),
        ("w\n0.5\nx\n", "w.csv line 3: all fields must be numbers; got 'x'"),
        ("0.5\n-0.5\n", "w.csv line 2: a probability must be at least 0; got -0.5"),
        ("0.5\nnan\n", "w.csv line 2: a probability must be at least 0; got nan"),
        ("0\n0\n", "all probabilities are 0"),
        ("1,2,3\n", "w.csv line 1: there must be one column (probabilities) or two (times"),
        ("1,0.5\n0.5\n", "probabilities); got 1 fields"),
        ("1.5,0.5\n", "w.csv line 1: times must be different whole numbers"),
        ("1,0.5\n1,0.5\n", "w.csv line 2: times must be different whole numbers"),
        ("20200305,1\n", "w.csv line 1: times must be"),
        ("nan,1\n", "w.csv line 1: times must be"),
    ],
)
def test_refusals(tmp_path, text, line):
    with pytest.raises(CommandError) as error:
        read(tmp_path, text)
    assert line in error.value.message


def test_it_reaches_the_model_and_is_told(ancestry, tmp_path):
    table = tmp_path / "w.csv"
    table.write_text("w\n0.1\n0.4\n0.3\n0.2\n0.2\n")
    result = ancestry("--generation-time", table)
    assert result.exit_code == 0, result.output
    assert "its first entry is the probability of waiting 1 unit; mean 3 units" in result.stdout
    assert "3 days after its parent on average (as given)" in result.stdout

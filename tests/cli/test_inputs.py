"""Tables of generation times, with and without a column of times; and of known parents."""

import pytest

from outtrees.cli.errors import CommandError
from outtrees.cli.inputs import read_generation_time, read_known_parents

pytestmark = pytest.mark.usefixtures("untried")


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
    result = ancestry("--generation-time", table, wait=())
    assert result.exit_code == 0, result.output
    assert "its first entry is the probability of waiting 1 unit; mean 3 units" in result.stdout
    assert "3 days after its parent on average (as given)" in result.stdout


# How tables are read ---------------------------------------------------------------------------


def test_tracks_and_ends_of_places(outtrees, tmp_path):
    rows = [(c, f, c + f / 10, c - f / 7) for c in (1, 2, 3, 4) for f in range(c, c + 6)]
    path = tmp_path / "film.csv"
    path.write_text("track,frame,x,y\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows))
    found = outtrees("ancestry", path, "--check").stdout
    assert "24 rows are 4 tracks ('track') over frames ('frame')" in found
    assert "last frame of each track, its end" in found
    assert "24 records" in outtrees("ancestry", path, "--check", "--no-tracks").stdout
    path.write_text("id,x,y,east,north\n" + "".join(f"r{i},{i},2,{i},3\n" for i in range(5)))
    found = outtrees("ancestry", path, "--check", "--place-end", "east,north").stdout
    assert "at the end east, north" in found


def test_the_order_of_day_and_month(outtrees, refused, tmp_path):
    path = tmp_path / "days.csv"
    path.write_text("id,onset\na,05/03/2020\nb,06/03/2020\nc,07/04/2020\n")
    assert "pass --day-first or --month-first, or write" in refused("ancestry", path, "--check")
    assert "2020-03-05 to 2020-04-07" in outtrees("ancestry", path, "--check", "--day-first").stdout
    found = outtrees("ancestry", path, "--check", "--month-first").stdout
    assert "2020-05-03 to 2020-07-04" in found


def test_a_second_date_is_left_out_with_a_sentence(outtrees, tmp_path):
    path = tmp_path / "dates.csv"
    rows = [f"c{i},2020-03-{i + 3:02d},2020-03-{i + 1:02d},2020-04-{i + 1:02d}" for i in range(9)]
    path.write_text("case,reported,onset,died\n" + "\n".join(rows))
    found = outtrees("ancestry", path, "--check")
    assert found.exit_code == 0
    assert "another date; 'onset' is used" in found.stdout
    assert "choose with kind date (--date). It is never before 'onset': if" in found.stdout
    assert "records ended then, name it as until (--until)" in found.stdout
    assert outtrees("ancestry", path, "--check", "--until", "died").exit_code == 0


@pytest.mark.parametrize("text", ["child,parent\nb,a\na,\n", "child;parent\n\nb;a\na;\n"])
def test_known_parents_are_read_with_any_delimiter(tmp_path, text):
    path = tmp_path / "known.csv"
    path.write_text(text)
    assert read_known_parents(path, {"a": 0, "b": 1}, "utf-8", 1000) == {"b": "a", "a": None}

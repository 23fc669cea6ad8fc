"""Tables as strangers write them: what is printed, and what is refused with a remedy."""

import datetime
import sys

import pytest

pytestmark = pytest.mark.usefixtures("untried")
DAYS = [datetime.date(2020, 3, 1) + datetime.timedelta(days=3 * i) for i in range(12)]
IDS = [f"case{i:02}" for i in range(12)]
WAIT = ("--waiting-mean", 4, "--waiting-sd", 2)


@pytest.fixture
def checked(outtrees, tmp_path):
    """Write a table and have it checked; returns what is printed."""

    def of(*options, code=0, **columns):
        path = tmp_path / "table.csv"
        rows = zip(*({"case": IDS} | columns).values(), strict=True)
        lines = [",".join(["case", *columns]), *(",".join(map(str, row)) for row in rows)]
        path.write_text("\n".join(lines), encoding="utf-8")
        result = outtrees("ancestry", path, *options, "--check")
        assert result.exit_code == code, result.output
        return result.output

    return of


def kinds(text):
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("column "))
    return {line.split()[0]: line.split()[1] for line in lines[begin + 1 :] if line.strip()}


@pytest.mark.parametrize("form", ["%d %b %Y", "%d-%B-%Y", "%b %d %Y"])
def test_months_may_be_words(checked, form):
    text = checked(*WAIT, onset=[day.strftime(form) for day in DAYS])
    assert kinds(text)["onset"] == "date"
    assert "2020-03-01 to 2020-04-03" in text


def test_dates_that_cannot_be_read_are_named(checked):
    """Years of two digits could be of two centuries: no date, and no category either."""
    short = [day.strftime("%d.%m.%y") for day in DAYS[:6]] * 2
    text = checked(onset=short, ward=["N", "S"] * 6)
    assert kinds(text)["onset"] == "ignored"
    assert "called a date, but '01.03.20' is not written as 2020-03-05" in text
    text = checked(*WAIT, onset=short, ward=["N", "S"] * 6, code=2)
    assert "a column of dates, but there is none; 'onset' is called a date, but '01.03" in text
    one = [day.isoformat() for day in DAYS[:-1]] + ["about Easter"]
    assert "called a date, but 'about Easter' is not" in checked(onset=one, ward=["N", "S"] * 6)


def test_numbers_that_name_are_no_evidence(checked):
    iso = [day.isoformat() for day in DAYS]
    passport = [20481234 + 7_654_321 * i for i in range(12)]
    income = [20_000 + 1_234 * (7 * i % 12) for i in range(12)]
    found = kinds(checked(onset=iso, passport=passport, income=income))
    assert found["passport"] == "ignored"
    assert found["income"] == "continuous"


def test_words_for_unknown_are_asked_about(checked):
    iso = [day.isoformat() for day in DAYS]
    sex, where = ["F", "M", "unknown"] * 4, ["N", "S", "Not attributed"] * 4
    text = checked(onset=iso, sex=sex, region=where)
    assert "'unknown' counts as a value like others" in text
    assert "pass --na 'Not attributed'" in text
    text = checked("--na", "unknown", "--na", "Not attributed", onset=iso, sex=sex, region=where)
    assert "counts as a value like others" not in text


def test_a_library_that_is_not_installed_is_no_fault(refused, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "cases.xlsx").write_bytes(b"PK\x03\x04 and so on")
    said = refused("ancestry", tmp_path / "cases.xlsx")
    assert "pip install 'outtrees[excel]'" in said
    assert "fault of the program" not in said


def test_long_times_are_written_out(outtrees, tmp_path):
    path = tmp_path / "books.csv"
    rows = [f"b{i},{1900 + 4 * i}-05-01,{'NS'[i % 2]}" for i in range(10)]
    path.write_text("\n".join(["book,date,town", *rows]), encoding="utf-8")
    result = outtrees("ancestry", path, "--waiting-mean", 1500, "--waiting-sd", 400)
    assert "a child comes 1,500 ± 400 days after its parent" in result.stdout
    path.write_text(path.read_text().replace("-05-01", "").replace("date", "year"))
    result = outtrees("ancestry", path, "--waiting-mean", 4, "--waiting-sd", 1)
    assert "a child comes 4 ± 1 years after its parent" in result.stdout

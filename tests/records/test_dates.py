"""Dates in days, beside the standard library and pandas."""

from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outtrees.errors import RecordsError
from outtrees.records import read_records


def dates_of(*cells):
    return read_records({"when": list(cells)}, kinds={"when": "date"}).column("when")


@settings(deadline=None, max_examples=50)
@given(st.lists(st.dates(), min_size=1, max_size=20))
def test_calendar_dates_are_days_since_1970(days):
    column = dates_of(*[day.isoformat() for day in days])
    assert column.calendar
    assert column.uncertainty is None
    expected = [(day - date(1970, 1, 1)).days for day in days]
    assert column.values[:, 0].tolist() == expected


@settings(deadline=None, max_examples=50)
@given(st.lists(st.datetimes(min_value=datetime(1, 1, 2)), min_size=1, max_size=20))
def test_times_are_parts_of_a_day(times):
    column = dates_of(*[time.isoformat(timespec="microseconds") for time in times])
    expected = [(time - datetime(1970, 1, 1)) / timedelta(days=1) for time in times]
    # Days of this millennium are about 2e4; a microsecond is 1e-11 of a day.
    np.testing.assert_allclose(column.values[:, 0], expected, rtol=1e-15, atol=2e-12)


def test_zones_and_spellings():
    column = dates_of(
        "2020-03-05T12:00Z", "2020-03-05T14:00+02:00", "2020-03-05 07:00-0500", "2020-3-5 12:00"
    )
    assert column.values[:, 0].tolist() == [18326.5] * 4


@pytest.mark.parametrize("cell", ["2020-02", "2019-02", "2020-12", "2020", "1900", "2021-01"])
def test_partial_dates_hold_exactly_their_days(cell):
    column = dates_of(cell, "2020-03-05")
    middle, half = column.values[0, 0], column.uncertainty[0]
    period = pd.Period(cell)
    first = (period.start_time - pd.Timestamp(0)).days
    last = (period.end_time - pd.Timestamp(0)).days
    assert (middle - half, middle + half) == (first, last)
    assert column.uncertainty[1] == 0


def test_uncertainty_in_days():
    column = dates_of("2020-03-05 ± 3", "2020-03-05 +/- 0.5", "", "2020-03-05")
    assert column.uncertainty.tolist() == [3, 0.5, 0, 0]
    column = dates_of("12 ± 2", "13")
    assert column.values[:, 0].tolist() == [12, 13]
    assert column.uncertainty.tolist() == [2, 0]
    assert column.take([1, 0]).uncertainty.tolist() == [0, 2]
    assert read_records({"a": ["2020-03-05 ± 3", "2020-04"]}).column("a").kind == "date"


def test_numbers_stay_numbers():
    column = dates_of("0", "3.5", "-2", "2020")
    assert not column.calendar
    assert column.values[:, 0].tolist() == [0, 3.5, -2, 2020]
    assert not dates_of("2019", "2020").calendar  # bare years
    assert dates_of("2019", "2020-05").calendar  # beside calendar dates


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["05.03.2020", "17.03.2020"], "2020-03-05"),
        (["05/03/2020", "17/03/2020"], "2020-03-05"),
        (["05/03/2020", "03/17/2020"], "2020-05-03"),
        (["05/05/2020", "7.7.2020"], "2020-05-05"),
        (["5/3/2020", "2020-01-01", "31.12.2019"], "2020-03-05"),
    ],
)
def test_day_and_month_when_the_column_tells(cells, expected):
    column = dates_of(*cells)
    assert column.values[0, 0] == (date.fromisoformat(expected) - date(1970, 1, 1)).days


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["01.01.2020", "05.03.2020", "06.03.2020"],
            r"row 1, column 'when': '05.03.2020' may be either .* write dates as 2020-03-05",
        ),
        (
            ["17/03/2020", "01/02/2020", "03/17/2020"],
            r"row 0, .*'17/03/2020' puts the day first, but '03/17/2020' \(row 2\) the month; writ",
        ),
        (["2020-01-01", "2020-02-30"], r"row 1, .*'2020-02-30' is not a date \(day is out of ran"),
        (["2020-01-01", "2020-13"], r"row 1, .*'2020-13' is not a date \(month must be in 1..12"),
        (["2020-01-01", "2020-01-01T25:00"], r"row 1, .* \(there is no 25:00 o'clock\)"),
        (["2020-01-01", "yesterday"], r"row 1, .*'yesterday' is not a date; write dates as"),
        (["40/40/2020", "2020-01-01"], r"row 0, .*'40/40/2020' is not a date \(month must be"),
        (["0000-01-01", "2020-01-01"], r"row 0, .*'0000-01-01' is not a date \(year 0 is out of"),
        (["1", "2", "3", "x"], r"row 3, .*'x' is not a number like the other dates; write all"),
        (["1", "inf"], r"row 1, .*'inf' is infinite"),
        (["٢٠٢٠-٠١-٠١", "2020-01-01"], r"row 0, .* is not a date"),
    ],
)
def test_refused_dates(cells, message):
    with pytest.raises(RecordsError, match=message):
        dates_of(*cells)


def test_ambiguous_dates_are_refused_without_being_asked_for():
    with pytest.raises(RecordsError, match="may be either day or month first"):
        read_records({"when": ["05.03.2020", "06.03.2020"]})
    records = read_records({"when": ["05.03.2020", "06.03.2020"]}, kinds={"when": "ignore"})
    assert records.ignored == ("when",)


# Years, ranges, and the order of day and month ------------------------------------------------


def test_years_are_dates_where_the_name_says_so():
    table = {"year": [2009, 2013, 2011, 2009], "length": [1999, 2001, 2003, 2005]}
    records = read_records(table)
    assert {c.name: c.kind for c in records.columns} == {"year": "date", "length": "continuous"}
    year = records.column("year")
    assert not year.calendar
    assert year.reason == "years"
    assert year.unit_of_time == "years"  # and so is a waiting time that is stated
    assert year.values[:, 0].tolist() == [2009, 2013, 2011, 2009]
    assert read_records({"phd_year": [1909, 1913, 1911]}).column("phd_year").kind == "date"
    assert read_records({"school_year": [3, 12, 7, 3, 1, 9]}).column("school_year").kind != "date"
    assert read_records({"day": [3, 4]}).column("day").unit_of_time == "units of time"
    assert read_records({"on": ["2020-03-05", "2020-03"]}).column("on").unit_of_time == "days"
    # Numbers that are no years stay numbers.
    assert not read_records({"date": [3, 2009, 17, 4]}).column("date").calendar


@pytest.mark.parametrize(
    ("cell", "first", "last"),
    [
        ("2009–2013", date(2009, 1, 1), date(2013, 12, 31)),
        ("2009-2013", date(2009, 1, 1), date(2013, 12, 31)),
        ("2009 — 2013", date(2009, 1, 1), date(2013, 12, 31)),
        ("2020-03-05/2020-03-09", date(2020, 3, 5), date(2020, 3, 9)),
        ("2020-03-05 to 2020-04", date(2020, 3, 5), date(2020, 4, 30)),
    ],
)
def test_ranges_are_uncertain_dates(cell, first, last):
    column = read_records({"copied": [cell, "2014", "2015"]}).column("copied")
    assert column.kind == "date"
    begin, end = ((day - date(1970, 1, 1)).days for day in (first, last))
    assert column.values[0, 0] - column.uncertainty[0] == begin
    assert column.values[0, 0] + column.uncertainty[0] == end


def test_ranges_that_run_backwards_are_refused():
    with pytest.raises(RecordsError, match="ends before it begins"):
        dates_of("2013-2009", "2014-01-01")


def test_day_or_month_first():
    cells = {"onset": ["05/03/2020", "06/03/2020", "07/04/2020"]}
    with pytest.raises(RecordsError, match="pass day_first=True or day_first=False, or write"):
        read_records(cells)
    days = read_records(cells, day_first=True).column("onset").values[:, 0]
    months = read_records(cells, day_first=False).column("onset").values[:, 0]
    epoch = date(1970, 1, 1)
    assert days[0] == (date(2020, 3, 5) - epoch).days
    assert months[0] == (date(2020, 5, 3) - epoch).days
    cells["onset"][0] = "25/03/2020"
    assert read_records(cells, day_first=True).column("onset").values[0, 0] == days[0] + 20
    with pytest.raises(RecordsError, match="'25/03/2020' puts the day first, but day_first=False"):
        read_records(cells, day_first=False)

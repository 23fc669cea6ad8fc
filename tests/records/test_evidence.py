"""Each fact counts once as evidence of ancestry: one date, no column that follows from another."""

import numpy as np
import pytest

from outtrees import Ancestry
from outtrees.records import read_records
from outtrees.records.evidence import as_evidence, begin_where_others_end

T = 60


def evidence(table, aside=(), **options):
    return as_evidence(read_records(table, **options), aside)


def names(records):
    return [column.name for column in records.columns]


def reason(records, name):
    return next(why for column, _, why in records.roles if column == name)


def days(numbers):
    return [str(np.datetime64("2020-03-01") + int(n)) for n in numbers]


def outbreak(seed=0):
    rng = np.random.default_rng(seed)
    household = rng.integers(0, 20, T)
    sites = rng.normal(size=(20, 2))
    onset = np.sort(rng.integers(0, 90, T))
    return (
        rng,
        {
            "case": [f"c{i}" for i in range(T)],
            "onset": days(onset),
            "household": 100 + household,
            "x": sites[household, 0],
            "y": sites[household, 1],
            "age": rng.integers(0, 80, T),
        },
        household,
    )


# Dates ---------------------------------------------------------------------------------------


def test_one_of_several_dates_stays():
    rng, table, _ = outbreak()
    onset = np.array(table.pop("onset"), dtype="M8[D]")
    table["notified"] = [str(d) for d in onset + rng.integers(1, 5, T)]
    table["sample_date"] = [str(d) for d in onset + rng.integers(-1, 3, T)]
    table["date_onset"] = [str(d) for d in onset]
    table["date_of_death"] = [str(d) for d in onset + rng.integers(5, 9, T)]
    found = evidence(table)
    assert [c.name for c in found.columns if c.kind == "date"] == ["date_onset"]
    assert "'date_onset' is used" in reason(found, "notified")
    assert "--until" not in reason(found, "notified")
    assert "name it as until (--until)" in reason(found, "date_of_death")
    assert set(found.ignored) >= {"notified", "sample_date", "date_of_death"}
    # Without an onset the sample comes before the report.
    assert "sample_date" in names(evidence({k: v for k, v in table.items() if k != "date_onset"}))
    # What is asked for is used, and what is put aside stays.
    asked = evidence(table, kinds={"notified": "date"})
    assert [c.name for c in asked.columns if c.kind == "date"] == ["notified"]
    kept = evidence(table, aside=["date_of_death"])
    assert [c.name for c in kept.columns if c.kind == "date"] == ["date_onset", "date_of_death"]


def test_without_words_the_first_date_stays():
    table = {"a": days(range(5)), "b": days(range(3, 8))}
    assert names(evidence(table)) == ["a"]


def test_uncertainty_of_dates_in_a_column():
    rng, table, _ = outbreak()
    table["days_uncertain"] = rng.choice([0, 7, 14, 28], T)
    found = evidence(table)
    assert "days_uncertain" not in names(found)
    assert ("days_uncertain", "uncertainty", "± days of 'onset', by its name") in found.roles
    np.testing.assert_array_equal(found.column("onset").uncertainty, table["days_uncertain"])
    # Without dates it is a column like others.
    del table["onset"]
    assert "days_uncertain" in names(evidence(table))


# Columns that follow from others -------------------------------------------------------------


def test_a_place_of_households_counts_once():
    _, table, _ = outbreak()
    found = evidence(table)
    assert names(found) == ["onset", "place", "age"]
    assert reason(found, "household") == "one-to-one with 'place', counted once"
    # The one that is asked for stays; two that are asked for both stay.
    asked = {"household": "categorical"}
    assert names(evidence(table, kinds=asked)) == ["onset", "household", "age"]
    both = evidence(table, kinds=asked, places={"place": ("x", "y")})
    assert names(both) == ["onset", "household", "place", "age"]


def test_a_place_much_coarser_than_households_goes():
    _, table, household = outbreak()
    village = np.array([[0.0, 0.0], [3.0, 4.0]])[household % 2]
    table["x"], table["y"] = village[:, 0], village[:, 1]
    found = evidence(table)
    assert names(found) == ["onset", "household", "age"]
    assert reason(found, "place") == "follows from 'household', counted once"


def test_classes_of_ages_go():
    _, table, _ = outbreak()
    table["stage"] = np.where(table["age"] < 18, "child", "adult")
    table["age_months"] = 12 * table["age"]
    found = evidence(table)
    assert names(found) == ["onset", "place", "age"]
    assert reason(found, "stage") == "follows from 'age', counted once"
    table["class"] = table["stage"]  # pupils of one age, but they also meet
    assert "class" in names(evidence(table))


def test_weeks_of_dates_go():
    _, table, _ = outbreak()
    when = np.array(table["onset"], dtype="M8[D]")
    table["epiweek"] = (when - when.min()).astype(int) // 7
    assert names(evidence(table)) == ["onset", "place", "age"]


def test_areas_in_areas():
    _, table, household = outbreak()
    del table["x"], table["y"]
    table["county"] = np.array(list("ABCD"))[household % 4]
    assert names(evidence(table)) == ["onset", "household", "age"]
    # Of households that hardly recur the county says more.
    rare = np.arange(T)
    rare[1::5] = rare[::5]
    table["household"], table["county"] = 100 + rare, np.array(list("ABCD"))[rare % 4]
    found = evidence(table)
    assert "county" in names(found)


def test_what_people_give_each_other_is_no_definition():
    """Members of a household have one genotype because they infected each other."""
    _, table, household = outbreak()
    table["genotype"] = np.array(list("ABC"))[household % 3]
    assert names(evidence(table)) == ["onset", "place", "age", "genotype"]
    # Characters with the same pattern are separate changes.
    rng = np.random.default_rng(1)
    first = rng.integers(0, 2, T)
    table = {"s1": first, "s2": 1 - first, "s3": first * rng.integers(1, 3, T)}
    assert names(evidence(table)) == ["s1", "s2", "s3"]


def test_independent_columns_stay():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table = {
            "ward": rng.integers(1, 5, T),
            "county": rng.choice(list("AB"), T),
            "age": rng.integers(0, 80, T),
            "dose": rng.normal(size=T),
            "sex": rng.choice(["f", "m"], T),
            "x": rng.normal(size=T),
            "y": rng.normal(size=T),
        }
        assert len(evidence(table).columns) == 6


# Ends ----------------------------------------------------------------------------------------


def dividing(seed, gap=1, film=70, first=3):
    """Return when cells begin and end that divide until a film ends, and their mothers."""
    rng = np.random.default_rng(seed)
    begin, end, mother = list(np.round(rng.uniform(0, 12, first))), [], [-1] * first
    for cell in range(10**6):
        if cell == len(begin):
            break
        last = begin[cell] + max(4, round(rng.normal(14, 3)))
        end.append(min(last, film))
        if last + gap < film and rng.random() < 0.95:
            begin += [last + gap] * 2
            mother += [cell] * 2
    return np.array(begin), np.array(end), np.array(mother)


@pytest.mark.parametrize("gap", [0, 1])
def test_records_that_begin_where_others_end_have_ends(gap):
    """As cells divide; not after their lengths are exchanged, nor in an outbreak."""
    found = 0
    for seed in range(5):
        begin, end, _ = dividing(seed, gap)
        one, rng = np.zeros(len(begin), dtype=np.intp), np.random.default_rng(seed)
        found += begin_where_others_end(begin, end, one)
        assert not begin_where_others_end(begin, begin + rng.permutation(end - begin), one)
        onset = np.sort(rng.integers(0, 60, 150)).astype(float)
        well = onset + np.round(rng.gamma(9, 1, 150))
        assert not begin_where_others_end(onset, well, np.zeros(150, dtype=np.intp))
        assert not begin_where_others_end(begin, begin - 1, one)
    assert found >= 4


def test_ends_are_named_and_used():
    begin, end, mother = dividing(1)
    rng = np.random.default_rng(0)
    place = np.zeros((len(begin), 2))
    for cell, v in enumerate(mother):
        place[cell] = rng.uniform(0, 60, 2) if v < 0 else place[v] + rng.normal(0, 2, 2)
    table = {"cell": [f"c{i}" for i in range(len(begin))], "birth": begin, "last": end}
    table |= {"x": place[:, 0], "y": place[:, 1]}
    records = as_evidence(read_records(table, id="cell"))
    assert records.until == "last"
    assert records.column("last").kind == "date"
    assert "others begin ('birth') where one ended" in records.column("last").reason
    asked = as_evidence(read_records(table, id="cell", kinds={"last": "continuous"}))
    assert asked.until is None
    found = Ancestry(id="cell", random_state=0).fit(table)
    supports = found.fitted.support_of
    right = sum(supports.get((u, v), 0.0) > 0.5 for u, v in enumerate(mother) if v >= 0)
    assert right > 0.7 * (mother >= 0).sum()

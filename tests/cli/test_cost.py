"""A run that does not fit is refused, and how long one takes is estimated."""

import json
from itertools import pairwise

import pytest

from outtrees.candidates.plan import dense_bytes
from outtrees.cli.cost import Cost, Timed, by_trials, only_checked
from outtrees.cli.errors import exit_code, one_line
from outtrees.cli.screen import Screen

GB = 10**9


def test_refusal_names_both_sizes(monkeypatch):
    monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: 21 * GB)
    cost = Cost("ancestry of 60,000 records", [60_000], dense_bytes([60_000], 7), 1, "Do less.")
    with pytest.raises(MemoryError) as error:
        only_checked(Screen(quiet=True), cost, check=False)
    assert exit_code(error.value) == 4
    assert one_line(error.value) == (
        "ancestry of 60,000 records needs about 201.6 GB of memory; 21.0 GB are free. Do less."
    )
    assert not only_checked(Screen(quiet=True), cost._replace(memory=21 * GB), check=False)
    monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: None)
    assert not only_checked(Screen(quiet=True), cost, check=False)


def test_time_grows_with_the_records_and_shrinks_with_groups(monkeypatch):
    ticks = iter(range(10**6))  # one second for each trial
    monkeypatch.setattr("time.process_time", lambda: next(ticks))
    monkeypatch.setattr("outtrees.cli.cost._PROBE", 30)
    whole, larger, split = (
        Cost("", groups, 0, 1).seconds() for groups in ([30], [300], [150, 150])
    )
    assert whole == pytest.approx(1)
    assert larger == pytest.approx((1000 + 100) / 2)
    assert split == pytest.approx(125 + 25)


@pytest.mark.parametrize("command", [["label", "--label", "species"], ["impute"], ["density"]])
def test_check_runs_nothing(outtrees, mixed, monkeypatch, command):
    mixed.write_text(mixed.read_text().replace("t5,,", "t5,9.5,"))
    for name in ("density.OutTreeDensity", "labels.classifier.OutTreeClassifier"):
        monkeypatch.setattr(f"outtrees.{name}.fit", None, raising=False)
    result = outtrees(*command, mixed, "--check", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["check"]["fits"] is True
    assert "checked only; nothing was written" in result.stderr


@pytest.mark.parametrize("power", [1, 2, 3])
def test_trials_find_out_how_the_time_grows(monkeypatch, power):
    clock, sizes = [0.0], []
    monkeypatch.setattr("time.process_time", lambda: clock[0])

    def trial(rows):
        assert len(set(rows.tolist())) == len(rows)
        sizes.append(len(rows))
        clock[0] += 0.2 * (len(rows) / 40) ** power

    seconds, last, _ = by_trials(400, trial)
    assert seconds == pytest.approx(0.2 * 10**power)
    assert sizes[:3] == [40, 40, 80]  # the first compiles
    assert last == sizes[-1] < 400
    assert sum(sizes) < 3 * 400
    clock[0] = 7.0  # what was spent before counts too
    # Above 400 records parameters are learned from some of them.
    assert by_trials(4000, trial)[0] == pytest.approx(7 + 0.2 * 10**power * 10)


def test_sums_over_trees_are_added_where_fits_of_few_records_do_not_feel_them(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.process_time", lambda: clock[0])

    def seconds(n):
        return 0.5 + n / 100 + engine(n)

    def engine(n):
        return (n / 100) ** 3 / 20

    def trial(rows):
        clock[0] += seconds(len(rows))

    found = by_trials(1000, trial, engine)
    assert found.records <= 160
    assert 0.5 < found.seconds / seconds(1000) < 2
    clock[0] = 0.0
    assert by_trials(1000, trial).seconds < seconds(1000) / 2


def test_trials_that_fail_leave_the_estimate_to_the_engine_and_say_why():
    def trial(rows):
        raise ValueError("no column left")

    assert by_trials(100, trial) == Timed(None, 100, "no column left")


def test_a_trial_of_few_records_that_fails_is_repeated_with_more():
    def trial(rows):
        if len(rows) < 160:
            raise ValueError("too few")

    found = by_trials(200, trial)
    assert found.seconds > 0
    assert (found.records, found.failure) == (200, "")


def test_check_says_why_a_trial_failed(outtrees, mixed, monkeypatch):
    def fails(self, X):
        raise ValueError("no column left")

    mixed.write_text(mixed.read_text().replace("t5,,", "t5,9.5,"))
    monkeypatch.setattr("outtrees.density.OutTreeDensity.fit", fails)
    result = outtrees("density", mixed, "--check")
    assert result.exit_code == 0, result.output
    assert "a trial fit of all of the records failed" in result.stderr
    assert "the fit said: no column left" in result.stderr
    assert "time: about" in result.stdout


def test_trials_are_given_the_contacts_among_their_records(outtrees, tmp_path):
    names = [f"c{i:02}" for i in range(60)]
    table, contacts = tmp_path / "cases.csv", tmp_path / "contacts.csv"
    table.write_text("case\n" + "\n".join(names) + "\n")
    pairs = [f"{a},{b}" for a, b in pairwise(names)]
    contacts.write_text("from,to\n" + "\n".join(pairs) + "\n")
    result = outtrees("ancestry", table, "--id", "case", "--contacts", contacts, "--check")
    assert result.exit_code == 0, result.output
    assert "by fits of up to 60 of the records" in result.stdout
    assert "failed" not in result.stderr

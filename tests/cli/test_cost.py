"""A run that does not fit is refused, and how long one takes is estimated."""

import json

import pytest

from outtrees.cli.cost import Cost, dense_memory, refuse_too_large
from outtrees.cli.errors import CommandError

GB = 10**9


def test_refusal_names_both_sizes():
    with pytest.raises(CommandError) as error:
        refuse_too_large("ancestry of 60,000 records", dense_memory(60_000), 21 * GB, "Do less.")
    assert error.value.exit_code == 4
    assert error.value.message == (
        "ancestry of 60,000 records needs about 201.6 GB of memory; 21.0 GB are free. Do less."
    )
    refuse_too_large("it", 21 * GB, 21 * GB, "")
    refuse_too_large("everything", 10**18, None, "")


def test_time_grows_with_the_records_and_shrinks_with_groups(monkeypatch):
    ticks = iter(range(10**6))  # one second for each trial
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks))
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
    assert "checked only; nothing was run" in result.stderr

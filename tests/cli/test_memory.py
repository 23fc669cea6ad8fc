"""How much memory is left, by the machine and by its control groups."""

import pytest

from outtrees._common.memory import free_memory
from outtrees.cli.cost import Cost, dense_memory
from outtrees.cli.failing import CommandError
from outtrees.cli.memory import refuse_too_large

GB = 10**9


@pytest.fixture
def machine(tmp_path):
    def make(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


MEMINFO = {"proc/meminfo": "MemTotal: 9000000 kB\nMemFree: 1 kB\nMemAvailable: 8000000 kB\n"}


def test_without_control_groups(machine):
    assert free_memory(machine(MEMINFO)) == 8_000_000 * 1024


def test_version_2_with_a_limit_further_up(machine):
    root = machine(
        {
            **MEMINFO,
            "proc/self/cgroup": "0::/jobs/mine\n",
            "sys/fs/cgroup/jobs/mine/memory.max": "max\n",
            "sys/fs/cgroup/jobs/mine/memory.current": "5\n",
            "sys/fs/cgroup/jobs/memory.max": f"{3 * GB}\n",
            "sys/fs/cgroup/jobs/memory.current": f"{GB}\n",
        }
    )
    assert free_memory(root) == 2 * GB


def test_version_1(machine):
    root = machine(
        {
            **MEMINFO,
            "proc/self/cgroup": "5:cpu:/\n4:memory:/container\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GB // 2}\n",
        }
    )
    assert free_memory(root) == 3 * GB // 2


def test_a_container_that_sees_only_its_own_group(machine):
    root = machine(
        {
            **MEMINFO,
            "proc/self/cgroup": "0::/host/path/of/container\n",
            "sys/fs/cgroup/memory.max": f"{GB}\n",
            "sys/fs/cgroup/memory.current": f"{2 * GB}\n",
        }
    )
    assert free_memory(root) == 0  # already over its limit


def test_a_system_that_does_not_say(tmp_path):
    assert free_memory(tmp_path) is None
    refuse_too_large("everything", 10**18, None, "")


def test_this_machine_answers_or_not():
    free = free_memory()
    assert free is None or free > 0


def test_refusal_names_both_sizes():
    with pytest.raises(CommandError) as error:
        refuse_too_large("ancestry of 60,000 records", dense_memory(60_000), 21 * GB, "Do less.")
    assert error.value.exit_code == 4
    assert error.value.message == (
        "ancestry of 60,000 records needs about 201.6 GB of memory; 21.0 GB are free. Do less."
    )
    refuse_too_large("it", 21 * GB, 21 * GB, "")


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

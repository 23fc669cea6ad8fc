"""How much memory is free, by the machine, its control groups and the limits of the process."""

import subprocess
import sys

import pytest

from outtrees._common.memory import check_memory, free_memory
from outtrees.errors import Message, Option

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


LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max data size             {data}            unlimited            bytes
Max address space         {address}           unlimited            bytes
"""


@pytest.mark.parametrize(
    ("data", "address", "free"),
    [
        ("unlimited", 3 * GB, 3 * GB - 1024**3),
        (2 * GB, "unlimited", 2 * GB - 1024**2),
        (2 * GB, 3 * GB, min(3 * GB - 1024**3, 2 * GB - 1024**2)),
        ("unlimited", "unlimited", 8_000_000 * 1024),
        ("unlimited", 1000, 0),
    ],
)
def test_limits_of_the_process(machine, data, address, free):
    root = machine(
        {
            **MEMINFO,
            "proc/self/limits": LIMITS.format(data=data, address=address),
            "proc/self/status": f"Name:\tpython\nVmSize:\t{1024**2} kB\nVmData:\t1024 kB\n",
        }
    )
    assert free_memory(root) == free


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v is a limit on Linux")
def test_ulimit_v_is_asked():
    """A real limit: half a GB more than the process has."""
    code = (
        "import resource\n"
        "from outtrees._common.memory import free_memory\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 5 * 10**8, -1))\n"
        "print(free_memory())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(run.stdout) <= 5 * 10**8


def test_a_system_that_does_not_say(tmp_path):
    assert free_memory(tmp_path) is None
    check_memory("everything needs", 10**18, "", None)


def test_this_machine_answers_or_not():
    free = free_memory()
    assert free is None or free > 0


def test_refusal_names_both_sizes_and_the_remedy(monkeypatch):
    remedy = Message("Use ", Option("candidates", "knn"), ".")
    with pytest.raises(MemoryError) as error:
        check_memory("all pairs need", 200 * GB, remedy, 21 * GB)
    text = "all pairs need about 200.0 GB of memory; 21.0 GB are free. Use candidates='knn'."
    assert str(error.value) == text
    assert error.value.args[0].options == (Option("candidates", "knn"),)
    check_memory("it needs", 21 * GB, "", 21 * GB)
    monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"1\.0 kB are free"):
        check_memory("it needs", 1001, "")

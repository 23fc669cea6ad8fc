"""A Dask scheduler and its workers, processes of their own on this machine's loopback."""

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

TESTS = Path(__file__).parent


class Cluster:
    """The address of a scheduler, and the processes of its workers."""

    def __init__(self, address, scheduler, stack, folder):
        self.address = address
        self.scheduler = scheduler
        self.workers = []
        self._stack = stack
        self._folder = folder

    def add_workers(self, n):
        """Start n workers, one thread each, that nobody starts again when they die."""
        options = "--no-nanny --nthreads 1 --host 127.0.0.1 --memory-limit 0 --death-timeout 60"
        for _ in range(n):
            log = self._folder / f"worker{len(self.workers)}"
            worker = _process("worker", self.address, *options.split(), log=log, cwd=self._folder)
            self.workers.append(self._stack.enter_context(worker))

    def kill(self, pid):
        """Kill, without warning, the worker of that process."""
        (worker,) = (one for one in self.workers if one.pid == pid)  # nothing else, ever
        worker.kill()
        worker.wait()


@contextmanager
def cluster(folder, n_workers=2, allowed_failures=3):
    """Yield a cluster that ends with the block; a task survives so many workers."""
    file = Path(folder) / "scheduler.json"
    with ExitStack() as stack:
        # The scheduler picks a free port and writes its address down once it listens.
        options = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", file]
        log = Path(folder) / "scheduler"
        scheduler = stack.enter_context(
            _process("scheduler", *options, log=log, cwd=folder, allowed_failures=allowed_failures)
        )
        running = Cluster(_address(file, scheduler), scheduler, stack, Path(folder))
        running.add_workers(n_workers)
        yield running


def _address(file, process):
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            return json.loads(file.read_text())["address"]
        except (FileNotFoundError, ValueError):  # not there yet, or not all of it
            time.sleep(0.05)
    raise RuntimeError("the scheduler did not start; see its log")


@contextmanager
def _process(role, *arguments, log, cwd, allowed_failures=3):
    environment = os.environ | {
        # Where the work for the tests is imported from, and the package if it is not installed.
        "PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")])),
        "OPENBLAS_NUM_THREADS": "1",
        "DASK_TEMPORARY_DIRECTORY": str(cwd),
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(allowed_failures),
    }
    command = [
        sys.executable,
        "-m",
        "dask",
        role,
        "--dashboard-address",
        "127.0.0.1:0",
        *map(str, arguments),
    ]
    with (
        open(log, "wb") as file,
        subprocess.Popen(command, stdout=file, stderr=file, env=environment, cwd=cwd) as process,
    ):
        try:
            yield process
        finally:
            process.kill()

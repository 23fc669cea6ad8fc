"""Two Dask workers are at least 1.7 times as fast as one: 64 populations of 500 records.

Each population is a unit of work: `Ancestry` without dates (places and wards), that is EM with a
dense sum over all trees in every iteration, to convergence or --max-iter. One scheduler and the
workers are processes on this machine, one thread each, BLAS too; with 2 cores, client and
scheduler share them. Each number of workers gets a warm-up, so that imports are not timed; runs
take turns. All runs must write the same bytes. Below the table: how much of the processors the way
to the workers and back takes, which bounds the ratio on a machine with 2 cores.
Run: python benchmarks/scale_dask.py [--populations 64] [--records 500] [--max-iter 100]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from outtrees import Ancestry
from outtrees.ancestry.populations import fit_populations
from outtrees.records import read_records

WANTED = 1.7


def table(n_populations: int, n_records: int) -> dict[str, list[Any]]:
    """Return walks in the plane with wards that stick, without dates."""
    rng = np.random.default_rng(0)
    columns: dict[str, list[Any]] = {"id": [], "site": [], "x": [], "y": [], "ward": []}
    for population in range(n_populations):
        place, ward = np.zeros((n_records, 2)), np.zeros(n_records, dtype=int)
        for i in range(1, n_records):
            parent = rng.integers(max(0, i - 50), i)
            place[i] = place[parent] + rng.normal(size=2)
            ward[i] = ward[parent] if rng.random() < 0.8 else rng.integers(4)
        columns["id"] += [f"{population}-{i}" for i in range(n_records)]
        columns["site"] += [f"site {population:03}"] * n_records
        columns["x"] += place[:, 0].tolist()
        columns["y"] += place[:, 1].tolist()
        columns["ward"] += [f"ward {k}" for k in ward]
    return columns


@contextmanager
def process(*arguments: Any) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "dask", *map(str, arguments)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet, env=environment) as running:
        try:
            yield running
        finally:
            running.kill()


@contextmanager
def cluster(n_workers: int) -> Iterator[str]:
    """Yield the address of a scheduler with so many workers, processes of their own."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file, any_port = Path(folder) / "scheduler.json", ("--dashboard-address", "127.0.0.1:0")
        where = ("--host", "127.0.0.1", "--port", 0, "--scheduler-file", file)
        stack.enter_context(process("scheduler", *where, *any_port))
        while not file.exists() or not file.read_text().endswith("}"):
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        here = ("--host", "127.0.0.1", "--local-directory", folder)
        for _ in range(n_workers):
            options = ("--nthreads", 1, "--no-nanny", "--memory-limit", 0)
            stack.enter_context(process("worker", address, *options, *here, *any_port))
        wait_for(address, n_workers)
        yield address


def wait_for(address: str, n_workers: int) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(n_workers, timeout=120)
        client.run(__import__, "outtrees.ancestry.populations")  # on every worker


def seconds(address: str, records: Any, max_iter: int, inside: str) -> tuple[float, Path]:
    """Return the time of a whole run, from records to merged tables, and its folder."""
    out = Path(tempfile.mkdtemp(dir=inside))
    model = Ancestry(max_iter=max_iter, random_state=0)
    begin = time.perf_counter()
    found = fit_populations(model, records, out=out, scheduler=address)
    assert not found.failures, found.failures
    return time.perf_counter() - begin, out


def processor_seconds() -> dict[str, float]:
    """Return what the client and schedulers, and what the workers have used so far."""
    import psutil

    used = {"way": sum(psutil.Process().cpu_times()[:2]), "workers": 0.0}
    for child in psutil.Process().children():
        role = "workers" if "worker" in child.cmdline() else "way"
        used[role] += sum(child.cpu_times()[:2])
    return used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--populations", type=int, default=64)
    parser.add_argument("--records", type=int, default=500)
    parser.add_argument("--max-iter", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    size = (options.populations, options.records)
    records = read_records(table(*size), id="id", kinds={"site": "group"})
    few = read_records(table(4, 20), id="id", kinds={"site": "group"})
    times: dict[int, list[float]] = {1: [], 2: []}
    folders = []
    with tempfile.TemporaryDirectory() as inside, cluster(1) as one, cluster(2) as two:
        for address in (one, two):
            seconds(address, few, 2, inside)
        before = processor_seconds()
        for _ in range(options.repeats):
            for n, address in ((1, one), (2, two)):
                taken, folder = seconds(address, records, options.max_iter, inside)
                times[n].append(taken)
                folders.append(folder)
        after = processor_seconds()
        written = [(folder / "parents.csv").read_bytes() for folder in folders]
    assert all(text == written[0] for text in written)
    ratio = min(times[1]) / min(times[2])
    verdict = "reached" if ratio >= WANTED else "NOT reached"
    print("| claim | ratio | to reach | | |\n|---|---|---|---|---|")
    what = f"one Dask worker / two, {size[0]} populations of {size[1]} records"
    note = f"{min(times[1]):.1f} s and {min(times[2]):.1f} s, the same bytes"
    print(f"| {what} | {ratio:.2f} | ≥ {WANTED} | {verdict} | {note} |")
    share = (after["way"] - before["way"]) / (after["workers"] - before["workers"])
    print(f"\nprocessor time of client and schedulers / of workers: {share:.3f}")


if __name__ == "__main__":
    main()

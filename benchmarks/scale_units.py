"""What a unit of 10,000 dated cases costs, and what the way to a worker and back adds.

A unit is `Ancestry` on a population of --records cases with onset date, place, ward and 100 sites,
of which the 20 best candidates of each take part; fitted in a process of its own, with one BLAS
thread. Processor seconds, which other programs on the machine stretch less than the clock's; bytes
are sizes of what is sent and written. The way: --tasks units that do nothing, through one
scheduler and one worker, the processor seconds of each of the three processes.
Run: python benchmarks/scale_units.py [--records 10000] [--tasks 300]
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

# One thread, said before NumPy is loaded.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from outtrees import Ancestry
from outtrees.ancestry.populations import Populations, digest_of, fit_population, fit_populations
from outtrees.datasets import make_line_list
from outtrees.io import write_csv
from outtrees.parallel import RunFolder, run_units_into
from outtrees.records import read_records
from scale_dask import cluster


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fitted_unit(n_records: int) -> dict[str, Any]:
    """Return the costs of one unit, measured in this process, from files to a file."""
    cases = make_line_list(n_records, random_state=0)
    table = {**cases.table, "site": ["here"] * n_records}
    costs: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = write_csv(Path(folder) / "cases.csv", table)
        dna = Path(folder) / "dna.fasta"
        dna.write_text("".join(f">{name}\n{text}\n" for name, text in cases.sequences.items()))
        costs["in files"] = file.stat().st_size + dna.stat().st_size
        begin = time.process_time()
        records = read_records(file, id="case", kinds={"site": "group"}, sequences=dna)
        costs["reading"] = time.process_time() - begin
    begin = time.process_time()
    digest_of(records)
    costs["digest"] = time.process_time() - begin
    begin = time.process_time()
    packed = pickle.dumps(Populations(records)["here"], protocol=pickle.HIGHEST_PROTOCOL)
    costs["cutting out"] = time.process_time() - begin
    costs["sent"] = len(packed)
    before = peak_bytes()
    model = Ancestry(roots="any")
    begin = time.process_time()
    result = fit_population(pickle.loads(packed), (model, 0.1), np.random.SeedSequence(0))
    costs["fitting"] = time.process_time() - begin
    costs["peak"], costs["peak before"] = peak_bytes(), before
    costs["result"] = len(json.dumps(result, separators=(",", ":")))
    costs["dropped"] = result["dropped_mass"] or 0.0  # None: all pairs were weighed
    with tempfile.TemporaryDirectory() as out:
        # Once more in a process that is warm, with all that surrounds it; then found finished.
        for what in ("again", "merging"):
            begin = time.process_time()
            fit_populations(model, records, out=out)
            costs[what] = time.process_time() - begin
    costs["again"] -= costs["merging"]
    tracemalloc.start()  # last: it slows everything down
    copy = pickle.loads(pickle.dumps(records))
    costs["held"] = tracemalloc.get_traced_memory()[0]
    assert len(copy) == n_records
    return costs


def nothing(unit: Any, data: Any, seed: Any) -> int:
    """A unit that does nothing."""
    return 0


def way(n_tasks: int, n_bytes: int) -> dict[str, float]:
    """Return the seconds that an empty unit of so many bytes takes, by process."""
    import psutil

    units = {str(i): b"x" * n_bytes for i in range(n_tasks)}
    with cluster(1) as address, tempfile.TemporaryDirectory() as out:
        scheduler, worker = psutil.Process().children()[-2:]
        run_units_into(RunFolder(f"{out}/warm", "", {}), nothing, {"a": 0}, scheduler=address)
        processes = {"client": psutil.Process(), "scheduler": scheduler, "worker": worker}
        before = {name: sum(p.cpu_times()[:2]) for name, p in processes.items()}
        begin = time.perf_counter()
        run_units_into(RunFolder(f"{out}/run", "", {}), nothing, units, scheduler=address)
        taken = {"clock": time.perf_counter() - begin}
        for name, process in processes.items():
            taken[name] = sum(process.cpu_times()[:2]) - before[name]
    return {name: seconds / n_tasks for name, seconds in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--unit", action="store_true", help="fit only, and print JSON")
    options = parser.parse_args()
    n = options.records
    if options.unit:
        print(json.dumps(fitted_unit(n)))
        return
    command = [sys.executable, __file__, "--unit", "--records", str(n)]
    costs = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    print(f"| of a unit of {n:,} dated cases | |\n|---|---|")
    print(f"| fitting, on a worker that has just started | {costs['fitting']:.1f} s |")
    print(f"| fitting, on a worker that has done one before | {costs['again']:.1f} s |")
    print(f"| probability of parents that were no candidates | {costs['dropped']:.1e} |")
    print(f"| peak memory of a worker | {costs['peak'] / 1e6:.0f} MB |")
    print(f"| peak before the fit: libraries and records | {costs['peak before'] / 1e6:.0f} MB |")
    for what in ("reading", "digest", "cutting out"):
        print(f"| {what}, on the client | {costs[what]:.3f} s |", flush=True)
    print(f"| finding it finished and merging, on the client | {costs['merging']:.3f} s |")
    sizes = {"in files": "", "held": "in the client's memory", "sent": "", "result": "written"}
    for what, name in sizes.items():
        print(
            f"| {name or what} | {costs[what] / 1e6:.2f} MB, {costs[what] / n:.0f} bytes a record |"
        )
    print("\n| of a unit that does nothing | 100 bytes | 10 MB |\n|---|---|---|", flush=True)
    small, large = way(options.tasks, 100), way(max(10, options.tasks // 10), 10_000_000)
    for name in small:
        what = "by the clock, one worker" if name == "clock" else f"processor of the {name}"
        print(f"| {what} | {1000 * small[name]:.1f} ms | {1000 * large[name]:.1f} ms |")


if __name__ == "__main__":
    main()

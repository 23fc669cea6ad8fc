"""10⁵ dated cases with place, ward and 100 bases: from CSV to parents.csv in ≤ 3 min and ≤ 4 GB.

Cases are simulated (`make_line_list`), so that their parents are known. The command line runs as a
process of its own; its time includes its start, reading, and writing all files.
Run: python benchmarks/scale_ancestry.py [cases] [--days D] [--seed S] [--roots any|single]
[--n-candidates K] [--parts]

--parts measures two parts of a fit instead, in this process: what the bound of the dropped mass is
and costs, and the memory of an M-step with three links that reads the list of edges in stretches,
beside one that reads it whole; for the list itself and for one 16 times as long.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from outtrees import Ancestry, load
from outtrees._common import edges
from outtrees.candidates import constraints
from outtrees.candidates.dropped_mass import table_dropped_mass
from outtrees.datasets import make_line_list

BINS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0 + 1e-9)


def write_cases(folder: Path, n: int, days: int, seed: int) -> tuple[Path, dict[str, str]]:
    cases = make_line_list(n, days=days, random_state=seed)
    path = folder / "cases.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*cases.table, "dna"])
        rows = zip(*cases.table.values(), cases.sequences.values(), strict=True)
        writer.writerows(rows)
    return path, cases.infectors


def run(cases: Path, out: Path, roots: str, n_candidates: int) -> tuple[float, float, dict]:
    command = [sys.executable, "-m", "outtrees", "ancestry", cases, "--id", "case"]
    command += ["--roots", roots, "--n-candidates", n_candidates, "--out", out, "--json"]
    begin = time.perf_counter()
    with open(out.parent / "summary.json", "w+", encoding="utf-8") as summary:
        # Progress, on stderr, goes where this program's goes.
        subprocess.run([str(part) for part in command], stdout=summary, check=True)
        seconds = time.perf_counter() - begin
        summary.seek(0)
        told = json.load(summary)
    # In kB on Linux, in bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    told["processor_seconds"] = used.ru_utime + used.ru_stime
    return seconds, used.ru_maxrss * unit / 1e9, told


def right_parents(out: Path, infectors: dict[str, str]) -> tuple[float, float]:
    """Return the share of right parents in the consensus tree, and the share it promises."""
    with open(out / "records.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    right = np.mean([infectors[row["record"]] == row["parent"] for row in rows])
    return float(right), float(np.mean([float(row["support"]) for row in rows]))


def calibration(model, infectors: dict[str, str]) -> list[tuple[float, float, int, float, float]]:
    """Return (from, to, edges, mean support, true share) of candidate edges and roots."""
    ids = model.records.ids
    row = {name: i for i, name in enumerate(ids)}
    true = np.array([row.get(infectors[name], -1) for name in ids])
    listed, trees = model.edges_, model.fitted.trees
    support = np.concatenate([trees.edge_marginals, trees.root_marginals])
    is_true = np.concatenate([true[listed.child] == listed.parent, true == -1])
    table = []
    for low, high in pairwise(BINS):
        inside = (support >= low) & (support < high)
        n = int(inside.sum())
        if n >= 50:
            table.append((low, high, n, support[inside].mean(), is_true[inside].mean()))
    return table


def among_candidates(model, infectors: dict[str, str]) -> tuple[int, int]:
    ids = model.records.ids
    row = {name: i for i, name in enumerate(ids)}
    true = np.array([row.get(infectors[name], -1) for name in ids])
    listed = model.edges_
    return int((true[listed.child] == listed.parent).sum()), int((true >= 0).sum())


def parts(options: argparse.Namespace) -> None:
    """Print what the bound of the dropped mass costs, and the memory of an M-step."""
    cases = make_line_list(options.cases, days=options.days, random_state=options.seed)
    model = Ancestry(
        id="case", roots=options.roots, candidates="knn", n_candidates=options.n_candidates
    ).fit(cases.table, sequences=cases.sequences)
    fitted, lost = model.fitted, model.dropped_mass_
    seconds = []
    for most_searched in (300_000_000, 0):
        begin = time.process_time()
        table_dropped_mass(
            fitted.lineage,
            fitted.values,
            constraints(options.cases),
            fitted.edges,
            roots=fitted.roots,
            root_rate=fitted.root_rate,
            most_searched=most_searched,
        )
        seconds.append(time.process_time() - begin)
    print(
        f"{options.cases:,} cases: dropped {lost.mean:.1e} ± {lost.error:.0e} ({lost.kind}), bound "
        f"{lost.bound}; the bound took {seconds[0] - seconds[1]:.1f} s of processor time\n"
    )
    three = replace(fitted.lineage, generations=3, step_weights=np.array([0.9, 0.05, 0.05]))
    trees = fitted.trees
    print("| edges | M-step, MB | read whole, MB | processor time / whole |\n|---|---|---|---|")
    for times in (1, 16):
        ends = np.tile(fitted.edges.child, times), np.tile(fitted.edges.parent, times)
        marginals = np.tile(trees.edge_marginals / times, times), trees.root_marginals
        at_once = edges._CELLS_AT_ONCE
        found = []
        for cells in (at_once, 2**62):
            edges._CELLS_AT_ONCE = cells
            pairs = three.pairs(fitted.values, fitted.values, *ends)
            edges._CELLS_AT_ONCE = at_once
            three.refit(pairs, *marginals)
            begin = time.process_time()
            three.refit(pairs, *marginals)
            spent = time.process_time() - begin
            tracemalloc.start()
            three.refit(pairs, *marginals)
            found.append((tracemalloc.get_traced_memory()[1] / 1e6, spent))
            tracemalloc.stop()
        (memory, spent), (whole, spent_whole) = found
        print(f"| {len(ends[0]):,} | {memory:.0f} | {whole:.0f} | {spent / spent_whole:.2f} |")


def show(claim: str, value: float, wanted: float) -> None:
    verdict = "reached" if value <= wanted else "NOT reached"
    print(f"| {claim} | {value:.2f} | ≤ {wanted:g} | {verdict} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", type=int, nargs="?", default=100_000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--roots", choices=["any", "single"], default="any")
    parser.add_argument("--n-candidates", type=int, default=20)
    parser.add_argument("--parts", action="store_true", help="measure parts of a fit instead")
    options = parser.parse_args()
    if options.parts:
        parts(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        path, infectors = write_cases(Path(folder), options.cases, options.days, options.seed)
        out = Path(folder) / "results"
        seconds, peak, told = run(path, out, options.roots, options.n_candidates)
        right, promised = right_parents(out, infectors)
        model = load(out / "model.safetensors")
        kept, of = among_candidates(model, infectors)
        bins = calibration(model, infectors)
        choices = model.edges_.choices
        possible = float(np.mean(choices)) if choices is not None else np.nan
    dropped = told["dropped_mass"]
    print(f"{options.cases:,} cases over about {options.days} days, roots={options.roots}\n")
    print("| | measured | to reach | |\n|---|---|---|---|")
    show("minutes from CSV to parents.csv", seconds / 60, 3)
    show("peak memory, GB", peak, 4)
    print("\n| | |\n|---|---|")
    print(f"| processor time, minutes | {told['processor_seconds'] / 60:.2f} |")
    print(f"| possible parents of a case, on average | {possible:,.0f} |")
    print(f"| candidates of a case, on average | {len(model.edges_.child) / options.cases:.1f} |")
    print(f"| true parents among the candidates | {kept:,} of {of:,} |")
    if dropped is not None:
        print(
            f"| probability of parents outside the candidates | {dropped['mean']:.1e} ± "
            f"{dropped['error']:.0e} ({dropped['n_records']} cases) |"
        )
    print(f"| right parents | {right:.4f} |\n| promised by the supports | {promised:.4f} |")
    true_roots = sum(not parent for parent in infectors.values())
    expected = sum(k * p for k, p in enumerate(told["n_roots"]))
    print(f"| introductions, expected and true | {expected:,.0f}, {true_roots:,} |")
    print("\n| supports | edges | mean support | true share | off, binomial errors |")
    print("|---|---|---|---|---|")
    for low, high, n, mean, share in bins:
        off = (share - mean) / np.sqrt(mean * (1 - mean) / n)
        high = min(high, 1.0)
        print(f"| {low:.2f}–{high:.2f} | {n:,} | {mean:.3f} | {share:.3f} | {off:+.1f} |")
    print()
    for line in told["parameters"]:
        print(line)


if __name__ == "__main__":
    main()

"""Claim: posteriors of parameters and supports are right where tables come from the model's priors.

Simulation-based calibration (`tests/oracles/posterior_ranks.py`). Each table is a line of a file;
started again, the command goes on where the file ends.

    OPENBLAS_NUM_THREADS=1 python benchmarks/parameter_calibration.py FILE [--tables 1100]

    OPENBLAS_NUM_THREADS=1 python benchmarks/parameter_calibration.py FILE --seeds 20

    OPENBLAS_NUM_THREADS=1 python benchmarks/parameter_calibration.py FILE --labels --tables 300

The first prints, for each kind of table, how many of its parameters have ranks inside simultaneous
95 % bands (one in twenty is outside by chance), the coverage of 90 % intervals, and supports: right
and promised, by class and over all. The tables are shared by the kinds; 0 only prints. The second
draws parameters of one table of each kind under so many seeds, and prints how far supports are from
their mean, in the errors that are reported with them. The third hides two fifths of a column's
cells, and prints how often what is said of them is true.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.stats import binom

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from oracles.posterior_ranks import (
    CASES,
    LABELS,
    fitted_table,
    posterior_of,
    rank_band,
    simulate,
    simulate_labels,
)

CLASS_HEADER = (
    "| tables | supports | number | promised | true | true, 95 % of the time |\n"
    "|---|---|---|---|---|---|"
)
CLASSES = [0.0, 0.05, 0.2, 0.5, 0.8, 0.95, 1.0 + 1e-9]


def line(case: str, seed: int) -> dict:
    """Return what is kept of a table."""
    began = time.process_time()
    row = {"kind": case, "seed": seed}
    if case in LABELS:
        row |= promises(*simulate_labels(case, seed))
    else:
        table = simulate(case, seed)
        row |= promises(table.supports, table.parents)
        row |= {
            "ranks": dict(zip(table.names, table.ranks.round(4).tolist(), strict=True)),
            "pareto_k": table.pareto_k,
            "effective": table.effective,
            "trusted": table.trusted,
        }
    return row | {"seconds": time.process_time() - began}


def promises(supports: np.ndarray, truth: np.ndarray) -> dict:
    """Return what supports (n, C) promise, and how often it is true."""
    n = len(truth)
    hit = np.zeros_like(supports)
    hit[np.arange(n), truth] = 1.0
    which = np.digitize(supports, CLASSES) - 1
    classes = [
        (float(hit[which == k].sum()), float(supports[which == k].sum()), number)
        for k, number in enumerate(np.bincount(which.ravel(), minlength=len(CLASSES) - 1).tolist())
    ]
    right = int((supports.argmax(axis=1) == truth).sum())
    promised = float(supports.max(axis=1).sum())
    return {"records": n, "classes": classes, "right": right, "promised": promised}


def read(path: Path) -> list[dict]:
    return [json.loads(row) for row in path.read_text().splitlines()] if path.exists() else []


def report(case: str, tables: list[dict]) -> tuple[int, int]:
    """Print the figures of one kind; return how many parameters are outside, and how many are."""
    names = list(tables[0]["ranks"])
    ranks = np.array([[table["ranks"][name] for name in names] for table in tables])
    low, high, grid = rank_band(len(tables))
    outside, covered = [], []
    for name, own in zip(names, ranks.T, strict=True):
        below = (own[:, None] <= grid).sum(axis=0)
        covered.append(float((abs(own - 0.5) <= 0.45).mean()))
        if (below < low).any() or (below > high).any():
            outside.append(f"{name} ({covered[-1]:.2f})")
    bad = 1 - np.mean([table["trusted"] for table in tables])
    print(
        f"| {case} | {len(tables)} | {len(names) - len(outside)} of {len(names)}"
        f"{': not ' + ', '.join(outside) if outside else ''} | {min(covered):.2f} to "
        f"{max(covered):.2f} | {best_of(tables)} | {bad:.0%} |",
        flush=True,
    )
    return len(outside), len(names)


def best_of(tables: list[dict]) -> str:
    """Return how many of the best choices are right, and were promised to be."""
    right, promised = (sum(table[key] for table in tables) for key in ("right", "promised"))
    apart = np.array([table["right"] - table["promised"] for table in tables])
    z = apart.sum() / (apart.std(ddof=1) * np.sqrt(len(apart)))
    return f"{right} / {promised:.0f} ({z:+.1f})"


def labels(tables: list[dict], kinds: list[str]) -> None:
    """Print what was said of hidden cells, and how often it is true."""
    print("| kind of table | tables | cells | best labels: right / promised (standard errors) |")
    print("|---|---|---|---|")
    for kind in kinds:
        own = [table for table in tables if table["kind"] == kind]
        cells = sum(table["records"] for table in own)
        print(f"| {kind} | {len(own)} | {cells} | {best_of(own)} |")
    print(f"\n{CLASS_HEADER}")
    for kind in kinds:
        classes_of(kind, [table for table in tables if table["kind"] == kind])


def classes_of(title: str, tables: list[dict]) -> None:
    """Print supports by class, with the interval that holds hits in 95 of 100 cases."""
    totals = np.array([table["classes"] for table in tables]).sum(axis=0)
    level = 0.05 / len(totals)  # of all classes together
    for (low, high), (hits, promised, n) in zip(pairwise(CLASSES), totals, strict=True):
        if n:
            ends = binom.ppf([level / 2, 1 - level / 2], int(n), promised / n) / n
            print(
                f"| {title} | {low:.2f} to {min(high, 1.0):.2f} | {int(n)} | {promised / n:.3f} | "
                f"{hits / n:.3f} | {ends[0]:.3f} to {ends[1]:.3f} |"
            )


def seeds(case: str, n: int, first: int) -> None:
    """Print how far supports of a table under n seeds are apart."""
    supports, errors = [], []
    for seed in range(n):
        problem, reading, *_ = fitted_table(case, first, seed)
        posterior = posterior_of(problem, reading)
        supports.append(posterior.trees.edge_marginals)
        errors.append(posterior.support_errors[0])
    typical = np.sqrt(np.mean(np.square(errors), axis=0))
    apart = abs(np.array(supports) - np.mean(supports, axis=0))
    off = (apart / (typical + 1e-4))[:, typical > 1e-3]
    if not off.size:  # the table leaves no doubt
        return
    print(
        f"| {case} | {off.shape[1]} | {typical.max():.3f} | {apart.max():.3f} | {off.max():.1f} | "
        f"{(off > 3).mean():.2%} |",
        flush=True,
    )


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--tables", type=int, default=1100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=0, help="of draws of the same table")
    parser.add_argument("--labels", action="store_true", help="of hidden cells")
    parser.add_argument("--kinds", nargs="+", choices=[*CASES, *LABELS])
    options = parser.parse_args()
    path = options.file
    kinds = options.kinds or list(LABELS if options.labels else CASES)
    if options.seeds:
        print("| kind of table | edges | largest error | farthest off | in errors | beyond 3 |")
        print("|---|---|---|---|---|---|")
        for case in kinds:
            seeds(case, options.seeds, options.first)
        return
    done = {(table["kind"], table["seed"]) for table in read(path)}
    for i in range(options.tables):  # kinds in turn: whenever it is stopped, they are even
        case, seed = kinds[i % len(kinds)], options.first + i // len(kinds)
        if (case, seed) not in done:
            row = json.dumps(line(case, seed))
            with path.open("a") as file:
                file.write(row + "\n")
    tables = [table for table in read(path) if table["kind"] in kinds]
    if options.labels:
        labels(tables, kinds)
        return
    print(
        "| kind of table | tables | ranks inside the band | 90 % intervals cover | best parents: "
        "right / promised (standard errors) | not trusted |\n|---|---|---|---|---|---|"
    )
    found = [report(k, own) for k in kinds if (own := [t for t in tables if t["kind"] == k])]
    outside, number = np.sum(found, axis=0)
    print(f"\n{outside} of {number} parameters outside; {0.05 * number:.0f} expected.\n")
    print(CLASS_HEADER)
    for title, dated in (("with dates", True), ("without", False)):
        own = [t for t in tables if t["kind"].startswith("dates") == dated]
        if own:
            classes_of(title, own)
    print(f"\n{np.median([t['seconds'] for t in tables]):.2f} s a table (median, processor)")


if __name__ == "__main__":
    main()

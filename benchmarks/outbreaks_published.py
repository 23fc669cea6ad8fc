"""The transmission model finds as many infectors as the best published method, in seconds.

    python benchmarks/outbreaks_published.py decide     # the half on which everything was settled
    python benchmarks/outbreaks_published.py report     # the other half
    python benchmarks/outbreaks_published.py simulated 20

Outbreaks that Specht et al. 2025 (doi 10.1101/2025.03.02.25323192) simulated: sampling dates and
genomes of 50 people, half of all cases unsampled. They are read from ../shared/data/ancestry and
are not part of this repository. Rows: generation time and delay given (the simulator's usual 5 ± √5
days, although one value differs in most outbreaks), everything learned, and the waiting-time model
that knows neither. "Right" counts children whose infector was sampled; "promised" is the sum of
the supports of their best parents; "log-score" the mean log-support of the infector. The last
columns are all 50 children, with the nearest sampled ancestor (or none) as the truth.
"""

from __future__ import annotations

import csv
import gzip
import sys
import time
import warnings
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from outtrees import Ancestry

DATA = Path(__file__).resolve().parents[2] / "shared/data/ancestry/outbreaks_juniper"
HALVES = {
    "decide": ("e1", "e3", "e5", "e7", "e9", "e11"),
    "report": ("e13", "e15", "e17", "e19", "e21", "e23"),
}
# Outbreaks and seeds of masks that leave 80 % of the sites.
MASKED = {"decide": (("e1", 0), ("e1", 1), ("e3", 0), ("e3", 1)), "report": (("e15", 0),)}
GIVEN = {
    "generation_mean": 5.0,
    "generation_sd": 5**0.5,
    "delay_mean": 5.0,
    "delay_sd": 5**0.5,
}
RUNS: dict[str, dict[str, Any]] = {
    "given": GIVEN,
    "learned": {"transmission": True},
    "waiting": {"transmission": False},
}


class Outbreak(NamedTuple):
    """A table, its sequences, and for each record the infector and the nearest sampled one."""

    table: dict[str, list[str]]
    sequences: dict[str, str]
    infector: np.ndarray  # (T,), −1 if it was not sampled
    ancestor: np.ndarray  # (T,), −1 if there is none


def published(name: str) -> Outbreak:
    """Return one of the published outbreaks."""
    folder = DATA / name
    with open(folder / "metadata.csv") as file:
        rows = list(csv.DictReader(file))
    names = [row["sample"] for row in rows]
    sequences: dict[str, str] = {}
    with gzip.open(folder / "aligned.fasta.gz", "rt") as file:
        for block in file.read().split(">")[1:]:
            head, *lines = block.splitlines()
            sequences[head.split("|")[0].strip()] = "".join(lines).replace(" ", "")
    with open(folder / "transmission.csv") as file:
        parent = {row["to"]: row["from"] for row in csv.DictReader(file)}
    table = {"sample": names, "date": [row["date"] for row in rows]}
    return Outbreak(table, {n: sequences[n] for n in names}, *_truth(names, parent))


def _truth(names: list[str], parent: dict[str, str]) -> tuple[np.ndarray, np.ndarray]:
    place = {name: row for row, name in enumerate(names)}
    infector = np.array([place.get(parent.get(name, ""), -1) for name in names])
    ancestor = []
    for name in names:
        above = parent.get(name)
        while above is not None and above not in place:
            above = parent.get(above)
        ancestor.append(-1 if above is None else place[above])
    return infector, np.array(ancestor)


def masked(outbreak: Outbreak, share: float, seed: int = 0) -> Outbreak:
    """Return the outbreak in which this share of all letters was read."""
    rng = np.random.default_rng(seed)
    hidden = {
        name: "".join(np.where(rng.random(len(text)) < share, list(text), "N"))
        for name, text in outbreak.sequences.items()
    }
    return outbreak._replace(sequences=hidden)


def simulated(seed: int, n: int = 50, rate: float = 2e-5, sites: int = 10_000) -> Outbreak:
    """Return the first n samples of an outbreak: R = 2, half sampled, times of GIVEN."""
    rng = np.random.default_rng(seed)
    while True:
        infected, parent, last = [0.0], [-1], 0
        while last < len(infected) < 40 * n:
            for _ in range(rng.poisson(2.0)):
                infected.append(infected[last] + rng.gamma(5.0, 1.0))
                parent.append(last)
            last += 1
        times = np.array(infected)
        # Later than any child of those whose children were not drawn nothing is known.
        horizon = times[last:].min() if last < len(times) else np.inf
        sampled = times + rng.gamma(5.0, 1.0, size=len(times))
        seen = (rng.random(len(times)) < 0.5) & (sampled < horizon)
        if seen.sum() >= n:
            break
    rows = np.argsort(np.where(seen, sampled, np.inf))[:n].tolist()
    # A host's strain collects mutations; a child inherits those before its infection.
    gained: dict[int, list[tuple[int, int, float]]] = {}

    def strain(person: int) -> list[tuple[int, int, float]]:
        if person not in gained:
            above = strain(parent[person]) if parent[person] >= 0 else []
            until = float(times.max() + 60)
            number = rng.poisson(rate * sites * (until - times[person]))
            moments = rng.uniform(times[person], until, size=number)
            own = [(int(rng.integers(sites)), int(rng.integers(1, 4)), t) for t in moments]
            gained[person] = [m for m in above if m[2] <= times[person]] + own
        return gained[person]

    names, sequences = [f"p{row}" for row in rows], {}
    for name, row in zip(names, rows, strict=True):
        letters = np.zeros(sites, dtype=int)
        for site, change, moment in strain(row):
            if moment <= sampled[row]:
                letters[site] = (letters[site] + change) % 4
        sequences[name] = "".join(np.array(list("ACGT"))[letters])
    days = [(date(2020, 1, 1) + timedelta(days=int(sampled[row]))).isoformat() for row in rows]
    above = {f"p{i}": f"p{p}" for i, p in enumerate(parent) if p >= 0}
    return Outbreak({"sample": names, "date": days}, sequences, *_truth(names, above))


def scores(outbreak: Outbreak, options: dict[str, Any]) -> np.ndarray:
    """Return right, children, promised, log-score, right and promised of all, seconds."""
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Ancestry(id="sample", **options).fit(outbreak.table, sequences=outbreak.sequences)
        trees, T = found.fitted.trees, len(outbreak.infector)
    seconds = time.process_time() - begin
    support = np.zeros((T, T + 1))
    support[found.fitted.edges.child, found.fitted.edges.parent] = trees.edge_marginals
    support[:, T] = trees.root_marginals
    best, top = support.argmax(axis=1), support.max(axis=1)
    direct = np.flatnonzero(outbreak.infector >= 0)
    truth = outbreak.infector[direct]
    nearest = np.where(outbreak.ancestor >= 0, outbreak.ancestor, T)
    return np.array(
        [
            (best[direct] == truth).sum(),
            len(direct),
            top[direct].sum(),
            np.log(np.maximum(support[direct, truth], 1e-9)).sum(),
            (best == nearest).sum(),
            top.sum(),
            seconds,
        ]
    )


def line(name: str, run: str, s: np.ndarray) -> None:
    """Print one row of the table."""
    share = s[0] / s[1]
    error = np.sqrt(share * (1 - share) / s[1])
    print(
        f"| {name} | {run} | {s[0]:.0f} of {s[1]:.0f} | {share:.3f} ± {error:.3f} | {s[2]:.1f} | "
        f"{s[3] / s[1]:.2f} | {s[4]:.0f} | {s[5]:.1f} | {s[6]:.1f} |",
        flush=True,
    )


def sets(arguments: list[str]) -> Iterator[tuple[str, Outbreak]]:
    """Yield the outbreaks that the arguments ask for; a * marks masked ones."""
    half = arguments[0]
    if half == "simulated":
        yield from ((f"seed {seed}", simulated(seed)) for seed in range(int(arguments[1])))
        return
    for name in HALVES[half]:
        yield name, published(name)
    for name, seed in MASKED[half]:
        yield f"{name}, 80 % read *", masked(published(name), 0.8, seed)


def main(arguments: list[str]) -> None:
    """Print the table."""
    print("| outbreak | run | right | share | promised | log-score | all right | promised | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    totals: dict[tuple[str, bool], np.ndarray] = {}
    runs = arguments[2:] if arguments[0] == "simulated" else arguments[1:]
    for name, outbreak in sets(arguments):
        for run in runs or RUNS:
            found = scores(outbreak, RUNS[run])
            key = run, name.endswith("*")
            totals[key] = totals.get(key, 0) + found
            if arguments[0] != "simulated":
                line(name, run, found)
    for (run, is_masked), total in totals.items():
        line("together" + ", masked" * is_masked, run, total)


if __name__ == "__main__":
    main(sys.argv[1:] or ["decide"])

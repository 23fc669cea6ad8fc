"""Claim: contacts and stays find parents; under shuffled names they promise nothing.

Simulated outbreaks of 60 cases, waiting times given; parents right and promised with the dates
alone, with contacts (60 % of true pairs, 2 % of others), with the same list under shuffled names,
with households that also meet, and with stays on wards.
Run: python benchmarks/ancestry_contacts.py [outbreaks] [first seed]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from outtrees import Ancestry

T, MEAN, SD = 60, 8.0, 2.5
ETA, LAMBDA = 0.6, 0.02


def outbreak(rng: np.random.Generator) -> tuple[list[float], list[int]]:
    """Return days of onset and parents, −1 for the two introductions."""
    while True:
        days, parents = [float(day) for day in rng.integers(0, 5, 2)], [-1, -1]
        for v in range(T):
            if v >= len(parents):
                break
            for _ in range(min(rng.poisson(1.8), T - len(parents))):
                wait = rng.gamma((MEAN / SD) ** 2, SD**2 / MEAN)
                days.append(days[v] + max(1, round(wait)))
                parents.append(v)
        if len(parents) == T:
            return days, parents


def contacts(chance: Any, rng: np.random.Generator, names: list[str]) -> dict[str, list[str]]:
    met = [(u, v) for u in range(T) for v in range(u) if rng.random() < chance(u, v)]
    return {"from": [names[v] for _, v in met], "to": [names[u] for u, _ in met]}


def stays(
    days: list[float], parents: list[int], rng: np.random.Generator, names: list[str]
) -> dict[str, list[Any]]:
    """Two weeks on one of 15 wards; 60 % of children were for three days where their parent was."""
    wards, rows = rng.integers(0, 15, T), []
    for u, v in enumerate(parents):
        rows.append((names[u], wards[u], days[u] - 4, days[u] + 10))
        if v >= 0 and rng.random() < ETA:
            infected = days[u] - int(rng.integers(1, 3))
            rows.append((names[u], wards[v], infected - 1, infected + 1))
    return {
        key: [row[i] for row in rows] for i, key in enumerate(("record", "place", "from", "until"))
    }


def runs(seed: int) -> Iterator[tuple[str, list[int], Any]]:
    """Yield what was given, the true parents, and the fit."""
    rng = np.random.default_rng(seed)
    days, parents = outbreak(rng)
    ids = [f"c{i}" for i in range(T)]
    other = rng.permutation(ids).tolist()
    homes: list[str] = []
    for v in parents:
        stay = v >= 0 and rng.random() < 0.6
        homes.append(homes[v] if stay else f"h{rng.integers(20)}")

    def listed(u: int, v: int) -> float:
        return ETA if parents[u] == v else LAMBDA

    def at_home(u: int, v: int) -> float:
        return 0.8 if homes[u] == homes[v] else 0.5 if parents[u] == v else 0.01

    given: dict[str, dict[str, Any]] = {
        "dates": {},
        "contacts": {"contacts": contacts(listed, rng, ids)},
        "contacts, names shuffled": {"contacts": contacts(listed, rng, other)},
        "households": {"households": homes},
        "households, who also meet": {
            "households": homes, "contacts": contacts(at_home, rng, ids),
        },
        "stays": {"stays": stays(days, parents, rng, ids)},
        "stays, names shuffled": {"stays": stays(days, parents, rng, other)},
    }  # fmt: skip
    for name, more in given.items():
        table: dict[str, Any] = {"case": ids, "onset": days}
        if "households" in more:
            table["household"] = more.pop("households")
        model = Ancestry(id="case", kinds={"onset": "date"}, waiting_mean=MEAN, waiting_sd=SD)
        yield name, parents, model.fit(table, **more)


def main() -> None:
    """Print the table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    sums: dict[str, Any] = {}
    for seed in range(first, first + n):
        for name, parents, found in runs(seed):
            place = {identity: row for row, identity in enumerate(found.records.ids)}
            total = sums.setdefault(name, np.zeros(4))
            for child, parent, support, rank in found.parents(0.0).rows():
                true = parents[place[child]]
                if rank == 1 and true >= 0:
                    total += 1, parent != "" and place[parent] == true, support, 0
            total[3] += bool(found.left_out_)
    print("| given | children | right | promised | left out |\n|---|---|---|---|---|")
    for name, (children, right, promised, left_out) in sums.items():
        print(f"| {name} | {children:.0f} | {right:.0f} | {promised:.0f} | {left_out:.0f} of {n} |")


if __name__ == "__main__":
    main()

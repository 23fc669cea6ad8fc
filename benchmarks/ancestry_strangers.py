"""Claim: on kinds of tables that nobody described beforehand, promises are kept.

Each sort below is a table that a stranger might bring: a hospital, farms, partners, rumours,
pedigrees, versions of a document, cells. All are generated, and the truth is kept aside. Each is
run with defaults, and by someone who states the waiting time. Every record counts, also those whose
parent is not in the table: these are right if they are called roots. Printed for each sort, over
all seeds: records, right, promised, the mean log-score of the truth and that of a uniform choice
among the possible parents and none, and whether promised ≤ right + 2 binomial errors + 10 % of the
records, and the log-score is above uniform.

    python benchmarks/ancestry_strangers.py [seeds of each sort] [first seed] [words of sorts …]

Seeds 0 to 5 settled what was changed; figures are of seeds from 100 on.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from outtrees import Ancestry

Rng = np.random.Generator
NEVER = 1e-12  # the chance of what is ruled out, in log-scores
START = np.datetime64("2023-02-06")  # a Monday


class Spread(NamedTuple):
    """Who came from whom (−1: from outside), and when, in the order of time."""

    parent: Any
    time: Any

    def follow(self, first: Callable[[], Any], child: Callable[[Any, int], Any]) -> list[Any]:
        """Return a column: `first` for whoever came from outside, else `child` of the parent's."""
        cells: list[Any] = []
        for u, v in enumerate(self.parent):
            cells.append(first() if v < 0 else child(cells[v], u))
        return cells

    def only(self, kept: Any) -> Spread:
        """Return the spread among some of the records; the parents of others are outside."""
        number = np.full(len(self.parent) + 1, -1)
        number[:-1][kept] = np.arange(len(kept))
        return Spread(number[self.parent[kept]], self.time[kept])


def spread(
    rng: Rng,
    n: int,
    wait: Callable[[], float],
    *,
    mean: float = 1.6,
    dispersion: float = 1.0,
    first: Any = (0.0,),
) -> Spread:
    """Return the first n records of a branching process from some beginnings on."""
    while True:
        time, parent, u = list(first), [-1] * len(first), 0
        while u < len(time) and len(time) < 40 * n:
            for _ in range(rng.poisson(mean * rng.gamma(dispersion, 1 / dispersion))):
                time.append(time[u] + wait())
                parent.append(u)
            u += 1
        if len(time) >= n:
            break
    order = np.argsort(time, kind="stable")[:n]
    return Spread(np.array(parent), np.array(time)).only(order)


def days(times: Any) -> list[str]:
    return [str(START + int(np.floor(t))) for t in times]


def hours(times: Any) -> list[str]:
    begin = np.datetime64("2023-02-06T00:00")
    return [str(begin + np.timedelta64(int(60 * t), "m")) for t in times]


def walk(rng: Rng, of: Spread, step: float, far: float = 0.0) -> tuple[Any, Any]:
    """Return x and y: children near their parents, those from outside anywhere."""
    cells = of.follow(
        lambda: rng.normal(0, 20, 2),
        lambda p, _: p + rng.normal(0, step, 2) * (10 if rng.random() < far else 1),
    )
    return np.array(cells).T


Made = tuple[dict[str, list[Any]], Spread, dict[str, Any]]


def hospital(rng: Rng) -> Made:
    """Patients of a hospital: admitted, ill, discharged; wards, specialties, ages."""
    of = spread(rng, 70, lambda: rng.gamma(6, 1.0), dispersion=0.4)
    ward = of.follow(
        lambda: int(rng.integers(9)),
        lambda p, _: p if rng.random() < 0.75 else int(rng.integers(9)),
    )
    stay = rng.gamma(2, 4, 70) + 1
    table = {
        "admission": days(of.time - rng.gamma(2, 3, 70)),
        "onset": days(of.time),
        "discharge": days(of.time + stay),
        "ward": [f"W{w}" for w in ward],
        "specialty": [("surgery", "medicine", "geriatrics")[w % 3] for w in ward],
        "age": [int(a) for a in rng.normal(68, 14, 70).clip(1, 99)],
        "sex": list(rng.choice(["F", "M"], 70)),
    }
    return table, of, {"waiting_mean": 6.0, "waiting_sd": 2.5, "kinds": {"onset": "date"}}


def weekly(rng: Rng) -> Made:
    """Notifications by week, with districts and age groups."""
    of = spread(rng, 80, lambda: rng.gamma(8, 1.5))
    district = of.follow(
        lambda: int(rng.integers(14)),
        lambda p, _: p if rng.random() < 0.8 else int(rng.integers(14)),
    )
    table = {
        "week": days(7 * np.floor(of.time / 7)),
        "district": [f"d{d:02d}" for d in district],
        "age_group": list(rng.choice(["0-4", "5-14", "15-64", "65+"], 80)),
    }
    return table, of, {"waiting_mean": 12.0, "waiting_sd": 4.2}


def uninformative(rng: Rng) -> Made:
    """Dates, and columns that have nothing to do with who infected whom."""
    of = spread(rng, 80, lambda: rng.gamma(9, 1.0))
    table = {
        "onset": days(of.time),
        "sex": list(rng.choice(["f", "m"], 80)),
        "age": [int(a) for a in rng.gamma(3, 12, 80)],
        "occupation": list(rng.choice(["none", "pupil", "clerk", "nurse", "farmer", "driver"], 80)),
    }
    return table, of, {"waiting_mean": 9.0, "waiting_sd": 3.0}


def farms(rng: Rng) -> Made:
    """Farms with a disease of animals: coordinates, species, herd sizes."""
    of = spread(rng, 80, lambda: rng.lognormal(2.0, 0.5))
    x, y = walk(rng, of, 4.0, far=0.1)
    species = of.follow(
        lambda: str(rng.choice(["cattle", "sheep", "pigs"])),
        lambda p, _: p if rng.random() < 0.6 else str(rng.choice(["cattle", "sheep", "pigs"])),
    )
    table = {
        "reported": days(of.time),
        "lat": [f"{54 + b / 111:.4f}" for b in y],
        "lon": [f"{-3 + a / 65:.4f}" for a in x],
        "species": species,
        "animals": [int(a) for a in rng.lognormal(4.5, 1.0, 80)],
    }
    return table, of, {"waiting_mean": 8.4, "waiting_sd": 4.5}


def partners(rng: Rng) -> Made:
    """Partners of other sex and like age, strains, no places."""
    of = spread(rng, 80, lambda: rng.gamma(2, 30), dispersion=0.5)
    sex = of.follow(lambda: int(rng.integers(2)), lambda p, _: 1 - p if rng.random() < 0.9 else p)
    age = of.follow(lambda: rng.normal(30, 8), lambda p, _: 30 + 0.7 * (p - 30) + rng.normal(0, 5))
    strain = of.follow(
        lambda: int(rng.integers(6)),
        lambda p, _: p if rng.random() < 0.93 else int(rng.integers(6)),
    )
    table = {
        "diagnosed": days(of.time),
        "sex": ["FM"[s] for s in sex],
        "age": [int(max(a, 15)) for a in age],
        "strain": [f"ST{s}" for s in strain],
        "partners": [int(a) for a in rng.geometric(0.4, 80)],
    }
    return table, of, {"waiting_mean": 60.0, "waiting_sd": 42.0}


def rumours(rng: Rng) -> Made:
    """Messages that were passed on within hours, by language and topic."""
    of = spread(rng, 90, lambda: rng.lognormal(0.5, 0.8), dispersion=0.3)
    language = of.follow(
        lambda: str(rng.choice(["en", "de", "pt", "hi"])),
        lambda p, _: p if rng.random() < 0.9 else str(rng.choice(["en", "de", "pt", "hi"])),
    )
    words = of.follow(
        lambda: int(rng.integers(10, 50)), lambda p, _: max(1, p + int(rng.integers(-3, 4)))
    )
    table = {
        "posted": hours(of.time),
        "language": language,
        "words": words,
        "followers": [int(f) for f in rng.lognormal(6, 2, 90)],
    }
    return table, of, {"waiting_mean": 0.095, "waiting_sd": 0.09}  # 2.3 ± 2.2 hours, in days


def pedigree(rng: Rng) -> Made:
    """Plants of six yearly generations with traits that are inherited in part."""
    of = spread(rng, 80, lambda: 1.0, mean=2.2)
    height = of.follow(
        lambda: rng.normal(90, 15), lambda p, _: 90 + 0.8 * (p - 90) + rng.normal(0, 6)
    )
    seed = of.follow(lambda: rng.normal(40, 8), lambda p, _: 40 + 0.8 * (p - 40) + rng.normal(0, 3))
    colour = of.follow(
        lambda: str(rng.choice(["white", "pink", "red"])),
        lambda p, _: p if rng.random() < 0.85 else str(rng.choice(["white", "pink", "red"])),
    )
    table = {
        "year": [2010 + int(t) for t in of.time],
        "height_cm": [f"{h:.0f}" for h in height],
        "seed_mg": [f"{s:.1f}" for s in seed],
        "flower": colour,
        "plot": [f"P{p}" for p in rng.integers(0, 12, 80)],
    }
    return table, of, {"waiting_mean": 1.0, "waiting_sd": 0.1}


def versions(rng: Rng) -> Made:
    """Versions of a document: words, headings, authors; a new one is made from any of the last."""
    of = spread(rng, 70, lambda: rng.exponential(20), mean=1.3)
    words = of.follow(lambda: 800, lambda p, _: max(50, p + int(rng.normal(40, 60))))
    heads = of.follow(lambda: 5, lambda p, _: max(1, p + int(rng.choice([-1, 0, 0, 0, 1]))))
    author = of.follow(
        lambda: "anna",
        lambda p, _: p if rng.random() < 0.5 else str(rng.choice(["anna", "ben", "caro"])),
    )
    table = {"saved": hours(24 * of.time), "words": words, "headings": heads, "author": author}
    return table, of, {"waiting_mean": 20.0, "waiting_sd": 20.0}


def cells(rng: Rng) -> Made:
    """Cells with sizes and markers, and no dates at all."""
    of = spread(rng, 60, lambda: rng.gamma(10, 1.0), mean=2.0)
    x, y = walk(rng, of, 3.0)
    marker = of.follow(lambda: rng.normal(5, 2), lambda p, _: p + rng.normal(0, 0.4))
    size = rng.lognormal(3, 0.3, 60)
    table = {
        "x": [f"{a:.2f}" for a in x],
        "y": [f"{b:.2f}" for b in y],
        "size": [f"{s:.1f}" for s in size],
        "marker": [f"{m:.2f}" for m in marker],
    }
    return table, of, {}


def long_gaps(rng: Rng) -> Made:
    """Most fall ill within weeks, one in seven after many months."""
    of = spread(
        rng, 80, lambda: rng.gamma(9, 2.0) if rng.random() < 0.85 else rng.gamma(4, 60.0), mean=1.5
    )
    x, y = walk(rng, of, 2.0)
    genotype = of.follow(
        lambda: int(rng.integers(8)),
        lambda p, _: p if rng.random() < 0.95 else int(rng.integers(8)),
    )
    table = {
        "onset": days(of.time),
        "x": [f"{a:.1f}" for a in x],
        "y": [f"{b:.1f}" for b in y],
        "genotype": [f"g{g}" for g in genotype],
    }
    return table, of, {"waiting_mean": 18.0, "waiting_sd": 6.0}


def superspreaders(rng: Rng) -> Made:
    """One in ten infects nearly all, at gatherings far from home."""
    of = spread(rng, 90, lambda: rng.gamma(6, 1.0), mean=2.0, dispersion=0.1)
    x, y = walk(rng, of, 5.0)
    venue = of.follow(
        lambda: int(rng.integers(6)), lambda p, _: p if rng.random() < 0.5 else int(rng.integers(6))
    )
    table = {
        "onset": days(of.time),
        "x": [f"{a:.2f}" for a in x],
        "y": [f"{b:.2f}" for b in y],
        "venue": [f"v{v}" for v in venue],
    }
    return table, of, {"waiting_mean": 6.0, "waiting_sd": 2.4}


def half_absent(rng: Rng) -> Made:
    """Every second case is not in the table."""
    whole = spread(rng, 160, lambda: rng.gamma(9, 1.0))
    x, y = walk(rng, whole, 3.0)
    school = whole.follow(
        lambda: int(rng.integers(10)),
        lambda p, _: p if rng.random() < 0.8 else int(rng.integers(10)),
    )
    kept = np.sort(rng.choice(160, 80, replace=False))
    of = whole.only(kept)
    table = {
        "onset": days(of.time),
        "x": [f"{x[i]:.2f}" for i in kept],
        "y": [f"{y[i]:.2f}" for i in kept],
        "school": [f"s{school[i]}" for i in kept],
    }
    return table, of, {"waiting_mean": 9.0, "waiting_sd": 3.0}


def two_outbreaks(rng: Rng) -> Made:
    """Two outbreaks at the same time that have nothing to do with each other."""
    of = spread(rng, 90, lambda: rng.gamma(9, 1.0), first=(0.0, 5.0))
    x, y = walk(rng, of, 2.0)
    town = of.follow(
        lambda: int(rng.integers(12)),
        lambda p, _: p if rng.random() < 0.8 else int(rng.integers(12)),
    )
    table = {
        "onset": days(of.time),
        "easting": [f"{500 + a:.1f}" for a in x],
        "northing": [f"{200 + b:.1f}" for b in y],
        "town": [f"t{t}" for t in town],
        "age": [int(a) for a in rng.uniform(1, 80, 90)],
    }
    return table, of, {"waiting_mean": 9.0, "waiting_sd": 3.0}


def wrong_dates(rng: Rng) -> Made:
    """One date in twenty is off by a month."""
    of = spread(rng, 80, lambda: rng.gamma(9, 1.0))
    x, y = walk(rng, of, 2.0)
    ward = of.follow(
        lambda: int(rng.integers(8)), lambda p, _: p if rng.random() < 0.8 else int(rng.integers(8))
    )
    off = np.where(rng.random(80) < 0.05, rng.choice([-30, 30], 80), 0)
    table = {
        "onset": days(of.time + off),
        "x": [f"{a:.2f}" for a in x],
        "y": [f"{b:.2f}" for b in y],
        "ward": [f"w{w}" for w in ward],
    }
    return table, of, {"waiting_mean": 9.0, "waiting_sd": 3.0}


def towns(rng: Rng) -> Made:
    """The coordinates are those of the nearest of thirty towns."""
    of = spread(rng, 80, lambda: rng.gamma(9, 1.0))
    x, y = walk(rng, of, 4.0)
    centres = rng.normal((x.mean(), y.mean()), 15, (30, 2))
    near = centres[
        ((x[:, None] - centres[:, 0]) ** 2 + (y[:, None] - centres[:, 1]) ** 2).argmin(1)
    ]
    table = {
        "onset": days(of.time),
        "latitude": [f"{50 + b / 111:.5f}" for b in near[:, 1]],
        "longitude": [f"{8 + a / 71:.5f}" for a in near[:, 0]],
        "vaccinated": list(rng.choice(["yes", "no", ""], 80, p=[0.2, 0.7, 0.1])),
    }
    return table, of, {"waiting_mean": 9.0, "waiting_sd": 3.0}


SORTS: dict[str, Callable[[Rng], Made]] = {
    "hospital": hospital,
    "weeks and districts": weekly,
    "columns without information": uninformative,
    "farms": farms,
    "partners": partners,
    "rumours": rumours,
    "pedigree": pedigree,
    "versions": versions,
    "cells without dates": cells,
    "long gaps": long_gaps,
    "superspreaders": superspreaders,
    "half of the cases absent": half_absent,
    "two outbreaks": two_outbreaks,
    "wrong dates": wrong_dates,
    "places rounded to towns": towns,
}


def made(sort: str, seed: int) -> tuple[dict[str, list[Any]], dict[str, str], dict[str, Any]]:
    """Return a table in no order, the true parent of each record ("": none), and the options."""
    rng = np.random.default_rng([seed, list(SORTS).index(sort)])
    table, of, options = SORTS[sort](rng)
    names = [f"r{i}" for i in rng.permutation(len(of.parent))]
    order = np.argsort([int(name[1:]) for name in names])
    truth = {names[u]: names[v] if v >= 0 else "" for u, v in enumerate(of.parent)}
    columns = {"id": names} | table
    return {name: [cells[i] for i in order] for name, cells in columns.items()}, truth, options


def scored(found: Ancestry, truth: dict[str, str]) -> Any:
    """Return records, right, promised, and the sums of log-scores and of uniform ones."""
    posterior = found.fitted
    place = {name: i for i, name in enumerate(posterior.records.ids)} | {"": -1}
    edges, trees = posterior.edges, posterior.trees
    T = len(posterior.records)
    support = np.zeros((T, T + 1))
    support[edges.child, edges.parent] = trees.edge_marginals
    support[:, -1] = trees.root_marginals
    rows = np.array([place[name] for name in truth])
    true = np.array([place[name] for name in truth.values()])
    best = support[rows].argmax(axis=1)
    number = np.bincount(edges.child, minlength=T)[rows] + 1
    allowed = np.zeros((T, T + 1), dtype=bool)
    allowed[edges.child, edges.parent] = True
    allowed[:, -1] = True
    possible = allowed[rows, true]  # a wrong date may rule out the truth, for any choice
    return np.array(
        [
            T,
            (best == true % (T + 1)).sum(),
            support[rows].max(axis=1).sum(),
            np.log(np.maximum(support[rows, true], NEVER)).sum(),
            np.where(possible, -np.log(number), np.log(NEVER)).sum(),
        ]
    )


def bar(sums: Any) -> str:
    """Return "met", or what is missed."""
    n, right, promised, score, uniform = sums
    error = float(np.sqrt(max(right * (1 - right / n), 1.0)))
    missed = ["promises"] * bool(promised > right + 2 * error + 0.1 * n)
    return ", ".join(missed + ["log-score"] * bool(score <= uniform)) or "met"


def main() -> None:
    """Print the table."""
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    words = [a for a in sys.argv[1:] if not a.isdigit()]
    n, first = (numbers + [10, 100][len(numbers) :])[:2]
    print(
        "| table | run | records | right | promised | log-score | uniform | bar | s of processor |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for sort in SORTS:
        if words and not any(word in sort for word in words):
            continue
        for run in ("defaults", "given"):
            sums, begin = np.zeros(5), time.process_time()
            for seed in range(first, first + n):
                table, truth, options = made(sort, seed)
                if run == "given" and not options:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = Ancestry(id="id", random_state=0, **(options if run == "given" else {}))
                    sums += scored(model.fit(table), truth)
            if not sums[0]:
                continue
            records, right, promised, score, uniform = sums
            print(
                f"| {sort} | {run} | {records:.0f} | {right:.0f} | {promised:.0f} "
                f"| {score / records:.2f} | {uniform / records:.2f} | {bar(sums)} "
                f"| {(time.process_time() - begin) / n:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

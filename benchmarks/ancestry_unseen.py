"""Claim: on tables that settled nothing, what is called probable comes true about that often.

Each table is run as a stranger would (defaults) and as someone who knows what the records are (a
published waiting time, ends of records). The commands stand in TABLES, written before any truth is
read; columns that hold the truth are removed. Printed: children with a known parent, how many of
their best parents are right, how many were promised, the mean log-score of the true parent beside
that of a uniform choice among the possible parents, how many the best simple rule gets (nearest
earlier record, fewest differences, nearest weighted by the waiting time), and whether the run does
what is asked of it:

- defaults: promised ≤ right + 2 binomial errors + 10 % of the children, log-score above uniform;
- informed: right ≥ the best simple rule, promised within 10 % of right;
- shuffled: promised no more than 5 % of the children above right.

    python benchmarks/ancestry_unseen.py report     # the half that settled nothing
    python benchmarks/ancestry_unseen.py decide     # the half on which defaults were settled
    python benchmarks/ancestry_unseen.py report --shuffled
    python benchmarks/ancestry_unseen.py speed      # 3,237 records, of both halves

The tables are read from ../shared/data/ancestry, which may not be shipped.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from outtrees import Ancestry
from outtrees.records import read_records

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "ancestry"
# Not shuffled; without frames a film is no table of tracks.
DATES = {"Date", "import", "date_symptoms", "days_uncertain", "birth", "last", "tmin"}
# Published: measles 11.7 days (Vink, Bootsma & Wallinga 2014), sd of the same order as their
# estimates; rabies in dogs: lognormal, mean and sd of Mancy et al. 2022.
MEASLES = {"waiting_mean": 11.7, "waiting_sd": 2.0, "kinds": {"import": "introduction"}}
RABIES = {"waiting_mean": 27.7, "waiting_sd": 34.8, "waiting_law": "lognormal"}


def rows_of(name: str) -> list[dict[str, str]]:
    with open(DATA / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def column(rows: list[dict[str, str]], name: str) -> list[str]:
    return [row[name] for row in rows]


def measles(which: str) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Return the cases without cluster, generation and infector, and who infected whom."""
    rows = rows_of(f"measles_counties/cases_{which}.csv")
    names = [n for n in rows[0] if n not in ("cluster", "generation", "infector_ID")]
    truth = {r["ID"]: str(int(float(r["infector_ID"]))) for r in rows if r["infector_ID"]}
    return {name: column(rows, name) for name in names}, truth


def rabies(low: str, high: str) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Return the rabid animals of some years without their biters, and the traced biters."""
    rows = rows_of("rabies_serengeti/tree_ct_data_deid.csv")
    rows = [r for r in rows if low <= r["date_symptoms"] < high]
    names = [n for n in rows[0] if n != "id_biter"]
    return {n: column(rows, n) for n in names}, {r["id_case"]: r["id_biter"] for r in rows}


def cells(name: str) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Return one film's table of tracks without its lineage, and the mothers."""
    rows = rows_of(f"cells_mcf10a/{name}.csv")
    names = [n for n in rows[0] if n not in ("motherID", "generation", "lineage")]
    return {n: column(rows, n) for n in names}, {r["TID"]: r["motherID"] for r in rows}


def embryo() -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Return the cells of a worm embryo without their mothers."""
    rows = rows_of("lineage_celegans/CD20120621_end-3_pop-1i_L2_per_cell.csv")
    names = [n for n in rows[0] if n != "true_parent"]
    table: dict[str, list[Any]] = {n: column(rows, n) for n in names}
    table["cell"] = [f"c{i}" for i in range(len(rows))]  # the names tell the lineage
    code = {row["cell"]: f"c{i}" for i, row in enumerate(rows)}
    truth = {code[r["cell"]]: code.get(r["true_parent"], "") for r in rows}
    return table, truth


TABLES: dict[str, dict[str, tuple[Any, dict[str, Any], dict[str, Any]]]] = {
    "decide": {
        "measles short": (
            lambda: measles("short"),
            {},
            {**MEASLES, "coordinates": {"Cens_tract": "measles_counties/regions_short.csv"}},
        ),
        "rabies 2006-2008": (lambda: rabies("2006", "2008"), {}, RABIES),
        "cells EGF 3": (lambda: cells("EGF_3"), {}, {}),
    },
    "speed": {"rabies, all years": (lambda: rabies("2000", "2030"), {}, {})},
    "report": {
        "cells HGF 1": (lambda: cells("HGF_1"), {}, {}),
        "cells HGF 2": (lambda: cells("HGF_2"), {}, {}),
        "cells HGF 4": (lambda: cells("HGF_4"), {}, {}),
        "rabies 2008-2010": (lambda: rabies("2008", "2010"), {}, RABIES),
        "rabies 2010-2016": (lambda: rabies("2010", "2016"), {}, RABIES),
        "worm embryo": (embryo, {}, {"until": "last", "kinds": {"birth": "date", "last": "date"}}),
        "measles long": (
            lambda: measles("long"),
            {},
            {**MEASLES, "coordinates": {"county": "measles_counties/regions_long.csv"}},
        ),
    },
}


def shuffled(table: dict[str, list[Any]], dates: set[str]) -> dict[str, list[Any]]:
    """Return the table with every column but identities and dates shuffled by itself."""
    rng = np.random.default_rng(0)
    first = next(iter(table))
    return {
        name: cells
        if name == first or name in dates
        else [cells[i] for i in rng.permutation(len(cells))]
        for name, cells in table.items()
    }


def best_of(child: Any, parent: Any, score: Any, T: int) -> Any:
    """Return the parent with the highest score of each record (T,), the first of equals."""
    top = np.full(T, -np.inf)
    np.maximum.at(top, child, score)
    at = np.flatnonzero((score == top[child]) & (score > -np.inf))[::-1]
    result = np.full(T, -1)
    result[child[at]] = parent[at]
    return result


def simple_rules(found: Ancestry) -> dict[str, Any]:
    """Return the parent that each simple rule gives each record (T,)."""
    posterior = found.fitted
    child, parent = posterior.edges.child, posterior.edges.parent
    T, dates = len(posterior.records), posterior.lineage.dates
    squares, differ = np.zeros(len(child)), np.zeros(len(child))
    for c, (column, cells) in enumerate(
        zip(posterior.lineage.kernels, posterior.values, strict=True)
    ):
        if c == dates:
            continue
        if hasattr(column, "levels"):
            differ += cells[child, 0] != cells[parent, 0]
            continue
        width = cells.shape[1] // 2 if getattr(column, "ends", False) else cells.shape[1]
        moved = cells[child, :width] - cells[parent, -width:]
        squares += np.nan_to_num((moved / np.nanstd(cells[:, :width], axis=0)) ** 2).sum(axis=1)
    waits = posterior.lineage.log_waits(
        posterior.pairs, posterior.lineage.compared(posterior.values)
    )
    elapsed = np.concatenate([s.elapsed for s in posterior.pairs.stretches])
    nearest = np.full(T, np.inf)
    np.minimum.at(nearest, child, squares)
    scale = max(float(np.median(nearest[np.isfinite(nearest)])), 1e-9)
    tie = -1e-9 * elapsed / max(float(elapsed.max()), 1.0)  # of equals the latest
    rules = {
        "nearest earlier": -squares - differ + tie,
        "fewest differences": -differ + tie,
        "nearest by waiting time": waits - 0.5 * squares / scale - 2.0 * differ,
    }
    return {name: best_of(child, parent, score, T) for name, score in rules.items()}


def measured(found: Ancestry, truth: dict[str, str]) -> dict[str, float]:
    """Return how many are right, how many were promised, and log-scores."""
    posterior = found.fitted
    ids = posterior.records.ids
    place = {name: i for i, name in enumerate(ids)}
    edges, trees = posterior.edges, posterior.trees
    best = {u: (p, -1) for u, p in enumerate(trees.root_marginals.tolist())}
    support = {}
    for u, v, p in zip(
        edges.child.tolist(), edges.parent.tolist(), trees.edge_marginals.tolist(), strict=True
    ):
        support[u, v] = p
        if p > best[u][0]:
            best[u] = p, v
    number = np.bincount(edges.child, minlength=len(ids))
    known = [(place[c], place[p]) for c, p in truth.items() if c in place and p in place]
    n = len(known)
    rules = simple_rules(found)
    return {
        "children": n,
        "right": sum(best[u][1] == v for u, v in known),
        "promised": sum(best[u][0] for u, _ in known),
        "score": sum(np.log(max(support.get(pair, 0.0), 1e-12)) for pair in known) / n,
        "uniform": -sum(np.log(max(int(number[u]), 1)) for u, _ in known) / n,
        "rule": max(sum(rule[u] == v for u, v in known) for rule in rules.values()),
    }


def bars(m: dict[str, float], run: str, shuffled: bool) -> str:
    """Return "met", or what is missed."""
    n, right, promised = m["children"], m["right"], m["promised"]
    if shuffled:
        return "met" if promised <= right + 0.05 * n else "promises"
    missed = []
    if run == "defaults":
        error = float(np.sqrt(max(right * (1 - right / n), 1.0)))
        if promised > right + 2 * error + 0.1 * n:
            missed.append("promises")
        if m["score"] <= m["uniform"]:
            missed.append("log-score")
    else:
        if right < m["rule"]:
            missed.append("simple rule")
        if abs(promised - right) > 0.1 * right:
            missed.append("promises")
    return ", ".join(missed) or "met"


def main() -> None:
    half = sys.argv[1] if len(sys.argv) > 1 else "report"
    only = [a for a in sys.argv[2:] if not a.startswith("--")]
    if not DATA.exists():
        print(f"nothing to run: {DATA.name} is not beside the project")
        return
    print(
        "| table | run | children | right | promised | log-score | uniform | simple rule | bar "
        "| processor s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, (read, defaults, informed) in TABLES[half].items():
        if only and not any(word in name for word in only):
            continue
        runs = {"defaults": defaults} | ({"informed": informed} if informed else {})
        for run, options in runs.items():
            table, truth = read()
            if "--shuffled" in sys.argv:
                table = shuffled(table, DATES)
            options = {**options}
            files = {c: DATA / file for c, file in options.pop("coordinates", {}).items()}
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    model = Ancestry(id=next(iter(table)), random_state=0, **options)
                    found = model.fit(
                        read_records(table, id=model.id, kinds=model.kinds, coordinates=files)
                        if files
                        else table
                    )
                except Exception as error:  # the table says what went wrong
                    print(f"| {name} | {run} | {type(error).__name__}: {error} |", flush=True)
                    continue
            seconds = time.process_time() - begin
            m = measured(found, truth)
            print(
                f"| {name} | {run} | {m['children']:.0f} | {m['right']:.0f} "
                f"| {m['promised']:.1f} | {m['score']:.2f} | {m['uniform']:.2f} "
                f"| {m['rule']:.0f} | {bars(m, run, '--shuffled' in sys.argv)} | {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""Claim: on records whose parents are known, `Ancestry` finds more of them than nearest neighbours
and minimum spanning arborescences on the same distances, and its supports are calibrated.

Reads ../shared/data/ancestry; sets that are absent are skipped. Prints a table for each set, then
the calibration: among the candidate edges with a support in a bin, the share that is true, beside
the mean support and the binomial error. Run: python benchmarks/ancestry.py [set ...]
"""

from __future__ import annotations

import csv
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from outtrees import Ancestry, OutTreeDistribution

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "ancestry"
BINS = np.array([0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0001])
FEWEST = 50  # edges in a bin before its share means anything


class Problem(NamedTuple):
    """Records with known parents, and what the simple methods use."""

    ancestry: Ancestry  # fitted
    truth: list[set[int]]  # the right parents of each record; empty: not scored
    distances: np.ndarray  # (T, T)
    dates: np.ndarray | None  # (T,)
    groups: np.ndarray  # (T,)
    root: int | None
    seconds: float


def rows(path: Path, **options) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, **options))


def euclidean(X: np.ndarray) -> np.ndarray:
    return np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=-1))


def fitted(ancestry: Ancestry, table, **options) -> tuple[Ancestry, float]:
    start = time.perf_counter()
    ancestry.fit(table, **options)
    _ = ancestry.fitted.consensus
    return ancestry, time.perf_counter() - start


def outbreak() -> Problem:
    """A simulated outbreak of 30 cases: onset dates, 10,000 bases, the generation time given."""
    folder = DATA / "outbreak_fake"
    table = rows(folder / "cases_true_tree.csv")
    given = [0.0] + [float(row["w"]) for row in rows(folder / "generation_time_w.csv")]
    ancestry, seconds = fitted(
        Ancestry(
            id="case",
            kinds={"onset": "date", "sample": "ignore", "true_infector": "ignore"},
            roots="any",
            generation_time=given,
        ),
        folder / "cases_true_tree.csv",
        sequences=folder / "dna.fasta",
    )
    place = {row["case"]: i for i, row in enumerate(table)}
    truth = [{place[row["true_infector"]]} if row["true_infector"] else set() for row in table]
    snps = rows(folder / "snps.csv")
    sites = np.array([[row[name] for name in row if name != "case"] for row in snps])
    dates = np.array([float(row["onset"]) for row in table])
    distances = (sites[:, None] != sites[None]).sum(axis=-1).astype(float)
    groups = np.zeros(len(table), dtype=int)
    return Problem(ancestry, truth, distances, dates, groups, None, seconds)


def celegans(ignored: tuple[str, ...] = ("n", "blot")) -> Problem:
    """A worm's embryo, 656 cells: place, size, first and last frame."""
    (path,) = (DATA / "lineage_celegans").glob("*_per_cell.csv")
    table = rows(path)
    ancestry, seconds = fitted(
        Ancestry(
            id="cell",
            kinds={"birth": "date", "size": "continuous"}
            | dict.fromkeys(("true_parent", *ignored), "ignore"),
            until="last",
            roots="any",
        ),
        path,
    )
    place = {row["cell"]: i for i, row in enumerate(table)}
    truth = [{place[row["true_parent"]]} if row["true_parent"] in place else set() for row in table]
    X = np.array([[float(row[name]) for name in ("x", "y", "z", "size")] for row in table])
    dates = np.array([float(row["birth"]) for row in table])
    distances = euclidean((X - X.mean(axis=0)) / X.std(axis=0))
    return Problem(ancestry, truth, distances, dates, np.zeros(len(X), dtype=int), None, seconds)


def celegans_all() -> Problem:
    """The same with every column: the number of frames and the reporter's brightness too."""
    return celegans(ignored=())


def intmemoir(generations: int = 4, group_spread: bool = True) -> Problem:
    """107 colonies of mouse cells on film: the frame in which a cell divides, and where it is.

    Cells that never divided have the last frame, 216: their own date is not known (censored).
    """
    folder = DATA / "lineage_intmemoir"
    table = rows(folder / "locations_all_cells.csv")
    ids = [f"{row['colony']}/{row['cell']}" for row in table]
    place = {name: i for i, name in enumerate(ids)}
    frames = [float(row["cell"].split("_")[0]) for row in table]
    columns = {
        "id": ids,
        "colony": [row["colony"] for row in table],
        "frame": frames,
        "undivided": ["yes" if frame == max(frames) else "no" for frame in frames],
        "x": [float(row["x"]) for row in table],
        "y": [float(row["y"]) for row in table],
    }
    ancestry, seconds = fitted(
        Ancestry(
            id="id",
            kinds={"colony": "group", "frame": "date"},
            censored="undivided",
            clock=True,
            ties=False,
            roots="any",
            links=generations,  # some divisions were missed
            group_spread=group_spread,
        ),
        columns,
    )
    truth: list[set[int]] = [set() for _ in ids]
    for row in rows(folder / "true_edges.csv"):
        child, parent = (f"{row['colony']}/{row[end]}" for end in ("child", "parent"))
        if child in place and parent in place:
            truth[place[child]].add(place[parent])
    X = np.array([columns["x"], columns["y"]]).T
    colonies = np.unique(columns["colony"], return_inverse=True)[1]
    return Problem(ancestry, truth, euclidean(X), np.array(frames), colonies, None, seconds)


def intmemoir_direct() -> Problem:
    """The same without unobserved links, and with one spread for all colonies."""
    return intmemoir(generations=1, group_spread=False)


def besoin(omission: str = "", generations: int = 1) -> Problem:
    """A text copied by hand, 13 witnesses, 1,035 words; the first witness is given as the root.

    Witness F was copied from two: either counts. B was copied from a lost copy of U: U counts. U is
    a fragment, and a word left out looks like one lost: blanks are missing cells.
    """
    folder = DATA / "stemma_notre_besoin"
    text = (folder / "notrebesoin_aligned_n1-n13.tsv").read_text(encoding="latin-1")
    lines = [line.split("\t") for line in text.splitlines()]
    names, words = lines[0], np.array(lines[1:])
    words[words == ""] = omission
    key = {row["aligned_label"]: row for row in rows(folder / "true_parent.csv")}
    siglum = [key[name]["siglum"] for name in names]
    place = {name: i for i, name in enumerate(siglum)}
    truth = []
    for name in names:
        given = key[name]["true_parent"].replace("omega(lost,parent U)", "U")
        truth.append({place[parent] for parent in given.split(";") if parent})
    varying = [line for line in words if len(set(line)) > 1]
    columns = {"siglum": siglum} | {f"w{i}": line.tolist() for i, line in enumerate(varying)}
    kinds = {name: "categorical" for name in columns if name != "siglum"}
    ancestry, seconds = fitted(
        Ancestry(id="siglum", kinds=kinds, root="T1", links=generations), columns
    )
    distances = (words.T[:, None] != words.T[None]).mean(axis=-1)
    groups = np.zeros(len(siglum), dtype=int)
    return Problem(ancestry, truth, distances, None, groups, place["T1"], seconds)


def besoin_omissions() -> Problem:
    """The same with a word left out counted as a reading, in the fragment U too."""
    return besoin(omission="(none)")


def besoin_links() -> Problem:
    """The same with one unobserved copy between a text and its source, if likely."""
    return besoin(generations=2)


SETS: dict[str, Callable[[], Problem]] = {
    "outbreak": outbreak,
    "celegans": celegans,
    "intmemoir": intmemoir,
    "besoin": besoin,
    # The same records, otherwise described: how much the answer rests on the description.
    "celegans_all": celegans_all,
    "intmemoir_direct": intmemoir_direct,
    "besoin_omissions": besoin_omissions,
    "besoin_links": besoin_links,
}


def simple_parents(problem: Problem) -> dict[str, np.ndarray]:
    """Return the parents that simple methods find."""
    T = len(problem.groups)
    apart = (problem.groups[:, None] != problem.groups[None]) | np.eye(T, dtype=bool)
    distances = np.where(apart, np.inf, problem.distances)
    found = {"nearest neighbour": distances.argmin(axis=1)}
    if problem.dates is not None:
        later = problem.dates[None] >= problem.dates[:, None]
        distances = np.where(later, np.inf, distances)
        found["nearest earlier neighbour"] = distances.argmin(axis=1)
    parents = np.full(T, -1)
    for group in np.unique(problem.groups):
        members = np.flatnonzero(problem.groups == group)
        log_root = np.full(len(members), -1e6 if problem.root is None else -np.inf)
        if problem.root is not None:
            log_root[members == problem.root] = 0.0
        block = -distances[np.ix_(members, members)]
        local = OutTreeDistribution(block, log_root, roots="any").mode().parents
        parents[members] = np.where(local >= 0, members[local], -1)
    found["minimum spanning arborescence"] = parents
    return found


def right(parents: np.ndarray, truth: list[set[int]]) -> float:
    scored = [i for i, true in enumerate(truth) if true]
    return float(np.mean([parents[i] in truth[i] for i in scored]))


def supports(problem: Problem) -> dict[int, dict[int, float]]:
    result: dict[int, dict[int, float]] = defaultdict(dict)
    for (child, parent), support in problem.ancestry.fitted.support_of.items():
        result[child][parent] = support
    return result


def calibration(problem: Problem) -> list[tuple[float, float, int, float, float, float]]:
    """Return (from, to, edges, mean support, true share, deviation in binomial errors)."""
    p, true = [], []
    for child, candidates in supports(problem).items():
        if problem.truth[child]:
            for parent, support in candidates.items():
                p.append(support)
                true.append(parent in problem.truth[child])
    p, true = np.array(p), np.array(true, dtype=float)
    lines = []
    for low, high in pairwise(BINS):
        inside = (p >= low) & (p < high)
        if inside.sum() >= FEWEST:
            error = np.sqrt((p[inside] * (1 - p[inside])).sum()) / inside.sum()
            difference = true[inside].mean() - p[inside].mean()
            deviation = difference / error if error > 0 else 0.0
            n = int(inside.sum())
            lines.append((low, min(high, 1), n, p[inside].mean(), true[inside].mean(), deviation))
    return lines


def main() -> None:
    for name in sys.argv[1:] or SETS:
        try:
            problem = SETS[name]()
        except (FileNotFoundError, ValueError) as error:
            print(f"{name}: skipped, {error}")
            continue
        n = sum(map(bool, problem.truth))
        lookup = supports(problem)
        log_scores, expected = [], 0.0
        for i, true in enumerate(problem.truth):
            if true:
                share = sum(lookup[i].get(parent, 0.0) for parent in true)
                expected += share
                log_scores.append(np.log(share) if share > 0 else -np.inf)
        print(f"\n## {name}: {SETS[name].__doc__.splitlines()[0]} ({n} known parents)")
        print(f"fit and trees: {problem.seconds:.1f} s, {problem.ancestry.n_iter_} iterations")
        print("| method | right parents |\n|---|---|")
        for method, parents in simple_parents(problem).items():
            print(f"| {method} | {right(parents, problem.truth):.3f} |")
        for kind in ("consensus", "mode"):
            print(f"| Ancestry, {kind} | {right(problem.ancestry.tree(kind), problem.truth):.3f} |")
        print(f"expected by the supports of the true parents: {expected / n:.3f} ({expected:.2f})")
        print(f"log-score of the true parents: {np.mean(log_scores):.3f} (median ", end="")
        print(f"{np.median(log_scores):.3f}; {np.isneginf(log_scores).sum()} impossible)")
        table = calibration(problem)
        if table:
            print("| supports | edges | mean support | true share | binomial errors off |")
            print("|---|---|---|---|---|")
        for low, high, edges, mean, share, deviation in table:
            print(
                f"| {low:.2f}–{high:.2f} | {edges} | {mean:.3f} | {share:.3f} | {deviation:+.1f} |"
            )
        for sentence in problem.ancestry.describe()[:6]:
            print(f"- {sentence}")
        for warning in problem.ancestry.warnings_:
            print(f"! {warning}")


if __name__ == "__main__":
    main()

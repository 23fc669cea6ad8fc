"""Claim: in colonies of cells, known parents of some colonies (`Ancestry.calibrate`) and at most
two daughters (`limited_parents`) halve how far supports of others are off; and why they are.

Reads ../shared/data/ancestry/lineage_intmemoir, 107 colonies of mouse cells. Prints

0. the likelihood with up to 2 and up to 4 links from a cell to its parent record, by which 4 is
   chosen for the rest;
1. what the model takes for granted, measured on the true parents: sisters and neighbours that move
   independently;
2. supports where that is so: the same tree and frames, places drawn from the model itself, with
   parameters that the true parents give;
3. supports of the colonies that were not used for calibration: each half of the colonies by the
   other, and all but every tenth by these.

Run: python benchmarks/ancestry_colonies.py [sweeps of each chain]
"""

from __future__ import annotations

import copy
import sys
import time
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np

from ancestry import BINS, FEWEST, intmemoir
from outtrees.ancestry.limiting import limited_supports

CHAINS = 4


def calibration(fitted, edge_supports, parents: np.ndarray, scored: np.ndarray) -> None:
    """Print the true share of the edges in each bin, for the records that are scored."""
    child, parent = fitted.edges.child, fitted.edges.parent
    used = scored[child] & (parents[child] >= 0)
    p, true = edge_supports[used], (parents[child] == parent)[used]
    best = {}
    for i in np.argsort(p, kind="stable"):
        best[child[used][i]] = true[i]
    print(
        f"right by the best candidate: {np.mean(list(best.values())):.3f} of {len(best)}; ", end=""
    )
    print(f"mean support of the true parent {p[true].sum() / len(best):.3f}")
    print("| supports | edges | mean support | true share | binomial errors off |")
    print("|---|---|---|---|---|")
    for low, high in pairwise(BINS):
        inside = (p >= low) & (p < high)
        if inside.sum() >= FEWEST:
            q, share = p[inside], true[inside].mean()
            off = (share - q.mean()) / (np.sqrt((q * (1 - q)).sum()) / len(q))
            print(f"| {low:.2f}–{min(high, 1):.2f} | {len(q)} | {q.mean():.3f} ", end="")
            print(f"| {share:.3f} | {off:+.1f} |")


def with_true_parameters(fitted, parents: np.ndarray):
    """Return what was fitted, with the parameters that the true parents give."""
    edges = (parents[fitted.edges.child] == fitted.edges.parent).astype(float)
    roots, lineage = (parents < 0).astype(float), fitted.lineage
    for _ in range(30):
        lineage = lineage.refit(fitted.pairs, edges, roots)
    return replace(fitted, lineage=lineage, root_rate=float(roots.mean()))


def movements(fitted, parents: np.ndarray) -> None:
    """Print how alike sisters and neighbours move, in standard deviations of the walk."""
    frames, places = fitted.values[0][:, 0], fitted.values[1]
    walk = fitted.lineage.kernels[1]
    child = np.flatnonzero(parents >= 0)
    mother = parents[child]
    wait = frames[child] - frames[mother]
    spread = np.sqrt(np.sqrt(np.linalg.det(walk.cov)) * (1 + walk.rate * wait))
    moved = (places[child] - places[mother]) / spread[:, None]
    sisters, near = [], []
    for group in np.unique(fitted.edges.groups):
        for a, b in combinations(np.flatnonzero(fitted.edges.groups[child] == group), 2):
            if mother[a] == mother[b]:
                sisters.append((max(wait[a], wait[b]), moved[a] @ moved[b] / 2))
                continue
            ends, starts = frames[[child[a], child[b]]], frames[[mother[a], mother[b]]]
            overlap = (ends.min() - starts.max()) / (ends.max() - starts.min())
            apart = places[mother[a]] - places[mother[b]]
            distance = np.hypot(*apart)
            if overlap >= 0.5 and distance > 0:
                near.append((distance, (moved[a] - moved[b]) @ apart / distance))
    sisters, near = np.array(sisters), np.array(near)
    for low, high in ((0, 20), (20, 300)):
        some = sisters[(sisters[:, 0] >= low) & (sisters[:, 0] < high), 1]
        print(f"sisters, {low}–{high} frames after birth: product {some.mean():+.2f} ({len(some)})")
    print("cells of two mothers, lives overlapping by half, along the line between the mothers:")
    print("| mothers apart | pairs | mean separation | variance, 1 if independent |")
    print("|---|---|---|---|")
    for low, high in pairwise((0, 10, 20, 30, 45, 80)):
        some = near[(near[:, 0] >= low) & (near[:, 0] < high), 1]
        print(f"| {low}–{high} | {len(some)} | {some.mean():+.2f} | {some.var() / 2:.2f} |")


def drawn_places(fitted, parents: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return places that the walk gives the cells of the true tree."""
    frames, places = fitted.values[0][:, 0], fitted.values[1].copy()
    waiting, walk = fitted.lineage.kernels
    K = fitted.lineage.generations
    ends = zip(fitted.edges.child, fitted.edges.parent, strict=True)
    edge_of = {end: e for e, end in enumerate(ends)}
    waits = np.array([waiting.log_steps(fitted.pairs.columns[0], k + 1) for k in range(K)])
    for u in np.argsort(frames, kind="stable"):
        if parents[u] < 0:
            continue
        logs = waits[:, edge_of[u, parents[u]]]
        chances = np.exp(logs - np.max(logs)) * fitted.lineage.step_weights
        k = 1 + rng.choice(K, p=chances / chances.sum())
        cov = (k + walk.rate * (frames[u] - frames[parents[u]])) * walk.cov
        places[u] = rng.multivariate_normal(places[parents[u]], cov)
    return places


def main() -> None:
    sweeps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print("## 0. Links from a cell to its parent record")
    for generations in (2, 4):
        problem = intmemoir(generations)
        found = problem.ancestry
        print(f"up to {generations}: log-likelihood {found.log_likelihood_:.1f}, ", end="")
        print(f"log-posterior {found.objectives_[-1]:.1f}")
    for sentence in found.describe():
        print(f"- {sentence}")
    parents = np.array([next(iter(true)) if true else -1 for true in problem.truth])
    everyone = np.ones(len(parents), dtype=bool)

    def limited(fitted, scored, name):
        begin = time.perf_counter()
        sampled = limited_supports(fitted, 2, sweeps, CHAINS, np.random.default_rng(0))
        seconds = time.perf_counter() - begin
        print(f"\n### {name}, at most two daughters ({seconds:.0f} s, largest Monte-Carlo ", end="")
        print(f"error {sampled.edge_errors.max():.3f}, R̂ {sampled.r_hat:.2f}, ", end="")
        print(f"{sampled.roots.sum():.0f} roots)")
        calibration(fitted, sampled.edges, parents, scored)
        return sampled.edges

    print("\n## 1. What is taken for granted")
    known = with_true_parameters(found.fitted, parents)
    movements(known, parents)
    print("\n## 2. Parameters of the true parents")
    limited(known, everyone, "real places")
    places = drawn_places(known, parents, np.random.default_rng(1))
    drawn = replace(known, values=(known.values[0], places))
    limited(drawn, everyone, "places drawn from the model")
    print("\n## 3. Parameters fitted without parents")
    print("\n### not calibrated, all colonies")
    calibration(found.fitted, found.fitted.trees.edge_marginals, parents, everyone)
    limited(found.fitted, everyone, "not calibrated, all colonies")
    ids, half = found.records.ids, problem.groups % 2
    crossed, crossed_limited = np.empty((2, len(found.edges_.child)))
    for name, used in (
        ("every second colony", half == 0),
        ("the other half", half == 1),
        ("every tenth colony", problem.groups % 10 == 0),
    ):
        told = {ids[u]: ids[parents[u]] if parents[u] >= 0 else None for u in np.flatnonzero(used)}
        fitted = copy.deepcopy(found).calibrate(told).fitted
        powers = ", ".join(f"{power:.2f}" for power in fitted.lineage.exponents)
        print(f"\n### calibrated by {name} ({len(told)} records): ", end="")
        print(f"{', '.join(fitted.names)} count {powers} times; all others")
        exact = fitted.trees.edge_marginals
        calibration(fitted, exact, parents, ~used)
        sampled = limited(fitted, ~used, f"calibrated by {name}, all others")
        others = ~used[fitted.edges.child]
        if "tenth" not in name:
            crossed[others], crossed_limited[others] = exact[others], sampled[others]
    print("\n### each half calibrated by the other")
    calibration(found.fitted, crossed, parents, everyone)
    print("\n### each half calibrated by the other, at most two daughters")
    calibration(found.fitted, crossed_limited, parents, everyone)


if __name__ == "__main__":
    main()

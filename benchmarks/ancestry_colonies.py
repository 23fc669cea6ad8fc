"""Claim: in colonies of cells, known parents of some colonies (`Ancestry.calibrate`) and at most
two daughters (`limited_parents`) make the supports of others calibrated; and why they were not.

Reads ../shared/data/ancestry/lineage_intmemoir, 107 colonies of mouse cells. Prints

0. the likelihood with up to 2 and up to 4 links from a cell to its parent record, with one spread
   of places or each colony's own (`group_spread`); by it 4 links and own spreads are chosen;
1. what the model takes for granted, measured on the true parents: normal steps, of one spread in
   all colonies, that do not depend on what sisters and neighbours do. And the same measured on
   places drawn from the model itself, with the same tree and frames;
2. supports with parameters that the true parents give: for the real places, for places drawn from
   the model, with a spread of its own for each colony, and with exactly two daughters;
3. supports of the colonies that were not used for calibration: each half of the colonies by the
   other, and all but every tenth by these. With the χ² of all bins beside their number.

Run: python benchmarks/ancestry_colonies.py [sweeps of each chain] [seed of the chains]
"""

from __future__ import annotations

import copy
import sys
import time
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np

from ancestry import BINS, DATA, FEWEST, intmemoir
from outtrees.ancestry.limited_children import limited_supports

CHAINS = 4
ONE_LIFE = 75  # frames: longer ones hold divisions that were missed


def calibration(
    fitted, edge_supports, parents: np.ndarray, scored: np.ndarray, least: float = 0.0
) -> None:
    """Print the true share of the edges in each bin, for the records that are scored.

    In the log-score a support counts as `least` at least: what no sampled tree has is not
    impossible.
    """
    child, parent = fitted.edges.child, fitted.edges.parent
    used = scored[child] & (parents[child] >= 0)
    p, true = edge_supports[used], (parents[child] == parent)[used]
    best = {}
    for i in np.argsort(p, kind="stable"):
        best[child[used][i]] = true[i]
    print(
        f"right by the best candidate: {np.mean(list(best.values())):.3f} of {len(best)}; ", end=""
    )
    print(f"mean support of the true parent {p[true].sum() / len(best):.3f}, ", end="")
    print(f"log-score {np.log(np.maximum(p[true], least)).sum():.0f}")
    print("| supports | edges | mean support | true share | binomial errors off |")
    print("|---|---|---|---|---|")
    offs = []
    for low, high in pairwise(BINS):
        inside = (p >= low) & (p < high)
        if inside.sum() >= FEWEST:
            q, share = p[inside], true[inside].mean()
            off = (share - q.mean()) / (np.sqrt((q * (1 - q)).sum()) / len(q))
            offs.append(off)
            print(f"| {low:.2f}–{min(high, 1):.2f} | {len(q)} | {q.mean():.3f} ", end="")
            print(f"| {share:.3f} | {off:+.1f} |")
    print(
        f"at most {np.abs(offs).max():.1f} off; χ² {np.square(offs).sum():.1f} of {len(offs)} bins"
    )


def with_true_parameters(fitted, parents: np.ndarray):
    """Return what was fitted, with the parameters that the true parents give."""
    edges = (parents[fitted.edges.child] == fitted.edges.parent).astype(float)
    roots, lineage = (parents < 0).astype(float), fitted.lineage
    for _ in range(30):
        lineage = lineage.refit(fitted.pairs, edges, roots)
    return replace(fitted, lineage=lineage, root_rate=float(roots.mean()))


def steps(fitted, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cells with a mother, how long after her they are, and their standardised steps."""
    frames, places = fitted.values[0][:, 0], fitted.values[1]
    walk = fitted.lineage.kernels[1]
    child = np.flatnonzero(parents >= 0)
    wait = frames[child] - frames[parents[child]]
    moved = places[child] - places[parents[child]]
    moved /= np.sqrt(1 + walk.rate * wait)[:, None]
    return child, wait, moved / np.sqrt((moved**2).mean())  # so that 1 is the variance of all


def colony_spreads(fitted, parents: np.ndarray) -> np.ndarray:
    """Return each colony's variance of steps, drawn to 1 as if by 6 more cells."""
    child, _, moved = steps(fitted, parents)
    colony = fitted.edges.groups[child]
    n = fitted.edges.groups.max() + 1
    total = np.bincount(colony, (moved**2).mean(axis=1), minlength=n)
    return (total + 6) / (np.bincount(colony, minlength=n) + 6)


def movements(fitted, parents: np.ndarray) -> None:
    """Print how steps are spread, and how alike sisters and neighbours move."""
    frames, places, groups = fitted.values[0][:, 0], fitted.values[1], fitted.edges.groups
    child, wait, moved = steps(fitted, parents)
    mother, squared = parents[child], (moved**2).mean(axis=1)
    colony = np.unique(groups[child], return_inverse=True)[1]
    cells = np.bincount(colony)
    # The mean squared step of n cells has variance 1 / n if steps in the plane are normal.
    beyond = (np.bincount(colony, squared) / cells - 1) ** 2 - 1 / cells
    between = np.average(beyond, weights=cells)
    print(f"variance of the colonies' variances: {between:+.2f} beyond chance")
    own = squared / colony_spreads(fitted, parents)[groups[child]]
    for low, high in ((0, 5), (5, 30), (30, 300)):
        some = own[(wait >= low) & (wait < high)]
        tails = (some**2).mean() / (2 * some.mean() ** 2)
        print(f"tails, {low}–{high} frames after birth: {tails:.2f}, 1 if normal ({len(some)})")
    sisters, lives, near = [], [], []
    for group in np.unique(groups):
        for a, b in combinations(np.flatnonzero(groups[child] == group), 2):
            if mother[a] == mother[b]:
                sisters.append((max(wait[a], wait[b]), moved[a] @ moved[b] / 2))
                if max(frames[child[a]], frames[child[b]]) < frames.max():  # both divided
                    lives += [(wait[a], wait[b]), (wait[b], wait[a])]
                continue
            ends, starts = frames[[child[a], child[b]]], frames[[mother[a], mother[b]]]
            overlap = (ends.min() - starts.max()) / (ends.max() - starts.min())
            apart = places[mother[a]] - places[mother[b]]
            distance = np.hypot(*apart)
            if overlap >= 0.5 and distance > 0:
                along = apart / distance
                across = np.array([-along[1], along[0]])
                near.append((distance, *(moved[[a, b]] @ along), *(moved[[a, b]] @ across)))
    sisters, near = np.array(sisters), np.array(near)
    for low, high in ((0, 20), (20, 300)):
        some = sisters[(sisters[:, 0] >= low) & (sisters[:, 0] < high), 1]
        print(f"sisters, {low}–{high} frames after birth: product {some.mean():+.2f} ({len(some)})")
    lives = np.array([pair for pair in lives if max(pair) < ONE_LIFE])
    alike = np.corrcoef(lives.T)[0, 1]
    print(
        f"sisters that both divided within {ONE_LIFE} frames: correlation of their lives ", end=""
    )
    print(f"{alike:.2f} ({len(lives) // 2})")
    print("cells of two mothers, lives overlapping by half, along the line between the mothers ")
    print("(half the variance of the difference = the variance of one step × (1 − correlation)):")
    print("| mothers apart | pairs | mean step away | half the variance of the difference ", end="")
    print("| variance of one step | correlation | variance across the line | correlation |")
    print("|---" * 8 + "|")
    for low, high in pairwise((0, 10, 20, 30, 45, 80)):
        some = near[(near[:, 0] >= low) & (near[:, 0] < high)]
        away = (some[:, 1] - some[:, 2]).mean() / 2
        one, other = some[:, 1] - away, some[:, 2] + away
        row = [f"{low}–{high}", f"{len(some)}", f"{away:+.2f}", f"{(one - other).var() / 2:.2f}"]
        for x, y in ((one, other), (some[:, 3], some[:, 4])):
            variance = (x @ x + y @ y) / (2 * len(some))
            row += [f"{variance:.2f}", f"{(x @ y) / len(some) / variance:+.2f}"]
        print(f"| {' | '.join(row)} |")


def drawn_places(fitted, parents: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return places that the walk gives the cells of the true tree."""
    frames, places = fitted.values[0][:, 0], fitted.values[1].copy()
    walk, K = fitted.lineage.kernels[1], fitted.lineage.generations
    ends = zip(fitted.edges.child, fitted.edges.parent, strict=True)
    edge_of = {end: e for e, end in enumerate(ends)}
    waits = np.array([fitted.lineage.log_columns(fitted.pairs, k + 1)[0] for k in range(K)])
    for u in np.argsort(frames, kind="stable"):
        if parents[u] < 0:
            continue
        logs = waits[:, edge_of[u, parents[u]]]
        chances = np.exp(logs - np.max(logs)) * fitted.lineage.step_weights
        k = 1 + rng.choice(K, p=chances / chances.sum())
        cov = (k + walk.rate * (frames[u] - frames[parents[u]])) * walk.cov
        places[u] = rng.multivariate_normal(places[parents[u]], cov)
    return places


def with_own_spreads(fitted, parents: np.ndarray):
    """Return the same with lengths in each colony divided by the spread of its steps."""
    spread = np.sqrt(colony_spreads(fitted, parents)[fitted.edges.groups])
    centre = fitted.lineage.kernels[1].centre
    places = centre + (fitted.values[1] - centre) / spread[:, None]
    return replace(fitted, values=(fitted.values[0], places))


def powers(fitted, exponents: np.ndarray) -> str:
    pairs = zip(fitted.names, exponents, strict=True)
    return ", ".join(f"{name} counts {power:.2f} times" for name, power in pairs)


def main() -> None:
    if not (DATA / "lineage_intmemoir").is_dir():
        sys.exit(
            "the data must be in ../shared/data/ancestry/lineage_intmemoir; got no such folder."
        )
    sweeps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    print("## 0. Links from a cell to its parent record, and spreads of places")
    for generations in (2, 4):
        for own in (False, True):
            problem = intmemoir(generations, own)
            found = problem.ancestry
            if not own:
                plain = found
            spread = "each colony's own spread" if own else "one spread"
            print(f"up to {generations}, {spread}: log-likelihood ", end="")
            print(f"{found.log_likelihood_:.1f}, log-posterior {found.objectives_[-1]:.1f}")
    for sentence in found.describe():
        print(f"- {sentence}")
    parents = np.array([next(iter(true)) if true else -1 for true in problem.truth])
    everyone = np.ones(len(parents), dtype=bool)
    divided = len(set(parents[parents >= 0]))
    least = 1 / (2 * sweeps * CHAINS)

    def limited(fitted, scored, name, daughters="at most two daughters"):
        begin = time.perf_counter()
        sampled = limited_supports(fitted, 2, sweeps, CHAINS, np.random.default_rng(seed))
        seconds = time.perf_counter() - begin
        print(f"\n### {name}, {daughters} ({seconds:.0f} s, largest Monte-Carlo ", end="")
        print(f"error {sampled.edge_errors.max():.3f}, R̂ {sampled.r_hat:.2f}, ", end="")
        print(f"{sampled.roots.sum():.0f} roots)")
        calibration(fitted, sampled.edges, parents, scored, least)
        return sampled.edges

    print("\n## 1. What is taken for granted")
    known = with_true_parameters(plain.fitted, parents)
    movements(known, parents)
    places = drawn_places(known, parents, np.random.default_rng(1))
    drawn = replace(known, values=(known.values[0], places))
    print("\n### places drawn from the model")
    movements(drawn, parents)
    print("\n## 2. Parameters of the true parents")
    limited(known, everyone, "real places")
    limited(drawn, everyone, "places drawn from the model")
    own = with_own_spreads(known, parents)
    limited(own, everyone, "a spread for each colony")
    # Every cell that divided has two recorded daughters, so the fewest roots mean just that.
    fewest = f"exactly two daughters ({len(parents) - 2 * divided} roots)"
    for fitted, name in ((known, "real places"), (own, "a spread for each colony")):
        limited(replace(fitted, root_rate=1e-6), everyone, name, fewest)
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
        told_model = (
            copy.deepcopy(found).calibrate(told).calibrate(told, max_children=2, random_state=seed)
        )
        fitted = told_model.fitted
        print(f"\n### calibrated by {name} ({len(told)} records): ", end="")
        print(f"{powers(fitted, fitted.lineage.exponents)}; all others")
        exact = fitted.trees.edge_marginals
        calibration(fitted, exact, parents, ~used)
        exponents = told_model.limited_exponents_[2]
        print(f"\nat most two daughters: {powers(fitted, exponents)}")
        under = replace(fitted, lineage=replace(fitted.lineage, exponents=exponents))
        sampled = limited(under, ~used, f"calibrated by {name}, all others")
        others = ~used[fitted.edges.child]
        if "tenth" not in name:
            crossed[others], crossed_limited[others] = exact[others], sampled[others]
    print("\n### each half calibrated by the other")
    calibration(found.fitted, crossed, parents, everyone)
    print("\n### each half calibrated by the other, at most two daughters")
    calibration(found.fitted, crossed_limited, parents, everyone, least)


if __name__ == "__main__":
    main()

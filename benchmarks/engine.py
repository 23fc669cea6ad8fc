"""The engine costs what LAPACK costs: every figure is a ratio of two times taken in one run.

Run: python benchmarks/engine.py [--quick]
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc

import numba
import numpy as np
import scipy.linalg

from outtrees import OutTreeDistribution
from outtrees.trees import elimination, extended
from outtrees.trees.weights import check


def fastest(*tasks, repeats=5):
    """Return the shortest time of each task; they take turns, so that noise hits all alike."""
    best = [np.inf] * len(tasks)
    for _ in range(repeats):
        for i, task in enumerate(tasks):
            gc.collect()
            start = time.perf_counter()
            task()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def row(claim, ratio, wanted, note=""):
    verdict = "reached" if ratio <= wanted else "NOT reached"
    print(f"| {claim} | {ratio:.2f} | ≤ {wanted} | {verdict} | {note} |", flush=True)


def random_logs(T, seed=0):
    return np.random.default_rng(seed).normal(size=(T, T))


def marginals(log_beta):
    dist = OutTreeDistribution(log_beta)
    return dist.log_z, dist.edge_marginals


def dense(T, repeats):
    log_beta = random_logs(T)
    matrix = random_logs(T, 1)
    both, log_z, inverse, slogdet, product = fastest(
        lambda: marginals(log_beta),
        lambda: OutTreeDistribution(log_beta).log_z,
        lambda: scipy.linalg.inv(matrix),
        lambda: np.linalg.slogdet(matrix),
        lambda: matrix @ matrix,
        repeats=repeats,
    )
    note = f"{both / product:.2f} × one product"
    row(f"log Z + marginals / `scipy.linalg.inv`, T = {T}", both / inverse, 1.5, note)
    row(f"log Z / `numpy.linalg.slogdet`, T = {T}", log_z / slogdet, 2.5)


def extended_range(T, repeats):
    weights = check(random_logs(T), None)

    def run(module):
        module.eliminate(weights, 0).marginals()

    run(extended)  # compile
    narrow, wide = fastest(lambda: run(elimination), lambda: run(extended), repeats=repeats)
    row(f"extended range / in range, T = {T}", wide / narrow, 12)


def growth(small, large, repeats):
    ours, lapack = [], []
    for T in (small, large):
        log_beta, matrix = random_logs(T), random_logs(T, 1)
        times = fastest(
            lambda b=log_beta: marginals(b), lambda m=matrix: scipy.linalg.inv(m), repeats=repeats
        )
        ours.append(times[0])
        lapack.append(times[1])
    slopes = [np.log(t[1] / t[0]) / np.log(large / small) for t in (ours, lapack)]
    note = f"exponents {slopes[0]:.2f} and {slopes[1]:.2f}"
    row(
        f"growth T = {small} → {large} / LAPACK's",
        ours[1] / ours[0] * lapack[0] / lapack[1],
        1.0,
        note,
    )


def peak_memory(T):
    log_beta = random_logs(T)
    tracemalloc.start()
    marginals(log_beta)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    row(f"peak memory in T × T arrays, T = {T}", peak / log_beta.nbytes, 4, "the input not counted")


@numba.njit
def wilson(rng, cumulative, root_cumulative, parents):
    """Wilson's algorithm: loop-erased walks until the tree is hit; a root drawn first."""
    n = len(cumulative)
    in_tree = np.zeros(n, np.bool_)
    for tree in parents:
        in_tree[:] = False
        root = np.searchsorted(root_cumulative, rng.random() * root_cumulative[-1], side="right")
        in_tree[root] = True
        tree[root] = -1
        for start in range(n):
            u = start
            while not in_tree[u]:
                draw = rng.random() * cumulative[u, n - 1]
                tree[u] = np.searchsorted(cumulative[u], draw, side="right")
                u = tree[u]
            u = start
            while not in_tree[u]:
                in_tree[u] = True
                u = tree[u]


def separated(T):
    X = np.random.default_rng(0).normal(size=(T, 2))
    X[: T // 2, 0] += 60
    return -0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=-1)


def sampling(T, n, repeats):
    """Ours makes walks where they are short; ``peaked`` is where none is."""
    dist = OutTreeDistribution(random_logs(T))
    apart = OutTreeDistribution(separated(T))
    peaked = OutTreeDistribution(400 * separated(T))
    cumulative = np.cumsum(np.exp(dist.log_beta), axis=1)
    roots = np.cumsum(dist.root_marginals)
    parents = np.empty((n, T), dtype=np.intp)
    rng = np.random.default_rng(0)
    tasks = (
        lambda: dist.sample(n, rng),
        lambda: apart.sample(n, rng),
        lambda: peaked.sample(n, rng),
        lambda: wilson(rng, cumulative, roots, parents),
    )
    for task in tasks:  # compile, and make the tables
        task()
    ours, ours_apart, ours_peaked, walks = fastest(*tasks, repeats=4 * repeats)
    row(f"{n} trees / {n} Wilson walks (well mixed), T = {T}", ours / walks, 0.5)
    row(
        f"{n} trees of clusters 60 sd apart / the same walks",
        ours_apart / walks,
        0.5,
        "Wilson: e^1800 steps",
    )
    row(f"{n} trees where no walk is short / the same walks", ours_peaked / walks, 0.5)


def mode(T, repeats):
    log_beta = random_logs(T)
    dist = OutTreeDistribution(log_beta)
    _ = dist.log_z
    best, both = fastest(dist.mode, lambda: marginals(log_beta), repeats=repeats)
    row(f"mode / log Z + marginals, T = {T}", best / both, 0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, a few seconds")
    small = parser.parse_args().quick
    print("| claim | ratio | to reach | | |\n|---|---|---|---|---|")
    dense(300 if small else 2000, repeats=3 if small else 7)
    extended_range(200 if small else 500, repeats=5)
    growth(*((100, 400) if small else (500, 4000)), repeats=3)
    peak_memory(500 if small else 2000)
    sampling(200, 200 if small else 1000, repeats=5)
    mode(200 if small else 1000, repeats=5)


if __name__ == "__main__":
    main()

"""The engine costs what one matrix product costs: figures are ratios of times taken in one run.

Run: python benchmarks/engine.py [--quick] [--threads 1]

Processor time with one BLAS thread, time on the clock with two; the shortest of several turns.
Before each turn all threads rest for a moment: those of BLAS turn in a circle for some milliseconds
after a product, and would keep a core from the next task.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import re
import tempfile
import time
import tracemalloc
from pathlib import Path

import numba
import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from outtrees import Ancestry, OutTreeDistribution, read_records
from outtrees.trees import elimination, extended
from outtrees.trees.weights import check

_REST = 0.05  # seconds until threads of BLAS go to sleep


def fastest(*tasks, repeats=5, clock=time.process_time):
    """Return the shortest time of each task; they take turns, so that noise hits all alike."""
    best = [np.inf] * len(tasks)
    for _ in range(repeats):
        for i, task in enumerate(tasks):
            gc.collect()
            time.sleep(_REST)
            start = clock()
            task()
            best[i] = min(best[i], clock() - start)
    return np.array(best)


def row(claim, ratios, wanted=None, note=""):
    """Print one claim; ``ratios`` with one thread and, if there is a second, with two."""
    ratios = np.atleast_1d(ratios)
    shown = " | ".join(f"{ratio:.2f}" for ratio in ratios) + (" | " if len(ratios) < 2 else "")
    verdict = "" if wanted is None else "reached" if ratios.max() <= wanted else "NOT reached"
    goal = "" if wanted is None else f"≤ {wanted}"
    print(f"| {claim} | {shown} | {goal} | {verdict} | {note} |", flush=True)


def random_logs(T, seed=0):
    return np.random.default_rng(seed).normal(size=(T, T))


def marginals(log_beta):
    dist = OutTreeDistribution(log_beta)
    return dist.log_z, dist.edge_marginals


def on_threads(*tasks, repeats, most):
    """Return the shortest times of tasks with one thread and with two, [threads, task]."""
    times = []
    for threads, clock in ((1, time.process_time), (2, time.perf_counter))[:most]:
        with threadpool_limits(threads):
            times.append(fastest(*tasks, repeats=repeats, clock=clock))
    return np.array(times)


def dense(T, wanted, repeats, threads, against_lapack=False):
    log_beta, matrix = random_logs(T), random_logs(T, 1)
    tasks = [
        lambda: marginals(log_beta),
        lambda: OutTreeDistribution(log_beta).log_z,
        lambda: matrix @ matrix,
    ]
    if against_lapack:
        tasks += [lambda: scipy.linalg.inv(matrix), lambda: np.linalg.slogdet(matrix)]
    both, log_z, product, *lapack = on_threads(*tasks, repeats=repeats, most=threads).T
    row(f"log Z + marginals / one product, T = {T}", both / product, wanted[0])
    row(f"log Z / one product, T = {T}", log_z / product, wanted[1])
    if against_lapack:
        row(f"log Z + marginals / `scipy.linalg.inv`, T = {T}", both / lapack[0], 1.5)
        row(f"log Z / `numpy.linalg.slogdet`, T = {T}", log_z / lapack[1], 2.5)


def batches(B, T, repeats):
    log_beta = np.random.default_rng(0).normal(size=(B, T, T))

    def at_once():
        batch = OutTreeDistribution.batch(log_beta)
        return batch.edge_marginals, batch.log_z

    at_once()
    one = fastest(at_once, lambda: [marginals(b) for b in log_beta], repeats=repeats)
    row(f"{B} problems at once / in a loop, T = {T}", one[0] / one[1], 0.05, "log Z + marginals")
    batch = OutTreeDistribution.batch(log_beta)
    batch.sample(), batch.mode()
    some = log_beta[: max(B // 20, 1)]
    drawn = fastest(batch.sample, lambda: [OutTreeDistribution(b).sample() for b in some])
    best = fastest(batch.mode, lambda: [OutTreeDistribution(b).mode() for b in some])
    share = len(some) / B
    row(f"one tree of each of {B} / in a loop, T = {T}", share * drawn[0] / drawn[1], 0.05)
    row(f"best tree of each of {B} / in a loop, T = {T}", share * best[0] / best[1], 0.05)


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


@numba.njit
def fast_forwarded_cover(rng, weight, threshold, parents):
    """The sampler of Tam, Dunson and Duan (2024), for weights that are the same both ways.

    A walk that covers all nodes; each enters the tree by the edge of its first visit (Aldous and
    Broder). Where no new node comes in ``threshold`` steps, the edge by which the walk leaves the
    visited nodes for the first time is drawn from its law, which is a linear system.
    """
    n = len(weight)
    cumulative = np.empty((n, n))
    for u in range(n):
        cumulative[u] = np.cumsum(weight[u])
    for tree in parents:
        order = np.empty(n, np.intp)
        seen = np.zeros(n, np.bool_)
        u = rng.integers(0, n)
        order[0], seen[u], tree[u], count, steps = u, True, -1, 1, 0
        while count < n:
            v = np.searchsorted(cumulative[u], rng.random() * cumulative[u, -1], side="right")
            if seen[v]:
                u = v
                steps += 1
                if steps < threshold:
                    continue
                inside = order[:count]
                system, out = np.zeros((count, count)), np.zeros(count)
                start = np.zeros(count)
                for a in range(count):
                    start[a] = inside[a] == u
                    system[a, a] = 1.0
                    for b in range(count):
                        system[b, a] -= weight[inside[a], inside[b]] / cumulative[inside[a], -1]
                    for w in range(n):
                        out[a] += 0.0 if seen[w] else weight[inside[a], w]
                    out[a] /= cumulative[inside[a], -1]
                leaving = np.cumsum(np.linalg.solve(system, start) * out)
                if not leaving[-1] > 0.0:
                    return False
                u = inside[np.searchsorted(leaving, rng.random() * leaving[-1])]
                new = np.cumsum(np.where(seen, 0.0, weight[u]))
                v = np.searchsorted(new, rng.random() * new[-1], side="right")
            order[count], seen[v], tree[v] = v, True, u
            u, steps = v, 0
            count += 1
    return True


def separated(T, distance=60):
    X = np.random.default_rng(0).normal(size=(T, 2))
    X[: T // 2, 0] += distance
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
    # On the clock: ours draws in threads.
    clock = time.perf_counter
    ours, ours_apart, ours_peaked, walks = fastest(*tasks, repeats=4 * repeats, clock=clock)
    row(f"{n} trees / {n} Wilson walks (well mixed), T = {T}", ours / walks, 0.5)
    row(
        f"{n} trees of clusters 60 sd apart / the same walks",
        ours_apart / walks,
        0.5,
        "Wilson: e^1800 steps",
    )
    row(f"{n} trees where no walk is short / the same walks", ours_peaked / walks, note="no goal")


def against_fast_forwarding(T, n, distance):
    """Symmetric weights, the only ones that sampler takes; n trees, and one tree from nothing."""
    log_beta = separated(T, distance)
    weight = np.exp(log_beta)
    np.fill_diagonal(weight, 0.0)
    parents = np.empty((n, T), dtype=np.intp)
    rng = np.random.default_rng(0)
    dist = OutTreeDistribution(log_beta)
    dist.sample(n, 0)
    claim = f"fast-forwarded sampler, clusters {distance} sd apart, T = {T}"
    try:
        found = fast_forwarded_cover(rng, weight, T, parents)
    except np.linalg.LinAlgError:
        found = False
    if not found:
        row(f"{n} trees / {claim}", np.nan, note="it finds no way out")
        return
    many, theirs, first, their_first = fastest(
        lambda: dist.sample(n, 1),
        lambda: fast_forwarded_cover(rng, weight, T, parents),
        lambda: OutTreeDistribution(log_beta).sample(1, 1),
        lambda: fast_forwarded_cover(rng, weight, T, parents[:1]),
    )
    row(f"{n} trees / {claim}", many / theirs)
    row(f"one tree / {claim}", first / their_first, note="ours with its elimination")


def different_trees(T, n):
    dist = OutTreeDistribution(300 * random_logs(T))
    log_beta = random_logs(T)
    distinct, both = fastest(
        lambda: dist.sample(n, 0, replace=False), lambda: marginals(log_beta), repeats=2
    )
    row(f"{n} different trees, peaked, T = {T} / as many log Z + marginals", distinct / both / n)


def outside_the_sums(T=190):
    """The share of a fit that is neither sums over trees nor what columns compute."""
    rng = np.random.default_rng(0)
    parent = np.array([rng.integers(max(0, u - 25), u) if u else 0 for u in range(T)])
    date, place, ward, strain = np.zeros(T), np.zeros((T, 2)), np.zeros(T, int), np.zeros(T, int)
    for u in range(1, T):
        v = parent[u]
        date[u] = date[v] + rng.gamma(4, 3)
        place[u] = place[v] + 3 * rng.normal(size=2)
        ward[u] = ward[v] if rng.random() < 0.6 else rng.integers(6)
        strain[u] = strain[v] if rng.random() < 0.9 else rng.integers(5)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "cases.csv"
        lines = [
            f"c{u},{date[u]:.0f},{place[u, 0]:.2f},{place[u, 1]:.2f},w{ward[u]},s{strain[u]}"
            for u in range(T)
        ]
        table.write_text("\n".join(["case,onset,x,y,ward,strain", *lines]))
        records = read_records(table, id="case")
    Ancestry().fit(records)
    profile = cProfile.Profile()
    profile.enable()
    Ancestry().fit(records)
    profile.disable()
    stats = pstats.Stats(profile)

    def room(function):
        found = re.search(r"outtrees/(\w+)/", function[0])
        return found.group(1) if found else None

    inside = {"trees": 0.0, "models": 0.0}
    for function, (_, _, _, _, callers) in stats.stats.items():
        if room(function) in inside:
            for caller, (_, _, _, taken) in callers.items():
                if room(caller) not in (None, *inside):
                    inside[room(function)] += taken
    share = 1.0 - sum(inside.values()) / stats.total_tt
    trees = inside["trees"] / stats.total_tt
    row(f"share of a fit of {T} records outside both", share, 0.5, f"sums over trees: {trees:.2f}")


def mode(T, repeats):
    log_beta = random_logs(T)
    dist = OutTreeDistribution(log_beta)
    _ = dist.log_z
    best, both = fastest(dist.mode, lambda: marginals(log_beta), repeats=repeats)
    row(f"mode / log Z + marginals, T = {T}", best / both, 0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, a few seconds")
    parser.add_argument("--threads", type=int, choices=[1, 2], default=2, help="of BLAS, at most")
    options = parser.parse_args()
    small = options.quick
    print("| claim | one thread | two threads | to reach | | |\n|---|---|---|---|---|---|")
    marginals(random_logs(20))  # compile
    for T, *wanted in ((500, 2.2, None), (1000, 1.6, None), (2000, 1.35, 0.5)):
        if not small or T == 500:
            dense(T, wanted, 6 * 2000 // T, options.threads, against_lapack=T == 2000)
    with threadpool_limits(1):
        batches(200 if small else 1000, 20, repeats=3)
        extended_range(200 if small else 500, repeats=5)
        growth(*((100, 400) if small else (500, 4000)), repeats=3)
        peak_memory(800 if small else 2000)
        sampling(200, 200 if small else 1000, repeats=5)
        for distance in (0, 8, 60):
            against_fast_forwarding(100 if small else 200, 100, distance)
        different_trees(60 if small else 100, 10)
        mode(200 if small else 1000, repeats=5)
        outside_the_sums(60 if small else 190)


if __name__ == "__main__":
    main()

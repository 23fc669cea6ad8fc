"""Lists of possible edges: a million dated records, ties, and one large undated component.

Rows, each in a process of its own:
- acyclic: 10⁶ records in order of date × 20 earlier candidates; log Z + marginals from ready
  log-weights, over one pass of NumPy's exp and segment sums (np.add.reduceat) over the same edges.
  Peak memory in arrays of edge length, the three given ones included. Once more with the records
  in a random order, so that the list does not show that it has no cycles.
- ties: dates known to ±2 days, so that close records may descend from each other either way;
  candidates are the 20 nearest in time of the same place, up to two days after. The slope of log
  time against log size from 10⁴ to 10⁶. "places": about one record in ten days in each place; "one
  stream": ten a day in one place, all tied to the next ones, so one component holds everybody.
- undated: 10⁵ points in the plane × 10 nearest, against SuperLU's log-determinant and time; and
  the best trees of these.
- again: 2·10⁴ of these, with weights that change as in EM; log Z + marginals with the plan of the
  elimination used again, over the same with a plan made anew each time.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/scale_engine.py [--records 1000000] [--undated 100000]
[--again 20000] [--row acyclic|ties|undated|again]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu
from scipy.spatial import cKDTree

from outtrees import OutTreeDistribution

ROWS = ("acyclic", "ties", "undated", "again")


def earlier(T, k, rng):
    """Return edges from each record to k different ones among the 1,000 before it."""
    child = np.repeat(np.arange(1, T), k)
    parent = child - 1 - (rng.random(len(child)) * np.minimum(child, 1000)).astype(np.intp)
    child, parent = np.divmod(np.unique(child * T + parent), T)
    return child, parent, 3 * rng.normal(size=len(child))


def tied(T, per_place, rate, rng):
    """Return edges to the 20 nearest records of the same place, before or up to two days later."""
    place = np.arange(T) // per_place
    day = np.floor(rng.random(T) * per_place / rate)
    order = np.lexsort((day, place))
    day = day[order]
    child, parent = [], []
    for step in [*range(-20, 0), *range(1, 21)]:
        u = np.arange(max(0, step), min(T, T + step))
        v = u - step
        keep = (place[u] == place[v]) & (day[v] <= day[u] + 2)
        child.append(u[keep])
        parent.append(v[keep])
    child, parent = np.concatenate(child), np.concatenate(parent)
    # of those, the 20 nearest in the order of dates
    order = np.lexsort((np.abs(parent - child), child))
    child, parent = child[order], parent[order]
    rank = np.arange(len(child)) - np.searchsorted(child, child)
    child, parent = child[rank < 20], parent[rank < 20]
    return child, parent, -0.1 * np.abs(day[child] - day[parent]) + rng.normal(size=len(child))


def nearest(T, k, rng):
    """Return the edges from points in the plane to their k nearest."""
    X = rng.normal(size=(T, 2)) * np.sqrt(T) / 10
    distance, parent = cKDTree(X).query(X, k + 1)
    return np.repeat(np.arange(T), k), parent[:, 1:].ravel(), -0.5 * distance[:, 1:].ravel() ** 2


def solved(child, parent, log_weight, log_root):
    """Return the distribution after log Z and marginals, and the seconds they took."""
    start = time.perf_counter()
    trees = OutTreeDistribution.from_candidates(child, parent, log_weight, log_root, roots="any")
    _ = trees.log_z, trees.edge_marginals
    return trees, time.perf_counter() - start


def forget_peak():
    """Start to watch the peak of this process's memory anew; return what it holds now, in bytes."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return status("VmRSS")


def status(field):
    """Return a figure of this process's memory in bytes: VmRSS, now; VmHWM, the peak."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field))
    return int(line.split()[1]) * 1024


def acyclic(options):
    rng = np.random.default_rng(0)
    solved(*tied(2000, 100, 0.1, rng), np.zeros(2000))  # compiles
    T = options.records
    child, parent, log_weight = earlier(T, 20, rng)
    starts = np.flatnonzero(np.append(True, child[1:] != child[:-1]))
    log_root = np.zeros(T)
    before = forget_peak()
    solved(child, parent, log_weight, log_root)
    arrays = (status("VmHWM") - before) / log_weight.nbytes
    one_pass, ours = [], []
    for _ in range(5):
        start = time.perf_counter()
        np.add.reduceat(np.exp(log_weight), starts)
        one_pass.append(time.perf_counter() - start)
        ours.append(solved(child, parent, log_weight, log_root)[1])
    number = rng.permutation(T)
    child, parent = number[child], number[parent]
    shuffled = solved(child, parent, log_weight, log_root)[1]
    return {
        "edges": len(log_weight),
        "ratio": float(np.median(ours) / np.median(one_pass)),
        "seconds": float(np.median(ours)),
        "shuffled ratio": shuffled / float(np.median(one_pass)),
        "arrays": arrays + 3,
    }


def ties(options):
    rng = np.random.default_rng(1)
    solved(*tied(2000, 100, 0.1, rng), np.full(2000, -5.0))
    result = {}
    for name, rate in (("places", 0.1), ("one stream", 10.0)):
        sizes = [options.records // 100, options.records // 10, options.records]
        seconds = []
        for T in sizes:
            edges = tied(T, 100 if name == "places" else T, rate, rng)
            trees = None
            times = []
            for _ in range(5 if T < 100_000 else 3 if T < 1_000_000 else 1):
                trees, spent = solved(*edges, np.full(T, -5.0))
                times.append(spent)
            seconds.append(float(np.median(times)))
            members = np.diff(trees._engine.components.first)
        slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        result[name] = {
            "sizes": sizes,
            "seconds": seconds,
            "slope": float(slope),
            "in components": int(members.sum()),
            "largest component": int(members.max(initial=1)),
        }
    return result


def undated(options):
    rng = np.random.default_rng(2)
    solved(*nearest(2000, 10, rng), np.zeros(2000))
    T = options.undated
    child, parent, log_weight = nearest(T, 10, rng)
    trees, seconds = solved(child, parent, log_weight, np.zeros(T))
    memory = status("VmHWM")
    weight = np.exp(log_weight)
    rows = sparse.csr_array((weight, (child, parent)), shape=(T, T))
    laplacian = sparse.diags_array(1.0 + np.bincount(child, weight, minlength=T)) - rows
    start = time.perf_counter()
    factors = splu(laplacian.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    log_det = float(np.log(np.abs(factors.U.diagonal())).sum())
    superlu = time.perf_counter() - start
    start = time.perf_counter()
    trees.sample(10, random_state=0)
    first = time.perf_counter() - start
    start = time.perf_counter()
    trees.sample(10, random_state=0)
    again = time.perf_counter() - start
    solved(*nearest(2000, 10, rng), np.zeros(2000))[0].best(2)
    start = time.process_time()
    trees.mode()
    mode = time.process_time() - start
    start = time.process_time()
    trees.best(10)
    best = time.process_time() - start
    return {
        "seconds": seconds,
        "peak GB": memory / 1e9,
        "largest component": int(np.diff(trees._engine.components.first).max()),
        "log Z": trees.log_z,
        "relative difference": abs(trees.log_z - log_det) / abs(log_det),
        "over SuperLU": seconds / superlu,
        "first 10 trees": first,
        "10 more": again,
        "mode": mode,
        "10 best trees": best,
        "peak GB with best": status("VmHWM") / 1e9,
    }


def largest_component(child, parent, log_weight):
    """Return the edges within the largest strongly connected component, numbered anew."""
    T = int(child.max()) + 1
    graph = sparse.csr_array((np.ones(len(child)), (child, parent)), shape=(T, T))
    label = connected_components(graph, connection="strong")[1]
    inside = label == np.bincount(label).argmax()
    number, kept = np.cumsum(inside) - 1, inside[child] & inside[parent]
    return number[child[kept]], number[parent[kept]], log_weight[kept]


def again(options):
    rng = np.random.default_rng(3)
    solved(*nearest(2000, 10, rng), np.zeros(2000))
    edges = largest_component(*nearest(options.again, 10, rng))  # in which one root can be
    T = int(edges[0].max()) + 1
    result = {}
    for roots in ("any", "single"):
        plan, with_plan, without = None, [], []
        for scale in (1.0, 1.1, 1.2, 1.3, 1.4, 1.5):
            begin = time.perf_counter()
            kept = OutTreeDistribution.from_candidates(
                *edges[:2], scale * edges[2], np.zeros(T), roots=roots, plan=plan
            )
            _ = kept.log_z, kept.edge_marginals
            with_plan.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            anew = OutTreeDistribution.from_candidates(
                *edges[:2], scale * edges[2], np.zeros(T), roots=roots
            )
            _ = anew.log_z, anew.edge_marginals
            without.append(time.perf_counter() - begin)
            assert np.array_equal(kept.edge_marginals, anew.edge_marginals)
            plan = kept.plan
        # The first had no plan to use.
        seconds = float(np.median(with_plan[1:])), float(np.median(without[1:]))
        result[roots] = {"seconds": seconds, "ratio": seconds[0] / seconds[1]}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--undated", type=int, default=100_000)
    parser.add_argument("--again", type=int, default=20_000)
    parser.add_argument("--row", choices=ROWS)
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.json:
        print(json.dumps(globals()[options.row](options)))
        return
    for row in [options.row] if options.row else ROWS:
        command = [sys.executable, __file__, "--json", "--row", row]
        for size in ("records", "undated", "again"):
            command += [f"--{size}", str(getattr(options, size))]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        report(row, json.loads(done.stdout), options)


def report(row, found, options):
    """Print one row of the table."""
    if row == "acyclic":
        print(
            f"acyclic, {options.records:,} × 20: {found['ratio']:.2f} of one NumPy pass (asked "
            f"≤ 3), {found['seconds']:.2f} s; in random order {found['shuffled ratio']:.1f}; peak "
            f"{found['arrays']:.1f} arrays of edge length (asked ≤ 6)"
        )
    elif row == "ties":
        for name, one in found.items():
            seconds = ", ".join(f"{s:.3f}" for s in one["seconds"])
            print(
                f"ties, {name}: slope {one['slope']:.2f} (asked ≤ 1.1), {seconds} s; "
                f"{one['in components']:,} records in components, the largest of "
                f"{one['largest component']:,}"
            )
    elif row == "again":
        for roots, one in found.items():
            kept, anew = one["seconds"]
            print(
                f"again, {options.again:,} × 10, roots={roots}: {one['ratio']:.2f} of the time "
                f"with a plan made anew ({kept:.2f} s and {anew:.2f} s), the same bits"
            )
    else:
        print(
            f"undated, {options.undated:,} × 10: {found['seconds']:.1f} s (asked 600), "
            f"{found['peak GB']:.2f} GB (asked 12), one component of "
            f"{found['largest component']:,}; log Z {found['relative difference']:.0e} from "
            f"SuperLU's; time {found['over SuperLU']:.2f} of SuperLU's factorisation; "
            f"10 trees {found['first 10 trees']:.1f} s, 10 more {found['10 more']:.2f} s; the best "
            f"tree {found['mode']:.2f} processor seconds, the 10 best {found['10 best trees']:.1f} "
            f"({found['peak GB with best']:.2f} GB at the end)"
        )


if __name__ == "__main__":
    main()

"""Approximate nearest parents of 100,000 records with 20 columns in less than half the time.

The 20 nearest parents of each record, exact and approximate (`nearly_nearest`; needs
pip install 'outtrees[neighbours]'), beside scikit-learn's k-d tree; processor seconds of one
thread. And what the elimination of the list so made would keep, by its plan alone.
- "normal": --columns independent normal columns.
- "spiral": the paper's spiral (3 columns) turned into --columns columns, with noise in each.
- "identity": a parent maps to itself, so PyNNDescent's own graph is the answer; "mapped": a parent
  maps to half of itself, and children have to be looked up.
Before, PyNNDescent runs once on 20,000 records, which leaves nothing to compile; how long that took
is printed too.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/scale_neighbours.py [--sizes 20000 100000]
[--columns 20]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from outtrees import OutTreeDistribution
from outtrees.candidates.matrix_search import nearly_nearest
from outtrees.datasets import make_spiral

K = 21  # 20, and the record itself


def normal(size, columns):
    return np.random.default_rng(0).normal(size=(size, columns))


def spiral(size, columns):
    rng = np.random.default_rng(0)
    X = make_spiral(size, random_state=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X @ rng.normal(size=(3, columns)) + 0.1 * rng.normal(size=(size, columns))


WAYS = {"identity": lambda X: (X, X), "mapped": lambda X: (X, 0.5 * X)}


def exact(children, parents, algorithm="auto"):
    search = NearestNeighbors(n_neighbors=K, algorithm=algorithm).fit(parents)
    return search.kneighbors(children, return_distance=False)


def timed(search, *arguments):
    begin = time.process_time()
    with threadpool_limits(1):
        found = search(*arguments)
    return found, time.process_time() - begin


def recall(found, wanted):
    """Return the share of the nearest parents that were found."""
    pairs = zip(found, wanted, strict=True)
    return float(np.mean([len(np.intersect1d(one, other)) / K for one, other in pairs]))


def elimination_gb(table):
    """Return what an elimination of these candidates keeps, without running it."""
    T = len(table)
    child, parent = np.repeat(np.arange(T), K), table.ravel()
    other = child != parent
    edges = child[other], parent[other], np.zeros(int(other.sum()))
    trees = OutTreeDistribution.from_candidates(*edges, np.zeros(T), roots="any", method="sparse")
    return 8 * trees.plan.fronts.n_numbers / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--columns", type=int, default=20)
    options = parser.parse_args()
    few = normal(20_000, options.columns)
    compiling = sum(timed(nearly_nearest, *points(few), K)[1] for points in WAYS.values())
    print(f"importing and compiling PyNNDescent: {compiling:.0f} s\n")
    print(
        f"| records × {options.columns} | parents | exact, s | k-d tree, s | approximate, s | "
        "approximate / exact | found | elimination, GB |\n|---|---|---|---|---|---|---|---|"
    )
    for size in options.sizes:
        for made in (normal, spiral):
            X = made(size, options.columns)
            for name, points in WAYS.items():
                wanted, slow = timed(exact, *points(X))
                # In many dimensions a k-d tree looks at everything, one by one.
                tree = "" if made is normal else f"{timed(exact, *points(X), 'kd_tree')[1]:.1f}"
                found, fast = timed(nearly_nearest, *points(X), K)
                print(
                    f"| {size:,} {made.__name__} | {name} | {slow:.1f} | {tree} | {fast:.1f} | "
                    f"{fast / slow:.2f} | {recall(found, wanted):.3f} | "
                    f"{elimination_gb(wanted):.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

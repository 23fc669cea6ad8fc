"""Candidates make a fit of 2,000 records faster at no loss, and one of 100,000 possible.

Run: python benchmarks/scale_density.py [--sizes 2000 20000 100000] [--labels 2000 20000]

Spirals (the paper's, 3 columns) of each size; densities of 5,000 records that no fit saw (500
beyond 20,000 training records). Up to
--dense-up-to records the same fit is made over all pairs too: the ratio of their times, and the
mean difference of held-out log-densities with its standard error over records. Labels: two such
spirals, one turned, with one label in a hundred known; the share of wrong ones among the others.
Each fit runs in a process of its own, after a small one that leaves nothing to compile; seconds
are processor time (OPENBLAS_NUM_THREADS=1: of one thread), the peak of memory is the process's.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

from outtrees import OutTreeClassifier, OutTreeDensity
from outtrees.datasets import make_spiral

N_NEW = 5000


def density(options: dict) -> dict:
    def model() -> OutTreeDensity:
        return OutTreeDensity(
            options["mutation"],
            candidates=options["way"],
            n_candidates=options["n_candidates"],
            n_components=3 if options["mutation"] == "mixture" else None,
            random_state=0,
        )

    model().fit(make_spiral(1200, random_state=3))
    X, new = make_spiral(options["size"], random_state=1), make_spiral(N_NEW, random_state=2)
    fitted = model()
    begin = time.process_time()
    fitted.fit(X)
    seconds = time.process_time() - begin
    log_density = fitted.score_samples(new[: N_NEW if len(X) <= 20_000 else 500])
    return {
        "seconds": seconds,
        "evaluations": fitted.n_evaluations_,
        "converged": bool(fitted.converged_),
        "log_density": log_density.tolist(),
        "dropped": float(getattr(fitted, "dropped_mass_", 0.0)),
        "dropped_error": getattr(getattr(fitted, "dropped_mass_", None), "error", 0.0),
    }


def two_spirals(n: int) -> tuple[np.ndarray, np.ndarray]:
    X = make_spiral(n, random_state=1)
    X[1::2, :2] *= -1.0
    return X, np.arange(n) % 2


def labels(options: dict) -> dict:
    def model() -> OutTreeClassifier:
        return OutTreeClassifier(
            candidates=options["way"],
            n_candidates=options["n_candidates"],
            stickiness=0.95,
            sharpness=1.0,
            n_chains=2,
            n_draws=10,
            burn_in=5,
            random_state=0,
        )

    X, y = two_spirals(1200)
    model().fit(X, np.where(np.arange(1200) < 60, y, -1))
    X, y = two_spirals(options["size"])
    known = np.random.default_rng(0).random(len(y)) < 0.01
    fitted = model()
    begin = time.process_time()
    fitted.fit(X, np.where(known, y, -1))
    seconds = time.process_time() - begin
    return {
        "seconds": seconds,
        "known": int(known.sum()),
        "wrong": float((fitted.transduction_ != y)[~known].mean()),
        "error": float(fitted.label_errors_.max()),
        "dropped": float(getattr(fitted, "dropped_mass_", 0.0)),
        "dropped_error": getattr(getattr(fitted, "dropped_mass_", None), "error", 0.0),
    }


def measured(kind: str, **options) -> dict:
    """Return what a run in a process of its own prints."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", kind, json.dumps(options)],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def run_one(kind: str, options: str) -> None:
    warnings.simplefilter("ignore")
    found = {"density": density, "labels": labels}[kind](json.loads(options))
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # GB; Linux: kB
    print(json.dumps(found))


def density_table(args: argparse.Namespace) -> None:
    print(
        "| records | mutation | pairs | processor seconds | evaluations | held-out log-density | "
        "less than dense | times faster | dropped mass | peak GB |\n"
        "|---|---|---|---|---|---|---|---|---|---|"
    )
    for size in args.sizes:
        for mutation in args.mutations:
            ways = ["dense", "knn"] if size <= args.dense_up_to else ["knn"]
            dense = None
            for way in ways:
                found = measured(
                    "density",
                    size=size,
                    mutation=mutation,
                    way=way,
                    n_candidates=args.n_candidates,
                )
                log_density = np.array(found["log_density"])
                less = faster = dropped = ""
                if dense is not None:
                    gap = np.array(dense["log_density"]) - log_density
                    less = f"{gap.mean():.4f} ± {gap.std() / np.sqrt(len(gap)):.4f}"
                    faster = f"{dense['seconds'] / found['seconds']:.1f}"
                if way == "knn":
                    dropped = f"{found['dropped']:.3f} ± {found['dropped_error']:.3f}"
                pairs = "all" if way == "dense" else f"{args.n_candidates} nearest"
                ended = "" if found["converged"] else " (not converged)"
                print(
                    f"| {size:,} | {mutation} | {pairs} | {found['seconds']:.1f} | "
                    f"{found['evaluations']}{ended} | {log_density.mean():.4f} | {less} | "
                    f"{faster} | {dropped} | {found['peak']:.2f} |",
                    flush=True,
                )
                dense = found if way == "dense" else dense


def label_table(args: argparse.Namespace) -> None:
    print(
        "\n| records | labels known | pairs | processor seconds | wrong labels | largest error of "
        "a label probability | dropped mass | peak GB |\n|---|---|---|---|---|---|---|---|"
    )
    for size in args.labels:
        for way in ["dense", "knn"] if size <= args.dense_up_to else ["knn"]:
            found = measured("labels", size=size, way=way, n_candidates=args.n_candidates)
            pairs = "all" if way == "dense" else f"{args.n_candidates} nearest"
            dropped = f"{found['dropped']:.3f} ± {found['dropped_error']:.3f}"
            print(
                f"| {size:,} | {found['known']} | {pairs} | {found['seconds']:.1f} | "
                f"{found['wrong']:.4f} | {found['error']:.2f} | "
                f"{dropped if way == 'knn' else ''} | {found['peak']:.2f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[2000, 20_000, 100_000])
    parser.add_argument("--labels", type=int, nargs="*", default=[2000, 20_000])
    parser.add_argument("--mutations", nargs="+", default=["parzen", "mixture"])
    parser.add_argument("--n-candidates", type=int, default=20)
    parser.add_argument("--dense-up-to", type=int, default=2000)
    parser.add_argument("--one", nargs=2, metavar=("KIND", "OPTIONS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        run_one(*args.one)
        return
    if args.sizes:
        density_table(args)
    if args.labels:
        label_table(args)


if __name__ == "__main__":
    main()

"""An iteration of variational Bayes costs at most 1.2 times one of EM, on the spiral (534 × 3).

Measured in turns, so that other work on the machine hits both. What `BayesianOutTree` predicts is
measured by `python -m paper table1`.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/bayesian.py
"""

from __future__ import annotations

import time

import numpy as np

from outtrees.datasets import make_spiral
from outtrees.inference import fit_em
from outtrees.inference.variational import fit_variational
from outtrees.models import MUTATIONS
from outtrees.models.conjugate import POSTERIORS


def seconds_per_step(fit, start, X, steps=6):
    begin = time.perf_counter()
    done = fit(start, X, max_iter=steps, tol=0.0, accelerate=False)
    return (time.perf_counter() - begin) / done.n_iter


def main():
    X = make_spiral()
    print("| family | iteration of variational Bayes / of EM | to reach |\n|---|---|---|")
    for name in ("gaussian", "parzen", "kernel", "mixture"):
        em, vb = MUTATIONS[name]().start(X, 0), POSTERIORS[name]().start(X, 0)
        ratios = []
        for _ in range(7):
            slow = seconds_per_step(fit_variational, vb, X)
            ratios.append(slow / seconds_per_step(fit_em, em, X))
        print(f"| {name} | {np.median(ratios):.2f} | ≤ 1.2 |", flush=True)


if __name__ == "__main__":
    main()

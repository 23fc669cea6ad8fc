"""A label posterior at T = 60 takes under 1 s; a hill-climb's sweep at T = 500, 15 log Z at most.

Processor time of one thread, so that other work on the machine counts little. The sweep is one in
which every change is judged by its own change of log Z (the second kind in `climb_labels`), and
its ratio to one evaluation of log Z is measured in the same run.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/labels_cost.py
"""

from __future__ import annotations

import warnings
from time import process_time

import numpy as np

from outtrees.labels import LabelModel, climb_labels
from outtrees.labels.classifier import OutTreeClassifier


def seconds(call, repeats=3):
    call()  # compiles
    taken = []
    for _ in range(repeats):
        began = process_time()
        result = call()
        taken.append(process_time() - began)
    return float(np.median(taken)), result


def posterior():
    rng = np.random.default_rng(0)
    centres, truth = 3 * rng.normal(size=(5, 4)), rng.integers(5, size=60)
    X = centres[truth] + rng.normal(size=(60, 4))
    y = np.where(rng.random(60) < 0.3, truth, -1)
    taken, model = seconds(lambda: OutTreeClassifier(random_state=0).fit(X, y))
    print(
        f"T = 60, 5 classes, defaults: {taken:.2f} s; largest error of a label probability "
        f"{model.label_errors_.max():.3f}, split R-hat {model.r_hat_:.2f}"
    )


def sweep(n_classes, T=500):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(T, 3)) + 4 * rng.integers(3, size=(T, 1))
    log_beta = -2 * ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    truth = np.minimum(n_classes - 1, np.maximum(0, X[:, 0] // 3).astype(int))
    known = np.where(rng.random(T) < 0.1, truth, -1)
    model = LabelModel(log_beta[None], np.zeros(T), np.full(n_classes, 1 / n_classes), 0.9)
    end = climb_labels(model, known, n_init=1).labels
    one, _ = seconds(lambda: model.trees(end).log_z, 5)
    # From the end, the climb is one sweep that judges every change and makes none.
    last, climb = seconds(lambda: climb_labels(model, known, start=end))
    first, way = seconds(lambda: climb_labels(model, known, n_init=1), 1)
    n_sweeps = len(way.log_zs) - 1
    print(
        f"T = {T}, {n_classes} classes: log Z {1000 * one:.0f} ms; a sweep that judges all changes "
        f"{last / (len(climb.log_zs) - 1) / one:.1f} log Z; the whole climb {n_sweeps} sweeps, "
        f"{way.n_flips} changes, {first / n_sweeps / one:.1f} log Z a sweep"
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    posterior()
    sweep(2)
    sweep(5)

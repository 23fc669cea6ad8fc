"""Claim: over all numbers of labels, few labels among many records are told better by out-trees
than by both SVMs (three principal components, the paper's inputs) and by every other method (all
attributes). Number by number there are exceptions: docs/labels.md.

The protocol of the paper's section 9 on six character matrices, those of figures 3 and 4 together
(`python -m paper figure3`, `figure4`; what these have finished in the folder is not run again):
each attribute in turn is the label; n records are labelled; half of the others choose each method's
settings, the other half are the test. Prints error against n for both kinds of input, with the
settings that tie on the validation half voting, and for one of them at random; and the paired
differences to the out-tree. `--default N` also runs `OutTreeClassifier` as it is, without
validation records, on N labels of each matrix and one fold.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/labels.py --folder FOLDER [--folds 2] [--jobs 1]
     [--default N] [--figure docs/labels.png]
From the project's root; the matrices are read from ../shared/data/taxonomy, and without it there is
the zoo only.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from outtrees.labels.classifier import OutTreeClassifier
from outtrees.models import GaussianMutation

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from paper.label_errors import (
    RULES,
    Protocol,
    by_task,
    mean_and_error,
    our_methods,
    paired,
    run_tasks,
    shared_counts,
)
from paper.label_figures import FIGURES, NEARBY, chosen_matrices, draw_means
from paper.label_methods import BASELINE, OTHERS
from paper.label_tasks import INPUTS, chosen_labels, components, split, targets

COUNTS = (4, 8, 12, 16, 20)  # of `--default`
MAIN = "posterior, wide choice"


def show(errors, inputs, rule):
    """Print a row of errors for each method, the best first."""
    print(f"\n{INPUTS[inputs]}; {RULES[rule]}")
    counts = shared_counts(errors)
    whole = by_task(errors, inputs, rule)
    tables = [by_task(errors, inputs, rule, n) for n in counts]
    print("| labels | " + " | ".join(map(str, counts)) + " | mean |")
    print("|---" * (len(counts) + 2) + "|")
    rows = {
        method: [mean_and_error(table[method]) for table in tables]
        for method in whole
        if method != BASELINE
    }
    means = {method: np.mean([mean for mean, _ in row]) for method, row in rows.items()}
    for method in sorted(rows, key=means.__getitem__):
        name = f"**out-tree, {method}**" if method in our_methods("3d") else method
        cells = " | ".join(f"{mean:.3f} ± {error:.3f}" for mean, error in rows[method])
        print(f"| {name} | {cells} | {means[method]:.3f} |")


def compare(errors, inputs, rule):
    """Print the out-tree's error minus each other's, on the same tasks."""
    tasks = by_task(errors, inputs, rule)
    cells = []
    for method in OTHERS:
        found = paired(tasks[MAIN], tasks[method])
        cells.append(f"{method} {found.mean:+.3f} ± {found.standard_error:.3f}")
    print(f"{INPUTS[inputs]}; {RULES[rule]}; out-tree minus: {', '.join(cells)}")


def by_default(matrices, n_labels, errors):
    """Print the errors of `OutTreeClassifier` with settings from the labelled records alone.

    Beside them the others' on the same tasks, which have half of all other labels for validation.
    """
    for inputs, title in INPUTS.items():
        tasks = {}
        for matrix in matrices:
            for d in chosen_labels(matrix, Protocol().labels)[:n_labels]:
                y, codes = targets(matrix, d), matrix.without(d)
                for n in COUNTS:
                    parts = split(y, n, matrix.name, d, 0)
                    if parts is None:
                        continue
                    for joint in ("auto", "fresh", False):
                        found = one_default(y, codes, parts, inputs, joint)
                        name = f"**OutTreeClassifier(joint={joint!r})**"
                        tasks.setdefault(name, {})[matrix.name, d, n] = found
        same = next(iter(tasks.values()))
        for error in errors:
            task = (error.matrix, error.label, error.n)
            if error.inputs == inputs and error.fold == 0 and task in same:
                tasks.setdefault(error.method, {})[task] = error.single
        print(f"\n{title}, {len(same)} tasks: mean error")
        for name in sorted(tasks, key=lambda name: np.mean(list(tasks[name].values()))):
            print(f"| {name} | {np.mean(list(tasks[name].values())):.3f} |")


def one_default(y, codes, parts, inputs, joint):
    """Return the share of wrong labels in the test half."""
    known = np.full(len(y), -1)
    known[parts.labelled] = y[parts.labelled]
    mutation = "categorical" if inputs == "full" else GaussianMutation("spherical", "identity")
    model = OutTreeClassifier(mutation, joint=joint, random_state=0)
    model.fit(codes if inputs == "full" else components(codes), known)
    return float((model.transduction_[parts.test] != y[parts.test]).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="keeps what is finished")
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--default", type=int, default=0, metavar="N")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not NEARBY.is_dir():
        print(f"{NEARBY} is not there: the zoo only")
    began = time.perf_counter()
    protocol, matrices, errors = Protocol(folds=options.folds), [], []
    for name, paper in FIGURES.items():
        some = chosen_matrices(paper, None, quick=False)
        folder = options.folder / name
        errors += run_tasks(folder, name, some, protocol, n_jobs=options.jobs)
        matrices += some
    for rule in RULES:
        for inputs in INPUTS:
            show(errors, inputs, rule)
    print()
    for rule in RULES:
        for inputs in INPUTS:
            compare(errors, inputs, rule)
    if options.default:
        by_default(matrices, options.default, errors)
    if options.figure is not None:
        draw_means(errors).savefig(options.figure, dpi=110)
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()

"""With all attributes an out-tree does better on few labels; on three components all are level.

The protocol of the paper's section 9, on five character matrices and the zoo: each attribute in
turn is the label, the others are the input; n records are labelled, half of the others choose the
settings of every method (by their error alone), and the other half are the test. Two kinds of
input: "3d", the paper's three principal components, the same for all; and "full", every method in
its best form: the characters themselves with missing cells for the out-tree, indicator columns for
the others. Where several settings get as few validation records wrong, each method's tied
settings vote (with their class probabilities, where they have them). A vote favours methods with
many settings, and the out-tree has most (40; the others 4 to 20); so "…, single" is the error to
expect of one tied setting taken at random.

Errors are averaged over folds, then over labels, then over matrices; standard errors treat the
labels of a matrix as independent. The out-tree appears three times: "out-tree" as all the others;
"out-tree, fitted" is OutTreeClassifier's posterior at the one setting that gives validation labels
the highest probability among those tied; "out-tree, auto" (if asked for) is the one it takes by
default, without any validation records: its settings come from the labelled ones.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/labels.py [--inputs 3d full] [--labels 8] [--folds 2]
     [--auto] [--cache FILE] [--figure docs/labels.png]
The matrices are read from ../shared/data/taxonomy; those that are not there are skipped.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from outtrees.datasets import load_zoo
from outtrees.learning import fit_mutation
from outtrees.learning.labels import (
    choose_settings,
    label_posterior,
    smoothed_marginal,
    weigh_trees,
)
from outtrees.learning.labels.choice import STICKINESS as AUTO
from outtrees.learning.labels.choice import sharpness_grid
from outtrees.learning.labels.refitting import AttributeMutations
from outtrees.mutations import CategoricalMutation, GaussianMutation

TAXONOMY = Path(__file__).resolve().parents[2] / "shared" / "data" / "taxonomy"
MATRICES = {
    "DeAssis2011": "DeAssis2011/DeAssis2011.csv",
    "Kavanagh2007": "crustacea_isopods_Kavanagh2007/matrix.csv",
    "Frobisch2009": "amphibians_Frobisch2009/matrix.csv",
    "Hibbett1993": "fungi_Hibbett1993/matrix.csv",
    "Ingram2010": "grasses_Ingram2010/matrix.csv",
}
COUNTS = (4, 8, 12, 16, 24)
OURS = ("out-tree", "out-tree, fitted", "out-tree, auto")
STICKINESS = (0.6, 0.9)
N_TREES = 60
SINGLE = ", single"


def matrix(name):
    """Return the characters as numbers (T, D), NaN for ?, - and what is polymorphic."""
    if name == "zoo":
        zoo = load_zoo()
        kinds = np.unique(zoo.target, return_inverse=True)[1]
        return np.column_stack([np.asarray(zoo.data, dtype=float), kinds.astype(float)])
    with (TAXONOMY / MATRICES[name]).open() as lines:
        rows = [row[1:] for row in csv.reader(lines)][1:]
    X = np.full((len(rows), len(rows[0])), np.nan)
    for d, column in enumerate(zip(*rows, strict=True)):
        plain = sorted({cell for cell in column if cell.isalnum()})
        for t, cell in enumerate(column):
            if cell in plain:
                X[t, d] = plain.index(cell)
    return X


def varying(X):
    keep = [len(np.unique(column[~np.isnan(column)])) > 1 for column in X.T]
    return X[:, keep]


def indicators(X):
    """Return one column for each value of each character, missing cells at the column's mean."""
    columns = []
    for column in X.T:
        seen = ~np.isnan(column)
        for value in np.unique(column[seen]):
            columns.append(np.where(seen, column == value, np.mean(column[seen] == value)))
    H = np.array(columns, dtype=float).T
    H -= H.mean(axis=0)
    return H / np.sqrt(H.var(axis=0).sum() / 3)  # as spread out as three standardised columns


def components(X, n=3):
    H = indicators(X)
    U, s, _ = np.linalg.svd(H, full_matrices=False)
    Z = U[:, :n] * s[:n]
    return Z / np.sqrt(Z.var(axis=0).mean())


def label_columns(X, most, rng):
    """Return the attributes that can be labels: two classes of three records, 14 known cells."""
    usable = []
    for d, column in enumerate(X.T):
        counts = np.unique(column[~np.isnan(column)], return_counts=True)[1]
        if (counts >= 3).sum() >= 2 and counts.sum() >= 14:
            usable.append(d)
    return sorted(rng.choice(usable, min(most, len(usable)), replace=False).tolist())


def split(y, n, rng):
    """Return labelled, validation and test rows; at least two classes are labelled."""
    known = np.flatnonzero(y >= 0)
    if n > len(known) - 6:
        return None
    for _ in range(100):
        order = rng.permutation(known)
        if len(np.unique(y[order[:n]])) > 1:
            half = n + (len(known) - n) // 2
            return order[:n], order[n:half], order[half:]
    return None


# What is compared ---------------------------------------------------------------------------


def competitors(n):
    """Return for each method its settings; whether it also takes the unlabelled records."""
    gammas = (0.03, 0.1, 0.3, 1.0, 3.0)
    wide = (0.3, 1.0, 3.0, 10.0, 30.0)
    rbf = [SVC(C=C, gamma=g) for C in (0.1, 1.0, 10.0, 100.0) for g in gammas]
    neighbours = [k for k in (1, 2, 3, 5, 7) if k <= n]
    return {
        "SVM linear": ([SVC(kernel="linear", C=10.0**p) for p in range(-2, 4)], False),
        "SVM RBF": (rbf, False),
        "SelfTraining(SVC)": ([SelfTrainingClassifier(m, criterion="k_best", k_best=5)
                               for m in _scored(rbf[6:14:2])], True),
        "LabelSpreading": ([LabelSpreading(gamma=g, alpha=a)
                            for g in wide for a in (0.1, 0.5, 0.9)], True),
        "LabelPropagation": ([LabelPropagation(gamma=g, max_iter=300) for g in wide], True),
        "k-NN": ([KNeighborsClassifier(k, weights=w)
                  for k in neighbours for w in ("uniform", "distance")], False),
    }  # fmt: skip


class _ScoredSVC(SVC):
    """An SVC whose confidence is its decision value, squashed: no inner cross-validation."""

    def predict_proba(self, X):
        value = np.asarray(self.decision_function(X))
        if value.ndim == 1:
            value = np.column_stack([-value, value]) / 2
        value = np.exp(value - value.max(axis=1, keepdims=True))
        return value / value.sum(axis=1, keepdims=True)


def _scored(models):
    return [_ScoredSVC(**m.get_params()) for m in models]


def competitor_votes(models, semi, F, y, n_classes, labelled):
    """Return each setting's class probabilities of all records, (n_settings, T, C)."""
    partly = np.full(len(y), -1)
    partly[labelled] = y[labelled]
    votes = []
    for model in models:
        try:
            model.fit(F, partly) if semi else model.fit(F[labelled], y[labelled])
            soft = hasattr(model, "predict_proba")
            vote = model.predict_proba(F) if soft else (model.predict(F)[:, None] == model.classes_)
        except ValueError:  # a kernel so narrow that nothing is near anything
            continue
        full = np.zeros((len(y), n_classes))
        full[:, model.classes_] = vote
        if np.isfinite(full).all():
            votes.append(full)
    return np.array(votes)


def outcome(votes, y, validation, test):
    """Return test errors of the settings with the fewest validation errors; validation errors.

    The first is that of their common vote, the second the mean of their own: what to expect
    of one of them taken at random.
    """
    wrong = (votes[:, validation].argmax(axis=2) != y[validation]).sum(axis=1)
    tied = votes[wrong == wrong.min()][:, test]
    vote = (tied.mean(axis=0).argmax(axis=1) != y[test]).mean()
    single = (tied.argmax(axis=2) != y[test]).mean()
    return {"vote": float(vote), "single": float(single)}, wrong


# The protocol -------------------------------------------------------------------------------


def prepared(X, kind):
    """Return the out-tree's records and mutation, fitted once without labels; others' input."""
    if kind == "3d":
        Z = components(X)
        return Z, GaussianMutation(transition="identity", covariance="spherical"), Z
    return X, CategoricalMutation(), indicators(X)


def one_task(fitted, records, F, y, parts, seed, with_auto):
    labelled, validation, test = parts
    C, D = int(y.max()) + 1, records.shape[1]
    rng = np.random.default_rng(seed)
    partly = np.full(len(y), -1)
    partly[labelled] = y[labelled]
    marginals = (np.full(C, 1 / C), smoothed_marginal(partly, C))  # label_prior
    bases = [
        AttributeMutations(fitted, fresh=fresh).model(records, marginals[0], 0.9, 1.0)
        for fresh in (False, True)  # joint=False, joint="fresh"
    ]
    models = [
        base.with_options(marginal=marginal, stickiness=s, sharpness=a)
        for base in bases
        for marginal in marginals
        for a in sharpness_grid(D)
        for s in STICKINESS
    ]
    votes = np.array([weigh_trees(model, partly, N_TREES, rng).marginals for model in models])
    errors = {}

    def record(name, found):
        errors[name] = found["vote"]
        errors[f"{name}{SINGLE}"] = found["single"]

    both, wrong = outcome(votes, y, validation, test)
    record("out-tree", both)
    likely = np.log(votes[:, validation, y[validation]]).sum(axis=1)
    single = models[int(np.lexsort((-likely, wrong))[0])]
    chosen = [single]
    if with_auto:
        auto = choose_settings(bases[0], partly, AUTO, sharpness_grid(D), D, random_state=seed).best
        chosen.append(auto)
    for name, model in zip(OURS[1:], chosen, strict=False):
        # What OutTreeClassifier computes, with the mutation fitted once for all tasks.
        found = label_posterior(model, partly, 2, 20, 2, random_state=seed).distributions
        errors[name] = float((found[test].argmax(axis=1) != y[test]).mean())
    for name, (candidates, semi) in competitors(len(labelled)).items():
        others = competitor_votes(candidates, semi, F, y, C, labelled)
        record(name, outcome(others, y, validation, test)[0])
    return errors


def schedule(kinds, most, folds):
    """Yield what is to be done, balanced over matrices and inputs wherever it is cut off."""
    names = [name for name in MATRICES if (TAXONOMY / MATRICES[name]).exists()]
    for name in sorted(set(MATRICES) - set(names)):
        print(f"skipped {name}: {TAXONOMY / MATRICES[name]} is not there")
    matrices = {name: matrix(name) for name in [*names, "zoo"]}
    columns = {
        name: label_columns(X, most, np.random.default_rng(2026)) for name, X in matrices.items()
    }
    for fold in range(folds):
        for position in range(most):
            for name, X in matrices.items():
                for kind in kinds:
                    if position < len(columns[name]):
                        yield kind, name, X, columns[name][position], fold


def run(kinds, most, folds, results, save, with_auto):
    for kind, name, X, d, fold in schedule(kinds, most, folds):
        todo = [n for n in COUNTS if f"{kind}/{name}/{d}/{n}/{fold}" not in results]
        if not todo:
            continue
        seen = ~np.isnan(X[:, d])
        y = np.full(len(X), -1)
        y[seen] = np.unique(X[seen, d], return_inverse=True)[1]
        records, mutation, F = prepared(varying(np.delete(X, d, axis=1)), kind)
        fitted = fit_mutation(mutation, records).mutation
        for n in todo:
            parts = split(y, n, np.random.default_rng([d, n, fold, 2026]))
            if parts is not None:
                key = f"{kind}/{name}/{d}/{n}/{fold}"
                results[key] = one_task(fitted, records, F, y, parts, fold, with_auto)
        save()


def summary(results, kind):
    """Return {method: (means, standard errors)} over label counts, and the number of tasks."""
    methods = list(next(e for key, e in results.items() if key.startswith(kind)))
    table = {m: (np.full(len(COUNTS), np.nan), np.full(len(COUNTS), np.nan)) for m in methods}
    tasks = np.zeros(len(COUNTS), dtype=int)
    for i, n in enumerate(COUNTS):
        by_matrix = {}
        for key, errors in results.items():
            which, name, d, count, _ = key.split("/")
            if which == kind and int(count) == n:
                by_matrix.setdefault(name, {}).setdefault(d, []).append(errors)
                tasks[i] += 1
        for m in methods if by_matrix else []:
            labels = [
                np.array([np.mean([e[m] for e in folds]) for folds in columns.values()])
                for columns in by_matrix.values()
            ]
            squares = [c.var(ddof=1) / len(c) for c in labels if len(c) > 1]
            table[m][0][i] = np.mean([c.mean() for c in labels])
            table[m][1][i] = np.sqrt(np.sum(squares)) / len(labels)
    return table, tasks


def show(results, kind):
    table, tasks = summary(results, kind)
    print(f"\n{kind}: error ± standard error (tasks at each count: {', '.join(map(str, tasks))})")
    print(f"{'labels':26}" + "".join(f"{n:>15}" for n in COUNTS) + f"{'mean':>9}")
    for method, (mean, error) in sorted(table.items(), key=lambda item: np.nanmean(item[1][0])):
        cells = "".join(f"{m:9.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True))
        print(f"{method:26}{cells}{np.nanmean(mean):9.4f}")


def draw(results, kinds, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(kinds), figsize=(5 * len(kinds), 4), sharey=True)
    titles = {"3d": "three principal components", "full": "all attributes"}
    for axis, kind in zip(np.atleast_1d(axes), kinds, strict=True):
        for method, (mean, error) in summary(results, kind)[0].items():
            if method in OURS[1:] or method.endswith(SINGLE):
                continue
            ours = method == "out-tree"
            axis.errorbar(COUNTS, mean, error if ours else None, label=method, capsize=3,
                          color="black" if ours else None, linewidth=2 if ours else 1,
                          zorder=3 if ours else 2)  # fmt: skip
        axis.set(xlabel="labelled records", title=titles[kind], xticks=COUNTS)
    np.atleast_1d(axes)[0].set_ylabel("error on the others")
    np.atleast_1d(axes)[-1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", nargs="+", default=["3d", "full"], choices=["3d", "full"])
    parser.add_argument("--labels", type=int, default=8, help="attributes of each matrix, at most")
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="a JSON file that keeps finished tasks")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--auto", action="store_true", help="also the default, which is slow")
    parser.add_argument("--show", action="store_true", help="only print what the cache holds")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = options.cache is not None and options.cache.exists()
    results = json.loads(options.cache.read_text()) if kept else {}

    def save():
        if options.cache is not None:
            options.cache.write_text(json.dumps(results))

    began = time.perf_counter()
    if not options.show:
        run(options.inputs, options.labels, options.folds, results, save, options.auto)
    for kind in options.inputs:
        show(results, kind)
    if options.figure is not None:
        draw(results, options.inputs, options.figure)
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()

"""Variational Bayes predicts held-out records as well as OutTreeDensity, with one fit a family.

Part 1, densities: the protocol of benchmarks/density.py (its folds, its sets, its scores), with
BayesianOutTree(mutation="auto") fitted once to training and validation records: nothing is held
out, its families are weighed by the density that each record has given all others. Beside it
scikit-learn's BayesianGaussianMixture, whose options are chosen on the validation records, and
with --density OutTreeDensity (slow; its figures on the same folds are in docs/density.md).

Part 2, cost: time of an iteration of variational Bayes / of EM, spiral, measured in turns.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/bayesian.py [--sets …] [--folds 10] [--density]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from density import SETS, dirichlet_process, records, splits
from outtrees import OutTreeDensity
from outtrees.bayes.estimator import BayesianOutTree
from outtrees.datasets import make_spiral
from outtrees.inference import fit_em
from outtrees.inference.variational import fit_variational
from outtrees.models import MUTATIONS
from outtrees.models.conjugate import POSTERIORS

OURS, DIRICHLET = "BayesianOutTree(mutation='auto')", "BayesianGaussianMixture"
DENSITY = "OutTreeDensity(mutation='auto')"


def one_fold(X, split, density):
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)  # duplicates: expected in these sets
    train, validation, test = (X[rows] for rows in split)
    both = np.vstack([train, validation])
    mean, sd = train.mean(axis=0), train.std(axis=0)
    scaled = [(part - mean) / sd for part in (train, validation, test)]
    scores = {DIRICHLET: dirichlet_process(*scaled) - len(test) * np.log(sd).sum()}
    if density:
        model = OutTreeDensity(mutation="auto", cv=3, tol=1e-2, random_state=0)
        scores[DENSITY] = model.fit(both).score(test)
    model = BayesianOutTree(mutation="auto", tol=0.1, random_state=0).fit(both)
    scores[OURS] = model.score(test)
    shown = ", ".join(f"{name} {value:.1f}" for name, value in scores.items())
    print(f"<!-- a fold: {shown} -->", file=sys.stderr, flush=True)
    return scores, model.candidates_["weight"]


def ahead(lead):
    """Return the mean lead over folds, its standard error and in how many folds there is one."""
    error = lead.std(ddof=1) / np.sqrt(len(lead)) if len(lead) > 1 else np.nan
    return f"{lead.mean():.1f} ± {error:.1f}, in {(lead > 0).sum()} of {len(lead)}"


def densities(options):
    methods = [DIRICHLET, *([DENSITY] if options.density else []), OURS]
    leads = [f"ahead of {method.split('(')[0]} by" for method in methods[:-1]]
    print("| set |", " | ".join([*methods, *leads]), "| weights |")
    print("|---" * (2 * len(methods) + 1) + "|", flush=True)
    for name in options.sets:
        start = time.perf_counter()
        X = records(name)
        folds = Parallel(n_jobs=options.jobs)(
            delayed(one_fold)(X, split, options.density)
            for split in itertools.islice(splits(len(X), 10), options.folds)
        )
        scores = {m: np.array([fold[m] for fold, _ in folds]) for m in methods}
        weights = np.mean([w for _, w in folds], axis=0)
        cells = [
            name,
            *[f"{scores[m].mean():.1f}" for m in methods],
            *[ahead(scores[OURS] - scores[m]) for m in methods[:-1]],
            ", ".join(f"{w:.2f}" for w in weights),
        ]
        print("|", " | ".join(cells), "|", flush=True)
        print(f"<!-- {name}: {time.perf_counter() - start:.0f} s -->", flush=True)


def seconds_per_step(fit, start, X, steps=6):
    begin = time.perf_counter()
    done = fit(start, X, max_iter=steps, tol=0.0, accelerate=False)
    return (time.perf_counter() - begin) / done.n_iter


def cost():
    X = make_spiral()
    print("| family | iteration of variational Bayes / of EM | to reach |\n|---|---|---|")
    for name in ("gaussian", "parzen", "kernel", "mixture"):
        em, vb = MUTATIONS[name]().start(X, 0), POSTERIORS[name]().start(X, 0)
        ratios = []
        for _ in range(7):  # in turns, so that other work on the machine hits both
            slow = seconds_per_step(fit_variational, vb, X)
            ratios.append(slow / seconds_per_step(fit_em, em, X))
        print(f"| {name} | {np.median(ratios):.2f} | ≤ 1.2 |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--density", action="store_true")
    parser.add_argument("--no-cost", action="store_true")
    options = parser.parse_args()
    if not options.no_cost:
        cost()
        print()
    densities(options)


if __name__ == "__main__":
    main()

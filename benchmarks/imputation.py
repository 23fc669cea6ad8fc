"""Hidden cells are recovered as well as by the best of four imputers, on tree data far better.

Cells are hidden at random (10, 30, 50 %), or in blocks (half of the columns, side by side, of 40 %
of the records). Errors are taken over the cells that were hidden and are known: RMSE in standard
deviations of the column for continuous columns, share of wrong categories for the others.

Every method sees standardised columns; OutTreeImputer has its defaults. KNNImputer chooses the
number and weights of neighbours, IterativeImputer its rounds (BayesianRidge) or leaves and features
(RandomForest, 50 trees, 5 rounds), all of them how they see categories (as 0/1 columns or as one
number), on further hidden cells, a tenth of those left: in each repetition, but the forest, which
is slow, once for each set.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/imputation.py [--sets …] [--repeats 5] [--cache FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import BayesianRidge

from outtrees.datasets import load_diabetes, load_heart, load_liver, load_zoo, make_out_tree
from outtrees.models import CategoricalMutation, GaussianMutation, ProductMutation

REAL = ["heart", "diabetes", "liver", "zoo", "wine", "breast cancer"]
SETS = [*REAL, "tree", "tree, mixed"]
PATTERNS = ["10 %", "30 %", "50 %", "blocks"]
METHODS = ["mean", "KNN", "BayesianRidge", "RandomForest", "OutTreeImputer"]


def records(name):
    """Return the table (T, D), NaN where nobody knows, and its categorical columns."""
    if name == "heart":
        data = load_heart()
        codes = ("sex", "cp", "fbs", "restecg", "exang", "slope", "ca", "thal")
        return data.data, [d for d, n in enumerate(data.feature_names) if n in codes]
    if name == "zoo":
        return load_zoo().data, list(range(16))
    if name == "tree":
        return tree_records(0)
    if name == "tree, mixed":
        return tree_records(6)
    loaders = {
        "diabetes": lambda: load_diabetes(subset="paper", zeros="nan"),
        "liver": lambda: load_liver(subset="paper"),
        "wine": load_wine,
        "breast cancer": load_breast_cancer,
    }
    return np.asarray(loaders[name]().data, dtype=float), []


def tree_records(n_categorical):
    """Return 200 records that descend from each other: continuous columns, and categories."""
    rng = np.random.default_rng(3)
    D = 6 if n_categorical else 10
    walk = GaussianMutation(
        transition="scalar",
        transition_matrix=0.98 * np.eye(D),
        mutation_cov=0.04 * np.eye(D),
        root_mean=np.zeros(D),
        root_cov=np.eye(D),
    )
    if not n_categorical:
        return make_out_tree(200, walk, 0)[0], []
    template = CategoricalMutation().start(rng.integers(4, size=(200, n_categorical)).astype(float))
    sticky = template.with_params(np.full(n_categorical, 2.5))  # stays with probability 0.92
    columns = list(range(6, 6 + n_categorical))
    both = replace(ProductMutation([(walk, range(6)), (sticky, columns)]), parts=(walk, sticky))
    return make_out_tree(200, both, 0)[0], columns


def hide(X, pattern, seed):
    """Return the cells to hide: known ones, with one left in every column."""
    rng = np.random.default_rng([1 + PATTERNS.index(pattern), seed])
    T, D = X.shape
    if pattern == "blocks":
        mask = np.zeros((T, D), dtype=bool)
        width = (D + 1) // 2
        for row in rng.permutation(T)[: round(0.4 * T)]:
            first = rng.integers(D - width + 1)
            mask[row, first : first + width] = True
    else:
        mask = rng.random((T, D)) < float(pattern.split()[0]) / 100
    return mask & ~np.isnan(X)


class Coded:
    """Standardised columns and coded categories, and the way back.

    "ones" is a 0/1 column for each category, "dummies" leaves the last one out (it would give
    away the others to itself in an iterative imputer), "codes" is one number.
    """

    def __init__(self, X, categorical, coding):
        self.X, self.categorical, self.coding = X, list(categorical), coding
        self.continuous = [d for d in range(X.shape[1]) if d not in self.categorical]
        self.mean = np.nanmean(X[:, self.continuous], axis=0)
        sd = np.nanstd(X[:, self.continuous], axis=0)
        self.sd = np.where(sd > 0, sd, 1.0)
        self.levels = [np.unique(X[~np.isnan(X[:, d]), d]) for d in self.categorical]

    def forward(self):
        blocks = [(self.X[:, self.continuous] - self.mean) / self.sd]
        for d, levels in zip(self.categorical, self.levels, strict=True):
            ones = (self.X[:, [d]] == levels).astype(float)
            code = ones @ np.arange(len(levels)) / max(1, len(levels) - 1)
            cells = {"ones": ones, "dummies": ones[:, :-1], "codes": code[:, None]}[self.coding]
            cells[np.isnan(self.X[:, d])] = np.nan
            blocks.append(cells)
        return np.column_stack(blocks)

    def back(self, filled):
        result = self.X.copy()
        n = len(self.continuous)
        result[:, self.continuous] = filled[:, :n] * self.sd + self.mean
        for d, levels in zip(self.categorical, self.levels, strict=True):
            top = len(levels) - 1
            if self.coding == "codes":
                code = np.clip(np.rint(filled[:, n] * top), 0, top).astype(int)
                n += 1
            else:
                width = top + (self.coding == "ones")
                first = filled[:, n : n + width]
                last = 1 - first[:, :top].sum(axis=1)
                code = np.column_stack([first[:, :top], last]).argmax(axis=1)
                n += width
            result[:, d] = levels[code]
        return np.where(np.isnan(self.X), result, self.X)


def filled_by(make, X, categorical):
    imputer, coding = make()
    coded = Coded(X, categorical, coding)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return coded.back(imputer.fit_transform(coded.forward()))


def losses(X, filled, mask, categorical):
    """Return the squared error in variances over continuous cells, and the wrong categories."""
    sd = np.nanstd(X, axis=0)
    kind = np.zeros(X.shape, dtype=bool)
    kind[:, categorical] = True
    error = (filled - X) / np.where(sd > 0, sd, 1.0)
    squared = error[mask & ~kind] ** 2
    wrong = (filled != X)[mask & kind]
    rmse = float(np.sqrt(squared.mean())) if squared.size else None
    return rmse, float(wrong.mean()) if wrong.size else None


def chosen(candidates, X, categorical, seed):
    """Return the candidate with the smallest loss on a further tenth of the cells."""
    if not categorical:  # all codings are the same
        candidates = [c for c in candidates if c()[1] != "codes"]
    if len(candidates) == 1:
        return candidates[0]
    rng = np.random.default_rng([99, seed])
    mask = (rng.random(X.shape) < 0.1) & ~np.isnan(X)
    holey = np.where(mask, np.nan, X)
    mask[:, np.isnan(holey).all(axis=0)] = False
    holey = np.where(mask, np.nan, X)

    def loss(make):
        rmse, wrong = losses(X, filled_by(make, holey, categorical), mask, categorical)
        kind = len(categorical) / X.shape[1]
        return (1 - kind) * (rmse or 0.0) ** 2 + kind * (wrong or 0.0)

    return min(candidates, key=loss)


def forest(leaf, features, coding):
    regressor = RandomForestRegressor(
        50, min_samples_leaf=leaf, max_features=features, random_state=0
    )
    return lambda: (IterativeImputer(regressor, max_iter=5, random_state=0), coding)


def ridge(rounds, coding):
    return lambda: (IterativeImputer(BayesianRidge(), max_iter=rounds, random_state=0), coding)


# Each makes an imputer, and says how it sees categories.
CANDIDATES = {
    "mean": [lambda: (SimpleImputer(), "ones")],
    "KNN": [
        lambda k=k, w=w, c=c: (KNNImputer(n_neighbors=k, weights=w), c)
        for k in (2, 5, 10, 20, 40)
        for w in ("uniform", "distance")
        for c in ("ones", "codes")
    ],
    "BayesianRidge": [ridge(n, c) for n in (5, 20) for c in ("dummies", "codes")],
    "RandomForest": [
        *[forest(leaf, part, "dummies") for leaf in (1, 5) for part in (1 / 3, 1.0)],
        *[forest(leaf, 1 / 3, "codes") for leaf in (1, 5)],
    ],
}
FORESTS = {}


def impute(method, X, categorical, seed, name):
    if method == "OutTreeImputer":
        from outtrees.imputation.imputer import OutTreeImputer

        return OutTreeImputer(categorical=categorical, random_state=seed).fit_transform(X)
    if method == "RandomForest":
        if name not in FORESTS:
            FORESTS[name] = chosen(CANDIDATES[method], X, categorical, seed)
        return filled_by(FORESTS[name], X, categorical)
    return filled_by(chosen(CANDIDATES[method], X, categorical, seed), X, categorical)


def measure(options):
    """Return the errors of each set, pattern, method and repetition; cached ones are kept."""
    cache = Path(options.cache) if options.cache else None
    known = json.loads(cache.read_text()) if cache and cache.exists() else {}
    for seed in range(options.repeats):
        for name in options.sets:
            X, categorical = records(name)
            for pattern in options.patterns:
                mask = hide(X, pattern, seed)
                holey = np.where(mask, np.nan, X)
                for method in options.methods:
                    key = f"{name}|{pattern}|{method}|{seed}"
                    if key in known:
                        continue
                    start = time.perf_counter()
                    filled = impute(method, holey, categorical, seed, name)
                    rmse, wrong = losses(X, filled, mask, categorical)
                    known[key] = [rmse, wrong, time.perf_counter() - start]
                    print(key, known[key], file=sys.stderr, flush=True)
                    if cache:
                        cache.write_text(json.dumps(known))
    return known


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--patterns", nargs="+", default=PATTERNS, choices=PATTERNS)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cache", help="a JSON file that keeps finished measurements")
    options = parser.parse_args()
    known = measure(options)
    for kind, label in ((0, "RMSE, in sd"), (1, "share of wrong categories")):
        print(f"\n{label}\n\n| set | hidden |", " | ".join(options.methods), "|")
        print("|---" * (len(options.methods) + 2) + "|")
        for name in options.sets:
            for pattern in [*options.patterns, "all"]:
                row = summary(known, options, name, pattern, kind)
                if row:
                    print(f"| {name} | {pattern} |", " | ".join(row), "|")


def summary(known, options, name, pattern, kind):
    """Return mean ± standard error over repetitions; "all": of the means over patterns."""
    patterns = options.patterns if pattern == "all" else [pattern]
    row = []
    for method in options.methods:
        values = [
            [known[f"{name}|{p}|{method}|{seed}"][kind] for seed in range(options.repeats)]
            for p in patterns
        ]
        if values[0][0] is None:
            return []
        by_seed = np.mean(values, axis=0)
        error = by_seed.std(ddof=1) / np.sqrt(len(by_seed)) if len(by_seed) > 1 else np.nan
        row.append(f"{by_seed.mean():.3f} ± {error:.3f}")
    return row


if __name__ == "__main__":
    main()

"""Claim: defaults do well on sets that nobody tuned them for: densities, labels and gaps.

Real sets and a few generated shapes. Defaults were settled on the first half of the sets
("decide"); the other half is what counts ("report"). Splits are paired: every method sees the same.

densities  Twelve sets of numbers, values dithered within their rounding; at most 200 records of
           each, half to fit and half to test. Printed: mean log-density of a test record.
labels     150 records; 2, 5 and 10 labels of each class known, or half of a small class. Printed:
           share of wrong labels, their mean over the three, and the mean log-loss (one hundredth of
           every method's probability spread evenly).
gaps       150 records; 20 % of the cells hidden. Printed: RMSE in standard deviations, or share of
           wrong categories; and how many hidden numbers the 90 % and 50 % intervals cover.

    OPENBLAS_NUM_THREADS=1 python benchmarks/unseen.py densities report --splits 10 --mlbench FOLDER

Vine copulas need `pip install pyvinecopulib`; Vehicle, Vowel, BostonHousing, Glass, Satellite,
Ionosphere, Servo and Sonar come from R's mlbench (Debian's r-cran-mlbench; FOLDER holds Vehicle.rda
and so on) and need `pip install rdata pandas`. What is not there is left out, and named. With
`--keep SCORES` an interrupted comparison of densities goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import KNNImputer
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.model_selection import KFold
from sklearn.neighbors import KernelDensity, KNeighborsClassifier
from sklearn.semi_supervised import LabelPropagation, LabelSpreading
from sklearn.svm import SVC

from outtrees import OutTreeDensity
from outtrees.datasets import load_diabetes, load_heart, load_liver
from outtrees.imputation.imputer import OutTreeImputer
from outtrees.labels.classifier import OutTreeClassifier

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from paper.density_methods import vine_log_density
from paper.dirichlet_mixture import DirichletProcessMixture
from paper.units import Unit, cpu_seconds, run_units

HALVES = {
    "densities": {
        "decide": ("wine", "breast cancer", "heart", "liver", "Vehicle", "BostonHousing"),
        "report": ("iris", "diabetes", "pima", "Vowel", "Ionosphere", "Sonar"),
    },
    "labels": {
        "decide": (
            *("wine", "breast cancer", "heart", "Vehicle", "Glass", "Satellite"),
            *("moons, wide", "rings, wide", "spirals, short"),
        ),
        "report": (
            *("iris", "digits", "pima", "Vowel", "Ionosphere", "Sonar"),
            *("moons", "rings", "spirals"),
        ),
    },
    # Numbers, and the class as a category; of heart and Servo other categories too.
    "gaps": {
        "decide": ("wine", "Glass", "heart", "BostonHousing", "liver"),
        "report": ("iris", "Vehicle", "Servo", "pima", "breast cancer"),
    },
}
OURS = {
    "densities": "OutTreeDensity()",
    "labels": "OutTreeClassifier()",
    "gaps": "OutTreeImputer()",
}
TARGETS = {"Glass": "Type", "Satellite": "classes"}  # of R's sets, where not "Class"
# The speaker of a vowel, and two columns of Ionosphere that hold codes.
ASIDE = {"Vowel": ("V1",), "Ionosphere": ("V1", "V2")}


class Set(NamedTuple):
    """Numbers, and the classes of the records if there are any."""

    X: Any  # (T, D)
    classes: Any  # (T,)


def read(name: str, mlbench: Path | None) -> Set | None:
    """Return a set; None if it is not there."""
    if name in ("wine", "iris", "digits"):
        return Set(*getattr(datasets, f"load_{name}")(return_X_y=True))
    if name == "breast cancer":
        return Set(*datasets.load_breast_cancer(return_X_y=True))
    if name == "diabetes":
        return Set(datasets.load_diabetes(scaled=False).data, None)
    if name in ("heart", "pima", "liver"):
        found = {"heart": load_heart, "pima": load_diabetes, "liver": load_liver}[name]()
        X = np.array(found.data, dtype=float)
        return Set(np.where(np.isnan(X), np.nanmedian(X, axis=0), X), np.asarray(found.target))
    if name.split(",")[0] in ("moons", "rings", "spirals"):
        return shape(name)
    if mlbench is None:
        return None
    import pandas as pd
    import rdata

    frame = rdata.read_rda(mlbench / f"{name}.rda")[name]
    target = TARGETS.get(name, "Class")
    names = [c for c in frame if c != target and c not in ASIDE.get(name, ())]
    X = np.column_stack([pd.to_numeric(frame[c].astype(str)) for c in names])
    classes = np.asarray(frame[target].astype(str)) if target in frame else None
    return Set(np.array(X, dtype=float), classes)


def shape(name: str) -> Set:
    """Return 400 points of two classes that wind around each other."""
    makers: dict[str, Callable[[], Any]] = {
        "moons": lambda: datasets.make_moons(400, noise=0.1, random_state=11),
        "moons, wide": lambda: datasets.make_moons(400, noise=0.15, random_state=7),
        "rings": lambda: datasets.make_circles(400, noise=0.08, factor=0.5, random_state=3),
        "rings, wide": lambda: datasets.make_circles(400, noise=0.1, factor=0.4, random_state=7),
        "spirals": lambda: spirals(1.5, 0.03, 3),
        "spirals, short": lambda: spirals(1.25, 0.04, 7),
    }
    return Set(*makers[name]())


def spirals(turns: float, noise: float, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    arm, r = np.arange(400) % 2, 0.9 * np.sqrt(rng.random(400)) + 0.1
    angle = 2 * np.pi * (turns * r + arm / 2)
    points = np.column_stack([r * np.cos(angle), r * np.sin(angle)])
    return points + noise * rng.normal(size=(400, 2)), arm


# Densities --------------------------------------------------------------------------------------


def dithered(name: str, mlbench: Path | None) -> Any:
    """Return the numbers of a set, dithered within their rounding; None if it is not there."""
    if name in ("heart", "pima", "liver"):  # as in the paper: records of one class
        load = {"heart": load_heart, "pima": load_diabetes, "liver": load_liver}[name]
        X = np.array(load(subset="paper").data, dtype=float)
        X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    else:
        found = read(name, mlbench)
        if found is None:
            return None
        X = np.array(found.X, dtype=float)
    rng = np.random.default_rng(1)
    for column in X.T:
        values = np.unique(column)
        if len(values) > 1:
            column += (rng.random(len(column)) - 0.5) * np.diff(values).min()
    return X


def splits(X: Any, n: int) -> Iterator[tuple[Any, Any]]:
    """Yield training and test records, standardised by the former."""
    rng = np.random.default_rng(0)
    for _ in range(n):
        order = rng.permutation(len(X))[:200]
        train, test = X[order[: len(order) // 2]], X[order[len(order) // 2 :]]
        mean, deviation = train.mean(axis=0), train.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        yield (train - mean) / deviation, (test - mean) / deviation


def best_of(make: Callable[..., Any], X: Any, grid: list[Any]) -> Any:
    """Return the fit with the options that are best on five folds."""

    def held_out(options: Any) -> float:
        folds = KFold(5, shuffle=True, random_state=0).split(X)
        try:
            return float(sum(make(X[a], options).score_samples(X[b]).sum() for a, b in folds))
        except ValueError:  # a covariance that is none
            return -np.inf

    return make(X, max(grid, key=held_out))


def kernel_density(train: Any, test: Any) -> Any:
    widths = list(np.logspace(-1, 0.5, 16))
    return best_of(lambda X, h: KernelDensity(bandwidth=h).fit(X), train, widths).score_samples(
        test
    )


def gaussian_mixture(train: Any, test: Any) -> Any:
    grid = [
        (k, covariance, floor)
        for k in (1, 2, 3, 4, 6)
        for covariance in ("full", "diag", "tied")
        for floor in (1e-3, 1e-1)
    ]

    def made(X: Any, options: Any) -> Any:
        k, covariance, floor = options
        return GaussianMixture(
            k, covariance_type=covariance, reg_covar=floor, n_init=2, random_state=0
        ).fit(X)

    return best_of(made, train, grid).score_samples(test)


def bayesian_mixture(train: Any, test: Any) -> Any:
    model = BayesianGaussianMixture(n_components=10, n_init=2, max_iter=500, random_state=0)
    return model.fit(train).score_samples(test)


def gibbs_mixture(train: Any, test: Any) -> Any:
    return DirichletProcessMixture(random_state=0).fit(train).score_samples(test)


def our_density(train: Any, test: Any) -> Any:
    return OutTreeDensity(random_state=0).fit(train).score_samples(test)


DENSITIES: dict[str, Callable[[Any, Any], Any]] = {
    "KDE": kernel_density,
    "GMM by CV": gaussian_mixture,
    "Bayesian GMM": bayesian_mixture,
    "Gibbs DP mixture": gibbs_mixture,
    "vine": vine_log_density,
    OURS["densities"]: our_density,
}


def score_split(unit: Unit, settings: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean log-density of the test records by one method on one split of one set."""
    warnings.simplefilter("ignore")
    X = dithered(unit.dataset, None if settings["mlbench"] is None else Path(settings["mlbench"]))
    *_, (train, test) = splits(X, unit.fold + 1)
    return {"score": float(np.mean(DENSITIES[unit.method](train, test)))}


def compare_densities(half: str, n_splits: int, mlbench: Path | None, keep: Path | None) -> None:
    methods, ours = list(DENSITIES), OURS["densities"]
    try:
        import pyvinecopulib  # noqa: F401
    except ImportError:
        print("vine left out: pyvinecopulib is not installed")
        methods.remove("vine")
    print(f"| set | {' | '.join(methods)} | ahead of the best other by | seconds |")
    print("|---" * (len(methods) + 3) + "|")
    settings = {"mlbench": None if mlbench is None else str(mlbench)}
    with tempfile.TemporaryDirectory() as aside:
        folder = Path(aside) if keep is None else keep
        for name in HALVES["densities"][half]:
            X = dithered(name, mlbench)
            if X is None:
                print(f"{name} left out: give --mlbench", flush=True)
                continue
            units = [Unit("unseen", name, m, i) for m in methods for i in range(n_splits)]
            found = run_units(folder, units, score_split, settings=settings)
            values = np.reshape([one["score"] for one in found], (len(methods), n_splits))
            scores = dict(zip(methods, values, strict=True))
            seconds = np.mean([s for s in cpu_seconds(folder, units)[-n_splits:] if s is not None])
            best = max((m for m in methods if m != ours), key=lambda m: np.mean(scores[m]))
            means = " | ".join(f"{np.mean(scores[m]):.2f}" for m in methods)
            print(
                f"| {name} ({X.shape[1]} columns) | {means} | "
                f"{difference(scores[ours], scores[best], '+.2f')} ({best}) | {seconds:.1f} |",
                flush=True,
            )


def difference(ours: Any, others: Any, form: str) -> str:
    """Return mean ± standard error of paired differences."""
    ahead = np.array(ours) - np.array(others)
    error = ahead.std(ddof=1) / np.sqrt(len(ahead)) if len(ahead) > 1 else np.nan
    return f"{ahead.mean():{form}} ± {error:{form.lstrip('+')}}"


# Labels -----------------------------------------------------------------------------------------


class Task(NamedTuple):
    """Standardised records, their true classes, and the labels that are known (else −1)."""

    X: Any  # (T, D)
    truth: Any  # (T,)
    known: Any  # (T,)


def label_task(found: Set, n_labels: int, split: int) -> Task:
    """Return 150 records with so many labels of each class known, or half of a small class."""
    rng = np.random.default_rng([split, n_labels])
    classes, counts = np.unique(found.classes, return_counts=True)
    usable = np.flatnonzero(np.isin(found.classes, classes[counts >= 12]))
    rows = rng.permutation(usable)[:150]
    X = np.array(found.X[rows], dtype=float)
    truth = np.unique(found.classes[rows], return_inverse=True)[1]
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    known = np.full(len(X), -1)
    for c in range(truth.max() + 1):
        of_class = rng.permutation(np.flatnonzero(truth == c))
        known[of_class[: min(n_labels, max(1, len(of_class) // 2))]] = c
    return Task(X, truth, known)


def of_graph(model: Any) -> Callable[[Task], Any]:
    def chances(task: Task) -> Any:
        return np.nan_to_num(clone(model).fit(task.X, task.known).label_distributions_)

    return chances


def of_labelled(model: Any) -> Callable[[Task], Any]:
    def chances(task: Task) -> Any:
        seen = task.known >= 0
        fitted = clone(model).fit(task.X[seen], task.known[seen])
        if hasattr(fitted, "predict_proba"):
            return fitted.predict_proba(task.X)
        return np.eye(task.truth.max() + 1)[fitted.predict(task.X)]

    return chances


LABELS: dict[str, Callable[[Task], Any]] = {
    "LabelSpreading": of_graph(LabelSpreading(max_iter=200)),
    "LabelSpreading, kNN": of_graph(LabelSpreading(kernel="knn", max_iter=200)),
    "LabelPropagation": of_graph(LabelPropagation(max_iter=2000)),
    "LabelPropagation, kNN": of_graph(LabelPropagation(kernel="knn", max_iter=2000)),
    "RandomForest": of_labelled(RandomForestClassifier(200, random_state=0)),
    "SVC": of_labelled(SVC()),
    "nearest": of_labelled(KNeighborsClassifier(1)),
    OURS["labels"]: lambda task: (
        OutTreeClassifier(random_state=0).fit(task.X, task.known).label_distributions_
    ),
}


def compare_labels(half: str, n_splits: int, mlbench: Path | None) -> None:
    ours, counts = OURS["labels"], (2, 5, 10)
    print("| set | " + " | ".join(LABELS) + " | behind the best other by | seconds |")
    print("|---" * (len(LABELS) + 3) + "|")
    wrong: dict[str, list[float]] = {method: [] for method in LABELS}  # of all sets
    loss: dict[str, list[float]] = {method: [] for method in LABELS}
    for name in HALVES["labels"][half]:
        found = read(name, mlbench)
        if found is None:
            print(f"{name} left out: give --mlbench", flush=True)
            continue
        own: dict[str, list[float]] = {method: [] for method in LABELS}
        seconds = 0.0
        for split in range(n_splits):
            for n in counts:
                task = label_task(found, n, split)
                hidden = np.flatnonzero(task.known < 0)
                truth = task.truth[hidden]
                for method, chances in LABELS.items():
                    begin = time.process_time()
                    p = chances(task)[hidden]
                    seconds += (time.process_time() - begin) * (method == ours)
                    own[method].append(float((p.argmax(axis=1) != truth).mean()))
                    p = 0.99 * p[np.arange(len(p)), truth] + 0.01 / p.shape[1]
                    loss[method].append(float(-np.log(p).mean()))
        by_split = {m: np.reshape(v, (-1, len(counts))).mean(axis=1) for m, v in own.items()}
        best = min((m for m in LABELS if m != ours), key=lambda m: np.mean(own[m]))
        print(
            f"| {name} | "
            + " | ".join(f"{np.mean(own[m]):.3f}" for m in LABELS)
            + f" | {difference(by_split[ours], by_split[best], '+.3f')} ({best})"
            + f" | {seconds / len(own[ours]):.2f} |",
            flush=True,
        )
        for method in LABELS:
            wrong[method] += own[method]
    for title, table in (("mean error", wrong), ("mean log-loss", loss)):
        print(f"| **{title}** | " + " | ".join(f"{np.mean(table[m]):.3f}" for m in LABELS) + " |||")


# Gaps -------------------------------------------------------------------------------------------


def mixed_table(name: str, mlbench: Path | None) -> tuple[Any, list[int]] | None:
    """Return numbers and codes of categories (T, D), and the columns of the latter."""
    if name == "heart":
        found = load_heart()
        codes = ("sex", "cp", "fbs", "restecg", "exang", "slope", "ca", "thal")
        X = np.array(found.data, dtype=float)
        return X, [d for d, column in enumerate(found.feature_names) if column in codes]
    if name == "Servo" and mlbench is not None:
        import rdata

        frame = rdata.read_rda(mlbench / "Servo.rda")["Servo"]
        codes = [np.unique(frame[c].astype(str), return_inverse=True)[1] for c in list(frame)[:4]]
        return np.column_stack([*codes, frame["Class"]]).astype(float), [0, 1, 2, 3]
    one = read(name, mlbench)
    if one is None:
        return None
    if one.classes is None:  # BostonHousing: whether at the river
        return np.array(one.X, dtype=float), [3]
    codes = np.unique(one.classes, return_inverse=True)[1]
    return np.column_stack([one.X, codes]).astype(float), [one.X.shape[1]]


def mean_or_mode(holey: Any, categorical: list[int]) -> Any:
    filled = holey.copy()
    for d, column in enumerate(filled.T):
        seen = column[~np.isnan(column)]
        value = np.bincount(seen.astype(int)).argmax() if d in categorical else seen.mean()
        column[np.isnan(column)] = value
    return filled


def nearest(holey: Any, categorical: list[int]) -> Any:
    """Return the ten nearest records' mean or mode, categories as 0/1 columns."""
    deviation = np.nanstd(holey, axis=0)
    scaled = (holey - np.nanmean(holey, axis=0)) / np.where(deviation > 0, deviation, 1.0)
    blocks, widths = [], []
    for d in range(holey.shape[1]):
        levels = np.unique(holey[~np.isnan(holey[:, d]), d]) if d in categorical else None
        one = scaled[:, [d]] if levels is None else (holey[:, [d]] == levels).astype(float)
        one[np.isnan(holey[:, d])] = np.nan
        blocks.append(one)
        widths.append((one.shape[1], levels))
    found = KNNImputer(n_neighbors=10).fit_transform(np.hstack(blocks))
    filled, at = holey.copy(), 0
    for d, (width, levels) in enumerate(widths):
        one = found[:, at : at + width]
        at += width
        if levels is None:
            value = one[:, 0] * np.where(deviation > 0, deviation, 1.0)[d] + np.nanmean(holey[:, d])
        else:
            value = levels[one.argmax(axis=1)]
        filled[:, d] = np.where(np.isnan(holey[:, d]), value, holey[:, d])
    return filled


def miss_forest(holey: Any, categorical: list[int]) -> Any:
    """Return the table after four rounds of random forests, column after column (missForest)."""
    filled, hidden = mean_or_mode(holey, categorical), np.isnan(holey)
    for _ in range(4):
        for d in np.argsort(hidden.sum(axis=0)):
            rows = hidden[:, d]
            if not rows.any():
                continue
            kind = RandomForestClassifier if d in categorical else RandomForestRegressor
            forest = kind(100, max_features="sqrt", random_state=0)
            others = np.delete(filled, d, axis=1)
            filled[rows, d] = forest.fit(others[~rows], holey[~rows, d]).predict(others[rows])
    return filled


def compare_gaps(half: str, n_splits: int, mlbench: Path | None) -> None:
    others = {"mean or mode": mean_or_mode, "10 nearest": nearest, "missForest": miss_forest}
    methods, ours = [*others, OURS["gaps"]], OURS["gaps"]
    print("| set | " + " | ".join(methods) + " | minus the best other | 90 % | 50 % | seconds |")
    print("|---" * (len(methods) + 5) + "|")
    covered: dict[float, list[Any]] = {0.9: [], 0.5: []}
    for name in HALVES["gaps"][half]:
        table = mixed_table(name, mlbench)
        if table is None:
            print(f"{name} left out: give --mlbench", flush=True)
            continue
        X, categorical = table
        errors: dict[str, dict[str, list[float]]] = {
            kind: {m: [] for m in methods} for kind in ("numbers", "categories")
        }
        own: dict[float, list[Any]] = {0.9: [], 0.5: []}
        seconds = 0.0
        for split in range(n_splits):
            rng = np.random.default_rng([split, 77])
            some = X[rng.permutation(len(X))[:150]]
            hidden = (rng.random(some.shape) < 0.2) & ~np.isnan(some)
            holey = np.where(hidden, np.nan, some)
            of_category = np.zeros_like(hidden)
            of_category[:, categorical] = True
            begin = time.process_time()
            model = OutTreeImputer(categorical=categorical, random_state=0)
            found = {ours: model.fit_transform(holey)}
            seconds += time.process_time() - begin
            found |= {m: fill(holey, categorical) for m, fill in others.items()}
            deviation = np.nanstd(some, axis=0)
            for method, filled in found.items():
                away = ((filled - some) / np.where(deviation > 0, deviation, 1.0))[
                    hidden & ~of_category
                ]
                errors["numbers"][method].append(float(np.sqrt((away**2).mean())))
                wrong = (filled != some)[hidden & of_category]
                errors["categories"][method].append(float(wrong.mean()))
            for level, inside in own.items():
                low, high = model.interval(level)
                inside.append(((low <= some) & (high >= some))[hidden & ~of_category])
        shares = [float(np.concatenate(inside).mean()) for inside in own.values()]
        for level, inside in own.items():
            covered[level] += inside
        for kind, table_of in errors.items():
            best = min(others, key=lambda m: np.mean(table_of[m]))
            cells = " | ".join(f"{np.mean(table_of[m]):.3f}" for m in methods)
            cover = f"{shares[0]:.3f} | {shares[1]:.3f}" if kind == "numbers" else " | "
            print(
                f"| {name}, {kind} | {cells} | "
                f"{difference(table_of[ours], table_of[best], '+.3f')} ({best}) | {cover} | "
                f"{seconds / n_splits:.1f} |",
                flush=True,
            )
    shown = " | ".join(f"{np.concatenate(inside).mean():.3f}" for inside in covered.values())
    print(f"| **all numbers** |{' |' * len(methods)} | {shown} | |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=[*HALVES])
    parser.add_argument("half", choices=["decide", "report"])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--mlbench", type=Path)
    parser.add_argument("--keep", type=Path, help="keep each score of densities here, and go on")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "densities":
        compare_densities(options.half, options.splits, options.mlbench, options.keep)
        return
    compare = {"labels": compare_labels, "gaps": compare_gaps}
    compare[options.what](options.half, options.splits, options.mlbench)


if __name__ == "__main__":
    main()

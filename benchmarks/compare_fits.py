"""Fits of every model and estimator on small data with fixed seeds, before and after a change.

A change of structure must not change results. Run it before the change and after:

    python benchmarks/compare_fits.py --out before.json
    python benchmarks/compare_fits.py --against before.json

The second run fits all again and prints a table of the largest differences; it ends with 1 if one
is above the tolerance (1e-9, absolute up to 1 and relative beyond), or if a result is missing.
Names given as arguments choose the parts: models, posteriors, kernels, density, labels,
imputation, bayes, ancestry.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from outtrees import Ancestry, BayesianOutTree, OutTreeClassifier, OutTreeDensity, OutTreeImputer
from outtrees.datasets import make_line_list, make_spiral
from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    ColumnMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    Mutation,
    PoissonMutation,
    ProductMutation,
    make_mutation,
)
from outtrees.models.columns import Counts, Drift, GroupedDrift, Reversion, Sticky
from outtrees.models.conjugate import (
    CategoricalPosterior,
    GaussianPosterior,
    KernelPosterior,
    MixturePosterior,
    PointPosterior,
    PoissonPosterior,
    Posterior,
    ProductPosterior,
)

TOLERANCE = 1e-9
T = 14
Results = Iterator[tuple[str, Any]]


# Data ------------------------------------------------------------------------------------------


def real(D: int = 2, n: int = T) -> np.ndarray:
    return np.random.default_rng(1).normal(0.3, 1.2, (n, D)).cumsum(axis=0) / 2


def counts(D: int = 2, n: int = T) -> np.ndarray:
    return np.random.default_rng(2).poisson(2.5, (n, D)).astype(float)


def bits(D: int = 3, n: int = T) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 2, (n, D)).astype(float)


def codes(n: int = T, holes: bool = False) -> np.ndarray:
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.choice([2.0, 5.0, 7.0], n), rng.choice([-1.0, 4.0], n)])
    X[:3] = [[2.0, -1.0], [5.0, 4.0], [7.0, 4.0]]
    if holes:
        X[4, 0] = X[6, 1] = X[7, 0] = np.nan
    return X


def numbered(n: int = T) -> np.ndarray:
    return np.searchsorted([2.0, 5.0, 7.0], codes(n)[:, :1]).astype(float)


def with_holes(X: np.ndarray, share: float = 0.15) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.where(rng.random(X.shape) < share, np.nan, X)


def weights(n: int) -> np.ndarray:
    W = np.random.default_rng(6).gamma(0.5, size=(n, n))
    np.fill_diagonal(W, 0.0)
    return 0.9 * W / W.sum(axis=1, keepdims=True)


# Models ----------------------------------------------------------------------------------------


def mutations() -> dict[str, tuple[Mutation, np.ndarray]]:
    cases: dict[str, tuple[Mutation, np.ndarray]] = {}
    for transition in ("full", "diag", "scalar", "identity", "zero"):
        for covariance in ("full", "diag", "spherical"):
            model = GaussianMutation(covariance, transition)
            cases[f"gaussian {transition} {covariance}"] = model, real()
    gaussian = GaussianMutation(fit_offset=False, start_correlation=0.3, prior_strength=4.0)
    mixed = [KernelMutation(n_landmarks=4), GaussianMutation(transition="zero"), GaussianMutation()]
    matrices = [CategoricalMutation("full"), CategoricalMutation("sticky")]
    groups = [(GaussianMutation(), [2]), (CategoricalMutation(), [0]), (PoissonMutation(), [1])]
    table = np.column_stack([codes()[:, 0], counts()[:, 0], real()[:, 0]])
    return cases | {
        "gaussian no offset": (gaussian, real()),
        "gaussian no prior": (GaussianMutation(prior_strength=0), real()),
        "gaussian drift": (GaussianMutation(transition="identity", fit_offset=True), real()),
        "kernel rbf": (KernelMutation(n_landmarks=5), real()),
        "kernel polynomial": (KernelMutation("polynomial", degree=2, ridge=9.0), real()),
        "kernel linear": (KernelMutation("linear", covariance="spherical"), real()),
        "mixture": (MixtureMutation(n_iid=2, n_local=2), real()),
        "mixture iid": (MixtureMutation(n_iid=2, n_local=0, covariance="diag"), real()),
        "mixture of kinds": (MixtureMutation(mixed), real()),
        "mixture of matrices": (MixtureMutation(matrices), codes()),
        "clouds": (make_mutation("clouds"), real(2, 30)),
        "columns": (make_mutation("columns"), real()),
        "sticky": (CategoricalMutation(), codes(holes=True)),
        "sticky no prior": (CategoricalMutation(prior_strength=0), codes()),
        "categorical full": (CategoricalMutation("full"), codes(holes=True)),
        "poisson": (PoissonMutation(), counts()),
        "poisson no prior": (PoissonMutation(prior_strength=0), counts()),
        "bernoulli": (BernoulliMutation(), bits()),
        "bernoulli no prior": (BernoulliMutation(prior_strength=0), bits()),
        "product": (ProductMutation(groups), table),
        "column sticky": (ColumnMutation(Sticky(("a", "b", "c"))), with_holes(numbered())),
        "column counts": (ColumnMutation(Counts()), with_holes(counts(1))),
        "column reversion": (ColumnMutation(Reversion()), with_holes(real(1))),
        "column drift": (ColumnMutation(Drift()), real()),
    }


def models() -> Results:
    for name, (template, X) in mutations().items():
        n = len(X)
        W = weights(n)
        start = template.start(X, 3)
        move = np.random.default_rng(7).normal(size=start.n_parameters)
        here = start.with_params(start.params + 0.2 * move)
        child, parent = np.nonzero(W)
        listed = child, parent, W[child, parent]
        classes = np.eye(3)[np.arange(n) % 3]
        rng = np.random.default_rng(8)
        yield f"{name}: start", start.params
        yield f"{name}: log_conditional", here.log_conditional(X, X)
        yield f"{name}: log_root", here.log_root(X)
        yield f"{name}: log_by_class", here.log_by_class(X, classes, X)
        yield f"{name}: objective", here.objective(X, W)
        yield f"{name}: log_prior", here.log_prior()
        yield f"{name}: gradient", here.gradient(X, W)
        yield f"{name}: refit", here.refit(X, W).params
        yield f"{name}: log_beta_edges", here.log_beta_edges(X, child, parent)
        yield f"{name}: gradient_edges", here.gradient_edges(X, *listed)
        yield f"{name}: refit_edges", here.refit_edges(X, *listed).params
        yield f"{name}: sample", here.sample(np.nan_to_num(X) if "gauss" in name else X, rng)
        yield f"{name}: sample_root", here.sample_root(5, rng)


def family() -> dict[str, tuple[Posterior, np.ndarray]]:
    groups = [(GaussianPosterior(), [0]), (PoissonPosterior(), [1])]
    table = np.column_stack([real()[:, 0], counts()[:, 0]])
    cases: dict[str, tuple[Posterior, np.ndarray]] = {
        f"gaussian {transition} {covariance}": (
            GaussianPosterior(covariance=covariance, transition=transition),
            real(),
        )
        for transition in ("full", "identity", "zero")
        for covariance in ("full", "diag", "spherical")
    }
    return cases | {
        "gaussian drift": (GaussianPosterior(transition="identity", fit_offset=True), real()),
        "kernel": (KernelPosterior(n_landmarks=5), real()),
        "mixture": (MixturePosterior(n_iid=2, n_local=2), real()),
        "sticky": (CategoricalPosterior(), codes(holes=True)),
        "categorical full": (CategoricalPosterior("full"), codes(holes=True)),
        "poisson": (PoissonPosterior(), counts()),
        "product": (ProductPosterior(groups), table),
        "columns": (ProductPosterior(MixturePosterior(n_local=2)), real()),
        "points bernoulli": (PointPosterior(BernoulliMutation(), 20), bits()),
        "points sticky": (PointPosterior(ColumnMutation(Sticky(("a", "b", "c")))), numbered()),
    }


def posteriors() -> Results:
    for name, (template, X) in family().items():
        W = weights(len(X))
        start = template.start(X, 3)
        here = start.update(X, W)
        drawn = here.draw(np.random.default_rng(9), None if np.isnan(X[0]).any() else X[0])
        yield f"{name}: start", start.statistics
        yield f"{name}: update", here.statistics
        yield f"{name}: expected_log_conditional", here.expected_log_conditional(X, X)
        yield f"{name}: log_predictive", here.log_predictive(X, X)
        yield f"{name}: log_root", here.log_root(X)
        yield f"{name}: kl", here.kl()
        yield f"{name}: prior", here.prior().log_predictive(X, X)
        yield f"{name}: draw", drawn.params
        yield f"{name}: draw's root", drawn.log_root(X)
        yield f"{name}: log_prior_ratio", here.log_prior_ratio(drawn)


def kernels() -> Results:
    grouped = np.column_stack([real(), np.arange(T) % 2])
    cases: dict[str, tuple[Any, np.ndarray]] = {
        "sticky": (Sticky(("a", "b", "c")), with_holes(numbered())),
        "sticky uniform": (Sticky(("a", "b", "c"), target="uniform"), numbered()),
        "counts": (Counts(), with_holes(counts(1))),
        "reversion": (Reversion(), with_holes(real(1))),
        "reversion stationary": (Reversion(stationary=True), real(1)),
        "drift": (Drift(), real()),
        "drift clock": (Drift(offset=False, clock=True), real()),
        "drift grouped": (GroupedDrift(), grouped),
    }
    child, parent = np.nonzero(~np.eye(T, dtype=bool))
    elapsed = np.random.default_rng(10).gamma(2.0, size=len(child))
    w = np.random.default_rng(11).normal(size=(3, len(child)))
    for name, (template, X) in cases.items():
        start = template.start(X)
        move = np.random.default_rng(7).normal(size=len(start.params))
        here = start.with_params(start.params + 0.2 * move)
        pairs = here.pairs(X, X, child, parent)
        log_alone = here.log_alone(X)
        rng = np.random.default_rng(8)
        yield f"{name}: start", start.params
        for k in (1, 2, 3):
            yield f"{name}: log_steps {k}", here.log_steps(pairs, k, elapsed)
        yield f"{name}: slopes", here.slopes(pairs, w, elapsed)
        yield f"{name}: log_relative", here.log_relative(pairs, 2, elapsed, log_alone[child])
        yield f"{name}: slopes_relative", here.slopes_relative(pairs, w, elapsed, log_alone[child])
        yield f"{name}: log_alone", log_alone
        yield f"{name}: log_base", here.log_base(X)
        yield f"{name}: log_prior", here.log_prior()
        yield f"{name}: prior_slopes", here.prior_slopes()
        yield f"{name}: start_grid", np.concatenate(here.start_grid())
        known = X[~np.isnan(X).any(axis=1)]
        yield f"{name}: sample", here.sample(known, 2, rng)
        yield f"{name}: sample_alone", here.sample_alone(5, rng)
        yield f"{name}: quantities", [q.value for q in here.quantities()]
        quick = here.quick(known, 3, 1.0)
        if quick is not None:
            yield f"{name}: quick", np.concatenate([np.ravel(part) for part in quick])


# Estimators --------------------------------------------------------------------------------------


def density() -> Results:
    spiral = make_spiral(40, random_state=0)
    new = make_spiral(7, random_state=1)
    small: dict[str, tuple[Any, np.ndarray, np.ndarray]] = {
        name: (name, spiral, new)
        for name in ("gaussian", "parzen", "iid", "kernel", "mixture", "columns", "clouds")
    }
    small |= {
        "poisson": (PoissonMutation(), counts(2, 30), counts(2, 5)),
        "bernoulli": (BernoulliMutation(), bits(3, 30), bits(3, 5)),
        "sticky": (CategoricalMutation(), codes(30), codes(5)),
        "full": (CategoricalMutation("full"), codes(30), codes(5)),
        "column counts": (ColumnMutation(Counts()), counts(1, 30), counts(1, 5)),
        "column drift": (ColumnMutation(Drift()), real(2, 30), real(2, 5)),
    }
    for name, (mutation, X, Y) in small.items():
        for solver in ("em", "lbfgs", "gradient"):
            if solver != "em" and name in ("columns", "clouds", "iid"):
                continue
            model = OutTreeDensity(mutation, solver=solver, max_iter=8, random_state=0).fit(X)
            yield f"{name} {solver}: params", model.mutation_.params
            yield f"{name} {solver}: log_likelihoods", model.log_likelihoods_
            yield f"{name} {solver}: score_samples", model.score_samples(Y)
            yield f"{name} {solver}: supports", model.edge_marginals_
    for name in ("parzen", "mixture", "gaussian"):
        model = OutTreeDensity(
            name, candidates="knn", n_candidates=6, max_iter=8, random_state=0
        ).fit(spiral)
        yield f"{name} candidates: params", model.mutation_.params
        yield f"{name} candidates: score_samples", model.score_samples(new)
    model = OutTreeDensity("auto", max_iter=5, random_state=0).fit(spiral[:25])
    yield "auto: score_samples", model.score_samples(new)
    model = OutTreeDensity("parzen", missing="integrate", max_iter=5, random_state=0)
    yield "hidden: score_samples", model.fit(with_holes(spiral, 0.1)).score_samples(new)


def labels() -> Results:
    X, clan = real(2, 30), np.arange(30) % 3
    X = X + 3.0 * clan[:, None]
    known = np.where(np.arange(30) < 12, clan, -1)
    for name, options in {
        "default": {},
        "parzen": {"mutation": "parzen", "stickiness": 0.8, "sharpness": 1.0},
        "refit": {"refit": True, "max_iter": 3},
        "hill-climb": {"method": "hill-climb"},
    }.items():
        model = OutTreeClassifier(**options, n_draws=6, n_chains=2, random_state=0).fit(X, known)
        yield f"{name}: labels", model.transduction_.astype(float)
        yield f"{name}: predict_proba", model.predict_proba(X[:5] + 0.1)
    model = OutTreeClassifier(CategoricalMutation(), n_draws=6, n_chains=2, random_state=0)
    yield "categories: predict_proba", model.fit(codes(30), known).predict_proba(codes(5))


def imputation() -> Results:
    X = with_holes(np.column_stack([real(2, 36), codes(36)[:, 0], counts(1, 36)]), 0.1)
    product = ProductMutation(
        [(GaussianMutation(transition="scalar"), [0, 1]), (CategoricalMutation("full"), [2, 3])]
    )
    grid = ProductMutation([(GaussianMutation(), [0, 1, 2]), (ColumnMutation(Counts()), [3])])
    for name, mutation, categorical in (
        ("auto", "auto", [2]),
        ("mixture", "mixture", []),
        ("product", product, [2, 3]),
        ("grid", grid, []),
    ):
        model = OutTreeImputer(
            mutation, categorical=categorical, max_iter=4, n_draws=5, n_chains=2, random_state=0
        )
        yield f"{name}: filled", model.fit_transform(X)
        yield f"{name}: std", model.std_
        yield f"{name}: weights", list(model.weights_.values())
        yield f"{name}: new", model.transform(X[:6] + np.array([0.01, 0.01, 0.0, 0.0]))


def bayes() -> Results:
    spiral, new = make_spiral(30, random_state=0), make_spiral(5, random_state=1)
    cases: dict[str, tuple[Any, np.ndarray, np.ndarray]] = {
        name: (name, spiral, new)
        for name in ("gaussian", "parzen", "iid", "kernel", "mixture", "columns")
    }
    cases |= {
        "poisson": ("poisson", counts(2, 30), counts(2, 5)),
        "categorical": ("categorical", codes(30), codes(5)),
        "full": (CategoricalPosterior("full"), codes(30), codes(5)),
        "bernoulli": (PointPosterior(BernoulliMutation(), 20), bits(2, 20), bits(2, 5)),
        "column counts": (PointPosterior(ColumnMutation(Counts()), 20), counts(1), counts(1, 5)),
    }
    for name, (mutation, X, Y) in cases.items():
        model = BayesianOutTree(mutation, max_iter=8, random_state=0).fit(X)
        yield f"{name}: lower_bounds", model.lower_bounds_
        yield f"{name}: statistics", model.posterior_.statistics
        yield f"{name}: score_samples", model.score_samples(Y)
        yield f"{name}: supports", model.edge_marginals_
    model = BayesianOutTree("parzen", max_iter=8, random_state=0).fit(spiral[:12])
    found = model.importance(20, random_state=0)
    yield "importance: log_weights", found.log_weights


def ancestry() -> Results:
    rng = np.random.default_rng(12)
    plain = {
        "case": [f"c{t}" for t in range(24)],
        "size": real(1, 24)[:, 0],
        "kind": [("a", "b", "c")[int(v)] for v in numbered(24)[:, 0]],
        "events": counts(1, 24)[:, 0],
        "day": np.sort(rng.integers(0, 60, 24)).astype(float),
    }
    kinds = {"size": "continuous", "kind": "categorical", "events": "count"}
    for name, data, options in (
        ("plain", plain, {"id": "case", "kinds": kinds}),
        ("line list", make_line_list(20, random_state=0).table, {"id": "case"}),
    ):
        model = Ancestry(**options, random_state=0).fit(data)
        found = model.parents(0.0).rows()
        yield f"{name}: supports", [row[2] for row in found]
        yield f"{name}: parents", [sum(map(ord, str(row[1]))) for row in found]
        yield f"{name}: kernels", np.concatenate([k.params for k in model.lineage_.kernels])


# Comparison --------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[], Results]] = {
    part.__name__: part
    for part in (models, posteriors, kernels, density, labels, imputation, bayes, ancestry)
}


def collected(names: list[str]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for name in names:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for what, value in PARTS[name]():
                dense = value.toarray() if hasattr(value, "toarray") else value
                found[f"{name}, {what}"] = np.ravel(np.asarray(dense, dtype=float)).tolist()
        print(f"{name}: {time.process_time() - start:.1f} s of processor", file=sys.stderr)
    return found


def difference(before: list[float], after: list[float]) -> float:
    """Return the largest difference: absolute up to 1, relative beyond; inf if shapes differ."""
    a, b = np.array(before), np.array(after)
    if a.shape != b.shape:
        return float("inf")
    both = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~both], b[~both], equal_nan=True):
        return float("inf")
    scale = np.maximum(1.0, np.abs(a[both]))
    return float((np.abs(a[both] - b[both]) / scale).max(initial=0.0))


def compared(before: dict[str, list[float]], after: dict[str, list[float]], most: int) -> bool:
    """Print the largest differences; return whether all results agree."""
    apart = {name: difference(before[name], after[name]) for name in before if name in after}
    missing = sorted(set(before) ^ set(after))
    print("| result | largest difference |\n|---|---|")
    for name in sorted(apart, key=lambda key: -apart[key])[:most]:
        print(f"| {name} | {apart[name]:.1e} |")
    over = sum(value > TOLERANCE for value in apart.values())
    same = sum(value == 0 for value in apart.values())
    print(f"{len(apart)} results: {same} the same to the bit, {over} further than {TOLERANCE:g}.")
    for name in missing:
        print(f"only in one of them: {name}")
    return not over and not missing


def main() -> int:
    """Write the results to a file, or compare them with one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="all if none is named")
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--against", type=Path, help="compare with the results in this file")
    parser.add_argument("--most", type=int, default=15, help="rows of the table")
    options = parser.parse_args()
    names = options.parts or list(PARTS)
    found = collected(names)
    if options.out is not None:
        options.out.write_text(json.dumps(found))
    if options.against is None:
        return 0
    before = json.loads(options.against.read_text())
    before = {name: v for name, v in before.items() if name.split(",")[0] in names}
    return 0 if compared(before, found, options.most) else 1


if __name__ == "__main__":
    sys.exit(main())

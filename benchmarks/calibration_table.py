"""Claim: supports, label probabilities and intervals are true as often as they say.

Simulation-based calibration; `make calibration` prints the tables. First the simulations of
tests/test_promises.py, which come from the model itself, with more tables. Then two harder ones:
outbreaks whose second introduction looks like a case of the first, half of them with one
introduction and half with two, and `BayesianOutTree` on walks of 20 records. Outbreaks with two
introductions only are a prior that is wrong on purpose.

    python benchmarks/calibration_table.py [n_tables] [n_outbreaks] [n_walks]

n_outbreaks is the number of each kind; 0 leaves a part out.
"""

from __future__ import annotations

import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np

from outtrees import Ancestry, BayesianOutTree
from outtrees.datasets import make_out_tree, make_outbreak
from outtrees.models import GaussianMutation
from outtrees.models.conjugate import GaussianPosterior

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from oracles.promises import (
    drifts,
    hidden_cells,
    hidden_labels,
    of_choices,
    of_draws,
    parents_of_dates,
)

GIVEN = {
    "mean_prior": np.zeros(2),
    "mean_precision_prior": 1.0,
    "degrees_of_freedom_prior": 6.0,
    "covariance_prior": 1.5 * np.eye(2),
    "root_degrees_of_freedom_prior": 6.0,
    "root_covariance_prior": 4.0 * np.eye(2),
}
WALKS = {
    "any transition": GaussianPosterior(),
    "transition and offset as in the walk": GaussianPosterior(
        transition="identity", fit_offset=True
    ),
    "walks from the prior of the fit": GaussianPosterior(
        transition_prior=0.8, transition_precision_prior=5.0 * np.eye(2), **GIVEN
    ),
}
BINS = [0.0, 0.5, 0.8, 0.95, 0.99, 1.0 + 1e-9]


def outbreak_supports(n: int, n_introductions: int) -> list[tuple[float, bool]]:
    """Return (support, whether true) of the best parent of each case, no sequences, wait given."""
    result = []
    for seed in range(n):
        made = make_outbreak(20, n_introductions=n_introductions, n_sites=1, random_state=seed)
        table = {name: made.table[name] for name in ("case", "onset", "ward")}
        model = Ancestry(id="case", roots="any", waiting_mean=5.0, waiting_sd=2.0).fit(table)
        found = model.parents(0.0)
        for child, parent, support, rank in zip(
            found["child"], found["parent"], found["support"], found["rank"], strict=True
        ):
            if rank == 1:
                result.append((support, made.infectors[child] == parent))
    return result


def walk_answers(
    n: int, posterior: GaussianPosterior
) -> tuple[list[tuple[float, bool]], dict[str, float], list[float]]:
    """Return edges of BayesianOutTree on Gaussian walks of 20 records, and what intervals cover.

    Priors that are given in full also draw the parameters of each walk.
    """
    edges, covered, shares = [], {"offset": [], "mutation_cov": []}, []
    fixed = GaussianMutation(
        transition="identity",
        fit_offset=True,
        root_mean=np.zeros(2),
        root_cov=np.eye(2),
        transition_matrix=np.eye(2),
        offset=np.array([0.5, 0.0]),
        mutation_cov=0.25 * np.eye(2),
    )
    for seed in range(n):
        truth = fixed
        if posterior.covariance_prior is not None:
            prior = posterior.start(np.eye(3, 2)).prior()
            truth = prior.draw(np.random.default_rng(10_000 + seed))
        X, parents = make_out_tree(20, truth, seed)
        model = BayesianOutTree(posterior, random_state=0).fit(X)
        marginals = model.edge_marginals_
        best = marginals.argmax(axis=1)
        edges += [
            (float(marginals[u, best[u]]), bool(best[u] == parents[u]))
            for u in range(len(X))
            if marginals[u, best[u]] > model.root_marginals_[u]
        ]
        sample = model.importance(400, random_state=0)
        weights = sample.weights
        shares.append(float(1 / (weights**2).sum() / len(weights)))
        low, _, high = model.credible_intervals(0.9, sample=sample)["offset"]
        covered["offset"] += list((low <= truth.offset) & (truth.offset <= high))
        low, _, high = model.credible_intervals(0.9, sample=sample)["mutation_cov"]
        inside = (low <= truth.mutation_cov) & (truth.mutation_cov <= high)
        covered["mutation_cov"] += list(inside[np.triu_indices(2)])
    return edges, {name: float(np.mean(values)) for name, values in covered.items()}, shares


def show(name: str, pairs: list[tuple[float, bool]]) -> None:
    """Print how often promises of each size were kept."""
    promised = np.array([p for p, _ in pairs])
    true = np.array([t for _, t in pairs], dtype=float)
    print(f"| {name} | all | {len(true)} | {promised.mean():.3f} | {true.mean():.3f} |")
    for low, high in pairwise(BINS):
        here = (promised >= low) & (promised < high)
        if here.any():
            error = np.sqrt(true[here].mean() * (1 - true[here].mean()) / here.sum())
            print(
                f"| {name} | {low:.2f}–{min(high, 1):.2f} | {here.sum()} "
                f"| {promised[here].mean():.3f} | {true[here].mean():.3f} ± {error:.3f} |",
                flush=True,
            )


def from_the_model(n: int) -> None:
    """Print what is reached and promised in tables that the model itself made."""
    cases = {
        "`Ancestry`, dates": (parents_of_dates(n), of_choices),
        "`Ancestry`, dates, place and ward": (parents_of_dates(n, columns=True), of_choices),
        "`OutTreeClassifier`, hidden labels": (hidden_labels(n), of_choices),
        "`OutTreeImputer`, hidden cells": (hidden_cells(n // 2), of_draws),
    }
    print("| tables from the model | what | reached | promised | apart, standard errors |")
    print("|---|---|---|---|---|")
    for name, (tables, statistic) in cases.items():
        for what, (reached, promised, apart) in drifts(tables, statistic).items():
            print(f"| {name} | {what} | {reached:.0f} | {promised:.0f} | {apart:.1f} |", flush=True)


def main() -> None:
    n_tables, n_outbreaks, n_walks = (
        int(a) for a in [*sys.argv[1:], *["300", "100", "24"][len(sys.argv) - 1 :]]
    )
    warnings.simplefilter("ignore")
    if n_tables:
        from_the_model(n_tables)
    print("\n| what | promised | number | mean promise | true |\n|---|---|---|---|---|")
    if n_outbreaks:
        one, two = (outbreak_supports(n_outbreaks, number) for number in (1, 2))
        for name, pairs in {"one or two": one + two, "one": one, "two": two}.items():
            show(f"{name} introductions, best parent", pairs)
    if n_walks:
        for name, posterior in WALKS.items():
            edges, covered, shares = walk_answers(n_walks, posterior)
            show(f"`BayesianOutTree`, {name}, best parent", edges)
            cover = ", ".join(f"{what} {share:.2f}" for what, share in covered.items())
            print(f"90 % intervals cover {cover}; effective draws {np.median(shares):.2f}\n")


if __name__ == "__main__":
    main()

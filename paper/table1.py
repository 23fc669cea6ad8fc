"""Table 1 of the paper: test log-likelihoods of density estimators on four data sets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paper import density_page
from paper.density_folds import FOLDS, METHODS, SETS, SPREAD, evaluate
from paper.density_scores import collect
from paper.page import Page
from paper.units import Progress, Unit, cpu_seconds, run_units

SPREAD_FOLDS = 5  # of sets with values spread: all ten would not fit into half an hour


def run(
    out: Path,
    *,
    folds: int | None = None,
    n_jobs: int = 1,
    quick: bool = False,
    data: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write Table 1 and return its page.

    Parameters
    ----------
    out : path
        The page is ``out / "table1" / "table1.md"``.
    folds : int, optional
        The first so many of ten; all if not given (quick: two).
    n_jobs : int
    quick : bool
        40 records of each set, fewer candidates.
    data : ignored
    progress : function of (done, total, name), optional
    """
    n_folds = (2 if quick else FOLDS) if folds is None else min(folds, FOLDS)
    n_spread = 1 if quick else min(n_folds, SPREAD_FOLDS)
    spread = SPREAD[-1:] if quick else SPREAD
    units = [
        Unit("table1", dataset, method, number)
        for number in range(n_folds)  # a run that is interrupted has whole folds
        for dataset in (*SETS, *(spread if number < n_spread else ()))
        for method in METHODS
    ]
    folder = Path(out) / "table1"
    results = run_units(
        folder, units, evaluate, settings={"quick": quick}, n_jobs=n_jobs, progress=progress
    )
    found = dict(zip(units, results, strict=True))
    normalised = collect(found, SETS, n_folds, "normalised")
    ratios = collect(found, SETS, n_folds, "ratio")
    page = Page(out, "table1", "Table 1: density estimators, test log-likelihoods")
    density_page.introduce(page, n_folds, quick)
    density_page.tell_normalised(page, normalised)
    density_page.tell_spread(page, collect(found, spread, n_spread, "normalised"), n_spread)
    density_page.tell_ratios(page, ratios)
    density_page.tell_published(page, normalised, ratios)
    density_page.tell_costs(page, units, cpu_seconds(folder, units))
    page.heading("Raw numbers")
    page.text(
        "One row for each set, method and fold: seed, normalised score, the paper's score where "
        "the method has it, Monte-Carlo error where it is sampled, and what was chosen."
    )
    page.numbers(_raw(found))
    jobs = "" if n_jobs == 1 else f" --jobs {n_jobs}"
    some = "" if n_folds == FOLDS else f" --folds {n_folds}"
    return page.write(f"python -m paper table1{jobs}{some}{' --quick' if quick else ''}")


def _raw(found: Mapping[Unit, Mapping[str, Any]]) -> dict[str, list[Any]]:
    keys = ("score", "ratio score", "single score", "single ratio score", "monte_carlo_error")
    table: dict[str, list[Any]] = {"set": [], "method": [], "fold": [], "seed": [], "n_test": []}
    for unit, result in found.items():
        row = [unit.dataset, unit.method, unit.fold + 1, unit.seed, result["n_test"]]
        for column, value in zip(list(table)[:5], row, strict=True):
            table[column].append(value)
        for key in keys:
            table.setdefault(key.replace("_", " "), []).append(result.get(key))
        chosen = result["chosen"]
        table.setdefault("chosen", []).append(
            "; ".join(f"{name}: {value}" for name, value in chosen.items())
        )
    return table

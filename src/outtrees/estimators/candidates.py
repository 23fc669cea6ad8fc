"""Whether a fit looks at all pairs of records or at candidates, decided before it begins."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.utils._param_validation import Interval, StrOptions

from outtrees.trees.memory import free_memory

# T × T arrays at the peak of a dense fit: the weights, the engine's own, marginals, and those of
# the components of a mixture.
_ARRAYS = 16

CONSTRAINTS: dict[str, list[Any]] = {
    "candidates": [StrOptions({"dense", "knn", "auto"})],
    "n_candidates": [Interval(Integral, 1, None, closed="left")],
}


class CandidatesWarning(UserWarning):
    """A fit with candidates="auto" looks at the likeliest parents of each record only."""


def resolved(
    estimator: Any,
    n_records: int,
    *,
    can_be_sparse: bool = True,
    n_jobs: int | None = None,
    free: int | None = None,
) -> str:
    """Return "dense" or "knn" for an estimator's `candidates`, before anything is allocated.

    "auto" is dense where the arrays of a dense fit fit into the memory that is free (the machine's
    and the control group's), `n_jobs` fits at the same time; else it is knn, with a warning.

    Raises
    ------
    MemoryError
        If dense is asked for, or is the only way, and does not fit.
    """
    if estimator.candidates == "knn":
        return "knn"
    needed = 8 * _ARRAYS * n_records**2 * effective_n_jobs(n_jobs)
    free = free_memory() if free is None else free
    if free is None or needed <= free:
        return "dense"
    name = type(estimator).__name__
    sizes = (
        f"all pairs of {n_records:,} records need about {needed / 1e9:.1f} GB; "
        f"{free / 1e9:.1f} GB are free"
    )
    if estimator.candidates == "dense" or not can_be_sparse:
        remedy = (
            "Use candidates='knn', or fewer records."
            if can_be_sparse
            else "The options chosen here need all pairs; use fewer records or other options."
        )
        raise MemoryError(f"{name}: {sizes}. {remedy}")
    warnings.warn(
        f"{name}: {sizes}, so each record has its {estimator.n_candidates} likeliest parents as "
        "candidates (candidates='knn'); dropped_mass_ says what that leaves out",
        CandidatesWarning,
        stacklevel=3,
    )
    return "knn"

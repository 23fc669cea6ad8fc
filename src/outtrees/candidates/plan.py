"""Whether a fit looks at all pairs of records or at candidates, decided before it begins."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, NamedTuple

from joblib import effective_n_jobs
from sklearn.utils._param_validation import Interval, StrOptions

from outtrees._common.memory import free_memory
from outtrees.candidates.matrix_search import NEIGHBOURS, nn_descent
from outtrees.errors import Message, Option

# T × T arrays at the peak of a dense fit: the weights, the engine's own, marginals, and those of
# the components of a mixture.
_ARRAYS = 16
# Measured peaks of fits over candidates: edge-length arrays, elimination of neighbours in three
# dimensions included (one that needs more is refused when its fill is known), and other bytes.
_EDGE_ARRAYS, _RECORD_BYTES = 25, 1000

CONSTRAINTS: dict[str, list[Any]] = {
    "candidates": [StrOptions({"dense", "knn", "auto"})],
    "n_candidates": [Interval(Integral, 1, None, closed="left")],
    "neighbours": [StrOptions(set(NEIGHBOURS))],
}


class CandidatesWarning(UserWarning):
    """A fit with candidates="auto" looks at the likeliest parents of each record only."""


class Plan(NamedTuple):
    """Which pairs of records a fit looks at, and what that needs."""

    way: str  # "dense" or "knn"
    why: str  # one sentence if "auto" left pairs aside, else empty
    needed: int  # bytes
    free: int | None  # bytes, None where the system does not say
    remedy: str = ""  # one sentence, for a plan that does not fit

    @property
    def fits(self) -> bool:
        """Whether there is as much memory as it needs, as far as the system says."""
        return self.free is None or self.needed <= self.free


def planned(
    estimator: Any,
    n_records: int,
    *,
    can_be_sparse: bool = True,
    n_jobs: int | None = None,
    n_sampled: int = 0,
    edge_arrays: int = _EDGE_ARRAYS,
    free: int | None = None,
) -> Plan:
    """Return "dense" or "knn" for an estimator's `candidates`, before anything is allocated.

    "auto" is dense where the arrays of a dense fit fit into the memory that is free (the machine's
    and the control group's), `n_jobs` fits at the same time; else it is knn. Beside its candidates
    each record has `n_sampled` parents that stand for others; `edge_arrays` is the number of arrays
    of edge length at the peak.
    """
    free = free_memory() if free is None else free
    jobs = effective_n_jobs(n_jobs)
    dense = Plan(
        "dense",
        "",
        8 * _ARRAYS * n_records**2 * jobs,
        free,
        Message("Use ", Option("candidates", "knn"), ", or fewer records.")
        if can_be_sparse
        else Message("The options chosen here need all pairs; use fewer records or other options."),
    )
    only_way = estimator.candidates == "dense" or not can_be_sparse
    if estimator.candidates != "knn" and (only_way or dense.fits):
        return dense
    edges = n_records * (min(estimator.n_candidates, n_records) + n_sampled)
    needed = (8 * edge_arrays * edges + _RECORD_BYTES * n_records) * jobs
    remedy = Message("Use a smaller ", Option("n_candidates"), ", or fewer records.")
    if estimator.candidates == "knn":
        return Plan("knn", "", needed, free, remedy)
    why = Message(
        f"{type(estimator).__name__}: {_sizes(dense, n_records)}, so each record has its "
        f"{estimator.n_candidates} likeliest parents as candidates (",
        Option("candidates", "knn"),
        "); dropped_mass_ says what that leaves out",
    )
    return Plan("knn", why, needed, free, remedy)


def resolved(estimator: Any, n_records: int, **options: Any) -> str:
    """Return the way that is `planned`, with a warning where "auto" leaves pairs aside.

    Raises
    ------
    MemoryError
        If dense is asked for, or is the only way, and does not fit; or not even candidates do.
    """
    if estimator.neighbours == "approximate":
        nn_descent()  # refused now, not after the first steps of a fit
    plan = planned(estimator, n_records, **options)
    if not plan.fits:
        sizes = f"{type(estimator).__name__}: {_sizes(plan, n_records)}. "
        raise MemoryError(Message(sizes, plan.remedy))
    if plan.why:
        warnings.warn(plan.why, CandidatesWarning, stacklevel=3)
    return plan.way


def _sizes(plan: Plan, n_records: int) -> str:
    what = "all pairs" if plan.way == "dense" else "candidates"
    free = 0 if plan.free is None else plan.free
    return (
        f"{what} of {n_records:,} records need about {plan.needed / 1e9:.1f} GB; "
        f"{free / 1e9:.1f} GB are free"
    )

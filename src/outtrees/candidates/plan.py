"""The memory plan: which pairs a fit examines and what that needs, decided before it begins.

All estimates of memory stand here: the arrays that were counted at the peak of a fit, dense or
over candidates, of a matrix (`matrix_plan`) or of a table (`table_plan`). `Plan.check` refuses what
does not fit before anything is allocated.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from outtrees._common import memory
from outtrees._common.parameters import Interval, StrOptions
from outtrees.candidates.matrix_search import NEIGHBOURS, nn_descent
from outtrees.errors import Message, Option
from outtrees.records import Records

# (T, T) arrays at the peak of a dense fit. Of a matrix: the weights, the engine's own, marginals,
# and those of the components of a mixture. Of a table: the engine's arrays of a forest (5.5) and
# about a dozen arrays of all pairs.
_MATRIX_ARRAYS, _TABLE_ARRAYS = 16, 18
# Measured peaks of fits over candidates: arrays of edge length, elimination of neighbours in three
# dimensions included (one that needs more is refused when its fill is known), and other bytes for
# each record.
MATRIX_EDGE_ARRAYS, _MATRIX_RECORD_BYTES = 25, 1000
_TABLE_EDGE_ARRAYS, _TABLE_RECORD_BYTES = 45, 3000
# Records of which "auto" looks at all pairs: some minutes of one core. By number alone, so that
# every machine gives the same answer. In a table: of one group; dates exclude half of the pairs.
MOST_DENSE, MOST_DENSE_MATRIX = 4000, 1500
MUCH_DROPPED = 0.01  # probability of parents outside the candidates that is worth a warning

CONSTRAINTS: dict[str, list[Any]] = {
    "candidates": [StrOptions({"dense", "knn", "auto"})],
    "n_candidates": [Interval(Integral, 1, None, closed="left")],
    "neighbours": [StrOptions(set(NEIGHBOURS))],
}


class CandidatesWarning(UserWarning):
    """A fit with candidates="auto" examines the likeliest parents of each record only."""


class Plan(NamedTuple):
    """Which pairs of records a fit examines, and what that needs."""

    way: str  # "dense" or "knn"
    why: Message  # one sentence if "auto" excludes pairs, else empty
    needed: int  # bytes
    free: int | None  # bytes, None where the system does not say
    remedy: Message  # one sentence, for a plan that does not fit
    subject: str  # what needs the memory, as a message begins

    @property
    def fits(self) -> bool:
        """Whether there is as much memory as it needs, as far as the system says."""
        return self.free is None or self.needed <= self.free

    def check(self) -> None:
        """Raise MemoryError, with the remedy, unless the plan fits."""
        memory.check_memory(self.subject, self.needed, self.remedy, self.free)


def dense_bytes(
    sizes: Sequence[int],  # of the groups
    arrays: float,  # (n, n) arrays at the peak
) -> int:
    """Return the bytes of dense arrays over groups of records.

    Examples
    --------
    >>> dense_bytes([10, 20], 2)
    8000
    """
    return int(8 * arrays * sum(int(n) ** 2 for n in sizes))


def edge_bytes(n_edges: int, edge_arrays: int, n_records: int, record_bytes: int) -> int:
    """Return the bytes of a fit over a list of edges."""
    return 8 * edge_arrays * n_edges + record_bytes * n_records


# Of a matrix -------------------------------------------------------------------------------


def matrix_plan(
    estimator: Any,
    n_records: int,
    *,
    can_be_sparse: bool = True,
    n_jobs: int | None = None,
    n_sampled: int = 0,
    edge_arrays: int = MATRIX_EDGE_ARRAYS,
) -> Plan:
    """Return the plan of an estimator with `candidates` and `n_candidates`.

    "auto" is dense up to 1,500 records, and where `can_be_sparse` is false; `n_jobs` fits are made
    at the same time. Beside its candidates each record has `n_sampled` parents that
    stand for others; `edge_arrays` is the number of arrays of edge length at the peak.
    """
    from joblib import effective_n_jobs

    jobs = effective_n_jobs(n_jobs)
    k = estimator.n_candidates
    edges = n_records * (min(k, n_records) + n_sampled)
    remedies = {
        "dense": Message("Use ", Option("candidates", "knn"), ", or fewer records.")
        if can_be_sparse
        else Message("The options chosen here need all pairs; use fewer records or other options."),
        "knn": Message("Use a smaller ", Option("n_candidates"), ", or fewer records."),
    }
    return _planned(
        estimator.candidates if can_be_sparse or estimator.candidates == "knn" else "dense",
        n_records,
        k,
        dense_bytes([n_records], _MATRIX_ARRAYS) * jobs,
        edge_bytes(edges, edge_arrays, n_records, _MATRIX_RECORD_BYTES) * jobs,
        remedies,
        too_long=n_records > MOST_DENSE_MATRIX,
        subject=f"{type(estimator).__name__}: ",
    )


def matrix_way(estimator: Any, n_records: int, **options: Any) -> str:
    """Return "dense" or "knn" as `matrix_plan` has it; warn where "auto" excludes pairs.

    Raises
    ------
    MemoryError
        If dense is asked for, or is the only way, and does not fit; or not even candidates do.
    """
    if estimator.neighbours == "approximate":
        nn_descent()  # refused now, not after the first steps of a fit
    plan = matrix_plan(estimator, n_records, **options)
    plan.check()
    if plan.why:
        warnings.warn(plan.why, CandidatesWarning, stacklevel=5)
    return plan.way


def warn_of_dropped_mass(estimator: Any) -> None:
    """Warn if the parents outside the candidates hold more than 1 % of the probability."""
    mass = getattr(estimator, "dropped_mass_", None)
    if mass is not None and mass.mean > MUCH_DROPPED:
        warnings.warn(
            Message(
                f"{type(estimator).__name__}: parents outside the candidates hold "
                f"{mass.mean:.1%} of the probability; raise ",
                Option("n_candidates", estimator.n_candidates),
            ),
            CandidatesWarning,
            stacklevel=4,
        )


# Of a table --------------------------------------------------------------------------------


def table_plan(records: Records, candidates: str, n_candidates: int) -> Plan:
    """Return the plan of an `Ancestry` of these records.

    "auto" is dense where no group has more than 4,000 records.
    """
    needed, sparse = (table_bytes(records, way, n_candidates) for way in ("dense", "knn"))
    instead = {"dense": Option("candidates", "knn"), "knn": Option("n_candidates")}
    remedies = {
        way: Message(
            "Use " if way == "dense" else "Use a smaller ",
            option,
            ", fit groups of related records (kind 'group') or fewer records.",
        )
        for way, option in instead.items()
    }
    return _planned(
        candidates,
        len(records),
        n_candidates,
        needed,
        sparse,
        remedies,
        too_long=max(_group_sizes(records), default=0) > MOST_DENSE,
    )


def table_bytes(records: Records, way: str, n_candidates: int) -> int:
    """Return an estimate of the bytes that a fit of these records takes at its peak."""
    if way == "dense":
        return dense_bytes(_group_sizes(records), _TABLE_ARRAYS)
    cells = sum(column.values.size for column in records.columns)
    edges = len(records) * min(n_candidates, len(records))
    return edge_bytes(edges, _TABLE_EDGE_ARRAYS, len(records), _TABLE_RECORD_BYTES) + 24 * cells


def _group_sizes(records: Records) -> list[int]:
    if records.groups is None:
        return [len(records)]
    sizes: list[int] = np.unique(records.groups, return_counts=True)[1].tolist()
    return sizes


# Of both -----------------------------------------------------------------------------------


def _planned(
    asked: str,
    n_records: int,
    n_candidates: int,
    dense: int,  # bytes
    sparse: int,  # bytes
    remedies: dict[str, Message],
    *,
    too_long: bool = False,  # whether all pairs would take very long
    subject: str = "",
) -> Plan:
    free = memory.free_memory()
    way, why = asked, Message("")
    if asked == "auto":
        way = "knn" if too_long else "dense"
    if asked == "auto" and way == "knn":
        why = Message(
            f"{subject}All pairs of {n_records:,} records would take very long, so only the "
            f"{n_candidates} best candidate parents of each record take part (dropped_mass_ "
            "reports what that leaves out); ",
            Option("candidates", "dense"),
            " takes all.",
        )
    pairs = "all pairs" if way == "dense" else "candidates"
    needed = dense if way == "dense" else sparse
    text = f"{subject}{pairs} of {n_records:,} records need"
    return Plan(way, why, needed, free, remedies[way], text)

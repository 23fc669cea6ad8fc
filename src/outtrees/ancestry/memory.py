"""How much memory a fit needs, asked before anything is allocated; and what to do about it."""

from __future__ import annotations

import numpy as np

from outtrees._common.memory import free_memory
from outtrees.candidates.plan import Plan
from outtrees.records import Records

# Measured peaks: the engine's arrays of a forest (5.5) and about a dozen edge-length arrays.
_ARRAYS = 18
# Of a fit on candidates: edge-length arrays, and what a record takes besides its cells.
_CANDIDATE_ARRAYS, _RECORD_BYTES = 45, 3000
_MOST_DENSE = 4000  # records in a group; beyond, all pairs take hours rather than minutes


def needed_bytes(records: Records) -> int:
    """Return an estimate of the bytes that a dense fit of these records takes at its peak."""
    return 8 * _ARRAYS * int((_group_sizes(records) ** 2).sum())


def candidate_bytes(records: Records, n_candidates: int) -> int:
    """Return an estimate of the bytes that a fit on candidates takes at its peak."""
    cells = sum(column.values.size for column in records.columns)
    edges = len(records) * min(n_candidates, len(records))
    return 8 * _CANDIDATE_ARRAYS * edges + _RECORD_BYTES * len(records) + 24 * cells


def _group_sizes(records: Records) -> np.ndarray:
    if records.groups is None:
        return np.array([len(records)], dtype=np.int64)
    return np.unique(records.groups, return_counts=True)[1].astype(np.int64)


def planned(records: Records, candidates: str, n_candidates: int) -> Plan:
    """Return whether all pairs take part or the best candidates, and why."""
    needed, free = needed_bytes(records), free_memory()
    largest = int(_group_sizes(records).max(initial=0))
    fits = free is None or needed <= free
    way, why = candidates, ""
    if candidates == "auto":
        way = "dense" if fits and largest <= _MOST_DENSE else "knn"
        if way == "knn":
            what = "take very long"
            if not fits and free is not None:
                what = f"need about {needed / 1e9:.1f} GB of memory ({free / 1e9:.1f} GB are free)"
            why = (
                f"All pairs of {len(records):,} records would {what}, so only the {n_candidates} "
                "best candidate parents of each record take part; candidates='dense' insists on "
                "all."
            )
    if way == "knn":
        needed = candidate_bytes(records, n_candidates)
    return Plan(way, why, needed, free)


def checked_plan(records: Records, candidates: str, n_candidates: int) -> Plan:
    """Return the plan, or raise MemoryError if it does not fit, before anything is allocated."""
    plan = planned(records, candidates, n_candidates)
    if plan.free is not None and not plan.fits:
        remedy = "candidates='knn'" if plan.way == "dense" else "a smaller n_candidates"
        raise MemoryError(
            f"out-trees on {len(records):,} records need about {plan.needed / 1e9:.1f} GB; "
            f"{plan.free / 1e9:.1f} GB are free. Use {remedy}, fit groups of related records (kind "
            "'group') or fewer records."
        )
    return plan

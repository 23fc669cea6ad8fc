"""How much memory a fit needs, asked before anything is allocated."""

from __future__ import annotations

import numpy as np

from outtrees.records import Records
from outtrees.trees.memory import free_memory

# Measured peaks: the engine's arrays of a forest (5.5) and about a dozen edge-length arrays.
_ARRAYS = 18


def needed_bytes(records: Records) -> int:
    """Return an estimate of the bytes that a dense fit of these records takes at its peak."""
    T = len(records)
    if records.groups is None:
        pairs = T * T
    else:
        pairs = int((np.unique(records.groups, return_counts=True)[1].astype(np.int64) ** 2).sum())
    # The table of possible pairs is T × T bytes whatever the groups.
    return 8 * _ARRAYS * pairs + 2 * T * T


def refuse_too_large(records: Records) -> None:
    """Raise MemoryError if the fit would not fit, before anything large is allocated."""
    needed, free = needed_bytes(records), free_memory()
    if free is not None and needed > free:
        raise MemoryError(
            f"out-trees on {len(records):,} records need about {needed / 1e9:.1f} GB; "
            f"{free / 1e9:.1f} GB are free. Fit groups of related records (kind 'group') or fewer "
            "records."
        )

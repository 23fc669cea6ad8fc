"""Columns of a table: how each kind of cell changes from parent to child."""

from outtrees.mutations.columns.base import ColumnKernel
from outtrees.mutations.columns.counts import Counts
from outtrees.mutations.columns.drift import Drift
from outtrees.mutations.columns.grouped_drift import GroupedDrift
from outtrees.mutations.columns.lineage import Lineage, LineagePairs
from outtrees.mutations.columns.matrices import Distances, GivenWeights
from outtrees.mutations.columns.reversion import Reversion
from outtrees.mutations.columns.sticky import Sticky
from outtrees.mutations.columns.substitution import Substitution
from outtrees.mutations.columns.waiting import Waiting

__all__ = [
    "ColumnKernel",
    "Counts",
    "Distances",
    "Drift",
    "GivenWeights",
    "GroupedDrift",
    "Lineage",
    "LineagePairs",
    "Reversion",
    "Sticky",
    "Substitution",
    "Waiting",
]

"""Columns of a table: how each kind of cell changes from parent to child."""

from outtrees.models.columns.base import ColumnKernel
from outtrees.models.columns.contacts import Contacts
from outtrees.models.columns.counts import Counts
from outtrees.models.columns.drift import Drift
from outtrees.models.columns.grouped_drift import GroupedDrift
from outtrees.models.columns.lineage import EdgeWeights, Lineage, LineagePairs
from outtrees.models.columns.matrices import Distances, GivenWeights
from outtrees.models.columns.reversion import Reversion
from outtrees.models.columns.sticky import Sticky
from outtrees.models.columns.substitution import Substitution
from outtrees.models.columns.waiting import Waiting

__all__ = [
    "ColumnKernel",
    "Contacts",
    "Counts",
    "Distances",
    "Drift",
    "EdgeWeights",
    "GivenWeights",
    "GroupedDrift",
    "Lineage",
    "LineagePairs",
    "Reversion",
    "Sticky",
    "Substitution",
    "Waiting",
]

"""Columns of a table: how each kind of cell changes from parent to child."""

from outtrees.models.column import ColumnKernel
from outtrees.models.columns.background import LineagePairs
from outtrees.models.columns.contacts import Contacts
from outtrees.models.columns.earlier import EdgeWeights
from outtrees.models.columns.lineage import Lineage
from outtrees.models.columns.matrices import Distances, GivenWeights
from outtrees.models.columns.sticky import Spots, Sticky
from outtrees.models.columns.substitution import Substitution
from outtrees.models.columns.transmission import Transmission, TransmittedSequence
from outtrees.models.columns.waiting import Waiting
from outtrees.models.count import Counts
from outtrees.models.normal import Reversion
from outtrees.models.place import Drift, GroupedDrift

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
    "Spots",
    "Sticky",
    "Substitution",
    "Transmission",
    "TransmittedSequence",
    "Waiting",
]

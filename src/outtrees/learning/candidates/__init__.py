"""Which parents each record may have: constraints, windows of dates, and the best candidates."""

from outtrees.learning.candidates.choosing import choose
from outtrees.learning.candidates.edges import (
    Constraints,
    PossibleEdges,
    all_edges,
    constraints,
    possible_edges,
)
from outtrees.learning.candidates.windows import Windows, date_windows

__all__ = [
    "Constraints",
    "PossibleEdges",
    "Windows",
    "all_edges",
    "choose",
    "constraints",
    "date_windows",
    "possible_edges",
]

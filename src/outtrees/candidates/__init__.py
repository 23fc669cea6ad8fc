"""Which parents each record may have: constraints, windows of dates, and the best candidates."""

from outtrees.candidates.choosing import choose
from outtrees.candidates.edges import (
    Constraints,
    PossibleEdges,
    all_edges,
    constraints,
    possible_edges,
)
from outtrees.candidates.windows import Windows, date_windows

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

"""Who came from whom, and what follows from not knowing: exact sums over all out-trees."""

from outtrees.errors import InvalidWeightsError, NoSpanningTreeError, OutTreesError
from outtrees.trees import OutTreeDistribution

__version__ = "0.1.0"

__all__ = [
    "InvalidWeightsError",
    "NoSpanningTreeError",
    "OutTreeDistribution",
    "OutTreesError",
    "__version__",
]

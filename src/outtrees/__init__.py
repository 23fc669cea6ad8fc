"""Who came from whom, and what follows from not knowing: exact sums over all out-trees."""

from typing import TYPE_CHECKING, Any

from outtrees.errors import InvalidWeightsError, NoSpanningTreeError, OutTreesError
from outtrees.trees import OutTreeDistribution

if TYPE_CHECKING:
    from outtrees.estimators import OutTreeDensity

__version__ = "0.1.0"

__all__ = [
    "InvalidWeightsError",
    "NoSpanningTreeError",
    "OutTreeDensity",
    "OutTreeDistribution",
    "OutTreesError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    # Estimators bring scikit-learn, which brings pandas where it is installed: at first use.
    if name == "OutTreeDensity":
        from outtrees.estimators import OutTreeDensity

        return OutTreeDensity
    raise AttributeError(f"module 'outtrees' has no attribute {name!r}")

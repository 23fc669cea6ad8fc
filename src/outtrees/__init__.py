"""Who came from whom, and what follows from not knowing: exact sums over all out-trees."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from outtrees._common.moved import keep_old_names
from outtrees._common.progress import show_progress
from outtrees.errors import (
    ArgumentError,
    InvalidWeightsError,
    ModelFileError,
    NoSpanningTreeError,
    OutTreesError,
    RecordsError,
    RunFolderError,
)

if TYPE_CHECKING:
    from outtrees.ancestry import Ancestry
    from outtrees.ancestry.populations import fit_populations
    from outtrees.bayes import BayesianOutTree
    from outtrees.density import OutTreeDensity
    from outtrees.imputation.imputer import OutTreeImputer
    from outtrees.io import load, save
    from outtrees.labels.classifier import OutTreeClassifier
    from outtrees.records import Records, read_matrix, read_records
    from outtrees.trees import OutTreeDistribution

__version__ = "0.2.0.dev0"

__all__ = [
    "Ancestry",
    "ArgumentError",
    "BayesianOutTree",
    "InvalidWeightsError",
    "ModelFileError",
    "NoSpanningTreeError",
    "OutTreeClassifier",
    "OutTreeDensity",
    "OutTreeDistribution",
    "OutTreeImputer",
    "OutTreesError",
    "Records",
    "RecordsError",
    "RunFolderError",
    "__version__",
    "fit_populations",
    "load",
    "read_matrix",
    "read_records",
    "save",
    "show_progress",
]

# Loaded at first use: NumPy, SciPy and scikit-learn (which brings pandas where it is installed)
# take longer to import than `outtrees --help` may take.
_AT_FIRST_USE = {
    "Ancestry": "outtrees.ancestry",
    "BayesianOutTree": "outtrees.bayes",
    "OutTreeClassifier": "outtrees.labels.classifier",
    "OutTreeDensity": "outtrees.density",
    "OutTreeImputer": "outtrees.imputation.imputer",
    "OutTreeDistribution": "outtrees.trees",
    "Records": "outtrees.records",
    "fit_populations": "outtrees.ancestry.populations",
    "load": "outtrees.io",
    "read_matrix": "outtrees.records",
    "read_records": "outtrees.records",
    "save": "outtrees.io",
}
keep_old_names()


def __getattr__(name: str) -> Any:
    if name in _AT_FIRST_USE:
        return getattr(import_module(_AT_FIRST_USE[name]), name)
    raise AttributeError(f"module 'outtrees' has no attribute {name!r}")

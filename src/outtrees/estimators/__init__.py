"""The scikit-learn faces."""

from outtrees.estimators.density import OutTreeDensity

__all__ = ["OutTreeDensity"]

"""Densities of new records: `OutTreeDensity` and the learning that only it needs."""

from outtrees.density.estimator import OutTreeDensity

__all__ = ["OutTreeDensity"]

"""Who came from whom: the face for tables of records."""

from outtrees.ancestry.estimator import Ancestry

__all__ = ["Ancestry"]

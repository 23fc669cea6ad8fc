"""The old name of `outtrees.parallel`; it goes with version 0.3."""

from outtrees._common.moved import moved

__getattr__ = moved("outtrees.units", "outtrees.parallel")

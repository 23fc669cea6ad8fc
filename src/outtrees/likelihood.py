"""The old name of `outtrees.inference.likelihood`; it goes with version 0.3."""

from outtrees._common.moved import moved

__getattr__ = moved("outtrees.likelihood", "outtrees.inference.likelihood")

"""The old home of the estimators, which are in `outtrees`; it goes with version 0.3."""

from outtrees._common.moved import moved

__getattr__ = moved("outtrees.estimators", "outtrees")

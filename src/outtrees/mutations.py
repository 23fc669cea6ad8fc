"""The old name of `outtrees.models`; it goes with version 0.3."""

from outtrees._common.moved import moved

__getattr__ = moved("outtrees.mutations", "outtrees.models")

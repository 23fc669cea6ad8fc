"""The old name of `outtrees.io`; it goes with version 0.3."""

from outtrees._common.moved import moved

__getattr__ = moved("outtrees.views.exchange", "outtrees.io")

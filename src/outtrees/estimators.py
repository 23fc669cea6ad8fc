"""The old home of the estimators; import them from `outtrees`. It goes with version 0.3."""

from __future__ import annotations

from typing import Any
from warnings import warn

import outtrees

_NAMES = {"BayesianOutTree", "OutTreeClassifier", "OutTreeDensity", "OutTreeImputer"}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'outtrees.estimators' has no attribute {name!r}")
    warn(
        f"outtrees.estimators goes with version 0.3; write from outtrees import {name}.",
        FutureWarning,
        stacklevel=2,
    )
    return getattr(outtrees, name)

"""The old name of `outtrees.models`; it goes with version 0.3."""

from __future__ import annotations

from typing import Any
from warnings import warn

from outtrees import models


def __getattr__(name: str) -> Any:
    if name not in models.__all__:
        raise AttributeError(f"module 'outtrees.mutations' has no attribute {name!r}")
    warn(
        f"outtrees.mutations is called outtrees.models now; import {name} from there.",
        FutureWarning,
        stacklevel=2,
    )
    return getattr(models, name)

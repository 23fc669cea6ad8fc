"""Modules under their old names, for one version."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any
from warnings import warn

MOVED = {
    "outtrees.estimators": "outtrees",
    "outtrees.likelihood": "outtrees.inference.likelihood",
    "outtrees.mutations": "outtrees.models",
    "outtrees.units": "outtrees.parallel",
    "outtrees.views.exchange": "outtrees.io",
}


class _Moved(ModuleType):
    """Stands for a module that was renamed: it warns, and looks in the new one."""

    def __getattr__(self, name: str) -> Any:
        old, new = self.__name__, MOVED[self.__name__]
        if name.startswith("_") or not hasattr(import_module(new), name):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warn(
            f"{old} goes with version 0.3; write from {new} import {name}.",
            FutureWarning,
            stacklevel=2,
        )
        return getattr(import_module(new), name)


def keep_old_names() -> None:
    """Let `import` find the old names."""
    for old in MOVED:
        sys.modules.setdefault(old, _Moved(old))

"""Modules under their old names, for one version."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any
from warnings import warn


def moved(old: str, new: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that was renamed: it warns, and looks in the new one."""

    def find(name: str) -> Any:
        if name.startswith("_") or not hasattr(import_module(new), name):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warn(
            f"{old} goes with version 0.3; write from {new} import {name}.",
            FutureWarning,
            stacklevel=2,
        )
        return getattr(import_module(new), name)

    return find

"""One thread for linear algebra while a unit runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import OpenBLASController, threadpool_limits

_lock = threading.Lock()
_running = 0
_first: Any = None  # knows the limits before


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold the linear algebra of this process to one thread until the block ends.

    Units share the cores among themselves; and the last digit of a matrix product can depend on
    the number of threads, which must not depend on where a unit runs. Some libraries have one limit
    for the process: with units in several of its threads, the first sets it and the last lifts it.
    Others have one for each thread, so every unit sets it.
    """
    global _running, _first
    with _lock:
        _take_control()
        mine = threadpool_limits(1)
        if _running == 0:
            _first = mine
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            _take_control()
            if _running == 0:
                _first.restore_original_limits()
                _first = None
            elif mine is not _first:
                mine.restore_original_limits()
            _take_control()


def _take_control() -> None:
    """Let this thread set limits: since 3.8 threadpoolctl listens to one thread of a process."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)

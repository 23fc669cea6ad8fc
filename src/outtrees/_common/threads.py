"""Work that several threads share: passes over large arrays, and compiled loops.

NumPy's element-wise functions and compiled code let other threads run meanwhile. Threads are kept
from one call to the next: starting one takes as long as a pass over half a million numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any

from numpy.typing import NDArray

_IN_CACHE = 65536  # numbers, half a megabyte: they stay in cache between the steps of a pass
_WORTH_THREADS = 8 * _IN_CACHE  # numbers; fewer are done before another core has begun


def in_threads(work: Callable[[int], object], count: int) -> None:
    """Call work(0), …, work(count − 1) side by side, the first in the thread that asks.

    As many at a time as there are cores, whatever the count.
    """
    others = [_pool(os.getpid()).submit(work, i) for i in range(1, count)]
    try:
        if count > 0:
            work(0)
    finally:
        wait(others)  # none may write into the caller's arrays later
    for other in others:
        other.result()


def over_rows(matrix: NDArray[Any], work: Callable[[slice], object]) -> None:
    """Call ``work`` on stretches of the rows of a matrix.

    Threads are as many as the linear algebra may use, so that one limit holds for both.
    """
    n = len(matrix)
    if matrix.size <= _IN_CACHE:
        work(slice(0, n))
        return
    height = max(1, _IN_CACHE * n // matrix.size)
    stretches = [slice(lo, min(lo + height, n)) for lo in range(0, n, height)]
    count = min(blas_threads(), len(stretches)) if matrix.size > _WORTH_THREADS else 1

    def some(first: int) -> None:
        for rows in stretches[first::count]:
            work(rows)

    in_threads(some, count)


def blas_threads() -> int:
    """Return how many threads NumPy's matrix products use; 1 where that cannot be known."""
    return min((library.num_threads for library in _blas()), default=1)


@cache
def _blas() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    libraries = ThreadpoolController().lib_controllers
    return [library for library in libraries if library.user_api == "blas"]


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return this process's threads: those of its parent are not there after a fork."""
    return ThreadPoolExecutor(os.cpu_count(), "outtrees")

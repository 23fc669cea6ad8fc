"""Work that several threads share: passes over large arrays, matrix products, compiled loops.

NumPy's functions and compiled code let other threads run meanwhile. Threads are kept from one call
to the next: starting one takes as long as a pass over half a million numbers.

The linear algebra's own threads are not used where products are many and small. They wait for each
other by spinning: with another program beside them, a sum over trees of 1,000 records
took sixty times as long with two of them as with one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_IN_CACHE = 65536  # numbers, half a megabyte: they stay in cache between the steps of a pass
_WORTH_THREADS = 8 * _IN_CACHE  # numbers; fewer are done before another core has begun
_WORTH_SHARING = 2_000_000  # multiplications of matrix products; likewise


def in_threads(work: Callable[[int], object], count: int) -> None:
    """Call work(0), …, work(count − 1) side by side, the first in the thread that asks.

    What no other thread has begun when the first is done, is done here too: on a busy machine
    nobody waits for a thread that waits for a core. An error is raised when all have ended.
    """
    left = list(range(count - 1, 0, -1))
    errors: SimpleQueue[BaseException | None] = SimpleQueue()

    def take_one() -> None:
        try:
            i = left.pop()
        except IndexError:
            return
        error = None
        try:
            work(i)
        except BaseException as raised:
            error = raised
        errors.put(error)

    _ask_others(take_one, count - 1)
    try:
        if count > 0:
            work(0)
    finally:
        for _ in range(1, count):
            take_one()
        raised = [errors.get() for _ in range(1, count)]  # none may write into arrays later
    for error in raised:
        if error is not None:
            raise error


def side_by_side(
    threads: int, work: int, first: Callable[[int], object], second: Callable[[int], object]
) -> None:
    """Call both with the number of threads each may use; ``work`` is as in `Product`.

    The second may wait for the first, not the first for the second.
    """
    if threads == 1 or work < _WORTH_SHARING:
        first(1)
        second(1)
        return
    half = threads // 2
    in_threads(lambda i: second(half) if i else first(threads - half), 2)


@cache
def _jobs(process: int) -> tuple[SimpleQueue[Callable[[], object]], list[threading.Thread]]:
    """Return what this process's threads are asked to do, and the threads.

    Those of its parent are not there after a fork.
    """
    return SimpleQueue(), []


def _ask_others(job: Callable[[], object], times: int) -> None:
    """Have a job called so often by threads that wait for one, as many as there are cores."""
    jobs, threads = _jobs(os.getpid())

    def serve() -> None:
        while True:
            jobs.get()()

    for _ in range(min(times, (os.cpu_count() or 1) - 1) - len(threads)):
        threads.append(threading.Thread(target=serve, name="outtrees", daemon=True))
        threads[-1].start()
    for _ in range(times):
        jobs.put(job)


def over_rows(matrix: NDArray[Any], work: Callable[[slice], object]) -> None:
    """Call ``work`` on stretches of the rows of a matrix."""
    n = len(matrix)
    if matrix.size <= _IN_CACHE:
        work(slice(0, n))
        return
    height = max(1, _IN_CACHE * n // matrix.size)
    stretches = [slice(lo, min(lo + height, n)) for lo in range(0, n, height)]
    count = min(allowed_threads(), len(stretches)) if matrix.size > _WORTH_THREADS else 1

    def some(first: int) -> None:
        for rows in stretches[first::count]:
            work(rows)

    in_threads(some, count)


class Product(NamedTuple):
    """left @ right, to be written to `out`, or added to it."""

    left: Floats
    right: Floats
    out: Floats
    added: bool = False

    def work_out(self) -> None:
        """Write or add the product."""
        if self.added:
            np.add(self.out, self.left @ self.right, out=self.out)
        else:
            np.matmul(self.left, self.right, out=self.out)

    @property
    def work(self) -> int:
        """Return the number of multiplications."""
        return int(self.left.size * self.right.shape[1])

    def cut(self, share: float) -> tuple[Product, Product]:
        """Return the first ``share`` of the product, and the rest, along its longer side."""
        rows, columns = self.out.shape
        if rows >= columns:
            at = round(share * rows)
            first = self._replace(left=self.left[:at], out=self.out[:at])
            return first, self._replace(left=self.left[at:], out=self.out[at:])
        at = round(share * columns)
        first = self._replace(right=self.right[:, :at], out=self.out[:, :at])
        return first, self._replace(right=self.right[:, at:], out=self.out[:, at:])


def multiply(threads: int, *products: Product) -> None:
    """Work out products that do not need each other, side by side."""
    work = sum(product.work for product in products)
    if threads == 1 or work < _WORTH_SHARING:
        for product in products:
            product.work_out()
        return
    shares = _shares(products, threads)
    in_threads(lambda i: [product.work_out() for product in shares[i]], threads)


def _shares(products: Sequence[Product], count: int) -> list[list[Product]]:
    """Return products in so many shares of equal work; the fewest of them are cut."""
    work = sum(product.work for product in products)
    shares: list[list[Product]] = [[]]
    room = work / count
    for product in products:
        rest = product
        while len(shares) < count and rest.work > room:
            if room > 0:
                first, rest = rest.cut(room / rest.work)
                shares[-1].append(first)
            shares.append([])
            room = work / count
        shares[-1].append(rest)
        room -= rest.work
    return shares + [[] for _ in range(count - len(shares))]


# Threads of the linear algebra ------------------------------------------------------------------


_here = threading.local()  # .threads: how many this thread may use, inside the blocks below
_lock = threading.Lock()
_holders: dict[str, int] = {}  # blocks that hold a library to one thread
_before: dict[str, int] = {}  # its threads before the first of them


def allowed_threads() -> int:
    """Return how many threads may be used here: as many as the linear algebra may use.

    So one limit holds for both. 1 where that cannot be known.
    """
    held: int | None = getattr(_here, "threads", None)
    return min((library.num_threads for library in _blas()), default=1) if held is None else held


@contextmanager
def one_thread() -> Iterator[None]:
    """Let this thread alone work, and every library of this process in one thread.

    Units of work share the cores among themselves; and the last digit of a matrix product can
    depend on the number of threads, which must not depend on where a unit runs.
    """
    from threadpoolctl import ThreadpoolController

    with _held(ThreadpoolController().lib_controllers, 1):
        yield


@contextmanager
def own_threads() -> Iterator[int]:
    """Hold the linear algebra to one thread; yield how many we may use, for `multiply`.

    A library that has its threads from OpenMP keeps them: they wait without turning, and every one
    of ours would bring its own.
    """
    held: int | None = getattr(_here, "threads", None)
    if held is not None:
        yield held
        return
    libraries = [library for library in _blas() if not _is_each_thread_s(library)]
    threads = min((library.num_threads for library in libraries), default=1)
    with _held(libraries, threads):
        yield threads


@cache
def _blas() -> list[Any]:
    import scipy.linalg  # noqa: F401 (its library is another one than NumPy's)
    from threadpoolctl import ThreadpoolController

    libraries = ThreadpoolController().lib_controllers
    return [library for library in libraries if library.user_api == "blas"]


@contextmanager
def _held(libraries: Sequence[Any], allowed: int) -> Iterator[None]:
    """Hold libraries to one thread; meanwhile this thread may use as many as are allowed.

    Most have one limit for the process: the first of several blocks sets it, and the last lifts it.
    Others have one for each thread, so every block sets and lifts it.
    """
    outer = getattr(_here, "threads", None)
    with _lock:
        threads = [library.num_threads for library in libraries]
        for library, n in zip(libraries, threads, strict=True):
            path = library.filepath
            if not _holders.get(path):
                _before[path] = n
            _holders[path] = _holders.get(path, 0) + 1
            _limit(library, 1)
    try:
        _here.threads = allowed
        yield
    finally:
        _here.threads = outer
        with _lock:
            for library, n in zip(libraries, threads, strict=True):
                path = library.filepath
                _holders[path] -= 1
                if _is_each_thread_s(library):
                    _limit(library, n)
                elif not _holders[path]:
                    _limit(library, _before[path])


def _is_each_thread_s(library: Any) -> bool:
    """Return whether the limit of a library is one of each thread, not of the process."""
    return "openmp" in (library.user_api, getattr(library, "threading_layer", ""))


def _limit(library: Any, threads: int) -> None:
    if library.num_threads == threads:
        return
    # Since 3.8 threadpoolctl listens to one thread of a process: to this one.
    release = getattr(type(library), "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(threads)
    if release is not None:
        release(force=True)

"""What is under way: a line on stderr now and then for whoever waits."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
QUIET = "OUTTREES_QUIET"  # set in the environment: no line is printed
_AT_ONCE, _ELSEWHERE = 5.0, 20.0  # seconds until the first line: where someone looks, and elsewhere
_LONGEST_GAP = 60.0  # seconds between two lines


class _Watch:
    """Prints how long something takes and what it does: after 5, 10, 20, 40, 80, 140, … seconds.

    Or every 5 seconds, if it is `steady`.
    """

    def __init__(self, what: str, first: float, steady: bool) -> None:
        self.note = ""
        self._what, self._first, self._steady = what, first, steady
        self._begin = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        gap = self._first
        while not self._over.wait(gap):
            passed = time.monotonic() - self._begin
            said = f", {self.note}" if self.note else ""
            print(f"{self._what}: {passed:.0f} s{said}", file=sys.stderr, flush=True)
            gap = self._first if self._steady else min(passed, _LONGEST_GAP)

    def end(self) -> None:
        self._over.set()


_watch: _Watch | None = None
_silenced = 0


@contextmanager
def under_way(what: str, *, steady: bool = False) -> Iterator[None]:
    """Print now and then how long the block has taken; of nested blocks the outermost prints.

    Nothing is printed in the first five seconds (20 where stderr is neither a terminal nor that of
    a notebook, unless `steady`), by workers of other processes, where `silenced`, or if
    OUTTREES_QUIET is set. A steady one prints every five seconds.
    """
    global _watch
    worker = multiprocessing.current_process().name != "MainProcess"
    if _watch is not None or _silenced or worker or os.environ.get(QUIET):
        yield
        return
    first = _AT_ONCE if steady or _is_looked_at() else _ELSEWHERE
    _watch = _Watch(what, first, steady)
    try:
        yield
    finally:
        _watch.end()
        _watch = None


def takes_long(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], R]:
    """Make a method of an estimator print how long it takes, and work with threads of its own.

    Fits have thousands of small matrix products, in which the linear algebra's threads lose time.

    It adds a frame between a method and its caller: `stacklevel` of warnings counts it.
    """

    @wraps(method)
    def watched(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        from outtrees._common.threads import own_threads

        with under_way(type(self).__name__), own_threads():
            return method(self, *args, **kwargs)

    return cast("Callable[Concatenate[S, P], R]", watched)


def note(text: str) -> None:
    """Say what is being done, for the next line."""
    if _watch is not None:
        _watch.note = text


@contextmanager
def silenced() -> Iterator[None]:
    """Print no lines inside: something else shows progress."""
    global _silenced
    _silenced += 1
    try:
        yield
    finally:
        _silenced -= 1


def show_progress(on: bool = True) -> None:
    """Switch the lines of progress of long fits on or off, for this process and its children.

    Parameters
    ----------
    on : bool
        Whether fits that take more than five seconds print a line on stderr now and then.

    Examples
    --------
    >>> show_progress(False)
    >>> show_progress()
    """
    if on:
        os.environ.pop(QUIET, None)
    else:
        os.environ[QUIET] = "1"


def _is_looked_at() -> bool:
    """Return whether stderr is that of a terminal or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules

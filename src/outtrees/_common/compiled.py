"""The decorators of compiled functions, and one line for whoever waits for the compiler.

Only modules of compiled functions import this, and they are imported at first use, since numba
takes about half a second to load.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from typing import Any

import numba
from numba.core import event

# nogil: trees are sampled in threads; numpy: dividing by zero gives inf or nan, as everywhere else.
# A function that C could call is never asked for; compiling it would take a tenth of the time.
_HOW: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
_njit: Any = numba.njit  # its stubs do not know all options
compiled: Any = _njit(**_HOW)
# Called by other compiled functions only: one that Python could call is not made either.
helper: Any = _njit(**_HOW, no_cpython_wrapper=True)
inlined: Any = _njit(**_HOW, inline="always")

QUIET = "OUTTREES_COMPILE_QUIETLY"  # set in the environment: no line is printed


class Uncollected(event.Listener):
    """Keeps the garbage collector from running while the compiler does.

    The compiler makes a great many objects that live until it is done; looking through them for
    garbage again and again takes an eighth of its time.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._was_enabled = False

    def on_start(self, event: Any) -> None:
        """Pause the collector, if this is the outermost function."""
        self._depth += 1
        if self._depth == 1:
            self._was_enabled = gc.isenabled()
            gc.disable()

    def on_end(self, event: Any) -> None:
        """Let it go on."""
        self._depth -= 1
        if self._depth == 0 and self._was_enabled:
            gc.enable()


class Notice(event.Listener):
    """Prints one line on stderr once this library's functions have been compiling for a while.

    Functions that are in the cache are not compiled, so they never count. numba sends its events
    under its own lock: one at a time, those of functions called from others in between.
    """

    def __init__(self, patience: float = 2.0) -> None:
        self._patience = patience  # seconds
        self._spent = 0.0
        self._depth = 0
        self._said = False
        self._since = 0.0
        self._timer = threading.Timer(0.0, self._say)

    def on_start(self, event: Any) -> None:
        """Start waiting, if this is the outermost function."""
        self._depth += 1
        function = event.data["dispatcher"].py_func
        if self._depth > 1 or self._said or not function.__module__.startswith("outtrees."):
            return
        self._since = time.perf_counter()
        subject = _subject(function.__module__)
        left = self._patience - self._spent
        if left <= 0.0:
            self._say(subject)
            return
        # A timer speaks while the compiler is at work; afterwards nobody needs the line.
        self._timer = threading.Timer(left, self._say, [subject])
        self._timer.daemon = True
        self._timer.start()

    def on_end(self, event: Any) -> None:
        """Stop waiting."""
        self._depth -= 1
        if self._depth == 0 and self._since:
            self._timer.cancel()
            self._spent += time.perf_counter() - self._since
            self._since = 0.0

    def _say(self, subject: str) -> None:
        self._said = True
        if QUIET not in os.environ:
            print(f"outtrees: compiling {subject} (once; cached for next time)…", file=sys.stderr)


def _subject(module: str) -> str:
    """Return what a module of compiled functions is called in a sentence.

    Examples
    --------
    >>> _subject("outtrees.trees.sampling_kernels")
    'sampling kernels'
    """
    return module.rpartition(".")[2].replace("_", " ")


for listener in (Uncollected(), Notice()):
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]  # numba has no type

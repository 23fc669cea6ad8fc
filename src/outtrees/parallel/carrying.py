"""A unit on its way: what is sent, what is done where it arrives, what comes back."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from joblib import parallel_config

from outtrees.errors import message_of
from outtrees.parallel.seeds import unit_seed
from outtrees.parallel.threads import one_thread

# function(unit, data, seed) → result
Work = Callable[[Any, Any, np.random.SeedSequence], Any]

_LONGEST_REASON = 500


class Outcome(NamedTuple):
    """What became of a unit."""

    name: str
    result: Any  # None if it failed
    failure: str = ""  # the reason in one line, empty if it did not fail


class Shared(NamedTuple):
    """What all units share, packed, under a name of its own.

    Packed, because a worker opens it where it works: opened on arrival, what it imports would keep
    the worker from answering its scheduler. A name of its own, because Dask would give the same
    data the same name again, and wait in vain for what is lost under it.
    """

    packed: bytes
    token: str


def run_one(name: str, packed: bytes, shared: Any, seed: int, as_json: bool) -> Outcome:
    """Return what became of a unit; called where it runs."""
    try:
        function, data = _opened(shared) if isinstance(shared, Shared) else shared
        # What a unit calls stays within it: one unit, one core.
        with one_thread(), parallel_config(backend="sequential"):
            result = function(pickle.loads(packed), data, unit_seed(seed, name))
            if as_json:
                result = json.dumps(result, allow_nan=False, separators=(",", ":")).encode()
    except Exception as error:
        return Outcome(name, None, reason_of(error))
    return Outcome(name, result)


@lru_cache(maxsize=1)
def _opened(shared: Shared) -> tuple[Work, Any]:
    """Return function and data; a worker opens them once."""
    function, data = pickle.loads(shared.packed)
    return function, data


def reason_of(error: Exception) -> str:
    """Return an error in one line; those raised on purpose speak for themselves."""
    text: str = message_of(error)
    if not isinstance(error, (ValueError, MemoryError, OSError)) or not text:
        text = f"{type(error).__name__}: {text}".rstrip(": ")
    return one_line(text)


def one_line(text: str) -> str:
    """Return a text without line ends, cut if it is long."""
    line = " ".join(text.split())
    if len(line) > _LONGEST_REASON:
        return line[: _LONGEST_REASON - 1] + "…"
    return text if line == text else line  # a message keeps the options it is made of

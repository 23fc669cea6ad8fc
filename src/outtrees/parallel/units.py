"""Units of work run wherever joblib sends them, their results returned or kept as they come."""

from __future__ import annotations

import hashlib
import json
import pickle
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config

from outtrees._common.threads import one_thread
from outtrees.errors import message_of

# function(unit, data, seed) → result
Work = Callable[[Any, Any, np.random.SeedSequence], Any]

Progress = Callable[[int, int], None]

_LONGEST_REASON = 500
_DIED = "its worker process died, perhaps because the memory was used up"


class Store(Protocol):
    """Where results go: a `RunFolder`, or anything else that can be asked and written to."""

    seed: int

    def has(self, name: str) -> bool:
        """Return whether a unit is finished."""

    def write(self, name: str, result: bytes) -> None:
        """Keep the result of a unit, JSON as bytes."""


class Outcome(NamedTuple):
    """What became of a unit."""

    name: str
    result: Any  # None if it failed
    failure: str = ""  # the reason in one line, empty if it did not fail


def run_units(
    function: Work,
    units: Mapping[str, Any],
    *,
    data: Any = None,
    seed: int | None = None,
    n_jobs: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Outcome]:
    """Return what became of each unit, in the order given: function(unit, data, seed).

    The same results come back from every backend, in any order of running: each unit has a seed of
    its own (`unit_seed`), runs with one thread for linear algebra, and nothing it calls spreads
    further. A unit that fails is reported and takes no other with it.

    Parameters
    ----------
    function : callable
        Importable wherever units run. Its third argument is a `numpy.random.SeedSequence`.
    units : mapping of str to anything picklable
        Asked for one by one, when it is about to be sent.
    data : anything picklable
        What all units share; a Dask scheduler gets it once, a copy for each worker.
    seed : int, optional
    n_jobs : int, optional
        Units at the same time, as in joblib. By default what `joblib.parallel_config` says, and
        else one; on a scheduler, two for each core of its workers, one running and one waiting.
    scheduler : str, optional
        The address of a Dask scheduler, such as "tcp://host:8786".
    progress : callable, optional
        Called as progress(finished, total).

    Examples
    --------
    >>> def total(unit, data, seed):
    ...     return data * sum(unit)
    >>> done = run_units(total, {"a": [1, 2], "b": [3], "c": ["x"]}, data=10)
    >>> done["a"].result, done["b"].result, done["c"].failure
    (30, 30, "TypeError: unsupported operand type(s) for +: 'int' and 'str'")
    """
    seed = fresh_seed() if seed is None else seed
    found: dict[str, Outcome] = {}
    names = list(units)
    with closing(
        _outcomes(function, units, names, data, seed, n_jobs, scheduler, as_json=False)
    ) as coming:
        for outcome in coming:
            found[outcome.name] = outcome
            if progress is not None:
                progress(len(found), len(names))
    return {name: found[name] for name in names}


def run_units_into(
    folder: Store,
    function: Work,
    units: Mapping[str, Any],
    *,
    data: Any = None,
    n_jobs: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> dict[str, str]:
    """Write each unit's result to the folder as it comes; return the failures, name → reason.

    Units that the folder has already are not run again, so that an interrupted run goes on where
    it stopped; those that failed are. Results are data that JSON knows, made into text where the
    unit ran; nothing accumulates here. See `run_units` for the rest.
    """
    names = list(units)
    waiting = [name for name in names if not folder.has(name)]
    finished, failures = len(names) - len(waiting), {}
    if progress is not None:
        progress(finished, len(names))
    with closing(
        _outcomes(function, units, waiting, data, folder.seed, n_jobs, scheduler, as_json=True)
    ) as coming:
        for outcome in coming:
            if outcome.failure:
                failures[outcome.name] = outcome.failure
            else:
                folder.write(outcome.name, outcome.result)
            finished += 1
            if progress is not None:
                progress(finished, len(names))
    return {name: failures[name] for name in names if name in failures}


def _outcomes(
    function: Work,
    units: Mapping[str, Any],
    names: Sequence[str],
    data: Any,
    seed: int,
    n_jobs: int | None,
    scheduler: str | None,
    *,
    as_json: bool,
) -> Generator[Outcome, None, None]:
    """Yield what became of each unit, as it comes."""
    if not names:
        return

    def task(name: str, shared: Any = (function, data)) -> Any:
        # Bytes: Dask sends them with the task and keeps them until it is done, whereas other
        # objects would be put on one worker, and be gone with it.
        try:
            packed = pickle.dumps(units[name], protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            return delayed(Outcome)(name, None, reason_of(error))
        return delayed(run_one)(name, packed, shared, seed, as_json)

    if scheduler is None:
        yield from _here(task, names, n_jobs)
        return
    from outtrees.parallel.scheduler import connected, on_dask

    with connected(scheduler) as client:
        import cloudpickle  # comes with Dask

        yield from on_dask(task, names, n_jobs, client, cloudpickle.dumps((function, data)))


# On this machine --------------------------------------------------------------------------------


def _here(
    task: Callable[[str], Any], names: Sequence[str], n_jobs: int | None
) -> Iterator[Outcome]:
    """Yield outcomes from the backend that joblib is set to."""
    waiting = list(names)
    while waiting:
        sent: list[str] = []
        done: set[str] = set()
        try:
            for outcome in _streamed(_noted(task, waiting, sent), n_jobs):
                done.add(outcome.name)
                yield outcome
        except Exception:  # not of a unit, whose own are in its outcome
            # A worker process that dies breaks all that are under way; which of them was the
            # cause shows when each is run with nothing beside it.
            suspects = [name for name in sent if name not in done]
            if not suspects:
                raise
            for name in suspects:
                yield _alone(task(name), name, n_jobs)
                done.add(name)
        waiting = [name for name in waiting if name not in done]


def _streamed(tasks: Iterator[Any], n_jobs: int | None) -> Iterator[Outcome]:
    """Yield results as they come; a handful at a time from backends that only return lists."""
    options = {"n_jobs": n_jobs, "batch_size": 1}
    try:
        parallel = Parallel(**options, return_as="generator_unordered")
    except ValueError:  # multiprocessing, Ray
        parallel = Parallel(**options)
        while batch := list(islice(tasks, 4 * effective_n_jobs(n_jobs))):
            yield from parallel(batch)
    else:
        yield from parallel(tasks)


def _alone(task: Any, name: str, n_jobs: int | None) -> Outcome:
    try:
        outcome: Outcome
        (outcome,) = Parallel(n_jobs=n_jobs, batch_size=1)([task])
    except Exception as error:
        died = "Terminated" in type(error).__name__ or "Broken" in type(error).__name__
        return Outcome(name, None, _DIED if died else reason_of(error))
    return outcome


def _noted(task: Callable[[str], Any], names: Sequence[str], sent: list[str]) -> Iterator[Any]:
    """Yield the tasks, noting which were asked for."""
    for name in names:
        sent.append(name)
        yield task(name)


# Where a unit runs ------------------------------------------------------------------------------


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


# Seeds ------------------------------------------------------------------------------------------


def fresh_seed() -> int:
    """Return a seed from the operating system's randomness."""
    return secrets.randbits(128)


def unit_seed(seed: int, name: str) -> np.random.SeedSequence:
    """Return the child of a seed that belongs to the unit of this name.

    NumPy's own `SeedSequence.spawn` counts children; here the spawn key is a digest of the name
    instead, so that a unit draws the same numbers whichever other units there are, in whichever
    order and wherever they run.

    Examples
    --------
    >>> a, b = unit_seed(7, "north"), unit_seed(7, "south")
    >>> bool((a.generate_state(4) == b.generate_state(4)).any())
    False
    >>> bool((a.generate_state(4) == unit_seed(7, "north").generate_state(4)).all())
    True
    """
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    key = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
    return np.random.SeedSequence(seed, spawn_key=key)

"""Tasks through joblib, results as they come; what was lost on the way is tried again."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from joblib import (
    Parallel,
    effective_n_jobs,
    parallel_config,
)

from outtrees.parallel.carrying import Outcome, Shared, one_line, reason_of

_IDLE_ROUNDS = 3  # in which everything gets lost, before it is given up
_DIED = "its worker process died, perhaps because the memory was used up"


def here(task: Callable[[str], Any], names: Sequence[str], n_jobs: int | None) -> Iterator[Outcome]:
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
        (outcome,) = Parallel(n_jobs=n_jobs, batch_size=1)([task])
    except Exception as error:
        died = "Terminated" in type(error).__name__ or "Broken" in type(error).__name__
        return Outcome(name, None, _DIED if died else reason_of(error))
    return outcome


def on_dask(
    task: Callable[..., Any], names: Sequence[str], n_jobs: int | None, client: Any, packed: bytes
) -> Iterator[Outcome]:
    """Yield outcomes from the workers of a Dask scheduler."""
    from outtrees.parallel.scheduler import Lost

    waiting, suspects, idle = list(names), [], 0
    while waiting or suspects:
        # A worker takes down all that it holds, running or waiting. Those over which too many
        # workers died are tried once more at the end, one at a time: then it is their own doing.
        last = not waiting
        done: set[str] = set()
        lost = ""
        for outcome in _one_round(task, waiting or suspects, 1 if last else n_jobs, client, packed):
            if isinstance(outcome, Lost):
                name = outcome.tasks[0][1][0]
                if outcome.fate == "cancelled":
                    lost = outcome.reason
                    continue
                done.add(name)
                if outcome.fate == "killed" and not last:
                    suspects.append(name)
                    continue
                outcome = Outcome(name, None, one_line(outcome.reason))
            done.add(outcome.name)
            yield outcome
        if last:
            suspects = [name for name in suspects if name not in done]
        waiting = [name for name in waiting if name not in done]
        idle = 0 if done else idle + 1
        if idle == _IDLE_ROUNDS:
            lost = one_line(f"its data were lost {idle} times on the way: {lost}")
            yield from (Outcome(name, None, lost) for name in (*waiting, *suspects))
            return


def _one_round(
    task: Callable[..., Any], names: Sequence[str], n_jobs: int | None, client: Any, packed: bytes
) -> Iterator[Any]:
    """Yield what comes back of tasks that are each sent once."""
    import dask

    from outtrees.parallel.scheduler import GONE, UnitsBackend

    if client.status != "running":
        raise ConnectionError(GONE)
    # The shared data go to every worker, so that they outlive all but the last.
    shared = Shared(packed, secrets.token_hex(8))
    backend = UnitsBackend(client=client, scatter=[shared])
    with parallel_config(backend=backend):
        parallel = Parallel(
            n_jobs=-1,
            batch_size=1,
            pre_dispatch="2 * n_jobs" if n_jobs is None else n_jobs,
            return_as="generator_unordered",
        )
    # A large unit is no mistake, of which Dask would warn.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"}):
        yield from parallel(task(name, shared) for name in names)


def _noted(task: Callable[[str], Any], names: Sequence[str], sent: list[str]) -> Iterator[Any]:
    """Yield the tasks, noting which were asked for."""
    for name in names:
        sent.append(name)
        yield task(name)

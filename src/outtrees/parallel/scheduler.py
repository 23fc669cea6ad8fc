"""Units on the workers of a Dask scheduler, and what happens when workers die."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from joblib import Parallel, parallel_config
from joblib._dask import DaskDistributedBackend

from outtrees.errors import MissingExtraError
from outtrees.parallel.units import Outcome, Shared, one_line

_CONNECT_SECONDS = 10
_WORKERS_SECONDS = 30
_WATCH_SECONDS = 0.5
_IDLE_ROUNDS = 3  # in which everything gets lost, before it is given up
GONE = (
    "the Dask scheduler is gone; start it again and repeat the run: units that were kept in a "
    "folder are not run again"
)
_SAME_VERSION = ("outtrees", "numpy", "scipy")


class Lost(NamedTuple):
    """What comes back in place of a result that no worker could deliver."""

    # "killed": workers died while they had it; "cancelled": what it needs was lost with a worker;
    # "gone": there is no scheduler any more; "failed": the reason says it
    fate: str
    reason: str
    tasks: Any  # [(function, args, kwargs)]


class DaskBackend(DaskDistributedBackend):
    """joblib's backend for Dask, with an answer for tasks that got lost.

    joblib's own (1.6) never reports a task that Dask gave up because four workers died over it, nor
    that the scheduler is gone, so that a run would wait for ever; it takes the error of a cancelled
    task for its result; and it runs everything here if there is but one worker with one thread.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unanswered: dict[Any, Any] = {}  # what waits → whom to tell
        self._answering = threading.Lock()

    def effective_n_jobs(self, n_jobs: int) -> int:
        """Return how many tasks run at the same time; at least 2, since 1 would mean here."""
        return max(2, int(super().effective_n_jobs(n_jobs)))

    def submit(self, func: Any, callback: Any = None) -> Any:
        """Send a batch of tasks; return what waits for it, which knows what it waits for."""
        waiting = super().submit(func, callback)
        waiting.tasks = func.items
        with self._answering:
            self._unanswered[waiting] = callback
        return waiting

    def start_call(self) -> None:
        """Begin to collect results, and to watch the scheduler."""
        super().start_call()
        threading.Thread(target=self._watch, daemon=True).start()

    async def _collect(self) -> None:
        while self._continue:
            async for future, result in self.waiting_futures:
                waiting = self._results.pop(future)
                self._callbacks.pop(future)
                if future.status == "error":
                    result = Lost(*_fate(result[1]), waiting.tasks)
                elif future.status != "finished":
                    result = Lost("cancelled", str(result), waiting.tasks)
                self._answer(waiting, result)
            await asyncio.sleep(0.01)

    def _watch(self) -> None:
        while self._continue:
            if self.client.status in ("closing", "closed"):  # it has tried to reconnect
                with self._answering:
                    left = list(self._unanswered)
                for waiting in left:
                    self._answer(waiting, Lost("gone", GONE, waiting.tasks))
            time.sleep(_WATCH_SECONDS)

    def _answer(self, waiting: Any, result: Any) -> None:
        with self._answering:
            told = self._unanswered.pop(waiting, None)
        if told is not None:  # else it was answered already
            waiting.set_result(result)
            told(result)

    def retrieve_result_callback(self, out: Any) -> Any:
        """Return the results of a batch of tasks, or raise what went wrong."""
        return self.lost(out) if isinstance(out, Lost) else super().retrieve_result_callback(out)

    def lost(self, found: Lost) -> list[Any]:
        """Raise an error: whoever asked needs all results."""
        if found.fate == "gone":
            raise ConnectionError(found.reason)
        raise ConnectionError(
            f"Dask could not finish a task ({found.reason}); see the logs of its workers, and run "
            "it again"
        )


class UnitsBackend(DaskBackend):
    """The same for units, which do without each other."""

    def lost(self, found: Lost) -> list[Any]:
        """Return it in place of the one result that the batch would have held."""
        return super().lost(found) if found.fate == "gone" else [found]


def _fate(error: BaseException) -> tuple[str, str]:
    if type(error).__name__ == "KilledWorker":  # after several attempts, which Dask counts
        return "killed", "its worker processes died, perhaps because the memory was used up"
    return "failed", f"{type(error).__name__}: {error}"


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Yield a client of the scheduler; refuse one that does not answer, or has other versions."""
    try:
        import distributed
    except ImportError:
        raise MissingExtraError(
            f"scheduler={address!r} needs Dask; install it with pip install 'outtrees[dask]'"
        ) from None
    try:
        client = distributed.Client(address, set_as_default=False, timeout=_CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r} ({type(error).__name__}); start one with "
            "'dask scheduler' and give the address that it prints, such as tcp://host:8786"
        ) from None
    try:
        _wait_for_workers(client, address)
        _refuse_other_versions(client)
        yield client
    finally:
        client.close()


def _wait_for_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_WORKERS_SECONDS)
    except TimeoutError:
        raise ConnectionError(
            f"the Dask scheduler at {address!r} has no worker after {_WORKERS_SECONDS} seconds; "
            f"start some with 'dask worker {address} --nthreads 1'"
        ) from None


def _refuse_other_versions(client: Any) -> None:
    """Refuse workers whose versions would give other numbers, or none."""
    found = client.get_versions(packages=list(_SAME_VERSION))
    here = found["client"]["packages"]
    for worker, there in sorted(found["workers"].items()):
        for name in _SAME_VERSION:
            if there["packages"].get(name) != here[name]:
                raise ConnectionError(
                    f"worker {worker} has {name} {there['packages'].get(name)}, but here it is "
                    f"{here[name]}; install the same versions everywhere"
                )


@contextmanager
def on_scheduler(address: str) -> Iterator[None]:
    """Send everything that goes through joblib inside the block to a Dask scheduler.

    Folds, candidates and families of the estimators then run on its workers, whatever `n_jobs`.
    """
    with connected(address) as client, parallel_config(backend=DaskBackend(client=client)):
        yield


def on_dask(
    task: Callable[..., Any], names: Sequence[str], n_jobs: int | None, client: Any, packed: bytes
) -> Iterator[Outcome]:
    """Yield outcomes from the workers of a Dask scheduler."""
    waiting, idle = list(names), 0
    suspects: list[str] = []
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

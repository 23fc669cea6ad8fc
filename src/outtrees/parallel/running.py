"""Units run wherever joblib sends them, their results returned or kept in a folder."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any

from joblib import delayed

from outtrees.parallel.carrying import Outcome, Work, reason_of, run_one
from outtrees.parallel.folder import RunFolder
from outtrees.parallel.seeds import fresh_seed
from outtrees.parallel.streaming import here, on_dask

Progress = Callable[[int, int], None]


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
    folder: RunFolder,
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
        yield from here(task, names, n_jobs)
        return
    from outtrees.parallel.scheduler import connected

    with connected(scheduler) as client:
        import cloudpickle  # comes with Dask

        yield from on_dask(task, names, n_jobs, client, cloudpickle.dumps((function, data)))

"""What a run will cost, estimated from the number of records before it begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from outtrees._common.progress import silenced
from outtrees.cli.errors import one_line, told
from outtrees.cli.screen import Screen

_PROBE = 300  # records of the trial that measures this machine
_FIRST_TRIAL, _ENOUGH = 40, 1.5  # records of the first fit that is timed; seconds of the last
_SOME_LEARN = 400  # records above which the time of a table grows linearly


class Cost(NamedTuple):
    """How many records in each group, the bytes needed, how often all trees are summed."""

    what: str  # in words, for messages
    groups: Sequence[int]  # records that may be related to each other
    memory: int  # bytes needed at the same time
    evaluations: float  # sums over all trees, or work worth as much, typically
    remedy: str = "Give fewer records, or run it on a machine with more memory."
    guessed: float | None = None  # seconds, where a sum over all trees says nothing
    cubic: bool = False  # whether all pairs of all records take part in every evaluation

    def seconds(self) -> float:
        """Return the time it may take, from a trial of the engine on this machine."""
        return sum(map(self.engine(), self.groups)) if self.guessed is None else self.guessed

    def engine(self) -> Callable[[int], float]:
        """Return the time of all sums over the trees of n records, as a function of n.

        The trial is one sum over the trees of 300 records; the time grows with the cube of their
        number where that dominates, and with the square below.
        """
        import numpy as np

        from outtrees.trees import OutTreeDistribution

        weights = np.random.default_rng(0).normal(size=(_PROBE, _PROBE))
        best = np.inf
        for _ in range(3):
            begin = time.process_time()
            _ = OutTreeDistribution(weights).edge_marginals
            best = min(best, time.process_time() - begin)
        unit = float(best * self.evaluations) / 2
        return lambda n: unit * ((n / _PROBE) ** 3 + (n / _PROBE) ** 2)


def planned_cost(
    screen: Screen,
    what: str,
    n_records: int,
    evaluations: float,
    plan: Any,
    each: float,
    cubic: bool = False,
) -> Cost:
    """Return the cost of a fit as planned; say it if only candidates take part.

    `each`: seconds for each record of a fit over candidates, roughly. `cubic`: see `Cost`.
    """
    if plan.why:
        screen.warn(plan.why)
    screen.summary["candidates"] = plan.way
    return Cost(
        what,
        [n_records],
        plan.needed,
        evaluations,
        told(plan.remedy),
        each * n_records if plan.way == "knn" else None,
        cubic and plan.way != "knn",
    )


class Timed(NamedTuple):
    """What fits of some of the records say about the time of all."""

    seconds: float | None  # of processor; None if no fit could be timed
    records: int  # in the largest fit
    failure: str = ""  # of the last fit, in words


def by_trials(
    n: int,
    trial: Callable[[Any], object],  # fits the records in these rows
    engine: Callable[[int], float] | None = None,  # the time of sums over the trees of n records
) -> Timed:
    """Return the seconds of processor that n records may take, by fits of some, and of how many.

    Twice as many are fitted each time until a fit takes a second or two, or all take part. The last
    two fits say how the time grows. Without `engine` it grows linearly at most above 400 records,
    where parameters are learned from some of them. With it, the sums over trees, which fits of few
    records hardly feel, are added, and the rest grows linearly at most. A fit that fails before any
    was timed is repeated with more records, up to 400: few records may lack what the table has.
    """
    import warnings

    import numpy as np

    so_far = time.process_time()  # to load the program and read the table, as the run will
    order = np.random.default_rng(0).permutation(n)
    size = max(2, min(n, _FIRST_TRIAL))
    first: float | None = None
    taken, failure = list[tuple[int, float]](), ""
    with warnings.catch_warnings(), silenced():
        warnings.simplefilter("ignore")
        while True:
            try:
                begin = time.process_time()  # other programs do not count
                if first is None:
                    trial(np.sort(order[:size]))  # loads and compiles what the others need
                    first = time.process_time() - begin
                    begin += first
                trial(np.sort(order[:size]))
            except Exception as error:
                failure = one_line(error)
                if taken or size >= min(n, _SOME_LEARN):
                    break
            else:
                taken.append((size, time.process_time() - begin))
                if size == n or (taken[-1][1] > _ENOUGH and len(taken) > 1):
                    break
            size = min(n, 2 * size)
    if not taken:
        return Timed(None, size, failure)
    last, seconds = taken[-1]
    power = 2.0
    if len(taken) > 1:
        before, sooner = taken[-2]
        power = float(np.clip(np.log(seconds / sooner) / np.log(last / before), 0.5, 3.0))
    steep = last if engine is not None else max(last, min(n, _SOME_LEARN))
    # What few records cost whatever their number hides growth: it is linear at least.
    growth = (steep / last) ** max(1.0, power) * (n / steep) ** min(1.0, power)
    sums = 0.0 if engine is None else engine(n) - engine(last)
    loading = max(0.0, (first or 0.0) - taken[0][1])
    return Timed(float(so_far + loading + seconds * growth + sums), last)


def only_checked(
    screen: Screen, cost: Cost, check: bool, trial: Callable[[Any], object] | None = None
) -> bool:
    """Refuse what does not fit into memory; with --check print the estimate and return True.

    `trial` fits the records in some rows, to estimate how long all will take.
    """
    from outtrees._common.files import size_text
    from outtrees._common.memory import check_memory, free_memory

    free = free_memory()
    if check:
        found = Timed(None, 0)
        if trial is not None and (free is None or cost.memory <= free):
            engine = cost.engine() if cost.cubic else None
            found = by_trials(sum(cost.groups), trial, engine)
        seconds = cost.seconds() if found.seconds is None else found.seconds
        if found.failure and found.seconds is None:
            some = "all" if found.records == sum(cost.groups) else f"{found.records:,}"
            screen.warn(
                f"a trial fit of {some} of the records failed, so that the time is estimated from "
                f"their number alone; the fit said: {found.failure}"
            )
        screen.summary["check"] = {
            "memory_bytes": cost.memory,
            "free_bytes": free,
            "fits": free is None or cost.memory <= free,
            "seconds": round(seconds, 2),
        }
        left = "this system does not say how much is free" if free is None else size_text(free)
        screen.say(f"memory: about {size_text(cost.memory)} (free: {left})")
        how = "from a short trial on this machine" if cost.guessed is None else "a rough guess"
        if found.seconds is not None:
            how = f"by fits of up to {found.records:,} of the records on this machine"
        screen.say(f"time: about {duration(seconds)} of one core, {how}")
        screen.say("checked only; nothing was written")
    check_memory(f"{cost.what} needs", cost.memory, cost.remedy, free)
    return check


def duration(seconds: float) -> str:
    """Return a time in words, roughly.

    Examples
    --------
    >>> duration(0.2), duration(42), duration(4000), duration(1e6)
    ('a second', '42 seconds', '67 minutes', '278 hours')
    """
    if seconds < 1.5:
        return "a second"
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def tell_dropped_mass(screen: Screen, model: Any) -> None:
    """Report how much probability a fit over candidates leaves out; nothing after a dense one."""
    from dataclasses import asdict

    mass = getattr(model, "dropped_mass_", None)
    if mass is None:
        return
    screen.summary["dropped_mass"] = asdict(mass)
    screen.say(
        f"parents outside the candidates hold {mass.mean:.2g} ± {mass.error:.1g} of a record's "
        "parents, by weight"
    )

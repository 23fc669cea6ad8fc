"""Units of work for the tests, in a module that worker processes can import."""

import os
import signal
import time
from pathlib import Path

import numpy as np


def draw(unit, data, seed):
    """Numbers that depend on the seed, on the shared data, and on the number of BLAS threads."""
    rng = np.random.default_rng(seed)
    if unit == "bad":
        raise ValueError("this unit\nis bad")
    x = rng.normal(size=(200, 200)) + np.asarray(data)
    return [unit, float(np.linalg.slogdet(x @ x.T)[1]), *rng.normal(size=2).tolist()]


def draw_or_wait(unit, data, seed):
    """The first worker that gets the unit with a path waits to be killed; then as above."""
    name, path = unit
    if path and not Path(path).exists():
        note = Path(path).with_suffix(f".{os.getpid()}")
        note.write_text(str(os.getpid()))
        note.rename(path)  # whole at once
        time.sleep(600)
    return draw(name, data, seed)


def die(unit, data, seed):
    """A unit that is a process id takes its process with it, unless it is that one."""
    if isinstance(unit, int):
        if unit == os.getpid():
            raise RuntimeError("this unit is expected to run elsewhere")
        os.kill(os.getpid(), signal.SIGKILL)
    return draw(unit, data, seed)


def nested(unit, data, seed):
    """How many processes a unit of units would use, and how many BLAS threads."""
    from joblib import effective_n_jobs
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    return [effective_n_jobs(-1), max(pool["num_threads"] for pool in threadpool_info())]

"""One way to make a random generator from whatever the caller gave."""

from __future__ import annotations

import numpy as np

RandomState = int | np.random.Generator | np.random.RandomState | None


def as_generator(random_state: object) -> np.random.Generator:
    """Return a NumPy Generator for None, a seed, a Generator or a RandomState.

    Examples
    --------
    >>> bool(as_generator(3).integers(10) == as_generator(3).integers(10))
    True
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    try:
        return np.random.default_rng(random_state)  # type: ignore[arg-type]  # checked by NumPy
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be None, an integer of at least 0, a NumPy Generator or a "
            f"RandomState; got {random_state!r}."
        ) from error

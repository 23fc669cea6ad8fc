"""Random streams of units, which depend on the run's seed and the unit's name alone."""

from __future__ import annotations

import hashlib

import numpy as np


def fresh_seed() -> int:
    """Return a seed from the operating system's randomness."""
    return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]


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

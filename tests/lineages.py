"""Tables with every kind of column, that the tests of lineages share."""

import numpy as np

from outtrees.models.columns import Counts, Drift, Reversion, Sticky, Substitution, Waiting

ALL_KINDS = ("number", "place", "clock", "reverting", "category", "count", "sequence", "date")


def random_table(seed, T=10, missing=0.15, strict=True, unit=1.0):
    """Return kernels and cells of all kinds, related by a random tree, some cells missing."""
    rng = np.random.default_rng(seed)
    parents = np.array([0, *[rng.integers(t) for t in range(1, T)]])
    number, place = np.zeros((T, 1)), np.zeros((T, 2))
    category, count = np.zeros((T, 1)), np.full((T, 1), 3.0)
    sequence, day = rng.integers(4, size=(1, 10)).repeat(T, axis=0).astype(float), np.zeros(T)
    for u in range(1, T):
        v = parents[u]
        number[u] = number[v] + rng.normal(0.3, 0.4)
        place[u] = place[v] + rng.normal(size=2)
        category[u] = category[v] if rng.random() < 0.7 else rng.integers(3)
        count[u] = rng.binomial(int(count[v, 0]), 0.7) + rng.poisson(1.0)
        changed = rng.random(10) < 0.08
        sequence[u] = np.where(changed, rng.integers(4, size=10), sequence[v])
        day[u] = day[v] + rng.gamma(4.0, 1.0)
    day = np.round(day) if unit else day
    clock = number + 0.2 * rng.normal(size=(T, 1)) * np.sqrt(day[:, None])
    date = np.column_stack([day, day, 0 * day, 0 * day])
    values = [number, place, clock, number.copy(), category, count, sequence, date]
    for cells in values[:-2]:
        cells[rng.random(T) < missing] = np.nan
    sequence[rng.random(sequence.shape) < missing] = np.nan
    date[(rng.random(T) < missing) & (np.arange(T) > 0)] = np.nan
    kernels = [
        Drift(),
        Drift(offset=False),
        Drift(clock=True),
        Reversion(),
        Sticky(("a", "b", "c")),
        Counts(),
        Substitution(model="K80"),
        Waiting(strict=strict, unit=unit, ties=unit > 0),
    ]
    return kernels, values

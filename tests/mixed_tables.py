"""Small tables of records for the tests of Ancestry."""

import numpy as np


def mixed_table(n=5, seed=0):
    """All kinds of columns, some cells missing, dates in whole days with ties."""
    rng = np.random.default_rng(seed)
    days = np.sort(rng.integers(0, 6, size=n))
    letters = rng.choice(list("ACGT"), size=(n, 6), p=[0.7, 0.1, 0.1, 0.1])
    letters[rng.random((n, 6)) < 0.1] = "N"
    return {
        "id": [f"r{i}" for i in range(n)],
        "day": [f"2024-01-{1 + d:02}" for d in days],
        "ward": [("N", "S", "")[i] for i in rng.integers(0, 3, size=n)],
        "weight": rng.normal(70, 10, size=n).round(2).tolist(),
        "visits": rng.poisson(3, size=n).tolist(),
        "x": rng.normal(size=n).round(3).tolist(),
        "y": rng.normal(size=n).round(3).tolist(),
        "dna": ["".join(row) for row in letters],
    }


KINDS = {"visits": "count", "dna": "sequence", "ward": "categorical", "weight": "continuous"}

"""Tables of several populations, and what each has in common."""

import numpy as np


def population_table(n_populations=4, n_records=12, seed=0):
    """Undated walks in the plane; wards that stick, some of them unknown."""
    rng = np.random.default_rng(seed)
    table = {"id": [], "site": [], "x": [], "y": [], "ward": []}
    for population in range(n_populations):
        x, wards = np.zeros((n_records, 2)), np.zeros(n_records, dtype=int)
        for i in range(1, n_records):
            parent = rng.integers(i)
            x[i] = x[parent] + rng.normal(size=2)
            wards[i] = wards[parent] if rng.random() < 0.8 else rng.integers(3)
        table["id"] += [f"p{population}r{i}" for i in range(n_records)]
        table["site"] += [f"site {population}"] * n_records
        table["x"] += x[:, 0].round(3).tolist()
        table["y"] += x[:, 1].round(3).tolist()
        table["ward"] += ["" if i % 7 == 3 else "NSE"[w] for i, w in enumerate(wards)]
    return table

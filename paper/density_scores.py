"""The rows of Table 1: which number of which method, and what the paper printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from outtrees._common.types import Array
from paper.density_peers import PEERS
from paper.units import Unit

# As printed: 10-fold averages of the test log-likelihood of a fold.
PUBLISHED = {
    "Parzen": (-5.61e3, -1.94e3, -6.25e3, -3.41e3),
    "GMM-1": (-1.36e3, -2.02e4, -2.12e5, -2.53e4),
    "GMM-2": (-1.36e3, -3.23e4, -2.85e5, -1.88e4),
    "GMM-3": (-1.19e3, -2.50e4, -4.48e5, -2.79e4),
    "GMM-4": (-7.98e2, -1.68e4, -2.03e5, -2.62e4),
    "GMM-5": (-6.48e2, -3.15e4, -3.40e5, -3.23e4),
    "GMM-∞": (-4.86e2, -4.02e2, -8.22e2, -4.56e2),
    "tdid": (-3.91e2, -5.29e2, -8.87e2, -4.99e2),
}
# Rows of ours: name → (method, key of its result, key of the paper's score).
ROWS = {
    "tdid (single Gaussian)": ("tdid", "score", "ratio score"),
    "tdid, kernel": ("tdid kernel", "score", "ratio score"),
    "tdid, mixture": ("tdid mixtures", "single score", "single ratio score"),
    "tdid, stacked": ("tdid mixtures", "score", "ratio score"),
    "BayesianOutTree": ("BayesianOutTree", "score", "ratio score"),
}

Scores = Mapping[str, Mapping[str, Array]]  # set → row → (folds,)


def collect(
    found: Mapping[Unit, Mapping[str, Any]], datasets: Sequence[str], n_folds: int, kind: str
) -> Scores:
    """Return the scores of each row on each set, (folds,): "normalised" or the paper's "ratio"."""
    rows = {name: (name, "score") for name in PEERS} if kind == "normalised" else {}
    for name, (method, score, ratio) in ROWS.items():
        rows[name] = (method, score if kind == "normalised" else ratio)
    return {
        dataset: {
            row: np.array(
                [found[Unit("table1", dataset, m, f)][key] for f in range(n_folds)], dtype=float
            )
            for row, (m, key) in rows.items()
        }
        for dataset in datasets
    }


def best_peer(scores: Mapping[str, Array]) -> str:
    """Return the competitor with the highest mean over the folds that are compared."""
    return max(PEERS, key=lambda name: float(scores[name].mean()))


def mean_and_error(values: Array) -> str:
    """Return "mean ± standard error" over folds.

    Examples
    --------
    >>> mean_and_error(np.array([-10.0, -12.0]))
    '−11.0 ± 1.0'
    """
    mean = f"{values.mean():,.1f}".replace("-", "−")
    if len(values) < 2:
        return mean
    return f"{mean} ± {values.std(ddof=1) / np.sqrt(len(values)):,.1f}"

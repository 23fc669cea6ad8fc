"""What is called probable comes true that often: supports, labels and imputed cells.

Small simulations with fixed seeds; `make calibration` runs many more. Each is also given answers
that are over-sure or too modest, which it must find out.
"""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from oracles.posterior_ranks import rank_tests, simulate
from oracles.promises import (
    drifts,
    hidden_cells,
    hidden_labels,
    narrowed,
    of_choices,
    of_draws,
    parents_of_dates,
    sharpened,
)

# Two short chains are enough for averages over tables; some tables know one record of a class.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*have a single labelled record"),
]

# Standard errors. Learned parameters may cost a right model some; the controls are beyond.
BAR = 4.0
CASES = {
    "dates": (lambda: parents_of_dates(100), of_choices, sharpened),
    "columns": (lambda: parents_of_dates(28, columns=True), of_choices, sharpened),
    "labels": (lambda: hidden_labels(90), of_choices, sharpened),
    "cells": (lambda: hidden_cells(25), of_draws, narrowed),
}


@pytest.mark.parametrize("name", CASES)
def test_promises_are_kept(name):
    make, statistic, change = CASES[name]
    tables = list(make())
    found = drifts(tables, statistic)
    assert all(abs(z) < BAR for *_, z in found.values()), found
    # Negative controls, on the same tables.
    sure = drifts(tables, statistic, lambda said: change(said, 1.5))
    assert min(z for *_, z in sure.values()) < -BAR, sure
    modest = drifts(tables, statistic, lambda said: change(said, 1 / 1.5))
    assert max(z for *_, z in modest.values()) > BAR, modest


def test_intervals_of_parameters_cover_what_they_say():
    """Simulation-based calibration of integrated parameters; the long form is in benchmarks/."""
    tables = [simulate("dates, any roots", seed) for seed in range(16)]
    assert min(p for p, _ in rank_tests(tables).values()) > 1e-3
    supports = [(table.supports, table.parents) for table in tables]
    assert all(abs(z) < BAR for *_, z in drifts(supports, of_choices).values())
    ranks = np.concatenate([table.ranks for table in tables])

    def covered(by):
        """Return how often intervals that say 50 % hold the truth, if narrowed so much."""
        z = by * ndtri(np.clip(ranks, 1e-9, 1 - 1e-9))
        return float((abs(ndtr(z) - 0.5) < 0.25).mean())

    error = 0.5 / np.sqrt(len(ranks))
    assert abs(covered(1.0) - 0.5) < BAR * error
    assert covered(4.0) < 0.5 - BAR * error  # negative control

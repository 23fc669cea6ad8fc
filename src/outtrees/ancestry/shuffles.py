"""Evidence by shuffling: what each column says about parents, beyond the same cells at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees.ancestry.learning import FIRST_SHARES, ROUGH, Reading, Roots, problem_of
from outtrees.candidates.edges import Constraints
from outtrees.models.columns import ColumnKernel, Lineage
from outtrees.models.columns.earlier import with_backgrounds

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class Evidence(NamedTuple):
    """What one column says about parents, in nats."""

    over_shuffled: float  # what the table gains over one in which the column is shuffled
    error: float  # its standard error, by the shuffles
    alone: float  # what the column gains by itself, beside the dates


def column_evidence(
    reading: Reading,
    values: Sequence[Array],
    given: Constraints,
    roots: Roots,
    n_shuffles: int,
    rng: np.random.Generator,
) -> dict[int, Evidence]:
    """Return the evidence of each column but the dates, with the reading's waiting time.

    Each column is shuffled by itself among the records of a group, and everything is fitted
    again. A column that says nothing gains as much when it is shuffled.
    """
    dates = reading.lineage.dates
    columns = [c for c in range(len(values)) if c != dates]

    def best(lineage: Lineage, cells: Sequence[Array]) -> float:
        problem = problem_of(lineage, cells, given, roots)
        problem.independent = problem.sampled or dates is not None
        start = problem.fewer(lineage, given).started(lineage)[0]
        return problem.climb(start, problem.first_log_root(start), max_iter=ROUGH).gain

    whole = replace(reading.lineage, outlier_shares=_some_share(reading.lineage))
    whole = with_backgrounds(whole, values, given.groups)
    full = best(whole, values)
    found = {}
    for c in columns:
        shuffled = []
        # Contacts weigh the records with which all columns are compared.
        changed = None if whole.kernels[c].relative else [c] if c in whole.contrasted else []
        for _ in range(n_shuffles):
            cells = list(values)
            cells[c] = _shuffled(whole.kernels[c], values[c], given.groups, rng)
            start = _restarted(whole, c, cells[c])
            if changed != []:
                start = with_backgrounds(start, cells, given.groups, changed)
            shuffled.append(full - best(start, cells))
        one = whole
        for other in columns:
            one = one if other == c else one.without(other)
        error = float(np.std(shuffled, ddof=1) / np.sqrt(n_shuffles)) if n_shuffles > 1 else 0.0
        found[c] = Evidence(float(np.mean(shuffled)), error, best(one, values))
    return found


def _some_share(lineage: Lineage) -> Array:
    """Return the outlier shares, those of columns that were left out at their start."""
    shares = np.asarray(lineage.outlier_shares, dtype=np.float64)
    first = np.array([0.0 if kernel.relative else FIRST_SHARES[0] for kernel in lineage.kernels])
    return np.asarray(np.where(shares >= 1, first, shares))


def _restarted(lineage: Lineage, c: int, cells: Array) -> Lineage:
    """Return the lineage whose column starts anew with other cells."""
    kernels = list(lineage.kernels)
    kernels[c] = kernels[c].start(cells)
    return replace(lineage, kernels=tuple(kernels))


def _shuffled(kernel: ColumnKernel, cells: Array, groups: Index, rng: np.random.Generator) -> Array:
    order = np.arange(len(cells))
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        order[rows] = rng.permutation(rows)
    return kernel.reordered(cells, order)

"""Evidence by shuffling: what each column says about parents, beyond the same cells at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from outtrees._common.arguments import as_count
from outtrees._common.progress import takes_long
from outtrees.ancestry.learning import FIRST_SHARES, ROUGH, problem_of
from outtrees.io.tables import Table
from outtrees.models.columns import ColumnKernel, Lineage
from outtrees.models.columns.earlier import with_backgrounds

if TYPE_CHECKING:
    from outtrees.ancestry.estimator import Ancestry

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@takes_long
def column_evidence(self: Ancestry, n_shuffles: int = 3, random_state: Any = None) -> Table:
    """Return what each column says about parents: column, gain, error, alone, outliers, used.

    `gain`: nats that the table gains over one in which this column is shuffled among the
    records, everything fitted again; `error` is its standard error over n_shuffles shuffles.
    `alone`: nats that the column gains when it is the only one beside the dates. `outliers`:
    the share of cells that do not follow their parent. `used`: whether the column takes part.

    Parameters
    ----------
    n_shuffles : int
        How often each column is shuffled.
    random_state : int, Generator or None
        By default that of the model.

    Returns
    -------
    Table
        Columns column, gain, error, alone, outliers and used.
    """
    as_count("n_shuffles", n_shuffles, 1)
    rng, posterior, given = self._generator(random_state), self.fitted, self._constraints()
    reading, values, roots = posterior.readings[0], posterior.values, posterior.roots
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
    rows = []
    for c in columns:
        shuffled = []
        # Contacts weigh the records with which all columns are compared.
        changed = None if whole.kernels[c].relative else [c] if c in whole.contrasted else []
        for _ in range(n_shuffles):
            cells = list(values)
            cells[c] = _shuffled(whole.kernels[c], values[c], given.groups, rng)
            start = whole.with_kernel(c, whole.kernels[c].start(cells[c]))
            if changed != []:
                start = with_backgrounds(start, cells, given.groups, changed)
            shuffled.append(full - best(start, cells))
        one = whole
        for other in columns:
            one = one if other == c else one.without(other)
        error = float(np.std(shuffled, ddof=1) / np.sqrt(n_shuffles)) if n_shuffles > 1 else 0.0
        share = float(reading.lineage.outlier_shares[c])
        gain = float(np.mean(shuffled))
        rows.append((posterior.names[c], gain, error, best(one, values), share, share < 1))
    titles = ("column", "gain", "error", "alone", "outliers", "used")
    return Table({title: [row[i] for row in rows] for i, title in enumerate(titles)})


def _some_share(lineage: Lineage) -> Array:
    """Return the outlier shares, those of columns that were left out at their start."""
    shares = np.asarray(lineage.outlier_shares, dtype=np.float64)
    first = np.array([0.0 if kernel.relative else FIRST_SHARES[0] for kernel in lineage.kernels])
    return np.asarray(np.where(shares >= 1, first, shares))


def _shuffled(kernel: ColumnKernel, cells: Array, groups: Index, rng: np.random.Generator) -> Array:
    order = np.arange(len(cells))
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        order[rows] = rng.permutation(rows)
    return kernel.reordered(cells, order)

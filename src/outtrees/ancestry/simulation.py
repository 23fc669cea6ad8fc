"""Simulation: records drawn from a fitted model, with their true parents."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from outtrees.ancestry.posterior import Posterior
from outtrees.io.tables import Table
from outtrees.models.columns import (
    Contacts,
    Drift,
    GroupedDrift,
    Sticky,
    Substitution,
    TransmittedSequence,
    Waiting,
)
from outtrees.records.column import iso_day

if TYPE_CHECKING:
    from outtrees.ancestry.estimator import Ancestry


def simulate(self: Ancestry, n: int, random_state: Any = None) -> Table:
    """Return n records drawn from the fitted model, with their true parents.

    The first is a root; each of the others takes one of those before it as its parent, all equally
    likely. One family, so with `group_spread` all of one group, drawn at random and named.

    Parameters
    ----------
    n : int
        The number of records.
    random_state : int, Generator or None
        By default that of the model.

    Returns
    -------
    Table
        Columns id and true_parent, and those of the fitted table.
    """
    posterior, rng = self.fitted, self._generator(random_state)
    kernels = posterior.lineage.kernels
    cells = [np.empty((n, values.shape[1])) for values in posterior.values]
    parents = np.full(n, -1)
    for c, first in enumerate(posterior.lineage.sample_alone(1, rng)):
        cells[c][0] = first
    for i in range(1, n):
        parents[i] = rng.integers(i)
        above = [column[parents[i] : parents[i] + 1] for column in cells]
        for c, child in enumerate(posterior.lineage.sample(above, rng)):
            cells[c][i] = child
    names = [f"r{i + 1}" for i in range(n)]
    table: dict[str, list[Any]] = {
        "id": names,
        "true_parent": [names[p] if p >= 0 else "" for p in parents],
    }
    for name, kernel, values in zip(posterior.names, kernels, cells, strict=True):
        if isinstance(kernel, Contacts):
            warnings.warn(
                f"{name} are not simulated: they say who met whom among the fitted records",
                UserWarning,
                stacklevel=2,
            )
            continue
        column = posterior.records.column(name)
        if isinstance(kernel, Waiting):
            start = np.nanmin(column.values[:, 0]) if column.calendar else 0.0
            table[name] = [
                iso_day(start + v) if column.calendar else float(v) for v in values[:, 0]
            ]
        elif isinstance(kernel, Substitution | TransmittedSequence):
            # The latter's cells begin with the four of a date.
            rows = values if isinstance(kernel, Substitution) else values[:, 4:]
            table[name] = ["".join(kernel.levels[int(c)] for c in row) for row in rows]
        elif isinstance(kernel, Sticky):
            table[name] = [kernel.levels[int(v)] for v in values[:, 0]]
        elif isinstance(kernel, GroupedDrift):
            groups = [posterior.records.group_names[int(g)] for g in values[:, -1]]
            table |= {_group_column(posterior): groups, **_by_axis(name, values[:, :-1])}
        elif isinstance(kernel, Drift) and kernel.ends:
            table |= _by_axis(name, values[:, : values.shape[1] // 2])
        elif values.shape[1] == 1:
            table[name] = values[:, 0].tolist()
        else:
            table |= _by_axis(name, values)
    return Table(table)


def _group_column(posterior: Posterior) -> str:
    return next(name for name, role, _ in posterior.records.roles if role == "group")


def _by_axis(name: str, values: Any) -> dict[str, list[Any]]:
    return {f"{name}_{axis}": cells.tolist() for axis, cells in zip("xyz", values.T, strict=False)}

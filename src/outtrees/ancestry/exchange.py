"""What a fit found, as the formats of other tools take it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outtrees.ancestry.posterior import Posterior
from outtrees.ancestry.support import ranked_parents
from outtrees.io.formats import Field, Findings
from outtrees.records import Column
from outtrees.records.column import counted


def findings(
    posterior: Posterior,
    parents: NDArray[np.intp],
    min_support: float,
    until: str | None,
) -> Findings:
    """Return this tree with supports, candidates of at least `min_support`, and all columns."""
    records, dates = posterior.records, posterior.dates
    ranked = ranked_parents(posterior)
    kept = (ranked.support >= min_support) | (parents[ranked.child] == ranked.parent)
    rows = zip(ranked.child[kept], ranked.parent[kept], ranked.support[kept], strict=True)
    names = (column.name for column in records.columns)
    end = records.column(until) if until is not None and until in names else None
    place = next((c for c in records.columns if c.kind == "place"), None)
    shown = [c for c in records.columns if c.kind not in ("sequence", "place") and c is not dates]
    return Findings(
        title=f"Ancestry of {counted(len(records), 'record')}",
        ids=records.ids,
        parents=parents.tolist(),
        supports=posterior.supports(parents).tolist(),
        root_probability=posterior.trees.root_marginals.tolist(),
        candidates=[(int(u), int(v), float(s)) for u, v, s in rows],
        fields={column.name: _field(column) for column in shown},
        dates=None if dates is None else _numbers(dates),
        ends=None if end is None else _numbers(end),
        calendar=dates is not None and dates.calendar,
        places=None if place is None else _places(place),
        coordinates=None if place is None or not place.projected else _coordinates(place),
        changes=_changes(posterior, parents),
    )


def _numbers(column: Column) -> list[float | None]:
    return [None if np.isnan(v) else float(v) for v in column.values[:, 0]]


def _field(column: Column) -> Field:
    cells: list[Any] = [text or None for text in column.text]
    if column.kind in ("continuous", "count"):
        cells = _numbers(column)
    return Field(column.kind, cells)


def _places(column: Column) -> list[tuple[float, ...] | None]:
    rows = column.values[:, :3].tolist()
    return [None if np.isnan(row).any() else tuple(row) for row in rows]


def _coordinates(column: Column) -> list[tuple[float, float] | None]:
    """Return latitudes and longitudes, as the cells have them."""
    found: list[tuple[float, float] | None] = []
    for text in column.text:
        try:
            lat, lon = (float(part) for part in text.split(","))
        except ValueError:
            found.append(None)
            continue
        found.append((lat, lon))
    return found


def _changes(posterior: Posterior, parents: NDArray[np.intp]) -> list[list[str]] | None:
    """Return the substitutions from each record's parent to it, of the first sequence column."""
    column = next((c for c in posterior.records.columns if c.kind == "sequence"), None)
    if column is None or any(len(level) != 1 for level in column.levels or ()):
        return None
    values, letters = column.values, column.levels or ()
    found: list[list[str]] = []
    for child, parent in enumerate(parents.tolist()):
        if parent < 0:
            found.append([])
            continue
        a, b = values[parent], values[child]
        sites = np.flatnonzero((a != b) & ~np.isnan(a) & ~np.isnan(b))
        found.append([f"{letters[int(a[s])]}{s + 1}{letters[int(b[s])]}" for s in sites.tolist()])
    return found

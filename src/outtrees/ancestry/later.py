"""Records that came later, read as the fitted ones were."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outtrees.ancestry.columns import check_alike, date_cells, recoded
from outtrees.errors import RecordsError
from outtrees.models.columns import GroupedDrift
from outtrees.models.columns.grouped_drift import with_groups
from outtrees.records import Column, Records, read_records
from outtrees.records.places import project

Array = NDArray[np.float64]


def read_like(ancestry: Any, table: Any, sequences: Any, unsequenced: str = "error") -> Records:
    """Return the records of a table whose columns are of the same kinds as the fitted ones."""
    old: Records = ancestry.records
    kinds = {column.name: column.kind for column in old.columns if column.kind != "place"}
    for name, role, _ in old.roles:
        if role != "id":
            kinds[name] = "group" if role == "group" else "ignore"
    if isinstance(table, (str, os.PathLike)):
        present = set(kinds) - {"sequence"}  # a file is expected to have the same columns
    else:
        present = {str(name) for name in getattr(table, "columns", table)}
    kinds = {name: kind for name, kind in kinds.items() if name in present}
    return read_records(
        table, id=ancestry.id, kinds=kinds, sequences=sequences, unsequenced=unsequenced
    )


def values_like(ancestry: Any, new: Records) -> list[Array]:
    """Return the cells of new records, coded as the fitted ones; NaN for columns they lack."""
    old: Records = ancestry.records
    present = {column.name for column in new.columns}
    values = []
    columns = zip(
        ancestry.column_names_, ancestry.column_values_, ancestry.lineage_.kernels, strict=True
    )
    for name, cells, kernel in columns:
        if name in ("distances", "log_weights"):
            raise RecordsError(f"records known by their {name} cannot be placed; refit")
        if name not in present:
            values.append(np.full((len(new), cells.shape[1]), np.nan))
            continue
        column, fitted = new.column(name), old.column(name)
        if column.kind == "date":
            check_alike(column, fitted)
            values.append(date_cells(new, column, ancestry._dates))
        elif "km east and north" in fitted.reason:
            values.append(_projected(column, fitted))
        else:
            values.append(recoded(column, fitted))
        if isinstance(kernel, GroupedDrift):
            groups = groups_like(new, old)
            assert groups is not None  # that kernel was fitted to groups
            values[-1] = with_groups(values[-1], groups)
    return values


def _projected(new: Column, old: Column) -> Array:
    """Return latitudes and longitudes as km from the centre of the old places, and of these only.

    A centre of old and new ones together would shrink distances by another latitude's cosine, and
    one new record's answer would depend on the others.
    """

    def degrees(column: Column) -> tuple[Array, Array]:
        rows = [text.split(",") if text else ["nan", "nan"] for text in column.text]
        return tuple(np.array(rows, dtype=np.float64).T)

    return project(*degrees(new), about=degrees(old))


def groups_like(new: Records, old: Records) -> NDArray[np.intp] | None:
    """Return the groups of new records as positions among the old ones, −1 for unknown groups."""
    if old.groups is None:
        return None
    if new.groups is None:
        raise RecordsError("the fitted records are in groups; say which group each new one is in")
    place = {name: i for i, name in enumerate(old.group_names)}
    return np.array([place.get(new.group_names[g], -1) for g in new.groups], dtype=np.intp)

"""Placement: the probable parents of new records, each as a new leaf, without a refit."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from outtrees._common.text import counted
from outtrees.ancestry.columns import DateOptions, category_cells, date_cells
from outtrees.ancestry.model_choice import date_options
from outtrees.ancestry.nearest import placed_beside, transmission_of
from outtrees.ancestry.posterior import Posterior
from outtrees.errors import RecordsError
from outtrees.io.tables import Table
from outtrees.models.columns import (
    Contacts,
    Drift,
    GroupedDrift,
    Sticky,
    TransmittedSequence,
    Waiting,
)
from outtrees.models.columns.background import Earlier
from outtrees.models.columns.earlier import weights_before
from outtrees.models.columns.transmission import sequence_cells
from outtrees.models.place import with_groups
from outtrees.records import Column, Records, read_records
from outtrees.records.column import is_number
from outtrees.records.dates import in_days
from outtrees.records.evidence import with_uncertainty
from outtrees.records.places import project

if TYPE_CHECKING:
    from outtrees.ancestry.estimator import Ancestry

Array = NDArray[np.float64]
Index = NDArray[np.intp]
_PAIRS_AT_ONCE = 1_000_000  # of new and fitted records


def place(
    self: Ancestry,
    table: Any,
    *,
    sequences: Any = None,
    unsequenced: str = "error",
    min_support: float = 0.1,
) -> Table:
    """Return the parents of new records, without a refit.

    Each is taken as a new leaf, below a fitted record or, with roots="any", a root. Columns
    that the new records lack are unknown of them.

    Parameters
    ----------
    table : path, data frame, mapping of columns, or Records
        The new records, with columns as at the fit.
    sequences : path or mapping, optional
        As in `fit`.
    unsequenced : {"error", "missing"}
        As in `fit`.
    min_support : float
        Parents with less support are left out.

    Returns
    -------
    Table
        Columns child, parent, support and rank.

    Examples
    --------
    >>> from outtrees import Ancestry
    >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
    >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0).fit(table)
    >>> row = model.place({"id": ["new"], "day": [12], "ward": ["S"]})[0]
    >>> row.child, row.parent, round(row.support, 1)
    ('new', 'c', 0.7)
    """
    posterior, new = self.fitted, table
    if not isinstance(new, Records):
        new = read_like(
            self.records, table, id=self.id, sequences=sequences, unsequenced=unsequenced
        )
    dates = date_options(self)
    new_values, new_groups = values_like(posterior, new, dates), groups_like(new, posterior.records)
    rows: dict[str, list[Any]] = {"child": [], "parent": [], "support": [], "rank": []}
    T, lost = len(posterior.records), []
    step = max(1, _PAIRS_AT_ONCE // T)
    for low in range(0, len(new), step):
        some = slice(low, low + step)
        values = [cells[some] for cells in new_values]
        table = _supports(posterior, values, None if new_groups is None else new_groups[some])
        for name, support in zip(new.ids[some], table, strict=True):
            if not support.any():
                lost.append(name)
                continue
            order = np.argsort(-support, kind="stable")
            kept = (support[order] >= min_support) & (support[order] > 0)
            for rank, v in enumerate(order[kept].tolist(), start=1):
                rows["child"].append(name)
                rows["parent"].append(posterior.records.ids[v] if v < T else "")
                rows["support"].append(float(support[v]))
                rows["rank"].append(rank)
    if lost:
        warnings.warn(
            f"{counted(len(lost), 'new record')} can have no parent among the fitted ones, the "
            f"first is {lost[0]!r}: check its date or group",
            UserWarning,
            stacklevel=2,
        )
    return Table(rows)


def _supports(posterior: Posterior, new_values: Sequence[Array], new_groups: Index | None) -> Array:
    """Return the support of all fitted records as parents, and of being a root (n, T + 1).

    All readings and draws of parameters together; 0 in every column for a record without a
    possible parent.
    """
    n, T = len(new_values[0]), len(posterior.records)
    child, parent = (side.ravel() for side in np.indices((n, T)))
    within = np.ones(n * T, dtype=bool)
    if new_groups is not None:
        within &= new_groups[child] == posterior.edges.groups[parent]
    possible = within.copy()
    columns = zip(posterior.lineage.kernels, new_values, posterior.values, strict=True)
    for kernel, new, old in columns:
        if isinstance(kernel, Waiting):
            possible &= kernel.possible(new, old, child, parent)
    result = np.zeros((n, T + 1))
    first = posterior.lineage
    pairs = first.pairs(new_values, posterior.values, child[possible], parent[possible])
    known = {}
    if first.backgrounds is not None and first.dates is not None:
        days, before = (cells[first.dates][:, 0] for cells in (new_values, posterior.values))
        share = np.where(within, weights_before(days[child], before[parent]), 0.0)
        some = share > 0
        every = first.pairs(new_values, posterior.values, child[some], parent[some])
        known = first.log_backgrounds(new_values, Earlier(every, share[some]))
    for weight, lineage, log_introduction, _ in posterior.members:
        background = lineage.compared(new_values, known)
        table = np.full((n, T + 1), -np.inf)
        table[child[possible], parent[possible]] = lineage.log_beta(pairs, background)
        if posterior.roots == "any":
            table[:, T] = lineage.log_root(background) + log_introduction
        top = table.max(axis=1, keepdims=True)
        some = np.isfinite(top[:, 0])
        shares = np.exp(table[some] - top[some])
        result[some] += weight * shares / shares.sum(axis=1, keepdims=True)
    if transmission_of(first) is not None:
        ends = child[possible], parent[possible]
        result = placed_beside(posterior, new_values, result, *ends)
    return result


# New records, read and coded as the fitted ones ------------------------------------------------


def read_like(
    old: Records, table: Any, *, id: str | None, sequences: Any, unsequenced: str
) -> Records:
    """Return the records of a table, read with the kinds of the fitted records."""
    kinds = {column.name: column.kind for column in old.columns if column.kind != "place"}
    vague = [name for name, role, _ in old.roles if role == "uncertainty"]
    for name, role, _ in old.roles:
        if role != "id":
            kinds[name] = "group" if role == "group" else "ignore"
    kinds |= dict.fromkeys(vague, "continuous")
    if isinstance(table, (str, os.PathLike)):
        present = set(kinds) - {"sequence"}  # a file must have the same columns
    else:
        present = {str(name) for name in getattr(table, "columns", table)}
    kinds = {name: kind for name, kind in kinds.items() if name in present}
    new = read_records(table, id=id, kinds=kinds, sequences=sequences, unsequenced=unsequenced)
    calendar = {column.name for column in old.columns if column.kind == "date" and column.calendar}
    columns = tuple(
        in_days(c) if c.name in calendar and c.unit_of_time == "years" else c for c in new.columns
    )
    new = replace(new, columns=columns)
    return with_uncertainty(new, known=vague)


def values_like(posterior: Posterior, new: Records, dates: DateOptions) -> list[Array]:
    """Return the cells of new records, coded as the fitted ones; NaN for columns they lack."""
    old = posterior.records
    present = {column.name for column in new.columns}
    values = []
    columns = zip(posterior.names, posterior.values, posterior.lineage.kernels, strict=True)
    for name, cells, kernel in columns:
        if name in ("distances", "log_weights"):
            raise RecordsError(f"records known by their {name} cannot be placed; refit")
        if isinstance(kernel, Contacts):  # nobody said whom the new records met
            values.append(np.full((len(new), 1), np.nan))
            continue
        if name not in present:
            values.append(np.full((len(new), cells.shape[1]), np.nan))
            continue
        column, fitted = new.column(name), old.column(name)
        _check_alike(column, fitted)
        if column.kind == "date":
            values.append(date_cells(new, column, dates))
        elif fitted.projected:
            values.append(_projected(column, fitted))
        else:
            values.append(_recoded(column, fitted))
        if isinstance(kernel, Sticky):
            recoded = replace(column, values=values[-1], levels=fitted.levels)
            values[-1] = category_cells(recoded, kernel.levels)
        if isinstance(kernel, Drift) and kernel.ends:
            # Only where a new record begins matters: it has no children here.
            values[-1] = np.column_stack([values[-1], values[-1]])
        if isinstance(kernel, TransmittedSequence):
            dated = next(c for c in new.columns if c.kind == "date" and c.name in posterior.names)
            values[-1] = sequence_cells(date_cells(new, dated, dates), values[-1])
        if isinstance(kernel, GroupedDrift):
            groups = groups_like(new, old)
            assert groups is not None  # that kernel was fitted to groups
            values[-1] = with_groups(values[-1], groups)
    return values


def _projected(new: Column, old: Column) -> Array:
    """Return latitudes and longitudes as km from the centre of the old places alone.

    A centre of old and new places together would measure distances by the cosine of another
    latitude, and the answer for one new record would depend on the others.
    """

    def degrees(column: Column) -> tuple[Array, Array]:
        rows = [text.split(",") if text else ["nan", "nan"] for text in column.text]
        latitude, longitude = np.array(rows, dtype=np.float64).T
        return latitude, longitude

    return project(*degrees(new), about=degrees(old))


def groups_like(new: Records, old: Records) -> NDArray[np.intp] | None:
    """Return the groups of new records as positions among the old ones, −1 for unknown groups."""
    if old.groups is None:
        return None
    if new.groups is None:
        raise RecordsError("the fitted records are in groups; say which group each new one is in")
    place = {name: i for i, name in enumerate(old.group_names)}
    return np.array([place.get(new.group_names[g], -1) for g in new.groups], dtype=np.intp)


def _check_alike(new: Column, old: Column) -> None:
    """Refuse a column of new records that is not written as the fitted one was."""
    if new.kind != old.kind:
        raise RecordsError(
            f"column {new.name!r} is {new.kind} in the new records but {old.kind} in the fitted "
            "ones; write it in the same way"
        )
    if new.calendar != old.calendar and not np.isnan(new.values).all():
        ways = {True: "calendar dates", False: "numbers"}
        raise RecordsError(
            f"column {new.name!r} holds {ways[new.calendar]} in the new records but "
            f"{ways[old.calendar]} in the fitted ones; write it in the same way"
        )
    if new.projected != old.projected:
        ways = {True: "latitudes and longitudes", False: "plane coordinates"}
        raise RecordsError(
            f"place {new.name!r} holds {ways[new.projected]} in the new records but "
            f"{ways[old.projected]} in the fitted ones; write it in the same way"
        )


def _recoded(new: Column, old: Column) -> Array:
    """Return the cells of a new column in the codes of the old one, NaN for what it lacks.

    A level is found by its text; a whole number also as 3.0, as which columns with gaps come out
    of a data frame.
    """
    if old.kind == "sequence" and new.values.shape[1] != old.values.shape[1]:
        raise RecordsError(
            f"sequences must have {old.values.shape[1]} sites; got new ones of "
            f"{new.values.shape[1]}. Align them with the old ones"
        )
    if old.levels is None or new.levels == old.levels:
        return new.values
    levels = list(enumerate(old.levels))
    place = {_short(level): float(code) for code, level in levels}
    place |= {level: float(code) for code, level in levels}  # as written, before any other way
    found = [place.get(level, place.get(_short(level), np.nan)) for level in new.levels or ()]
    codes = np.array([*found, np.nan])
    missing = np.isnan(new.values)
    return codes[np.where(missing, len(codes) - 1, new.values).astype(np.intp)]


def _short(level: str) -> str:
    return level.removesuffix(".0") if is_number(level) else level

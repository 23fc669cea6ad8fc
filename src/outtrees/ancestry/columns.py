"""From the columns of a table to the kernels that say how each changes, and their cells."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees.errors import Message, Option, RecordsError
from outtrees.models.category import MOST_IN_SETS
from outtrees.models.columns import (
    ColumnKernel,
    Counts,
    Distances,
    Drift,
    GivenWeights,
    GroupedDrift,
    Reversion,
    Spots,
    Sticky,
    Substitution,
    Transmission,
    TransmittedSequence,
    Waiting,
)
from outtrees.models.columns.transmission import filled_letters, sequence_cells
from outtrees.models.place import are_spots, with_groups
from outtrees.records import Column, Records, read_matrix
from outtrees.records.matrix import in_order_of

Array = NDArray[np.float64]
_YES = {"1", "1.0", "true", "yes", "y", "t", "open", "censored"}


class ModelColumn(NamedTuple):
    """One column as the model sees it."""

    name: str
    kernel: ColumnKernel
    values: Array  # (T, D)


class DateOptions(NamedTuple):
    """How dates are read: see `Ancestry`."""

    until: str | None = None
    censored: str | None = None
    uncertainty: float = 0.0
    mean: float | None = None
    sd: float | None = None
    table: Any = None
    strict: bool = True
    ties: bool = True
    law: str = "gamma"


class TransmissionOptions(NamedTuple):
    """What is known of how an infection spreads and is sampled: see `Ancestry`."""

    generation_mean: float | None = None
    generation_sd: float | None = None
    delay_mean: float | None = None
    delay_sd: float | None = None
    substitution_rate: float | None = None
    sampled: float | None = None
    introduction_distance: float | None = None
    links: int | None = None


def model_columns(
    records: Records,
    dates: DateOptions,
    *,
    clock: bool,
    group_spread: bool,
    substitution: str,
    kernels: Mapping[str, ColumnKernel] | None = None,
    transmission: TransmissionOptions | None = None,
) -> list[ModelColumn]:
    """Return the kernel and the cells of every column that takes part.

    Numbers revert (with a clock they drift), places drift or go from spot to spot, categories and
    labels stick, counts are thinned, sequences are substituted, and children wait, unless `kernels`
    says otherwise. With `transmission`, dates are those of sampling, and sequences change with
    time.
    """
    given = _checked_kernels(records, kernels or {})
    date = _main_date(records, dates)
    has_dates = date is not None
    clock = clock and has_dates
    if group_spread:
        _check_group_spread(records)
    result = []
    for column in records.columns:
        if column.name in (dates.until, dates.censored):
            continue
        if column.kind == "date":
            values = date_cells(records, column, dates)
            kernel: ColumnKernel = _date_kernel(column, dates, transmission)
        elif column.kind == "continuous":
            walk = Drift(offset=False, clock=True)
            kernel, values = walk if clock else Reversion(stationary=has_dates), column.values
        elif column.kind == "place":
            kernel, values = _place_kernel(records, column, clock, group_spread)
        elif column.kind == "count":
            kernel, values = Counts(), column.values
        elif column.kind == "sequence":
            kernel, values = (
                _sequence_kernel(column, substitution, clock),
                column.values,
            )
            if transmission is not None and date is not None:
                kernel = TransmittedSequence(tuple(column.levels or ()))
                values = filled_letters(values, len(column.levels or ()))
                values = sequence_cells(date_cells(records, date, dates), values)
        else:
            kernel, values = Sticky(tuple(column.levels or ())), column.values
        kernel = given.get(column.name, kernel)
        if isinstance(kernel, Sticky):
            values = category_cells(column, kernel.levels)
        if np.isnan(values).all():
            raise RecordsError(
                f"column {column.name!r} has no value at all; fill it or ignore it (",
                Option("kinds", {column.name: "ignore"}),
                ")",
                column=column.name,
            )
        result.append(ModelColumn(column.name, kernel, values))
    return result


def _checked_kernels(
    records: Records, kernels: Mapping[str, ColumnKernel]
) -> Mapping[str, ColumnKernel]:
    free = [c.name for c in records.columns if c.kind not in ("date", "sequence")]
    for name in kernels:
        if name not in free:
            raise RecordsError(
                f"kernels must name columns that are neither dates nor sequences; got {name!r}. "
                f"Choose among {', '.join(free)}.",
                column=name,
            )
    return kernels


def _date_kernel(
    column: Column, dates: DateOptions, transmission: TransmissionOptions | None
) -> Waiting:
    whole = _in_whole_units(column)
    if transmission is not None:
        return Transmission(unit=1.0 if whole else 0.0, **transmission._asdict())
    return Waiting(
        mean=dates.mean,
        sd=dates.sd,
        table=dates.table,
        strict=dates.strict,
        unit=1.0 if whole else 0.0,
        ties=dates.ties and whole,
        law=dates.law,
    )


def _place_kernel(
    records: Records, column: Column, clock: bool, group_spread: bool
) -> tuple[ColumnKernel, Array]:
    """Return how places change, and their cells: from spot to spot if many records share them."""
    ends, values = column.end_values is not None, place_cells(column)
    if group_spread and records.groups is not None:
        kernel = GroupedDrift(offset=False, clock=clock, ends=ends)
        return kernel, with_groups(values, records.groups)
    if not (ends or clock) and are_spots(values):
        return Spots(), values
    return Drift(offset=False, clock=clock, ends=ends), values


def _sequence_kernel(column: Column, substitution: str, clock: bool) -> Substitution:
    levels = tuple(column.levels or ())
    model = substitution if levels == ("A", "C", "G", "T") else "JC69"
    return Substitution(levels, model, clock)


def _check_group_spread(records: Records) -> None:
    needs = Message(
        Option("group_spread", True),
        " needs a column of groups and one of places, but there are no ",
    )
    if records.groups is None:
        raise RecordsError(
            needs, "groups; name their column, for example ", Option("kinds", {"site": "group"})
        )
    if not any(column.kind == "place" for column in records.columns):
        raise RecordsError(needs, "places; call their columns x and y, or lat and lon")


def _in_whole_units(column: Column) -> bool:
    """Return whether dates count whole days (or whatever units they are in).

    The middle of a month or a year may be half a day off; its first day never is.
    """
    days = column.values[:, 0]
    first = days if column.uncertainty is None else days - column.uncertainty
    return bool(((days == np.round(days)) | (first == np.round(first)) | np.isnan(days)).all())


def _main_date(records: Records, dates: DateOptions) -> Column | None:
    """Return the one column of dates, None if there is none."""
    aside = (dates.until, dates.censored)
    found = [c for c in records.columns if c.kind == "date" and c.name not in aside]
    if len(found) > 1:
        names = ", ".join(repr(c.name) for c in found)
        ends = ("; or say ", Option("until", "…"), " if one is when records ended")
        raise RecordsError(
            f"one column of dates is expected, but {names} are dates; keep the one from which "
            "children's dates are counted and give the others another kind, for example ",
            Option("kinds", {found[1].name: "ignore"}),
            *(ends if dates.until is None else ()),
            column=found[1].name,
        )
    return found[0] if found else None


def category_cells(column: Column, levels: Sequence[str]) -> Array:
    """Return the category of each record (T, 1); of several, the set as `members` reads it.

    Unknown is also a set of all levels, which says nothing, one with a state that is not among
    them, and any of a column with more than 50.
    """
    values, C = column.values.copy(), len(levels)
    bit = {level: 1 << i for i, level in enumerate(levels)}
    for v, states in enumerate(column.states):
        if len(states) > 1 and C <= MOST_IN_SETS:
            mask = sum(bit.get(state, 0) for state in set(states))
            if mask < (1 << C) - 1 and mask.bit_count() == len(set(states)):
                values[v] = C + mask
    return values


def place_cells(column: Column) -> Array:
    """Return the place of each record (T, D), or its first and last place (T, 2 D)."""
    if column.end_values is None:
        return column.values
    return np.column_stack([column.values, column.end_values])


def date_cells(records: Records, column: Column, dates: DateOptions) -> Array:
    """Return (date, end, half-width, open) of each record (T, 4), as `Waiting` reads it."""
    T = len(records)
    start = column.values[:, 0]
    end = start.copy()
    if dates.until is not None:
        until = records.column(dates.until)
        if until.kind != "date" or until.calendar != column.calendar:
            raise RecordsError(
                Option("until", dates.until),
                f" is expected to be a column of dates like {column.name!r}; "
                "write both as calendar dates or both as numbers",
                column=dates.until,
            )
        last = until.values[:, 0]
        end = np.where(np.isnan(last), start, last)
        before = np.flatnonzero(end < start)
        if len(before):
            raise RecordsError(
                f"record {records.ids[before[0]]!r} ends ({dates.until!r}) before it begins "
                f"({column.name!r}); correct one of the two"
            )
    width = np.full(T, float(dates.uncertainty))
    if column.uncertainty is not None:
        width = width + column.uncertainty
    still_open = np.zeros(T)
    if dates.censored is not None:
        flags = records.column(dates.censored).text
        still_open = np.array([float(text.strip().lower() in _YES) for text in flags])
    return np.column_stack([start, end, width, still_open])


# Matrices ----------------------------------------------------------------------------------


def matrix_column(name: str, given: Any, records: Records) -> ModelColumn:
    """Return the column of distances or log-weights, in the order of the records."""
    T = len(records)
    ids, matrix = _named_matrix(given, unknown=name == "distances")
    if ids is not None:
        title = os.path.basename(given) if isinstance(given, str | os.PathLike) else name
        matrix = in_order_of(records.ids, ids, matrix, title)
    if matrix.shape != (T, T):
        raise RecordsError(
            f"{name} is expected in shape {(T, T)}, [child, parent]; got {matrix.shape}"
        )
    if name == "distances":
        if (matrix < 0).any() or np.isinf(matrix).any():
            raise RecordsError(
                Option("distances"),
                " must be finite and ≥ 0, or NaN (unknown); forbid the pairs that are too far "
                "apart (",
                Option("forbidden"),
                ")",
            )
        kernel: Any = Distances(matrix)
    else:
        if np.isnan(matrix).any() or np.isposinf(matrix).any():
            raise RecordsError(Option("log_weights"), " must be below +inf and not NaN")
        kernel = GivenWeights(matrix)
    return ModelColumn(name, kernel, np.arange(T, dtype=np.float64)[:, None])


def _named_matrix(given: Any, unknown: bool) -> tuple[tuple[str, ...] | None, Array]:
    """Return identities and matrix; None for an array, which is in the order of the records.

    A data frame with names on both sides is joined by these, as a file is. The matrix is a copy:
    answers are computed when asked for, and must not change with the caller's array.
    """
    if isinstance(given, (str, os.PathLike)):
        return read_matrix(given, unknown=unknown)
    matrix = np.array(given, dtype=np.float64)
    if not (hasattr(given, "index") and hasattr(given, "columns") and matrix.ndim == 2):
        return None, matrix
    down, across = ([str(name) for name in side] for side in (given.index, given.columns))
    if down == across == [str(i) for i in range(len(down))]:  # mere positions
        return None, matrix
    if len(set(down)) < len(down) or sorted(down) != sorted(across):
        raise RecordsError(
            "a data frame of distances or log-weights is expected to name each record once in its "
            "index and once in its columns; give an array if it is in the order of the records"
        )
    place = {name: v for v, name in enumerate(across)}
    return tuple(down), matrix[:, [place[name] for name in down]]

"""Which columns count as evidence of ancestry: one date, and nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from math import lgamma, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.text import quoted
from outtrees.records.column import Array, Column, is_number
from outtrees.records.names import date_rank, names_area, words
from outtrees.records.records import Records

ASKED = "asked for"
_LOG_CHANCE = log(1e-4)  # a coincidence less probable than this is none
_LEAST_ROWS = 8
# Records that begin where others end: how many there are, which share of them, how well numbers of
# beginnings and ends go together, and by how many deviations better than after exchanges.
_LEAST_ENDS, _MOST_MET, _GO_TOGETHER, _EXCHANGES, _FAR_ERRORS = 20, 0.8, 0.7, 40, 4.0
_AS_FINE = 0.7  # of the entropy of a category: a place that keeps so much of it says more
# Of one-to-one columns the first of these stays: places and numbers also say how near.
_ORDER = ("date", "place", "continuous", "count", "categorical")


def as_evidence(records: Records, aside: Collection[str | None] = ()) -> Records:
    """Return the records with the columns that are evidence of descent, each fact once.

    - Of several columns of dates one stays: one that was asked for, else by name onset before
      sampling before report before others before ends, else the first.
    - Numbers or dates at which records ended become `Records.until` if others begin where they end,
      as daughters do where a cell divides; see `begin_where_others_end`.
    - A column called for example days_uncertain becomes the uncertainty of the dates.
    - Of two columns of which one follows from the other by definition one stays. Classes of a
      number and weeks of a date go. Of a household and its place the place stays, unless it is
      much coarser. Of a county and a state the finer one stays if most records share its values
      with others, else the coarser.

    What is left out is in `Records.ignored`, with the reason in `Records.roles`. Columns that were
    asked for stay, and so do those that are named in ``aside`` (ends of records, marks of censored
    dates), labels and sequences. O(columns² T log T).

    Examples
    --------
    >>> from outtrees.records import read_records
    >>> records = read_records({
    ...     "case": list("abcdef"), "reported": [f"2020-03-0{d}" for d in range(2, 8)],
    ...     "onset": [f"2020-03-0{d}" for d in range(1, 7)],
    ... })
    >>> found = as_evidence(records)
    >>> [column.name for column in found.columns], found.ignored
    (['onset'], ('reported',))
    """
    records = _with_ends(records, {name for name in aside if name is not None})
    stay = {name for name in (*aside, records.until) if name is not None}
    records = _one_date(records, stay)
    records = with_uncertainty(records, stay)
    return _each_once(records, stay)


# Dates ---------------------------------------------------------------------------------------


def _one_date(records: Records, stay: Collection[str]) -> Records:
    dates = [c for c in records.columns if c.kind == "date" and c.name not in stay]
    if len(dates) < 2:
        return records
    main = min(dates, key=lambda c: (not c.reason.startswith(ASKED), date_rank(c.name)))
    reasons = {}
    for column in dates:
        if column is main or _protected(column, stay):  # two that are asked for contradict
            continue
        reason = f"another date; {quoted(main.name)} is used, choose with kind date (--date)"
        if records.until is None and _ends(main, column):
            reason += f". It is never before {quoted(main.name)}: if records ended then, name it "
            reason += "as until (--until)"
        reasons[column.name] = reason
    return _without(records, reasons)


def _with_ends(records: Records, stay: Collection[str]) -> Records:
    """Return the records with a column of ends named as such, if others begin where records end."""
    dates = [c for c in records.columns if c.kind == "date" and c.name not in stay]
    if records.until is not None or stay or not dates:
        return records
    main = min(dates, key=lambda c: (not c.reason.startswith(ASKED), date_rank(c.name)))
    groups = records.groups if records.groups is not None else np.zeros(len(records), dtype=np.intp)
    for column in records.columns:
        like = column.kind == "date" and column.calendar == main.calendar
        like |= column.kind in ("continuous", "count") and not main.calendar
        if column is main or not like or column.reason.startswith(ASKED):
            continue
        if begin_where_others_end(main.values[:, 0], column.values[:, 0], groups):
            reason = f"ends of records: others begin ({quoted(main.name)}) where one ended"
            ends = replace(column, kind="date", reason=reason)
            columns = tuple(ends if c is column else c for c in records.columns)
            return replace(records, columns=columns, until=column.name)
    return records


def begin_where_others_end(begin: Array, end: Array, groups: NDArray[np.intp]) -> bool:
    """Return whether records begin at the ends of others, as daughters of cells that divide do.

    All end after they began; most that do not begin first do so at, or one unit after, the end of
    another one of their group; and as many begin at a time as ended then: the two numbers go
    together, far more than after the lengths of records were exchanged at random.

    Examples
    --------
    >>> mother = np.array([-1, *[i // 2 for i in range(62)]])
    >>> length, begin = 5.0 + np.arange(63) * 7 % 5, np.zeros(63)
    >>> for cell in range(1, 63):
    ...     begin[cell] = begin[mother[cell]] + length[mother[cell]] + 1
    >>> one = np.zeros(63, dtype=np.intp)
    >>> begin_where_others_end(begin, begin + length, one)
    True
    >>> begin_where_others_end(begin, begin + length[::-1], one)
    False
    """
    known = ~np.isnan(begin) & ~np.isnan(end)
    begin, end, groups = begin[known], end[known], groups[known]
    if len(begin) < _LEAST_ENDS or (end < begin).any() or (end == begin).all():
        return False
    gaps = np.diff(np.unique(begin))
    if not len(gaps):
        return False
    unit = float(gaps.min())
    later = begin > begin.min()

    def together(length: Array) -> tuple[float, float]:
        """Return which share begins where another ended, and how well the numbers go together."""
        born = _counted(groups, np.round(begin / unit))
        ended = _counted(groups, np.round((begin + length) / unit))
        both = sorted(born.keys() | ended.keys() | {(g, t + 1) for g, t in ended})
        last = max(t for _, t in born)
        # Begun at a time, and ended then or one unit before.
        pairs = [
            (born.get(k, 0), ended.get(k, 0), ended.get((k[0], k[1] - 1), 0))
            for k in both
            if k[1] <= last
        ]
        b, now, before = np.array(pairs, dtype=np.float64).T
        met = float(b[(now > 0) | (before > 0)].sum()) / max(float(later.sum()), 1.0)
        best = max(float(np.corrcoef(b, e)[0, 1]) if e.std() > 0 else 0.0 for e in (now, before))
        return met, best

    if not later.any() or begin.std() == 0:
        return False
    met, near = together(end - begin)
    if met < _MOST_MET or near < _GO_TOGETHER:
        return False
    rng = np.random.default_rng(0)
    others = [together(rng.permutation(end - begin))[1] for _ in range(_EXCHANGES)]
    return near > float(np.mean(others)) + _FAR_ERRORS * float(np.std(others))


def _counted(groups: NDArray[np.intp], times: Array) -> Counter[tuple[int, float]]:
    return Counter(zip(groups.tolist(), times.tolist(), strict=True))


def _ends(begin: Column, end: Column) -> bool:
    """Return whether a column of dates may say when records ended."""
    if date_rank(end.name) < 3 or begin.calendar != end.calendar:
        return False
    first, last = begin.values[:, 0], end.values[:, 0]
    known = ~np.isnan(first) & ~np.isnan(last)
    return bool(known.any() and (last[known] >= first[known]).all())


def with_uncertainty(
    records: Records, stay: Collection[str] = (), known: Collection[str] = ()
) -> Records:
    """Return the records with a column of half-widths moved to the dates that it is about.

    Found by its name, or among the `known` ones.
    """
    dates = [c for c in records.columns if c.kind == "date" and c.name not in stay]
    for column in records.columns:
        named = {"uncertain", "uncertainty"} & set(words(column.name))
        meant = column.name in known or (named and not _protected(column, stay))
        if not meant or len(dates) != 1:
            continue
        cells = [cell or "0" for cell in column.text]
        if column.values.shape[1] != 1 or not all(is_number(cell) for cell in cells):
            continue
        widths = np.array([float(cell) for cell in cells])
        if (widths < 0).any() or not np.isfinite(widths).all():
            continue
        date = dates[0]
        known = ~np.isnan(date.values[:, 0])
        total = np.where(known, widths, 0.0)
        if date.uncertainty is not None:
            total = total + date.uncertainty
        unit = "days" if date.calendar else "units"
        columns = tuple(
            replace(c, uncertainty=total) if c is date else c
            for c in records.columns
            if c is not column
        )
        role = (column.name, "uncertainty", f"± {unit} of {quoted(date.name)}, by its name")
        return replace(records, columns=columns, roles=(*records.roles, role))
    return records


# Columns that follow from others -------------------------------------------------------------


class _Facet(NamedTuple):
    """A column as far as equality and order go."""

    column: Column
    codes: NDArray[np.intp]  # (T,), −1 where missing
    order: Array | None  # (T,), if its values have one


def _each_once(records: Records, stay: Collection[str]) -> Records:
    facets = [_facet(c) for c in records.columns if c.kind in _ORDER and c.name not in stay]
    gone: dict[str, str] = {}
    for a, b in _related(facets):
        if a.column.name in gone or b.column.name in gone:
            continue
        loser, winner = (a, b) if _prefers_second(a, b) else (b, a)
        if _protected(loser.column, stay):
            loser, winner = winner, loser
        if _protected(loser.column, stay) or loser.column.kind == "date":
            continue
        gone[loser.column.name] = _why(loser, winner, a)
    return _without(records, gone)


def _why(loser: _Facet, winner: _Facet, finer: _Facet) -> str:
    name = quoted(winner.column.name)
    if _determines(winner, loser) and _determines(loser, winner):
        return f"one-to-one with {name}, counted once"
    if winner is finer:
        return f"follows from {name}, counted once"
    return f"{name} follows from it and says more, counted once"


def _related(facets: list[_Facet]) -> Iterator[tuple[_Facet, _Facet]]:
    """Yield (a, b) wherever b follows from a, the finest first."""
    finest = sorted(
        facets, key=lambda f: (-_entropy(f.codes[f.codes >= 0]), _ORDER.index(f.column.kind))
    )
    for i, a in enumerate(finest):
        for b in finest[i + 1 :]:
            if b.column.kind != "date" and _follows(a, b):
                yield a, b


def _follows(a: _Facet, b: _Facet) -> bool:
    """Return whether b follows from a by definition.

    A household whose members have one genotype is no definition: they infected each other. So a
    category follows only from the numbers that it divides into classes, or, if it is a ward, a
    county, …, from a place or a smaller area. A class of a school has pupils of one age, but they
    also meet: it does not follow from numbers.
    """
    kind_a, kind_b = a.column.kind, b.column.kind
    if kind_a == "date":
        return _rises_with(a, b)
    if kind_b == "place":
        return _determines(a, b)
    if kind_a in ("continuous", "count"):
        if kind_b != "categorical":
            return _rises_with(a, b)
        return not names_area(b.column.name) and _classes(a, b)
    if kind_b == "categorical" and not names_area(b.column.name):
        return False
    if kind_a == "categorical" and not names_area(a.column.name):
        return False
    return _determines(a, b)


def _prefers_second(a: _Facet, b: _Facet) -> bool:
    """Return whether b is to stay, where b follows from a."""
    kind_a, kind_b = a.column.kind, b.column.kind
    if _determines(b, a):
        return _ORDER.index(kind_b) < _ORDER.index(kind_a)
    if kind_a in ("date", "place"):
        return False
    if kind_a != "categorical":
        return kind_b == "place"  # the number was a name
    both = (a.codes >= 0) & (b.codes >= 0)
    if kind_b != "categorical":
        return _entropy(b.codes[both]) >= _AS_FINE * _entropy(a.codes[both])
    counts = np.bincount(a.codes[both])
    return bool(counts[counts > 1].sum() < both.sum() / 2)


def _facet(column: Column) -> _Facet:
    known = ~np.isnan(column.values).any(axis=1)
    codes = np.full(len(column), -1, dtype=np.intp)
    if known.any():
        codes[known] = np.unique(column.values[known], axis=0, return_inverse=True)[1].ravel()
    order: Array | None = None
    if column.kind in ("continuous", "count", "date"):
        order = column.values[:, 0]
    elif column.levels and all(is_number(level) for level in column.levels):
        order = np.full(len(column), np.nan)
        sizes = np.array([float(level) for level in column.levels])
        order[known] = sizes[column.values[known, 0].astype(np.intp)]
    return _Facet(column, codes, order)


def _both(a: _Facet, b: _Facet) -> NDArray[np.bool_] | None:
    """Return the rows in which both are known, None if b is known elsewhere as well."""
    both = (a.codes >= 0) & (b.codes >= 0)
    if both.sum() < max(_LEAST_ROWS, 0.95 * (b.codes >= 0).sum()):
        return None
    return np.asarray(both)


def _determines(a: _Facet, b: _Facet) -> bool:
    """Return whether equal values of a have equal values of b, more than chance would have it."""
    both = _both(a, b)
    if both is None:
        return False
    one, two = a.codes[both], b.codes[both]
    n_pairs = len(np.unique(np.column_stack([one, two]), axis=0))
    n_values = len(np.unique(one))
    if n_pairs != n_values or len(np.unique(two)) < 2:
        return False
    shares = np.bincount(two) / len(two)
    repeats = len(one) - n_values
    return bool(repeats * log(float((shares**2).sum())) < _LOG_CHANCE)


def _classes(a: _Facet, b: _Facet) -> bool:
    """Return whether the categories b are intervals of the numbers a."""
    both = _both(a, b)
    if both is None or a.order is None or a.column.kind == "categorical":
        return False
    if b.column.kind != "categorical":
        return False
    numbers, classes = a.order[both], b.codes[both]
    order = np.lexsort([classes, numbers])
    runs = 1 + int((np.diff(classes[order]) != 0).sum())
    sizes = np.unique(classes, return_counts=True)[1]
    ways = lgamma(len(classes) + 1) - sum(lgamma(size + 1) for size in sizes)
    return len(sizes) > 1 and runs == len(sizes) and lgamma(runs + 1) - ways < _LOG_CHANCE


def _rises_with(a: _Facet, b: _Facet) -> bool:
    """Return whether the numbers b rise (or fall) with a throughout: weeks of dates, for example.

    As b has fewer values, equal a have to have equal b.
    """
    both = _both(a, b)
    if both is None or a.order is None or b.order is None:
        return False
    first, second = a.order[both], b.order[both]
    if min(len(np.unique(first)), len(np.unique(second))) < _LEAST_ROWS / 2:
        return False
    pairs = np.unique(np.column_stack([first, second]), axis=0)
    steps = np.diff(pairs[:, 1])
    alike = len(pairs) == len(np.unique(first))
    return bool(alike and ((steps >= 0).all() or (steps <= 0).all()))


def _entropy(codes: NDArray[np.intp]) -> float:
    if not len(codes):
        return 0.0
    shares = np.unique(codes, return_counts=True)[1] / len(codes)
    return float(-(shares * np.log(shares)).sum())


def _protected(column: Column, stay: Collection[str]) -> bool:
    return column.name in stay or column.reason.startswith(ASKED)


def _without(records: Records, reasons: dict[str, str]) -> Records:
    if not reasons:
        return records
    return replace(
        records,
        columns=tuple(c for c in records.columns if c.name not in reasons),
        ignored=(*records.ignored, *reasons),
        roles=(*records.roles, *((name, "ignored", why) for name, why in reasons.items())),
    )

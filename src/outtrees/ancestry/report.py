"""What the report shows of a fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outtrees import __version__
from outtrees._common.text import counted, short_number
from outtrees.ancestry.integration import intervals_table, is_integrated
from outtrees.ancestry.nearest import NOTHING, NearestSampled, number_drawn
from outtrees.ancestry.outbreak import ENOUGH, Outbreak
from outtrees.ancestry.posterior import Posterior
from outtrees.ancestry.spread import Spread, children_by_date
from outtrees.ancestry.support import best_parents, log_density, ranked, readings_table
from outtrees.candidates.choices import log_sums
from outtrees.io.tables import Table
from outtrees.records import Column, Records
from outtrees.trees.mixture import OutTreeMixture
from outtrees.views.report_data import (
    MAX_SITE_LETTERS,
    MAX_WHAT_IF,
    ReportBeside,
    ReportColumn,
    ReportData,
    ReportEdge,
    ReportInterval,
    ReportReading,
    ReportSeries,
    ReportSites,
    ReportWeights,
)

Array = NDArray[np.float64]

_LEAST_SUPPORT = 1e-3  # candidates below this are not in the report
_ROOM = 8_000_000  # bytes of log-weights in the report
# Nats below a record's best choice, in every member, of edges that "what if" leaves out: together
# they hold less than 1e-20 of the probability.
_FAR = 60.0
_NOTED, _MOST_READINGS = 0.02, 8  # weight of a reading in the report, and their number
_DRAWN = "Medians and intervals that hold 95 % of the draws that all supports average over."
_OUTBREAKS = (
    "Medians and intervals that hold 95 % of the drawn outbreaks; times in the unit of the dates."
)
_INTERVALS = (
    "Intervals hold 95 %, by the curvature of the log-posterior; times in the unit of the dates."
)
_CHILDREN = (
    "Mean number of children by the week of the parent's date, among the records of this table; "
    "intervals hold 95 % of drawn trees. Those of the last weeks may have children that are not in "
    "the table yet."
)
_TREES, _MANY_RECORDS = 200, 2000  # drawn for these intervals; records above which none are drawn


def report_data(
    posterior: Posterior,
    *,
    parameters: Sequence[str],
    warnings: Sequence[str],
    trace: Sequence[float],
    seed: Any = None,
    command: str | None = None,
    spread: Spread | None = None,
) -> ReportData:
    """Return what the report shows; `spread` is what the transmission model tells, if it is one."""
    records, trees = posterior.records, posterior.trees
    provenance = {
        "version": f"outtrees {__version__}",
        "seed": "none" if seed is None else str(seed),
        **({"command": command} if command else {}),
        **{f"sha256 of {name}": digest for name, digest in records.provenance.items()},
    }
    intervals, series = _spread(spread)
    series = series or _children_by_week(posterior)
    note = _INTERVALS if intervals else ""
    if intervals and isinstance(trees, Outbreak):
        note = _OUTBREAKS
    elif not intervals and is_integrated(posterior):
        table, note = intervals_table(posterior, 0.95), _DRAWN
        intervals = [ReportInterval(*row) for row in table.rows()]
    return ReportData(
        title=f"Ancestry of {counted(len(records), 'record')}",
        ids=list(records.ids),
        columns=[
            *map(_report_column, records.columns),
            *_group_column(records),
            *_spread_columns(posterior, spread),
        ],
        edges=_report_edges(posterior),
        evidence_names=list(posterior.names),
        consensus=posterior.consensus.parents,
        mode=posterior.mode.parents,
        dates=posterior.days,
        calendar=posterior.calendar,
        root_probability=posterior.trees.root_marginals,
        expected_children=posterior.expected_children,
        log_density=log_density(posterior),
        parameters=parameters,
        warnings=warnings,
        trace=trace,
        provenance=provenance,
        weights=_report_weights(posterior),
        readings=_report_readings(posterior),
        intervals=intervals,
        interval_note=note,
        series=series,
        fitted=not is_integrated(posterior),
        drawn=isinstance(trees, NearestSampled),
        draws=trees.draws.parents if isinstance(trees, Outbreak) else None,
        enough=ENOUGH,
    )


def _report_weights(posterior: Posterior) -> ReportWeights | None:
    """Return the weights that "what if" needs, of as many members as are worth their room."""
    T, edges, trees = len(posterior.records), posterior.edges, posterior.trees
    if T > MAX_WHAT_IF or isinstance(trees, Outbreak):
        return None
    nearest = trees if isinstance(trees, NearestSampled) else None
    parts: Sequence[Any] = (trees,)
    chances = np.ones(1)
    if isinstance(trees, OutTreeMixture | NearestSampled):
        parts, chances = trees.parts, np.asarray(trees.weights)
    rank = np.arange(T) if nearest is None else np.argsort(nearest.order)
    order = np.lexsort((rank[edges.parent], edges.child))
    child, number = edges.child[order], np.bincount(edges.child, minlength=T)
    first = np.concatenate([[0], np.cumsum(number)[:-1]])[number > 0]

    def relative(part: Any) -> tuple[Array, Array, Array]:
        """Return log-weights relative to each record's best choice, and the chances of descent."""
        if nearest is not None:
            log_weight, log_root, direct = nearest.of_rows(part)
        else:
            log_weight, log_root, direct = part.log_weight, part.log_root, np.ones(len(child))
        log_weight, top = log_weight[order], log_root.copy()
        if len(first):
            best = np.maximum.reduceat(log_weight, first)
            top[number > 0] = np.maximum(top[number > 0], best)
        top = np.where(np.isfinite(top), top, 0.0)
        return log_weight - top[child], log_root - top, direct[order]

    kept = np.zeros(len(child), dtype=bool)
    for part in parts:
        kept |= relative(part)[0] > -_FAR
    most = int(_ROOM / ((8 if nearest is None else 16) * max(int(kept.sum()), 1)))
    if most == 0:
        return None
    used = np.argsort(-chances, kind="stable")[:most]
    rows = [relative(parts[m]) for m in used]
    log_weight, log_root, direct = (np.array(values) for values in zip(*rows, strict=True))
    log_weight[:, ~kept] = -np.inf
    beside = None
    if nearest is not None:
        kept[:] = True  # from beside others, records descend from those that weigh nothing as well
        beside = ReportBeside(direct, nearest.order, number_drawn(T), NOTHING)
    return ReportWeights(
        child[kept],
        edges.parent[order][kept],
        log_weight[:, kept],
        log_root,
        chances[used] / chances[used].sum(),
        edges.groups,
        posterior.roots,
        float(chances[used].sum()),
        beside,
    )


def _report_readings(posterior: Posterior) -> list[ReportReading]:
    """Return the readings with a noteworthy weight, each with its own best parents."""
    table = readings_table(posterior)
    found: list[ReportReading] = []
    for i, reading in enumerate(posterior.readings):
        if reading.weight < _NOTED or len(found) == _MOST_READINGS:
            continue
        mean, sd = table["waiting_mean"][i], table["waiting_sd"][i]
        name = f"reading {i + 1}"
        if np.isfinite(mean):
            name = f"wait {short_number(mean)} ± {short_number(sd, 2)} {posterior.unit_of_time}"
        parents, supports = best_parents(posterior, posterior.reading_supports(i))
        found.append(ReportReading(name, float(reading.weight), parents, supports))
    return found if len(found) > 1 else []


def _spread(spread: Spread | None) -> tuple[list[ReportInterval], list[ReportSeries]]:
    """Return the parameters of the transmission model, and children by week, for the report."""
    if spread is None:
        return [], []
    table = spread.parameters
    names = ("parameter", "estimate", "lower", "upper", "given")
    rows = zip(*(table[name] for name in names), strict=True)
    intervals = [
        ReportInterval(str(name).replace("_", " "), estimate, lower, upper, bool(given))
        for name, estimate, lower, upper, given in rows
    ]
    return intervals, _children_series(spread.reproduction, "sampled children of one case")


def _spread_columns(posterior: Posterior, spread: Spread | None) -> Iterator[ReportColumn]:
    """Yield when each record was infected, and how many people nobody sampled lie before it."""
    if spread is None:
        return
    table = spread.infections
    days = [None if cell == "" else _day(cell) for cell in table["infected"]]
    cells = zip(*(table[name] for name in ("infected", "lower", "upper")), strict=True)
    texts = ["" if row[0] == "" else "{} ({} to {})".format(*map(_cell, row)) for row in cells]
    yield ReportColumn("infected (95 % interval)", "date", days, texts)
    row = {name: i for i, name in enumerate(posterior.records.ids)}
    between: list[float | None] = [None] * len(row)
    links = spread.links
    for child, parent, number in zip(
        links["child"], links["parent"], links["unsampled"], strict=True
    ):
        if row[parent] == posterior.consensus.parents[row[child]]:
            between[row[child]] = number
    shown = ["" if number is None else f"{number:.1f}" for number in between]
    yield ReportColumn("unsampled people since the parent", "continuous", between, shown)


def _cell(cell: Any) -> str:
    return cell if isinstance(cell, str) else short_number(cell)


def _children_by_week(posterior: Posterior) -> list[ReportSeries]:
    """Return the mean number of children by week, where dates are calendar dates."""
    dates = posterior.lineage.dates
    if dates is None or posterior.roots == "single" or len(posterior.records) > _MANY_RECORDS:
        return []
    if not posterior.records.column(posterior.names[dates]).calendar:
        return []
    rng = np.random.default_rng(0)  # a report of the same fit is the same
    table = children_by_date(posterior, dates, True, _TREES, rng)
    return _children_series(table, "children of one record")


def _children_series(table: Table, what: str) -> list[ReportSeries]:
    columns = [[_day(cell) for cell in table["from"]]]
    columns += [table[name] for name in ("children", "lower", "upper")]
    points = list(zip(*columns, strict=True))
    series = ReportSeries(f"{what}, by the parent's date", points, _CHILDREN)
    return [series] if len(points) > 2 else []


def _day(cell: Any) -> float:
    """Return a date of a table as days."""
    if isinstance(cell, str):
        return float((date.fromisoformat(cell) - date(1970, 1, 1)).days)
    return float(cell)


def _report_column(column: Column) -> ReportColumn:
    values: list[Any]
    if column.kind in ("categorical", "label", "sequence"):
        values = [text or None for text in column.text]
    else:
        first = column.values[:, 0]
        values = [None if np.isnan(v) else float(v) for v in first]
    found = ReportColumn(column.name, column.kind, values, list(column.text))
    if column.kind == "place" and column.values.shape[1] >= 2:
        places = column.values[:, :2].tolist()
        points = [None if np.isnan(p).any() else (p[0], p[1]) for p in places]
        return replace(found, points=points, unit="km" if column.projected else "")
    if column.kind == "sequence":
        return replace(found, sites=report_sites(column))
    return found


def _group_column(records: Records) -> Iterator[ReportColumn]:
    """Yield the group of each record, if records have groups."""
    if records.groups is None:
        return
    name = next((name for name, role, _ in records.roles if role == "group"), "group")
    groups = [records.group_names[group] for group in records.groups]
    yield ReportColumn(name, "categorical", groups, groups)


def report_sites(column: Column) -> ReportSites | None:
    """Return sequences as differences from the commonest letters; None if they are too many."""
    levels = [*(column.levels or ()), "?"]
    if any(len(level) != 1 for level in levels):
        return None
    unread = len(levels) - 1
    codes = np.where(np.isnan(column.values), unread, column.values).astype(np.intp)  # (T, sites)
    known = codes < unread
    counts = np.array([(codes == level).sum(axis=0) for level in range(unread)])
    common = np.where(known.any(axis=0), counts.argmax(axis=0), unread)
    differs = codes != common
    is_read = np.asarray(known.any(axis=1))
    differs[~is_read] = False
    if differs.sum() + len(common) > MAX_SITE_LETTERS:
        return None
    letters = np.array(levels)
    differences: list[list[tuple[int, str]] | None] = []
    for row in range(len(codes)):
        if not is_read[row]:
            differences.append(None)
            continue
        at = np.flatnonzero(differs[row])
        runs = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1) if len(at) else []
        differences.append([(int(run[0]), "".join(letters[codes[row, run]])) for run in runs])
    return ReportSites("".join(letters[common]), differences)


def _report_edges(posterior: Posterior) -> list[ReportEdge]:
    """Return the candidates worth showing, with what each column says for them."""
    T = len(posterior.records)
    order = np.argsort(posterior.edges.child, kind="stable")
    child = posterior.edges.child[order]
    number = np.bincount(child, minlength=T)
    mean = np.full((len(posterior.names), T), -np.inf)  # log of the average candidate's p
    has = number > 0
    for c, row in enumerate(posterior.log_columns):
        mean[c, has] = log_sums(child, row[order], T)[has] - np.log(number[has])
    best = ranked(posterior)
    shown = best.support >= _LEAST_SUPPORT
    for tree in (posterior.consensus, posterior.mode):  # whose edges are always shown
        shown |= tree.parents[best.child] == best.parent
    child, parent, edge = best.child[shown], best.parent[shown], best.edge[shown]
    listed = parent >= 0
    own = posterior.log_alone[:, child]
    own[:, listed] = posterior.log_columns[:, edge[listed]]
    # Without any candidate there is nothing to compare with.
    compared = np.isfinite(mean[:, child])
    evidence = np.where(compared, own - np.where(compared, mean[:, child], 0.0), 0.0)
    rows = zip(
        child.tolist(),
        parent.tolist(),
        best.support[shown].tolist(),
        map(tuple, evidence.T.tolist()),
        strict=True,
    )
    return [ReportEdge(*row) for row in rows]

"""What a fit says to people: its parameters in sentences, its warnings, and the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from outtrees import __version__
from outtrees._common.text import counted, short_number
from outtrees.ancestry.columns import DateOptions
from outtrees.ancestry.integration import intervals_table, is_integrated
from outtrees.ancestry.learning import waiting_means
from outtrees.ancestry.nearest import NOTHING, NearestSampled, number_drawn
from outtrees.ancestry.outbreak import ENOUGH, Outbreak
from outtrees.ancestry.posterior import Posterior
from outtrees.ancestry.spread import Spread, children_by_date
from outtrees.ancestry.support import best_parents, log_density, ranked_parents, readings_table
from outtrees.candidates.choices import log_sums
from outtrees.candidates.dropped_mass import DroppedMass
from outtrees.candidates.plan import MUCH_DROPPED
from outtrees.errors import Message, Option, Part
from outtrees.io.tables import Table
from outtrees.models.columns import (
    Distances,
    GivenWeights,
    Substitution,
    Transmission,
    TransmittedSequence,
    Waiting,
)
from outtrees.records import Column
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
_INTERVALS = "Intervals hold 95 %, by the curvature of the log-posterior."
_CHILDREN = (
    "Mean number of children by the week of the parent's date, among the records of this table; "
    "intervals hold 95 % of drawn trees. Those of the last weeks may have children that are not in "
    "the table yet."
)
_TREES, _MANY_RECORDS = 200, 2000  # drawn for these intervals; records above which none are drawn
_MANY_LAST = 0.2  # share of records with the last date that is worth a warning
_FEW = 20  # records that may share a date, or go with a column, by chance
_CROWDED = 3  # times as many records as any other date has
_TOLD = 3  # columns that are told one by one
_FOLLOWS = 0.8  # correlation with the dates, of a column that may say when records ended
_GAIN = 5.0  # nats that one more link must add
_MOST_LINKS = 50  # that `links` takes
_WIDE = 0.9  # standard deviation of a wait, in means, that is worth a warning
_RIVAL, _MANY_DIFFER = 0.2, 0.1  # weight of a second reading, and the share of parents it changes


# Sentences ---------------------------------------------------------------------------------


def parameter_sentences(
    posterior: Posterior,
    limited_exponents: Mapping[int, Array],
    dropped: DroppedMass | None,
) -> list[str]:
    """Return the fitted parameters in words.

    Parameters
    ----------
    limited_exponents : mapping of int to (C,)
        The exponents of the columns for each limit on children.
    """
    lineage = posterior.lineage
    # A change knows numbers; that they are days, the column knows.
    unit = "units of time" if posterior.dates is None else posterior.dates.unit_of_time
    sentences = []
    for name, kernel, share in zip(
        posterior.names, lineage.kernels, lineage.outlier_shares, strict=True
    ):
        text = f"{name}: {kernel.describe()}".replace(" units of time", f" {unit}")
        one = {"days": "day", "years": "year"}.get(unit, "unit of time")
        text = text.replace(" unit of time", f" {one}")
        if share == 1:
            text = f"{name}: left out, since it adds too little to distinguish parents from others"
        elif share > 0:
            text += f"; {share:.1%} of the cells do not follow their parent"
        sentences.append(text + ".")
    if lineage.exponents is not None:
        sentences.append(exponent_sentence(posterior.names, lineage.exponents))
    if lineage.generations > 1:
        links = ", ".join(f"{k}: {w:.1%}" for k, w in enumerate(lineage.step_weights, start=1))
        sentences.append(f"links between a record and its parent record: {links}.")
    if posterior.roots == "any":
        expected = float(posterior.trees.root_marginals.sum())
        sentences.append(
            f"{expected:.2f} of {len(posterior.records)} records are expected to be roots."
        )
    for limit, exponents in limited_exponents.items():
        sentences.append(exponent_sentence(posterior.names, exponents, limit))
    if dropped is not None:
        sentences.append(dropped_sentence(dropped))
    return sentences


def exponent_sentence(names: Sequence[str], exponents: Array, limit: int | None = None) -> str:
    """Return how often each column counts, in words."""
    powers = ", ".join(f"{name} {power:.2f}" for name, power in zip(names, exponents, strict=True))
    where = "" if limit is None else f"where no record has more than {_children(limit)}, "
    return f"{where}columns count as often as known parents ask for: {powers}."


def _children(limit: int) -> str:
    return "1 child" if limit == 1 else f"{limit} children"


def dropped_sentence(dropped: DroppedMass) -> str:
    """Return the probability that candidates leave out, with its error, in words."""
    if dropped.kind == "exact":
        return (
            f"parents outside the candidates hold {dropped.mean:.2g} of a record's probability "
            f"(all {dropped.n_records} records were looked at)."
        )
    text = (
        f"parents outside the candidates hold {dropped.mean:.2g} ± {dropped.error:.1g} of a "
        f"record's probability (a sample of {dropped.n_records} records"
    )
    return text + (")." if dropped.bound is None else f"; at most {dropped.bound:.2g}).")


# Warnings ----------------------------------------------------------------------------------


class FitFacts(NamedTuple):
    """What warnings need to know of a fit besides its posterior."""

    converged: bool
    n_iter: int
    dropped: DroppedMass | None
    root_is_known: bool
    dates: DateOptions
    has_known_parents: bool
    left_out: Mapping[str, float]  # columns that do not take part, and the nats that they add


def fit_warnings(posterior: Posterior, facts: FitFacts) -> list[str]:
    """Return what a careful reader of the results should know."""
    return [
        *_about_waiting(posterior, facts),
        *_about_left_out(facts),
        *_about_the_fit(facts),
        *_about_columns(posterior),
        *_about_dates(posterior, facts),
        *_about_links(posterior),
    ]


def _about_waiting(posterior: Posterior, facts: FitFacts) -> Iterator[str]:
    """Yield what is not known of the waiting time, and what to state."""
    dates = posterior.lineage.dates
    if dates is None or facts.dates.table is not None:
        return
    kernel = posterior.lineage.kernels[dates]
    assert isinstance(kernel, Waiting)
    if isinstance(kernel, Transmission):
        yield from _about_transmission(kernel)
        return
    unit = posterior.records.column(posterior.names[dates]).unit_of_time
    state: tuple[Part, ...] = (
        "state ",
        Option("waiting_mean"),
        " and ",
        Option("waiting_sd"),
        ", or ",
        Option("disease"),
    )
    if facts.dates.mean is None and not _tells_time(posterior, facts):
        means = waiting_means(kernel, posterior.values[dates])
        yield Message(
            f"The waiting time from parent to child is not known: {len(means)} means from "
            f"{short_number(means[0])} to {short_number(means[-1])} {unit} were tried, and without "
            "sequences, distances or known parents a table says little about it. If you know it, ",
            *state,
            ".",
        )
    known = facts.dates.mean is not None  # then only the spread can differ
    if known and facts.left_out and not posterior.lineage.optional:
        yield Message(
            f"With a waiting time of {short_number(kernel.moments[0])} {unit} no column "
            "distinguishes parents from others. Either none of them follows descent, or the "
            "waiting time does not fit these dates. Fit without ",
            Option("waiting_mean"),
            " to see whether the columns speak for another one.",
        )
    yield from _rival_readings(
        posterior, unit, ("state ", Option("waiting_sd")) if known else state
    )
    mean, sd = kernel.moments
    if sd >= _WIDE * mean and kernel.law != "lognormal":
        yield Message(
            f"The waiting time has mean {short_number(mean)} and standard deviation "
            f"{short_number(sd)} {unit}: a {kernel.law} as wide as this is highest at 0, so that "
            "the latest possible parents are preferred. Check it, or pass ",
            Option("waiting_law", "lognormal"),
            ".",
        )


def _about_transmission(kernel: Transmission) -> Iterator[str]:
    """Yield what was not known of how the infection spreads."""
    needed = ("generation_mean", "generation_sd", "delay_mean", "delay_sd")
    unknown = [name for name in needed if getattr(kernel, name) is None]
    if unknown:
        how = "learned from the table" if kernel.with_sites else "guessed from the dates"
        yield Message(
            "The time from infection to infection, or from infection to sampling, was "
            f"{how}, which says little about it. If you know it, state ",
            *[part for name in unknown for part in (Option(name), ", ")][:-1],
            ".",
        )


def _tells_time(posterior: Posterior, facts: FitFacts) -> bool:
    """Return whether the table has what tells waiting times apart."""
    kinds = (Substitution, TransmittedSequence, Distances, GivenWeights)
    lineage = posterior.lineage
    return facts.has_known_parents or any(
        isinstance(lineage.kernels[c], kinds) for c in lineage.used
    )


def _rival_readings(posterior: Posterior, unit: str, state: tuple[Part, ...]) -> Iterator[str]:
    """Yield that two waiting times explain the table; spreads of one mean count together."""
    if len(posterior.readings) < 2:
        return
    table, T = readings_table(posterior), len(posterior.records)
    means = np.round(np.log(table["waiting_mean"]), 9)
    weights = np.array(table["weight"])
    # The readings are sorted: the first of each mean is the best of its spreads.
    firsts = [int(np.flatnonzero(means == mean)[0]) for mean in np.unique(means)]
    total = {first: float(weights[means == means[first]].sum()) for first in firsts}
    best, *rest = sorted(total, key=lambda first: -total[first])
    if not rest or total[rest[0]] < _RIVAL:
        return
    tops = [best_parents(posterior, *posterior.reading_supports(r)) for r in (best, rest[0])]
    differ = int((tops[0] != tops[1]).sum())
    if differ <= _MANY_DIFFER * T:
        return
    waits = [
        f"{short_number(table['waiting_mean'][i])} {unit} (weight {total[i]:.0%})"
        for i in (best, rest[0])
    ]
    yield Message(
        f"Two readings explain the table about as well, with waiting times of {waits[0]} and "
        f"{waits[1]}: {differ} of {T} records have another best parent in the second. To decide, ",
        *state,
        ".",
    )


def _about_left_out(facts: FitFacts) -> Iterator[str]:
    if len(facts.left_out) > _TOLD:
        gains = ", ".join(f"{name} {gain:.1f}" for name, gain in facts.left_out.items())
        yield Message(
            f"{len(facts.left_out)} columns add too little to distinguish parents from others, and "
            f"are left out (nats that they add: {gains}); ",
            Option("keep", list(facts.left_out)),
            " keeps them.",
        )
        return
    for name, gain in facts.left_out.items():
        yield Message(
            f"{name} adds {gain:.1f} nats: left out; ", Option("keep", [name]), " keeps it."
        )


def not_converged(n_iter: int) -> Message:
    """Return the warning of a fit that ended too early."""
    return Message(
        f"The fit had not converged after {counted(n_iter, 'iteration')}; raise ",
        Option("max_iter"),
        ".",
    )


def _about_the_fit(facts: FitFacts) -> Iterator[str]:
    if not facts.converged:
        yield not_converged(facts.n_iter)
    if facts.dropped is not None and facts.dropped.mean > MUCH_DROPPED:
        yield Message(
            f"Parents outside the candidates hold {facts.dropped.mean:.1%} of the "
            "probability; raise ",
            Option("n_candidates"),
            ".",
        )


def _about_columns(posterior: Posterior) -> Iterator[str]:
    for name, share in zip(posterior.names, posterior.lineage.outlier_shares, strict=True):
        if 0.9 < share < 1:
            yield (
                f"Column {name!r} hardly follows the tree ({share:.0%} of its cells do not); it "
                "says little about parents."
            )
    empty = [c for c in posterior.records.columns if c.n_missing > len(c) / 2]
    if len(empty) > _TOLD:
        names = ", ".join(repr(column.name) for column in empty[:_TOLD])
        yield f"{len(empty)} columns are empty for more than half of the records: {names}, …"
    else:
        for column in empty:
            yield f"Column {column.name!r} is empty for {counted(column.n_missing, 'record')}."


def _about_dates(posterior: Posterior, facts: FitFacts) -> Iterator[str]:
    """Yield what the dates lack, or may mean."""
    columns = zip(posterior.names, posterior.values, posterior.lineage.kernels, strict=True)
    dates = next(
        (
            (posterior.records.column(name), values[:, 0], kernel.ties)
            for name, values, kernel in columns
            if isinstance(kernel, Waiting)
        ),
        None,
    )
    if dates is None:
        if not facts.root_is_known:
            yield (
                "No dates and no known root: which end of an edge is the parent rests on the "
                "root's density alone."
            )
        return
    date, days, ties = dates
    if facts.dates.censored is None:
        yield from _many_last(date, days, ties)
    if facts.dates.until is None:
        for column in posterior.records.columns:
            if column.kind in ("continuous", "count") and _ends(column.values[:, 0], days):
                yield Message(
                    f"Column {column.name!r} is never before {date.name!r} and goes with it: if it "
                    "says when records ended, and children come after their parent's end, give ",
                    Option("until", column.name),
                    ".",
                )


def _many_last(date: Column, days: Array, ties: bool) -> Iterator[str]:
    known, counts = np.unique(days[np.isfinite(days)], return_counts=True)
    if len(known) < 2:
        return
    last = np.flatnonzero(days == known[-1])
    if len(last) >= max(_FEW, _MANY_LAST * len(days), _CROWDED * counts[:-1].max()):
        no_ties = (
            ", and pass ",
            Option("ties", False),
            " if no child has its parent's date: as it is, they may be taken for each other's "
            "children",
        )
        yield Message(
            f"{counted(len(last), 'record')} of {len(days):,} have the last date, "
            f"{date.text[last[0]]}: if that is only when one stopped looking, name a yes/no column "
            "of such records (",
            Option("censored", "…"),
            ")",
            *(no_ties if ties else ()),
            ".",
        )


def _ends(values: Array, days: Array) -> bool:
    """Return whether these numbers are times at which records that began at `days` ended."""
    both = np.isfinite(values) & np.isfinite(days)
    x, y = values[both], days[both]
    if len(x) < _FEW or (x < y).any() or (x == y).all() or not (x.std() > 0 and y.std() > 0):
        return False
    # In the same units, and not merely both growing: as long as the dates span, at most.
    near = float(np.median(x - y)) <= float(np.ptp(y))
    return near and float(np.corrcoef(x, y)[0, 1]) > _FOLLOWS


def _about_links(posterior: Posterior) -> Iterator[str]:
    K = posterior.lineage.generations
    gain = 0.0
    if K < _MOST_LINKS:
        gain = missing_links(posterior)
    if gain > _GAIN:
        yield Message(
            f"Some records look further from their parents than {counted(K, 'link')}: with ",
            Option("links", K + 1),
            f" the log-likelihood would be higher by {gain:.0f} or more, and "
            "supports less sure. Ancestors that no record shows are likely.",
        )


def missing_links(posterior: Posterior) -> float:
    """Return a lower bound of what one more unobserved link would add to the log-likelihood.

        max_w Σ_edges marginal · log(1 − w + w · β(K + 1 links) / β) − log Z(dates, w) / Z(dates)

    which is how far an EM step for its weight alone would rise (Jensen); records choose their
    parents independently in the second term. O(edges · columns) time, O(edges) memory.
    """
    K, lineage = posterior.lineage.generations, posterior.lineage
    longer = replace(lineage, generations=K + 1, step_weights=np.append(lineage.step_weights, 0.0))
    background = longer.compared(posterior.values, posterior.weights.known)
    pairs, T = posterior.pairs, len(posterior.records)
    dates = [] if lineage.dates is None else [lineage.dates]
    waits = longer.log_links(pairs, background, dates)
    links = longer.log_links(pairs, background)
    with np.errstate(divide="ignore"):
        log_w = np.log(lineage.step_weights)[:, None]
    now, now_wait = logsumexp(links[:K] + log_w, axis=0), logsumexp(waits[:K] + log_w, axis=0)
    marginals = posterior.best_trees.edge_marginals
    used = (marginals > 0) & np.isfinite(now)
    ratio = links[K, used] - now[used]
    order = np.argsort(pairs.child, kind="stable")
    child = pairs.child[order]
    introduction = np.full(T, posterior.readings[0].log_introduction)
    if posterior.roots == "single":
        introduction = np.where(np.bincount(child, minlength=T) > 0, -np.inf, 0.0)

    def log_dates(w: float) -> float:
        both = np.logaddexp(np.log1p(-w) + now_wait, np.log(w) + waits[K])[order]
        return float(np.logaddexp(log_sums(child, both, T), introduction).sum())

    def loss(w: float) -> float:
        gain = float(marginals[used] @ np.logaddexp(np.log1p(-w), np.log(w) + ratio))
        return log_dates(w) - before - gain

    before = log_dates(1e-12)
    best = minimize_scalar(loss, bounds=(1e-9, 0.999), method="bounded")
    return max(0.0, -float(best.fun))


# The report --------------------------------------------------------------------------------


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
    records, dates, trees = posterior.records, posterior.dates, posterior.trees
    provenance = {
        "version": f"outtrees {__version__}",
        "seed": "none" if seed is None else str(seed),
        **({"command": command} if command else {}),
        **{f"sha256 of {name}": digest for name, digest in records.provenance.items()},
    }
    intervals, series = _spread(spread)
    series = series or _children_by_week(posterior)
    note = _INTERVALS if intervals else ""
    if not intervals and is_integrated(posterior):
        intervals, note = _drawn_intervals(posterior), _DRAWN
    return ReportData(
        title=f"Ancestry of {counted(len(records), 'record')}",
        ids=list(records.ids),
        columns=[*map(_report_column, records.columns), *_spread_columns(posterior, spread)],
        edges=_report_edges(posterior),
        evidence_names=list(posterior.names),
        consensus=posterior.consensus.parents,
        mode=posterior.mode.parents,
        dates=None if dates is None else dates.values[:, 0],
        calendar=False if dates is None else dates.calendar,
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
    dates = posterior.dates
    unit = "units of time" if dates is None else dates.unit_of_time
    table = readings_table(posterior)
    found: list[ReportReading] = []
    for i, reading in enumerate(posterior.readings):
        if reading.weight < _NOTED or len(found) == _MOST_READINGS:
            continue
        mean, sd = table["waiting_mean"][i], table["waiting_sd"][i]
        name = f"reading {i + 1}"
        if np.isfinite(mean):
            name = f"wait {short_number(mean)} ± {short_number(sd, 2)} {unit}"
        edge_supports, supports = posterior.reading_supports(i)
        best = best_parents(posterior, edge_supports, supports)
        at = np.flatnonzero(best[posterior.edges.child] == posterior.edges.parent)
        supports[posterior.edges.child[at]] = edge_supports[at]
        found.append(ReportReading(name, float(reading.weight), best, supports))
    return found if len(found) > 1 else []


def _drawn_intervals(posterior: Posterior) -> list[ReportInterval]:
    """Return the parameters that supports average over, for the report."""
    table = intervals_table(posterior, 0.95)
    rows = zip(*(table[name] for name in ("parameter", "median", "lower", "upper")), strict=True)
    return [ReportInterval(name, middle, low, high, False) for name, middle, low, high in rows]


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
    ranked = ranked_parents(posterior)
    shown = ranked.support >= _LEAST_SUPPORT
    for tree in (posterior.consensus, posterior.mode):  # whose edges are always shown
        shown |= tree.parents[ranked.child] == ranked.parent
    child, parent, edge = ranked.child[shown], ranked.parent[shown], ranked.edge[shown]
    E = len(posterior.edges.child)
    listed = edge < E
    own = posterior.log_alone[:, child]
    own[:, listed] = posterior.log_columns[:, edge[listed]]
    # Without any candidate there is nothing to compare with.
    compared = np.isfinite(mean[:, child])
    evidence = np.where(compared, own - np.where(compared, mean[:, child], 0.0), 0.0)
    rows = zip(
        child.tolist(),
        parent.tolist(),
        ranked.support[shown].tolist(),
        map(tuple, evidence.T.tolist()),
        strict=True,
    )
    return [ReportEdge(*row) for row in rows]

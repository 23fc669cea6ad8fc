"""What a fit says in words: its parameters, and its warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from outtrees._common.text import counted, short_number
from outtrees.ancestry.columns import DateOptions
from outtrees.ancestry.posterior import Posterior
from outtrees.ancestry.support import best_parents, readings_table
from outtrees.ancestry.waits import waiting_means
from outtrees.candidates.choices import log_sums
from outtrees.candidates.dropped_mass import DroppedMass
from outtrees.candidates.plan import MUCH_DROPPED
from outtrees.candidates.windows import waiting_of
from outtrees.errors import Message, Option, Part
from outtrees.models.columns import (
    Distances,
    GivenWeights,
    Substitution,
    Transmission,
    TransmittedSequence,
)
from outtrees.records import Column

Array = NDArray[np.float64]

_MANY_LAST = 0.2  # share of records with the last date that is worth a warning
_FEW = 20  # records that may share a date, or go with a column, by chance
_CROWDED = 3  # times as many records as any other date has
_TOLD = 3  # columns that are told one by one
_FOLLOWS = 0.8  # correlation with the dates, of a column that may say when records ended
_GAIN = 5.0  # nats that one more link must add
_MOST_LINKS = 50  # that `links` takes
_WIDE = 0.9  # standard deviation of a wait, in means, that is worth a warning
_RIVAL, _MANY_DIFFER = 0.2, 0.1  # weight of a second reading, and the share of parents it changes


# Parameters --------------------------------------------------------------------------------


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
    unit = posterior.unit_of_time
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
    kernel = waiting_of(posterior.lineage)
    if kernel is None or facts.dates.table is not None:
        return
    if isinstance(kernel, Transmission):
        yield from _about_transmission(kernel)
        return
    unit = posterior.unit_of_time
    state: tuple[Part, ...] = (
        "state ",
        Option("waiting_mean"),
        " and ",
        Option("waiting_sd"),
        ", or ",
        Option("disease"),
    )
    if facts.dates.mean is None and not _tells_time(posterior, facts):
        assert posterior.lineage.dates is not None  # the kernel is there
        means = waiting_means(kernel, posterior.values[posterior.lineage.dates])
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
            "waiting time does not fit these dates. Fit without a given waiting time or disease to "
            "see whether the columns speak for another one.",
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
    tops = [best_parents(posterior, posterior.reading_supports(r))[0] for r in (best, rest[0])]
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
    date, kernel, c = posterior.dates, waiting_of(posterior.lineage), posterior.lineage.dates
    if date is None or kernel is None or c is None:
        if not facts.root_is_known:
            yield (
                "No dates and no known root: which end of an edge is the parent rests on the "
                "root's density alone."
            )
        return
    days = posterior.values[c][:, 0]
    if facts.dates.censored is None:
        yield from _many_last(date, days, kernel.ties)
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

"""What a careful reader of the results should know, and what may have been left unsaid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from outtrees.ancestry.em import LineageFit
from outtrees.models.columns import Waiting
from outtrees.records import Column
from outtrees.records.column import counted

Array = NDArray[np.float64]

_MUCH_DROPPED = 0.01  # probability of parents that are no candidates that is worth a warning
_MANY_LAST = 0.2  # share of records with the last date that is worth a warning
_FEW = 20  # records that may share a date, or go with a column, by chance
_CROWDED = 3  # times as many records as any other date has
_TOLD = 3  # columns that are told one by one
_FOLLOWS = 0.8  # correlation with the dates, of a column that may say when records ended
_GAIN = 5.0  # nats that one more link must add
_MOST_LINKS = 50  # that `generations` takes


def careful_words(ancestry: Any, fit: LineageFit) -> list[str]:
    """Return what a careful reader of the results should know."""
    return [
        *_of_the_fit(ancestry),
        *_of_columns(ancestry),
        *_of_dates(ancestry),
        *_of_links(fit),
    ]


def _of_the_fit(ancestry: Any) -> Iterator[str]:
    if not ancestry.converged_:
        yield f"The fit had not converged after {ancestry.n_iter_} iterations; raise max_iter."
    if ancestry.dropped_mass_ is not None and ancestry.dropped_mass_.mean > _MUCH_DROPPED:
        yield (
            f"Parents that are no candidates hold {ancestry.dropped_mass_.mean:.1%} of the "
            "probability; raise n_candidates."
        )


def _of_columns(ancestry: Any) -> Iterator[str]:
    for name, share in zip(ancestry.column_names_, ancestry.lineage_.outlier_shares, strict=True):
        if share > 0.5:
            yield (
                f"Column {name!r} hardly follows the tree ({share:.0%} of its cells do not); it "
                "says little about parents."
            )
    empty = [c for c in ancestry.table_.columns if c.n_missing > len(c) / 2]
    if len(empty) > _TOLD:
        names = ", ".join(repr(column.name) for column in empty[:_TOLD])
        yield f"{len(empty)} columns are empty for more than half of the records: {names}, …"
    else:
        for column in empty:
            yield f"Column {column.name!r} is empty for {counted(column.n_missing, 'record')}."


def _of_dates(ancestry: Any) -> Iterator[str]:
    """Yield what dates lack, or may mean."""
    dates = next(
        (
            (ancestry.table_.column(name), values[:, 0], kernel.ties)
            for name, values, kernel in zip(
                ancestry.column_names_,
                ancestry.column_values_,
                ancestry.lineage_.kernels,
                strict=True,
            )
            if isinstance(kernel, Waiting)
        ),
        None,
    )
    if dates is None:
        if ancestry.root is None:
            yield (
                "No dates and no known root: which end of an edge is the parent rests on the "
                "root's density alone."
            )
        return
    date, days, ties = dates
    if ancestry.censored is None:
        yield from _many_last(date, days, ties)
    if ancestry.until is None:
        for column in ancestry.table_.columns:
            if column.kind in ("continuous", "count") and _ends(column.values[:, 0], days):
                yield (
                    f"Column {column.name!r} is never before {date.name!r} and goes with it: if it "
                    "says when records ended, and children come after their parent's end, give "
                    f"until={column.name!r}."
                )


def _many_last(date: Column, days: Array, ties: bool) -> Iterator[str]:
    known, counts = np.unique(days[np.isfinite(days)], return_counts=True)
    if len(known) < 2:
        return
    last = np.flatnonzero(days == known[-1])
    if len(last) >= max(_FEW, _MANY_LAST * len(days), _CROWDED * counts[:-1].max()):
        words = (
            f"{counted(len(last), 'record')} of {len(days):,} have the last date, "
            f"{date.text[last[0]]}: if that is only when one stopped looking, name a yes/no column "
            "of such records (censored='…')"
        )
        if ties:
            words += (
                ", and pass ties=False if no child has its parent's date: as it is, they may be "
                "taken for each other's children"
            )
        yield words + "."


def _ends(values: Array, days: Array) -> bool:
    """Return whether these numbers are times at which records that began at `days` ended."""
    both = np.isfinite(values) & np.isfinite(days)
    x, y = values[both], days[both]
    if len(x) < _FEW or (x < y).any() or (x == y).all() or not (x.std() > 0 and y.std() > 0):
        return False
    # In the same units, and not merely both growing: as long as the dates span, at most.
    near = float(np.median(x - y)) <= float(np.ptp(y))
    return near and float(np.corrcoef(x, y)[0, 1]) > _FOLLOWS


def _of_links(fit: LineageFit) -> Iterator[str]:
    K = fit.lineage.generations
    gain = missing_links(fit) if K < _MOST_LINKS else 0.0
    if gain > _GAIN:
        yield (
            f"Some records look further from their parents than {counted(K, 'link')}: with "
            f"generations={K + 1} the log-likelihood would be higher by {gain:.0f} or more, and "
            "supports less sure. Ancestors that no record shows are likely."
        )


def missing_links(fit: LineageFit) -> float:
    """Return a lower bound of what one more unobserved link would add to the log-likelihood.

        max_w Σ_edges marginal · log(1 − w + w · p(x_u | x_v, K + 1 links) / p(x_u | x_v)),

    which is how far an EM step for its weight alone would rise (Jensen). O(edges · columns) time,
    O(edges) memory.
    """
    K = fit.lineage.generations
    more = fit.lineage.log_links(fit.pairs, K + 1)
    marginals = fit.trees.edge_marginals
    used = marginals > 0
    ratio = (more - fit.lineage.log_beta(fit.pairs))[used]

    def loss(w: float) -> float:
        return -float(marginals[used] @ np.logaddexp(np.log1p(-w), np.log(w) + ratio))

    best = minimize_scalar(loss, bounds=(1e-9, 0.999), method="bounded")
    return max(0.0, -float(best.fun))

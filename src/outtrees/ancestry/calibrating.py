"""From known parents, by identity, to supports that keep their promise."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from outtrees.ancestry.exponents import learn_exponents
from outtrees.ancestry.fitted import Fitted
from outtrees.ancestry.given import known_parents, named
from outtrees.ancestry.limited_exponents import learn_limited_exponents
from outtrees.errors import NoSpanningTreeError, RecordsError
from outtrees.models.columns import Lineage
from outtrees.trees.arguments import check_count

FEWEST = 20  # known parents; with fewer a fit would only follow its prior
_MUCH_ERROR = 0.25  # of exponents by sampling, in standard errors that the known parents leave


def calibrated(
    fitted: Fitted,
    parents: Mapping[Any, Any],
    max_children: int | None,
    n_sweeps: int,
    random_state: np.random.Generator,
) -> Lineage:
    """Return the lineage with exponents learned from these parents (None: a root).

    For the trees in which no record has more than `max_children` children, or, if that is None, for
    all trees.

    Raises
    ------
    RecordsError
        If they are too few, impossible for the fitted model, or known to it already.
    """
    known = known_parents(fitted.records, parents, with_table=False)
    _check(fitted, known)
    what = fitted.lineage, fitted.values, fitted.pairs, fitted.edges, known
    law: dict[str, Any] = {"roots": fitted.roots, "root_rate": fitted.root_rate}
    if max_children is None:
        return learn_exponents(*what, **law).lineage
    most = check_count(max_children, "max_children", 1)
    _check_limit(fitted, known, most)
    law |= {"names": fitted.records.ids, "n_sweeps": n_sweeps}
    learned = learn_limited_exponents(*what, most, random_state, **law)
    if learned.error > _MUCH_ERROR:
        warnings.warn(
            f"sampling leaves the exponents unsure by {learned.error:.2f} of what the known "
            f"parents leave (at most {_MUCH_ERROR} is expected); raise n_sweeps, or give more "
            "known parents of the same groups",
            UserWarning,
            stacklevel=3,
        )
    return learned.lineage


def _check_limit(fitted: Fitted, known: Mapping[int, int], max_children: int) -> None:
    """Refuse known parents that no tree has, or none that obeys the limit."""
    try:
        _ = fitted.trees.given(known).log_z
    except NoSpanningTreeError as error:
        raise named(error, fitted.records) from error
    children = Counter(v for v in known.values() if v >= 0)
    for v, number in children.most_common(1):
        if number > max_children:
            raise RecordsError(
                f"no record is expected to have more children than max_children={max_children}, "
                f"but {fitted.records.ids[v]!r} is the known parent of {number}; correct the known "
                "parents or raise that number"
            )


def _check(fitted: Fitted, known: Mapping[int, int]) -> None:
    ids, edges = fitted.records.ids, fitted.edges
    number = np.bincount(edges.child, minlength=len(ids)) + edges.root_allowed
    # A record with one possible parent, such as one that the fit was told, teaches nothing.
    telling = [u for u in known if number[u] > 1]
    if len(telling) < FEWEST:
        raise RecordsError(
            f"at least {FEWEST} known parents of records that could have had another are expected, "
            f"but there are {len(telling)} (parents that were given to the fit do not count); give "
            "more, or leave supports as they are"
        )
    T = len(ids)
    code = edges.child.astype(np.int64) * T + edges.parent
    possible = set(code[fitted.log_weight > -np.inf].tolist())
    for u, v in known.items():
        if edges.root_allowed[u] if v < 0 else u * T + v in possible:
            continue
        what = "be a root" if v < 0 else f"descend from {ids[v]!r}"
        raise RecordsError(
            f"record {ids[u]!r} cannot {what} by the fitted model (dates, groups, forbidden pairs "
            "or candidates rule it out); correct or leave out that known parent"
        )

"""From known parents, by identity, to supports that keep their promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from outtrees.ancestry.fitted import Fitted
from outtrees.ancestry.given import known_parents
from outtrees.errors import RecordsError
from outtrees.learning.exponents import learn_exponents
from outtrees.learning.limited_exponents import learn_limited_exponents
from outtrees.mutations.columns import Lineage
from outtrees.trees.arguments import check_count

FEWEST = 20  # known parents; with fewer a fit would only follow its prior


def calibrated(
    fitted: Fitted,
    parents: Mapping[Any, Any],
    max_children: int | None,
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
    check_count(max_children, "max_children", 1)
    _check_limit(fitted, known, max_children)
    return learn_limited_exponents(*what, max_children, random_state, **law)


def _check_limit(fitted: Fitted, known: Mapping[int, int], max_children: int) -> None:
    children = Counter(v for v in known.values() if v >= 0)
    for v, number in children.most_common(1):
        if number > max_children:
            raise RecordsError(
                f"at most {max_children} children of each record are expected (max_children), but "
                f"{fitted.records.ids[v]!r} is the known parent of {number}; correct the known "
                "parents or raise max_children"
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

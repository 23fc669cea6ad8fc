"""Who may descend from whom: known parents, forbidden pairs, and the edges that are left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outtrees._common.cycles import cycle_of
from outtrees.ancestry.columns import ModelColumn
from outtrees.ancestry.learning import Roots, TableFit
from outtrees.ancestry.posterior import MOST_PAIRED
from outtrees.candidates import Constraints, all_edges, table_candidates
from outtrees.candidates.edges import PossibleEdges
from outtrees.candidates.windows import in_order, possible_pairs, windows_of
from outtrees.errors import NoSpanningTreeError, Option, RecordsError
from outtrees.models.columns import Lineage, Waiting
from outtrees.records import Records

Array = NDArray[np.float64]

_NAMED, _GROUPS = 8, 3  # records of a group, and groups, that a message lists


def row_of(records: Records, identity: Any) -> int:
    """Return the row of a record."""
    try:
        return records.ids.index(str(identity))
    except ValueError:
        raise RecordsError(
            f"no record is called {str(identity)!r}; identities are like {records.ids[0]!r}"
        ) from None


def named(error: NoSpanningTreeError, ids: Sequence[str]) -> NoSpanningTreeError:
    """Return an error of the sum over trees in words of the table, with identities and options.

    `ids` are the identities of the records in the order in which the error counts them.
    """
    names = [ids[int(number)] for number in error.records]
    groups = [[ids[int(number)] for number in group] for group in error.groups]
    several: tuple[str | Option, ...] = ()
    if error.cause == "separate groups":
        shown = "; ".join(_listed(group) for group in groups[:_GROUPS])
        more = f"; and {len(groups) - _GROUPS} more" if len(groups) > _GROUPS else ""
        fact = (
            f"no tree reaches every record: {len(groups)} separate groups have no possible parent "
            f"outside themselves ({shown}{more}); "
        )
        several = (
            "use ",
            Option("roots", "any"),
            " if several records may have no parent among the others; else ",
        )
    elif error.cause == "excluded roots":
        fact = (
            "no tree reaches every record: its root would have to be "
            f"{_listed(names)}, which may not be a root; "
        )
    elif error.cause == "no way to a root":
        fact = (
            f"no tree reaches {_listed(names)}: following possible parents never leads to a record "
            "that may be a root; "
        )
    elif error.cause == "excluded edge":
        fact = f"record {names[1]!r} is not among the possible parents of {names[0]!r}; "
    else:
        return error
    return NoSpanningTreeError(
        fact,
        *several,
        "correct dates, known parents or forbidden pairs, or pass ",
        Option("strict_dates", False),
        cause=error.cause,
        records=names,
        groups=groups,
    )


def _listed(names: Sequence[str]) -> str:
    """Return "records 'a', 'b', …", naming a few."""
    shown = ", ".join(map(repr, names[:_NAMED]))
    more = f", … ({len(names)} in all)" if len(names) > _NAMED else ""
    return f"record{'s' * (len(names) > 1)} {shown}{more}"


def known_parents(
    records: Records, given: Mapping[Any, Any] | None, *, with_table: bool = True
) -> dict[int, int]:
    """Return row of child → row of parent, −1 for a known root."""
    known = dict(records.known_parents) if with_table else {}
    for child, parent in (given or {}).items():
        row = row_of(records, child)
        above = -1 if parent is None or parent == "" else row_of(records, parent)
        if above == row:
            raise RecordsError(f"record {child!r} is given as its own parent; correct that")
        if known.get(row, above) != above:
            raise RecordsError(
                f"record {child!r} is given two parents, {records.ids[known[row]]!r} and "
                f"{parent!r}; keep one"
            )
        known[row] = above
    cycle = cycle_of(known)
    if cycle:
        names = " ← ".join(repr(records.ids[row]) for row in [*cycle, cycle[0]])
        raise RecordsError(
            f"known parents form a cycle: {names}; correct one of them",
            records=[records.ids[row] for row in cycle],
        )
    return known


def refuse_late_parents(
    records: Records, columns: Iterable[ModelColumn], given: Constraints, until: str | None
) -> None:
    """Refuse a known parent that the order of dates rules out, at its end if there is one."""
    child, parent = given.known_edges()
    for column in columns:
        if not isinstance(column.kernel, Waiting):
            continue
        possible = column.kernel.possible(column.values, column.values, child, parent)
        for u, v in zip(child[~possible], parent[~possible], strict=True):
            begin = records.column(column.name)
            ended = until is not None and records.column(until).text[v] != ""
            last = records.column(until) if until is not None and ended else begin
            raise RecordsError(
                f"record {records.ids[v]!r} ({last.name} {last.text[v]}) is given as the parent of "
                f"{records.ids[u]!r} ({begin.name} {begin.text[u]}), but parents come before their "
                "children; correct a date or the parent, or pass ",
                Option("strict_dates", False),
                records=(records.ids[u], records.ids[v]),
                column=begin.name,
            )


def forbidden_pairs(
    records: Records, given: Iterable[tuple[Any, Any]] | None
) -> list[tuple[int, int]]:
    """Return (row of child, row of parent) of each forbidden pair."""
    pairs = []
    for pair in given or ():
        if isinstance(pair, str) or len(pair) != 2:
            raise RecordsError(f"forbidden must hold (child, parent) pairs; got {pair!r}")
        pairs.append((row_of(records, pair[0]), row_of(records, pair[1])))
    return pairs


def possible_edges(
    fit: TableFit, given: Constraints, roots: Roots, n_candidates: int | None
) -> PossibleEdges:
    """Return the candidates of all readings, n of each record; None: all possible edges."""
    values = [np.asarray(v) for v in fit.values]
    lineage, T = fit.readings[0].lineage, len(given.groups)
    if n_candidates is not None:
        found = [
            table_candidates(r.lineage, values, given, n_candidates, roots) for r in fit.readings
        ]
        coded = np.unique(np.concatenate([e.child * T + e.parent for e in found]))
        return given.edges(coded // T, coded % T, found[0].choices)
    if T > MOST_PAIRED and lineage.dates is not None:
        plausible = [_plausible_edges(r.lineage, values, given) for r in fit.readings]
        coded = np.unique(np.concatenate(plausible))
        return given.edges(coded // T, coded % T)
    edges = all_edges(given)
    possible = [in_order(r.lineage, values, edges.child, edges.parent) for r in fit.readings]
    kept = np.any(possible, axis=0)
    return edges.only(kept)


def _plausible_edges(
    lineage: Lineage, values: Sequence[Array], given: Constraints
) -> NDArray[np.intp]:
    """Return child · T + parent of all edges whose waits are plausible, and of known ones."""
    T = len(given.groups)
    child, parent = possible_pairs(
        lineage, values, given, np.arange(T), windows_of(lineage, values, given)
    )
    known_child, known_parent = given.known_edges()
    return np.concatenate([child * T + parent, known_child * T + known_parent])

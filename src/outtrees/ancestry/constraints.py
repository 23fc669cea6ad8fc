"""What the user knows beforehand, by identity: parents, forbidden pairs, matrices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outtrees._common.cycles import cycle_of
from outtrees.ancestry.columns import ModelColumn
from outtrees.candidates import Constraints
from outtrees.errors import Message, NoSpanningTreeError, Option, RecordsError
from outtrees.models.columns import Waiting
from outtrees.records import Records

Array = NDArray[np.float64]

# What the sum over trees says to those who gave it weights, for those who gave a table.
_WORDS = {
    "no out-tree spans the records": "no tree is left that reaches every record",
    "but log_root is -inf there": "which may be no root",
    "whose log_root is above -inf": "that may be a root",
}
_SEVERAL = (
    "use ",
    Option("roots", "any"),
    " if several records may have no parent among the others; else ",
)
_REMEDY = (
    "correct dates, known parents or forbidden pairs, or pass ",
    Option("strict_dates", False),
)


def row_of(records: Records, identity: Any) -> int:
    """Return the row of a record."""
    try:
        return records.ids.index(str(identity))
    except ValueError:
        raise RecordsError(
            f"no record is called {str(identity)!r}; identities are like {records.ids[0]!r}"
        ) from None


def named(error: NoSpanningTreeError, records: Records) -> NoSpanningTreeError:
    """Return the error with identities for the numbers of records, and a remedy in words of tables.

    Within groups the numbers are those of the group, so there they stay.
    """
    text = str(error)
    for ours, theirs in _WORDS.items():
        text = text.replace(ours, theirs)
    fact, _, advice = text.partition("; allow ")
    remedy = Message("; ", *(_SEVERAL * ("roots='any'" in advice)), *_REMEDY) if advice else ""
    if records.groups is not None and len(np.unique(records.groups)) > 1:
        return NoSpanningTreeError(fact, remedy)

    def identities(found: re.Match[str]) -> str:
        rows = [int(number) for number in found[2].split(", ")]
        return f"{found[1]} " + ", ".join(repr(records.ids[row]) for row in rows)

    return NoSpanningTreeError(re.sub(r"(records?) (\d+(?:, \d+)*)", identities, fact), remedy)


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
        names = " ← ".join(repr(records.ids[i]) for i in [*cycle, cycle[0]])
        raise RecordsError(f"known parents go in a circle: {names}; correct one of them")
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
            raise RecordsError(f"forbidden is expected to hold (child, parent) pairs; got {pair!r}")
        pairs.append((row_of(records, pair[0]), row_of(records, pair[1])))
    return pairs

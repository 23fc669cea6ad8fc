"""What the user knows beforehand, by identity: parents, forbidden pairs, matrices."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from outtrees.ancestry.columns import ModelColumn
from outtrees.errors import NoSpanningTreeError, RecordsError
from outtrees.mutations.columns import Distances, GivenWeights
from outtrees.records import Records, read_matrix


def row_of(records: Records, identity: Any) -> int:
    """Return the row of a record."""
    try:
        return records.ids.index(str(identity))
    except ValueError:
        raise RecordsError(
            f"no record is called {str(identity)!r}; identities are like {records.ids[0]!r}"
        ) from None


def named(error: NoSpanningTreeError, records: Records) -> NoSpanningTreeError:
    """Return the error with identities for the numbers of records.

    Within groups the numbers are those of the group, so there they stay.
    """
    if records.groups is not None and len(np.unique(records.groups)) > 1:
        return error

    def identities(found: re.Match[str]) -> str:
        rows = [int(number) for number in found[2].split(", ")]
        return f"{found[1]} " + ", ".join(repr(records.ids[row]) for row in rows)

    return NoSpanningTreeError(re.sub(r"(records?) (\d+(?:, \d+)*)", identities, str(error)))


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
    _refuse_cycles(records, known)
    return known


def _refuse_cycles(records: Records, known: Mapping[int, int]) -> None:
    cleared: set[int] = set()
    for start in known:
        path, here = [], start
        while here in known and here not in cleared and here not in path:
            path.append(here)
            here = known[here]
        if here in path:
            names = " ← ".join(repr(records.ids[i]) for i in [*path[path.index(here) :], here])
            raise RecordsError(f"known parents go in a circle: {names}; correct one of them")
        cleared.update(path)


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


def matrix_column(name: str, given: Any, records: Records) -> ModelColumn:
    """Return the column of distances or log-weights, in the order of the records."""
    T = len(records)
    if isinstance(given, (str, os.PathLike)):
        ids, matrix = read_matrix(given)
        lacking = [i for i in records.ids if i not in set(ids)]
        if lacking or len(ids) != T:
            extra = [i for i in ids if i not in set(records.ids)]
            raise RecordsError(
                f"{os.path.basename(given)} is expected to name the same {T} records; "
                f"{len(lacking)} are lacking {lacking[:10]}, {len(extra)} are unknown {extra[:10]}"
            )
        order = [ids.index(i) for i in records.ids]
        matrix = np.asarray(matrix)[np.ix_(order, order)]
    else:
        matrix = np.asarray(given, dtype=np.float64)
    if matrix.shape != (T, T):
        raise RecordsError(
            f"{name} is expected in shape {(T, T)}, [child, parent]; got {matrix.shape}"
        )
    if name == "distances":
        if (matrix < 0).any():
            raise RecordsError("distances are expected to be ≥ 0 or NaN (unknown)")
        kernel: Any = Distances(matrix)
    else:
        if np.isnan(matrix).any() or np.isposinf(matrix).any():
            raise RecordsError("log_weights are expected to be below +inf and not NaN")
        kernel = GivenWeights(matrix)
    return ModelColumn(name, kernel, np.arange(T, dtype=np.float64)[:, None])

"""Cycles among known parents."""

from __future__ import annotations

from collections.abc import Mapping


def cycle_of(parents: Mapping[int, int]) -> list[int]:
    """Return one cycle of a mapping from child to parent, each before its parent; [] if none. O(T).

    Parents that are no keys, such as −1 for a root, end the way up.

    Examples
    --------
    >>> cycle_of({0: -1, 1: 0, 2: 4, 3: 2, 4: 3})
    [2, 4, 3]
    >>> cycle_of({1: 0, 2: 1})
    []
    """
    settled: set[int] = set()
    for start in parents:
        path: dict[int, None] = {}  # in order, and quick to ask
        record = start
        while record in parents and record not in settled and record not in path:
            path[record] = None
            record = parents[record]
        if record in path:
            ordered = list(path)
            return ordered[ordered.index(record) :]
        settled.update(path)
    return []

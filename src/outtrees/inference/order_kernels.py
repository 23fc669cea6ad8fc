"""The order in which messages go along a tree, compiled."""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled


@compiled
def generations_first(parents):  # type: ignore[no-untyped-def]
    """Return the nodes parents first, how many of them roots reach, and the lists of children.

    ``first[v]`` is v's first child and ``following[u]`` u's next sibling, −1 if there is none.
    Fewer than T nodes are reached if there is a circle.
    """
    T = len(parents)
    first = np.full(T, -1, np.intp)
    following = np.full(T, -1, np.intp)
    order = np.empty(T, np.intp)
    n = 0
    for u in range(T - 1, -1, -1):
        v = parents[u]
        if v < 0:
            order[n] = u
            n += 1
        else:
            following[u] = first[v]
            first[v] = u
    at = 0
    while at < n:
        u = first[order[at]]
        while u >= 0:
            order[n] = u
            n += 1
            u = following[u]
        at += 1
    return order, n, first, following

"""Compiled search for the smallest change of a best tree on a list of edges."""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled


@compiled
def _intervals(up):  # type: ignore[no-untyped-def]
    """Return (begin, end) for each node: those below x begin in begin[x] … end[x] − 1."""
    n = len(up)
    down, beside = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    for x in range(n):
        if up[x] >= 0:
            beside[x] = down[up[x]]
            down[up[x]] = x
    begin, end = np.empty(n, np.int64), np.empty(n, np.int64)
    clock = 0
    for root in range(n):
        if up[root] >= 0:
            continue
        x = root
        while x >= 0:
            begin[x] = clock
            clock += 1
            if down[x] >= 0:
                x = down[x]
                continue
            while x != root and beside[x] < 0:
                end[x] = clock
                x = up[x]
            end[x] = clock
            x = -1 if x == root else beside[x]
    return begin, end


@compiled
def cheapest_changes(  # type: ignore[no-untyped-def]
    first, column, weight, out_weight, single, chosen, gain, inside, entered, free, component
):
    """Return each component's smallest loss by giving up one edge of its best tree, and whose.

    The edge into a node was picked for a group, the outermost one that it enters there. Every
    other edge into that group, from a node that does not descend from it, may take its place; so
    each edge is offered to the groups around its child, up to the one that holds its parent too.
    One root remains one root, where one is asked for. Only edges of ``free`` nodes are given up.
    """
    n = len(out_weight)
    above = np.full(n, -1, np.int64)
    owner = np.full(len(gain), -1, np.int64)  # the node whose edge was picked for a group
    for u in range(n):
        if chosen[u] >= 0:
            above[u] = column[chosen[u]]
        owner[entered[u]] = u
    begin, end = _intervals(above)
    group_begin, group_end = _intervals(inside)
    smallest = np.full(component[n - 1] + 1, np.inf)
    child = np.full(component[n - 1] + 1, -1, np.int64)
    for u in range(n):
        for slot in range(first[u], first[u + 1] + 1):
            is_root = slot == first[u + 1]
            v = -1 if is_root else column[slot]
            offered = out_weight[u] if is_root else weight[slot]
            if offered == -np.inf:
                continue
            g = u
            while g >= 0:
                if v >= 0 and group_begin[g] <= group_begin[v] < group_end[g]:
                    break
                c = owner[g]
                if c >= 0 and free[c]:
                    same = (c == u and chosen[c] < 0) if is_root else chosen[c] == slot
                    kind = not single[u] or is_root == (chosen[c] < 0)
                    if kind and not same and not (v >= 0 and begin[c] <= begin[v] < end[c]):
                        loss = gain[g] - offered
                        if loss < smallest[component[u]]:
                            smallest[component[u]] = loss
                            child[component[u]] = c
                offered -= gain[g]
                g = inside[g]
    return smallest, child


@compiled
def two_best(start, weight, root_weight, alone, chosen, gap):  # type: ignore[no-untyped-def]
    """Fill the best edge of records alone (−1: a root), and what the second best weighs less."""
    for u in range(len(chosen)):
        if not alone[u]:
            continue
        best, second = root_weight[u], -np.inf
        for e in range(start[u], start[u + 1]):
            if weight[e] > best:
                best, second = weight[e], best
                chosen[u] = e
            elif weight[e] > second:
                second = weight[e]
        gap[u] = best - second

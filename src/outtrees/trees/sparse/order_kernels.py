"""Compiled symbolic analysis: elimination tree, fronts, and who is where.

Positions count the order in which nodes leave: position 0 leaves first. The pattern is that of
β + βᵀ, so that whoever is joined to a node when it leaves is joined to all its neighbours
afterwards: the classical theory of sparse Cholesky factors (Liu 1990) applies unchanged.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, helper


@compiled
def elimination_tree(start, neighbour, order, position):
    """Return the parent of each position in the elimination tree, −1 at a root."""
    n = len(order)
    parent = np.full(n, -1, np.int64)
    ancestor = np.full(n, -1, np.int64)
    for j in range(n):
        u = order[j]
        for e in range(start[u], start[u + 1]):
            i = position[neighbour[e]]
            while i != -1 and i < j:
                above = ancestor[i]
                ancestor[i] = j
                if above == -1:
                    parent[i] = j
                i = above
    return parent


@compiled
def postorder(parent):
    """Return positions in an order in which every subtree is one run, children before parents."""
    n = len(parent)
    head = np.full(n, -1, np.int64)
    after = np.full(n, -1, np.int64)
    for j in range(n - 1, -1, -1):
        if parent[j] >= 0:
            after[j] = head[parent[j]]
            head[parent[j]] = j
    result = np.empty(n, np.int64)
    stack = np.empty(n, np.int64)
    at = 0
    for root in range(n):
        if parent[root] >= 0:
            continue
        depth = 1
        stack[0] = root
        while depth > 0:
            j = stack[depth - 1]
            child = head[j]
            if child >= 0:
                head[j] = after[child]
                stack[depth] = child
                depth += 1
            else:
                depth -= 1
                result[at] = j
                at += 1
    return result


@compiled
def column_counts(start, neighbour, order, position, parent):
    """Return how many nodes each node is joined to when it leaves, itself included."""
    n = len(order)
    count = np.ones(n, np.int64)
    seen = np.full(n, -1, np.int64)
    for j in range(n):  # the row subtree of j: everyone below who is joined to it
        seen[j] = j
        u = order[j]
        for e in range(start[u], start[u + 1]):
            i = position[neighbour[e]]
            while i < j and seen[i] != j:
                count[i] += 1
                seen[i] = j
                i = parent[i]
    return count


@compiled
def front_starts(parent, count, most_zeros, small):
    """Return the first position of each front (F + 1,), the last entry being n.

    Consecutive positions leave together where the second is joined to all that the first is
    joined to. A front also swallows the one just before it, a child of it, where that pads the
    columns with few zeros.
    """
    n = len(parent)
    starts = np.empty(n + 1, np.int64)
    zeros = np.zeros(n, np.int64)
    top = 0
    end = 0
    for begin in range(n):
        if begin < end:
            continue
        end = begin + 1
        while end < n and parent[end - 1] == end and count[end - 1] == count[end] + 1:
            end += 1
        first, padded = begin, 0
        outside = count[end - 1] - 1
        while top > 0:
            before = starts[top - 1]
            if not first <= parent[first - 1] < end:
                break
            taken = first - before
            lost = padded + zeros[top - 1] + taken * (end - first + outside - count[first - 1] + 1)
            k = end - before
            if k > small and lost > most_zeros * (k * (k + 1) / 2 + k * outside):
                break
            top -= 1
            first, padded = before, lost
        starts[top] = first
        zeros[top] = padded
        top += 1
    starts[top] = n
    return starts[: top + 1].copy()


@helper
def _boundary(start, neighbour, order, position, starts, f, head, after, first, rows, seen):
    """Write the positions beyond front f that it is joined to, unsorted; return how many."""
    end = starts[f + 1]
    at = first[f]
    for j in range(starts[f], end):
        u = order[j]
        for e in range(start[u], start[u + 1]):
            i = position[neighbour[e]]
            if i >= end and seen[i] != f:
                seen[i] = f
                rows[at] = i
                at += 1
    child = head[f]
    while child >= 0:
        for a in range(first[child], first[child + 1]):
            i = rows[a]
            if i >= end and seen[i] != f:
                seen[i] = f
                rows[at] = i
                at += 1
        child = after[child]
    return at


@compiled
def boundaries(start, neighbour, order, position, starts, above, count):
    """Return the boundary of each front, as (first, positions in any order)."""
    n_fronts = len(starts) - 1
    total = 0
    for f in range(n_fronts):
        total += count[starts[f + 1] - 1] - 1
    rows = np.empty(total, np.int64)
    first = np.zeros(n_fronts + 1, np.int64)
    head, after = child_lists(above)
    seen = np.full(len(order), -1, np.int64)
    for f in range(n_fronts):
        at = _boundary(start, neighbour, order, position, starts, f, head, after, first, rows, seen)
        first[f + 1] = at
    return first, rows[: first[n_fronts]].copy()


@compiled
def child_lists(above):
    """Return the children of each front as linked lists (head, after), in order."""
    head = np.full(len(above), -1, np.int64)
    after = np.full(len(above), -1, np.int64)
    for f in range(len(above) - 1, -1, -1):
        if above[f] >= 0:
            after[f] = head[above[f]]
            head[above[f]] = f
    return head, after


@compiled
def stack_places(above, boundary_first):
    """Return where on a stack each front leaves r × (r + 1) numbers for its parent, and its height.

    A front's own numbers go where those of its first child stood, or on top; children are read
    before that happens.
    """
    n_fronts = len(above)
    place = np.empty(n_fronts, np.int64)
    lowest = np.full(n_fronts, -1, np.int64)
    top, height = 0, 0
    for f in range(n_fronts):
        if lowest[f] >= 0:
            top = lowest[f]
        place[f] = top
        if above[f] >= 0 and lowest[above[f]] < 0:
            lowest[above[f]] = top
        r = boundary_first[f + 1] - boundary_first[f]
        top += r * (r + 1)
        height = max(height, top)
    return place, height

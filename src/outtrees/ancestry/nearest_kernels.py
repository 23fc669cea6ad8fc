"""Compiled draws of trees, and what drawn trees say of nearest sampled ancestors.

Imported at first use only, since it loads numba. `views/assets/beside.js` does the same with the
same random numbers, so that the report's "what if" says what Python says. Trees are drawn by the
elimination run backwards, as in `outtrees.trees.sampling`, in its plainest form.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, helper

_WORD = np.uint64(0xFFFFFFFF)
_LEAST = 1e-140  # pivots below this may have lost digits


@helper
def _uniform(number):  # type: ignore[no-untyped-def]
    """Return the n-th random number in [0, 1): n, scrambled so that each of its bits tells on all.

    Words have 32 bits, as in a browser.
    """
    word = (number * np.uint64(0x9E3779B9)) & _WORD
    word ^= word >> np.uint64(16)
    word = (word * np.uint64(0x85EBCA6B)) & _WORD
    word ^= word >> np.uint64(13)
    word = (word * np.uint64(0xC2B2AE35)) & _WORD
    word ^= word >> np.uint64(16)
    return np.float64(word) * 2.0**-32


@compiled
def eliminate(q, pivots):  # type: ignore[no-untyped-def]
    """Let nodes n − 1 … 1 leave; False if that goes beyond the range of numbers.

    q (n, n + 1) [child, parent] has the weights of edges and, last, of being the root. Rows become
    shares of a node's parents below it, columns above the diagonal stay the rates that lead to it.
    """
    n = len(q)
    for k in range(n - 1, 0, -1):
        pivot = 0.0
        for j in range(k):
            pivot += q[k, j]
        if not pivot >= _LEAST:
            return False
        pivots[k] = pivot
        for j in range(k):
            q[k, j] /= pivot
        q[k, n] /= pivot
        for i in range(k):
            rate = q[i, k]
            if rate != 0:
                for j in range(k):
                    q[i, j] += rate * q[k, j]
                q[i, n] += rate * q[k, n]
    return q[0, n] > 0


@helper
def _turn(weight, q, pivots, i, j, x):  # type: ignore[no-untyped-def]
    """Return the node through which the edge i → j leads, n if through none."""
    n = len(q)
    later = i if j == n else max(i, j)
    x *= q[i, j] * pivots[i] if j == n or j < i else q[i, j]
    x -= weight[i, j]
    found = n
    if x >= 0:
        for k in range(later + 1, n):
            part = q[i, k] * q[k, j]
            if part > 0:
                found = k
                x -= part
                if x < 0:
                    break
    return found


@compiled
def draw(weight, q, pivots, number, trees):  # type: ignore[no-untyped-def]
    """Fill `trees` (m, n) with parents, n for the root's; return the last random number's number.

    Nodes come back one by one. Those whose edges turn out to have led through the node m that
    returns become its children; its parent is that of the topmost of them above the first.
    """
    n = len(q)
    first, after = np.empty(n + 1, dtype=np.int64), np.empty(n, dtype=np.int64)
    turns = np.empty(n, dtype=np.int64)
    for line in range(len(trees)):
        own = trees[line]
        first[:] = -1
        own[0] = n
        number += 1
        turns[0] = _turn(weight, q, pivots, 0, n, _uniform(np.uint64(number)))
        after[0], first[turns[0]] = first[turns[0]], 0
        for m in range(1, n):
            number += 1
            if first[m] < 0:
                x, j = _uniform(np.uint64(number)), 0
                for k in range(m):
                    if q[m, k] > 0:
                        j = k
                        x -= q[m, k]
                        if x < 0:
                            break
                own[m] = j
            else:
                v = i = first[m]
                while i >= 0:
                    v = min(v, i)
                    i = after[i]
                top = v
                while v != n:
                    if turns[v] == m:
                        top = v
                    v = own[v]
                own[m] = own[top]
                i = first[m]
                while i >= 0:
                    following = after[i]
                    own[i] = m
                    number += 1
                    turns[i] = _turn(weight, q, pivots, i, m, _uniform(np.uint64(number)))
                    after[i], first[turns[i]] = first[turns[i]], i
                    i = following
            number += 1
            turns[m] = _turn(weight, q, pivots, m, own[m], _uniform(np.uint64(number)))
            after[m], first[turns[m]] = first[turns[m]], m
    return number


@compiled
def follow(place, direct, single, least, parents, more_edges, more_roots):  # type: ignore[no-untyped-def]
    """Add up whom records descend from that descend from beside others, in trees (n, T).

    Beside v, v's own edge counts; so up, until less than `least` is left to follow. An ancestor
    that may not be the parent ends it: the last that may be is. `place` looks edges up.
    """
    n, T = parents.shape
    chance = np.empty(T)  # that the edge means descent from the record itself
    for line in range(n):
        own = parents[line]
        for u in range(T):
            v = own[u]
            known = v < 0 or (single and own[v] < 0)
            chance[u] = 1.0 if known else direct[edge_at(place, u, v)]
        for u in range(T):
            here, weight = own[u], 1 - chance[u]
            last = here
            while weight > least:
                above = own[here]
                if above < 0:
                    more_roots[u] += weight
                    break
                e = edge_at(place, u, above)
                if e < 0:
                    more_edges[edge_at(place, u, last)] += weight
                    break
                more_edges[e] += weight * chance[here]
                weight *= 1 - chance[here]
                here = last = above


@helper
def edge_at(place, u, v):  # type: ignore[no-untyped-def]
    """Return the place of the edge in the list, −1 if it is not there.

    `place`: each child's first edge (T + 1,), and the parents in order.
    """
    start, parent = place
    low, high = start[u], start[u + 1]
    while low < high:
        middle = (low + high) // 2
        if parent[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low if low < start[u + 1] and parent[low] == v else -1

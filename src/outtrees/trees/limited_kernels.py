"""Compiled moves between out-trees with few children; imported at first use, since it loads numba.

Edges are listed by child: those of u are ``start[u] … start[u + 1] − 1``, with their parents in
order. The tree is ``edge[u]``, the number of u's edge, −1 at a root; ``parent`` and the number of
``children`` follow from it. Every move leaves Π weights, limited to ``most`` children, as it is.
"""

from __future__ import annotations

import math

import numpy as np

from outtrees._common.compiled import compiled, helper
from outtrees.trees.limited_sum_kernels import add_term, log_of
from outtrees.trees.sampling_kernels import uniform


@helper
def _find(start, to, u, v):
    """Return the number of the edge u → v, −1 if it is not listed."""
    lo, hi = start[u], start[u + 1]
    while lo < hi:
        middle = (lo + hi) // 2
        if to[middle] < v:
            lo = middle + 1
        else:
            hi = middle
    return lo if lo < start[u + 1] and to[lo] == v else -1


@helper
def _is_above(parent, u, v):
    """Return whether v is u or descends from it."""
    while v >= 0:
        if v == u:
            return True
        v = parent[v]
    return False


@helper
def _hang(edge, parent, children, to, u, e):
    """Give u the edge e, −1 to make it a root."""
    if parent[u] >= 0:
        children[parent[u]] -= 1
    edge[u] = e
    parent[u] = to[e] if e >= 0 else -1
    if parent[u] >= 0:
        children[parent[u]] += 1


@compiled
def redraw_parent(state, lists, price, work, tree, u):
    """Draw u's parent anew, given all else: any listed record that is not below u and has room.

    A record without room costs ``price`` nats, so that a tree with too many children can be
    mended; inf for the law itself. In a forest u may become a root; the root of a single tree
    stays.
    """
    start, to, log_weight, log_root = lists.start, lists.to, lists.log_weight, lists.log_root
    forest, most = lists.forest, lists.most
    edge, parent, children = tree.edge, tree.parent, tree.children
    if parent[u] < 0 and not forest:
        return
    count = start[u + 1] - start[u]
    best = -np.inf
    for i in range(count + 1):
        work[i] = -np.inf
        if i == count:
            if forest:
                work[i] = log_root[u]
        else:
            v = to[start[u] + i]
            held = children[v] - (1 if v == parent[u] else 0)
            if (held < most or price < np.inf) and not _is_above(parent, u, v):
                work[i] = log_weight[start[u] + i] - (price if held >= most else 0.0)
        best = max(best, work[i])
    total = 0.0
    for i in range(count + 1):
        total += math.exp(work[i] - best)
    left = uniform(state) * total
    chosen = -1
    for i in range(count + 1):
        if work[i] > -np.inf:
            chosen = i
            left -= math.exp(work[i] - best)
            if left < 0.0:
                break
    _hang(edge, parent, children, to, u, start[u] + chosen if chosen < count else -1)


@compiled
def exchange_root(state, lists, price, work, tree, u):
    """Make u the root of a single tree, and hang the old root below u; accept or go back.

    The old root's parent is drawn from those of its parents that are below u, in proportion to
    the weights; so what is left of the odds are the two sums, there and back.
    """
    start, to, log_root = lists.start, lists.to, lists.log_root
    edge, parent, children = tree.edge, tree.parent, tree.children
    r = u
    while parent[r] >= 0:
        r = parent[r]
    if r == u or log_root[u] == -np.inf:
        return
    old = edge[u]
    there = _sum_below(lists, price, work, tree, r, u)
    if there == -np.inf:
        return
    left = uniform(state)
    chosen = -1
    for i in range(start[r], start[r + 1]):
        if work[i - start[r]] > -np.inf:
            chosen = i
            left -= math.exp(work[i - start[r]] - there)
            if left < 0.0:
                break
    _hang(edge, parent, children, to, u, -1)
    _hang(edge, parent, children, to, r, chosen)
    # As if u were still to be hung: its old parent is counted as having lost it.
    back = _sum_below(lists, price, work, tree, u, r)
    odds = log_root[u] + there - log_root[r] - back
    if math.log(1.0 - uniform(state)) >= odds:
        _hang(edge, parent, children, to, r, -1)
        _hang(edge, parent, children, to, u, old)


@helper
def _sum_below(lists, price, work, tree, r, u):
    """Return the log of r's weights to parents below u with room once u's own edge is cut."""
    start, to, log_weight, most = lists.start, lists.to, lists.log_weight, lists.most
    parent, children = tree.parent, tree.children
    top, total = -np.inf, 0.0
    for i in range(start[r], start[r + 1]):
        v = to[i]
        work[i - start[r]] = -np.inf
        if (children[v] < most or price < np.inf) and _is_above(parent, u, v):
            cost = price if children[v] >= most else 0.0
            work[i - start[r]] = log_weight[i] - cost
            top, total = add_term(top, total, work[i - start[r]])
    return log_of(top, total)


@compiled
def exchange_parents(state, lists, tree, u, w):
    """Let u and w, neither above the other, exchange their parents; accept or go back.

    One of them may be a root: then the other becomes one.
    """
    start, to, log_weight, log_root = lists.start, lists.to, lists.log_weight, lists.log_root
    edge, parent, children = tree.edge, tree.parent, tree.children
    if u == w or parent[u] == parent[w]:
        return
    there = _find(start, to, u, parent[w]) if parent[w] >= 0 else -1
    back = _find(start, to, w, parent[u]) if parent[u] >= 0 else -1
    if (there < 0 and parent[w] >= 0) or (back < 0 and parent[u] >= 0):
        return
    if _is_above(parent, u, w) or _is_above(parent, w, u):
        return
    odds = log_weight[there] if there >= 0 else log_root[u]
    odds += log_weight[back] if back >= 0 else log_root[w]
    odds -= log_weight[edge[u]] if edge[u] >= 0 else log_root[u]
    odds -= log_weight[edge[w]] if edge[w] >= 0 else log_root[w]
    if math.log(1.0 - uniform(state)) < odds:
        _hang(edge, parent, children, to, u, there)
        _hang(edge, parent, children, to, w, back)


@compiled
def exchange_places(state, lists, tree, moved, u, w):
    """Let u and w trade places in the tree, children and all; accept or leave it.

    ``moved`` is where the new edges are noted until all are known to be listed.
    """
    start, to, log_weight, log_root = lists.start, lists.to, lists.log_weight, lists.log_root
    edge, parent, children = tree.edge, tree.parent, tree.children
    if u == w:
        return
    odds = 0.0
    for x in range(len(parent)):
        moved[x] = -2
        p = parent[x]
        if x != u and x != w and p != u and p != w:
            continue
        old = log_weight[edge[x]] if p >= 0 else log_root[x]
        if x in (u, w):  # takes the parent of the other, which may be x itself
            other = w if x == u else u
            p = parent[other]
            p = other if p == x else p
        else:
            p = w if p == u else u
        e = _find(start, to, x, p) if p >= 0 else -1
        if p >= 0 and e < 0:
            return
        moved[x] = e
        odds += (log_weight[e] if p >= 0 else log_root[x]) - old
    if math.log(1.0 - uniform(state)) < odds:
        for x in range(len(parent)):
            if moved[x] > -2:
                _hang(edge, parent, children, to, x, moved[x])


@compiled
def _owner(parent, three, v):
    """Return which of three records v is or descends from, the nearest above; 3 if none."""
    while v >= 0:
        for i in range(3):
            if v == three[i]:
                return i
        v = parent[v]
    return 3


@compiled
def _room(lists, tree, three, v):
    """Return how many children v can have beside those that are not among the three."""
    held = tree.children[v]
    for i in range(3):
        if tree.parent[three[i]] == v:
            held -= 1
    return lists.most - held


@compiled
def redraw_three(state, lists, tree, three):
    """Draw the parents of three records anew at once, given all others; accept or go back.

    Without the three edges the tree falls into the parts below each of the three and the rest. How
    the parts are joined is drawn from all 4³ ways that leave no circle, then each edge among those
    that join the two parts and lead to a record with room. That is the law itself, but for records
    that got more of the three than they have room for: then all stays as it was. Which three are
    redrawn must not depend on the tree. With at most one child this is the shortest move between
    paths that keeps their direction.
    """
    start, to, log_weight, log_root = lists.start, lists.to, lists.log_weight, lists.log_root
    edge, parent, children = tree.edge, tree.parent, tree.children
    if three[0] == three[1] or three[0] == three[2] or three[1] == three[2]:
        return
    among = False  # whether the root of a single tree is one of the three
    for i in range(3):
        among = among or parent[three[i]] < 0
    # Log-weights of hanging part i below part j, below the rest (3), or of being a root (4).
    way = np.full((3, 5), -np.inf)
    for i in range(3):
        for e in range(start[three[i]], start[three[i] + 1]):
            j = _owner(parent, three, to[e])
            if j != i and _room(lists, tree, three, to[e]) > 0:
                way[i, j] = np.logaddexp(way[i, j], log_weight[e])
        if lists.forest or among:
            way[i, 4] = log_root[three[i]]
    terms = np.full(125, -np.inf)
    best = -np.inf
    for code in range(125):
        a, b, c = code // 25, code // 5 % 5, code % 5
        ends = (a, b, c)
        n_roots = (a == 4) + (b == 4) + (c == 4)
        if not lists.forest and among and n_roots != 1:
            continue
        circle = False
        for i in range(3):
            j = i
            for _ in range(3):
                if j < 3:
                    j = ends[j]
            circle = circle or j < 3
        if not circle:
            terms[code] = way[0, a] + way[1, b] + way[2, c]
            best = max(best, terms[code])
    total = 0.0
    for code in range(125):
        total += math.exp(terms[code] - best)
    left = uniform(state) * total
    chosen = -1
    for code in range(125):
        if terms[code] > -np.inf and left >= 0.0:
            chosen = code
            left -= math.exp(terms[code] - best)
    ends = (chosen // 25, chosen // 5 % 5, chosen % 5)
    new = np.full(3, -1)
    for i in range(3):
        if ends[i] == 4:
            continue
        left = uniform(state)
        for e in range(start[three[i]], start[three[i] + 1]):
            v = to[e]
            possible = log_weight[e] > -np.inf and _owner(parent, three, v) == ends[i]
            if left >= 0.0 and possible and _room(lists, tree, three, v) > 0:
                new[i] = e
                left -= math.exp(log_weight[e] - way[i, ends[i]])
    for i in range(3):
        if new[i] >= 0:
            taken = 0
            for j in range(3):
                taken += new[j] >= 0 and to[new[j]] == to[new[i]]
            if taken > _room(lists, tree, three, to[new[i]]):
                return
    for i in range(3):
        _hang(edge, parent, children, to, three[i], new[i])


@compiled
def _near(state, lists, u):
    """Return a record that u may descend from, or any."""
    count = lists.start[u + 1] - lists.start[u]
    if count > 0 and uniform(state) < 0.5:
        return lists.to[lists.start[u] + int(uniform(state) * count)]
    return int(uniform(state) * len(lists.log_root))


@compiled
def sweep(state, lists, price, work, moved, tree, n_sweeps, counts, root_counts):
    """Make ``n_sweeps`` rounds of one move of each kind per record, counting edges after each."""
    forest = lists.forest
    edge, parent = tree.edge, tree.parent
    n = len(parent)
    three = np.empty(3, dtype=np.intp)
    for _ in range(n_sweeps):
        for _ in range(n):
            u, w = int(uniform(state) * n), int(uniform(state) * n)
            redraw_parent(state, lists, price, work, tree, u)
            if not forest:
                exchange_root(state, lists, price, work, tree, w)
            if price == np.inf:
                exchange_parents(state, lists, tree, u, w)
                kind = uniform(state)  # rare, since it looks at every record
                x = parent[u] if kind < 0.125 else w if kind < 0.25 else -1
                if x >= 0:
                    exchange_places(state, lists, tree, moved, u, x)
                if kind > 0.5 and n > 2:  # rare too: it looks at three lists of parents
                    three[0], three[1] = u, _near(state, lists, u)
                    three[2] = _near(state, lists, three[1])
                    redraw_three(state, lists, tree, three)
        for u in range(n):
            if edge[u] >= 0:
                counts[edge[u]] += 1
            else:
                root_counts[u] += 1

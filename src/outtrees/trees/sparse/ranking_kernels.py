"""Compiled Chu–Liu/Edmonds on a list of edges, O(E log n), and the smallest change of its tree.

Every node, or contracted group of nodes, picks its best parent; a cycle of picks becomes one group
(Gabow, Galil, Spencer and Tarjan 1986). A group's edges sit in a skew heap whose keys are what they
would gain over the picks they replace; subtracting a gain from all of them is put off until they
are looked at.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, helper

_UNSEEN, _ON_PATH, _DONE = 0, 1, 2


@helper
def _settle(x, key, owed, left, right):
    """Add to an edge what its key is owed, and pass that on."""
    d = owed[x]
    if d != 0.0:
        key[x] += d
        if left[x] >= 0:
            owed[left[x]] += d
        if right[x] >= 0:
            owed[right[x]] += d
        owed[x] = 0.0


@helper
def _merge(a, b, key, owed, left, right):
    """Return the heap of two heaps, the largest key on top."""
    if a < 0:
        return b
    if b < 0:
        return a
    _settle(a, key, owed, left, right)
    _settle(b, key, owed, left, right)
    if key[a] < key[b]:
        a, b = b, a
    top = a
    while True:
        below = right[a]
        right[a] = left[a]
        if below < 0:
            left[a] = b
            return top
        _settle(below, key, owed, left, right)
        if key[below] < key[b]:
            below, b = b, below
        left[a] = below
        a = below


@helper
def _pop(x, key, owed, left, right):
    _settle(x, key, owed, left, right)
    return _merge(left[x], right[x], key, owed, left, right)


@helper
def _find(group, g):
    top = g
    while group[top] != top:
        top = group[top]
    while group[g] != top:
        group[g], g = top, group[g]
    return top


@compiled
def best_parents(first, column, weight, out_weight, single):
    """Return each node's best parent as an edge (−1: it leaves the component), and the proof.

    That is the gain of each group, the group that each was contracted into, and for each node the
    outermost group that its edge was picked for. An edge with the column −1 leaves the component.
    ``single[u]``: u's component holds one root; then ``out_weight`` is taken exactly once in it,
    when its nodes are contracted to one and nothing else is left.
    """
    n = len(out_weight)
    E = len(column)
    m = 2 * n
    left, right = np.full(E + n, -1, np.int64), np.full(E + n, -1, np.int64)
    key, owed = np.empty(E + n), np.zeros(E + n)
    source, target = np.full(E + n, -1, np.int64), np.empty(E + n, np.int64)
    heap = np.full(m, -1, np.int64)
    for u in range(n):
        for e in range(first[u], first[u + 1]):
            key[e], source[e], target[e] = weight[e], column[e], u
            if weight[e] > -np.inf:
                heap[u] = _merge(heap[u], e, key, owed, left, right)
        target[E + u] = u
        key[E + u] = out_weight[u]
        if not single[u] and out_weight[u] > -np.inf:
            heap[u] = _merge(heap[u], E + u, key, owed, left, right)
    group = np.arange(m)
    inside = np.full(m, -1, np.int64)
    state = np.zeros(m, np.int8)
    pick = np.full(m, -1, np.int64)
    gain = np.zeros(m)
    path = np.empty(m, np.int64)
    count = n
    for node in range(n):
        depth = 0
        g = _find(group, node)
        while state[g] == _UNSEEN or (depth > 0 and path[depth - 1] == g):
            if depth == 0 or path[depth - 1] != g:
                path[depth] = g
                depth += 1
                state[g] = _ON_PATH
            e = heap[g]
            while e >= 0 and source[e] >= 0 and _find(group, source[e]) == g:
                e = _pop(e, key, owed, left, right)
            if e < 0:  # all of a component with one root is one group now
                heap[g] = -1
                break
            _settle(e, key, owed, left, right)
            gain[g] = key[e]
            pick[g] = e
            rest = _pop(e, key, owed, left, right)
            if rest >= 0:
                owed[rest] -= gain[g]
            heap[g] = rest
            if source[e] < 0:
                break
            above = _find(group, source[e])
            if state[above] == _ON_PATH:
                new = count
                count += 1
                merged = -1
                while True:
                    depth -= 1
                    member = path[depth]
                    inside[member] = new
                    group[member] = new
                    merged = _merge(merged, heap[member], key, owed, left, right)
                    if member == above:
                        break
                heap[new] = merged
                state[new] = _ON_PATH
                path[depth] = new
                depth += 1
                g = new
            else:
                g = above
        for d in range(depth):
            state[path[d]] = _DONE
    _pick_roots(n, count, out_weight, single, inside, pick, gain, E)
    entered = np.arange(count)
    _open_groups(n, count, inside, pick, target, entered)
    chosen = pick[:n].copy()
    for u in range(n):
        if chosen[u] >= E:
            chosen[u] = -1
    return chosen, gain[:count].copy(), inside[:count].copy(), entered[:n].copy()


@helper
def _pick_roots(n, count, out_weight, single, inside, pick, gain, E):
    """Give each group that has no parent left its best root."""
    paid = np.zeros(count)  # gained on the way from a group to the outermost one around it
    outermost = np.arange(count)
    for g in range(count - 1, -1, -1):
        if inside[g] >= 0:
            paid[g] = gain[g] + paid[inside[g]]
            outermost[g] = outermost[inside[g]]
    best = np.full(count, -np.inf)
    for u in range(n):
        g = outermost[u]
        if single[u] and pick[g] < 0 and out_weight[u] - paid[u] > best[g]:
            best[g] = out_weight[u] - paid[u]
    for u in range(n):
        g = outermost[u]
        if single[u] and pick[g] < 0 and out_weight[u] - paid[u] == best[g]:
            pick[g] = E + u
            gain[g] = best[g]


@helper
def _open_groups(n, count, inside, pick, target, entered):
    """Open the groups again, outermost first: the member that a pick enters takes that pick."""
    opened = np.zeros(count, np.bool_)
    for g in range(count - 1, n - 1, -1):
        if opened[g]:
            continue
        member = target[pick[g]]
        entered[member] = g
        while member != g:
            pick[member] = pick[g]
            opened[member] = True
            member = inside[member]


@compiled
def best_outside(start, parent, weight, root_weight, label, alone, chosen, best):
    """Fill each record's best edge that leaves its component (−1: being a root) and its weight."""
    for u in range(len(chosen)):
        chosen[u] = -1
        best[u] = root_weight[u]
        for e in range(start[u], start[u + 1]):
            if (alone[u] or label[parent[e]] != label[u]) and weight[e] > best[u]:
                best[u] = weight[e]
                chosen[u] = e


@helper
def _intervals(up):
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
def cheapest_changes(
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
def two_best(start, weight, root_weight, alone, chosen, gap):
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

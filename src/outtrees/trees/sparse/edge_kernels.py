"""Compiled passes over a list of edges; imported at first use only, since it loads numba."""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled

OUTSIDE_CHILD, OUTSIDE_PARENT, BAD_WEIGHT, SELF = 1, 2, 3, 4


@compiled
def inspect(child, parent, log_weight, T):
    """Return (problem, edge), whether children are in order, whether parents come first, and range.

    The range is the smallest and largest finite log-weight; the flag before it says whether some
    edge weighs −inf.
    """
    in_order, forward, some_impossible = True, True, False
    low, high = 0.0, 0.0
    before = -1
    for e in range(len(child)):
        u, v, w = child[e], parent[e], log_weight[e]
        if u < 0 or u >= T:
            return OUTSIDE_CHILD, e, in_order, forward, some_impossible, low, high
        if v < 0 or v >= T:
            return OUTSIDE_PARENT, e, in_order, forward, some_impossible, low, high
        if u == v:
            return SELF, e, in_order, forward, some_impossible, low, high
        if not w < np.inf:
            return BAD_WEIGHT, e, in_order, forward, some_impossible, low, high
        in_order &= u >= before
        before = u
        forward &= v < u
        if w == -np.inf:
            some_impossible = True
        else:
            low = min(low, w)
            high = max(high, w)
    return 0, -1, in_order, forward, some_impossible, low, high


@compiled
def first_duplicate(start, parent):
    """Return an edge that its child lists a second time, −1 if there is none."""
    T = len(start) - 1
    seen = np.full(T, -1, np.int32)
    for u in range(T):
        for e in range(start[u], start[u + 1]):
            if seen[parent[e]] == u:
                return e
            seen[parent[e]] = u
    return -1


@compiled
def without_heirs(start, parent, log_weight):
    """Return who is on no cycle for want of heirs: nobody's possible parent, or of such only.

    Without cycles that is everybody.
    """
    T = len(start) - 1
    heirs = np.zeros(T, np.int64)
    for e in range(len(parent)):
        heirs[parent[e]] += log_weight[e] > -np.inf
    queue = np.empty(T, np.int64)
    end = 0
    for u in range(T):
        if heirs[u] == 0:
            queue[end] = u
            end += 1
    at = 0
    while at < end:
        u = queue[at]
        at += 1
        for e in range(start[u], start[u + 1]):
            if log_weight[e] > -np.inf:
                v = parent[e]
                heirs[v] -= 1
                if heirs[v] == 0:
                    queue[end] = v
                    end += 1
    return heirs == 0


@compiled
def choose_alone(start, log_weight, log_root, chosen, marginal, root_marginal, log_sum):
    """Normalise the edges of each ``chosen`` record by themselves: its parents are its own choice.

    Fills the edges' and the root's probabilities, and the log of each record's sum.
    """
    for u in range(len(chosen)):
        if not chosen[u]:
            continue
        top = log_root[u]
        for e in range(start[u], start[u + 1]):
            top = max(top, log_weight[e])
        if top == -np.inf:  # refused elsewhere, with the names of the records
            root_marginal[u] = 0.0
            log_sum[u] = -np.inf
            continue
        alone = np.exp(log_root[u] - top)
        total = alone
        for e in range(start[u], start[u + 1]):
            marginal[e] = np.exp(log_weight[e] - top)
            total += marginal[e]
        root_marginal[u] = alone / total
        share = 1.0 / total
        for e in range(start[u], start[u + 1]):
            marginal[e] *= share
        log_sum[u] = top + np.log(total)


@compiled
def split_rows(start, parent, log_weight, log_root, label, members, place, single):
    """Return the edges within components, and what leads out of them.

    For the ``members`` of components of several records: (first, column, weight, edge) list the
    edges within, in compact numbering; ``log_out`` is the log-sum of all edges that leave the
    component and of being a root, ``log_scale`` the largest log-weight. In a component with a
    single root, being the root is kept apart (``log_out`` is then the root's log-weight alone and
    does not count in the scale).
    """
    n = len(members)
    first = np.zeros(n + 1, np.int64)
    for i in range(n):
        u = members[i]
        count = 0
        for e in range(start[u], start[u + 1]):
            count += label[parent[e]] == label[u] and log_weight[e] > -np.inf
        first[i + 1] = first[i] + count
    column = np.empty(first[n], np.int64)
    weight = np.empty(first[n])
    edge = np.empty(first[n], np.int64)
    log_out = np.empty(n)
    log_scale = np.empty(n)
    for i in range(n):
        u = members[i]
        at = first[i]
        inside = -np.inf
        outside = log_root[u]
        for e in range(start[u], start[u + 1]):
            w = log_weight[e]
            if label[parent[e]] == label[u]:
                if w > -np.inf:
                    column[at] = place[parent[e]]
                    weight[at] = w
                    edge[at] = e
                    at += 1
                    inside = max(inside, w)
            else:
                outside = max(outside, w)
        log_out[i] = outside
        if outside > -np.inf and not single[i]:
            total = np.exp(log_root[u] - outside)
            for e in range(start[u], start[u + 1]):
                if label[parent[e]] != label[u]:
                    total += np.exp(log_weight[e] - outside)
            log_out[i] = outside + np.log(total)
        log_scale[i] = inside if single[i] else max(inside, log_out[i])
    return first, column, weight, edge, log_out, log_scale


@compiled
def spread_out(start, parent, log_weight, log_root, label, members, out, log_out, marginal, root):
    """Divide the probability ``out`` of leaving the component among the edges that leave it."""
    for i in range(len(members)):
        u = members[i]
        for e in range(start[u], start[u + 1]):
            if label[parent[e]] != label[u]:
                marginal[e] = out[i] * np.exp(log_weight[e] - log_out[i]) if out[i] > 0 else 0.0
        root[u] = out[i] * np.exp(log_root[u] - log_out[i]) if out[i] > 0 else 0.0

"""Compiled passes over a tree; imported at first use only, since it loads numba.

The compiler spends most of its time on loops, and compiles a function anew for literal arguments.
So there is one pass for draws and for marginals, it gets its work space from the caller, and the
parent of a root is row −1, the last.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, helper


@compiled
def parents_first(trees, t, order, mark):
    """Fill ``order`` with the nodes of tree t, parents first; return whether there is no cycle.

    ``mark`` (T,) is work space, below zero for the first tree.
    """
    T = len(order)
    done = 0
    for start in range(T):
        u, end = start, done
        while u >= 0 and mark[u] < t * T:  # not met in this tree
            mark[u] = t * T + start
            order[end] = u
            end += 1
            u = trees[t, u]
        if end > done and u >= 0 and mark[u] == t * T + start:
            return False
        for i in range((end - done) // 2):
            u = order[done + i]
            order[done + i] = order[end - 1 - i]
            order[end - 1 - i] = u
        done = end
    return True


@helper
def _log_sum(values, n):
    """Return log Σ exp(values); −inf if all are."""
    top = -np.inf
    for c in range(n):
        top = max(top, values[c])
    if top == -np.inf:
        return top
    total = 0.0
    for c in range(n):
        total += np.exp(values[c] - top)
    return top + np.log(total)


@helper
def log_add(a, b):
    """Return log(exp(a) + exp(b))."""
    top = max(a, b)
    return top if top == -np.inf else top + np.log1p(np.exp(min(a, b) - top))


@compiled
def pass_messages(
    trees,
    log_nodes,
    log_edges,
    log_keep,
    log_fresh,
    log_prior,
    uniform,
    log_z,
    marginals,
    states,
    order,
    mark,
    scratch,
    rows,
):
    """Fill ``log_z`` (n,) and ``marginals`` (n, T, C) of n trees, and draw ``states`` of the last.

    Edges are (1 or n T, C, C) ``log_edges`` of one tree after the other; or, if these are none,
    exp(log_edges[a, b]) = exp(log_keep) [a = b] + exp(log_fresh[a]), with (1 or n T,) ``log_keep``
    and (1 or T, C) ``log_fresh``: O(C) instead of O(C²). States are drawn with the numbers
    ``uniform``, none of them if there are none. log_z is nan if a tree has a cycle.

    Each child hears its parent without its own message: sums over the siblings before it and
    after it are kept, so that nothing is ever subtracted.
    """
    n, T = trees.shape
    C = log_nodes.shape[1]
    # By the node's state: what is below it, above it; by the parent's state: the message to it,
    # those of the siblings before. By the node's state: those of its children so far.
    below, above, message, before, after = scratch
    own, work, marginal, drawn = rows
    structured = len(log_edges) == 0
    for t in range(n):
        if not parents_first(trees, t, order, mark):
            log_z[t] = np.nan
            continue
        for u in range(T + 1):
            for c in range(C):
                below[u, c] = 0.0
                above[u, c] = 0.0
                after[u, c] = 0.0
        for at in range(T - 1, -1, -1):
            u = order[at]
            v = trees[t, u]
            for c in range(C):
                own[c] = log_nodes[u, c] + below[u, c]
                work[c] = own[c] + (log_prior[c] if v < 0 else log_fresh[u % len(log_fresh), c])
            # A root's message is its share of log Z, whatever the state of row −1.
            begun = _log_sum(work, C) if structured or v < 0 else -np.inf
            keep = -np.inf if v < 0 else log_keep[(t * T + u) % len(log_keep)]
            for b in range(C):
                if structured or v < 0:
                    total = log_add(own[b] + keep, begun)
                else:
                    for a in range(C):
                        work[a] = own[a] + log_edges[(t * T + u) % len(log_edges), a, b]
                    total = _log_sum(work, C)
                before[u, b] = below[v, b]
                message[u, b] = total
                below[v, b] += total
        log_z[t] = below[T, 0]
        if log_z[t] == -np.inf:
            continue
        for at in range(T):
            u = order[at]
            v = trees[t, u]
            for b in range(C):
                own[b] = above[v, b] + before[u, b] + after[v, b]
                after[v, b] += message[u, b]
            begun = 0.0 if v < 0 else _log_sum(own, C)
            keep = -np.inf if v < 0 else log_keep[(t * T + u) % len(log_keep)]
            s = 0 if v < 0 else states[v]
            for a in range(C):
                if v < 0:
                    given = total = log_prior[a]
                elif structured:
                    given = log_fresh[u % len(log_fresh), a]
                    total = log_add(own[a] + keep, begun + given)
                    given = log_add(keep, given) if a == s else given
                else:
                    given = log_edges[(t * T + u) % len(log_edges), a, s]
                    for b in range(C):
                        work[b] = own[b] + log_edges[(t * T + u) % len(log_edges), a, b]
                    total = _log_sum(work, C)
                above[u, a] = total + log_nodes[u, a]
                marginal[a] = above[u, a] + below[u, a]
                drawn[a] = given + log_nodes[u, a] + below[u, a]
            total = _log_sum(marginal, C)
            for c in range(C):
                marginals[t, u, c] = np.exp(marginal[c] - total)
            if len(uniform) > 0:
                total = _log_sum(drawn, C)
                left = uniform[u]
                for c in range(C):
                    chance = np.exp(drawn[c] - total)
                    if chance > 0.0:
                        states[u] = c  # never one of weight zero, whatever rounding leaves
                        if left < chance:
                            break
                        left -= chance

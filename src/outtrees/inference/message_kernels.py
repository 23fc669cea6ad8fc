"""Compiled passes of messages along a tree; imported at first use only, since it loads numba."""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, inlined


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


@inlined
def _log_sum(values):  # type: ignore[no-untyped-def]
    """Return log Σ exp(values); −inf if all are."""
    top = values.max()
    if top == -np.inf:
        return top
    total = 0.0
    for c in range(len(values)):
        total += np.exp(values[c] - top)
    return top + np.log(total)


@inlined
def _normalise(values, out):  # type: ignore[no-untyped-def]
    """Write exp(values) / Σ exp(values) to ``out``; zeros if all are −inf."""
    top = values.max()
    total = 0.0
    for c in range(len(values)):
        out[c] = np.exp(values[c] - top) if top > -np.inf else 0.0
        total += out[c]
    if total > 0.0:
        for c in range(len(values)):
            out[c] /= total


@inlined
def _pick(u, probabilities):  # type: ignore[no-untyped-def]
    """Return the state at which the cumulative probability passes u; never one of weight zero."""
    last = 0
    for c in range(len(probabilities)):
        if probabilities[c] > 0.0:
            last = c
            if u < probabilities[c]:
                return c
            u -= probabilities[c]
    return last  # what rounding leaves of the sum


@inlined
def _log_add(a, b):  # type: ignore[no-untyped-def]
    """Return log(exp(a) + exp(b))."""
    top = max(a, b)
    return top if top == -np.inf else top + np.log1p(np.exp(min(a, b) - top))


@inlined
def _across(values, edge, keep, fresh, structured, work, out):  # type: ignore[no-untyped-def]
    """Write log Σ_a exp(values[a]) edge[a, b] to ``out``, from a child's state to its parent's.

    Structured, edge[a, b] = exp(keep) [a = b] + exp(fresh[a]): O(C) instead of O(C²).
    """
    C = len(values)
    if structured:
        for a in range(C):
            work[a] = values[a] + fresh[a]
        begun = _log_sum(work)
        for b in range(C):
            out[b] = _log_add(values[b] + keep, begun)
    else:
        for b in range(C):
            for a in range(C):
                work[a] = values[a] + edge[a, b]
            out[b] = _log_sum(work)


@inlined
def _down(values, edge, keep, fresh, structured, work, out):  # type: ignore[no-untyped-def]
    """Write log Σ_b exp(values[b]) edge[a, b] to ``out``, from a parent's state to its child's."""
    C = len(values)
    if structured:
        total = _log_sum(values)
        for a in range(C):
            out[a] = _log_add(values[a] + keep, total + fresh[a])
    else:
        for a in range(C):
            for b in range(C):
                work[b] = values[b] + edge[a, b]
            out[a] = _log_sum(work)


@compiled
def pass_messages(  # type: ignore[no-untyped-def]
    parents, log_nodes, log_edges, log_keep, log_fresh, log_prior, uniform, states, marginals
):
    """Fill ``states`` and ``marginals``; return how many nodes roots reach, and log Z.

    Edges are (1 or T, C, C) `log_edges`; or, if these are none, those of structure: (1 or T,)
    `log_keep` and (1 or T, C) `log_fresh` (`_across`). States are drawn with numbers ``uniform``,
    none of them if there are none.

    Of several children each hears its parent without its own message: sums over the siblings
    before and after it are kept, so that nothing is ever subtracted.
    """
    T, C = log_nodes.shape
    structured, draws = len(log_edges) == 0, len(uniform) > 0
    empty = np.empty((C, C))
    order, n, first, following = generations_first(parents)
    if n < T:
        return n, -np.inf

    below = np.zeros((T, C))  # evidence of all descendants, by the node's state
    before = np.empty((T, C))  # of the siblings earlier in the list, by the parent's state
    message = np.zeros((T, C))  # of the node and all below it, by the parent's state
    own, work = np.empty(C), np.empty(C)
    log_z = 0.0
    for at in range(T - 1, -1, -1):
        v = order[at]
        u = first[v]
        while u >= 0:
            for c in range(C):
                before[u, c] = below[v, c]
                below[v, c] += message[u, c]
            u = following[u]
        for c in range(C):
            own[c] = log_nodes[v, c] + below[v, c]
        if parents[v] < 0:
            for c in range(C):
                work[c] = log_prior[c] + own[c]
            log_z += _log_sum(work)
        else:
            edge = empty if structured else log_edges[v if len(log_edges) > 1 else 0]
            keep = log_keep[v if len(log_keep) > 1 else 0] if structured else 0.0
            fresh = log_fresh[v if len(log_fresh) > 1 else 0]
            _across(own, edge, keep, fresh, structured, work, message[v])
    if log_z == -np.inf:
        return n, log_z

    above = np.empty((T, C))  # evidence of all that is not below the node, by the node's state
    heard = np.empty(C)
    chances = np.empty(C)
    kept = np.empty(T, np.intp)
    for at in range(T):
        v = order[at]
        if parents[v] < 0:
            for c in range(C):
                above[v, c] = log_prior[c]
        if draws:
            for c in range(C):
                work[c] = log_nodes[v, c] + below[v, c]
                if parents[v] < 0:
                    work[c] += log_prior[c]
                elif structured:
                    drawn = log_fresh[v if len(log_fresh) > 1 else 0, c]
                    keep = log_keep[v if len(log_keep) > 1 else 0]
                    work[c] += _log_add(keep, drawn) if c == states[parents[v]] else drawn
                else:
                    work[c] += log_edges[v if len(log_edges) > 1 else 0, c, states[parents[v]]]
            _normalise(work, chances)
            states[v] = _pick(uniform[v], chances)
        for c in range(C):
            work[c] = above[v, c] + log_nodes[v, c] + below[v, c]
        _normalise(work, marginals[v])
        n_children = 0
        u = first[v]
        while u >= 0:
            kept[n_children] = u
            n_children += 1
            u = following[u]
        after = np.zeros(C)
        for i in range(n_children - 1, -1, -1):
            u = kept[i]
            for b in range(C):
                heard[b] = above[v, b] + log_nodes[v, b] + before[u, b] + after[b]
                after[b] += message[u, b]
            edge = empty if structured else log_edges[u if len(log_edges) > 1 else 0]
            keep = log_keep[u if len(log_keep) > 1 else 0] if structured else 0.0
            fresh = log_fresh[u if len(log_fresh) > 1 else 0]
            _down(heard, edge, keep, fresh, structured, work, above[u])
    return n, log_z


@compiled
def pass_messages_over(  # type: ignore[no-untyped-def]
    trees, log_nodes, log_edges, log_keep, log_fresh, log_prior, log_z, marginals
):
    """Fill log Z (n,) and marginals (n, T, C) of each of n trees, without draws.

    ``log_edges`` is (1, C, C), or (n T, C, C) with the matrices of one tree after the other; or
    there are none, and ``log_keep`` is (1,) or (n T,), ``log_fresh`` (1 or T, C).
    """
    n, T = trees.shape
    states, uniform = np.empty(0, np.intp), np.empty(0)  # nothing is drawn
    for i in range(n):
        edges = log_edges[i * T : (i + 1) * T] if len(log_edges) > 1 else log_edges
        keep = log_keep[i * T : (i + 1) * T] if len(log_keep) > 1 else log_keep
        log_z[i] = pass_messages(
            trees[i], log_nodes, edges, keep, log_fresh, log_prior, uniform, states, marginals[i]
        )[1]

"""Compiled passes over a tree; imported at first use only, since it loads numba."""

from __future__ import annotations

import numba
import numpy as np

from outtrees.learning.order_kernels import generations_first

_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
_inlined = numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")


@_inlined
def _log_sum(values):  # type: ignore[no-untyped-def]
    """Return log Σ exp(values); −inf if all are."""
    top = values.max()
    if top == -np.inf:
        return top
    total = 0.0
    for c in range(len(values)):
        total += np.exp(values[c] - top)
    return top + np.log(total)


@_inlined
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


@_inlined
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


@_compiled
def pass_messages(  # type: ignore[no-untyped-def]
    parents, log_nodes, log_edges, log_prior, uniform, states, marginals
):
    """Fill ``states`` and ``marginals``; return how many nodes roots reach, and log Z.

    Of several children each hears its parent without its own message: sums over the siblings
    before and after it are kept, so that nothing is ever subtracted.
    """
    T, C = log_nodes.shape
    n_edges = len(log_edges)
    order, n, first, following = generations_first(parents)
    if n < T:
        return n, -np.inf

    below = np.zeros((T, C))  # evidence of all descendants, by the node's state
    before = np.empty((T, C))  # of the siblings earlier in the list, by the parent's state
    message = np.zeros((T, C))  # of the node and all below it, by the parent's state
    work = np.empty(C)
    log_z = 0.0
    for at in range(T - 1, -1, -1):
        v = order[at]
        u = first[v]
        while u >= 0:
            for c in range(C):
                before[u, c] = below[v, c]
                below[v, c] += message[u, c]
            u = following[u]
        edge = log_edges[v if n_edges > 1 else 0]
        if parents[v] < 0:
            for c in range(C):
                work[c] = log_prior[c] + log_nodes[v, c] + below[v, c]
            log_z += _log_sum(work)
        else:
            for b in range(C):
                for c in range(C):
                    work[c] = log_nodes[v, c] + below[v, c] + edge[c, b]
                message[v, b] = _log_sum(work)
    if log_z == -np.inf:
        return n, log_z

    above = np.empty((T, C))  # evidence of all that is not below the node, by the node's state
    heard = np.empty(C)
    chances = np.empty(C)
    kept = np.empty(T, np.intp)
    for at in range(T):
        v = order[at]
        edge = log_edges[v if n_edges > 1 else 0]
        if parents[v] < 0:
            for c in range(C):
                above[v, c] = log_prior[c]
                work[c] = log_prior[c] + log_nodes[v, c] + below[v, c]
        else:
            for c in range(C):
                work[c] = log_nodes[v, c] + below[v, c] + edge[c, states[parents[v]]]
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
            child_edge = log_edges[u if n_edges > 1 else 0]
            for c in range(C):
                for b in range(C):
                    work[b] = heard[b] + child_edge[c, b]
                above[u, c] = _log_sum(work)
    return n, log_z


@_compiled
def pass_messages_over(  # type: ignore[no-untyped-def]
    trees, log_nodes, log_edges, log_prior, log_z, marginals
):
    """Fill log Z (n,) and marginals (n, T, C) of each of n trees, without draws.

    ``log_edges`` is (1, C, C), or (n T, C, C) with the matrices of one tree after the other.
    """
    n, T = trees.shape
    states = np.empty(T, np.intp)
    uniform = np.zeros(T)
    own = len(log_edges) > 1
    for i in range(n):
        edges = log_edges[i * T : (i + 1) * T] if own else log_edges
        log_z[i] = pass_messages(
            trees[i], log_nodes, edges, log_prior, uniform, states, marginals[i]
        )[1]

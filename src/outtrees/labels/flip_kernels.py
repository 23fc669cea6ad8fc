"""Compiled judge of one label change; imported at first use only, since it loads numba."""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, helper


@helper
def _largest(effects, tolerance):
    """Return which effects are not zero but for a sum of ``tolerance``, and the sum left out."""
    T = len(effects)
    # Few are large enough to matter alone; only those are worth sorting.
    some = np.empty(T, np.intp)
    n, total = 0, 0.0
    for u in range(T):
        if effects[u] * T > tolerance:
            some[n] = u
            n += 1
        else:
            total += effects[u]
    some = some[:n]
    order = some[np.argsort(effects[some])]
    for n_out in range(n):
        more = total + effects[order[n_out]]
        if more > tolerance:
            return order[n_out:], total
        total = more
    return order[:0], total


@helper
def _log_det(matrix):
    """Return the log of the determinant, −inf unless it is positive; the matrix is overwritten."""
    n = len(matrix)
    total, positive = 0.0, True
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(matrix[i, k]) > abs(matrix[best, k]):
                best = i
        if best != k:
            positive = not positive
            for j in range(k, n):
                matrix[k, j], matrix[best, j] = matrix[best, j], matrix[k, j]
        pivot = matrix[k, k]
        if pivot == 0.0:
            return -np.inf
        positive = positive == (pivot > 0.0)
        total += np.log(abs(pivot))
        for i in range(k + 1, n):
            factor = matrix[i, k] / pivot
            if factor != 0.0:
                for j in range(k + 1, n):
                    matrix[i, j] -= factor * matrix[k, j]
    return total if positive else -np.inf


@compiled
def judge(slope, root_slope, children, parents, root, t, tolerance):
    """Return log Z(y') − log Z(y) and what was left out: log det(I + D G[:, J])."""
    T = len(slope)
    effects = np.empty(T)
    for u in range(T):
        effects[u] = abs(children[u]) * slope[u, t]
    rows, lost_children = _largest(effects, tolerance)
    for v in range(T):
        effects[v] = abs(parents[v]) * slope[t, v]
    columns, lost_parents = _largest(effects, tolerance)
    k = len(rows)
    core = np.zeros((k + 1, k + 1))
    total = 0.0
    for v in columns:
        total += parents[v]
    for i in range(k + 1):
        w = rows[i] if i < k else t
        for j in range(k):
            u = rows[j]
            core[j, i] = children[u] * (slope[w, t] - slope[w, u])
        passed = root * root_slope[w] - slope[w, t] * total
        for v in columns:
            passed += slope[w, v] * parents[v]
        core[k, i] = passed
        core[i, i] += 1.0
    return _log_det(core), lost_children + lost_parents

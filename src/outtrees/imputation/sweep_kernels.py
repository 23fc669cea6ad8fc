"""A compiled sweep over records; imported at first use only, since it loads numba."""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled
from outtrees.imputation.cell_kernels import factorise, solve_lower, solve_upper


@compiled
def _log_sum(values, n):  # type: ignore[no-untyped-def]
    top = -np.inf
    for c in range(n):
        top = max(top, values[c])
    if top == -np.inf:
        return top
    total = 0.0
    for c in range(n):
        total += np.exp(values[c] - top)
    return top + np.log(total)


@compiled
def _pick(log_weights, n, uniform):  # type: ignore[no-untyped-def]
    """Return one of the first n positions; never one of weight zero."""
    top = -np.inf
    for c in range(n):
        top = max(top, log_weights[c])
    total = 0.0
    for c in range(n):
        total += np.exp(log_weights[c] - top)
    left = uniform * total
    last = 0
    for c in range(n):
        weight = np.exp(log_weights[c] - top)
        if weight > 0.0:
            last = c
            if left < weight:
                return c
            left -= weight
    return last


@compiled
def sweep_records(  # type: ignore[no-untyped-def]
    order,
    parents,
    kinds,
    cells,
    hidden,
    codes,
    unknown,
    P,
    PA,
    APA,
    A,
    offset,
    log_precision,
    log_weights,
    free,
    log_tables,
    n_levels,
    uniform,
    noise,
    uniform_codes,
):
    """Give each record with hidden cells, in turn, a new parent, kind of link and hidden cells.

    All at once given the rest of the tree: the hidden cells are integrated out of the weights of
    all parents that are no descendants, then drawn. ``parents``, ``kinds``, ``cells`` (T, D) and
    ``codes`` (T, E) are changed in place. Returns whether all precisions were positive definite.
    """
    T, D = cells.shape
    E = codes.shape[1]
    K = len(log_weights)
    C = log_tables.shape[2]
    means = np.empty((K, T, D))
    for k in range(K):
        means[k] = np.dot(cells, A[k].T) + offset[k]
    n_children = np.zeros(T, np.intp)
    for u in range(T):
        if parents[u] >= 0:
            n_children[parents[u]] += 1
    J = np.empty((D, D))
    h = np.empty(D)
    o = np.empty(D)
    g = np.empty((D, 1))
    idx = np.empty(D, np.intp)
    factor = np.empty((K, D, D))
    whites = np.empty((K, D))
    halves = np.empty((K, D, D))
    R = np.empty((D, D))
    r = np.empty(D)
    below = np.zeros((E, C))
    by_parent = np.empty((E, C))
    work = np.empty(C)
    log_pairs = np.empty(K * T)
    allowed = np.empty(T, np.bool_)
    for u in order:
        v = parents[u]
        if v < 0:
            continue
        m = 0
        for i in range(D):
            o[i] = cells[u, i]
            if hidden[u, i]:
                idx[m] = i
                o[i] = 0.0
                m += 1
        n_unknown = 0
        for e in range(E):
            n_unknown += unknown[u, e]
        if m + n_unknown == 0:
            continue
        J[:] = 0.0
        h[:] = 0.0
        below[:] = 0.0
        allowed[:] = True
        allowed[u] = False
        if n_children[u] > 0:
            for c in range(T):
                if parents[c] == u:
                    k = kinds[c]
                    for i in range(D):
                        for j in range(D):
                            J[i, j] += APA[k, i, j]
                            h[j] += PA[k, i, j] * (cells[c, i] - offset[k, i])
                    for e in range(E):
                        for s in range(n_levels[e]):
                            below[e, s] += log_tables[e, k, codes[c, e], s]
                w = c
                while w >= 0 and w != u:
                    w = parents[w]
                allowed[c] = w != u
        for k in range(K):
            L, half = factor[k], halves[k]
            constant = log_weights[k] + 0.5 * log_precision[k]
            for i in range(D):
                total = h[i]
                r[i] = 0.0
                for j in range(D):
                    total -= (P[k, i, j] + J[i, j]) * o[j]
                    r[i] += P[k, i, j] * o[j]
                    R[i, j] = P[k, i, j]
                g[i, 0] = total
                constant -= 0.5 * o[i] * r[i]
            for a in range(m):
                for b in range(a + 1):
                    L[a, b] = P[k, idx[a], idx[b]] + J[idx[a], idx[b]]
            if not factorise(L, m):
                return False
            white = np.empty((m, 1))
            for a in range(m):
                white[a, 0] = g[idx[a], 0]
                constant -= np.log(L[a, a])
                for j in range(D):
                    half[a, j] = P[k, idx[a], j]
            solve_lower(L, m, white)
            solve_lower(L, m, half[:m])
            for a in range(m):
                whites[k, a] = white[a, 0]
                constant += 0.5 * white[a, 0] ** 2
                for i in range(D):
                    r[i] += half[a, i] * white[a, 0]
                    for j in range(D):
                        R[i, j] -= half[a, i] * half[a, j]
            for e in range(E):
                for b in range(n_levels[e]):
                    if unknown[u, e]:
                        for s in range(n_levels[e]):
                            work[s] = log_tables[e, k, s, b] + below[e, s]
                        by_parent[e, b] = _log_sum(work, n_levels[e])
                    else:
                        by_parent[e, b] = log_tables[e, k, codes[u, e], b]
            if free[k]:
                # Every parent says the same, as far as this kind of link goes.
                total = constant
                for i in range(D):
                    total += offset[k, i] * r[i]
                    for j in range(D):
                        total -= 0.5 * offset[k, i] * R[i, j] * offset[k, j]
                for e in range(E):
                    total += by_parent[e, 0]
                for w in range(T):
                    log_pairs[k * T + w] = total if allowed[w] else -np.inf
                continue
            turned = np.dot(means[k], R)
            for w in range(T):
                if not allowed[w]:
                    log_pairs[k * T + w] = -np.inf
                    continue
                total = constant
                for i in range(D):
                    total += means[k, w, i] * (r[i] - 0.5 * turned[w, i])
                for e in range(E):
                    total += by_parent[e, codes[w, e]]
                log_pairs[k * T + w] = total
        chosen = _pick(log_pairs, K * T, uniform[u])
        k, w = chosen // T, chosen % T
        n_children[v] -= 1
        n_children[w] += 1
        parents[u], kinds[u] = w, k
        shift = np.empty((m, 1))
        for a in range(m):
            shift[a, 0] = whites[k, a] + noise[u, idx[a]]
            for j in range(D):
                shift[a, 0] += halves[k, a, j] * means[k, w, j]
        solve_upper(factor[k], m, shift)
        for a in range(m):
            cells[u, idx[a]] = shift[a, 0]
        for e in range(E):
            if unknown[u, e]:
                for s in range(n_levels[e]):
                    work[s] = log_tables[e, k, s, codes[w, e]] + below[e, s]
                codes[u, e] = _pick(work, n_levels[e], uniform_codes[u, e])
        for k in range(K):
            for i in range(D):
                total = offset[k, i]
                for j in range(D):
                    total += A[k, i, j] * cells[u, j]
                means[k, u, i] = total
    return True

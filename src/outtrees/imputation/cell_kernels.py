"""Compiled loops over hidden cells: messages along a tree, and a sweep over records.

Imported at first use only, since it loads numba. The compiler spends most of its time on loops, and
compiles a function anew for literal arguments. So what can be done for all records at once is done
before, in NumPy; nothing is allocated, sliced or multiplied by BLAS here; a last column of ones
carries constants, and the parent of a root is row −1, the last.

``index[u]`` lists the hidden columns of record u, ``size[u]`` of them.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, helper
from outtrees.inference.message_kernels import log_add, parents_first


@helper
def _factorise(factor, at, n):
    """Overwrite the lower triangle (n, n) by its Cholesky factor L; return log |L|, nan if none."""
    log_size = 0.0
    for i in range(n):
        for j in range(i + 1):
            total = factor[at, i, j]
            for m in range(j):
                total -= factor[at, i, m] * factor[at, j, m]
            if i > j:
                factor[at, i, j] = total / factor[at, j, j]
            elif total > 0.0:
                factor[at, i, i] = np.sqrt(total)
                log_size += np.log(factor[at, i, i])
            else:
                return np.nan
    return log_size


@helper
def _solve_lower(factor, values, at, n, width):
    """Overwrite values (n, width) by L⁻¹ values."""
    for i in range(n):
        for j in range(i):
            f = factor[at, i, j]
            for c in range(width):
                values[at, i, c] -= f * values[at, j, c]
        f = factor[at, i, i]
        for c in range(width):
            values[at, i, c] /= f


@helper
def _solve_upper(factor, values, at, n, width):
    """Overwrite values (n, width) by L⁻ᵀ values."""
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            f = factor[at, j, i]
            for c in range(width):
                values[at, i, c] -= f * values[at, j, c]
        f = factor[at, i, i]
        for c in range(width):
            values[at, i, c] /= f


@compiled
def pass_messages(trees, index, size, message, link, factor, solved, mean, draw, cov, work):
    """Pass messages up a tree and down again; return Σ log |L|, nan if a precision fails.

    ``trees`` (1, T) is the tree; inf comes back if it has a cycle. Up: ``message``
    (T + 1, D + 1, D + 1) sums what the children of each record say: −2 log of it is the quadratic
    form in the record's cells and 1. ``link`` is a record's own message without what its children
    say. ``factor`` (T, D, D) and ``solved`` (T, D, 2 D + 2) come with the precision of the link,
    the unit matrix and noise. They leave as the Cholesky factor L of the hidden cells' precision;
    and as their regression on the parent's cells and 1, their covariance given these, and noise of
    that covariance.

    Down: ``mean`` and ``draw`` (T + 1, D + 1) come with the observed cells, hidden ones at 0, and
    are filled in, as is ``cov`` (T + 1, D, D). ``work`` are order (T,), marks (T,) below zero, and
    a row (D,).
    """
    order, mark, part = work
    T, D = len(order), factor.shape[1]
    if not parents_first(trees, 0, order, mark):
        return np.inf
    log_size = 0.0
    for at in range(T - 1, -1, -1):
        u = order[at]
        v, m = trees[0, u], size[u]
        for a in range(m):
            i = index[u, a]
            for b in range(a + 1):
                factor[u, a, b] += message[u, i, index[u, b]]
            for j in range(D + 1):
                solved[u, a, D] -= message[u, i, j] * mean[u, j]
        log_size += _factorise(factor, u, m)
        _solve_lower(factor, solved, u, m, 2 * D + 1)
        for i in range(D + 1):
            for j in range(D + 1):
                total = link[u, i, j]
                for a in range(m):
                    total -= solved[u, a, i] * solved[u, a, j]
                message[v, i, j] += total
        _solve_upper(factor, solved, u, m, 2 * D + 2)
    if np.isnan(log_size):
        return log_size
    for at in range(T):
        u = order[at]
        v, m = trees[0, u], size[u]
        for a in range(m):
            i = index[u, a]
            mean[u, i] = solved[u, a, D]
            draw[u, i] = solved[u, a, D] + solved[u, a, 2 * D + 1]
            for j in range(D):
                mean[u, i] += solved[u, a, j] * mean[v, j]
                draw[u, i] += solved[u, a, j] * draw[v, j]
                part[j] = 0.0
                for c in range(D):
                    part[j] += solved[u, a, c] * cov[v, c, j]
            for b in range(m):
                total = solved[u, a, D + 1 + b]
                for j in range(D):
                    total += part[j] * solved[u, b, j]
                cov[u, i, index[u, b]] = total
    return log_size


@helper
def _pick(log_weights, n, uniform):
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
def sweep_records(
    order, parents, kinds, n_children, cells, hidden, links, alone, moved, categories, random, work
):
    """Give each record of ``order``, in turn, a new parent, kind of link and hidden cells.

    All at once given the rest of the tree: the hidden cells are integrated out of the weights of
    all parents that do not descend from the record, then drawn. Changed in place: ``parents``,
    ``kinds``, ``n_children``, ``cells`` (T, D + 1), ``moved``, and the codes of ``categories``,
    which is None without categorical columns: what is not needed is then not compiled. Returns
    whether all precisions were positive definite. What the arguments hold: `sweep`.
    """
    index, size, seen = hidden
    P, PA, A, to_precision, to_level = links
    log_alone, pulled_alone, widths = alone
    pulled, squares = moved
    uniform, noise = random
    log_pairs, allowed, message, factor, values = work
    K, D, T = pulled.shape
    if categories is not None:
        codes, unknown, tables, n_levels, uniform_codes = categories[0]
        log_codes, by_parent, below = categories[1]
        E = codes.shape[1]
    for u in order:
        m = size[u]
        for c in range(T):
            v = c
            while n_children[u] > 0 and v >= 0 and v != u:
                v = parents[v]
            allowed[c] = v != u
            if parents[c] == u:
                k = kinds[c]
                for i in range(D):
                    for j in range(D + 1):
                        message[u, i, j] += to_precision[k, i, j]
                        message[u, i, D] -= to_level[k, i, j] * cells[c, j]
                if categories is not None:
                    for e in range(E):
                        for s in range(n_levels[e]):
                            below[u, e, s] += tables[e, k, codes[c, e], s]
        for k in range(K):
            for a in range(m):
                i = index[u, a]
                for b in range(a + 1):
                    factor[k, a, b] = P[k, i, index[u, b]] + message[u, i, index[u, b]]
                total = -pulled_alone[k, u, i]
                for j in range(D + 1):
                    total -= message[u, i, j] * seen[u, j]
                for v in range(widths[k]):
                    values[k, a, v] = total + pulled[k, i, v]
            constant = log_alone[k, u] - _factorise(factor, k, m)
            if np.isnan(constant):
                return False
            _solve_lower(factor, values, k, m, widths[k])
            if categories is not None:
                for e in range(E):
                    for b in range(n_levels[e]):
                        total = tables[e, k, codes[u, e], b]
                        if unknown[u, e]:
                            total = -np.inf
                            for s in range(n_levels[e]):
                                total = log_add(total, tables[e, k, s, b] + below[u, e, s])
                        by_parent[e, b] = total
            total = 0.0
            for v in range(T):
                if v < widths[k]:  # else every parent says the same
                    total = constant - squares[k, v]
                    for i in range(D):
                        total += seen[u, i] * pulled[k, i, v]
                    for a in range(m):
                        total += 0.5 * values[k, a, v] * values[k, a, v]
                    if categories is not None:
                        for e in range(E):
                            total += by_parent[e, codes[v, e]]
                log_pairs[k * T + v] = total if allowed[v] else -np.inf
        chosen = _pick(log_pairs, K * T, uniform[u])
        k, v = chosen // T, chosen % T
        n_children[parents[u]] -= 1
        n_children[v] += 1
        parents[u], kinds[u] = v, k
        for a in range(m - 1, -1, -1):
            total = values[k, a, min(v, widths[k] - 1)] + noise[u, index[u, a]]
            for b in range(a + 1, m):
                total -= factor[k, b, a] * cells[u, index[u, b]]
            cells[u, index[u, a]] = total / factor[k, a, a]
        if categories is not None:
            for e in range(E):
                if unknown[u, e]:
                    for s in range(n_levels[e]):
                        log_codes[s] = tables[e, k, s, codes[v, e]] + below[u, e, s]
                    codes[u, e] = _pick(log_codes, n_levels[e], uniform_codes[u, e])
        for k in range(K):
            squares[k, u] = 0.0
            for i in range(D):
                mean, pull = 0.0, 0.0
                for j in range(D + 1):
                    mean += A[k, i, j] * cells[u, j]
                    pull += PA[k, i, j] * cells[u, j]
                pulled[k, i, u] = pull
                squares[k, u] += 0.5 * mean * pull
    return True

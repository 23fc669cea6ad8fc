"""Compiled loops over hidden cells: messages along a tree, and a sweep over records.

Imported at first use only, since it loads numba. The compiler spends most of its time on loops, and
compiles a function anew for literal arguments. So what can be done for all records at once is done
before, in NumPy; nothing is allocated, sliced or multiplied by BLAS here; a last column of ones
carries constants, and the parent of a root is row −1, the last.

``index[u]`` lists the hidden columns of record u, ``size[u]`` of them.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled


@compiled
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


@compiled
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


@compiled
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
def pass_up(order, parents, index, size, seen, message, link, factor, regression):
    """Pass messages from children to parents; return Σ log |L|, nan if a precision fails.

    ``message`` (T + 1, D + 1, D + 1) sums what the children of each record say: −2 log of it is the
    quadratic form in the record's cells and 1. ``link`` is a record's own message without what its
    children say. ``factor`` (T, D, D) and ``regression`` (T, D, D + 1) come with the precision of
    the link; they leave as the Cholesky factor L of the hidden cells' precision, and as their
    regression on the parent's cells and 1.
    """
    D = factor.shape[1]
    log_size = 0.0
    for at in range(len(order) - 1, -1, -1):
        u = order[at]
        v, m = parents[u], size[u]
        for a in range(m):
            i = index[u, a]
            for b in range(a + 1):
                factor[u, a, b] += message[u, i, index[u, b]]
            for j in range(D + 1):
                regression[u, a, D] -= message[u, i, j] * seen[u, j]
        log_size += _factorise(factor, u, m)
        _solve_lower(factor, regression, u, m, D + 1)
        for i in range(D + 1):
            for j in range(D + 1):
                total = link[u, i, j]
                for a in range(m):
                    total -= regression[u, a, i] * regression[u, a, j]
                message[v, i, j] += total
        _solve_upper(factor, regression, u, m, D + 1)
    return log_size


@compiled
def pass_down(order, parents, index, size, factor, regression, inner, part, mean, draw, cov):
    """Fill in the hidden cells' mean, draw (T + 1, D + 1) and cov (T + 1, D, D), parents first.

    ``inner`` (T, D, D + 1) comes as the unit matrix and noise; ``part`` (D,) is work space.
    """
    D = factor.shape[1]
    for at in range(len(order)):
        u = order[at]
        v, m = parents[u], size[u]
        _solve_lower(factor, inner, u, m, D)
        _solve_upper(factor, inner, u, m, D + 1)  # L⁻ᵀ L⁻¹, and L⁻ᵀ times the noise
        for a in range(m):
            i = index[u, a]
            mean[u, i] = regression[u, a, D]
            draw[u, i] = regression[u, a, D] + inner[u, a, D]
            for j in range(D):
                mean[u, i] += regression[u, a, j] * mean[v, j]
                draw[u, i] += regression[u, a, j] * draw[v, j]
                part[j] = 0.0
                for c in range(D):
                    part[j] += regression[u, a, c] * cov[v, c, j]
            for b in range(m):
                total = inner[u, a, b]
                for j in range(D):
                    total += part[j] * regression[u, b, j]
                cov[u, i, index[u, b]] = total


@compiled
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
def _log_add(a, b):
    """Return log(exp(a) + exp(b))."""
    top = max(a, b)
    return top if top == -np.inf else top + np.log1p(np.exp(min(a, b) - top))


@compiled
def sweep_records(
    order,
    parents,
    kinds,
    n_children,
    cells,
    codes,
    unknown,
    index,
    size,
    seen,
    links,
    alone,
    pulled,
    squares,
    widths,
    tables,
    n_levels,
    random,
    work,
):
    """Give each record of ``order``, in turn, a new parent, kind of link and hidden cells.

    All at once given the rest of the tree: the hidden cells are integrated out of the weights of
    all parents that do not descend from the record, then drawn. Changed in place: ``parents``,
    ``kinds``, ``n_children``, ``cells`` (T, D + 1), ``codes`` (T, E), ``pulled``, ``squares``.
    Returns whether all precisions were positive definite. What the arguments hold: `sweep`.
    """
    P, PA, A, to_precision, to_level = links
    log_alone, pulled_alone = alone
    uniform, noise, uniform_codes = random
    log_pairs, log_codes, by_parent, allowed, below, message, factor, values = work
    K, D, T = pulled.shape
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
            for e in range(E):
                for b in range(n_levels[e]):
                    total = tables[e, k, codes[u, e], b]
                    if unknown[u, e]:
                        total = -np.inf
                        for s in range(n_levels[e]):
                            total = _log_add(total, tables[e, k, s, b] + below[u, e, s])
                    by_parent[e, b] = total
            total = 0.0
            for v in range(T):
                if v < widths[k]:  # else every parent says the same
                    total = constant - squares[k, v]
                    for i in range(D):
                        total += seen[u, i] * pulled[k, i, v]
                    for a in range(m):
                        total += 0.5 * values[k, a, v] * values[k, a, v]
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

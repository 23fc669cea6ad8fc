"""Compiled messages between hidden cells; imported at first use only, since it loads numba."""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled
from outtrees.inference.message_kernels import generations_first


@compiled
def factorise(matrix, n):  # type: ignore[no-untyped-def]
    """Overwrite the lower triangle (n, n) by its Cholesky factor; return whether there is one."""
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for m in range(j):
                total -= matrix[i, m] * matrix[j, m]
            if i == j:
                if not total > 0.0:
                    return False
                matrix[i, i] = np.sqrt(total)
            else:
                matrix[i, j] = total / matrix[j, j]
    return True


@compiled
def solve_lower(factor, n, values):  # type: ignore[no-untyped-def]
    """Overwrite values (n, m) by L⁻¹ values."""
    for i in range(n):
        for j in range(i):
            for c in range(values.shape[1]):
                values[i, c] -= factor[i, j] * values[j, c]
        for c in range(values.shape[1]):
            values[i, c] /= factor[i, i]


@compiled
def solve_upper(factor, n, values):  # type: ignore[no-untyped-def]
    """Overwrite values (n, m) by L⁻ᵀ values."""
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            for c in range(values.shape[1]):
                values[i, c] -= factor[j, i] * values[j, c]
        for c in range(values.shape[1]):
            values[i, c] /= factor[i, i]


@compiled
def pass_cells(  # type: ignore[no-untyped-def]
    parents, seen, hidden, kinds, P, PA, APA, offset, log_precision, noise, mean, draw, variance
):
    """Fill ``mean``, ``draw`` and ``variance``; return the number of records reached, and log Z.

    The number is negative if a precision is not positive definite in floating point. Formulas are
    those of `draw_cells`; only hidden cells are solved for.
    """
    T, D = seen.shape
    order, n, _, _ = generations_first(parents)
    if n < T:
        return n, 0.0
    J = np.zeros((T, D, D))
    h = np.zeros((T, D))
    factor = np.zeros((T, D, D))
    slope = np.zeros((T, D, D))  # rows: hidden cells in order; columns: the parent's cells
    level = np.zeros((T, D))
    index = np.zeros((T, D), np.intp)
    size = np.zeros(T, np.intp)
    g = np.empty(D)
    error = np.empty(D)
    log_z = 0.0
    for at in range(T - 1, -1, -1):
        u = order[at]
        k, v = kinds[u], parents[u]
        m = 0
        for i in range(D):
            if hidden[u, i]:
                index[u, m] = i
                m += 1
        size[u] = m
        o, idx, L = seen[u], index[u], factor[u]
        scatter = (D - m) * np.log(2.0 * np.pi) - log_precision[k]
        for i in range(D):
            error[i] = o[i] - offset[k, i]
        for i in range(D):
            g[i] = h[u, i]
            scatter -= 2.0 * h[u, i] * o[i]
            for j in range(D):
                g[i] -= P[k, i, j] * error[j] + J[u, i, j] * o[j]
                scatter += error[i] * P[k, i, j] * error[j] + o[i] * J[u, i, j] * o[j]
        for a in range(m):
            for b in range(a + 1):
                L[a, b] = P[k, idx[a], idx[b]] + J[u, idx[a], idx[b]]
        if not factorise(L, m):
            return -1, 0.0
        white = np.empty((m, 1))
        half = np.empty((m, D))
        for a in range(m):
            white[a, 0] = g[idx[a]]
            scatter += 2.0 * np.log(L[a, a])
            for j in range(D):
                half[a, j] = PA[k, idx[a], j]
        solve_lower(L, m, white)
        solve_lower(L, m, half)
        for a in range(m):
            scatter -= white[a, 0] ** 2
        log_z -= 0.5 * scatter
        if v >= 0:
            for a in range(m):
                for i in range(D):
                    for j in range(D):
                        J[v, i, j] -= half[a, i] * half[a, j]
        solve_upper(L, m, white)
        for a in range(m):
            level[u, a] = white[a, 0]
        if v >= 0:
            for a in range(m):
                error[idx[a]] += level[u, a]
            for i in range(D):
                for j in range(D):
                    J[v, i, j] += APA[k, i, j]
                    h[v, j] += PA[k, i, j] * error[i]
        solve_upper(L, m, half)
        for a in range(m):
            for j in range(D):
                slope[u, a, j] = half[a, j]

    cov = np.zeros((T, D, D))
    for at in range(T):
        u = order[at]
        v, m = parents[u], size[u]
        idx, L = index[u], factor[u]
        own = np.zeros((m, m + 1))
        for a in range(m):
            own[a, a] = 1.0
            own[a, m] = noise[u, idx[a]]
        # L⁻ᵀ times the noise, and L⁻ᵀ L⁻¹.
        shake = own[:, m:].copy()
        solve_upper(L, m, shake)
        inner = own[:, :m].copy()
        solve_lower(L, m, inner)
        solve_upper(L, m, inner)
        for i in range(D):
            mean[u, i] = seen[u, i]
            draw[u, i] = seen[u, i]
            variance[u, i] = 0.0
        part = np.zeros((m, D))
        if v >= 0:
            for a in range(m):
                for i in range(D):
                    s = slope[u, a, i]
                    for j in range(D):
                        part[a, j] += s * cov[v, i, j]
        for a in range(m):
            i = idx[a]
            mean[u, i] = level[u, a]
            draw[u, i] = level[u, a] + shake[a, 0]
            if v >= 0:
                for j in range(D):
                    mean[u, i] += slope[u, a, j] * mean[v, j]
                    draw[u, i] += slope[u, a, j] * draw[v, j]
            for b in range(m):
                total = inner[a, b]
                for j in range(D):
                    total += part[a, j] * slope[u, b, j]
                cov[u, i, idx[b]] = total
            variance[u, i] = cov[u, i, i]
    return n, log_z

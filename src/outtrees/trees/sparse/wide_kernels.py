"""The loops of `front_kernels` on numbers of unbounded exponent (mantissa and exponent arrays)."""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, helper
from outtrees.trees.extended_kernels import (
    ZERO,
    add_multiple,
    divide,
    dot,
    normal,
    normalise,
    power_of_two,
    to_double,
)
from outtrees.trees.sparse.front_kernels import locate, unpack


@helper
def _add(am, ae, bm, be):
    top = max(ae, be)
    return normal(am * power_of_two(ae - top) + bm * power_of_two(be - top), top)


@helper
def _eliminate(Fm, Fe, stop, out_counts, sm, se):
    """Let nodes m−1 … stop leave, row by row: row i takes what those that left hand on to it."""
    m = len(Fm)
    for i in range(m - 1, -1, -1):
        rm, re = Fm[i], Fe[i]
        for k in range(m - 1, max(i, stop - 1), -1):
            if rm[k + 1] != 0.0:
                add_multiple(
                    rm[: k + 1], re[: k + 1], rm[k + 1], re[k + 1], Fm[k, : k + 1], Fe[k, : k + 1]
                )
        rm[i + 1], re[i + 1] = 0.0, ZERO
        normalise(rm, re)
        if i >= stop:
            first = 0 if out_counts else 1
            top = 2 * ZERO
            for j in range(first, i + 1):
                top = max(top, re[j])
            total = 0.0
            for j in range(first, i + 1):
                total += rm[j] * power_of_two(re[j] - top)
            sm[i], se[i] = normal(total, top)
            divide(rm[: i + 1], re[: i + 1], sm[i], se[i])


@compiled
def eliminate(fronts, single_root, weight, out, s, factors, stack):
    """Fill the pivots and the factors, as `front_kernels.eliminate` does."""
    component, above, head = fronts.component, fronts.above, fronts.head
    after, boundary_first, boundary = fronts.after, fronts.boundary_first, fronts.boundary
    edge_first, edge_row, edge_col = fronts.edge_first, fronts.edge_row, fronts.edge_col
    edge, factor_first, stack_place = fronts.edge, fronts.factor_first, fronts.stack_place
    weight_m, weight_e = weight
    out_m, out_e = out
    sm, se = s
    factors_m, factors_e = factors
    stack_m, stack_e = stack
    n = len(sm)
    where = np.zeros(n, np.int64)
    positions = np.empty(n, np.int64)
    for f in range(len(above)):
        single = single_root[component[f]]
        r, m = locate(f, fronts, where, positions)
        Fm, Fe = np.zeros((m, m + 1)), np.full((m, m + 1), ZERO)
        for e in range(edge_first[f], edge_first[f + 1]):
            i, j = where[edge_row[e]], where[edge_col[e]] + 1
            Fm[i, j], Fe[i, j] = weight_m[edge[e]], weight_e[edge[e]]
        for i in range(r, m):
            Fm[i, 0], Fe[i, 0] = out_m[positions[i]], out_e[positions[i]]
        child = head[f]
        while child >= 0:
            size = boundary_first[child + 1] - boundary_first[child]
            at = stack_place[child]
            for a in range(size):
                i = where[boundary[boundary_first[child] + a]]
                for b in range(-1, size):
                    j = where[boundary[boundary_first[child] + b]] + 1 if b >= 0 else 0
                    Fm[i, j], Fe[i, j] = _add(Fm[i, j], Fe[i, j], stack_m[at], stack_e[at])
                    at += 1
            child = after[child]
        lonely = single and above[f] < 0
        local_sm, local_se = np.full(m, 0.5), np.ones(m, np.int64)
        _eliminate(Fm, Fe, r + lonely, not single, local_sm, local_se)
        for i in range(r, m):
            sm[positions[i]], se[positions[i]] = local_sm[i], local_se[i]
        at = factor_first[f]
        for i in range(r, m):
            for j in range(m + 1):
                factors_m[at], factors_e[at] = Fm[i, j], Fe[i, j]
                at += 1
        for i in range(r):
            for j in range(r + 1, m + 1):
                factors_m[at], factors_e[at] = Fm[i, j], Fe[i, j]
                at += 1
        at = stack_place[f]
        for i in range(r):
            for j in range(r + 1):
                stack_m[at], stack_e[at] = Fm[i, j], Fe[i, j]
                at += 1


@compiled
def root_ratios(fronts, single_root, s, factors, x):
    """Fill x_k = Z_k / Z_last in components with one root."""
    component, above = fronts.component, fronts.above
    factor_first = fronts.factor_first
    sm, se = s
    factors_m, factors_e = factors
    xm, xe = x
    n = len(sm)
    where = np.zeros(n, np.int64)
    positions = np.empty(n, np.int64)
    for f in range(len(above) - 1, -1, -1):
        if not single_root[component[f]]:
            continue
        r, m = locate(f, fronts, where, positions)
        k = m - r
        Pm, Um = np.empty((k, m + 1)), np.empty((r, k))
        Pe, Ue = np.empty((k, m + 1), np.int64), np.empty((r, k), np.int64)
        unpack(factor_first[f], r, m, factors_m, Pm, Um)
        unpack(factor_first[f], r, m, factors_e, Pe, Ue)
        for c in range(k):
            node = positions[r + c]
            if c == 0 and above[f] < 0:
                xm[node], xe[node] = 0.5, 1
                continue
            tm, te = 0.0, ZERO
            for i in range(r):
                p = positions[i]
                tm, te = _add(tm, te, xm[p] * Um[i, c], xe[p] + Ue[i, c])
            for i in range(c):
                p = positions[r + i]
                tm, te = _add(tm, te, xm[p] * Pm[i, r + c + 1], xe[p] + Pe[i, r + c + 1])
            xm[node], xe[node] = normal(tm / sm[node], te - se[node])


@helper
def _derivatives(Mm, Me, Pm, Pe, Um, Ue, r, stop, forest, xm, xe, ym, ye, sm, se):
    """Fill the rows and columns stop … m−1 of M, as `front_kernels` does, node by node."""
    m = len(Mm)
    column_m, column_e = np.empty(m), np.empty(m, np.int64)
    first = 0 if forest else 1
    for k in range(stop, m):
        pm, pe = Pm[k - r, first : k + 1], Pe[k - r, first : k + 1]
        wm, we = np.zeros(k + 1 - first), np.full(k + 1 - first, ZERO)
        for i in range(k):
            rows = Mm[i, first : k + 1], Me[i, first : k + 1]
            column_m[i], column_e[i] = dot(rows[0], rows[1], pm, pe)
            if i < r:
                qm, qe = Um[i, k - r], Ue[i, k - r]
            else:
                qm, qe = Pm[i - r, k + 1], Pe[i - r, k + 1]
            if qm != 0.0:
                add_multiple(wm, we, qm, qe, rows[0], rows[1])
        normalise(wm, we)
        below_m, below_e = dot(wm, we, pm, pe)
        root = to_double(ym[k] * sm[k] * xm[k], ye[k] + se[k] + xe[k])
        c = 1.0 - root - to_double(below_m, below_e)
        for j in range(len(wm)):
            if we[j] <= 100:  # else c, of the order of one, is nothing beside it
                wm[j], we[j] = normal(to_double(wm[j], we[j]) + c, 0)
        divide(wm, we, sm[k], se[k])
        for j in range(len(wm)):
            Mm[k, first + j], Me[k, first + j] = wm[j], we[j]
        Mm[k, k + 1], Me[k, k + 1] = 0.0, ZERO
        for i in range(k):
            Mm[i, k + 1], Me[i, k + 1] = _add(
                column_m[i], column_e[i], ym[k] * xm[i], ye[k] + xe[i]
            )


@compiled
def marginals(fronts, single_root, passed, edge_marginal, out_marginal):
    """Fill the probability of each edge, and of leaving the component at each node."""
    component, above, head = fronts.component, fronts.above, fronts.head
    after, boundary_first, boundary = fronts.after, fronts.boundary_first, fronts.boundary
    edge_first, edge_row, edge_col = fronts.edge_first, fronts.edge_row, fronts.edge_col
    edge, factor_first, stack_place = fronts.edge, fronts.factor_first, fronts.stack_place
    (weight_m, weight_e), (out_m, out_e) = passed.weight, passed.out
    (sm, se), (factors_m, factors_e) = passed.s, passed.factors
    (stack_m, stack_e), (xm, xe) = passed.stack, passed.x
    last_m, last_e = passed.rho_last
    n = len(sm)
    where = np.zeros(n, np.int64)
    positions = np.empty(n, np.int64)
    for f in range(len(above) - 1, -1, -1):
        c = component[f]
        single = single_root[c]
        r, m = locate(f, fronts, where, positions)
        k = m - r
        Pm, Um = np.empty((k, m + 1)), np.empty((r, k))
        Pe, Ue = np.empty((k, m + 1), np.int64), np.empty((r, k), np.int64)
        unpack(factor_first[f], r, m, factors_m, Pm, Um)
        unpack(factor_first[f], r, m, factors_e, Pe, Ue)
        Mm, Me = np.zeros((m, m + 1)), np.full((m, m + 1), ZERO)
        at = stack_place[f]
        for i in range(r):
            for j in range(r + 1):
                Mm[i, j], Me[i, j] = stack_m[at], stack_e[at]
                at += 1
        x_m, x_e = xm[positions[:m]], xe[positions[:m]]
        s_m, s_e = sm[positions[:m]], se[positions[:m]]
        y_m, y_e = np.zeros(m), np.full(m, ZERO)
        if single:
            for i in range(r, m):
                y_m[i], y_e[i] = normal(Pm[i - r, 0] / last_m[c], Pe[i - r, 0] - last_e[c])
        lonely = single and above[f] < 0
        _derivatives(
            Mm, Me, Pm, Pe, Um, Ue, r, r + lonely, not single, x_m, x_e, y_m, y_e, s_m, s_e
        )
        for e in range(edge_first[f], edge_first[f + 1]):
            i, j = where[edge_row[e]], where[edge_col[e]] + 1
            w = edge[e]
            edge_marginal[w] = to_double(weight_m[w] * Mm[i, j], weight_e[w] + Me[i, j])
        for i in range(r, m):
            p = positions[i]
            if single:
                out_marginal[p] = to_double(
                    out_m[p] * x_m[i] / last_m[c], out_e[p] + x_e[i] - last_e[c]
                )
            else:
                out_marginal[p] = to_double(out_m[p] * Mm[i, 0], out_e[p] + Me[i, 0])
        child = head[f]
        while child >= 0:
            size = boundary_first[child + 1] - boundary_first[child]
            at = stack_place[child]
            for a in range(size):
                i = where[boundary[boundary_first[child] + a]]
                for b in range(-1, size):
                    j = where[boundary[boundary_first[child] + b]] + 1 if b >= 0 else 0
                    stack_m[at], stack_e[at] = Mm[i, j], Me[i, j]
                    at += 1
            child = after[child]

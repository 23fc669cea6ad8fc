"""The loops of `front_kernels` on numbers of unbounded exponent (mantissa and exponent arrays)."""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled
from outtrees.trees import extended_kernels
from outtrees.trees.extended_kernels import ZERO, add, normal, to_double
from outtrees.trees.sparse.front_kernels import (
    hand_back,
    hand_on,
    locate,
    take_back,
    take_in,
    unpack,
)

_eliminate, _derivatives = extended_kernels.eliminate, extended_kernels.derivatives


@compiled
def eliminate(fronts, single_root, weight, out, s, factors, stack):
    """Fill the pivots and the factors, as `front_kernels.eliminate` does."""
    component, above, head = fronts.component, fronts.above, fronts.head
    after, boundary_first, boundary = fronts.after, fronts.boundary_first, fronts.boundary
    stack_place = fronts.stack_place
    (sm, se), (stack_m, stack_e) = s, stack
    n = len(sm)
    where = np.zeros(n, np.int64)
    positions = np.empty(n, np.int64)
    for f in range(len(above)):
        single = single_root[component[f]]
        r, m = locate(f, fronts, where, positions)
        Fm, Fe = np.zeros((m, m + 1)), np.full((m, m + 1), ZERO)
        take_in(Fm, f, r, fronts, where, positions, weight[0], out[0])
        take_in(Fe, f, r, fronts, where, positions, weight[1], out[1])
        child = head[f]
        while child >= 0:
            size = boundary_first[child + 1] - boundary_first[child]
            at = stack_place[child]
            for a in range(size):
                i = where[boundary[boundary_first[child] + a]]
                for b in range(-1, size):
                    j = where[boundary[boundary_first[child] + b]] + 1 if b >= 0 else 0
                    Fm[i, j], Fe[i, j] = add(Fm[i, j], Fe[i, j], stack_m[at], stack_e[at])
                    at += 1
            child = after[child]
        lonely = single and above[f] < 0
        local_sm, local_se = np.full(m, 0.5), np.ones(m, np.int64)
        _eliminate(Fm, Fe, r + lonely, 1, 1 if single else 0, local_sm, local_se)
        for i in range(r, m):
            sm[positions[i]], se[positions[i]] = local_sm[i], local_se[i]
        hand_on(Fm, f, r, fronts, factors[0], stack_m)
        hand_on(Fe, f, r, fronts, factors[1], stack_e)


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
                tm, te = add(tm, te, xm[p] * Um[i, c], xe[p] + Ue[i, c])
            for i in range(c):
                p = positions[r + i]
                tm, te = add(tm, te, xm[p] * Pm[i, r + c + 1], xe[p] + Pe[i, r + c + 1])
            xm[node], xe[node] = normal(tm / sm[node], te - se[node])


@compiled
def marginals(fronts, single_root, bad, passed, edge_marginal, out_marginal):
    """Fill the probability of each edge, and of leaving the component at each node.

    Nothing is ``bad`` here: `front_kernels.marginals` takes the same arguments.
    """
    component, above, factor_first = fronts.component, fronts.above, fronts.factor_first
    edge_first, edge_row, edge_col = fronts.edge_first, fronts.edge_row, fronts.edge_col
    edge = fronts.edge
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
        take_back(Mm, f, r, fronts, stack_m)
        take_back(Me, f, r, fronts, stack_e)
        x_m, x_e = xm[positions[:m]], xe[positions[:m]]
        s_m, s_e = sm[positions[:m]], se[positions[:m]]
        y_m, y_e = np.zeros(m), np.full(m, ZERO)
        if single:
            for i in range(r, m):
                y_m[i], y_e[i] = normal(Pm[i - r, 0] / last_m[c], Pe[i - r, 0] - last_e[c])
        lonely = single and above[f] < 0
        first = 1 if single else 0
        own = x_m, x_e, y_m, y_e, s_m, s_e
        _derivatives(Mm, Me, Pm, Pe, Um, Ue, r + lonely, 1, first, *own)
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
        hand_back(Mm, f, fronts, where, stack_m)
        hand_back(Me, f, fronts, where, stack_e)

"""Compiled elimination front by front, in the range of a double.

A front's matrix has a row for each of its nodes, its boundary first and the node that leaves first
last, and a column for each, after column 0: what leads out of the component (in a forest), or the
weight of being the one root. Rows are never subtracted from: see `outtrees.trees.elimination`.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, helper
from outtrees.trees.elimination_blocks import LIMIT

_PANEL = 48


@helper
def locate(f, fronts, where, positions):
    """Fill ``positions`` of the front's rows and ``where`` of these positions; return (r, m)."""
    starts, boundary_first, boundary = fronts.starts, fronts.boundary_first, fronts.boundary
    r = boundary_first[f + 1] - boundary_first[f]
    m = r + starts[f + 1] - starts[f]
    for i in range(r):
        positions[i] = boundary[boundary_first[f] + i]
    for i in range(r, m):
        positions[i] = starts[f + 1] - 1 - (i - r)
    for i in range(m):
        where[positions[i]] = i
    return r, m


@helper
def take_in(F, f, r, fronts, where, positions, weight, out):
    """Write the edges that a front takes in, and what leads out of its own nodes."""
    edge_first, edge_row, edge_col = fronts.edge_first, fronts.edge_row, fronts.edge_col
    edge = fronts.edge
    for e in range(edge_first[f], edge_first[f + 1]):
        F[where[edge_row[e]], where[edge_col[e]] + 1] = weight[edge[e]]
    for i in range(r, len(F)):
        F[i, 0] = out[positions[i]]


@helper
def hand_on(F, f, r, fronts, factors, stack):
    """Keep the factors of a front, and leave on the stack what its boundary has now."""
    m = len(F)
    at = fronts.factor_first[f]
    for i in range(r, m):
        for j in range(m + 1):
            factors[at] = F[i, j]
            at += 1
    for i in range(r):
        for j in range(r + 1, m + 1):
            factors[at] = F[i, j]
            at += 1
    at = fronts.stack_place[f]
    for i in range(r):
        for j in range(r + 1):
            stack[at] = F[i, j]
            at += 1


@helper
def take_back(M, f, r, fronts, stack):
    """Read from the stack the derivatives by the boundary's edges."""
    at = fronts.stack_place[f]
    for i in range(r):
        for j in range(r + 1):
            M[i, j] = stack[at]
            at += 1


@helper
def hand_back(M, f, fronts, where, stack):
    """Leave on the stack what the fronts that handed on to this one take back."""
    boundary_first, boundary = fronts.boundary_first, fronts.boundary
    child = fronts.head[f]
    while child >= 0:
        lo, hi = boundary_first[child], boundary_first[child + 1]
        at = fronts.stack_place[child]
        for a in range(lo, hi):
            i = where[boundary[a]]
            stack[at] = M[i, 0]
            at += 1
            for b in range(lo, hi):
                stack[at] = M[i, where[boundary[b]] + 1]
                at += 1
        child = fronts.after[child]


@helper
def _eliminate(F, stop, out_counts, s):
    """Let nodes m−1 … stop leave; False if a pivot is out of range."""
    m = len(F)
    hi = m
    while hi > stop:
        lo = max(hi - _PANEL, stop)
        for k in range(hi - 1, lo - 1, -1):
            pivot = F[k, 0] if out_counts else 0.0
            for j in range(1, k + 1):
                pivot += F[k, j]
            if not pivot * LIMIT >= 1.0:
                return False
            s[k] = pivot
            for j in range(k + 1):
                F[k, j] /= pivot
            for i in range(lo, k):
                w = F[i, k + 1]
                if w != 0.0:
                    for j in range(k + 1):
                        F[i, j] += w * F[k, j]
        for i in range(lo):
            for k in range(hi - 1, lo, -1):
                w = F[i, k + 1]
                if w != 0.0:
                    for j in range(lo + 1, k + 1):
                        F[i, j] += w * F[k, j]
        if lo > 0:
            rates = F[:lo, lo + 1 : hi + 1].copy()
            shares = F[lo:hi, : lo + 1].copy()
            if lo * (hi - lo) < 256:
                for i in range(lo):
                    for k in range(hi - lo):
                        w = rates[i, k]
                        for j in range(lo + 1):
                            F[i, j] += w * shares[k, j]
            else:
                # Not F[:lo, : lo + 1] += …: assigning to a slice takes seconds to compile, for the
                # message that shapes differ.
                product = np.dot(rates, shares)
                for i in range(lo):
                    for j in range(lo + 1):
                        F[i, j] += product[i, j]
        hi = lo
    return True


@compiled
def eliminate(fronts, single_root, weight, out, bad, s, factors, stack):
    """Fill the pivots s and the factors; mark components that leave the range as ``bad``."""
    component, above, head = fronts.component, fronts.above, fronts.head
    after, boundary_first, boundary = fronts.after, fronts.boundary_first, fronts.boundary
    stack_place = fronts.stack_place
    n = len(s)
    where = np.zeros(n, np.int64)
    positions = np.empty(n, np.int64)
    for f in range(len(above)):
        if bad[component[f]]:
            continue
        single = single_root[component[f]]
        r, m = locate(f, fronts, where, positions)
        F = np.zeros((m, m + 1))
        take_in(F, f, r, fronts, where, positions, weight, out)
        child = head[f]
        while child >= 0:
            size = boundary_first[child + 1] - boundary_first[child]
            at = stack_place[child]
            for a in range(size):
                i = where[boundary[boundary_first[child] + a]]
                F[i, 0] += stack[at]
                at += 1
                for b in range(size):
                    F[i, where[boundary[boundary_first[child] + b]] + 1] += stack[at]
                    at += 1
            child = after[child]
        lonely = single and above[f] < 0  # its last node stays
        local_s = np.ones(m)
        if not _eliminate(F, r + lonely, not single, local_s):
            bad[component[f]] = True
            continue
        for i in range(r, m):
            s[positions[i]] = local_s[i]
        hand_on(F, f, r, fronts, factors, stack)


@helper
def unpack(at, r, m, factors, P, U):
    """Read a front's factors: P holds the rows of its own nodes, U the rates of its boundary."""
    for i in range(m - r):
        for j in range(m + 1):
            P[i, j] = factors[at]
            at += 1
    for i in range(r):
        for j in range(m - r):
            U[i, j] = factors[at]
            at += 1


@compiled
def root_ratios(fronts, single_root, bad, s, factors, x, time):
    """Fill x_k = Z_k / Z_last in components with one root, and the time bound of every node.

    x_k s_k = Σ_i x_i q_ik over the nodes i that leave after k; time_k s_k = 1 + Σ_i time_i q_ik.
    """
    component, above = fronts.component, fronts.above
    factor_first = fronts.factor_first
    n = len(s)
    where = np.zeros(n, np.int64)
    positions = np.empty(n, np.int64)
    for f in range(len(above) - 1, -1, -1):
        if bad[component[f]]:
            continue
        single = single_root[component[f]]
        r, m = locate(f, fronts, where, positions)
        k = m - r
        P, U = np.empty((k, m + 1)), np.empty((r, k))
        unpack(factor_first[f], r, m, factors, P, U)
        for c in range(k):
            node = positions[r + c]
            if c == 0 and single and above[f] < 0:
                x[node] = 1.0
                time[node] = 0.0
                continue
            ratio, spent = 0.0, 1.0
            for i in range(r):
                ratio += x[positions[i]] * U[i, c]
                spent += time[positions[i]] * U[i, c]
            for i in range(c):
                ratio += x[positions[r + i]] * P[i, r + c + 1]
                spent += time[positions[r + i]] * P[i, r + c + 1]
            x[node] = ratio / s[node]
            time[node] = spent / s[node]
            if not (x[node] <= LIMIT and time[node] <= LIMIT):
                bad[component[f]] = True
                break


@helper
def _derivatives(M, P, U, r, stop, forest, x, y, s):
    """Fill the rows and columns stop … m−1 of M = ∂ log Z / ∂ q, given those of the boundary.

        M[i, k] = Σ_j M[i, j] p_kj + y_k x_i
        M[k, j] = (Σ_i q_ik M[i, j] + c_k) / s_k
        c_k     = 1 − y_k s_k x_k − Σ_ij q_ik M[i, j] p_kj

    sums over nodes that leave after k. In a forest x = 0 and column 0 counts as a node.
    """
    m = len(M)
    w = np.empty(m + 1)
    rate = np.empty(m)
    lo = stop
    while lo < m:
        hi = min(lo + _PANEL, m)
        width = hi - lo
        shares = np.zeros((width, lo + 1))
        rates = np.empty((lo, width))
        for k in range(lo, hi):
            for j in range(0 if forest else 1, lo + 1):
                shares[k - lo, j] = P[k - r, j]
            for i in range(r):
                rates[i, k - lo] = U[i, k - r]
            for i in range(r, lo):
                rates[i, k - lo] = P[i - r, k + 1]
        if lo > 0:
            inner = M[:lo, : lo + 1].copy()
            G = np.dot(inner, shares.T.copy())
            H = np.dot(rates.T.copy(), inner)
        else:
            G = np.zeros((0, width))
            H = np.zeros((width, 1))
        for k in range(lo, hi):
            p = P[k - r]
            for i in range(lo):
                total = G[i, k - lo] + y[k] * x[i]
                for j in range(lo, k):
                    total += M[i, j + 1] * p[j + 1]
                M[i, k + 1] = total
                rate[i] = rates[i, k - lo]
            for i in range(lo, k):
                rate[i] = P[i - r, k + 1]
            for j in range(lo + 1):
                w[j] = H[k - lo, j]
            for j in range(lo + 1, k + 1):
                w[j] = 0.0
            for i in range(lo):
                q = rate[i]
                if q != 0.0:
                    for j in range(lo + 1, k + 1):
                        w[j] += q * M[i, j]
            for i in range(lo, k):
                q = rate[i]
                if q != 0.0:
                    for j in range(k + 1):
                        w[j] += q * M[i, j]
            c = 1.0 - y[k] * s[k] * x[k]
            for j in range(0 if forest else 1, k + 1):
                c -= w[j] * p[j]
            for i in range(lo, k):
                total = y[k] * x[i]
                for j in range(0 if forest else 1, k + 1):
                    total += M[i, j] * p[j]
                M[i, k + 1] = total
            for j in range(0 if forest else 1, k + 1):
                M[k, j] = (w[j] + c) / s[k]
            M[k, k + 1] = 0.0
        lo = hi


@compiled
def marginals(fronts, single_root, bad, passed, edge_marginal, out_marginal):
    """Fill the probability of each edge within components, and of leaving them at each node."""
    component, above, factor_first = fronts.component, fronts.above, fronts.factor_first
    edge_first, edge_row, edge_col = fronts.edge_first, fronts.edge_row, fronts.edge_col
    edge = fronts.edge
    weight, out, s, factors = passed.weight, passed.out, passed.s, passed.factors
    stack, x, rho_last = passed.stack, passed.x, passed.rho_last
    n = len(s)
    where = np.zeros(n, np.int64)
    positions = np.empty(n, np.int64)
    for f in range(len(above) - 1, -1, -1):
        c = component[f]
        if bad[c]:
            continue
        single = single_root[c]
        r, m = locate(f, fronts, where, positions)
        k = m - r
        P, U = np.empty((k, m + 1)), np.empty((r, k))
        unpack(factor_first[f], r, m, factors, P, U)
        M = np.zeros((m, m + 1))
        take_back(M, f, r, fronts, stack)
        local_x, local_y, local_s = np.zeros(m), np.zeros(m), np.ones(m)
        for i in range(m):
            local_x[i] = x[positions[i]]
            local_s[i] = s[positions[i]]
        if single:
            for i in range(r, m):
                local_y[i] = P[i - r, 0] / rho_last[c]
        lonely = single and above[f] < 0
        _derivatives(M, P, U, r, r + lonely, not single, local_x, local_y, local_s)
        for e in range(edge_first[f], edge_first[f + 1]):
            edge_marginal[edge[e]] = weight[edge[e]] * M[where[edge_row[e]], where[edge_col[e]] + 1]
        for i in range(r, m):
            if single:
                out_marginal[positions[i]] = out[positions[i]] * local_x[i] / rho_last[c]
            else:
                out_marginal[positions[i]] = out[positions[i]] * M[i, 0]
        hand_back(M, f, fronts, where, stack)

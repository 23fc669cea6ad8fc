"""Compiled loops of the elimination inside one block of nodes; imported at first use only.

`outtrees.trees.elimination_blocks` is their twin in NumPy: same arguments, same results but for
rounding. Sums run over rows, which lie side by side in memory, four at a time: such loops
compile to vector instructions although no sum is reordered.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, helper
from outtrees.trees.elimination_blocks import LIMIT


@helper
def add_rows(row, factor, rows, count, lo, hi):
    """row[j] += Σ_i factor[i] rows[i, j] over i < count, for lo ≤ j < hi."""
    whole = count - count % 4
    for i in range(0, whole, 4):
        a, b, c, d = factor[i], factor[i + 1], factor[i + 2], factor[i + 3]
        for j in range(lo, hi):
            row[j] += (a * rows[i, j] + b * rows[i + 1, j]) + (
                c * rows[i + 2, j] + d * rows[i + 3, j]
            )
    for i in range(whole, count):
        a = factor[i]
        for j in range(lo, hi):
            row[j] += a * rows[i, j]


@helper
def eliminate_nodes(work, s, first):
    """Eliminate the nodes of ``work`` (m, m + 1), whose column 0 is the weight to all before.

    Returns whether all pivots are in range.
    """
    for k in range(len(s) - 1, first - 1, -1):
        pivot = 0.0
        for j in range(k + 1):
            pivot += work[k, j]
        s[k] = pivot
        if not pivot * LIMIT >= 1.0:
            return False
        for j in range(k + 1):
            work[k, j] /= pivot
        for i in range(k):
            rate = work[i, k + 1]
            for j in range(k + 1):
                work[i, j] += rate * work[k, j]
    return True


@compiled
def factor_block(q, lo, hi, beyond, s, inv_su, inv_ip):
    """Factorise nodes lo … hi−1 of q; fill s and both inverses; return the longest time."""
    m = hi - lo
    work = np.empty((m, m + 1))
    for i in range(m):
        work[i, 0] = beyond[i]
        for j in range(m):
            work[i, j + 1] = q[lo + i, lo + j]
    if not eliminate_nodes(work, s, 1 if lo == 0 else 0):
        return np.inf
    for i in range(m):
        for j in range(m):
            q[lo + i, lo + j] = work[i, j + 1]
            inv_su[i, j] = 0.0
            inv_ip[i, j] = 0.0
    for k in range(m):  # row k of (I − P)⁻¹ from those before it
        add_rows(inv_ip[k], work[k, 1:], inv_ip, k, 0, k)
        inv_ip[k, k] = 1.0
    # Row k of (S − U)⁻¹ from those behind it.
    time = np.zeros(m)
    for k in range(m - 1, -1, -1):
        add_rows(inv_su[k], work[k, k + 2 :], inv_su[k + 1 :], m - 1 - k, k + 1, m)
        inv_su[k, k] = 1.0
        for j in range(k, m):
            inv_su[k, j] /= s[k]
            time[j] += inv_su[k, j]
    longest = 0.0
    for j in range(m):
        if not time[j] <= LIMIT:  # too large, or infinity times zero on the way
            return np.inf
        longest = max(longest, time[j])
    return longest


@helper
def derive_nodes(q, lo, x, y, s, flow_P, U_M, beyond, M, c):
    """Fill M of the nodes from ``lo`` on, and their constants c."""
    m = len(c)
    by_parent = np.zeros((m, m))  # M transposed
    rates, shares, column = np.empty(m), np.empty(m), np.empty(m)
    for k in range(1 if lo == 0 else 0, m):
        row = M[k]
        for j in range(k):
            row[j] = U_M[k, j]
            rates[j] = q[lo + j, lo + k]
            shares[j] = q[lo + k, lo + j]
        for j in range(k, m):
            row[j] = flow_P[k, j]
        add_rows(row, rates, M, k, 0, m)
        root = y[lo + k] * s[lo + k] * x[lo + k]
        constant = 1.0 - root - row[k]
        for j in range(k):
            constant -= row[j] * shares[j]
        for j in range(k):
            row[j] = (row[j] + constant) / s[lo + k]
            column[j] = M[j, k] + y[lo + k] * x[lo + j]
        for j in range(k, m):
            row[j] = (row[j] + constant * beyond[j]) / s[lo + k]
        add_rows(column, shares, by_parent, k, 0, k)
        row[k] = 0.0  # no record descends from itself
        for j in range(k):
            by_parent[j, k] = row[j]
            by_parent[k, j] = column[j]
            M[j, k] = column[j]
        c[k] = constant


@compiled
def derive_block(q, lo, hi, x, y, s, flow_P, U_M, beyond):
    """Return M of the block's nodes and their constants c."""
    m = hi - lo
    M, c = np.zeros((m, m)), np.zeros(m)
    derive_nodes(q, lo, x, y, s, flow_P, U_M, beyond, M, c)
    return M, c

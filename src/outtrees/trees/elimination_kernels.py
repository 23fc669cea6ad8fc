"""Compiled loops of the elimination inside one block of nodes; imported at first use only.

`outtrees.trees.elimination_blocks` is their twin in NumPy: same arguments, same results but for
rounding. Sums run over rows, which lie side by side in memory, four at a time: such loops
compile to vector instructions although no sum is reordered. Nothing is allocated or sliced in
compiled code, which would take longer to compile than all the rest.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, helper
from outtrees.trees.elimination_blocks import LIMIT
from outtrees.trees.weights import Floats


def factor_block(
    q: Floats, lo: int, hi: int, beyond: Floats, s: Floats, inv_su: Floats, inv_ip: Floats
) -> float:
    """Factorise nodes lo … hi−1 of q; fill s and both inverses; return the longest time."""
    m = hi - lo
    longest: float = _factor(q, lo, beyond, s, inv_su, inv_ip, np.zeros((m + 1, m + 1)))
    return longest


def derive_block(
    q: Floats,
    lo: int,
    hi: int,
    x: Floats,
    y: Floats,
    s: Floats,
    flow_P: Floats,
    U_M: Floats,
    beyond: Floats,
) -> tuple[Floats, Floats]:
    """Return M of the block's nodes and their constants c."""
    m = hi - lo
    M, c = np.zeros((m, m + 1)), np.zeros(m)
    _derive(q, lo, x, y, s, flow_P, U_M, beyond, M, c, np.zeros((m + 3, m + 1)))
    return M[:, :m], c


@helper
def _add_rows(into, k, factor, i, first, rows, start, count, lo, hi):
    """into[k, j] += Σ_d factor[i, first + d] rows[start + d, j], d < count, for lo ≤ j < hi."""
    whole = count - count % 4
    for d in range(0, whole, 4):
        f, r = first + d, start + d
        a, b, c, e = factor[i, f], factor[i, f + 1], factor[i, f + 2], factor[i, f + 3]
        for j in range(lo, hi):
            into[k, j] += (a * rows[r, j] + b * rows[r + 1, j]) + (
                c * rows[r + 2, j] + e * rows[r + 3, j]
            )
    for d in range(whole, count):
        a, r = factor[i, first + d], start + d
        for j in range(lo, hi):
            into[k, j] += a * rows[r, j]


@compiled
def _factor(q, lo, beyond, s, inv_su, inv_ip, work):
    """Column 0 of ``work`` (m + 1, m + 1) is the weight to all nodes before; its last row times."""
    m = len(s)
    for i in range(m):
        work[i, 0] = beyond[i]
        for j in range(m):
            work[i, j + 1] = q[lo + i, lo + j]
            inv_su[i, j] = 0.0
            inv_ip[i, j] = 0.0
    for k in range(m - 1, 0 if lo == 0 else -1, -1):
        pivot = 0.0
        for j in range(k + 1):
            pivot += work[k, j]
        s[k] = pivot
        if not pivot * LIMIT >= 1.0:
            return np.inf
        for j in range(k + 1):
            work[k, j] /= pivot
        for i in range(k):
            rate = work[i, k + 1]
            for j in range(k + 1):
                work[i, j] += rate * work[k, j]
    for i in range(m):
        beyond[i] = work[i, 0]
        for j in range(m):
            q[lo + i, lo + j] = work[i, j + 1]
    for k in range(m):  # row k of (I − P)⁻¹ from those before it
        _add_rows(inv_ip, k, work, k, 1, inv_ip, 0, k, 0, k)
        inv_ip[k, k] = 1.0
    for k in range(m - 1, -1, -1):  # row k of (S − U)⁻¹ from those behind it
        _add_rows(inv_su, k, work, k, k + 2, inv_su, k + 1, m - 1 - k, k + 1, m)
        inv_su[k, k] = 1.0
        for j in range(k, m):
            inv_su[k, j] /= s[k]
            work[m, j] += inv_su[k, j]
    longest = 0.0
    for j in range(m):
        if not work[m, j] <= LIMIT:  # too large, or infinity times zero on the way
            return np.inf
        longest = max(longest, work[m, j])
    return longest


@compiled
def _derive(q, lo, x, y, s, flow_P, U_M, beyond, M, c, space):
    """``space`` (m + 3, m) holds M transposed, then the rates, the shares and the new column."""
    m = len(c)
    rates, shares, column = m, m + 1, m + 2
    for k in range(1 if lo == 0 else 0, m):
        for j in range(k):
            M[k, j] = U_M[k, j]
            space[rates, j] = q[lo + j, lo + k]
            space[shares, j] = q[lo + k, lo + j]
        for j in range(k, m):
            M[k, j] = flow_P[k, j]
        _add_rows(M, k, space, rates, 0, M, 0, k, 0, m)
        constant = 1.0 - y[lo + k] * s[lo + k] * x[lo + k] - M[k, k]
        for j in range(k):
            constant -= M[k, j] * space[shares, j]
        for j in range(k):
            M[k, j] = (M[k, j] + constant) / s[lo + k]
            space[column, j] = M[j, k] + y[lo + k] * x[lo + j]
        for j in range(k, m):
            M[k, j] = (M[k, j] + constant * beyond[j]) / s[lo + k]
        _add_rows(space, column, space, shares, 0, space, 0, k, 0, k)
        M[k, k] = 0.0  # no record descends from itself
        for j in range(k):
            space[j, k] = M[k, j]
            space[k, j] = space[column, j]
            M[j, k] = space[column, j]
        c[k] = constant

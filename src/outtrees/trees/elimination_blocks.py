"""The elimination inside one block of nodes, in NumPy.

All that happens inside a block depends on the nodes before it through sums alone, so blocks are
small problems of their own. `outtrees.trees.elimination_kernels` holds the same two functions
compiled; these are what is used where there is no compiler, for a handful of nodes, and in tests.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dtrtri

from outtrees.trees.weights import Floats

# Times, rates of escape and ratios Z_r / Z_0 must stay within this factor of one. Its square is
# still a double, so nothing overflows, and δ n³ times it is nothing beside 1e-16.
LIMIT = 1e140


def factor_block(
    q: Floats,  # (n, n): the block's part is replaced by its factors
    lo: int,
    hi: int,
    beyond: Floats,  # (m,) the weight to all nodes before the block together; becomes the share
    s: Floats,  # (m,) filled with the pivots
    inv_su: Floats,  # (m + 1, m + 1) filled with (S − U)⁻¹ but for the last row and column
    inv_ip: Floats,  # (m + 1, m + 1) filled with (I − P)⁻¹, too
) -> float:
    """Factorise nodes lo … hi−1; return the longest time, inf if something is out of range.

    The time is the largest column sum of (S − U)⁻¹: each is the time spent in a node before the
    chain leaves the block's later nodes for good. Stopping at the limit means that nothing here
    can overflow, nor in the inverse afterwards.
    """
    m = hi - lo
    block = q[lo:hi, lo:hi]
    work = np.column_stack([beyond, block])
    for k in range(m - 1, int(lo == 0) - 1, -1):
        row = work[k, : k + 1]
        s[k] = pivot = np.add.reduce(row)
        if pivot * LIMIT < 1.0:
            return np.inf
        row /= pivot
        work[:k, : k + 1] += work[:k, k + 1, None] * row
    beyond[:], block[:] = work[:, 0], work[:, 1:]
    time = np.zeros(m)
    for k in range(m):
        time[k] = (1.0 + time[:k] @ block[:k, k]) / s[k]
        if time[k] > LIMIT:
            return np.inf
    su = np.negative(np.triu(block, 1))
    np.fill_diagonal(su, s)
    ip = np.negative(np.tril(block, -1))
    np.fill_diagonal(ip, 1.0)
    # LAPACK reads columns: the transpose of a row-major triangle costs no copy.
    inv_su[:m, :m] = dtrtri(su.T, lower=1)[0].T
    inv_ip[:m, :m] = dtrtri(ip.T, lower=0)[0].T
    return float(time.max())


def derive_block(
    q: Floats,  # (n, n) the factors
    lo: int,
    hi: int,
    x: Floats,  # (n,), as are y and s
    y: Floats,
    s: Floats,
    flow_P: Floats,  # (m, m) U_RKᵀ M_RR P_KRᵀ
    U_M: Floats,  # (m, m) U_RKᵀ M_RK
    beyond: Floats,  # (m,) P_KR 1
) -> tuple[Floats, Floats]:
    """Return M of nodes lo … hi−1 (m, m) and their constants c (m,).

    The nodes R before the block count only through M_KR P_KRᵀ. Its column k is read once, when
    column k of M_KK is made of it: at stage k, columns from k on hold the former, those
    before k the latter.
    """
    m = hi - lo
    block = q[lo:hi, lo:hi]
    x, y, s = x[lo:hi], y[lo:hi], s[lo:hi]
    not_root = 1.0 - y * s * x
    M, c = np.zeros((m, m)), np.zeros(m)
    for k in range(int(lo == 0), m):
        p_k = block[k, :k]
        row = block[:k, k] @ M[:k]
        row[:k] += U_M[k, :k]
        row[k:] += flow_P[k, k:]
        c[k] = not_root[k] - row[k] - row[:k] @ p_k
        row[:k] += c[k]
        row[k:] += c[k] * beyond[k:]
        row /= s[k]
        row[k] = 0.0  # no record descends from itself
        M[k] = row
        M[:k, k] += M[:k, :k] @ p_k + y[k] * x[:k]
    return M, c

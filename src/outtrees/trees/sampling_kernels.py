"""Compiled loop of the tree sampler; imported at first use only, since it loads numba.

Arrays are indexed in full and never sliced, since a slice inside a compiled loop counts
references; and nodes are unsigned, since a signed index is checked for being negative.
"""

from __future__ import annotations

import numba
import numpy as np

_NONE = np.uint32(0xFFFFFFFF)
_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
_inlined = numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")


@_inlined
def _parent_of_leaf(u, leaf, m):  # type: ignore[no-untyped-def]
    """Return the first j < m at which the cumulative share exceeds u, starting near u m."""
    j = np.uint32(u * m)
    u *= leaf[m, m - 1]
    while j > 0 and leaf[m, np.uint32(j - np.uint32(1))] > u:
        j = np.uint32(j - np.uint32(1))
    while leaf[m, j] <= u:
        j = np.uint32(j + np.uint32(1))
    return j


@_inlined
def _turning_time(u, total, total_e, rate, rate_e, share, share_e, i, j, stage):  # type: ignore[no-untyped-def]
    """Return the node k > stage through which the edge i → j turns.

    Of the edge's weight ``total`` when node ``stage`` left, q_ik p_kj came through k; u is what
    a uniform draw leaves after the part β_ij that never turns.
    """
    n = len(rate)
    left = u * total
    for k in range(stage + 1, n):
        part = rate[i, k] * share[j, k]
        if rate_e is not None:
            e = rate_e[i, k] + share_e[j, k] - total_e
            part *= np.int64((min(max(e, -1023), 1023) + 1023) << 52).view(np.float64)  # 2^e
        if part > left:
            return k
        left -= part
    # The parts sum to one but for rounding: take the last that is not zero.
    for k in range(n - 1, stage, -1):
        if rate[i, k] * share[j, k] > 0.0:
            return k
    return n


@_compiled
def draw_trees(  # type: ignore[no-untyped-def]
    rng, leaf, keep, total, total_e, rate, rate_e, share, share_e, parents
):
    """Fill each row of ``parents`` with one tree; n stands for the root's parent.

    Nodes come back in the opposite order to the one they left in. Which edges turn through
    node m was settled when the edges were made (``first[:, m]``, a linked list), so a tree costs
    one draw per edge ever made, about two per node. All trees take a step together: node m's
    rows are then read from the cache.
    """
    n = len(rate)
    count = len(parents)
    first = np.full((count, n + 1), _NONE, np.uint32)
    after = np.empty((count, n), np.uint32)
    via = np.zeros((count, n), np.uint32)
    made = np.empty(n, np.uint32)
    for m in range(n):
        for t in range(count):
            made[0] = m
            n_made = 1
            i = first[t, m]
            if m == 0:
                parents[t, 0] = n
            elif i == _NONE:  # nobody turned: m comes back as a leaf
                parents[t, m] = _parent_of_leaf(rng.random(), leaf, m)
            else:
                top = i
                if after[t, i] != _NONE:
                    v = i
                    while v != _NONE:
                        via[t, v] = m
                        top = v if v < top else top
                        v = after[t, v]
                    v = parents[t, top]
                    while v < np.uint32(n):  # up to the via-node nearest to the root
                        if via[t, v] == m:
                            top = v
                        v = parents[t, v]
                parents[t, m] = parents[t, top]
                while i != _NONE:
                    parents[t, i] = m
                    made[n_made] = i
                    n_made += 1
                    i = after[t, i]
            for new in range(n_made):
                i = made[new]
                j = parents[t, i]
                side = 0 if new == 0 else 1
                other = j if new == 0 else i
                u = rng.random() - keep[side, m, other]
                if u >= 0.0:
                    exponent = 0 if total_e is None else total_e[side, m, other]
                    k = _turning_time(
                        u, total[side, m, other], exponent, rate, rate_e, share, share_e, i, j, m
                    )
                    after[t, i] = first[t, k]
                    first[t, k] = i

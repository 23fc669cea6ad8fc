"""Compiled random walks of the tree sampler: Wilson's algorithm, one look-up for each step.

Imported at first use only, since it loads numba. Nodes are unsigned, since a signed index is
checked for being negative.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, inlined


@inlined
def uniform(state):  # type: ignore[no-untyped-def]
    """Return the next number in [0, 1) of the generator xoshiro256++ with these four words."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    word = s0 + s3
    word = ((word << np.uint64(23)) | (word >> np.uint64(41))) + s0
    s2 ^= s0
    s3 ^= s1
    state[0] = s0 ^ s3
    state[1] = s1 ^ s2
    state[2] = s2 ^ (s1 << np.uint64(17))
    state[3] = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return np.float64(word >> np.uint64(11)) * 2.0**-53


@compiled
def alias_rows(weight, keep, other):  # type: ignore[no-untyped-def]
    """Fill the alias tables of rows of weights (Walker and Vose).

    Row r is drawn from by a uniform column v, which stays with probability ``keep[r, v]`` and
    else becomes ``other[r, v]``. Columns below the mean are filled up from those above it, one
    at a time, so each keeps its own weight to the last digits.
    """
    n = weight.shape[1]
    todo = np.empty(n, np.intp)  # columns below the mean from the left, the others from the right
    for r in range(len(weight)):
        total = 0.0
        for v in range(n):
            total += weight[r, v]
        if total == 0.0:
            continue  # the node that stays last has no parent to be drawn
        poor, rich = 0, n
        for v in range(n):
            other[r, v] = v
            keep[r, v] = weight[r, v] * (n / total)
            if keep[r, v] < 1.0:
                todo[poor] = v
                poor += 1
            else:
                rich -= 1
                todo[rich] = v
        while poor > 0 and rich < n:
            poor -= 1
            v, w = todo[poor], todo[rich]
            other[r, v] = w
            keep[r, w] -= 1.0 - keep[r, v]
            if keep[r, w] < 1.0:
                todo[poor] = w
                poor += 1
                rich += 1
        # Whoever is left is at the mean but for rounding, and keeps every draw.
        for i in range(poor):
            keep[r, todo[i]] = 1.0
        for i in range(rich, n):
            keep[r, todo[i]] = 1.0


@inlined
def step(state, keep, other, row):  # type: ignore[no-untyped-def]
    """Return a column drawn from one row of the alias tables."""
    x = uniform(state) * keep.shape[1]
    v = np.uint32(x)
    # Both looked up before the choice: a conditional move, where a branch would be missed.
    alias = other[row, v]
    return alias if x - v >= keep[row, v] else v


@compiled
def finish_by_walks(state, keep, other, parents, inside):  # type: ignore[no-untyped-def]
    """Complete each tree by walks from its last nodes, as many as ``keep`` has rows.

    A walk ends where it hits a node that is ``inside`` the tree; coming back to a node of its
    own it forgets the loop, since the node's parent is overwritten.
    """
    n = np.uint32(parents.shape[1])
    core = np.uint32(n - np.uint32(len(keep)))
    for t in range(len(parents)):
        for start in range(core, n):
            u = np.uint32(start)
            while inside[t, u] == 0:
                v = step(state, keep, other, np.uint32(u - core))
                parents[t, u] = v
                u = v
            u = np.uint32(start)
            while inside[t, u] == 0:
                inside[t, u] = 1
                u = parents[t, u]


@compiled
def renumber(order, parents, trees):  # type: ignore[no-untyped-def]
    """Write the parents in the caller's numbers, −1 at the root."""
    n = np.uint32(len(order))
    for t in range(len(trees)):
        for v in range(n):
            parent = parents[t, v]
            trees[t, order[v]] = order[parent] if parent < n else -1

"""Compiled loops of the tree sampler; imported at first use only, since it loads numba.

The trees are under construction in ``parents``, where n stands for the root's parent and nodes
have the numbers in which they left; they come back in the opposite order. Nothing is allocated or
sliced here, since either would make compiled loops count references; and nodes are unsigned, since
a signed index is checked for being negative.

``turns`` and ``wide`` are the tables of ``SamplingTables`` (``wide`` None in the range of a
double), ``work`` is what is written to.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, inlined

BLOCK = 8  # entries of a row that are looked at together
_NONE = np.uint32(0xFFFFFFFF)
_ONE = np.uint32(1)
_ZERO = np.uint32(0)
_MANY = np.uint32(2**31)  # children; more than a core node can lose
_WIDE = np.uint32(0xFFFFFFFE)
_SMALL = 1e-270  # below this, doubles may have lost parts of a weight


@compiled
def uniform(state):
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
def alias_rows(weight, keep, other, todo):
    """Fill the alias tables of rows of weights (Walker and Vose).

    Row r is drawn from by a uniform column v, which stays with probability ``keep[r, v]`` and
    else becomes ``other[r, v]``. Columns below the mean are filled up from those above it, one
    at a time, so each keeps its own weight to the last digits. ``todo`` is work space: columns
    below the mean from the left, the others from the right.
    """
    n = weight.shape[1]
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
def step(state, keep, other, row):
    """Return a column drawn from one row of the alias tables."""
    x = uniform(state) * keep.shape[1]
    v = np.uint32(x)
    # Both looked up before the choice: a conditional move, where a branch would be missed.
    alias = other[row, v]
    return alias if x - v >= keep[row, v] else v


@compiled
def finish_by_walks(state, keep, other, parents, inside):
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


@inlined
def _turning_time(left, rate, share, i, j, stage):
    """Return the node k > stage at which the parts rate[i, k] share[j, k] pass ``left``.

    The rows end in BLOCK zeros, so that the last block can be read in full.
    """
    n = np.uint64(len(rate))
    stage = np.uint64(stage)
    k = stage + np.uint64(1)
    while k < n:
        total = 0.0
        before = np.uint64(0)
        for d in range(BLOCK):  # without a branch, which would be missed
            total += rate[i, k + np.uint64(d)] * share[j, k + np.uint64(d)]
            before += np.uint64(total <= left)
        if before < np.uint64(BLOCK):
            return np.uint32(k + before)
        left -= total
        k += np.uint64(BLOCK)
    # The parts sum to the whole but for rounding: take the last that is not zero.
    for k in range(n - np.uint64(1), stage, -1):
        if rate[i, k] * share[j, k] > 0.0:
            return np.uint32(k)
    return np.uint32(n)


@compiled
def _wide_turning_time(left, wide, i, j, stage):
    """Return the same in the extended range, ``left`` being a fraction of the edge's weight."""
    (rate, rate_e), (share, share_e), (s, s_e) = wide.rate, wide.share, wide.s
    n = len(s)
    i, j, stage = np.intp(i), np.intp(j), np.intp(stage)
    if i < stage:
        total, total_e = rate[i, stage], rate_e[i, stage]
    else:
        total, total_e = share[j, stage] * s[stage], share_e[j, stage] + s_e[stage]
    left *= total
    last = n
    for k in range(stage + 1, n):
        part = rate[i, k] * share[j, k]
        if part > 0.0:
            last = k
        e = rate_e[i, k] + share_e[j, k] - total_e
        part *= np.int64((min(max(e, -1023), 1023) + 1023) << 52).view(np.float64)  # 2^e
        left -= part
        if left < 0.0:
            return np.uint32(k)
    return np.uint32(last)  # as above: the parts sum to the whole but for rounding


@inlined
def _drawn_turn(state, keep, s, rate, share, wide, left, i, j, stage):
    """Return the node through which the edge i → j turns out to lead, n if it is what it is.

    Of the edge's weight when node ``stage`` (one of its ends) left, β_ij never turns and
    q_ik p_kj came through k. ``_WIDE`` comes back where that is a question for
    :func:`_wide_turning_time`, with ``left`` set. (Asked from here, loops would count references.)
    """
    n = np.uint32(len(s))
    into = i < stage
    u = uniform(state) - (keep[1, stage, i] if into else keep[0, stage, j])
    if u < 0.0:
        return n
    total = rate[i, stage] if into else share[j, stage] * s[stage]
    if wide and (j == n or total < _SMALL):
        left[0] = u
        return _WIDE
    return _turning_time(u * total, rate, share, i, j, stage)


@compiled
def bring_back(state, alias, turns, wide, work):
    """Bring back the core, and those nodes beyond it on the way from a core node to the root.

    The core are the first nodes, as many as the table of leaves has rows; they come back one and
    all. Which edges turn through node m was settled when the edges were made (``first[:, m]``, a
    linked list), so a tree costs one draw per edge ever made, about two per node. All trees take
    a step together: node m's rows are then read from the cache.

    Node m comes back through those i whose edge turns through it, if core nodes hang on them. i₀
    is the smallest of them that still has a core node below it once all hang on m.
    ``below[t, v]`` counts the children of v on such ways; at 0, v is forgotten again. It ends as
    the mark of who is in the tree.
    """
    keep, s, rate, share = turns.keep, turns.s, turns.rate, turns.share
    parents, first, after, via = work.parents, work.first, work.after, work.via
    below, made, left = work.below, work.made, work.left
    leaf, other = alias.keep, alias.other
    n = np.uint32(len(s))
    core = np.uint32(len(leaf))
    count = len(parents)
    for t in range(count):
        for v in range(n):
            first[t, v] = _NONE
            via[t, v] = _ZERO
            below[t, v] = _MANY if v < core else _ZERO
    for stage in range(n):
        m = np.uint32(stage)
        # made[start:end] are the via-nodes; m stands before them in the core, else behind them.
        start = _ONE if m < core else _ZERO
        for t in range(count):
            end = start
            i = first[t, m]
            while i != _NONE:
                if below[t, i] > _ZERO:
                    made[end] = i
                    end += _ONE
                i = after[t, i]
            if end > start:
                top = made[start]
                if end > start + _ONE:
                    for new in range(start, end):
                        via[t, made[new]] = m
                    for new in range(start, end):
                        v = parents[t, made[new]]
                        while v < n:
                            below[t, v] -= _ONE
                            if below[t, v] > _ZERO or via[t, v] == m:
                                break
                            v = parents[t, v]
                    n_via, end, top = end, start, _NONE
                    for new in range(start, n_via):
                        i = made[new]
                        if below[t, i] > _ZERO:
                            made[end] = i
                            end += _ONE
                            top = i if i < top else top
                    v = parents[t, top]
                    while v < n:  # up to the via-node nearest to the root
                        top = v if via[t, v] == m else top
                        v = parents[t, v]
                    v = parents[t, top]
                    while v < n:  # m takes the place of what hung there
                        below[t, v] += _ONE
                        if below[t, v] > _ONE:
                            break
                        v = parents[t, v]
                parents[t, m] = parents[t, top]
                for new in range(start, end):
                    parents[t, made[new]] = m
            elif m >= core:
                continue
            else:  # nobody turned: m comes back as a leaf
                parents[t, m] = step(state, leaf, other, m) if m > _ZERO else n
            if m < core:
                made[0] = m
            else:
                below[t, m] = end
                made[end] = m
                end += _ONE
            for new in range(end):
                i = made[new]
                j = parents[t, i]
                k = _drawn_turn(state, keep, s, rate, share, wide is not None, left, i, j, m)
                if wide is not None and k == _WIDE:
                    k = _wide_turning_time(left[0], wide, i, j, m)
                if k < n:
                    after[t, i] = first[t, k]
                    first[t, k] = i

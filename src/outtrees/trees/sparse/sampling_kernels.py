"""Compiled sampler over fronts: nodes come back in the opposite order to the one they left in.

As in the dense sampler (`outtrees.trees.sampling`): an edge i → j made when node m came back either
stays or turns out to have led through a node k that left before m, with the odds in which
q_ik p_kj stood in its weight. Those parts are found where they were added up: in the front itself,
then in the fronts that handed on to it. Exponent arrays are None in the range of a double.
"""

from __future__ import annotations

import math

import numpy as np

from outtrees._common.compiled import compiled, helper


@helper
def _scaled(m, exponents, at, e0):
    if exponents is None:
        return m
    return math.ldexp(m, max(exponents[at] - e0, -2000))


@helper
def _exponent(exponents, at):
    return 0 if exponents is None else exponents[at]


@helper
def _place(boundary, lo, hi, position):
    """Return where a position stands in boundary[lo:hi], which descends; −1 if it does not."""
    end = hi
    begin = lo
    while begin < end:
        middle = (begin + end) // 2
        if boundary[middle] > position:
            begin = middle + 1
        else:
            end = middle
    return begin - lo if begin < hi and boundary[begin] == position else -1


@helper
def _turning_node(u, e0, f, ia, ib, a, b, fronts, factors, factors_e, stack, stack_e):
    """Return the position through which the edge a → b turns; u is what a draw leaves to spend.

    ia and ib are their rows in front f, ib = −1 for an edge that leaves the component.
    """
    starts, head, after = fronts.starts, fronts.head, fronts.after
    boundary_first, boundary = fronts.boundary_first, fronts.boundary
    factor_first, stack_place = fronts.factor_first, fronts.stack_place
    first_k = max(ia, ib) + 1
    while True:
        r = boundary_first[f + 1] - boundary_first[f]
        m = r + starts[f + 1] - starts[f]
        at = factor_first[f]
        rates = at + (m - r) * (m + 1)
        last = -1
        for k in range(max(first_k, r), m):
            rate = rates + ia * (m - r) + (k - r) if ia < r else at + (ia - r) * (m + 1) + k + 1
            share = at + (k - r) * (m + 1) + ib + 1
            part = factors[rate] * factors[share]
            if part > 0.0:
                if factors_e is not None:
                    e = factors_e[rate] + factors_e[share] - e0
                    part = math.ldexp(part, max(e, -2000))
                last = starts[f + 1] - 1 - (k - r)
                if part > u:
                    return last
                u -= part
        chosen = -1
        below_a, below_b = -1, -1
        child = head[f]
        while child >= 0:
            lo, hi = boundary_first[child], boundary_first[child + 1]
            ja = _place(boundary, lo, hi, a)
            if ja >= 0:
                jb = -1 if ib < 0 else _place(boundary, lo, hi, b)
                if ib < 0 or jb >= 0:
                    place = stack_place[child] + ja * (hi - lo + 1) + jb + 1
                    part = _scaled(stack[place], stack_e, place, e0)
                    if part > 0.0:
                        chosen, below_a, below_b = child, ja, jb
                        if part > u:
                            break
                        u -= part
            child = after[child]
        if chosen < 0:  # the parts sum to the whole but for rounding: the last that is not zero
            return last
        f, ia, ib, first_k = chosen, below_a, below_b, 0


@compiled
def draw(rng, fronts, single_root, skipped, passed, inner_first, column, parents):
    """Fill each row of ``parents`` (count, n), by position; n stands for leaving the component."""
    component, starts, above = fronts.component, fronts.starts, fronts.above
    boundary_first, boundary = fronts.boundary_first, fronts.boundary
    factor_first = fronts.factor_first
    (weight, weight_e), (out, out_e), (s, s_e) = passed.weight, passed.out, passed.s
    (factors, factors_e), (stack, stack_e) = passed.factors, passed.stack
    order = fronts.order
    n = len(s)
    first = np.full(n, -1, np.int64)
    after_via = np.full(n, -1, np.int64)
    via = np.full(n, -1, np.int64)
    made = np.empty(n, np.int64)
    for t in range(len(parents)):
        tree = parents[t]
        first[:] = -1
        via[:] = -1
        for f in range(len(above) - 1, -1, -1):
            if skipped[component[f]]:
                continue
            single = single_root[component[f]]
            lo_boundary, hi_boundary = boundary_first[f], boundary_first[f + 1]
            r = hi_boundary - lo_boundary
            m = r + starts[f + 1] - starts[f]
            for local in range(r, m):
                node = starts[f + 1] - 1 - (local - r)
                row = factor_first[f] + (local - r) * (m + 1)
                made[0] = node
                n_made = 1
                i = first[node]
                if single and above[f] < 0 and local == 0:
                    tree[node] = n
                elif i < 0:  # nobody turned: it comes back as a leaf
                    u = rng.random()
                    choice = -1
                    for j in range(1 if single else 0, local + 1):
                        part = _scaled(factors[row + j], factors_e, row + j, 0)
                        if part > 0.0:
                            choice = j
                            if part > u:
                                break
                            u -= part
                    if choice == 0:
                        tree[node] = n
                    elif choice <= r:
                        tree[node] = boundary[lo_boundary + choice - 1]
                    else:
                        tree[node] = starts[f + 1] - 1 - (choice - 1 - r)
                else:
                    top = i
                    while i >= 0:  # the start is fixed by its position, not by when it turned
                        via[i] = node
                        top = max(top, i)
                        i = after_via[i]
                    v = tree[top]
                    while v < n:  # up to the via-node nearest to the root
                        if via[v] == node:
                            top = v
                        v = tree[v]
                    tree[node] = tree[top]
                    i = first[node]
                    while i >= 0:
                        tree[i] = node
                        made[n_made] = i
                        n_made += 1
                        i = after_via[i]
                for new in range(n_made):
                    a = made[new]
                    b = tree[a]
                    ia = local
                    if a != node:
                        ia = (
                            _place(boundary, lo_boundary, hi_boundary, a)
                            if a >= starts[f + 1]
                            else r + starts[f + 1] - 1 - a
                        )
                    ib = local
                    if b == n:
                        ib = -1
                    elif b != node:
                        ib = (
                            _place(boundary, lo_boundary, hi_boundary, b)
                            if b >= starts[f + 1]
                            else r + starts[f + 1] - 1 - b
                        )
                    if new == 0:  # node → b weighs s p
                        total = factors[row + ib + 1] * s[node]
                        e0 = _exponent(factors_e, row + ib + 1) + _exponent(s_e, node)
                    else:  # a → node
                        if ia < r:
                            at = factor_first[f] + (m - r) * (m + 1) + ia * (m - r) + local - r
                        else:
                            at = factor_first[f] + (ia - r) * (m + 1) + local + 1
                        total = factors[at]
                        e0 = _exponent(factors_e, at)
                    u = rng.random() * total
                    if b == n:
                        u -= _scaled(out[a], out_e, a, e0)
                    else:
                        target = order[b]
                        for e in range(inner_first[order[a]], inner_first[order[a] + 1]):
                            if column[e] == target:
                                u -= _scaled(weight[e], weight_e, e, e0)
                                break
                    if u >= 0.0:
                        k = _turning_node(
                            u, e0, f, ia, ib, a, b, fronts, factors, factors_e, stack, stack_e
                        )
                        if k >= 0:
                            after_via[a] = first[k]
                            first[k] = a


@compiled
def draw_outside(rng, start, parent, marginal, root_marginal, label, alone, tree):
    """Settle who leaves its component (−2 in ``tree``): an edge to the outside, or a root (−1)."""
    for u in range(len(tree)):
        if tree[u] != -2:
            continue
        total = root_marginal[u]
        for e in range(start[u], start[u + 1]):
            if alone[u] or label[parent[e]] != label[u]:
                total += marginal[e]
        left = rng.random() * total - root_marginal[u]
        tree[u] = -1
        if left < 0.0:
            continue
        for e in range(start[u], start[u + 1]):
            if (alone[u] or label[parent[e]] != label[u]) and marginal[e] > 0.0:
                tree[u] = parent[e]
                if marginal[e] > left:
                    break
                left -= marginal[e]

"""Compiled loops over many small problems; imported at first use only, since it loads numba.

`solve` works on LANES problems at a time: entry (i, j) of all of them lies side by side in memory,
so that one vector instruction serves them all, whatever their size. Its arithmetic is that of
`outtrees.trees.elimination`, node by node. It also runs on complex numbers: with weights
β (1 + i h v), the imaginary parts of the results over h are their derivatives in direction v, with
nothing subtracted.

Nodes have the order in which they are eliminated: the anchor and node 0 have changed places. Nodes
beyond a problem's length are children of the anchor alone, with weight 1, and change nothing.
"""

from __future__ import annotations

import numpy as np

from outtrees._common.compiled import compiled, helper
from outtrees.trees.elimination_blocks import LIMIT
from outtrees.trees.sampling_kernels import uniform

LANES = 32  # fewer, or a number that the compiler knew, would make no vector instructions
LOG_Z, MARGINALS, FACTORS = 0, 1, 2  # what `solve` is asked for


@helper
def moved(i, anchor):
    """Return the number of node i once the anchor and node 0 have changed places, and back."""
    return anchor if i == 0 else (0 if i == anchor else i)


@helper
def swap_columns(q, i, anchor, lane):
    """Exchange the columns 0 and ``anchor`` of one row."""
    q[i, 0, lane], q[i, anchor, lane] = q[i, anchor, lane], q[i, 0, lane]


@helper
def load(beta, length, anchor, q, lane):
    """Copy one problem into a lane of q."""
    n = len(q)
    for i in range(length):
        u = moved(i, anchor)
        for j in range(length):
            q[i, j, lane] = beta[u, j]
        for j in range(length, n):
            q[i, j, lane] = 0.0
        swap_columns(q, i, anchor, lane)
    for i in range(length, n):
        q[i, 0, lane] = 1.0
        for j in range(1, n):
            q[i, j, lane] = 0.0


@helper
def add_four(rows, k, i, factor, count):
    """rows[k, j] += Σ factor[m] rows[m, j] over m = i … i + 3, for j < count."""
    for j in range(count):
        for lane in range(rows.shape[2]):
            rows[k, j, lane] += (
                factor[i, lane] * rows[i, j, lane] + factor[i + 1, lane] * rows[i + 1, j, lane]
            ) + (
                factor[i + 2, lane] * rows[i + 2, j, lane]
                + factor[i + 3, lane] * rows[i + 3, j, lane]
            )


@helper
def add_one(rows, k, i, factor, count):
    """rows[k, j] += factor[i] rows[i, j] for j < count."""
    for j in range(count):
        for lane in range(rows.shape[2]):
            rows[k, j, lane] += factor[i, lane] * rows[i, j, lane]


@helper
def add_rows(rows, k, factor, count):
    """rows[k, j] += Σ_i factor[i] rows[i, j] over i, j < count."""
    whole = count - count % 4
    for i in range(0, whole, 4):
        add_four(rows, k, i, factor, count)
    for i in range(whole, count):
        add_one(rows, k, i, factor, count)


@helper
def eliminate(q, s):
    """Replace q by its factors, row by row, the last first; fill the pivots s.

    Row i takes what the nodes k > i, which left before it, hand on; four of them at a time.
    """
    n, lanes = len(q), q.shape[2]
    for lane in range(lanes):
        s[0, lane] = 1.0
    for i in range(n - 1, -1, -1):
        k = n - 1
        while k - 3 > i:
            for a in range(k, k - 3, -1):
                for b in range(k - 3, a):
                    for lane in range(lanes):
                        q[i, b, lane] += q[i, a, lane] * q[a, b, lane]
            add_four(q, i, k - 3, q[i], k - 3)
            k -= 4
        while k > i:
            add_one(q, i, k, q[i], k)
            k -= 1
        if i > 0:
            for lane in range(lanes):
                s[i, lane] = 0.0
            for j in range(i):
                for lane in range(lanes):
                    s[i, lane] += q[i, j, lane]
            for j in range(i):
                for lane in range(lanes):
                    q[i, j, lane] /= s[i, lane]


@helper
def ratios(q, s, rho, x, y, time, rho_0):
    """Fill x, y, the bound on times and the final root weight, as `elimination._solve`."""
    n, lanes = len(q), q.shape[2]
    for lane in range(lanes):
        x[0, lane], time[0, lane], rho_0[lane] = 1.0, 0.0, rho[0, lane]
    for k in range(1, n):
        for lane in range(lanes):
            x[k, lane], time[k, lane] = 0.0, 1.0
        for i in range(k):
            for lane in range(lanes):
                x[k, lane] += x[i, lane] * q[i, k, lane]
                time[k, lane] += time[i, lane] * q[i, k, lane].real
        for lane in range(lanes):
            x[k, lane] /= s[k, lane]
            time[k, lane] /= s[k, lane].real
            rho_0[lane] += rho[k, lane] * x[k, lane]
    for k in range(n - 1, -1, -1):
        for lane in range(lanes):
            y[k, lane] = rho[k, lane] / rho_0[lane]
        for i in range(k + 1, n):
            for lane in range(lanes):
                y[k, lane] += q[k, i, lane] * y[i, lane]
        for lane in range(lanes):
            y[k, lane] /= s[k, lane]


@helper
def in_range(s, rho, x, time, rho_0, lane):
    """Return whether the certificate of `elimination` holds for one lane."""
    longest, largest, spent = 0.0, 0.0, 0.0
    for k in range(len(s)):
        if not s[k, lane].real * LIMIT >= 1.0:
            return False
        if not (time[k, lane] <= LIMIT and x[k, lane].real <= LIMIT):
            return False
        longest = max(longest, time[k, lane])
        largest = max(largest, x[k, lane].real)
        spent += rho[k, lane].real * time[k, lane]
    return largest * spent <= LIMIT * rho_0[lane].real


@helper
def derive(q, s, x, y, M, by_parent, rates, c):
    """Fill M[u, v] = ∂ log Z / ∂ β[u, v], as `elimination._derivatives` does, and M transposed."""
    n, lanes = len(q), q.shape[2]
    for lane in range(lanes):
        M[0, 0, lane] = by_parent[0, 0, lane] = 0.0
    for k in range(1, n):
        for j in range(k):
            for lane in range(lanes):
                rates[j, lane] = q[j, k, lane]
                M[k, j, lane] = 0.0
                by_parent[k, j, lane] = y[k, lane] * x[j, lane]
        add_rows(M, k, rates, k)
        add_rows(by_parent, k, q[k], k)
        for lane in range(lanes):
            c[lane] = 1.0 - y[k, lane] * s[k, lane] * x[k, lane]
            M[k, k, lane] = by_parent[k, k, lane] = 0.0
        for j in range(k):
            for lane in range(lanes):
                c[lane] -= M[k, j, lane] * q[k, j, lane]
        for j in range(k):
            for lane in range(lanes):
                M[k, j, lane] = (M[k, j, lane] + c[lane]) / s[k, lane]
                by_parent[j, k, lane] = M[k, j, lane]
                M[j, k, lane] = by_parent[k, j, lane]


@compiled
def solve(what, beta, rho, length, anchor, s, y, rho_0, fits, out, root):
    """Solve problems (B, n, n) of scaled weights; ``fits`` tells which are in range.

    ``out`` (B, n, n) receives the edges' probabilities, in the caller's order, or the factors, in
    the order of elimination, according to ``what``; ``root`` (B, n) the roots' probabilities.
    """
    count, n = rho.shape
    lanes = min(LANES, count)
    q = np.empty((n, n, lanes), beta.dtype)
    M, by_parent = np.empty_like(q), np.empty_like(q)
    S, X, Y = np.empty_like(q[0]), np.empty_like(q[0]), np.empty_like(q[0])
    R, rates = np.empty_like(q[0]), np.empty_like(q[0])
    time, total, c = np.empty((n, lanes)), np.empty_like(q[0, 0]), np.empty_like(q[0, 0])
    for start in range(0, count, lanes):
        for lane in range(lanes):
            b = min(start + lane, count - 1)  # the last one fills up the lanes
            load(beta[b], length[b], anchor[b], q, lane)
            for i in range(n):
                R[i, lane] = rho[b, moved(i, anchor[b])]
        eliminate(q, S)
        ratios(q, S, R, X, Y, time, total)
        if what == MARGINALS:
            derive(q, S, X, Y, M, by_parent, rates, c)
        for lane in range(min(lanes, count - start)):
            b = start + lane
            fits[b] = in_range(S, R, X, time, total, lane)
            rho_0[b] = total[lane]
            for i in range(n):
                s[b, i], y[b, i] = S[i, lane], Y[i, lane]
                u = moved(i, anchor[b])
                root[b, u] = R[i, lane] * X[i, lane] / total[lane]
                if what == FACTORS:
                    for j in range(n):
                        out[b, i, j] = q[i, j, lane]
                elif what == MARGINALS:
                    swap_columns(M, i, anchor[b], lane)
                    for j in range(n):
                        out[b, u, j] = M[i, j, lane] * beta[b, u, j]


@helper
def mark(allowed, start, downwards, seen, stack):
    """Mark whoever descends from ``start`` (or whom it may descend from), itself included."""
    n = len(seen)
    seen[start] = True
    stack[0], height = start, 1
    while height > 0:
        height -= 1
        u = stack[height]
        for v in range(n):
            if not seen[v] and (allowed[v, u] if downwards else allowed[u, v]):
                seen[v] = True
                stack[height] = v
                height += 1


@compiled
def possible_roots(allowed, length, member):
    """Mark the nodes from which all others can descend; none if no tree spans a problem."""
    n = allowed.shape[1]
    stack = np.empty(n, np.intp)
    for b in range(len(allowed)):
        T = length[b]
        edges, seen = allowed[b, :T, :T], member[b, :T]
        last = 0
        for v in range(
            T
        ):  # whoever is seen from another is left out; all can only be below the last
            if not seen[v]:
                mark(edges, v, True, seen, stack)
                last = v
        seen[:] = False
        mark(edges, last, True, seen, stack)
        spans = seen.all()
        seen[:] = False
        if spans:
            mark(edges, last, False, seen, stack)


@helper
def turning(state, i, j, m, q, s, y, beta, rho, rho_0):
    """Return the node through which the edge i → j turns out to lead, n if none.

    Of its weight when node m, one of its ends, left, β_ij never turns and q_ik p_kj came through
    k. j = n stands for the parent of the root.
    """
    n = len(s)
    if j == n:
        whole, own = y[m] * s[m] * rho_0, rho[i]
    elif i == m:
        whole, own = q[m, j] * s[m], beta[i, j]
    else:
        whole, own = q[i, m], beta[i, j]
    left = uniform(state) * whole - own
    if left < 0.0:
        return n
    last = n
    for k in range(m + 1, n):
        part = q[i, k] * (y[k] * rho_0 if j == n else q[k, j])
        if part > 0.0:
            last = k
            left -= part
            if left < 0.0:
                return k
    return last  # the parts sum to the whole but for rounding


@compiled
def draw(state, beta, rho, length, anchor, q, s, y, rho_0, trees):
    """Fill trees (B, draws, n): nodes come back one by one, as `sampling` says.

    ``q``, ``s``, ``y`` and ``rho_0`` are the factors that `solve` leaves.
    """
    count, draws, n = trees.shape
    parent, turn, via = np.empty(n, np.intp), np.empty(n, np.intp), np.empty(n, np.bool_)
    own, root = np.empty((n, n)), np.empty(n)
    for b in range(count):
        for i in range(n):
            root[i] = rho[b, moved(i, anchor[b])]
            for j in range(n):
                own[i, j] = beta[b, moved(i, anchor[b]), moved(j, anchor[b])]
        for d in range(draws):
            for m in range(length[b]):
                top = n
                for i in range(m):
                    via[i] = turn[i] == m
                    if via[i] and top == n:
                        top = i
                if top < n:
                    i = parent[top]
                    while i < n:  # up to the via-node nearest to the root
                        top = i if via[i] else top
                        i = parent[i]
                    parent[m] = parent[top]
                    for i in range(m):
                        if via[i]:
                            parent[i] = m
                            turn[i] = turning(
                                state[b], i, m, m, q[b], s[b], y[b], own, root, rho_0[b]
                            )
                elif m == 0:
                    parent[m] = n
                else:  # a leaf
                    left = uniform(state[b])
                    j = 0
                    while j < m - 1 and left >= q[b, m, j]:
                        left -= q[b, m, j]
                        j += 1
                    while q[b, m, j] == 0.0:  # rounding left more than all shares
                        j -= 1
                    parent[m] = j
                turn[m] = turning(state[b], m, parent[m], m, q[b], s[b], y[b], own, root, rho_0[b])
            for i in range(length[b]):
                j = parent[i]
                trees[b, d, moved(i, anchor[b])] = -1 if j == n else moved(j, anchor[b])


@compiled
def best_trees(weight, root_weight, length, parents, bound):
    """Fill the parents (B, n) in each problem's best tree, and a bound on every tree's weight.

    `arborescence` says how; groups beyond the nodes are numbered from n on.
    """
    count, n = parents.shape
    rows, root = np.empty((2 * n, n)), np.empty(2 * n)
    gain = np.empty(2 * n)
    source, inside = np.empty(2 * n, np.intp), np.empty(2 * n, np.intp)
    place = np.empty(2 * n, np.intp)  # on the path: −1 not yet seen, −2 done
    top, path = np.empty(n, np.intp), np.empty(2 * n, np.intp)
    for b in range(count):
        T = length[b]
        for g in range(2 * T):
            gain[g], source[g], inside[g], place[g] = 0.0, -1, -1, -1
        for u in range(T):
            top[u], root[u] = u, root_weight[b, u]
            for v in range(T):
                rows[u, v] = weight[b, u, v] if u != v else -np.inf
        groups = T
        for node in range(T):
            path[0], end = top[node], 1
            while place[path[end - 1]] != -2:
                g = path[end - 1]
                place[g] = end - 1
                pick = 0
                for v in range(1, T):
                    if rows[g, v] > rows[g, pick]:
                        pick = v
                if rows[g, pick] == -np.inf:  # no parent left: this group holds the root
                    gain[g] = root[g]
                    break
                gain[g], source[g] = rows[g, pick], pick
                above = top[pick]
                if place[above] >= 0:  # a circle: one group from now on
                    for v in range(T):
                        rows[groups, v] = -np.inf
                    root[groups] = -np.inf
                    for at in range(place[above], end):
                        h = path[at]
                        inside[h] = groups
                        root[groups] = max(root[groups], root[h] - gain[h])
                        for v in range(T):
                            rows[groups, v] = max(rows[groups, v], rows[h, v] - gain[h])
                    for v in range(T):
                        if inside[top[v]] == groups:
                            top[v] = groups
                        if top[v] == groups:
                            rows[groups, v] = -np.inf
                    end = place[above] + 1
                    path[end - 1] = groups
                    groups += 1
                else:
                    path[end] = above
                    end += 1
            for at in range(end):
                place[path[at]] = -2
        bound[b] = 0.0
        for g in range(groups):
            bound[b] += gain[g]
        for g in range(groups - 1, T - 1, -1):  # outermost first: open the groups again
            entered, most = -1, -np.inf
            for h in range(g):
                if inside[h] == g:
                    left = (root[h] if source[g] < 0 else rows[h, source[g]]) - gain[h]
                    if entered < 0 or left > most:
                        entered, most = h, left
            source[entered] = source[g]
        for u in range(T):
            parents[b, u] = source[u]

"""Compiled exact sums over trees with few children, of few records: subset by subset.

A set of records is the bits of a number. With ``most`` children at most,

    whole[S, r]     = Σ over trees of the records S whose root is r, edges alone
    hung[A, r]      = Σ_{v ∈ A} β_vr whole[A, v]: a tree of the records A, hung below r ∉ A
    below[k, S, r]  = Σ_{A ∋ the first of S} hung[A, r] below[k − 1, S − A, r]: k such trees
    whole[S, r]     = Σ_{k ≤ most} below[k, S − r, r]

all as logarithms, each sum relative to its largest term so far: nothing under- or overflows, and
nothing is subtracted. O(3^T T most) time, O(2^T T most) memory. What a tree does is then drawn, or
its probability passed on, from the whole to its parts, in proportion to the same terms.
"""

from __future__ import annotations

import math

import numpy as np

from outtrees._common.compiled import compiled, helper
from outtrees.trees.sampling_kernels import uniform


@helper
def add_term(top, total, log_term):
    """Return (top, total) of a sum, total · exp(top), with one more term; none is (−inf, 0)."""
    if log_term > top:
        return log_term, total * math.exp(top - log_term) + 1.0
    if log_term > -np.inf:
        total += math.exp(log_term - top)
    return top, total


@helper
def log_of(top, total):
    """Return the logarithm of such a sum."""
    return top + math.log(total) if total > 0.0 else -np.inf


@compiled
def sum_subsets(log_beta, log_root, most, forest):
    """Return log whole (2^T, T), hung (2^T, T), below (most + 1, 2^T, T), forests (2^T,)."""
    T = len(log_root)
    size = 1 << T
    whole = np.full((size, T), -np.inf)
    hung = np.full((size, T), -np.inf)
    below = np.full((most + 1, size, T), -np.inf)
    forests = np.full(size, -np.inf)
    below[0, 0, :] = 0.0
    forests[0] = 0.0
    for S in range(1, size):
        first = S & -S
        others = S ^ first
        for r in range(T):
            if S >> r & 1:
                rest = S ^ (1 << r)
                top, total = -np.inf, 0.0
                for k in range(most + 1):
                    top, total = add_term(top, total, below[k, rest, r])
                whole[S, r] = log_of(top, total)
        for r in range(T):
            if S >> r & 1:
                continue
            top, total = -np.inf, 0.0
            for v in range(T):
                if S >> v & 1:
                    top, total = add_term(top, total, log_beta[v, r] + whole[S, v])
            hung[S, r] = log_of(top, total)
            for k in range(1, most + 1):
                top, total = -np.inf, 0.0
                part = others
                while True:  # every subset of the others, with the first: A
                    log_term = hung[part | first, r] + below[k - 1, others ^ part, r]
                    top, total = add_term(top, total, log_term)
                    if part == 0:
                        break
                    part = (part - 1) & others
                below[k, S, r] = log_of(top, total)
        if forest or size - 1 == S:
            forests[S] = _forest(whole, log_root, forests, S, forest)
    return whole, hung, below, forests


@helper
def _forest(whole, log_root, forests, S, forest):
    """Return the log of the sum over the forests of S, or over its single trees."""
    first = S & -S if forest else S
    others = S ^ first
    top, total = -np.inf, 0.0
    part = others
    while True:  # the tree that holds the first record
        for r in range(len(log_root)):
            log_term = log_root[r] + whole[part | first, r] + forests[others ^ part]
            top, total = add_term(top, total, log_term)
        if part == 0:
            break
        part = (part - 1) & others
    return log_of(top, total)


@compiled
def pass_down(log_beta, log_root, most, forest, sums):
    """Return P(edge) (T, T) [child, parent] and P(root) (T,), from the whole to its parts."""
    whole, hung, below, forests = sums
    T = len(log_root)
    size = 1 << T
    edge, root = np.zeros((T, T)), np.zeros(T)
    by_whole, by_hung = np.zeros((size, T)), np.zeros((size, T))
    by_below, by_forest = np.zeros((most + 1, size, T)), np.zeros(size)
    by_forest[size - 1] = 1.0
    for S in range(size - 1, 0, -1):
        if by_forest[S] > 0.0:
            first = S & -S if forest else S
            others = S ^ first
            part = others
            while True:  # the tree that holds the first record
                A = part | first
                for r in range(T):
                    log_share = log_root[r] + whole[A, r] + forests[others ^ part] - forests[S]
                    share = by_forest[S] * math.exp(log_share)
                    root[r] += share
                    by_whole[A, r] += share
                    by_forest[others ^ part] += share
                if part == 0:
                    break
                part = (part - 1) & others
        for k in range(most, 0, -1):
            for r in range(T):
                if by_below[k, S, r] == 0.0:
                    continue
                first = S & -S
                others = S ^ first
                part = others
                while True:
                    log_term = hung[part | first, r] + below[k - 1, others ^ part, r]
                    share = by_below[k, S, r] * math.exp(log_term - below[k, S, r])
                    by_hung[part | first, r] += share
                    by_below[k - 1, others ^ part, r] += share
                    if part == 0:
                        break
                    part = (part - 1) & others
        for r in range(T):
            if by_hung[S, r] > 0.0:
                for v in range(T):
                    share = by_hung[S, r] * math.exp(log_beta[v, r] + whole[S, v] - hung[S, r])
                    edge[v, r] += share
                    by_whole[S, v] += share
        for r in range(T):
            if by_whole[S, r] > 0.0:
                rest = S ^ (1 << r)
                for k in range(most + 1):
                    share = math.exp(below[k, rest, r] - whole[S, r])
                    by_below[k, rest, r] += by_whole[S, r] * share
    return edge, root


@compiled
def draw_trees(state, log_beta, log_root, most, forest, sums, n):
    """Return n independent trees, (n, T) parents with −1 at roots."""
    whole, hung, below, forests = sums
    T = len(log_root)
    trees = np.full((n, T), -1, dtype=np.intp)
    sets, tops = np.empty(T + 1, dtype=np.intp), np.empty(T + 1, dtype=np.intp)
    for i in range(n):
        depth = 0
        S = (1 << T) - 1
        while S:  # cut the forest into its trees
            first = S & -S if forest else S
            others = S ^ first
            left = uniform(state)
            A, chosen = 0, -1
            part = others
            while True:
                for r in range(T):
                    log_term = log_root[r] + whole[part | first, r] + forests[others ^ part]
                    if log_term > -np.inf and left >= 0.0:
                        A, chosen = part | first, r
                        left -= math.exp(log_term - forests[S])
                if part == 0 or left < 0.0:
                    break
                part = (part - 1) & others
            sets[depth], tops[depth] = A, chosen
            depth += 1
            S ^= A
        while depth:  # cut each tree into those below its root
            depth -= 1
            r = tops[depth]
            S = sets[depth] ^ (1 << r)
            left = uniform(state)
            children = 0
            for k in range(most + 1):
                if below[k, S, r] > -np.inf and left >= 0.0:
                    children = k
                    left -= math.exp(below[k, S, r] - whole[S | (1 << r), r])
            for k in range(children, 0, -1):
                first = S & -S
                others = S ^ first
                left = uniform(state)
                A = 0
                part = others
                while True:
                    log_term = hung[part | first, r] + below[k - 1, others ^ part, r]
                    if log_term > -np.inf:
                        A = part | first
                        left -= math.exp(log_term - below[k, S, r])
                    if part == 0 or left < 0.0:
                        break
                    part = (part - 1) & others
                left = uniform(state)
                chosen = -1
                for v in range(T):
                    log_term = log_beta[v, r] + whole[A, v]
                    if log_term > -np.inf and left >= 0.0:
                        chosen = v
                        left -= math.exp(log_term - hung[A, r])
                trees[i, chosen] = r
                sets[depth], tops[depth] = A, chosen
                depth += 1
                S ^= A
    return trees

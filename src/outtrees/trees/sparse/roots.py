"""How many roots the forests of a list of edges have."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np
from scipy.signal import fftconvolve

from outtrees.trees import elimination, extended, weights
from outtrees.trees.probabilities import settled
from outtrees.trees.root_count import root_count_distribution
from outtrees.trees.weights import Floats

if TYPE_CHECKING:
    from outtrees.trees.sparse.trees import SparseTrees

_LARGEST = 5000  # nodes of a component whose eigenvalues are still computed


def root_counts(trees: SparseTrees) -> Floats:
    """Return P(k roots), k = 0, 1, …: the convolution over components.

    A record alone is a root or not. In a component, whoever leaves it is a root with the share that
    being a root has in leaving; the roots are a determinantal process with the kernel
    P(u's path leaves at v) times v's share (see `root_count_distribution`).
    """
    components = trees.components
    if trees.roots == "single":
        closed = int(components.single.sum())
        closed += int(((trees.edges.possible_parents() == 0) & components.alone).sum())
        return np.append(np.zeros(closed), 1.0)
    _, root = trees.marginals
    chances = root[components.alone]
    certain = int((chances == 1.0).sum())
    chances = chances[(chances > 0.0) & (chances < 1.0)]
    parts = [np.array([1.0 - p, p]) for p in chances.tolist()]
    for c in range(len(components.single)):
        parts.append(_of_component(trees, c))
    counts = _convolved(parts)
    return np.append(np.zeros(certain), settled(counts, trees.edges.n_records))


def _of_component(trees: SparseTrees, c: int) -> Floats:
    inner, components = trees.inner, trees.components
    lo, hi = components.first[c], components.first[c + 1]
    log_root = components.log_root[components.members[lo:hi]]
    if not (log_root > -np.inf).any():
        return np.ones(1)
    n = int(hi - lo)
    if n > _LARGEST:
        raise MemoryError(
            f"the number of roots needs the eigenvalues of a component of {n:,} records, and that "
            f"is done for up to {_LARGEST:,}; count the roots of sampled trees instead"
        )
    log_beta = np.full((n + 1, n + 1), -np.inf)
    edges = slice(inner.first[lo], inner.first[hi])
    row = np.repeat(np.arange(n), np.diff(inner.first[lo : hi + 1]))
    log_beta[1 + row, 1 + inner.column[edges] - lo] = inner.log_weight[edges]
    log_beta[1:, 0] = inner.log_out[lo:hi]
    lifted = weights.frozen(log_beta, np.append(0.0, np.full(n, -np.inf)))
    passed = elimination.eliminate(lifted, 0) or extended.eliminate(lifted, 0)
    share = np.exp(log_root - np.where(log_root > -np.inf, inner.log_out[lo:hi], 0.0))
    return settled(root_count_distribution(passed.absorption()[1:, 1:] * share), n)


def _convolved(parts: list[Floats]) -> Floats:
    """Return the convolution of all parts, the shortest first: errors are absolute, near 1e-16."""
    queue = [(len(part), i, part) for i, part in enumerate(parts)]
    heapify(queue)
    number = len(queue)
    while len(queue) > 1:
        (_, _, a), (_, _, b) = heappop(queue), heappop(queue)
        both = np.convolve(a, b) if min(len(a), len(b)) < 64 else fftconvolve(a, b)
        heappush(queue, (len(both), number, both))
        number += 1
    return queue[0][2] if queue else np.ones(1)

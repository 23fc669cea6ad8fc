"""The weights of a table's edges as the formula says, pair by pair and column by column.

    weight(u, v) = Σ_k w_k f_k(u, v) Π_c r_c(u, v, k) / mean_w Π_c r_c(u, w, k)
    r_c(u, v, k) = (1 − ε_c) p_c(u | v, k) / g_c(u, k) + ε_c,    g_c(u, k) = mean_w p_c(u | w, k)

with dates; w goes over the other records of u's group. Contacts, which are ratios already, count
in full, and the others given them: the mean is then Σ_w m(u, w) Π_c r_c(u, w, k) / Σ_w m(u, w), m
being the product of the ratios of contacts. Slow, and independent of the library but for each
kernel's own probability of one pair.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from oracles.enumeration import EnumeratedDistribution
from outtrees.models.columns import Waiting


class SlowWeights(NamedTuple):
    """Log-weights by [child, parent], those of the dates alone, and those of roots."""

    log_beta: Any  # (T, T)
    log_wait: Any  # (T, T)
    log_root: Any  # (T,)


def slow_weights(lineage, values, groups=None) -> SlowWeights:
    """Return the weights of all edges and roots of a small table."""
    T, K = len(values[0]), lineage.generations
    groups = np.zeros(T, dtype=int) if groups is None else np.asarray(groups)
    columns = [c for c, share in enumerate(lineage.outlier_shares) if share < 1]
    dates = [c for c in columns if isinstance(lineage.kernels[c], Waiting)]
    compared = [c for c in columns if dates and lineage.kernels[c].contrasted]
    plain = [c for c in columns if c not in dates and c not in compared]
    met = [c for c in columns if lineage.kernels[c].relative]

    def chance(c, u, v, k):
        """Return p_c(u | v) at k links, and whether v says nothing about it."""
        kernel, ends = lineage.kernels[c], (np.array([u]), np.array([v]))
        pairs = kernel.pairs(values[c], values[c], *ends)
        elapsed = None
        if dates:
            elapsed = np.maximum(
                np.nan_to_num(values[dates[0]][u, :1] - values[dates[0]][v, 1:2]), 0.0
            )
        found = np.exp(kernel.log_steps(pairs, k, elapsed)[0])
        return found, c in compared and bool(kernel.unknown_parents(pairs)[0])

    def others(u):
        return [w for w in range(T) if w != u and groups[w] == groups[u]]

    def alone(c, u):
        return np.exp(lineage.kernels[c].log_alone(values[c][u : u + 1])[0])

    means = {}
    for c, u, k in product(compared, range(T), range(1, K + 1)):
        both = [chance(c, u, w, k) for w in others(u)]
        known = [p for p, unknown in both if not unknown]
        means[c, u, k] = np.mean(known) if known else 1.0

    def ratio(c, u, v, k):
        p, unknown = chance(c, u, v, k)
        share = lineage.outlier_shares[c]
        return 1.0 if unknown else (1 - share) * p / means[c, u, k] + share

    def density(c, u, v, k):
        share = lineage.outlier_shares[c]
        return (1 - share) * chance(c, u, v, k)[0] + (share * alone(c, u) if share else 0.0)

    def likeness(u, k):
        if not compared or not others(u):
            return 1.0
        weights = [np.prod([chance(c, u, w, k)[0] for c in met]) for w in others(u)]
        alike = [np.prod([ratio(c, u, w, k) for c in compared]) for w in others(u)]
        return np.average(alike, weights=weights)

    beta, wait = np.zeros((T, T)), np.zeros((T, T))
    for u, k in product(range(T), range(1, K + 1)):
        like = likeness(u, k)
        for v in others(u):
            date = lineage.step_weights[k - 1] * np.prod([density(c, u, v, k) for c in dates])
            wait[u, v] += date
            rest = np.prod([density(c, u, v, k) for c in plain])
            beta[u, v] += date * rest * np.prod([ratio(c, u, v, k) for c in compared]) / like
    root = np.array([np.prod([alone(c, u) for c in plain]) for u in range(T)])
    with np.errstate(divide="ignore"):
        return SlowWeights(np.log(beta), np.log(wait), np.log(root))


class SlowTable(NamedTuple):
    """Sums over all trees of a table: of all columns, and log p(cells | dates)."""

    gain: float
    edge_marginals: Any  # (T, T)
    root_marginals: Any  # (T,)


def slow_table(lineage, values, edges, roots, log_introduction) -> SlowTable:
    """Return the sums over all trees, every group's trees enumerated by themselves."""
    T = len(edges.groups)
    weights = slow_weights(lineage, values, edges.groups)
    listed = np.zeros((T, T), dtype=bool)
    listed[edges.child, edges.parent] = True
    gain, edge, root = lineage.log_common(), np.zeros((T, T)), np.zeros(T)
    for group in np.unique(edges.groups):
        rows = np.flatnonzero(edges.groups == group)
        here = np.ix_(rows, rows)
        may = np.where(edges.root_allowed[rows], log_introduction, -np.inf)
        whole, dates = (
            EnumeratedDistribution(np.where(listed[here], w[here], -np.inf), r + may, roots)
            for w, r in (
                (weights.log_beta, weights.log_root[rows]),
                (weights.log_wait, np.zeros(len(rows))),
            )
        )
        gain += whole.log_z - dates.log_z
        edge[here], root[rows] = whole.edge_marginals, whole.root_marginals
    return SlowTable(gain, edge, root)

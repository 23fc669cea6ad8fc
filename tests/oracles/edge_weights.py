"""The weights of a table's edges as the formula says, pair by pair and column by column.

    weight(u, v) = Σ_k w_k f_k(u, v) Π_c r_c(u, v, k)
    r_c(u, v, k) = (1 − ε_c) p_c(u | v, k) / g_c(u) + ε_c
    g_c(u) = a_c h_c(u) + (1 − a_c) ĝ_c(u),    ĝ_c(u) = n h_c(u) + (1 − n) mean_w h_c(u | w)

with dates; w goes over the records before u in its group, those of the same date by half, and n is
the share of new cells after so many. h_c of a category or a spot is that of one which no record
had before; where none is left it is any, and n is what a hundredth of it is beside 1 − n. A
category that changes is drawn from g_c, and so is a spot that is not near. What is gained is
counted against ĝ. Contacts, which are ratios already, count in full, and weigh w in the mean.
Slow, and independent of the library but for each kernel's own probability of one pair.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from oracles.enumeration import EnumeratedDistribution
from outtrees.models.columns import Spots, Sticky, Waiting


class SlowWeights(NamedTuple):
    """Log-weights by [child, parent], those of the dates alone, and those of roots."""

    log_beta: Any  # (T, T)
    log_wait: Any  # (T, T)
    log_root: Any  # (T,)
    less: float  # what is lost against the best prediction from cells before


class _Formula:
    """The parts of the formula, for single records, pairs and columns."""

    def __init__(self, lineage, values, groups):
        self.lineage, self.values, self.groups = lineage, values, groups
        columns = [c for c, share in enumerate(lineage.outlier_shares) if share < 1]
        self.dates = [c for c in columns if isinstance(lineage.kernels[c], Waiting)]
        self.compared = [c for c in columns if self.dates and lineage.kernels[c].contrasted]
        self.plain = [c for c in columns if c not in (*self.dates, *self.compared)]
        self.met = [c for c, kernel in enumerate(lineage.kernels) if kernel.relative]
        places = product(self.compared, range(len(groups)))
        self.background = {(c, u): self._background(c, u) for c, u in places}

    def chance(self, c, u, v, k, kernel=None):
        """Return p_c(u | v) at k links, and whether v says nothing about it."""
        kernel, values = kernel or self.lineage.kernels[c], self.values
        pairs = kernel.pairs(values[c], values[c], np.array([u]), np.array([v]))
        elapsed = None
        if self.dates:
            days = values[self.dates[0]]
            elapsed = np.maximum(np.nan_to_num(days[u, :1] - days[v, 1:2]), 0.0)
        found = np.exp(kernel.log_steps(pairs, k, elapsed)[0])
        return found, c in self.compared and bool(kernel.unknown_parents(pairs)[0])

    def others(self, u):
        return [w for w, g in enumerate(self.groups) if w != u and g == self.groups[u]]

    def before(self, u, w):
        """Return how much w counts among the records before u."""
        day, other = self.values[self.dates[0]][[u, w], 0]
        return 1.0 if other < day else 0.5 if other == day or np.isnan(day) else 0.0

    def alone(self, c, u):
        return np.exp(self.lineage.kernels[c].log_alone(self.values[c][u : u + 1])[0])

    def _background(self, c, u):
        """Return g_c(u) and ĝ_c(u)."""
        kernel, always, first = self.lineage.backgrounds[c]
        total = number = weight = 0.0
        for w in self.others(u):
            p, unknown = self.chance(c, u, w, 1, kernel)
            if not unknown:
                met = [
                    self.chance(m, u, w, 1, self.lineage.backgrounds[m].kernel)[0] for m in self.met
                ]
                total += self.before(u, w) * np.prod(met) * p
                weight += self.before(u, w) * np.prod(met)
                number += self.before(u, w)
        base, possible = self._anywhere(c, u, kernel)
        new = always + (1 - always) * first / (first + number)
        new *= possible / (1 - new + new * possible)
        nobody = 1.0 if np.isnan(self.values[c][u]).any() else self.scale(c, u, kernel)
        told = new * base + (1 - new) * (total / weight if weight else nobody)
        a = self.lineage.anywhere[c]
        return a * base + (1 - a) * told, told

    def scale(self, c, u, kernel):
        """Return the density of any cell where there is nobody before."""
        if isinstance(kernel, Spots):
            return 1 / len(kernel.spots)
        if isinstance(kernel, Sticky):
            return len(self.one_of(c, u)) / len(kernel.levels)
        return self.alone(c, u)

    def one_of(self, c, u):
        """Return the cells that one record may have: several categories, or one of any kind."""
        kernel, own = self.lineage.kernels[c], tuple(self.values[c][u])
        if not isinstance(kernel, Sticky) or own[0] < len(kernel.levels):
            return [own]
        mask = int(own[0]) - len(kernel.levels)
        return [(float(i),) for i in range(len(kernel.levels)) if mask >> i & 1]

    def _anywhere(self, c, u, kernel):
        """Return h_c(u), and how often there can be such a cell."""
        cells = self.values[c]
        if not isinstance(kernel, (Spots, Sticky)):
            return self.alone(c, u), 1.0
        if np.isnan(cells[u]).any():
            return 1.0, 1.0
        known = [w for w in self.others(u) if not np.isnan(cells[w]).any()]
        known = [w for w in known if len(self.one_of(c, w)) == 1]
        earlier = [tuple(cells[w]) for w in known if self.before(u, w) == 1]
        tied = [tuple(cells[w]) for w in known if self.before(u, w) == 0.5]
        own, any_value = self.one_of(c, u), self.scale(c, u, kernel)
        if (left := round(len(own) / any_value) - len(set(earlier))) == 0:
            return any_value, 0.01
        left -= sum(1 - 1 / (1 + tied.count(a)) for a in set(tied) - set(earlier))
        new = sum(1 / (1 + tied.count(a)) for a in own if a not in earlier) / left
        return 0.99 * new + 0.01 * any_value, 1.0

    def ratio(self, c, u, v, k):
        """Return r_c(u, v, k)."""
        kernel, share = self.lineage.kernels[c], self.lineage.outlier_shares[c]
        p, unknown = self.chance(c, u, v, k)
        g, cells = self.background[c, u][0], self.values[c]
        if unknown or np.isnan(cells[u]).any():
            return 1.0
        if isinstance(kernel, Sticky):
            kept = kernel.stickiness**k
            share_of = {b: kernel.marginal[int(b[0])] for b in self.one_of(c, v)}
            same = sum(share_of.get(a, 0.0) for a in self.one_of(c, u)) / sum(share_of.values())
            p = kept * same + (1 - kept) * g
        if isinstance(kernel, Spots):
            kept, here, there = kernel.stays**k, cells[u], cells[v]
            away = [np.linalg.norm(s - there) for s in kernel.spots if (s != there).any()]
            near = np.exp(-np.linalg.norm(here - there) / kernel.reach)
            near /= sum(np.exp(-d / kernel.reach) for d in away)
            p = float((here == there).all())
            p = kept * p + (1 - kept) * (kernel.near * (1 - p) * near + (1 - kernel.near) * g)
        return (1 - share) * p / g + share

    def density(self, c, u, v, k):
        share = self.lineage.outlier_shares[c]
        outlier = share * self.alone(c, u) if share else 0.0
        return (1 - share) * self.chance(c, u, v, k)[0] + outlier


def slow_weights(lineage, values, groups=None) -> SlowWeights:
    """Return the weights of all edges and roots of a small table."""
    T, K = len(values[0]), lineage.generations
    powers = np.ones(len(values)) if lineage.exponents is None else lineage.exponents
    f = _Formula(lineage, values, np.zeros(T, dtype=int) if groups is None else np.asarray(groups))
    beta, wait, root = np.zeros((T, T)), np.zeros((T, T)), np.ones(T)
    for u, k in product(range(T), range(1, K + 1)):
        weight = lineage.step_weights[k - 1]
        for v in f.others(u):
            wait[u, v] += weight * np.prod([f.density(c, u, v, k) for c in f.dates])
            parts = [f.density(c, u, v, k) ** powers[c] for c in (*f.dates, *f.plain)]
            parts += [f.ratio(c, u, v, k) ** powers[c] for c in f.compared]
            beta[u, v] += weight * np.prod(parts)
    for u in range(T):
        root[u] = np.prod([f.alone(c, u) ** powers[c] for c in f.plain])
    less = sum(np.log(told / g) for g, told in f.background.values())
    with np.errstate(divide="ignore"):
        return SlowWeights(np.log(beta), np.log(wait), np.log(root), float(less))


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
    gain, edge, root = lineage.log_common() - weights.less, np.zeros((T, T)), np.zeros(T)
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

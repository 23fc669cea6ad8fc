"""The plain reference: every out-tree one by one, and the paper's determinants as printed.

For tests and documentation only; nothing in the library calls this file. Enumeration is exact
and takes T^(T−1) steps; the determinants take cubic time and lose every digit on separated data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Literal

import numpy as np
from scipy.special import logsumexp

from outtrees.trees.parents import are_out_trees
from outtrees.trees.weights import Floats, Ints


@cache
def all_trees(T: int, roots: Literal["single", "any"] = "single") -> Ints:
    """Return the parents of all T^(T−1) out-trees, or of all (T+1)^(T−1) forests, one a row."""
    choices = [[v for v in range(-1, T) if v != u] for u in range(T)]
    parents = np.array(list(product(*choices)), dtype=np.intp)
    return parents[are_out_trees(parents, single_root=roots == "single")]


@dataclass(frozen=True)
class EnumeratedDistribution:
    """The slow twin of ``OutTreeDistribution``, attribute by attribute."""

    log_beta: Floats
    log_root: Floats
    roots: Literal["single", "any"] = "single"

    @cached_property
    def trees(self) -> Ints:
        """The trees (or forests), one a row."""
        return all_trees(len(self.log_root), self.roots)

    @cached_property
    def log_weights(self) -> Floats:
        """Log-weight of each tree: the sum over its edges and roots."""
        with_root = np.column_stack([self.log_beta, self.log_root])  # parent −1: the last column
        return np.asarray(with_root[np.arange(len(self.log_root)), self.trees].sum(axis=1))

    @cached_property
    def log_z(self) -> float:
        """Log of the sum of all weights."""
        return float(logsumexp(self.log_weights))

    @cached_property
    def probabilities(self) -> Floats:
        """Probability of each tree."""
        return np.asarray(np.exp(self.log_weights - self.log_z))

    @property
    def log_z_rooted(self) -> Floats:
        """Log of the sum over the single-root trees rooted at r, without the root's weight."""
        T = len(self.log_root)
        single = EnumeratedDistribution(self.log_beta, np.zeros(T))
        return np.array([logsumexp(single.log_weights[single.trees[:, r] < 0]) for r in range(T)])

    @property
    def edge_marginals(self) -> Floats:
        """P(u descends from v), [child, parent]."""
        T = len(self.log_root)
        edge = np.zeros((T, T + 1))
        for u in range(T):  # parent −1 falls into the last column
            np.add.at(edge[u], self.trees[:, u], self.probabilities)
        return edge[:, :T]

    @property
    def root_marginals(self) -> Floats:
        """P(r is a root)."""
        return np.asarray(self.probabilities @ (self.trees < 0))

    @property
    def entropy(self) -> float:
        """−Σ p log p."""
        p = self.probabilities[self.probabilities > 0]
        return float(-(p * np.log(p)).sum())

    def number_of_roots(self) -> Floats:
        """P(k roots), k = 0 … T."""
        n_roots = (self.trees < 0).sum(axis=1)
        return np.asarray(np.bincount(n_roots, self.probabilities, len(self.log_root) + 1), float)

    def expected_right(self) -> float:
        """The largest expected number of right parents among all trees of positive weight."""
        chance = np.column_stack([self.edge_marginals, self.root_marginals])
        right = chance[np.arange(len(self.log_root)), self.trees].sum(axis=1)
        return float(right[self.log_weights > -np.inf].max())

    def kl(self, other: EnumeratedDistribution) -> float:
        """Σ p log p/q."""
        p = self.probabilities > 0
        log_p = self.log_weights[p] - self.log_z
        log_q = other.log_weights[p] - other.log_z
        return float((self.probabilities[p] * (log_p - log_q)).sum())


def laplacian(beta: Floats) -> Floats:
    """Return the paper's out-Laplacian Q = diag(β 1) − β."""
    return np.diag(beta.sum(axis=1)) - beta


def bordered_laplacian(beta: Floats, root: Floats) -> Floats:
    """Return the paper's Q̂ = [[1, pᵀ], [−p, Q]] with p = root / Σ root."""
    p = (root / root.sum())[:, None]
    return np.block([[np.ones((1, 1)), p.T], [-p, laplacian(beta)]])


def log_z_by_cofactors(beta: Floats, root: Floats) -> float:
    """Return log Σ_r p(X_r) |[Q]_r|, the naive O(T⁴) sum of section 3."""
    Q = laplacian(beta)
    kept = [np.delete(np.arange(len(root)), r) for r in range(len(root))]
    cofactors = [np.linalg.det(Q[np.ix_(k, k)]) for k in kept]
    return float(np.log(root @ np.array(cofactors)))


def log_z_by_determinant(beta: Floats, root: Floats) -> float:
    """Return log Z from one determinant of Q̂ (section 3)."""
    return float(np.log(root.sum()) + np.linalg.slogdet(bordered_laplacian(beta, root))[1])


def log_z_by_svd(beta: Floats, root: Floats) -> float:
    """Return log Z from the singular values of Q̂ (eq. 2)."""
    singular_values = np.linalg.svd(bordered_laplacian(beta, root), compute_uv=False)
    return float(np.log(root.sum()) + np.log(singular_values).sum())


def edge_marginals_by_inverse(beta: Floats, root: Floats) -> Floats:
    """Return β ∘ ∂ log Z / ∂ β from the inverse of Q̂ (the gradient of section 4)."""
    inverse = np.linalg.inv(bordered_laplacian(beta, root))[1:, 1:]
    return np.asarray(beta * (np.diag(inverse)[:, None] - inverse.T))

"""Lineage: the columns of a table changing together along one tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from outtrees.mutations.columns.base import Array, ColumnKernel, Index
from outtrees.mutations.columns.matrices import GivenWeights
from outtrees.mutations.columns.waiting import Waiting

_BACKGROUND_PRIOR = (0.2, 99.8)  # pseudo-links that are outliers, and that are not


class LineagePairs(NamedTuple):
    """What the parameters do not change, for a list of E possible edges."""

    columns: tuple[Any, ...]  # what each column's kernel made of the edges
    children: tuple[Array, ...]  # the cells of each column (n, D_c)
    child: Index  # (E,)
    parent: Index  # (E,)
    elapsed: Array | None  # (E,), time from parent to child


@dataclass(frozen=True, eq=False)
class Lineage:
    """p(child | parent) = Σ_k w_k Π_c [(1 − ε_c) p_c(child | parent, k links) + ε_c g_c(child)].

    Columns change independently given the parent and the number of links k ≤ generations; links
    beyond the first stand for ancestors that no record shows. Each column c has a background g_c,
    its density without a parent, so that an outlying cell costs a bounded amount, and a column
    that does not follow the tree at all is recognised by ε_c near 1. The weights w and ε are
    learned. Dates with a strict order have no background.

    Once fitted, a column may be given another say (`exponents`): its factor [...]^λ_c, and g_c^λ_c
    in the density of a root. Such weights are no densities any more, and no fit uses them; see
    `outtrees.learning.exponents`.

    Parameters
    ----------
    kernels : sequence of ColumnKernel
    generations : int
        The largest number of links from a record to its parent record.
    background : bool
        Whether columns have a background component.
    """

    kernels: Sequence[ColumnKernel] = ()
    generations: int = 1
    background: bool = True
    _: KW_ONLY
    step_weights: Any = field(default=None, repr=False)  # (K,)
    outlier_shares: Any = field(default=None, repr=False)  # (C,), ε
    exponents: Any = field(default=None, repr=False)  # (C,), λ; None: 1 for all

    def start(self, values: Sequence[Array]) -> Self:
        """Return the lineage with starting parameters for columns of cells (T, D_c)."""
        kernels = tuple(k.start(v) for k, v in zip(self.kernels, values, strict=True))
        K = self.generations
        weights = np.full(K, 0.1 / max(K - 1, 1))
        weights[0] = 1.0 if K == 1 else 0.9
        shares = np.array([0.002 if self._has_background(k) else 0.0 for k in kernels])
        return replace(
            self, kernels=kernels, step_weights=weights, outlier_shares=shares, exponents=None
        )

    def _has_background(self, kernel: ColumnKernel) -> bool:
        if isinstance(kernel, GivenWeights) or (isinstance(kernel, Waiting) and kernel.strict):
            return False
        return self.background

    # Log-weights ---------------------------------------------------------------------------

    def pairs(
        self,
        children: Sequence[Array],  # one (n, D_c) for each column
        parents: Sequence[Array],  # one (m, D_c) for each column
        child: Index,  # (E,)
        parent: Index,  # (E,)
    ) -> LineagePairs:
        """Return what the parameters do not change, for each possible edge."""
        columns = tuple(
            kernel.pairs(c, p, child, parent)
            for kernel, c, p in zip(self.kernels, children, parents, strict=True)
        )
        elapsed = None
        for kernel, c, p in zip(self.kernels, children, parents, strict=True):
            if isinstance(kernel, Waiting):
                elapsed = kernel.elapsed(c, p, child, parent)
        return LineagePairs(columns, tuple(children), child, parent, elapsed)

    def log_columns(self, pairs: LineagePairs, k: int) -> Array:
        """Return log p of each column and edge at k links, background included (C, E)."""
        rows = []
        for c in range(len(self.kernels)):
            follows, alone = self._two_ways(pairs, c, k)
            row = np.logaddexp(follows, alone) if alone is not None else follows
            rows.append(row if self.exponents is None else self.exponents[c] * row)
        return np.array(rows).reshape(len(self.kernels), len(pairs.child))

    def _two_ways(self, pairs: LineagePairs, c: int, k: int) -> tuple[Array, Array | None]:
        """Return log of following the parent, and of the background, for column c and k links."""
        kernel, share = self.kernels[c], self.outlier_shares[c]
        follows = kernel.log_steps(pairs.columns[c], k, pairs.elapsed)
        if share == 0:
            return follows, None
        alone = kernel.log_alone(pairs.children[c])[pairs.child]
        return follows + np.log1p(-share), alone + np.log(share)

    def log_steps(self, pairs: LineagePairs) -> Array:
        """Return log w_k + Σ_c log p_c for each number of links (K, E)."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.step_weights)
        return np.array(
            [
                log_weights[k - 1] + self.log_columns(pairs, k).sum(axis=0)
                for k in range(1, self.generations + 1)
            ]
        )

    def log_beta(self, pairs: LineagePairs) -> Array:
        """Return log p(child | parent) for each edge (E,)."""
        return logsumexp(self.log_steps(pairs), axis=0)

    def log_root(self, values: Sequence[Array]) -> Array:
        """Return the log-density of records without a parent (n,)."""
        return np.asarray(self.log_alone(values).sum(axis=0))

    def log_alone(self, values: Sequence[Array]) -> Array:
        """Return the log-density of each column of records without a parent (C, n)."""
        rows = [k.log_alone(v) for k, v in zip(self.kernels, values, strict=True)]
        if self.exponents is not None:
            rows = [power * row for power, row in zip(self.exponents, rows, strict=True)]
        return np.array(rows)

    # Learning ------------------------------------------------------------------------------

    def refit(
        self,
        pairs: LineagePairs,
        edge_marginals: Array,  # (E,)
        root_marginals: Array,  # (T,)
    ) -> Self:
        """Return the lineage after one M-step for the trees' marginals."""
        log_steps = self.log_steps(pairs)
        total = logsumexp(log_steps, axis=0)
        used = edge_marginals > 0
        by_steps = np.zeros_like(log_steps)  # (K, E): edge probability and number of links
        by_steps[:, used] = edge_marginals[used] * np.exp(log_steps[:, used] - total[used])
        kernels, shares = [], []
        for c, kernel in enumerate(self.kernels):
            follow = np.empty_like(by_steps)
            for k in range(1, self.generations + 1):
                follows, alone = self._two_ways(pairs, c, k)
                if alone is None:
                    follow[k - 1] = by_steps[k - 1]
                else:
                    both = np.logaddexp(follows, alone)
                    follow[k - 1] = by_steps[k - 1] * np.exp(follows - both)
            weight = float(by_steps.sum())
            outliers = max(weight - float(follow.sum()), 0.0)
            a, b = _BACKGROUND_PRIOR
            free = self.outlier_shares[c] > 0
            shares.append((outliers + a) / (weight + a + b) if free else 0.0)
            lost = (by_steps - follow).sum(axis=0)
            alone_weights = root_marginals + np.bincount(pairs.child, lost, len(root_marginals))
            refitted = kernel.refit(pairs.columns[c], follow, pairs.elapsed)
            kernels.append(refitted.refit_alone(pairs.children[c], alone_weights))
        counts = by_steps.sum(axis=1)
        counts = counts + (np.arange(len(counts)) == 0)  # one pseudo-link of one step
        return replace(
            self,
            kernels=tuple(kernels),
            step_weights=counts / counts.sum(),
            outlier_shares=np.array(shares),
        )

    def log_prior(self) -> float:
        """Return the log prior density of all parameters, up to a constant."""
        a, b = _BACKGROUND_PRIOR
        shares = self.outlier_shares[self.outlier_shares > 0]
        value = float((a * np.log(shares) + b * np.log1p(-shares)).sum())
        value += float(np.log(self.step_weights[0]))
        return value + sum(kernel.log_prior() for kernel in self.kernels)

    # Samples -------------------------------------------------------------------------------

    def sample(self, parents: Sequence[Array], rng: np.random.Generator) -> list[Array]:
        """Return one child for each parent, as columns of cells; outliers are not drawn."""
        n = len(parents[0])
        links = rng.choice(self.generations, size=n, p=self.step_weights) + 1
        result = [np.empty_like(cells) for cells in parents]
        for k in np.unique(links):
            rows = links == k
            for c, kernel in enumerate(self.kernels):
                result[c][rows] = kernel.sample(parents[c][rows], int(k), rng)
        return result

    def sample_alone(self, n: int, rng: np.random.Generator) -> list[Array]:
        """Return n records without a parent, as columns of cells."""
        return [kernel.sample_alone(n, rng) for kernel in self.kernels]

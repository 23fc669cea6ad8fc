"""Lineage: the columns of a table changing together along one tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from outtrees.models.columns.base import Array, ColumnKernel, Index
from outtrees.models.columns.matrices import GivenWeights
from outtrees.models.columns.waiting import Waiting
from outtrees.models.edges import chunks

# What an edge needs for a while, for each column and number of links.
_CELLS_OF_AN_EDGE = 4
_BACKGROUND_PRIOR = (0.2, 99.8)  # pseudo-links that are outliers, and that are not


class Stretch(NamedTuple):
    """What the parameters do not change, for some edges that follow each other in the list."""

    rows: slice  # where they stand
    columns: tuple[Any, ...]  # what each column's kernel made of them
    elapsed: Array | None  # (n,), time from parent to child


class LineagePairs(NamedTuple):
    """What the parameters do not change, for a list of E possible edges.

    In stretches, so that sums over the list need memory for the columns and links of one stretch
    only.
    """

    stretches: tuple[Stretch, ...]
    children: tuple[Array, ...]  # the cells of each column (n, D_c)
    child: Index  # (E,)
    parent: Index  # (E,)


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
    `outtrees.ancestry.calibration`.

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
        kernels = list(zip(self.kernels, children, parents, strict=True))
        pairs = [kernel.between(c, p) for kernel, c, p in kernels]
        dates = [(k, c, p) for k, c, p in kernels if isinstance(k, Waiting)]
        stretches = []
        for rows in chunks(len(child), _CELLS_OF_AN_EDGE * max(self.generations * len(pairs), 1)):
            ends = child[rows], parent[rows]
            columns = tuple(made(*ends) for made in pairs)
            elapsed = [k.elapsed(c, p, *ends) for k, c, p in dates[-1:]]
            stretches.append(Stretch(rows, columns, elapsed[0] if elapsed else None))
        return LineagePairs(tuple(stretches), tuple(children), child, parent)

    def log_columns(self, pairs: LineagePairs, k: int) -> Array:
        """Return log p of each column and edge at k links, background included (C, E)."""
        result = np.empty((len(self.kernels), len(pairs.child)))
        outliers = self._log_outliers(pairs)
        for stretch in pairs.stretches:
            for c in range(len(self.kernels)):
                result[c, stretch.rows] = self._log_column(pairs, stretch, outliers, c, k)
        return result

    def _log_outliers(self, pairs: LineagePairs) -> list[Array | None]:
        """Return log ε_c g_c of each child (n,), None for columns without a background."""
        return [
            None if share == 0 else kernel.log_alone(cells) + np.log(share)
            for kernel, cells, share in zip(
                self.kernels, pairs.children, self.outlier_shares, strict=True
            )
        ]

    def _two_ways(
        self, pairs: LineagePairs, stretch: Stretch, outliers: list[Array | None], c: int, k: int
    ) -> tuple[Array, Array]:
        """Return log p of following the parent, and of that or the background, at k links."""
        follows = self.kernels[c].log_steps(stretch.columns[c], k, stretch.elapsed)
        outlying = outliers[c]
        if outlying is None:
            return follows, follows
        follows = follows + np.log1p(-self.outlier_shares[c])
        return follows, np.logaddexp(follows, outlying[pairs.child[stretch.rows]])

    def _log_column(
        self, pairs: LineagePairs, stretch: Stretch, outliers: list[Array | None], c: int, k: int
    ) -> Array:
        """Return log p of column c at k links, background included, to its exponent."""
        either = self._two_ways(pairs, stretch, outliers, c, k)[1]
        return either if self.exponents is None else self.exponents[c] * either

    @property
    def _log_step_weights(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(self.step_weights)

    def log_beta(self, pairs: LineagePairs) -> Array:
        """Return log p(child | parent) for each edge (E,)."""
        result = np.empty(len(pairs.child))
        outliers, log_weights = self._log_outliers(pairs), self._log_step_weights
        for stretch in pairs.stretches:
            steps = [
                log_weight + self._log_together(pairs, stretch, outliers, k)
                for k, log_weight in enumerate(log_weights, start=1)
            ]
            result[stretch.rows] = logsumexp(np.array(steps), axis=0)
        return result

    def log_links(self, pairs: LineagePairs, k: int) -> Array:
        """Return log p(child | parent, k links apart) for each edge (E,)."""
        result, outliers = np.empty(len(pairs.child)), self._log_outliers(pairs)
        for stretch in pairs.stretches:
            result[stretch.rows] = self._log_together(pairs, stretch, outliers, k)
        return result

    def _log_together(
        self, pairs: LineagePairs, stretch: Stretch, outliers: list[Array | None], k: int
    ) -> Array:
        """Return log p of all columns at k links."""
        columns = range(len(self.kernels))
        logs = (self._log_column(pairs, stretch, outliers, c, k) for c in columns)
        return sum(logs, start=np.zeros(len(pairs.child[stretch.rows])))

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
        """Return the lineage after one M-step for the trees' marginals.

        One pass over the stretches of the list: of each, every column counts what it needs.
        """
        C, K = len(self.kernels), self.generations
        outliers, log_weights = self._log_outliers(pairs), self._log_step_weights
        counts: list[list[Any]] = [[] for _ in range(C)]
        by_links = np.zeros(K)
        alone = np.tile(root_marginals, (C, 1))  # (C, T), of roots and outliers
        for stretch in pairs.stretches:
            both = [
                [self._two_ways(pairs, stretch, outliers, c, k) for k in range(1, K + 1)]
                for c in range(C)
            ]
            log_steps = np.array(
                [
                    sum((both[c][k][1] for c in range(C)), start=log_weight)
                    for k, log_weight in enumerate(log_weights)
                ]
            )
            marginals = edge_marginals[stretch.rows]
            used = marginals > 0
            weights = np.zeros_like(log_steps)  # (K, n): edge probability and number of links
            total = logsumexp(log_steps[:, used], axis=0)
            weights[:, used] = marginals[used] * np.exp(log_steps[:, used] - total)
            by_links += weights.sum(axis=1)
            for c, kernel in enumerate(self.kernels):
                follow = weights
                if outliers[c] is not None:
                    follow = weights * np.exp([f - both_ways for f, both_ways in both[c]])
                    lost = (weights - follow).sum(axis=0)
                    alone[c] += np.bincount(pairs.child[stretch.rows], lost, alone.shape[1])
                counts[c].append(kernel.counted(stretch.columns[c], follow, stretch.elapsed))
        weight = float(by_links.sum())
        a, b = _BACKGROUND_PRIOR
        lost_in_all = np.maximum((alone - root_marginals).sum(axis=1), 0.0)
        shares = np.where(self.outlier_shares > 0, (lost_in_all + a) / (weight + a + b), 0.0)
        kernels = [
            kernel.learned(counts[c]).refit_alone(pairs.children[c], alone[c])
            for c, kernel in enumerate(self.kernels)
        ]
        by_links[0] += 1  # one pseudo-link of one step
        return replace(
            self,
            kernels=tuple(kernels),
            step_weights=by_links / by_links.sum(),
            outlier_shares=shares,
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

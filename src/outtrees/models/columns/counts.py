"""Counts: whole numbers of which each unit survives, while new ones arrive."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Self

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import nbinom

from outtrees.models.columns.base import Array, CellKernel, logit, share_of
from outtrees.models.columns.quick import Metric, normal_constant

_TERMS_AT_ONCE = 200_000


@dataclass(frozen=True, eq=False)
class Counts(CellKernel):
    """Thinning and arrival: child = Binomial(parent, a^k) + Poisson((1 − a^k)·mean).

    Each of the parent's units is kept with probability a at each link, and as many arrive as keep
    the mean. The Poisson distribution is stationary, and k links have the same form with a^k.
    Cells without a parent follow a negative binomial with the column's mean and variance (Poisson
    where the variance is not larger), so that an overdispersed column has a fair alternative.

    Examples
    --------
    >>> kernel = Counts().start(np.array([[3.0], [4.0], [2.0]]))
    >>> children, edges = np.arange(60.0)[:, None], np.arange(60)
    >>> pairs = kernel.pairs(children, np.array([[3.0]]), edges, 0 * edges)
    >>> round(float(np.exp(kernel.log_steps(pairs, 2)).sum()), 12)
    1.0
    """

    prior_strength: float = 1.0
    _: KW_ONLY
    mean: float = 1.0
    variance: float = 1.0
    survival: float = 0.5

    def start(self, values: Array) -> Self:
        """Return the kernel with the mean and variance of the column, and survival 1/2."""
        known = values[~np.isnan(values)]
        mean = (float(known.sum()) + 0.5) / (len(known) + 1)
        variance = float(known.var()) if len(known) > 1 else mean
        return replace(self, mean=mean, variance=variance, survival=0.5)

    def _log_pairs(self, cells: Array, k: int, elapsed: Array | None) -> Array:
        return self._log_cells(cells, self.survival**k)

    def _log_cells(self, cells: Array, kept: float) -> Array:
        """Return log Σ_j Binomial(j; y, kept) Poisson(x − j; (1 − kept)·mean) for rows (x, y)."""
        x, y = cells.T
        result = np.empty(len(cells))
        fewer = np.minimum(x, y)
        order = np.argsort(fewer)
        # Chunks of similar width, so that the table of terms stays small.
        terms = fewer[order] + 1
        width, filled = np.floor(np.log2(terms)), np.cumsum(terms) // _TERMS_AT_ONCE
        ends = np.flatnonzero((np.diff(width) > 0) | (np.diff(filled) > 0)) + 1
        for rows in np.split(order, ends) if len(order) else []:
            j = np.arange(int(fewer[rows].max()) + 1)
            xs, ys = x[rows, None], y[rows, None]
            valid = j <= np.minimum(xs, ys)
            left, lost = np.where(valid, xs - j, 0), np.where(valid, ys - j, 0)
            log_terms = (
                gammaln(ys + 1)
                - gammaln(j + 1)
                - gammaln(lost + 1)
                + j * np.log(kept)
                + lost * np.log1p(-kept)
                + left * np.log((1 - kept) * self.mean)
                - (1 - kept) * self.mean
                - gammaln(left + 1)
            )
            result[rows] = logsumexp(np.where(valid, log_terms, -np.inf), axis=1)
        return result

    def _log_cell(self, x: Array) -> Array:
        if self.variance <= self.mean * (1 + 1e-9):
            return x[:, 0] * np.log(self.mean) - self.mean - gammaln(x[:, 0] + 1)
        p = self.mean / self.variance
        return nbinom.logpmf(x[:, 0], self.mean * p / (1 - p), p)

    @property
    def params(self) -> Array:
        """The survival, as a logit."""
        return np.array([logit(self.survival)])

    def with_params(self, params: Array) -> Self:
        """Return the kernel with this survival."""
        return replace(self, survival=share_of(params[0]))

    def start_grid(self) -> list[Array]:
        """Return a column that says next to nothing, and ones that are kept more and more."""
        return [np.array([value]) for value in (-3.0, -1.0, 1.0, 3.0)]

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return what survives of the parents' counts, and what arrived."""
        kept = self.survival**k
        arrived = rng.poisson((1 - kept) * self.mean, size=parents.shape)
        return (rng.binomial(parents.astype(np.int64), kept) + arrived).astype(np.float64)

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return draws from the density of cells without a parent."""
        if self.variance <= self.mean * (1 + 1e-9):
            return rng.poisson(self.mean, size=(n, 1)).astype(np.float64)
        p = self.mean / self.variance
        return rng.negative_binomial(self.mean * p / (1 - p), p, size=(n, 1)).astype(np.float64)

    def quick(self, values: Array, generations: int, elapsed: float) -> Metric:
        """Return the normal with the mean and, for an average parent, the variance of the count."""
        kept = (self.survival ** np.arange(1, generations + 1))[:, None, None]
        variance = (1 - kept) * (1 + kept) * self.mean
        child = (values - (1 - kept) * self.mean) / np.sqrt(variance)
        constant = normal_constant(0.0, 1, variance[:, 0, 0])
        return Metric(child, kept * values / np.sqrt(variance), constant)

    def log_prior(self) -> float:
        """Return the Beta log-density of the survival, up to a constant."""
        a = self.survival
        return 0.5 * self.prior_strength * float(np.log(4 * a * (1 - a)))

    def describe(self) -> str:
        """Return which share of the parent's units a child keeps."""
        arrived = (1 - self.survival) * self.mean
        return (
            f"a child keeps each of its parent's units with probability {self.survival:.3g}, "
            f"and {arrived:.3g} arrive"
        )

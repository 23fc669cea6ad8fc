"""Reversion: a number that keeps a share of its parent's value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Self

import numpy as np
from scipy.optimize import minimize_scalar

from outtrees.models.columns.base import Array, CellKernel
from outtrees.models.columns.quick import Metric, normal_constant
from outtrees.models.columns.scale import typical_variance

_PRIOR_SPREAD = 0.1  # the prior's guess of one link's spread, in typical spreads of the column
_STEEPEST = 1.25  # the largest share that is considered: values may grow from parent to child


@dataclass(frozen=True, eq=False)
class Reversion(CellKernel):
    """child = share·parent + step + N(0, spread²), composed k times for k links.

    At share = 1 it is a random walk with a direction, at share = 0 the parent says nothing: a
    column that does not follow the tree is found out and costs nothing. k links have mean
    share^k·parent + step·Σ_{i<k} share^i and variance spread²·Σ_{i<k} share^2i.

    Parameters
    ----------
    prior_strength : float
        Pseudo-links of the inverse-gamma prior on spread², whose guess is a tenth of the column's
        typical spread. It keeps the spread positive where cells are equal.

    Examples
    --------
    >>> kernel = Reversion().start(np.array([[0.0], [1.0], [3.0]]))
    >>> cells, edge = np.array([[1.0]]), np.array([0])
    >>> pairs = kernel.pairs(cells, cells, edge, edge)
    >>> bool(kernel.log_steps(pairs, 1)[0] > kernel.log_steps(pairs, 2)[0])
    True
    """

    prior_strength: float = 1.0
    _: KW_ONLY
    share: float = 1.0
    step: float = 0.0
    variance: float = 1.0  # of one link
    centre: float = 0.0  # of cells without a parent
    centre_variance: float = 1.0
    guess: float = 0.01  # the prior's variance

    def start(self, values: Array) -> Self:
        """Return the kernel with share 3/4 and the column's mean and variance kept."""
        known = values[~np.isnan(values)]
        centre = float(known.mean()) if len(known) else 0.0
        variance = float(known.var()) if len(known) else 0.0
        if not variance > 0:
            variance = 1.0  # a constant column has no scale of its own; any positive one serves
        typical = float(typical_variance(known[:, None])[0])
        share = 0.75
        return replace(
            self,
            share=share,
            step=(1 - share) * centre,
            variance=(1 - share**2) * typical,
            centre=centre,
            centre_variance=variance,
            guess=_PRIOR_SPREAD**2 * typical,
        )

    @staticmethod
    def _sums(share: float, k: int) -> tuple[float, float]:
        """Return Σ_{i<k} share^i and Σ_{i<k} share^2i."""
        powers = share ** np.arange(k)
        return float(powers.sum()), float((powers**2).sum())

    def _log_pairs(self, cells: Array, k: int, elapsed: Array | None) -> Array:
        drifted, grown = self._sums(self.share, k)
        residual = cells[:, 0] - self.share**k * cells[:, 1] - self.step * drifted
        variance = self.variance * grown
        return -0.5 * (residual**2 / variance + np.log(2 * np.pi * variance))

    def _log_cell(self, x: Array) -> Array:
        residual = x[:, 0] - self.centre
        return -0.5 * (
            residual**2 / self.centre_variance + np.log(2 * np.pi * self.centre_variance)
        )

    def _counted_cells(self, cells: Array, weights: Array, elapsed: Array | None) -> Array:
        """Return Σ w (1, r, y)(1, r, y)ᵀ at each number of links (K, 3, 3).

        r is the residual at the present parameters and y the parent's distance from the centre, so
        that residuals small beside the values keep their digits.
        """
        x, y = cells.T
        result = []
        for k, w in enumerate(weights, start=1):
            residual = x - self.share**k * y - self.step * self._sums(self.share, k)[0]
            rows = np.array([np.ones(len(x)), residual, y - self.centre])
            result.append((rows * w) @ rows.T)
        return np.array(result)

    def _residual(self, share: float, step: float, k: int) -> Array:
        """Return the residual at other parameters as a sum of 1, r and y (3,)."""
        less = self.share**k - share**k
        was, now = self._sums(self.share, k)[0], self._sums(share, k)[0]
        return np.array([less * self.centre + self.step * was - step * now, 1.0, less])

    def _best_at(self, share: float, moments: Array) -> tuple[Self, float]:
        """Return the kernel with the best step and variance for this share, and its objective."""
        sums = [self._sums(share, k) for k in range(1, len(moments) + 1)]
        top = bottom = total = logs = 0.0
        for k, ((drifted, grown), moment) in enumerate(zip(sums, moments, strict=True), start=1):
            weight = float(moment[0, 0])
            top += drifted / grown * float(self._residual(share, 0.0, k) @ moment[0])
            bottom += drifted**2 / grown * weight
            total += weight
            logs += weight * float(np.log(2 * np.pi * grown))
        step = top / bottom
        squares = 0.0
        for k, ((_, grown), moment) in enumerate(zip(sums, moments, strict=True), start=1):
            residual = self._residual(share, step, k)
            squares += float(residual @ moment @ residual) / grown
        variance = (squares + self.prior_strength * self.guess) / (total + self.prior_strength)
        found = replace(self, share=share, step=step, variance=variance)
        fit = -0.5 * (squares / variance + total * float(np.log(variance)) + logs)
        return found, fit + found.log_prior()

    def _learned_cells(self, counts: Sequence[Array]) -> Self:
        """Search over the share, with the best step and variance for each."""
        moments = np.sum(counts, axis=0)

        def loss(share: float) -> float:
            return -self._best_at(share, moments)[1]

        best = minimize_scalar(loss, bounds=(0.0, _STEEPEST), method="bounded")
        found, still = self._best_at(float(best.x), moments), self._best_at(self.share, moments)
        return found[0] if found[1] > still[1] else still[0]

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return the parents' values after k links."""
        drifted, grown = self._sums(self.share, k)
        noise = np.sqrt(self.variance * grown) * rng.standard_normal(parents.shape)
        return self.share**k * parents + self.step * drifted + noise

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return draws from the normal of all cells."""
        return self.centre + np.sqrt(self.centre_variance) * rng.standard_normal((n, 1))

    def quick(self, values: Array, generations: int, elapsed: float) -> Metric:
        """Return the differences from what the parents foretell, in standard deviations."""
        links = range(1, generations + 1)
        sums = np.array([self._sums(self.share, k) for k in links])  # (K, 2)
        spread = np.sqrt(self.variance * sums[:, 1])[:, None, None]
        kept = (self.share ** np.array(links))[:, None, None]
        child = (values - self.step * sums[:, 0, None, None]) / spread
        constant = normal_constant(float(np.log(self.variance)), 1, sums[:, 1])
        return Metric(child, kept * values / spread, constant)

    def log_prior(self) -> float:
        """Return the inverse-gamma log-density of the variance, up to a constant."""
        ratio = self.guess / self.variance
        return -0.5 * self.prior_strength * (float(np.log(self.variance)) + ratio)

    def describe(self) -> str:
        """Return which share of the parent's value a child keeps, and the spread.

        Examples
        --------
        >>> Reversion(share=0.5, step=-3.77).describe()
        'child = 0.5 × parent − 3.77 ± 1'
        """
        step = f"{'+' if self.step >= 0 else '−'} {abs(self.step):.3g}"
        return f"child = {self.share:.3g} × parent {step} ± {np.sqrt(self.variance):.3g}"

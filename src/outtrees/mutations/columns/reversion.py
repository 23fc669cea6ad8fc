"""Reversion: a number that keeps a share of its parent's value."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Self

import numpy as np
from scipy.optimize import minimize_scalar

from outtrees.mutations.columns.base import Array, CellKernel
from outtrees.mutations.columns.quick import Metric, normal_constant
from outtrees.mutations.columns.scale import typical_variance

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

    def _best_at(self, share: float, cells: Array, weights: Array) -> Self:
        """Return the kernel with the best step and variance for this share."""
        x, y = cells.T
        top = bottom = total = 0.0
        for k, w in enumerate(weights, start=1):
            drifted, grown = self._sums(share, k)
            top += drifted / grown * float(w @ (x - share**k * y))
            bottom += drifted**2 / grown * float(w.sum())
            total += float(w.sum())
        step = top / bottom
        squares = self.prior_strength * self.guess
        for k, w in enumerate(weights, start=1):
            drifted, grown = self._sums(share, k)
            squares += float(w @ (x - share**k * y - step * drifted) ** 2) / grown
        variance = squares / (total + self.prior_strength)
        return replace(self, share=share, step=step, variance=variance)

    def _objective(self, cells: Array, weights: Array) -> float:
        value = self.log_prior()
        for k, w in enumerate(weights, start=1):
            value += float(w @ self._log_pairs(cells, k, None))
        return value

    def _refit_pairs(self, cells: Array, weights: Array, elapsed: Array | None) -> Self:
        """Search over the share, with the best step and variance for each."""

        def loss(share: float) -> float:
            return -self._best_at(share, cells, weights)._objective(cells, weights)

        best = minimize_scalar(loss, bounds=(0.0, _STEEPEST), method="bounded")
        found = self._best_at(float(best.x), cells, weights)
        still = self._best_at(self.share, cells, weights)
        better = found._objective(cells, weights) > still._objective(cells, weights)
        return found if better else still

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

"""Reversion: a number that keeps a share of its parent's value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Self

import numpy as np

from outtrees.models.columns.base import Array, CellKernel, logit, share_of
from outtrees.models.columns.drift import LONG_TAIL, log_step
from outtrees.models.columns.quick import Metric, normal_constant
from outtrees.models.columns.scale import rounding, typical_variance

_PRIOR_SPREAD = 0.1  # the prior's guess of one link's spread, in typical spreads of the column
_STEEPEST = 1.25  # the largest share that is considered: values may grow from parent to child


@dataclass(frozen=True, eq=False)
class Reversion(CellKernel):
    """child = share·parent + step + N(0, spread²), composed k times for k links.

    At share = 1 it is a random walk with a direction, at share = 0 the parent says nothing: a
    column that does not follow the tree is found out and costs nothing. k links have mean
    share^k·parent + step·Σ_{i<k} share^i and variance spread²·Σ_{i<k} share^2i.

    The spread is log-normal beforehand, about a tenth of the column's typical spread and within a
    factor of 7 of it by one standard deviation, and never finer than the cells are written.

    Parameters
    ----------
    stationary : bool
        Whether children are spread as the column is, so that the share decides all: spread² =
        (1 − share²) · variance of the column. Where only likeness beyond that to all records
        counts, a free spread and step could single out some parents for being unlike the other
        records, which says nothing about descent.

    Examples
    --------
    >>> kernel = Reversion().start(np.array([[0.0], [1.0], [3.0]]))
    >>> cells, edge = np.array([[1.0]]), np.array([0])
    >>> pairs = kernel.pairs(cells, cells, edge, edge)
    >>> bool(kernel.log_steps(pairs, 1)[0] > kernel.log_steps(pairs, 2)[0])
    True
    """

    stationary: bool = False
    _: KW_ONLY
    tail: float | None = None  # degrees of freedom of Student's t instead of the normal
    share: float = 1.0
    step: float = 0.0
    variance: float = 1.0  # of one link
    centre: float = 0.0  # of cells without a parent
    centre_variance: float = 1.0
    unit: float = 0.1  # the prior's guess of the spread
    finest: float = 0.0  # the rounding of cells, in these units

    def start(self, values: Array) -> Self:
        """Return the kernel with share 3/4 and the column's mean and variance kept."""
        known = values[~np.isnan(values)]
        centre = float(known.mean()) if len(known) else 0.0
        variance = float(known.var()) if len(known) else 0.0
        if not variance > 0:
            variance = 1.0  # a constant column has no scale of its own; any positive one serves
        typical = float(typical_variance(known[:, None])[0])
        finest = float(rounding(known[:, None])[0])
        share = 0.75
        return replace(
            self,
            share=share,
            step=(1 - share) * centre,
            variance=(1 - share**2) * typical + finest**2,
            centre=centre,
            centre_variance=variance,
            unit=_PRIOR_SPREAD * float(np.sqrt(typical)),
            finest=finest / (_PRIOR_SPREAD * float(np.sqrt(typical))),
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
        return log_step(residual**2 / variance, 1, self.tail) - 0.5 * np.log(variance)

    def _log_cell(self, x: Array) -> Array:
        residual = x[:, 0] - self.centre
        return -0.5 * (
            residual**2 / self.centre_variance + np.log(2 * np.pi * self.centre_variance)
        )

    def variants(self) -> Sequence[Self]:
        """Return normal and long-tailed steps, unless a tail was asked for."""
        chosen = self.stationary or self.tail is not None
        return [self] if chosen else [self, replace(self, tail=LONG_TAIL)]

    @property
    def params(self) -> Array:
        """The share (a logit within its range), the step beyond what keeps the mean, the spread."""
        if self.stationary:
            return np.array([logit(min(self.share, 1 - 1e-9))])
        square = self.variance / self.unit**2 - self.finest**2
        return np.array(
            [
                logit(self.share / _STEEPEST),
                (self.step - self._kept_mean) / self.unit,
                0.5 * np.log(max(square, 1e-12)),
            ]
        )

    @property
    def _kept_mean(self) -> float:
        """The step that keeps the column's mean."""
        return (1 - self.share) * self.centre

    def with_params(self, params: Array) -> Self:
        """Return the kernel with these parameters."""
        if self.stationary:
            moved = replace(self, share=share_of(params[0]))
            finest = (self.unit * max(self.finest, 1e-6)) ** 2
            variance = (1 - moved.share**2) * self.centre_variance + finest
            return replace(moved, step=moved._kept_mean, variance=variance)
        moved = replace(self, share=_STEEPEST * share_of(params[0]))
        return replace(
            moved,
            step=moved._kept_mean + float(params[1]) * self.unit,
            variance=self.unit**2 * float(np.exp(2 * params[2]) + self.finest**2),
        )

    def start_grid(self) -> list[Array]:
        """Return small and large shares with spreads up to the column's own."""
        if self.stationary:
            return [np.array([value]) for value in (-3.0, -1.0, 1.0, 3.0)]
        grid = []
        for share in (0.3, 0.95):
            for spread in (0.03, 0.2, 1.0):
                finest = self.finest**2
                variance = self.unit**2 * ((spread / _PRIOR_SPREAD) ** 2 + finest)
                kernel = replace(self, share=share, variance=variance)
                grid.append(replace(kernel, step=kernel._kept_mean).params)
        return grid

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return the parents' values after k links."""
        drifted, grown = self._sums(self.share, k)
        noise = np.sqrt(self.variance * grown) * rng.standard_normal(parents.shape)
        if self.tail is not None:
            noise /= np.sqrt(rng.chisquare(self.tail, size=noise.shape) / self.tail)
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
        """Return the log-density of the spread, the share and the step, up to a constant.

        Children are not far from the column's mean: where few records come early enough to be
        parents, a free step would make them likely parents for being unlike the others.
        """
        if self.stationary:
            share = self.share
            return 0.5 * float(np.log(4 * share) + np.log1p(-share)) if share < 1 else -np.inf
        share, step, spread = self.params
        return -0.5 * float((spread / 2.0) ** 2 + (share / 4.0) ** 2 + (step / 0.3) ** 2)

    def describe(self) -> str:
        """Return which share of the parent's value a child keeps, and the spread.

        Examples
        --------
        >>> Reversion(share=0.5, step=-3.77).describe()
        'child = 0.5 × parent − 3.77 ± 1'
        """
        step = f"{'+' if self.step >= 0 else '−'} {abs(self.step):.3g}"
        return f"child = {self.share:.3g} × parent {step} ± {np.sqrt(self.variance):.3g}"

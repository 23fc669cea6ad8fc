"""Drift: numbers and places that wander from the parent's value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize_scalar

from outtrees.models.columns.base import Array, CellKernel, Index, distinct
from outtrees.models.columns.quick import Metric, normal_constant
from outtrees.models.columns.scale import typical_variance

_PRIOR_SPREAD = 0.1  # the prior's guess of one link's spread, in typical spreads of the column


class Moments(NamedTuple):
    """The differences child − parent of edges, together for each group and time that passed."""

    elapsed: Array  # (U,), 0 where time does not matter
    group: Index  # (U,), 0 where groups do not matter
    weight: Array  # (K, U)
    mean: Array  # (K, U, D)
    scatter: Array  # (K, U, D, D), about the mean


@dataclass(frozen=True, eq=False)
class Drift(CellKernel):
    """A random walk: child − parent ~ N(k·offset, (k + rate·elapsed)·cov), k links apart.

    Parameters
    ----------
    offset : bool
        Whether a preferred direction is learned; places have none.
    clock : bool
        Whether the spread also grows with the time that passed between child and parent, at a
        learned rate; needs dates.
    prior_strength : float
        Pseudo-links of the inverse-Wishart prior on cov, whose guess is a tenth of the column's
        typical spread. It keeps the spread positive where cells are equal.

    Notes
    -----
    Steps add, so k links have a closed form. A column that does not follow the parent at all is
    told apart by the background component of `Lineage`, not by a shrinking walk.

    Examples
    --------
    >>> kernel = Drift().start(np.array([[0.0], [1.0], [3.0]]))
    >>> pairs = kernel.pairs(np.array([[1.0]]), np.array([[0.0]]), np.array([0]), np.array([0]))
    >>> kernel.log_steps(pairs, 1).shape
    (1,)
    """

    offset: bool = True
    clock: bool = False
    prior_strength: float = 1.0
    _: KW_ONLY
    mean_step: Any = field(default=None, repr=False)  # (D,)
    cov: Any = field(default=None, repr=False)  # (D, D), of one link
    rate: float = 0.0  # links' worth of spread for each unit of time
    centre: Any = field(default=None, repr=False)  # (D,), of cells without a parent
    spread: Any = field(default=None, repr=False)  # (D, D)
    guess: Any = field(default=None, repr=False)  # (D, D), the prior's cov

    def start(self, values: Array) -> Self:
        """Return the walk whose links have half of the column's typical spread."""
        known = values[~np.isnan(values).any(axis=1)]
        D = values.shape[1]
        spread = np.atleast_2d(np.cov(known, rowvar=False)) if len(known) > 1 else np.eye(D)
        # A constant column has no scale of its own; any positive one serves, since all cells agree.
        variances = np.where(np.diag(spread) > 0, np.diag(spread), 1.0)
        spread = np.diag(variances) if np.linalg.matrix_rank(spread) < D else spread
        centre = known.mean(axis=0) if len(known) else np.zeros(D)
        return replace(
            self,
            mean_step=np.zeros(D),
            cov=np.diag(typical_variance(known)) / 4,
            guess=_PRIOR_SPREAD**2 * np.diag(typical_variance(known)),
            rate=0.0,
            centre=centre,
            spread=spread,
        )

    @property
    def _uses_time(self) -> bool:
        return self.clock

    def _joined(self, x: Array, y: Array) -> Array:
        return x - y

    def _factor(self, k: int, elapsed: Array | None) -> Any:
        return float(k) if elapsed is None else k + self.rate * elapsed

    def _log_pairs(self, cells: Array, k: int, elapsed: Array | None) -> Array:
        return log_normal(cells - k * self.mean_step, self.cov, self._factor(k, elapsed))

    def _log_cell(self, x: Array) -> Array:
        return log_normal(x - self.centre, self.spread, 1.0)

    def _counted_cells(self, cells: Array, weights: Array, elapsed: Array | None) -> Moments:
        """Return the moments of the edges, together where the same time passed."""
        return moments_of(cells, weights, elapsed, np.zeros(len(cells), dtype=np.intp))

    def _learned_cells(self, counts: Sequence[Moments]) -> Self:
        moments = joined_moments(counts)
        return self._learned_walk(moments, np.ones(len(moments.elapsed)))

    def _learned_walk(self, moments: Moments, scale: Array) -> Self:
        """Return the walk after an M-step, variances being `scale` (U,) times as large."""
        if not self.clock:
            return self._at_rate(self.rate, moments, scale)[0]

        def loss(rate: float) -> float:
            return self._at_rate(rate, moments, scale)[1]

        weight = moments.weight.sum(axis=0)
        mean = float(weight @ moments.elapsed) / float(weight.sum())
        typical = mean if mean > 0 else 1.0
        bounds = np.log(1e-3 / typical), np.log(1e3 / typical)
        best = minimize_scalar(lambda x: loss(float(np.exp(x))), bounds=bounds, method="bounded")
        rate = min((0.0, self.rate, float(np.exp(best.x))), key=loss)
        return self._at_rate(rate, moments, scale)[0]

    def _at_rate(self, rate: float, moments: Moments, scale: Array) -> tuple[Self, float]:
        """Return the best offset and cov for this rate, and −2 · objective up to a constant."""
        found, D = replace(self, rate=rate), len(self.mean_step)
        links = np.arange(1.0, len(moments.weight) + 1)[:, None]
        factor = scale * (links + rate * moments.elapsed)  # (K, U)
        by_factor = moments.weight / factor
        total = self.prior_strength + float(moments.weight.sum())
        log_factors = float((moments.weight * np.log(factor)).sum())
        step = np.zeros(D)
        if self.offset:
            along = np.einsum("ku,kud->d", links * by_factor, moments.mean)
            step = along / float((links**2 * by_factor).sum())
        residual = moments.mean - links[:, :, None] * step
        scatter = self.prior_strength * self.guess
        scatter = scatter + np.einsum("kuij,ku->ij", moments.scatter, 1 / factor)
        scatter = scatter + np.einsum("ku,kui,kuj->ij", by_factor, residual, residual)
        cov = scatter / total
        found = replace(found, mean_step=step, cov=cov)
        return found, total * float(np.linalg.slogdet(cov)[1]) + D * log_factors

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return parents + k steps; the clock counts as if no time had passed."""
        noise = rng.standard_normal(parents.shape) @ np.linalg.cholesky(k * self.cov).T
        return parents + k * self.mean_step + noise

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return draws from the normal of all cells."""
        noise = rng.standard_normal((n, len(self.centre)))
        return self.centre + noise @ np.linalg.cholesky(self.spread).T

    def quick(self, values: Array, generations: int, elapsed: float) -> Metric:
        """Return the walk as distances; a clock counts as if the typical time had passed."""
        chol = np.linalg.cholesky(self.cov)
        factors = np.arange(1, generations + 1) + (self.rate * elapsed if self.clock else 0.0)
        steps = np.arange(1, generations + 1)[:, None, None] * self.mean_step
        parent = np.linalg.solve(chol, values.T).T / np.sqrt(factors)[:, None, None]
        moved = np.linalg.solve(chol, (values - steps).transpose(0, 2, 1)).transpose(0, 2, 1)
        child = moved / np.sqrt(factors)[:, None, None]
        log_det = 2 * float(np.log(np.diag(chol)).sum())
        return Metric(child, parent, normal_constant(log_det, values.shape[1], factors))

    def log_prior(self) -> float:
        """Return the inverse-Wishart log-density of cov, up to a constant."""
        _, log_det = np.linalg.slogdet(self.cov)
        trace = float(np.trace(np.linalg.solve(self.cov, self.guess)))
        return -0.5 * self.prior_strength * (float(log_det) + trace)

    def describe(self) -> str:
        """Return the spread of one link, and the direction if there is one."""
        spreads = " × ".join(f"{s:.3g}" for s in np.sqrt(np.diag(self.cov)))
        text = f"a link moves it by {spreads} (standard deviation)"
        if self.offset:
            text += ", on average by " + ", ".join(f"{m:+.3g}" for m in self.mean_step)
        if self.clock and self.rate > 0:
            text += f"; {1 / self.rate:.3g} units of time add as much variance as a link"
        return text


def log_normal(difference: Array, cov: Array, factor: Any) -> Array:
    """Return log N(difference | 0, factor · cov), factor a number or one for each row."""
    D = difference.shape[1]
    chol = np.linalg.cholesky(cov)
    whitened = np.linalg.solve(chol, difference.T)
    log_det = 2 * np.log(np.diag(chol)).sum()
    square = (whitened**2).sum(axis=0) / factor
    return -0.5 * (square + log_det + D * np.log(2 * np.pi * factor))


def moments_of(cells: Array, weights: Array, elapsed: Array | None, group: Index) -> Moments:
    """Return the moments of differences (n, D), weights (K, n), by group and time that passed."""
    passed = np.zeros(len(cells)) if elapsed is None else elapsed
    keys, place = distinct(np.column_stack([passed, group]))
    U, D = len(keys), cells.shape[1]
    weight = np.array([np.bincount(place, w, minlength=U) for w in weights])
    mean, scatter = np.zeros((*weight.shape, D)), np.empty((*weight.shape, D, D))
    for k, w in enumerate(weights):
        sums = np.array([np.bincount(place, w * column, minlength=U) for column in cells.T]).T
        some = weight[k] > 0
        mean[k, some] = sums[some] / weight[k, some, None]
        # About their mean, so that a scatter small beside it keeps its digits.
        residual = (cells - mean[k, place]).T
        for i in range(D):
            for j in range(D):
                product = w * residual[i] * residual[j]
                scatter[k, :, i, j] = np.bincount(place, product, minlength=U)
    return Moments(keys[:, 0], keys[:, 1].astype(np.intp), weight, mean, scatter)


def joined_moments(counts: Sequence[Moments]) -> Moments:
    """Return the moments of all stretches, one after the other."""
    elapsed, group = (np.concatenate([one[i] for one in counts]) for i in (0, 1))
    parts = zip(*(one[2:] for one in counts), strict=True)
    return Moments(elapsed, group, *(np.concatenate(part, axis=1) for part in parts))

"""Places: a walk from the parent's place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from outtrees._common.types import Array
from outtrees.models.column import (
    CellKernel,
    Index,
    Quantity,
    rounding,
    typical_variance,
)
from outtrees.models.priors import LogInverseGamma, LogitBeta, Normal, Prior
from outtrees.models.quick import Metric, normal_constant

PRIOR_SPREAD = 0.1  # the prior's guess of one link's spread, in typical spreads of the column
_PRIOR_WIDTH = 2.0  # of the logarithm of the spread
_PRIOR_STEP = 10.0  # of the direction, in the prior's spreads: one typical spread of the column
_RIDGE = 1e-12  # of each variance, added to it: no two coordinates depend on each other exactly
LONG_TAIL = 3.0  # degrees of freedom of the long-tailed steps that are tried beside normal ones


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
    tail : float, optional
        Degrees of freedom of Student's t instead of the normal: most steps are short, a few go
        far. k links scale it as they scale the normal, which is exact for one link and close for
        several.
    ends : bool
        Whether cells hold two places, the first and the last of a record; a child starts from
        where its parent ended.

    A link's spread in each coordinate is log-normal beforehand, about a tenth of the column's
    typical spread and within a factor of 7 of it by one standard deviation; all correlations of the
    coordinates are equally likely. Rounding adds to the spread: values that coincide because they
    are rounded are not a spike.

    Notes
    -----
    Normal steps add, so k links have a closed form. A column that does not follow the parent at all
    is recognised by the background component of `Lineage`, not by a shrinking walk.

    Examples
    --------
    >>> kernel = Drift().start(np.array([[0.0], [1.0], [3.0]]))
    >>> pairs = kernel.pairs(np.array([[1.0]]), np.array([[0.0]]), np.array([0]), np.array([0]))
    >>> kernel.log_steps(pairs, 1).shape
    (1,)
    """

    offset: bool = True
    clock: bool = False
    _: KW_ONLY
    tail: float | None = None
    ends: bool = False
    mean_step: Any = field(default=None, repr=False)  # (D,)
    cov: Any = field(default=None, repr=False)  # (D, D), of one link
    rate: float = 0.0  # links' worth of spread for each unit of time
    centre: Any = field(default=None, repr=False)  # (D,), of cells without a parent
    spread: Any = field(default=None, repr=False)  # (D, D)
    unit: Any = field(default=None, repr=False)  # (D,), the prior's guess of a link's spread
    finest: Any = field(default=None, repr=False)  # (D,), the rounding of cells, in these units

    def start(self, values: Array) -> Self:
        """Return the walk whose links have half of the column's typical spread, and rounding."""
        first = self._first(values)
        known = first[~np.isnan(first).any(axis=1)]
        D = first.shape[1]
        spread = np.atleast_2d(np.cov(known, rowvar=False)) if len(known) > 1 else np.eye(D)
        # A constant column has no scale of its own; any positive one serves, since all cells agree.
        variances = np.where(np.diag(spread) > 0, np.diag(spread), 1.0)
        spread = np.diag(variances) if np.linalg.matrix_rank(spread) < D else spread
        centre = known.mean(axis=0) if len(known) else np.zeros(D)
        unit = PRIOR_SPREAD * np.sqrt(typical_variance(known))
        return replace(
            self,
            mean_step=np.zeros(D),
            cov=np.diag(typical_variance(known) / 4 + rounding(known) ** 2),
            unit=unit,
            finest=rounding(known) / unit,
            rate=0.1 if self.clock else 0.0,
            centre=centre,
            spread=spread,
        )

    def _first(self, values: Array) -> Array:
        """Return where each record starts (n, D)."""
        return values[:, : values.shape[1] // 2] if self.ends else values

    def _last(self, values: Array) -> Array:
        """Return where each record ends, from which its children start (n, D)."""
        return values[:, values.shape[1] // 2 :] if self.ends else values

    @property
    def _uses_time(self) -> bool:
        return self.clock

    def _joined(self, x: Array, y: Array) -> Array:
        return self._first(x) - self._last(y)

    def _factor(self, k: int, elapsed: Array | None) -> Any:
        return float(k) if elapsed is None else k + self.rate * elapsed

    def _log_pairs(self, cells: Array, k: int, elapsed: Array | None) -> Array:
        return self._log_moved(cells, k, self._factor(k, elapsed))

    def _log_moved(self, moved: Array, k: int, factor: Any) -> Array:
        """Return the log-density of moves (n, D) over k links, variances `factor` times one's."""
        chol = np.linalg.cholesky(self.cov)
        log_det = 2 * float(np.log(np.diag(chol)).sum())
        inverse = np.linalg.inv(chol)  # of a few rows: far faster than solving for every pair
        square = ((inverse @ (moved - k * self.mean_step).T) ** 2).sum(axis=0)
        return np.asarray(
            log_step(square / factor, moved.shape[1], self.tail)
            - 0.5 * (log_det + moved.shape[1] * np.log(factor))
        )

    def _log_cell(self, x: Array) -> Array:
        chol = np.linalg.cholesky(self.spread)
        square = (np.linalg.solve(chol, (self._first(x) - self.centre).T) ** 2).sum(axis=0)
        return log_step(square, len(self.centre), None) - float(np.log(np.diag(chol)).sum())

    # Learning ------------------------------------------------------------------------------

    def variants(self) -> Sequence[Self]:
        """Return the walk with normal and with long-tailed steps, unless a tail was asked for."""
        return [self, replace(self, tail=LONG_TAIL)] if self.tail is None else [self]

    @property
    def params(self) -> Array:
        """Log-spread of each coordinate, correlations, the direction, the clock's rate.

        Correlations are partial ones, given the coordinates before, as logits of (1 + ρ)/2; each
        before the spread of its coordinate.
        """
        return self._params

    @cached_property
    def _params(self) -> Array:  # asked for a dozen times at each point of a climb
        square = self.cov / np.outer(self.unit, self.unit) - np.diag(self.finest**2)
        spreads = np.sqrt(np.maximum(np.diag(square), 1e-12))
        values, vectors = np.linalg.eigh(square / np.outer(spreads, spreads))
        within = (vectors * np.maximum(values, _RIDGE)) @ vectors.T
        lower = np.linalg.cholesky(within)
        # What is left of each row after its first, second, … entry: ρ/√(1 − ρ²) = entry / √left.
        left = np.sqrt(np.cumsum(lower[:, ::-1] ** 2, axis=1)[:, ::-1] - lower**2)
        rows, columns = np.tril_indices(len(lower), -1)
        lower[rows, columns] = 2 * np.arcsinh(lower[rows, columns] / left[rows, columns])
        lower[np.diag_indices(len(lower))] = np.log(spreads)
        parts = [lower[np.tril_indices(len(lower))]]
        if self.offset:
            parts.append(self.mean_step / self.unit)
        if self.clock:
            parts.append(np.array([np.log(self.rate)]))
        params = np.concatenate(parts)
        params.setflags(write=False)
        return params

    def with_params(self, params: Array) -> Self:
        """Return the walk with these parameters."""
        D, n = len(self.mean_step), len(self.mean_step) * (len(self.mean_step) + 1) // 2
        given = np.zeros((D, D))
        given[np.tril_indices(D)] = params[:n]
        spreads = np.exp(np.diag(given))
        lower = spreads[:, None] * _correlated(np.tanh(np.tril(given, -1) / 2))
        cov = lower @ lower.T + np.diag(self.finest**2)
        # A long step of a climb may make this singular in floating point.
        cov[np.diag_indices(D)] *= 1 + _RIDGE
        step = params[n : n + D] * self.unit if self.offset else self.mean_step
        rate = float(np.exp(params[-1])) if self.clock else self.rate
        return replace(self, cov=cov * np.outer(self.unit, self.unit), mean_step=step, rate=rate)

    def start_grid(self) -> list[Array]:
        """Return spreads from a hundredth of the column's typical one up to it."""
        grid = []
        for step in np.log(1 / PRIOR_SPREAD) + np.arange(-4.5, 0.6, 1.0):
            spread = np.exp(2 * step) + self.finest**2
            grid.append(replace(self, cov=np.diag(self.unit**2 * spread)).params)
        return grid

    def _slopes_cells(self, cells: Array, weights: Array, elapsed: Array | None) -> Array:
        passed = np.zeros(len(cells)) if elapsed is None else elapsed
        links = np.arange(1.0, len(weights) + 1)[:, None]
        return self._slopes_moved(cells, weights, links + self.rate * passed, passed)[0]

    def _slopes_moved(
        self,
        moved: Array,  # (n, D)
        weights: Array,  # (K, n)
        factor: Array,  # (K, n)
        passed: Array,  # (n,), what a unit of the rate adds to `factor`
    ) -> tuple[Array, Array]:
        """Return the slopes (P,), and those of ½ log `factor` for each pair (n,).

        With z = L⁻¹(moved − k·offset)/√factor and τ = (ν + D)/(ν + z²), 1 for the normal:
        2 ∂/∂cov = L⁻ᵀ (Σ w τ z zᵀ − Σ w) L⁻¹.
        """
        D = moved.shape[1]
        lower, unit = np.linalg.cholesky(self.cov), self.unit
        inverse = np.linalg.inv(lower)
        scatter, along, clocked = np.zeros((D, D)), np.zeros(D), 0.0
        by_factor = np.zeros(len(moved))
        for k, w in enumerate(weights, start=1):
            root = np.sqrt(factor[k - 1])
            z = (inverse @ (moved - k * self.mean_step).T) / root  # (D, n)
            square = (z**2).sum(axis=0)
            tau = w if self.tail is None else w * (self.tail + D) / (self.tail + square)
            scatter += (tau * z) @ z.T
            along += k * inverse.T @ (z @ (tau / root))
            slope = tau * square - D * w  # 2 ∂/∂ log factor
            by_factor += slope
            clocked += 0.5 * float((slope * self.rate * passed / factor[k - 1]).sum())
        total = float(weights.sum())
        by_cov = inverse.T @ (scatter - total * np.eye(D)) @ inverse * np.outer(unit, unit)
        slope_lower = self._slopes_of_cov(by_cov)
        parts = [slope_lower[np.tril_indices(D)]]
        if self.offset:
            parts.append(along * unit)
        if self.clock:
            parts.append(np.array([clocked]))
        return np.concatenate(parts), by_factor

    def _slopes_of_cov(self, by_cov: Array) -> Array:
        """Return the slopes of spreads and correlations (D, D), lower part, by 2 ∂/∂cov."""
        D = len(by_cov)
        given = np.zeros((D, D))
        given[np.tril_indices(D)] = self.params[: D * (D + 1) // 2]
        rho = np.tanh(np.tril(given, -1) / 2)
        spreads = np.exp(np.diag(given))[:, None]
        lower = spreads * _correlated(rho)
        by_lower = by_cov @ lower
        moved = by_lower * lower  # ∂/∂ the logarithm of each entry of the factor
        after = np.cumsum(moved[:, ::-1], axis=1)[:, ::-1] - moved
        # An entry is ρ times what the ones before leave; those after it go with √(1 − ρ²).
        own = by_lower * spreads * _left_before(rho)
        slopes = np.tril(0.5 * ((1 - rho**2) * own - rho * after))
        slopes[np.diag_indices(D)] = moved.sum(axis=1)
        return slopes

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return parents + k steps; the clock counts as if no time had passed."""
        last = self._last(parents)
        noise = rng.standard_normal(last.shape) @ np.linalg.cholesky(k * self.cov).T
        if self.tail is not None:
            noise /= np.sqrt(rng.chisquare(self.tail, size=len(last)) / self.tail)[:, None]
        moved = last + k * self.mean_step + noise
        return np.column_stack([moved, moved]) if self.ends else moved

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return draws from the normal of all cells."""
        noise = rng.standard_normal((n, len(self.centre)))
        drawn = self.centre + noise @ np.linalg.cholesky(self.spread).T
        return np.column_stack([drawn, drawn]) if self.ends else drawn

    def quick(self, values: Array, generations: int, elapsed: float) -> Metric:
        """Return the walk as distances; a clock counts as if the typical time had passed.

        A long tail counts as the normal with its variance.
        """
        wider = 1.0 if self.tail is None else self.tail / (self.tail - 2)
        chol = np.linalg.cholesky(wider * self.cov)
        factors = np.arange(1, generations + 1) + (self.rate * elapsed if self.clock else 0.0)
        steps = np.arange(1, generations + 1)[:, None, None] * self.mean_step
        first, last = self._first(values), self._last(values)
        parent = np.linalg.solve(chol, last.T).T / np.sqrt(factors)[:, None, None]
        moved = np.linalg.solve(chol, (first - steps).transpose(0, 2, 1)).transpose(0, 2, 1)
        child = moved / np.sqrt(factors)[:, None, None]
        log_det = 2 * float(np.log(np.diag(chol)).sum())
        return Metric(child, parent, normal_constant(log_det, first.shape[1], factors))

    def priors(self) -> list[Prior]:
        """Return those of spreads and correlations, the direction and the clock.

        Matrices of correlations are uniform (Lewandowski and others 2009): partial ones then are
        Beta(a, a) between −1 and 1, a = (D + 1 − j)/2 given j − 1 coordinates, 1 of two.
        """
        D = len(self.mean_step)
        rows, columns = np.tril_indices(D)
        result: list[Prior] = [
            Normal(0.0, _PRIOR_WIDTH) if i == j else LogitBeta((D - j) / 2, (D - j) / 2)
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
        ]
        if self.offset:
            result += [Normal(0.0, _PRIOR_STEP)] * len(self.mean_step)
        return [*result, Normal(float(np.log(0.1)), 3.0)] if self.clock else result

    def quantities(self) -> list[Quantity]:
        """Return the spread of one link in each coordinate, the direction and the clock's rate."""
        D = len(self.mean_step)
        names = [""] if D == 1 else [f" {d}" for d in range(1, D + 1)]
        spreads = zip(names, np.sqrt(np.diag(self.cov)), strict=True)
        result = [Quantity(f"spread{name}", float(x), "column") for name, x in spreads]
        if self.offset:
            steps = zip(names, self.mean_step, strict=True)
            result += [Quantity(f"step{name}", float(x), "column") for name, x in steps]
        return [*result, Quantity("clock", self.rate, "1/time")] if self.clock else result

    def describe(self) -> str:
        """Return the spread of one link, and the direction if there is one."""
        spreads = " × ".join(f"{s:.3g}" for s in np.sqrt(np.diag(self.cov)))
        text = f"a link moves it by {spreads} (standard deviation)"
        if self.tail is not None:
            text = f"a link moves it by about {spreads}, a few links much further"
        if self.offset:
            text += ", on average by " + ", ".join(f"{m:+.3g}" for m in self.mean_step)
        if self.clock and self.rate > 0:
            text += f"; {1 / self.rate:.3g} units of time add as much variance as a link"
        return text


def _correlated(partial: Array) -> Array:
    """Return the factor of the matrix of correlations with these partial ones (D, D), lower part.

    Examples
    --------
    >>> _correlated(np.array([[0.0, 0.0], [0.6, 0.0]]))
    array([[1. , 0. ],
           [0.6, 0.8]])
    """
    return np.asarray(_left_before(partial) * (np.tril(partial, -1) + np.eye(len(partial))))


def _left_before(partial: Array) -> Array:
    """Return what the partial correlations before leave for each entry of a row (D, D)."""
    left = np.cumprod(1 - np.tril(partial, -1) ** 2, axis=1)
    return np.sqrt(np.hstack([np.ones((len(partial), 1)), left[:, :-1]]))


def log_step(square: Array, D: int, tail: float | None) -> Array:
    """Return the log-density at squared distance `square` of a standard normal or Student's t."""
    if tail is None:
        return np.asarray(-0.5 * (square + D * np.log(2 * np.pi)))
    constant = gammaln((tail + D) / 2) - gammaln(tail / 2) - D / 2 * np.log(tail * np.pi)
    return np.asarray(constant - (tail + D) / 2 * np.log1p(square / tail))


@dataclass(frozen=True, eq=False)
class GroupedDrift(Drift):
    """A random walk whose variance is scale_g times that of `Drift` in group g.

    The last column of the cells is the number of the group; relatives share it. Scales are held
    near 1 by an inverse-gamma prior that is worth `group_strength` links, so that a small group
    keeps to what all groups have in common.

    Parameters
    ----------
    offset, clock, tail, ends
        As for `Drift`.
    group_strength : float
        Pseudo-links of the prior on each group's scale.

    Examples
    --------
    >>> cells = np.array([[0.0, 0], [1.0, 0], [0.0, 1], [9.0, 1]])
    >>> kernel = GroupedDrift(offset=False).start(cells)
    >>> pairs = kernel.pairs(cells, cells, np.array([1, 3]), np.array([0, 2]))
    >>> bool(kernel.slopes(pairs, np.ones((1, 2)))[-1] > 0)  # the second group moves further
    True
    """

    group_strength: float = 6.0
    _: KW_ONLY
    scales: Any = field(default=None, repr=False)  # (G,)

    def start(self, values: Array) -> Self:
        """Return the walk whose scales are those of the groups' typical spreads.

        From equal ones, a group much wilder than the others would be taken for outliers at first,
        and remain so.
        """
        known = values[~np.isnan(values).any(axis=1)]
        typical, groups = typical_variance(known[:, :-1]), known[:, -1]
        scales = np.ones(1 + int(groups.max(initial=0)))
        for g in np.unique(groups).astype(np.intp):
            own = known[groups == g, :-1]
            ratio = float((typical_variance(own) / typical).mean())
            number = len(own) - 1
            scales[g] = (number * ratio + self.group_strength) / (number + self.group_strength)
        return replace(super().start(values[:, :-1]), scales=scales)

    def _joined(self, x: Array, y: Array) -> Array:
        return np.column_stack([super()._joined(x[:, :-1], y[:, :-1]), x[:, -1]])

    def _scales_of(self, groups: Array) -> Array:
        """Return the scale of each group; 1 for one that is unknown, −1 or NaN."""
        numbers = np.where(groups >= 0, groups, len(self.scales)).astype(np.intp)
        return np.asarray(np.append(self.scales, 1.0)[numbers])

    def _log_pairs(self, cells: Array, k: int, elapsed: Array | None) -> Array:
        factor = self._factor(k, elapsed) * self._scales_of(cells[:, -1])
        return self._log_moved(cells[:, :-1], k, factor)

    def _log_cell(self, x: Array) -> Array:
        return super()._log_cell(x[:, :-1])

    @property
    def params(self) -> Array:
        """Those of the walk, and the logarithm of each group's scale."""
        return np.concatenate([super().params, np.log(self.scales)])

    def with_params(self, params: Array) -> Self:
        """Return the walk with these parameters."""
        G = len(self.scales)
        return replace(super().with_params(params[:-G]), scales=np.exp(params[-G:]))

    def _slopes_cells(self, cells: Array, weights: Array, elapsed: Array | None) -> Array:
        passed = np.zeros(len(cells)) if elapsed is None else elapsed
        links = np.arange(1.0, len(weights) + 1)[:, None]
        groups = cells[:, -1]
        scale = self._scales_of(groups)
        factor = scale * (links + self.rate * passed)
        walk, by_factor = self._slopes_moved(cells[:, :-1], weights, factor, scale * passed)
        known = groups >= 0
        scales = np.bincount(
            groups[known].astype(np.intp), 0.5 * by_factor[known], minlength=len(self.scales)
        )
        return np.concatenate([walk, scales])

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return parents + k steps of their groups' spreads; the clock counts as in `Drift`."""
        groups = parents[:, -1]
        last = self._last(parents[:, :-1])
        start = np.column_stack([last, last]) if self.ends else last
        mean = start + k * np.tile(self.mean_step, 2 if self.ends else 1)
        off = super().sample(start, k, rng) - mean
        return np.column_stack([mean + off * np.sqrt(self._scales_of(groups))[:, None], groups])

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return draws from the normal of all cells, each in some group."""
        groups = rng.integers(len(self.scales), size=n)
        return np.column_stack([super().sample_alone(n, rng), groups])

    def quick(self, values: Array, generations: int, elapsed: float) -> Metric:
        """Return the walk as distances in each group's own unit."""
        scale = self._scales_of(values[:, -1])
        metric, unit = super().quick(values[:, :-1], generations, elapsed), np.sqrt(scale)[:, None]
        shift = -0.5 * len(self.mean_step) * np.log(scale)
        return Metric(metric.child / unit, metric.parent / unit, metric.constant, shift)

    def priors(self) -> list[Prior]:
        """Return those of the walk, and of each group's scale."""
        half = 0.5 * self.group_strength * len(self.mean_step)
        return [*super().priors(), *[LogInverseGamma(half, half)] * len(self.scales)]

    def quantities(self) -> list[Quantity]:
        """Return those of the walk, and the factor of each group's variance."""
        scales = enumerate(self.scales, start=1)
        return [*super().quantities(), *(Quantity(f"scale {g}", float(x)) for g, x in scales)]

    def describe(self) -> str:
        """Return the spread of one link, and how much it differs between groups."""
        low, high = np.sqrt(self.scales.min()), np.sqrt(self.scales.max())
        return f"{super().describe()}; groups have {low:.2f} to {high:.2f} times that spread"


def with_groups(cells: Array, groups: Index) -> Array:
    """Return the cells as `GroupedDrift` reads them: missing ones have no group."""
    known = ~np.isnan(cells).any(axis=1)
    return np.column_stack([cells, np.where(known, groups, np.nan)])

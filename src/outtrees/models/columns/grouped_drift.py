"""GroupedDrift: places that wander in some groups further than in others."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np

from outtrees.models.columns.base import Array, Index
from outtrees.models.columns.drift import Drift
from outtrees.models.columns.quick import Metric
from outtrees.models.columns.scale import typical_variance


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

    def log_prior(self) -> float:
        """Return the log-density of cov and scales, up to a constant."""
        D = len(self.mean_step)
        off = float((np.log(self.scales) + 1 / self.scales - 1).sum())
        return super().log_prior() - 0.5 * self.group_strength * D * off

    def describe(self) -> str:
        """Return the spread of one link, and how much it differs between groups."""
        low, high = np.sqrt(self.scales.min()), np.sqrt(self.scales.max())
        return f"{super().describe()}; groups have {low:.2f} to {high:.2f} times that spread"


def with_groups(cells: Array, groups: Index) -> Array:
    """Return the cells as `GroupedDrift` reads them: missing ones have no group."""
    known = ~np.isnan(cells).any(axis=1)
    return np.column_stack([cells, np.where(known, groups, np.nan)])

"""Sticky: categories that a child keeps, or draws afresh."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np

from outtrees.models.columns.base import Array, CellKernel, logit, share_of
from outtrees.models.columns.quick import Match


@dataclass(frozen=True, eq=False)
class Sticky(CellKernel):
    """p(a | b) = s^k·[a = b] + (1 − s^k)·marginal_a, k links apart, one s for the column.

    Parameters
    ----------
    levels : tuple of str
        The names of the categories; cells hold their positions.
    prior_strength : float
        The pseudo-count of the Beta prior on s with mode 1/2, and of the marginal's Dirichlet.
    target : {"marginal", "uniform"}
        Where a changed value goes. "uniform" makes a step towards a rare value as likely as one
        back, which tells directions apart: a change away from the common value costs as much as
        one towards it, while the root prefers common values.

    Examples
    --------
    >>> kernel = Sticky(("a", "b")).start(np.array([[0.0], [0.0], [1.0], [1.0]]))
    >>> cells, edge = np.array([[0.0], [1.0]]), np.array([0])
    >>> same = kernel.pairs(cells, cells, edge, edge)
    >>> bool(kernel.log_steps(same, 1)[0] > kernel.log_steps(same, 2)[0])
    True
    """

    levels: tuple[str, ...] = ()
    prior_strength: float = 1.0
    target: str = "marginal"
    _: KW_ONLY
    marginal: Any = field(default=None, repr=False)  # (C,)
    stickiness: float = 0.5

    def start(self, values: Array) -> Self:
        """Return the kernel with the marginal of the column and stickiness 1/2."""
        codes = values[~np.isnan(values[:, 0]), 0].astype(np.intp)
        C = len(self.levels)
        counts = np.bincount(codes, minlength=C) + max(self.prior_strength, 1e-9) / C
        return replace(self, marginal=counts / counts.sum(), stickiness=0.5)

    @property
    def _goal(self) -> Array:
        C = len(self.levels)
        return np.full(C, 1 / C) if self.target == "uniform" else self.marginal

    def _log_pairs(self, cells: Array, k: int, elapsed: Array | None) -> Array:
        kept = self.stickiness**k
        a, b = cells.astype(np.intp).T
        return np.log(kept * (a == b) + (1 - kept) * self._goal[a])

    def _log_cell(self, x: Array) -> Array:
        return np.log(self.marginal)[x[:, 0].astype(np.intp)]

    @property
    def params(self) -> Array:
        """The stickiness, as a logit."""
        return np.array([logit(self.stickiness)])

    def with_params(self, params: Array) -> Self:
        """Return the kernel with this stickiness."""
        return replace(self, stickiness=share_of(params[0]))

    def start_grid(self) -> list[Array]:
        """Return a column that says next to nothing, and ones that are kept more and more."""
        return [np.array([value]) for value in (-3.0, -1.0, 1.0, 3.0)]

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return the parents' categories, changed with probability 1 − s^k."""
        fresh = rng.choice(len(self.levels), size=parents.shape, p=self._goal).astype(np.float64)
        return np.where(rng.random(parents.shape) < self.stickiness**k, parents, fresh)

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return draws from the marginal."""
        return rng.choice(len(self.levels), size=(n, 1), p=self.marginal).astype(np.float64)

    def quick(self, values: Array, generations: int, elapsed: float) -> Match:
        """Return what agreement and disagreement weigh, for each category of the child."""
        kept = (self.stickiness ** np.arange(1, generations + 1))[:, None]
        code = np.where(np.isnan(values[:, 0]), -1, values[:, 0]).astype(np.int32)
        other = (1 - kept) * self._goal
        return Match(code, np.log(kept + other), np.log(other))

    def log_prior(self) -> float:
        """Return the Beta log-density of the stickiness, up to a constant."""
        s = self.stickiness
        return 0.5 * self.prior_strength * float(np.log(4 * s * (1 - s)))

    def describe(self) -> str:
        """Return how often a child keeps its parent's value."""
        same = self.stickiness + (1 - self.stickiness) * float((self._goal * self.marginal).sum())
        return (
            f"a child keeps its parent's value with probability {self.stickiness:.3g}, "
            f"and shares it with probability {same:.3g}"
        )

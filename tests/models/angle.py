"""A worked example: directions in radians as a kind of column, all that a new kind needs."""

from dataclasses import dataclass, replace

import numpy as np

from outtrees.models.column import CellKernel, Learned
from outtrees.models.priors import Normal

_TURNS = 2 * np.pi * np.arange(-8, 9)  # a wrapped normal, up to a standard deviation of some turns


@dataclass(frozen=True, eq=False)
class Angle(CellKernel):
    """A child's direction is its parent's and a normal turn; k links add their variances.

    Cells without a parent point anywhere.
    """

    log_spread: float = 0.0  # of one link, in radians

    def start(self, values):
        return replace(self, log_spread=0.0)

    def _joined(self, x, y):
        return np.mod(x - y + np.pi, 2 * np.pi) - np.pi

    def _log_pairs(self, cells, k, elapsed):
        variance = k * np.exp(2 * self.log_spread)
        square = (cells + _TURNS) ** 2 / variance
        return np.logaddexp.reduce(-0.5 * (square + np.log(2 * np.pi * variance)), axis=1)

    def _log_cell(self, x):
        return np.full(len(x), -np.log(2 * np.pi))

    def learned(self):
        return [Learned("log_spread", Normal(0.0, 2.0))]

    def sample(self, parents, k, rng):
        noise = np.sqrt(k) * np.exp(self.log_spread) * rng.standard_normal(parents.shape)
        return np.mod(parents + noise, 2 * np.pi)

    def sample_alone(self, n, rng):
        return rng.uniform(0, 2 * np.pi, size=(n, 1))

    def states(self, values):
        return np.arange(90) * (2 * np.pi / 90), np.full(90, 2 * np.pi / 90)

    def describe(self):
        return f"a link turns it by {np.exp(self.log_spread):.3g} radians"

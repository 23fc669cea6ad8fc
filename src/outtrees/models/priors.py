"""Prior distributions of single parameters, in the coordinates without constraints that fits use.

Every kernel of a column names one for each of its parameters (`ColumnKernel.priors`);
docs/parameters.md lists them with their reasons. All are proper and normalised, so that evidences
can be compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, expit, gammaln, log_expit

from outtrees._common.types import Array


class Prior(ABC):
    """The distribution of one parameter."""

    @abstractmethod
    def log_density(self, x: float) -> float:
        """Return the log-density at x, normalised."""

    @abstractmethod
    def slope(self, x: float) -> float:
        """Return the derivative of `log_density`."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> float:
        """Return one draw."""


@dataclass(frozen=True)
class Normal(Prior):
    """N(centre, spread²): of logarithms, a log-normal."""

    centre: float = 0.0
    spread: float = 1.0

    def log_density(self, x: float) -> float:
        """Return the log-density at x, normalised."""
        z = (x - self.centre) / self.spread
        return float(-0.5 * z**2 - np.log(self.spread) - 0.5 * np.log(2 * np.pi))

    def slope(self, x: float) -> float:
        """Return the derivative of `log_density`."""
        return float((self.centre - x) / self.spread**2)

    def draw(self, rng: np.random.Generator) -> float:
        """Return one draw."""
        return float(rng.normal(self.centre, self.spread))


@dataclass(frozen=True)
class LogitBeta(Prior):
    """Beta(a, b) of a share, whose logit is the parameter: a and b are pseudo-observations.

    Examples
    --------
    >>> x = np.linspace(-40, 40, 20001)
    >>> density = np.exp([LogitBeta(0.5, 2.0).log_density(at) for at in x])
    >>> round(float(density.sum() * (x[1] - x[0])), 6)
    1.0
    """

    a: float
    b: float

    def log_density(self, x: float) -> float:
        """Return the log-density at the logit x; 0 if there are no pseudo-observations at all."""
        if self.a == 0 and self.b == 0:
            return 0.0
        return float(self.a * log_expit(x) + self.b * log_expit(-x) - betaln(self.a, self.b))

    def slope(self, x: float) -> float:
        """Return the derivative of `log_density`."""
        return float(self.a - (self.a + self.b) * expit(x))

    def draw(self, rng: np.random.Generator) -> float:
        """Return one draw: the difference of two logarithms of gammas, which does not underflow."""
        return _log_gamma(self.a, rng) - _log_gamma(self.b, rng)


@dataclass(frozen=True)
class LogInverseGamma(Prior):
    """Inverse-gamma(shape, scale) of a variance or mean, whose logarithm is the parameter."""

    shape: float
    scale: float

    def log_density(self, x: float) -> float:
        """Return the log-density at the logarithm x."""
        constant = self.shape * np.log(self.scale) - gammaln(self.shape)
        return float(constant - self.shape * x - self.scale * np.exp(-x))

    def slope(self, x: float) -> float:
        """Return the derivative of `log_density`."""
        return float(self.scale * np.exp(-x) - self.shape)

    def draw(self, rng: np.random.Generator) -> float:
        """Return one draw."""
        return float(np.log(self.scale)) - _log_gamma(self.shape, rng)


def _log_gamma(shape: float, rng: np.random.Generator) -> float:
    """Return the logarithm of a gamma draw, also of shapes whose draws underflow."""
    return float(np.log(rng.gamma(shape + 1)) + np.log(rng.uniform()) / shape)


def log_dirichlet(log_weights: Array, alpha: Array) -> float:
    """Return the log-density of weights (K,), in coordinates log(w_k / w_1)."""
    constant = float(gammaln(alpha.sum()) - gammaln(alpha).sum())
    return constant + float(alpha @ log_weights)

"""Prior distributions of parameters, in the coordinates without constraints that fits use.

Every kernel of a column names one for each of its parameters (`ColumnKernel.priors`);
docs/parameters.md lists them with their reasons. All are proper and normalised, so that evidences
can be compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import (
    betainc,
    betaincinv,
    betaln,
    digamma,
    expit,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
    log_expit,
    log_ndtr,
    logsumexp,
    ndtr,
    ndtri,
    ndtri_exp,
    xlogy,
)

from outtrees._common.types import Array

_TINY = 1e-200  # shares below which the tail of a Beta is a power law to all digits


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

    @abstractmethod
    def from_normal(self, z: float) -> float:
        """Return the quantile of this distribution at that of a standard normal's z.

        In the coordinate z the parameter is a standard normal beforehand: no prior has long tails
        there, and what the data say nothing about is easy to draw.
        """

    @abstractmethod
    def to_normal(self, x: float) -> float:
        """Return the z whose `from_normal` is x."""


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

    def from_normal(self, z: float) -> float:
        """Return centre + spread · z."""
        return self.centre + self.spread * z

    def to_normal(self, x: float) -> float:
        """Return (x − centre) / spread."""
        return (x - self.centre) / self.spread


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

    def from_normal(self, z: float) -> float:
        """Return the logit at the normal's z, far out by the power law of the share's tail."""
        if z > 0:  # 1 − share is the small one
            return -LogitBeta(self.b, self.a).from_normal(-z)
        log_p = float(log_ndtr(z))
        share = float(betaincinv(self.a, self.b, np.exp(log_p)))
        if share < _TINY:
            return (log_p + float(np.log(self.a)) + float(betaln(self.a, self.b))) / self.a
        return float(np.log(share) - np.log1p(-share))

    def to_normal(self, x: float) -> float:
        """Return the normal's z at the logit x."""
        below, above = _log_tail(self.a, self.b, x), _log_tail(self.b, self.a, -x)
        return float(ndtri_exp(below)) if below < above else -float(ndtri_exp(above))


def _log_tail(a: float, b: float, x: float) -> float:
    """Return log P(share < expit(x)) of a Beta(a, b)."""
    if expit(x) < _TINY:
        return a * x - float(np.log(a)) - float(betaln(a, b))
    return float(np.log(betainc(a, b, expit(x))))


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

    def from_normal(self, z: float) -> float:
        """Return the logarithm at the normal's z."""
        quantile = gammainccinv if z < 0 else gammaincinv  # of scale / value, by its smaller tail
        return float(np.log(self.scale) - np.log(quantile(self.shape, ndtr(-abs(z)))))

    def to_normal(self, x: float) -> float:
        """Return the normal's z at the logarithm x."""
        ratio = self.scale * np.exp(-x)
        above, below = float(gammaincc(self.shape, ratio)), float(gammainc(self.shape, ratio))
        return float(ndtri(above)) if above < 0.5 else -float(ndtri(below))


def _log_gamma(shape: float, rng: np.random.Generator) -> float:
    """Return the logarithm of a gamma draw, also of shapes whose draws underflow."""
    return float(np.log(rng.gamma(shape + 1)) + np.log(rng.uniform()) / shape)


# Dirichlet distributions, by their counts ------------------------------------------------------


def log_dirichlet(log_weights: Array, alpha: Array) -> float:
    """Return the log-density of weights (K,), in coordinates log(w_k / w_1)."""
    constant = float(gammaln(alpha.sum()) - gammaln(alpha).sum())
    return constant + float(alpha @ log_weights)


def expected_logs(counts: Array) -> Array:
    """Return E[log p_k] under Dirichlet(counts), along the first axis.

    Examples
    --------
    >>> expected_logs(np.array([1.0, 1.0]))
    array([-1., -1.])
    """
    return np.asarray(digamma(counts) - digamma(counts.sum(axis=0)))


def draw_dirichlet_logs(counts: Array, rng: np.random.Generator) -> Array:
    """Return the logarithms of a draw from Dirichlet(counts), along the first axis.

    In logarithms of gamma variates: those of small counts underflow otherwise.
    """
    logs = np.log(rng.standard_gamma(counts + 1.0)) + np.log(rng.random(counts.shape)) / counts
    return np.asarray(logs - logsumexp(logs, axis=0))


def dirichlet_kl(counts: Array, prior: Array) -> float:
    """Return KL(Dirichlet(counts) ‖ Dirichlet(prior)), summed over columns if there are any."""
    constants = _log_constant(counts) - _log_constant(prior)
    return float(np.sum(constants)) + float(((counts - prior) * expected_logs(counts)).sum())


def dirichlet_log_ratio(p: Array, counts: Array, other: Array) -> float:
    """Return log Dirichlet(p | counts) − log Dirichlet(p | other), summed over columns."""
    constants = _log_constant(counts) - _log_constant(other)
    return float(np.sum(constants)) + float(xlogy(counts - other, p).sum())


def _log_constant(counts: Array) -> Array:
    return np.asarray(gammaln(counts.sum(axis=0)) - gammaln(counts).sum(axis=0))

"""Poisson mutation: counts with immigration and branching."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.special import gammaln, xlogy

from outtrees._common.arguments import check_number
from outtrees._common.types import Array
from outtrees.models.base import Mutation
from outtrees.models.by_class import log_poisson_by_class
from outtrees.models.edges import Ints
from outtrees.models.logdot import log_dot, log_dot_edges


@dataclass(frozen=True, eq=False, repr=False)
class PoissonMutation(Mutation):
    """Counts, each column child ~ Poisson(immigration + branching · parent's count).

    Each unit of the parent leaves `branching` units on average, and `immigration` come from
    elsewhere. With branching = 0 records are independent, with immigration = 0 a count of zero is
    absorbing.

    Parameters
    ----------
    prior_strength : float
        The number ν of pseudo-records behind the Gamma priors,

            log_prior = −ν Σ_d (KL(a₀ ‖ a) + mean · KL(b₀ ‖ b)),   KL(x ‖ y) = x log(x/y) − x + y,

        with modes a₀ = mean/2 and b₀ = 1/2: Gamma(1 + ν a₀, rate ν) for the immigration a and
        Gamma(1 + ν mean/2, rate ν mean) for the branching b. The mean of a column is counted
        with ν/2 additional events, so that a column of zeros has a positive rate.
    start_correlation : float in [0, 1]
        The branching at `start`; the immigration makes up for the rest of the mean, and 0 is the
        iid solution.
    root_rate, immigration, branching : arrays of shape (D,), optional
        Parameters for use without `start`.

    Notes
    -----
    `refit` is EM over the hidden origin of each unit, on sums by parent that cost O(T² D) once;
    the objective is concave, and no step lowers it. Without prior a parameter that is exactly 0
    stays there.

    Examples
    --------
    >>> X = np.array([[0], [3], [4], [1]])
    >>> mutation = PoissonMutation(prior_strength=0).start(X)
    >>> mutation.immigration, mutation.branching
    (array([1.]), array([0.5]))
    """

    prior_strength: float = 1.0
    start_correlation: float = 0.5
    _: KW_ONLY
    root_rate: Any = field(default=None, repr=False)  # (D,)
    immigration: Any = field(default=None, repr=False)  # (D,)
    branching: Any = field(default=None, repr=False)  # (D,)
    prior_mean: Any = field(default=None, repr=False)  # (D,), set by start

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_number(owner, "prior_strength", self.prior_strength, 0)
        check_number(owner, "start_correlation", self.start_correlation, 0, 1)
        names = ("root_rate", "immigration", "branching")
        given = [getattr(self, name) for name in names]
        if all(value is None for value in given):
            return
        arrays = [np.array(np.nan if v is None else v, dtype=np.float64) for v in given]
        if any(a.ndim != 1 or a.shape != arrays[0].shape or not (a >= 0).all() for a in arrays):
            raise ValueError(
                f"{owner} expects {', '.join(names)} together, as vectors of one length with "
                f"entries >= 0, but got {given!r}; give all three or none."
            )
        for name, array in zip(names, arrays, strict=True):
            object.__setattr__(self, name, array)

    def _check_values(self, X: Array, name: str) -> None:
        wrong = (X < 0) | (np.floor(X) != X)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ValueError(
                f"PoissonMutation expects counts 0, 1, 2, ..., but {name} has {X[row, column]:g} "
                f"in row {row}, column {column}; use GaussianMutation for measurements."
            )

    def _start(self, X: Array, random_state: Any) -> Self:
        mean = (X.sum(axis=0) + 0.5 * self.prior_strength) / len(X)
        a = self.start_correlation
        return replace(
            self,
            root_rate=mean,
            immigration=(1 - a) * mean,
            branching=np.full_like(mean, a),
            prior_mean=mean,
        )

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.root_rate is None else len(self.root_rate)

    def _rates(self, parents: Array) -> Array:
        return self.immigration + self.branching * parents

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        rates = self._rates(parents)
        with np.errstate(divide="ignore"):
            log_rates = np.log(rates)
        log_weights = log_dot(children, log_rates) - rates.sum(axis=1)
        return log_weights - gammaln(children + 1).sum(axis=1)[:, None]

    def _log_edges(self, children: Array, parents: Array, child: Ints, parent: Ints) -> Array:
        rates = self._rates(parents)
        with np.errstate(divide="ignore"):
            log_rates = np.log(rates)
        log_counts = log_dot_edges(children, log_rates, child, parent)
        return log_counts - rates.sum(axis=1)[parent] - gammaln(children + 1).sum(axis=1)[child]

    def _log_root(self, X: Array) -> Array:
        return (xlogy(X, self.root_rate) - self.root_rate - gammaln(X + 1)).sum(axis=1)

    def _sample(self, parents: Array, rng: np.random.Generator) -> Array:
        return rng.poisson(self._rates(parents)).astype(np.float64)

    def _log_by_class(self, X: Array, weights: Array, records: Array) -> Array:
        return log_poisson_by_class(X, weights, records)

    def _sample_root(self, n: int, rng: np.random.Generator) -> Array:
        return rng.poisson(self.root_rate, size=(n, len(self.root_rate))).astype(np.float64)

    def _prior_counts(self) -> tuple[Array, Array, Array, Array]:
        """Return pseudo-events and pseudo-exposures: of immigration, then of branching."""
        nu = 0.0 if self.prior_mean is None else self.prior_strength
        mean = np.zeros(self.n_features or 0) if self.prior_mean is None else self.prior_mean
        return nu * mean / 2, np.full_like(mean, nu), nu * mean / 2, nu * mean

    def _origins(self, parents: Array, child_sums: Array) -> tuple[Array, Array]:
        """Return the expected numbers of immigrant and of inherited units, each (D,)."""
        rates = self._rates(parents)
        # A rate of zero has no children units to share out (else the objective is −inf).
        share = child_sums / np.where(rates > 0, rates, np.inf)
        return self.immigration * share.sum(axis=0), self.branching * (parents * share).sum(axis=0)

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        child_sums = edge_marginals.T @ X  # (T, D) Σ_u W_uv x_u
        by_parent = edge_marginals.sum(axis=0)
        pseudo_a, exposure_a, pseudo_b, exposure_b = self._prior_counts()
        exposure_a = exposure_a + by_parent.sum()
        exposure_b = exposure_b + by_parent @ X
        current = self
        for _ in range(200):
            immigrants, inherited = current._origins(X, child_sums)
            a = _ratio(immigrants + pseudo_a, exposure_a, current.immigration)
            b = _ratio(inherited + pseudo_b, exposure_b, current.branching)
            moved = max(np.abs(a - current.immigration).max(), np.abs(b - current.branching).max())
            current = replace(current, immigration=a, branching=b)
            if moved <= 1e-12 * max(a.max(), b.max()):
                break
        return current

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        by_parent = edge_marginals.sum(axis=0)
        pseudo_a, exposure_a, pseudo_b, exposure_b = self._prior_counts()
        immigrants, inherited = self._origins(X, edge_marginals.T @ X)
        by_log_a = immigrants + pseudo_a - self.immigration * (exposure_a + by_parent.sum())
        by_log_b = inherited + pseudo_b - self.branching * (exposure_b + by_parent @ X)
        return np.concatenate([by_log_a, by_log_b])

    def _params(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.concatenate([self.immigration, self.branching]))

    def _with_params(self, params: Array) -> Self:
        immigration, branching = np.split(np.exp(params), 2)
        return replace(self, immigration=immigration, branching=branching)

    def _log_prior(self) -> float:
        if self.prior_mean is None or self.prior_strength == 0:
            return 0.0
        mean, half = self.prior_mean, np.full_like(self.prior_mean, 0.5)
        divergence = _divergence(mean / 2, self.immigration) + mean * _divergence(
            half, self.branching
        )
        return -self.prior_strength * float(divergence.sum())


def _ratio(events: Array, exposure: Array, otherwise: Array) -> Array:
    return np.where(exposure > 0, events / np.where(exposure > 0, exposure, 1.0), otherwise)


def _divergence(x: Array, y: Array) -> Array:
    """Return x log(x/y) − x + y, at least 0 and 0 where x = y."""
    with np.errstate(divide="ignore"):
        return xlogy(x, x) - xlogy(x, y) - x + y

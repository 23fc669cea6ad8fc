"""Poisson mutation with Gamma posteriors of immigration and branching."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.special import digamma, gammaln, logsumexp

from outtrees._common.arguments import check_number
from outtrees._common.types import Array
from outtrees.models.conjugate.base import Posterior
from outtrees.models.poisson import PoissonMutation


@dataclass(frozen=True, eq=False, repr=False)
class PoissonPosterior(Posterior):
    """Counts, each column child ~ Poisson(immigration + branching · parent's count).

    Immigration and branching have Gamma(shape, rate) priors, and so has the root's rate. The
    origin of each unit (immigrant or inherited) is hidden and part of q; summed out,

        exp(E log p) = (ã + b̃ v)^x exp(−ā − b̄ v) / x!,   ã = exp E[log a], ā = E[a].

    A child's predictive density is the sum of two negative binomials, convolved; a record's
    evidence as the root is a negative binomial.

    Parameters
    ----------
    immigration_prior, branching_prior, root_prior : pair (shape, rate), optional
        Numbers or arrays of shape (D,). By default, with the column's mean count μ (half a unit
        added in all, so that a column of zeros has a positive rate): shape `prior_strength`
        for all three, with expectations μ/2, 1/2 and μ.
    prior_strength : float

    Examples
    --------
    >>> X = np.array([[0], [3], [4], [1]])
    >>> PoissonPosterior().start(X).log_predictive(X, X).shape
    (4, 4)
    """

    immigration_prior: Any = None
    branching_prior: Any = None
    root_prior: Any = None
    prior_strength: float = 1.0
    _: KW_ONLY
    priors_: Any = field(default=None, repr=False)  # (3, 2, D): immigration, branching, root
    statistics_: Any = field(default=None, repr=False)  # (4 D,)

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_number(owner, "prior_strength", self.prior_strength, 0, open_low=True)

    def _check_values(self, X: Array, name: str) -> None:
        PoissonMutation()._check_values(X, name)

    def _start(self, X: Array, random_state: Any) -> Self:
        T, D = X.shape
        mean = (X.sum(axis=0) + 0.5) / T
        defaults = (mean / 2, np.full(D, 0.5), mean)
        given = (self.immigration_prior, self.branching_prior, self.root_prior)
        names = ("immigration_prior", "branching_prior", "root_prior")
        priors = np.empty((3, 2, D))
        for i, (name, value, expected) in enumerate(zip(names, given, defaults, strict=True)):
            if value is None:
                priors[i] = np.stack([np.ones(D), 1.0 / expected]) * self.prior_strength
                continue
            try:
                priors[i] = np.stack([np.broadcast_to(np.asarray(v, float), (D,)) for v in value])
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"PoissonPosterior expects {name} as a pair (shape, rate) of numbers or arrays "
                    f"with {D} entries, but got {value!r}."
                ) from error
            if not ((priors[i] > 0) & np.isfinite(priors[i])).all():
                raise ValueError(
                    f"PoissonPosterior expects shape and rate > 0 in {name}, but got {value!r}."
                )
        # Half of all units inherited, as PoissonMutation's start.
        half, edges = 0.5 * mean * (T - 1), np.full(D, T - 1.0)
        start = np.concatenate([half, edges, half, mean * (T - 1)])
        return replace(self, priors_=priors)._with_statistics(start)

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.priors_ is None else self.priors_.shape[2]

    @property
    def statistics(self) -> Array:
        """Immigrants, their exposure, inherited units and their exposure, each (D,)."""
        return self.statistics_

    @property
    def gammas(self) -> Array:
        """Shape and rate of the immigration, then of the branching, (2, 2, D)."""
        self._require_started()
        return self.priors_[:2] + self.statistics_.reshape(2, 2, -1)

    def _with_statistics(self, statistics: Array) -> Self:
        posterior = replace(self, statistics_=statistics)
        if not (posterior.gammas > 0).all():
            raise ValueError(f"PoissonPosterior expects counts >= 0, but got {statistics.min():g}.")
        return posterior

    def _logs(self) -> tuple[Array, Array]:
        """Return E[log a] and E[log b]."""
        (shape_a, rate_a), (shape_b, rate_b) = self.gammas
        return digamma(shape_a) - np.log(rate_a), digamma(shape_b) - np.log(rate_b)

    def _expected_log_conditional(self, children: Array, parents: Array) -> Array:
        (shape_a, rate_a), (shape_b, rate_b) = self.gammas
        log_a, log_b = self._logs()
        with np.errstate(divide="ignore"):  # nothing is inherited from a count of zero
            log_rates = np.logaddexp(log_a, log_b + np.log(parents))
        mean = (shape_a / rate_a).sum() + parents @ (shape_b / rate_b)
        return children @ log_rates.T - mean - gammaln(children + 1).sum(axis=1)[:, None]

    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array:
        return self._tallied(parents, weights.T @ children, weights.sum(axis=0))

    def _tallied(self, parents: Array, child_sums: Array, by_parent: Array) -> Array:
        log_a, log_b = self._logs()
        with np.errstate(divide="ignore"):
            log_inherited = log_b + np.log(parents)
        inherited = np.exp(log_inherited - np.logaddexp(log_a, log_inherited))  # (T, D)
        from_parent = (child_sums * inherited).sum(axis=0)
        immigrants = (child_sums * (1.0 - inherited)).sum(axis=0)
        exposed = np.full(parents.shape[1], by_parent.sum())
        return np.concatenate([immigrants, exposed, from_parent, by_parent @ parents])

    def _update(self, X: Array, edge_marginals: Array) -> Self:
        # Given W, origins and rates are updated in turn: O(T D) each after O(T² D) for the sums.
        child_sums, by_parent = edge_marginals.T @ X, edge_marginals.sum(axis=0)
        current = self
        for _ in range(50):
            statistics = current._tallied(X, child_sums, by_parent)
            moved = np.abs(statistics - current.statistics_).max()
            current = current._with_statistics(statistics)
            if moved <= 1e-9 * np.abs(statistics).max():
                break
        return current

    def _log_predictive(self, children: Array, parents: Array) -> Array:
        (shape_a, rate_a), (shape_b, rate_b) = self.gammas
        result = np.zeros((len(children), len(parents)))
        for d in range(children.shape[1]):
            values, child = np.unique(children[:, d], return_inverse=True)
            sources, parent = np.unique(parents[:, d], return_inverse=True)
            support = np.arange(values[-1] + 1)
            immigrants = _log_negative_binomial(support, shape_a[d], rate_a[d])
            table = np.empty((len(values), len(sources)))
            for j, v in enumerate(sources):
                if v == 0:
                    table[:, j] = immigrants[values.astype(int)]
                    continue
                inherited = _log_negative_binomial(support, shape_b[d], rate_b[d] / v)
                for i, x in enumerate(values.astype(int)):
                    table[i, j] = logsumexp(immigrants[: x + 1] + inherited[x::-1])
            result += table[child][:, parent]
        return result

    def _log_root(self, X: Array) -> Array:
        return _log_negative_binomial(X, *self.priors_[2]).sum(axis=1)

    def _kl(self) -> float:
        pairs = zip(self.gammas, self.priors_[:2], strict=True)
        return float(sum(_gamma_kl(*q, *p).sum() for q, p in pairs))

    def _draw(self, rng: np.random.Generator, root_record: Array | None) -> PoissonMutation:
        shape, rate = self.priors_[2]
        if root_record is not None:
            shape, rate = shape + root_record, rate + 1.0
        a, b = (rng.gamma(q[0]) / q[1] for q in self.gammas)
        return PoissonMutation(root_rate=rng.gamma(shape) / rate, immigration=a, branching=b)

    def _log_prior_ratio(self, mutation: PoissonMutation) -> float:
        result = 0.0
        drawn = (mutation.immigration, mutation.branching)
        for value, (s, r), (s0, r0) in zip(drawn, self.gammas, self.priors_[:2], strict=True):
            constants = s0 * np.log(r0) - gammaln(s0) - s * np.log(r) + gammaln(s)
            result += float((constants + (s0 - s) * np.log(value) - (r0 - r) * value).sum())
        return result


def _log_negative_binomial(x: Array, shape: Array, rate: Array) -> Array:
    """Return the log-probability of counts whose Poisson rate is Gamma(shape, rate)."""
    return (
        gammaln(x + shape)
        - gammaln(shape)
        - gammaln(x + 1)
        - shape * np.log1p(1.0 / rate)
        - x * np.log1p(rate)
    )


def _gamma_kl(shape: Array, rate: Array, shape0: Array, rate0: Array) -> Array:
    return (
        (shape - shape0) * digamma(shape)
        - gammaln(shape)
        + gammaln(shape0)
        + shape0 * (np.log(rate) - np.log(rate0))
        + shape * (rate0 - rate) / rate
    )

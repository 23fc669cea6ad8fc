"""What is believed about a mutation's parameters: conjugate priors updated by weighted edges."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from outtrees._common.arguments import check_count, check_edge_marginals
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.base import Change, Mutation
from outtrees.models.covariance import cholesky


class Posterior(Change):
    """A distribution q(θ) over the parameters of a mutation, beside its conjugate prior p(θ).

    Learning with out-trees by variational Bayes (paper, section 6) alternates between the edge
    marginals W of the trees weighted by exp E_q[log p(x_u | x_v, θ)], and

        q(θ) ∝ p(θ) Π_uv p(x_u | x_v, θ)^W_uv.

    In a conjugate family the second step adds expected sufficient statistics to the prior's
    parameters, so a posterior *is* its prior and one vector of statistics, `statistics`, linear
    in W. Where an edge has something hidden (the component of a mixture, the origin of a
    count), that is part of q too and has been summed out of `expected_log_conditional`.

    A posterior is a value: no method changes it. `start` scales the priors that were not given
    by the data and returns a posterior to begin from; before, only options are held. Matrices
    are [child, parent].
    """

    _word = "posterior"
    _started_with = "priors"

    # What a family writes, beside `_start`, `_log_root` and `n_features` ----------------------

    @abstractmethod
    def _expected_log_conditional(self, children: Array, parents: Array) -> Array: ...

    @abstractmethod
    def _log_predictive(self, children: Array, parents: Array) -> Array: ...

    @abstractmethod
    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array: ...

    @abstractmethod
    def _with_statistics(self, statistics: Array) -> Self: ...

    @abstractmethod
    def _kl(self) -> float: ...

    @abstractmethod
    def _draw(self, rng: np.random.Generator, root_record: Array | None) -> Mutation: ...

    @abstractmethod
    def _log_prior_ratio(self, mutation: Any) -> float: ...

    statistics_: Any  # a field of most families

    @property
    def statistics(self) -> Array:
        """The expected sufficient statistics that were added to the prior, one flat vector."""
        return np.asarray(self.statistics_)

    # What a family may write ---------------------------------------------------------------

    def _update(self, X: Array, edge_marginals: Array) -> Self:
        return self._with_statistics(self._statistics_of(X, X, edge_marginals))

    def _log_prior_ratios(self, mutations: Sequence[Any]) -> Array:
        return np.array([self._log_prior_ratio(mutation) for mutation in mutations])

    # What everybody calls ------------------------------------------------------------------

    def expected_log_conditional(self, children: ArrayLike, parents: ArrayLike) -> Array:
        """Return E_q[log p(child u | parent v, θ)], shape (n, m): the paper's log β (section 6).

        With something hidden in an edge: log Σ_h exp E_q[log p(child u, h | parent v, θ)].
        """
        children = self._checked(children, "children")
        return self._expected_log_conditional(children, self._checked(parents, "parents"))

    def log_predictive(self, children: ArrayLike, parents: ArrayLike) -> Array:
        """Return log ∫ q(θ) p(child u | parent v, θ) dθ, shape (n, m): normalised by child."""
        children = self._checked(children, "children")
        return self._log_predictive(children, self._checked(parents, "parents"))

    def update(
        self,
        X: ArrayLike,  # (T, D)
        edge_marginals: ArrayLike,  # (T, T) [child, parent]
    ) -> Self:
        """Return q(θ) ∝ p(θ) Π p(x_u | x_v, θ)^W_uv; what is hidden in edges follows this q."""
        X = self._checked(X, "X")
        return self._update(X, check_edge_marginals(edge_marginals, len(X), type(self).__name__))

    def with_statistics(self, statistics: ArrayLike) -> Self:
        """Return the posterior with these expected sufficient statistics instead.

        Raises
        ------
        ValueError
            If no proper posterior has them (a scatter that is not positive definite, a count
            below zero).
        """
        vector = np.asarray(statistics, dtype=np.float64)
        if vector.shape != self.statistics.shape or not np.isfinite(vector).all():
            raise ValueError(
                f"{type(self).__name__} expects {self.statistics.shape[0]} finite statistics, but "
                f"got shape {vector.shape} with {int((~np.isfinite(vector)).sum())} not finite; "
                "start from the vector in .statistics."
            )
        return self._with_statistics(vector)

    def prior(self) -> Self:
        """Return the prior, as a posterior that has seen nothing."""
        self._require_started()
        return self._with_statistics(np.zeros_like(self.statistics))

    def kl(self) -> float:
        """Return KL(q ‖ p) of the posterior from its prior, in nats."""
        self._require_started()
        return float(self._kl())

    def draw(self, random_state: Any = None, root_record: ArrayLike | None = None) -> Mutation:
        """Return a mutation with parameters drawn from q.

        Its root's parameters are drawn from their posterior given the one record that is the
        root, or from their prior if none is named.
        """
        self._require_started()
        record = None
        if root_record is not None:
            record = self._checked(np.atleast_2d(np.asarray(root_record)), "root_record")[0]
        return self._draw(as_generator(random_state), record)

    def log_prior_ratio(self, mutation: Mutation) -> float:
        """Return log p(θ) − log q(θ) at the parameters of a mutation from `draw`."""
        self._require_started()
        return float(self._log_prior_ratio(mutation))

    def log_prior_ratios(self, mutations: Sequence[Mutation]) -> Array:
        """Return log p(θ) − log q(θ) of several mutations, (n,)."""
        self._require_started()
        return self._log_prior_ratios(mutations) if mutations else np.empty(0)


_WIDE = 3.0  # standard deviation of the prior of each free coordinate, about the start
_PILOT = 5  # rounds of likely parents and refits by which `start` finds where points are needed
_WIDER = 2.0  # points are spread so much wider than the likelihood falls off
_ANYWHERE = 0.2  # share of the points that are drawn from the prior


@dataclass(frozen=True, eq=False, repr=False)
class PointPosterior(Posterior):
    """Any mutation with few parameters, which are known to be one of n points.

    For kinds without a conjugate prior. The prior of the free coordinates θ, `params`, is normal
    about the start with standard deviation 3, times exp(log_prior). Points θ_i that are drawn once,
    by `start`, where the likelihood is large, with importance weights w_i stand for it; then all is
    a finite sum. The statistics are s_i = Σ W log p(x_u | x_v, θ_i), linear in W, and

        q_i ∝ w_i exp(s_i),    KL(q ‖ p) = Σ q_i log(q_i / w_i).

    Parameters
    ----------
    mutation : Mutation
    n_points : int
        Every answer costs as much as that many mutations.

    Examples
    --------
    >>> from outtrees.models import BernoulliMutation
    >>> X = np.array([[0.0], [0.0], [1.0], [1.0], [1.0]])
    >>> posterior = PointPosterior(BernoulliMutation()).start(X, 0)
    >>> np.exp(posterior.log_predictive([[0.0], [1.0]], X[:1])).sum().round(6)
    np.float64(1.0)
    """

    mutation: Mutation
    n_points: int = 100
    _: KW_ONLY
    params_: Any = field(default=None, repr=False)  # (n, P)
    log_prior_: Any = field(default=None, repr=False)  # (n,), log w
    statistics_: Any = field(default=None, repr=False)  # (n,), each point's log-likelihood

    def __post_init__(self) -> None:
        check_count(type(self).__name__, "n_points", self.n_points, 2)

    def _start(self, X: Array, random_state: Any) -> Self:
        started = self.mutation.start(X, random_state)
        pilot = started
        for _ in range(_PILOT):
            pilot = pilot._refit(X, _likely_parents(pilot, X))
        W = _likely_parents(pilot, X)
        centre, middle = started.params, pilot.params
        factor = _WIDER * cholesky(_curvature(pilot, X, W), "the spread of the points")
        # Evenly spread instead of random: fewer points do, and a start is the same every time.
        from scipy.stats import norm, qmc  # slow to load

        normal = norm.ppf(qmc.Halton(len(centre), scramble=True, rng=0).random(self.n_points))
        anywhere = np.arange(self.n_points) < _ANYWHERE * self.n_points
        points = np.where(anywhere[:, None], centre + _WIDE * normal, middle + normal @ factor.T)
        log_wide = _log_normal(points, centre, _WIDE * np.eye(len(centre)))
        log_near = _log_normal(points, middle, factor)
        share = anywhere.mean()
        log_drawn = np.logaddexp(np.log(share) + log_wide, np.log1p(-share) + log_near)
        inner = np.array([started._with_params(point)._log_prior() for point in points])
        log_prior = log_wide + inner - log_drawn
        log_prior -= logsumexp(log_prior)
        given = replace(
            self,
            mutation=started,
            params_=points,
            log_prior_=log_prior,
            statistics_=np.zeros(len(points)),
        )
        return given._update(X, W)

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.params_ is None else self.mutation.n_features

    @property
    def allows_missing(self) -> bool:
        """Whether the mutation accepts NaN cells."""
        return self.mutation.allows_missing

    def _check_values(self, X: Array, name: str) -> None:
        self.mutation._check_values(X, name)

    # q ---------------------------------------------------------------------------------------

    def _with_statistics(self, statistics: Array) -> Self:
        return replace(self, statistics_=statistics)

    def _log_q(self) -> Array:
        log_q = self.log_prior_ + self.statistics_
        return np.asarray(log_q - logsumexp(log_q))

    def _mutations(self) -> Iterator[tuple[float, Mutation]]:
        """Yield log q and the mutation of each point that matters."""
        for log_q, point in zip(self._log_q(), self.params_, strict=True):
            if log_q > _NOTHING:
                yield float(log_q), self.mutation._with_params(point)

    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array:
        found = np.empty(len(self.params_))
        for i, point in enumerate(self.params_):
            logs = self.mutation._with_params(point)._log_conditional(children, parents)
            found[i] = float((weights * np.where(weights != 0, logs, 0.0)).sum())
        return found

    def _expected_log_conditional(self, children: Array, parents: Array) -> Array:
        result = np.zeros((len(children), len(parents)))
        for log_q, mutation in self._mutations():
            result += np.exp(log_q) * mutation._log_conditional(children, parents)
        return result

    def _log_predictive(self, children: Array, parents: Array) -> Array:
        result = np.full((len(children), len(parents)), -np.inf)
        for log_q, mutation in self._mutations():
            result = np.logaddexp(result, log_q + mutation._log_conditional(children, parents))
        return result

    def _log_root(self, X: Array) -> Array:
        return self.mutation._log_root(X)

    def _kl(self) -> float:
        log_q = self._log_q()
        return float((np.exp(log_q) * (log_q - self.log_prior_)).sum())

    def _draw(self, rng: np.random.Generator, root_record: Array | None) -> Mutation:
        q = np.exp(self._log_q())
        return self.mutation._with_params(self.params_[rng.choice(len(q), p=q / q.sum())])

    def _log_prior_ratio(self, mutation: Mutation) -> float:
        i = int(np.argmin(((self.params_ - mutation.params) ** 2).sum(axis=1)))
        return float(self.log_prior_[i] - self._log_q()[i])


_NOTHING = -30.0  # log q of a point that would not change any digit


def _likely_parents(mutation: Mutation, X: Array) -> Array:
    """Return the probabilities of each record's parents if records chose theirs alone, (T, T)."""
    logs = mutation._log_conditional(X, X)
    np.fill_diagonal(logs, -np.inf)
    top = logs.max(axis=1, keepdims=True)
    mass = np.exp(logs - np.where(np.isneginf(top), 0.0, top))
    return np.asarray(mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300))


def _curvature(mutation: Mutation, X: Array, W: Array) -> Array:
    """Return a covariance as wide as the weighted likelihood and the prior together, (P, P)."""
    now, step = mutation.params, 1e-3
    P = len(now)
    hessian = np.empty((P, P))
    for i in range(P):
        ends = [
            mutation._with_params(now + sign * step * np.eye(P)[i])._gradient(X, W)
            for sign in (1.0, -1.0)
        ]
        hessian[i] = (ends[1] - ends[0]) / (2 * step)
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2 + np.eye(P) / _WIDE**2)
    return np.asarray((vectors / np.maximum(values, 1.0 / _WIDE**2)) @ vectors.T)


def _log_normal(points: Array, mean: Array, factor: Array) -> Array:
    z = np.linalg.solve(factor, (points - mean).T)
    return np.asarray(
        -0.5 * ((z**2).sum(axis=0) + len(mean) * np.log(2 * np.pi)) - np.linalg.slogdet(factor)[1]
    )

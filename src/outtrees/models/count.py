"""Counts: units that come from the parent's, or from elsewhere."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, xlogy

from outtrees._common.arguments import check_number
from outtrees._common.edges import Ints, chunks
from outtrees._common.types import Array
from outtrees.models.base import Mutation
from outtrees.models.column import ShareKernel
from outtrees.models.posterior import Posterior
from outtrees.models.quick import Metric, normal_constant

# Records of each class that the shares and rates of all are worth: columns are taken as
# independent, and many of them would make a few records speak too loudly.
SHARES = 8.0


def log_of(values: Any) -> Array:
    """Return the logarithms, −inf of 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


def log_dot(counts: Array, log_values: Array) -> Array:
    """Return counts @ log_values.T with 0 · log 0 = 0, shape (n, m).

    Examples
    --------
    >>> log_dot(np.array([[0.0, 2.0], [1.0, 2.0]]), np.array([[-np.inf, -1.0]]))
    array([[ -2.],
           [-inf]])
    """
    impossible = np.isneginf(log_values)
    if not impossible.any():
        return counts @ log_values.T
    result = counts @ np.where(impossible, 0.0, log_values).T
    result[counts @ impossible.T.astype(np.float64) > 0] = -np.inf
    return result


def log_dot_edges(
    counts: Array,  # (n, K)
    log_values: Array,  # (m, K)
    row: Ints,  # (E,) of counts
    column: Ints,  # (E,) rows of log_values
) -> Array:
    """Return `log_dot(counts, log_values)[row, column]` without the others, (E,).

    Examples
    --------
    >>> counts, log_values = np.array([[0.0, 2.0], [1.0, 2.0]]), np.array([[-np.inf, -1.0]])
    >>> log_dot_edges(counts, log_values, np.array([1, 0]), np.array([0, 0]))
    array([-inf,  -2.])
    """
    impossible = np.isneginf(log_values)
    finite = np.where(impossible, 0.0, log_values)
    result = np.empty(len(row))
    for edges in chunks(len(row), counts.shape[1]):
        many, which = counts[row[edges]], column[edges]
        result[edges] = np.einsum("ek,ek->e", many, finite[which])
        if impossible.any():
            result[edges][((many > 0) & impossible[which]).any(axis=1)] = -np.inf
    return result


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
                f"entries >= 0; got {given!r}. Give all three or none."
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

    def _named(self) -> dict[str, Array]:
        return {"immigration": self.immigration, "branching": self.branching}

    def _rates(self, parents: Array) -> Array:
        return np.asarray(self.immigration + self.branching * parents)

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        rates = self._rates(parents)
        log_weights = log_dot(children, log_of(rates)) - rates.sum(axis=1)
        return np.asarray(log_weights - gammaln(children + 1).sum(axis=1)[:, None])

    def _log_edges(self, children: Array, parents: Array, child: Ints, parent: Ints) -> Array:
        rates = self._rates(parents)
        log_counts = log_dot_edges(children, log_of(rates), child, parent)
        return np.asarray(
            log_counts - rates.sum(axis=1)[parent] - gammaln(children + 1).sum(axis=1)[child]
        )

    def _log_root(self, X: Array) -> Array:
        return np.asarray((xlogy(X, self.root_rate) - self.root_rate - gammaln(X + 1)).sum(axis=1))

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
        return log_of(np.concatenate([self.immigration, self.branching]))

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
        return np.asarray(xlogy(x, x) - xlogy(x, y) - x + y)


_NEGLIGIBLE = 1e-18  # of the largest term of a sum
_LEAST_KEPT = 1e-200  # share of units, over many links


@dataclass(frozen=True, eq=False)
class Counts(ShareKernel):
    """Thinning and arrival: child = Binomial(parent, a^k) + Poisson((1 − a^k)·mean).

    Each of the parent's units is kept with probability a at each link, and as many arrive as keep
    the mean. The Poisson distribution is stationary, and k links have the same form with a^k.
    Cells without a parent follow a negative binomial with the column's mean and variance (Poisson
    where the variance is not larger), so that an overdispersed column has a fair alternative.

    Examples
    --------
    >>> kernel = Counts().start(np.array([[3.0], [4.0], [2.0]]))
    >>> children, edges = np.arange(60.0)[:, None], np.arange(60)
    >>> pairs = kernel.pairs(children, np.array([[3.0]]), edges, 0 * edges)
    >>> round(float(np.exp(kernel.log_steps(pairs, 2)).sum()), 12)
    1.0
    """

    _share = "survival"
    prior_strength: float = 1.0
    _: KW_ONLY
    mean: float = 1.0
    variance: float = 1.0
    survival: float = 0.5

    def start(self, values: Array) -> Self:
        """Return the kernel with the mean and variance of the column, and survival 1/2."""
        known = values[~np.isnan(values)]
        mean = (float(known.sum()) + 0.5) / (len(known) + 1)
        variance = float(known.var()) if len(known) > 1 else mean
        return replace(self, mean=mean, variance=variance, survival=0.5)

    def _log_pairs(self, cells: Array, k: int, elapsed: Array | None) -> Array:
        return self._kept_units(cells, self.survival**k)[0]

    def _kept_units(self, cells: Array, kept: float) -> tuple[Array, Array]:
        """Return log Σ_j Binomial(j; y, kept) Poisson(x − j; (1 − kept)·mean), and the mean j.

        For rows (x, y) of child's and parent's counts: j of the parent's units are kept.
        From the largest term on, up and down: each follows from the one before, and they fall ever
        faster.
        """
        x, y = cells.T
        kept = max(kept, _LEAST_KEPT)
        lost, arrive = 1 - kept, (1 - kept) * self.mean
        ratio = kept / (lost * arrive)  # of a term to the one before, times (x − j)(y − j)/(j + 1)
        both = ratio * (x + y) + 1
        turn = ratio * x * y - 1
        top = 2 * turn / (both + np.sqrt(np.maximum(both**2 - 4 * ratio * turn, 0)))
        top = np.clip(np.floor(top) + 1, 0, np.minimum(x, y))
        log_top = (
            gammaln(y + 1)
            - gammaln(top + 1)
            - gammaln(y - top + 1)
            - gammaln(x - top + 1)
            + top * np.log(kept)
            + (y - top) * np.log(lost)
            + (x - top) * np.log(arrive)
            - arrive
        )
        total, moment = np.ones(len(cells)), np.zeros(len(cells))
        for step in (1, -1):
            rows, term, x_now, y_now, j = np.arange(len(cells)), np.ones(len(cells)), x, y, top
            while len(rows):
                if step > 0:
                    term = term * (ratio * (x_now - j) * (y_now - j) / (j + 1))
                else:
                    term = term * (j / (ratio * (x_now - j + 1) * (y_now - j + 1)))
                j = j + step
                total[rows] += term
                moment[rows] += (j - top[rows]) * term
                more = term > _NEGLIGIBLE
                if not more.all():
                    rows, term, x_now, y_now, j = (a[more] for a in (rows, term, x_now, y_now, j))
        return log_top + np.log(total), top + moment / total

    def _slopes_cells(self, cells: Array, weights: Array, elapsed: Array | None) -> Array:
        """Return the slope for distinct pairs (U, 2): what is kept, lost and arrives tells it."""
        a, slope = self.survival, 0.0
        x, y = cells.T
        for k, w in enumerate(weights, start=1):
            kept = a**k
            units = self._kept_units(cells, kept)[1]
            new = (x + y - 2 * units) / (1 - kept) - self.mean
            slope += k * (1 - a) * float(w @ (units - kept * new))
        return np.array([slope])

    def _log_cell(self, x: Array) -> Array:
        if self.variance <= self.mean * (1 + 1e-9):
            return np.asarray(x[:, 0] * np.log(self.mean) - self.mean - gammaln(x[:, 0] + 1))
        p = self.mean / self.variance
        from scipy.stats import nbinom  # slow to load

        return np.asarray(nbinom.logpmf(x[:, 0], self.mean * p / (1 - p), p))

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return what survives of the parents' counts, and what arrived."""
        kept = self.survival**k
        arrived = rng.poisson((1 - kept) * self.mean, size=parents.shape)
        return (rng.binomial(parents.astype(np.int64), kept) + arrived).astype(np.float64)

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return draws from the density of cells without a parent."""
        if self.variance <= self.mean * (1 + 1e-9):
            return rng.poisson(self.mean, size=(n, 1)).astype(np.float64)
        p = self.mean / self.variance
        return rng.negative_binomial(self.mean * p / (1 - p), p, size=(n, 1)).astype(np.float64)

    def states(self, values: Array) -> tuple[Array, Array]:
        """Return the counts up to some more than the largest that was seen."""
        most = float(np.nanmax(values, initial=0.0))
        points = np.arange(np.ceil(most + 3 * np.sqrt(most)) + 4)
        return points, np.ones(len(points))

    def quick(self, values: Array, generations: int, elapsed: float) -> Metric:
        """Return the normal with the mean and, for an average parent, the variance of the count."""
        kept = (self.survival ** np.arange(1, generations + 1))[:, None, None]
        variance = (1 - kept) * (1 + kept) * self.mean
        child = (values - (1 - kept) * self.mean) / np.sqrt(variance)
        constant = normal_constant(0.0, 1, variance[:, 0, 0])
        return Metric(child, kept * values / np.sqrt(variance), constant)

    def describe(self) -> str:
        """Return which share of the parent's units a child keeps."""
        arrived = (1 - self.survival) * self.mean
        return (
            f"a child keeps each of its parent's units with probability {self.survival:.3g}, "
            f"and {arrived:.3g} arrive"
        )


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
    # (4 D,): immigrants, their exposure, inherited units and their exposure
    statistics_: Any = field(default=None, repr=False)

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
                    f"with {D} entries; got {value!r}."
                ) from error
            if not ((priors[i] > 0) & np.isfinite(priors[i])).all():
                raise ValueError(
                    f"PoissonPosterior expects shape and rate > 0 in {name}; got {value!r}."
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
    def gammas(self) -> Array:
        """Shape and rate of the immigration, then of the branching, (2, 2, D)."""
        self._require_started()
        return np.asarray(self.priors_[:2] + self.statistics_.reshape(2, 2, -1))

    def _with_statistics(self, statistics: Array) -> Self:
        posterior = replace(self, statistics_=statistics)
        if not (posterior.gammas > 0).all():
            raise ValueError(f"PoissonPosterior expects counts >= 0; got {statistics.min():g}.")
        return posterior

    def _logs(self) -> tuple[Array, Array]:
        """Return E[log a] and E[log b]."""
        (shape_a, rate_a), (shape_b, rate_b) = self.gammas
        return digamma(shape_a) - np.log(rate_a), digamma(shape_b) - np.log(rate_b)

    def _expected_log_conditional(self, children: Array, parents: Array) -> Array:
        (shape_a, rate_a), (shape_b, rate_b) = self.gammas
        log_a, log_b = self._logs()
        # Nothing is inherited from a count of zero.
        log_rates = np.logaddexp(log_a, log_b + log_of(parents))
        mean = (shape_a / rate_a).sum() + parents @ (shape_b / rate_b)
        return np.asarray(
            children @ log_rates.T - mean - gammaln(children + 1).sum(axis=1)[:, None]
        )

    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array:
        return self._tallied(parents, weights.T @ children, weights.sum(axis=0))

    def _tallied(self, parents: Array, child_sums: Array, by_parent: Array) -> Array:
        log_a, log_b = self._logs()
        log_inherited = log_b + log_of(parents)
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
        return np.asarray(_log_negative_binomial(X, *self.priors_[2]).sum(axis=1))

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
    return np.asarray(
        gammaln(x + shape)
        - gammaln(shape)
        - gammaln(x + 1)
        - shape * np.log1p(1.0 / rate)
        - x * np.log1p(rate)
    )


def _gamma_kl(shape: Array, rate: Array, shape0: Array, rate0: Array) -> Array:
    return np.asarray(
        (shape - shape0) * digamma(shape)
        - gammaln(shape)
        + gammaln(shape0)
        + shape0 * (np.log(rate) - np.log(rate0))
        + shape * (rate0 - rate) / rate
    )


def log_poisson_by_class(
    X: Array,  # (T, D) counts
    weights: Array,  # (T, C)
    records: Array,  # (n, D)
) -> Array:
    """Return the log-probabilities of the records' counts in each class, (n, C).

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> log_poisson_by_class(X, np.eye(2)[[0, 0, 1, 1]], np.array([[7.0]])).argmax(axis=1)
    array([1])
    """
    overall = (X.sum(axis=0) + 0.5) / (len(X) + 0.5)  # never 0
    rates = weights.T @ X + SHARES * overall
    rates /= (weights.sum(axis=0) + SHARES)[:, None]  # (C, D)
    fixed = gammaln(records + 1).sum(axis=1)[:, None] + rates.sum(axis=1)
    return np.asarray(xlogy(records[:, None, :], rates).sum(axis=2) - fixed)

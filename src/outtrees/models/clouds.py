"""Gaussian clouds of unknown number and shape: an average over ways to part the records.

A Dirichlet process of normal clusters (Rasmussen 1999). Means and covariances are integrated out,
partitions and the distribution that clusters come from are sampled, and the density is the average
over draws, a mixture of Student densities. Nothing is left to choose on held-out records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import gammaln, logsumexp, ndtri, stdtr
from sklearn.cluster import KMeans

from outtrees._common.arguments import check_count
from outtrees._common.edges import Ints
from outtrees._common.order import record_order
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.base import Mutation

_LEARN_EVERY = 4  # sweeps: then the base is drawn
_MOST_SCALES = 6  # columns whose scale is drawn at a time; the next time others are
_ONE_START = 15  # records for each cluster that the second chain begins with
_FARTHEST_SCORE = 37.0  # beyond, a normal score has no probability that a float could hold
_BLOCK = 2_000_000  # numbers of an array of records × clouds × columns


@dataclass(frozen=True)
class Base:
    """What clusters are drawn from: concentration and normal inverse-Wishart distribution.

    A cluster's covariance is S ~ IW(ν, Ψ₀), its mean N(0, S/κ) (records are centred); Ψ₀ is
    diagonal, scale · (ν − D + 1) in each column. Beforehand each number is as likely in every
    octave between its bounds. Without the lower bounds of scales and degrees of freedom the
    posterior would end in point masses wherever records share a value of some column.
    """

    log_alpha: float
    log_kappa: float
    log_excess: float  # log(ν − D + 1)
    log_scales: Array  # (D,), variances of a cluster, in units of the columns' variances

    BOUNDS = ((0.01, 100.0), (0.001, 10.0), (1.0, 100.0), (0.001, 1.0))

    @classmethod
    def start(cls, n_features: int) -> Base:
        """Return the middle of the prior."""
        return cls.of(cls.bounds(n_features).mean(axis=1))

    @classmethod
    def bounds(cls, n_features: int) -> Array:
        """Return the bounds of all logarithms, (3 + D, 2)."""
        return np.log([*cls.BOUNDS[:3], *[cls.BOUNDS[3]] * n_features])

    @property
    def vector(self) -> Array:
        """All logarithms, (3 + D,)."""
        return np.array([self.log_alpha, self.log_kappa, self.log_excess, *self.log_scales])

    @classmethod
    def of(cls, vector: Array) -> Base:
        """Return the base with these logarithms."""
        alpha, kappa, excess = (float(value) for value in vector[:3])
        return cls(alpha, kappa, excess, np.array(vector[3:]))

    @property
    def kappa(self) -> float:
        """κ: how many records the prior of a cluster's mean is worth."""
        return float(np.exp(self.log_kappa))

    @property
    def nu(self) -> float:
        """ν: the degrees of freedom of a cluster's covariance."""
        return float(np.exp(self.log_excess)) + len(self.log_scales) - 1.0

    @property
    def scales(self) -> Array:
        """The diagonal of Ψ₀, (D,)."""
        return np.asarray(np.exp(self.log_scales + self.log_excess))


class Draw(NamedTuple):
    """A state of the chain."""

    base: Base
    labels: Ints  # (T,), the cluster of each record
    n_clusters: int


def log_joint(base: Base, statistics: tuple[Array, Array, Array]) -> float:
    """Return log p(X, clusters | base): that of the Chinese restaurant and of each cluster's X.

    p(clusters) = α^K Γ(α) / Γ(α + T) Π Γ(n_k).

    Examples
    --------
    >>> from outtrees.models.cloud_kernels import gather_statistics
    >>> one = gather_statistics(np.zeros((1, 1)), np.zeros(1, dtype=np.intp), 1)
    >>> bool(np.isfinite(log_joint(Base.start(1), one)))
    True
    """
    from outtrees.models.cloud_kernels import log_evidence

    alpha, counts = np.exp(base.log_alpha), statistics[0]
    partition = len(counts) * base.log_alpha + gammaln(alpha) - gammaln(alpha + counts.sum())
    partition += gammaln(counts).sum()
    return float(partition + log_evidence(*statistics, base.kappa, base.nu, base.scales))


def sample_partitions(
    X: Array,  # (T, D), centred
    labels: Ints,  # (T,), where to begin: 0 … K−1, all used
    base: Base,
    n_sweeps: int,
    rng: np.random.Generator,
    *,
    learn_every: int = _LEARN_EVERY,
) -> list[Draw]:
    """Return the state of the chain after each sweep (Neal 2000, algorithm 3).

    A sweep draws the cluster of each record given all others, means and covariances integrated out;
    after every `learn_every` sweeps the base is drawn by slice sampling (Neal 2003), 0 keeps it.
    O(T K D²) for the clusters; O(K D³) for each of about 60 evaluations for the base.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-1, 0.1, (20, 1)), rng.normal(1, 0.1, (20, 1))])
    >>> draws = sample_partitions(X, np.arange(40), Base.start(1), 50, rng)
    >>> len(draws), draws[-1].n_clusters >= 2
    (50, True)
    """
    from outtrees.models.cloud_kernels import sweep

    labels = np.array(labels, dtype=np.intp)
    n_clusters = int(labels.max()) + 1
    centre = np.zeros(X.shape[1])
    draws = []
    for i in range(n_sweeps):
        order, uniforms = rng.permutation(len(X)), rng.random(len(X))
        factor = np.diag(np.sqrt(base.scales))
        n_clusters = sweep(
            X,
            labels,
            n_clusters,
            order,
            uniforms,
            base.log_alpha,
            base.kappa,
            base.nu,
            centre,
            factor,
        )
        if learn_every and i % learn_every == learn_every - 1:
            base = _drawn_base(base, X, labels, n_clusters, rng)
        draws.append(Draw(base, labels.copy(), n_clusters))
    return draws


def _drawn_base(
    base: Base, X: Array, labels: Ints, n_clusters: int, rng: np.random.Generator
) -> Base:
    """Return a base drawn along each of its first three numbers, all scales, and some of them."""
    from outtrees.models.cloud_kernels import gather_statistics

    D = X.shape[1]
    statistics = gather_statistics(X, labels, n_clusters)
    bounds = Base.bounds(D)
    directions = list(np.eye(3 + D)[:3])
    if D > 1:
        directions.append(np.append(np.zeros(3), np.ones(D)))
    directions += [np.eye(3 + D)[3 + c] for c in rng.permutation(D)[:_MOST_SCALES]]
    at = base.vector
    for direction in directions:

        def along(step: float, at: Array = at, direction: Array = direction) -> float:
            return log_joint(Base.of(at + step * direction), statistics)

        moved = direction > 0
        room = (bounds[moved] - at[moved, None]) / direction[moved, None]
        at = at + direction * slice_sample(along, room[:, 0].max(), room[:, 1].min(), rng)
    return Base.of(at)


def slice_sample(
    log_density: Callable[[float], float],
    low: float,
    high: float,
    rng: np.random.Generator,
    width: float = 1.0,
) -> float:
    """Return the next state after 0 of a chain that leaves exp(log_density) as it is (Neal 2003).

    A level below the density at 0, an interval stepped out until both its ends lie lower or reach
    the bounds, and points in it drawn until one lies higher.

    Examples
    --------
    >>> bool(abs(slice_sample(lambda x: 0.0, -0.5, 0.5, np.random.default_rng(0), 0.1)) < 0.5)
    True
    """
    if not low < high:
        return 0.0
    level = log_density(0.0) + np.log(rng.random())
    left = max(low, -width * rng.random())
    right = min(high, left + width)
    while left > low and log_density(left) > level:
        left = max(low, left - width)
    while right < high and log_density(right) > level:
        right = min(high, right + width)
    while True:
        new = float(rng.uniform(left, right))
        if log_density(new) > level or left == right:
            return new
        left, right = (new, right) if new < 0 else (left, new)


@dataclass(frozen=True, eq=False, repr=False)
class CloudsMutation(Mutation):
    """Children come from clouds, wherever their parent is: an average over draws of clouds.

    Parameters
    ----------
    scores : bool
        Whether clouds are those of normal scores: each column has clouds of its own, from which
        its values get the normal quantiles of their probabilities, and the clouds of all columns
        together are those of these scores. Then skewed and heavy-tailed columns need no further
        clouds, and what columns have in common can be learned from few records.
    n_sweeps, n_warmup, thin : int
        Of each of two chains, one that begins with all records together and one with many small
        clusters: sweeps, how many are discarded first, and every so many is kept.
    max_records : int
        Of more records a random sample is taken.

    Notes
    -----
    A value of a column stands for all that would have been rounded to it: columns in which values
    recur are spread over the smallest step between two of their values. Clouds can therefore not
    gain by peaks on such values.

    Nothing is left for EM to learn: `start` has the whole fit, and there are no `params`. It does
    not depend on the order of the records.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> CloudsMutation().start(X, random_state=0).log_root(X[:3]).shape
    (3,)
    """

    scores: bool = False
    n_sweeps: int = 100
    n_warmup: int = 40
    thin: int = 4
    max_records: int = 2000
    _: KW_ONLY
    log_weights: Any = field(default=None, repr=False)  # (M,)
    dof: Any = field(default=None, repr=False)  # (M,), degrees of freedom
    means: Any = field(default=None, repr=False)  # (M, D)
    factors: Any = field(default=None, repr=False)  # (M, D, D), lower, of the scale matrices
    margins: Any = field(default=None, repr=False)  # D mutations of one column, with scores

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_count(owner, "n_sweeps", self.n_sweeps, 1)
        check_count(owner, "n_warmup", self.n_warmup, 0)
        check_count(owner, "thin", self.thin, 1)
        check_count(owner, "max_records", self.max_records, 2)
        if self.n_warmup >= self.n_sweeps:
            raise ValueError(
                f"n_warmup must be less than n_sweeps; got n_warmup={self.n_warmup}, "
                f"n_sweeps={self.n_sweeps}. Give fewer."
            )

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.means is None else self.means.shape[1]

    @property
    def parent_free(self) -> bool:
        """True: clouds ignore the parent."""
        return True

    # The fit ---------------------------------------------------------------------------------

    def _start(self, X: Array, random_state: Any) -> Self:
        rng = as_generator(random_state)
        X = X[record_order(X)]
        if len(X) > self.max_records:
            X = X[np.sort(rng.permutation(len(X))[: self.max_records])]
        X = _spread_over_rounding(X, rng)
        if not self.scores:
            return self._averaged(X, rng)
        # Columns by themselves are soon learned, and their probabilities are needed often.
        alone = CloudsMutation(n_sweeps=70, n_warmup=30, thin=4)
        margins = tuple(alone._averaged(column[:, None], rng) for column in X.T)
        clouds = replace(self, scores=False)._averaged(_normal_scores(margins, X), rng)
        return replace(clouds, scores=True, margins=margins)

    def _averaged(self, X: Array, rng: np.random.Generator) -> Self:
        """Return the average over draws of the clouds of these records."""
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)  # a constant column keeps its units
        scaled = (X - mean) / deviation
        draws: list[Draw] = []
        # One column mixes well: a single chain, from many small clusters, is enough.
        for labels in first_partitions(scaled, rng)[-1 if X.shape[1] == 1 else 0 :]:
            chain = sample_partitions(scaled, labels, Base.start(X.shape[1]), self.n_sweeps, rng)
            draws += chain[self.n_warmup :: self.thin]
        found = CloudsMutation.given(draws, scaled)
        return replace(
            self,
            log_weights=found.log_weights,
            dof=found.dof,
            means=found.means * deviation + mean,
            factors=found.factors * deviation[:, None],
        )

    @classmethod
    def given(cls, draws: Sequence[Draw], X: Array) -> CloudsMutation:
        """Return the average over these draws of partitions of the records X (T, D), centred.

        Parameters
        ----------
        draws : sequence of Draw
            Partitions of the records.
        X : array of shape (T, D)
            The records.

        Returns
        -------
        CloudsMutation
            With parameters.
        """
        parts = zip(*(_predictive(X, draw) for draw in draws), strict=True)
        log_weights, dof, means, factors = (np.concatenate(part) for part in parts)
        log_weights = log_weights - np.log(len(draws))
        return cls(log_weights=log_weights, dof=dof, means=means, factors=factors)

    # Densities and samples -------------------------------------------------------------------

    def _log_child(self, children: Array) -> Array:
        if self.margins is None:
            return self._log_clouds(children)
        scores = _normal_scores(self.margins, children)
        alone = [m._log_clouds(c[:, None]) for m, c in zip(self.margins, children.T, strict=True)]
        log_normal = -0.5 * (scores**2 + np.log(2 * np.pi)).sum(axis=1)
        return np.asarray(self._log_clouds(scores) - log_normal + np.sum(alone, axis=0))

    def _log_clouds(self, X: Array) -> Array:
        """Return the log-densities in the clouds themselves, (n,)."""
        D = self.means.shape[1]
        log_det = np.log(np.diagonal(self.factors, axis1=1, axis2=2)).sum(axis=1)
        constant = self.log_weights + gammaln(0.5 * (self.dof + D)) - gammaln(0.5 * self.dof)
        constant -= 0.5 * D * np.log(self.dof * np.pi) + log_det
        inverse = np.linalg.inv(self.factors)
        result = np.empty(len(X))
        step = max(1, _BLOCK // self.means.size)
        for at in range(0, len(X), step):
            apart = X[at : at + step, None, :] - self.means  # (n, M, D)
            white = np.matmul(inverse, apart.transpose(1, 2, 0))  # (M, D, n)
            squared = (white**2).sum(axis=1).T
            logs = constant - 0.5 * (self.dof + D) * np.log1p(squared / self.dof)
            result[at : at + step] = logsumexp(logs, axis=1)
        return result

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        return np.repeat(self._log_child(children)[:, None], len(parents), axis=1)

    def _log_root(self, X: Array) -> Array:
        return self._log_child(X)

    def _sample(self, parents: Array, rng: np.random.Generator) -> Array:
        return self._sample_root(len(parents), rng)

    def _sample_root(self, n: int, rng: np.random.Generator) -> Array:
        weights = np.exp(self.log_weights)
        chosen = rng.choice(len(weights), size=n, p=weights / weights.sum())
        normal = rng.normal(size=(n, self.means.shape[1]))
        spread = np.sqrt(self.dof[chosen] / rng.chisquare(self.dof[chosen]))
        steps = np.einsum("nij,nj->ni", self.factors[chosen], normal)
        result = self.means[chosen] + spread[:, None] * steps
        if self.margins is None:
            return np.asarray(result)
        columns = [m._quantile(c) for m, c in zip(self.margins, result.T, strict=True)]
        return np.stack(columns, axis=1)

    # Of one column ---------------------------------------------------------------------------

    def _normal_score(self, values: Array) -> Array:
        """Return the standard normal quantiles of the values' probabilities, (n,)."""
        step = max(1, _BLOCK // len(self.dof))
        if len(values) > step:
            parts = [self._normal_score(values[i : i + step]) for i in range(0, len(values), step)]
            return np.concatenate(parts)
        far = (values[:, None] - self.means[:, 0]) / self.factors[:, 0, 0]
        weights = np.exp(self.log_weights)
        below, above = stdtr(self.dof, far) @ weights, stdtr(self.dof, -far) @ weights
        total = below + above
        # The smaller of the two keeps its digits.
        score = np.where(below < above, ndtri(below / total), -ndtri(above / total))
        return np.clip(score, -_FARTHEST_SCORE, _FARTHEST_SCORE)

    def _quantile(self, scores: Array) -> Array:
        """Return the values with these normal scores, (n,): bisection."""
        scores = np.clip(scores, -_FARTHEST_SCORE, _FARTHEST_SCORE)
        width = float(self.factors[:, 0, 0].max())
        low = np.full(len(scores), float(self.means.min()) - width)
        high = np.full(len(scores), float(self.means.max()) + width)
        for _ in range(200):  # until the values are between
            short, long = self._normal_score(low) > scores, self._normal_score(high) < scores
            if not (short.any() or long.any()):
                break
            width *= 2.0
            low, high = np.where(short, low - width, low), np.where(long, high + width, high)
        for _ in range(60):
            middle = 0.5 * (low + high)
            less = self._normal_score(middle) < scores
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        return np.asarray(0.5 * (low + high))

    # Nothing to learn ------------------------------------------------------------------------

    def _refit_children(self, X: Array, weights: Array) -> Self:
        return self

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        return self

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        return np.empty(0)

    def _gradient_children(self, X: Array, weights: Array) -> Array:
        return np.empty(0)

    def _params(self) -> Array:
        return np.empty(0)

    def _with_params(self, params: Array) -> Self:
        return self

    def _log_prior(self) -> float:
        return 0.0


def _normal_scores(margins: tuple[CloudsMutation, ...], X: Array) -> Array:
    columns = [margin._normal_score(c) for margin, c in zip(margins, X.T, strict=True)]
    return np.stack(columns, axis=1)


def _predictive(X: Array, draw: Draw) -> tuple[Array, Array, Array, Array]:
    """Return weights, degrees of freedom, means and factors of the clouds, the new one last."""
    from outtrees.models.cloud_kernels import gather_statistics

    base, D = draw.base, X.shape[1]
    counts, means, scatters = gather_statistics(X, draw.labels, draw.n_clusters)
    counts, means = np.append(counts, 0.0), np.vstack([means, np.zeros(D)])
    weight = base.kappa + counts
    lower = np.concatenate([scatters, np.zeros((1, D, D))])  # Cholesky reads this half alone
    lower = lower + (base.kappa * counts / weight)[:, None, None] * (
        means[:, :, None] * means[:, None, :]
    )
    lower[:, np.arange(D), np.arange(D)] += base.scales
    dof = base.nu + counts - D + 1.0
    factors = np.linalg.cholesky(lower * ((weight + 1.0) / (weight * dof))[:, None, None])
    sizes = np.append(np.log(counts[:-1]), base.log_alpha)
    log_weights = sizes - np.log(len(X) + np.exp(base.log_alpha))
    return log_weights, dof, means * (counts / weight)[:, None], factors


def first_partitions(X: Array, rng: np.random.Generator) -> list[Ints]:
    """Return the partitions with which the chains begin."""
    together = np.zeros(len(X), dtype=np.intp)
    several = min(len(np.unique(X, axis=0)), max(2, len(X) // _ONE_START))
    if several < 2:
        return [together]
    means = KMeans(several, n_init=1, random_state=int(rng.integers(2**31))).fit(X)
    return [together, np.unique(means.labels_, return_inverse=True)[1].astype(np.intp)]


def _spread_over_rounding(X: Array, rng: np.random.Generator) -> Array:
    """Return the records with recurring values spread evenly over their rounding intervals."""
    X = X.copy()
    for column in X.T:
        values = np.unique(column)
        if 1 < len(values) < len(column):
            column += (rng.random(len(column)) - 0.5) * np.diff(values).min()
    return X

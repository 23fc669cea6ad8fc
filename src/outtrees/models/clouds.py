"""Gaussian clouds of unknown number and shape: an average over ways to part the records.

A Dirichlet process of normal clusters (Rasmussen 1999). Means and covariances are integrated out,
partitions and the distribution that clusters come from are sampled, and the density is the average
over draws, a mixture of Student densities. Nothing is left to choose on held-out records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import gammaln, logsumexp, ndtri, stdtr

from outtrees._common.arguments import check_count
from outtrees._common.edges import Ints
from outtrees._common.order import record_order
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.base import Mutation

_LEARN_EVERY = 4  # sweeps: then the base is drawn
_MOST_SCALES = 6  # columns whose scale is drawn at a time; the next time others are
_ONE_START = 15  # records for each cluster that the second chain begins with
_CHAIN_FOLDS = 5
_PENALTIES = np.array([30.0, 1.0, 0.03, 0.001])  # variance of noise / variance of a coefficient
_MOST_REGRESSORS = 15
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
    from outtrees.models.cloud_kernels import draw_base, gather_statistics, sweep

    labels = np.array(labels, dtype=np.intp)
    n_clusters = int(labels.max()) + 1
    centre, bounds = np.zeros(X.shape[1]), Base.bounds(X.shape[1])
    draws = []
    for i in range(n_sweeps):
        order, uniforms = rng.permutation(len(X)), rng.random(len(X))
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
            base.scales,
        )
        if learn_every and i % learn_every == learn_every - 1:
            at, statistics = base.vector, gather_statistics(X, labels, n_clusters)
            draw_base(rng, at, _directions(X.shape[1], rng), bounds, *statistics)
            base = Base.of(at)
        draws.append(Draw(base, labels.copy(), n_clusters))
    return draws


def _directions(n_features: int, rng: np.random.Generator) -> Array:
    """Return what of a base is drawn: its first three numbers, all scales, and some of them."""
    every = np.eye(3 + n_features)
    scales = rng.permutation(n_features)[:_MOST_SCALES]
    together = [every[3:].sum(axis=0)] if n_features > 1 else []
    return np.array([*every[:3], *together, *every[3 + scales]])


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
    sparse : bool
        Whether clusters look, beforehand, as if each column followed from few of the columns
        before it, instead of from none: clouds are those of what is left of each column after an
        average of regressions on few columns (`chain`). For many columns and few records.
    n_chains : int
        The number of chains, which begin with all records together or with many small clusters;
        half as many for each column by itself. More depend less on the seed.
    n_sweeps, n_warmup, thin : int
        Of each chain: sweeps, how many are discarded first, and every so many is kept.
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
    sparse: bool = False
    n_chains: int = 4
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
        check_count(owner, "n_chains", self.n_chains, 1)
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
        margins = _margins(X.tobytes(), X.shape, self.n_chains, int(rng.integers(2**31)))
        clouds = replace(self, scores=False)._averaged(_normal_scores(margins, X), rng)
        return replace(clouds, scores=True, margins=margins)

    def _averaged(self, X: Array, rng: np.random.Generator) -> Self:
        """Return the average over draws of the clouds of these records."""
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)  # a constant column keeps its units
        scaled, D = (X - mean) / deviation, X.shape[1]
        back = None
        if self.sparse and D > 1:
            scaled, back = _left_by_chains(scaled, rng)
        draws: list[Draw] = []
        for labels in first_partitions(scaled, self.n_chains, rng):
            chain = sample_partitions(scaled, labels, Base.start(D), self.n_sweeps, rng)
            draws += chain[self.n_warmup :: self.thin]
        found = CloudsMutation.given(draws, scaled)
        means, factors = found.means, found.factors
        if back is not None:
            means = means @ back.T
            upper = np.linalg.qr((back @ factors).transpose(0, 2, 1), mode="r")
            signs = np.sign(np.diagonal(upper, axis1=1, axis2=2))
            factors = (signs[:, :, None] * upper).transpose(0, 2, 1)
        return replace(
            self,
            log_weights=found.log_weights,
            dof=found.dof,
            means=means * deviation + mean,
            factors=factors * deviation[:, None],
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
        key = (len(children), hash(children.tobytes()))
        if _LAST.get(self, (None, None))[0] != key:
            _LAST[self] = key, self._log_density(children)
        return np.asarray(_LAST[self][1]).copy()

    def _log_density(self, children: Array) -> Array:
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
        tail = stdtr(self.dof, -np.abs(far))  # the smaller part, for its digits
        below = np.where(far < 0, tail, 1.0 - tail) @ weights
        above = np.where(far < 0, 1.0 - tail, tail) @ weights
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

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        return self

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        return np.empty(0)

    def _params(self) -> Array:
        return np.empty(0)

    def _with_params(self, params: Array) -> Self:
        return self

    def _log_prior(self) -> float:
        return 0.0


# The densities that were asked for last: trees of the same records are weighed again and again.
_LAST: WeakKeyDictionary[CloudsMutation, tuple[tuple[int, ...], Array]] = WeakKeyDictionary()


@lru_cache(maxsize=8)  # clouds of normal scores that differ in `sparse` alone have the same
def _margins(
    data: bytes, shape: tuple[int, int], n_chains: int, seed: int
) -> tuple[CloudsMutation, ...]:
    """Return the clouds of each column by itself: soon learned, and their sums are taken often."""
    alone = CloudsMutation(n_chains=max(1, n_chains // 2), n_sweeps=70, n_warmup=30)
    rng = np.random.default_rng(seed)
    columns = np.frombuffer(data).reshape(shape).T
    return tuple(alone._averaged(column[:, None], rng) for column in columns)


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


def first_partitions(X: Array, n: int, rng: np.random.Generator) -> list[Ints]:
    """Return the partitions with which n chains begin: in turn many small clusters, and one."""
    from sklearn.cluster import KMeans  # slow to load

    together = np.zeros(len(X), dtype=np.intp)
    several = min(len(np.unique(X, axis=0)), max(2, len(X) // _ONE_START))
    if several < 2:
        return [together] * n
    result = []
    for i in range(n):
        if i % 2:
            labels = together
        elif X.shape[1] == 1:  # runs of the sorted values
            labels = np.empty(len(X), dtype=np.intp)
            labels[X[:, 0].argsort(kind="stable")] = np.arange(len(X)) * several // len(X)
        else:
            means = KMeans(several, n_init=1, random_state=int(rng.integers(2**31))).fit(X)
            labels = np.unique(means.labels_, return_inverse=True)[1].astype(np.intp)
        result.append(labels)
    return result


def _left_by_chains(X: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return what chains of regressions leave of the records, and the matrix that leads back.

    What is left of a record comes from a chain that was fitted without it, in units of the
    deviation that this chain expects; the matrix is that of the chain of all records.
    """
    from outtrees.models.cloud_kernels import chain

    T, D = X.shape
    gram = X.T @ X
    order = column_order(gram)
    left = np.empty_like(X)
    for fold in np.array_split(rng.permutation(T), min(_CHAIN_FOLDS, T)):
        rest = gram - X[fold].T @ X[fold]
        coefs, variances = chain(rest, T - len(fold), order, _PENALTIES, _MOST_REGRESSORS)
        left[fold] = (X[fold] - X[fold] @ coefs.T) / np.sqrt(variances)
    coefs, variances = chain(gram, T, order, _PENALTIES, _MOST_REGRESSORS)
    return left, np.linalg.inv(np.eye(D) - coefs) * np.sqrt(variances)


def column_order(gram: Array) -> Ints:
    """Return an order of columns in which each follows the one before that it resembles most.

    It begins with the column that resembles all others most; the next is always the one that is
    most correlated with one of those already there (Prim's spanning tree).

    Examples
    --------
    >>> column_order(np.array([[1.0, 0.1, 0.9], [0.1, 1.0, 0.5], [0.9, 0.5, 1.0]]))
    array([2, 0, 1])
    """
    variances = np.diagonal(gram)
    variances = np.where(variances > 0, variances, 1.0)  # a constant column resembles none
    alike = gram**2 / np.outer(variances, variances)
    order = [int(alike.sum(axis=0).argmax())]
    nearest = alike[order[0]].copy()
    while len(order) < len(gram):
        nearest[order] = -1.0
        order.append(int(nearest.argmax()))
        nearest = np.maximum(nearest, alike[order[-1]])
    return np.array(order, dtype=np.intp)


def _spread_over_rounding(X: Array, rng: np.random.Generator) -> Array:
    """Return the records with recurring values spread evenly over their rounding intervals."""
    X = X.copy()
    for column in X.T:
        values = np.unique(column)
        if 1 < len(values) < len(column):
            column += (rng.random(len(column)) - 0.5) * np.diff(values).min()
    return X

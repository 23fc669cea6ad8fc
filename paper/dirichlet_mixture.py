"""The infinite Gaussian mixture: a Dirichlet process of normal clusters, by Gibbs sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import gammaln, logsumexp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted, validate_data

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.trees.weights import Ints

_BATCHES = 5  # of each chain, for the Monte-Carlo error


@dataclass(frozen=True)
class Base:
    """What the clusters are drawn from: concentration and normal inverse-Wishart distribution.

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
        middle = [0.5 * (np.log(low) + np.log(high)) for low, high in cls.BOUNDS]
        return cls(*middle[:3], np.full(n_features, middle[3]))

    @property
    def vector(self) -> Array:
        """All logarithms, (3 + D,)."""
        return np.array([self.log_alpha, self.log_kappa, self.log_excess, *self.log_scales])

    @classmethod
    def of(cls, vector: Array) -> Base:
        """Return the base with these logarithms."""
        return cls(*(float(value) for value in vector[:3]), np.array(vector[3:]))

    @property
    def arguments(self) -> tuple[Any, ...]:
        """κ, ν, the centre and the Cholesky factor of Ψ₀, as the kernels take them."""
        D = len(self.log_scales)
        excess = float(np.exp(self.log_excess))
        factor = np.diag(np.sqrt(np.exp(self.log_scales) * excess))
        return float(np.exp(self.log_kappa)), excess + D - 1.0, np.zeros(D), factor

    def log_prior(self) -> float:
        """Return 0 within the bounds, −inf outside."""
        bounds = [*self.BOUNDS[:3], *[self.BOUNDS[3]] * len(self.log_scales)]
        low, high = np.log(bounds).T
        vector = self.vector
        return 0.0 if ((low <= vector) & (vector <= high)).all() else -np.inf


class Draw(tuple[Base, Ints, int]):
    """Base, the cluster of each record, and the number of clusters."""


def log_joint(base: Base, X: Array, labels: Ints, n_clusters: int) -> float:
    """Return log p(X, clusters | base): that of the Chinese restaurant and of each cluster's X.

    p(clusters) = α^K Γ(α) / Γ(α + T) Π Γ(n_k).

    Examples
    --------
    >>> X = np.zeros((1, 1))
    >>> together = log_joint(Base.start(1), X, np.zeros(1, dtype=np.intp), 1)
    >>> bool(np.isfinite(together))
    True
    """
    from paper.dirichlet_kernels import log_evidence

    alpha = np.exp(base.log_alpha)
    counts = np.bincount(labels, minlength=n_clusters)
    partition = n_clusters * base.log_alpha + gammaln(alpha) - gammaln(alpha + len(X))
    partition += gammaln(counts).sum()
    return float(partition + log_evidence(X, labels, n_clusters, *base.arguments))


def sample_partitions(
    X: Array,  # (T, D), centred
    labels: Ints,  # (T,), where to begin: 0 … K−1, all used
    base: Base,
    n_sweeps: int,
    rng: np.random.Generator,
    *,
    learn_every: int = 4,
) -> list[Draw]:
    """Return the state of the chain after each sweep (Neal 2000, algorithm 3).

    A sweep draws the cluster of each record given all others, means and covariances integrated out;
    after every `learn_every` sweeps each logarithm of the base is drawn by slice sampling (Neal
    2003); 0 keeps the base. O(T K D²) for the clusters, about 6 (3 + D) evaluations of O(T D²) for
    the base.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-1, 0.1, (20, 1)), rng.normal(1, 0.1, (20, 1))])
    >>> alone = np.arange(40)
    >>> draws = sample_partitions(X, alone, Base.start(1), 50, rng)
    >>> len(draws), draws[-1][2] >= 2
    (50, True)
    """
    from paper.dirichlet_kernels import sweep

    labels = np.array(labels, dtype=np.intp)
    n_clusters = int(labels.max()) + 1
    draws = []
    for i in range(n_sweeps):
        order, uniforms = rng.permutation(len(X)), rng.random(len(X))
        n_clusters = sweep(X, labels, n_clusters, order, uniforms, base.log_alpha, *base.arguments)
        if learn_every and i % learn_every == learn_every - 1:
            base = _learned(base, X, labels, n_clusters, rng)
        draws.append(Draw((base, labels.copy(), n_clusters)))
    return draws


def _learned(base: Base, X: Array, labels: Ints, n_clusters: int, rng: np.random.Generator) -> Base:
    at = base.vector

    def log_density(vector: Array) -> float:
        proposed = Base.of(vector)
        if proposed.log_prior() == -np.inf:
            return -np.inf
        return log_joint(proposed, X, labels, n_clusters)

    for i in range(len(at)):

        def along(value: float, i: int = i) -> float:
            moved = at.copy()
            moved[i] = value
            return log_density(moved)

        at[i] = slice_sample(along, at[i], rng)
    return Base.of(at)


def slice_sample(
    log_density: Callable[[float], float], at: float, rng: np.random.Generator, width: float = 1.0
) -> float:
    """Return the next state of a chain that leaves exp(log_density) as it is (Neal 2003).

    A level below the density at the present state, an interval stepped out until both its ends
    lie lower, and points in it drawn until one lies higher.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> slice_sample(lambda x: 0.0 if 0 < x < 1 else -np.inf, 0.5, rng, 0.1) < 1
    True
    """
    level = log_density(at) + np.log(rng.random())
    low = at - width * rng.random()
    high = low + width
    while log_density(low) > level:
        low -= width
    while log_density(high) > level:
        high += width
    while True:
        new = float(rng.uniform(low, high))
        if log_density(new) > level:
            return new
        low, high = (new, high) if new < at else (low, new)


class DirichletProcessMixture(DensityMixin, BaseEstimator):
    """Density of a Dirichlet process mixture of Gaussians, averaged over draws (Rasmussen 1999).

    Columns are standardised inside; concentration and base distribution are learned with the
    clusters, so nothing is left to be chosen on held-out records. Two chains: one begins with
    all records together, one with many small clusters.

    Parameters
    ----------
    n_sweeps : int, default=600
        Of each chain.
    n_warmup : int, default=200
        Sweeps that are thrown away.
    thin : int, default=4
        Every so many sweeps a draw is kept.
    random_state : int, Generator or None

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = DirichletProcessMixture(n_sweeps=60, n_warmup=20, random_state=0).fit(X)
    >>> model.score_samples(X[:3]).shape
    (3,)
    """

    def __init__(
        self,
        *,
        n_sweeps: int = 600,
        n_warmup: int = 200,
        thin: int = 4,
        random_state: Any = None,
    ) -> None:
        self.n_sweeps = n_sweeps
        self.n_warmup = n_warmup
        self.thin = thin
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Run the chains."""
        records = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        if not 0 <= self.n_warmup < self.n_sweeps or self.thin < 1:
            raise ValueError(
                "n_warmup must be less than n_sweeps, and thin at least 1; got "
                f"n_sweeps={self.n_sweeps}, n_warmup={self.n_warmup}, thin={self.thin}."
            )
        rng = as_generator(self.random_state)
        self.mean_ = records.mean(axis=0)
        deviation = records.std(axis=0)
        self.scale_ = np.where(deviation > 0, deviation, 1.0)  # a constant column keeps its units
        scaled = (records - self.mean_) / self.scale_
        self.chains_: list[list[Draw]] = []
        for labels in self._starts(scaled, rng):
            base = Base.start(scaled.shape[1])
            draws = sample_partitions(scaled, labels, base, self.n_sweeps, rng)
            self.chains_.append(draws[self.n_warmup :: self.thin])
        self.X_ = scaled
        return self

    def score_samples(self, X: Any) -> Array:
        """Return the log-density of each record, averaged over draws, shape (n,). Sampled."""
        log_densities = self._each_draw(X)
        return np.asarray(logsumexp(log_densities, axis=0) - np.log(len(log_densities)))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the sum of the log-densities of the records."""
        return float(self.score_samples(X).sum())

    def monte_carlo_error(self, X: Any) -> float:
        """Return the standard error of `score`: the jackknife over batches of the chains."""
        log_densities = self._each_draw(X)
        batches = np.array_split(log_densities, _BATCHES * len(self.chains_))
        means = [logsumexp(batch, axis=0) - np.log(len(batch)) for batch in batches]
        left_out = [
            float((logsumexp([m for j, m in enumerate(means) if j != i], axis=0)).sum())
            for i in range(len(means))
        ]
        return float(np.sqrt((len(means) - 1) * np.var(left_out)))

    def _each_draw(self, X: Any) -> Array:
        """Return the log-densities (draws, n) given each draw."""
        from paper.dirichlet_kernels import log_predictive

        check_is_fitted(self, "chains_")
        records = validate_data(self, X, dtype=np.float64, reset=False)
        points = (records - self.mean_) / self.scale_
        rows = [
            log_predictive(points, self.X_, labels, k, base.log_alpha, *base.arguments)
            for chain in self.chains_
            for base, labels, k in chain
        ]
        return np.array(rows) - np.log(self.scale_).sum()

    def _starts(self, X: Array, rng: np.random.Generator) -> list[Ints]:
        together = np.zeros(len(X), dtype=np.intp)
        several = min(len(np.unique(X, axis=0)), max(2, len(X) // 15))
        if several < 2:
            return [together]
        means = KMeans(several, n_init=1, random_state=int(rng.integers(2**31))).fit(X)
        return [together, np.unique(means.labels_, return_inverse=True)[1].astype(np.intp)]

"""The infinite Gaussian mixture: a Dirichlet process of normal clusters, by Gibbs sampling."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.clouds import Base, CloudsMutation, Draw, first_partitions, sample_partitions

_BATCHES = 5  # of each chain, for the Monte-Carlo error


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
        for labels in first_partitions(scaled, 2, rng):
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
        check_is_fitted(self, "chains_")
        records = validate_data(self, X, dtype=np.float64, reset=False)
        points = (records - self.mean_) / self.scale_
        rows = [
            CloudsMutation.given([draw], self.X_).log_root(points)
            for chain in self.chains_
            for draw in chain
        ]
        return np.array(rows) - np.log(self.scale_).sum()

"""Mixture of mutations with Dirichlet weights: components that are not needed empty out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp

from outtrees._common.arguments import check_count, check_number, check_option
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.conjugate.base import Posterior
from outtrees.models.conjugate.dirichlet import (
    dirichlet_kl,
    dirichlet_log_ratio,
    expected_logs,
)
from outtrees.models.conjugate.gaussian import GaussianPosterior
from outtrees.models.conjugate.mixture_start import clouds_at, narrowed
from outtrees.models.covariance import COVARIANCES
from outtrees.models.mixture import MixtureMutation


@dataclass(frozen=True, eq=False, repr=False)
class MixturePosterior(Posterior):
    """p(child | parent) = Σ_k weight_k p_k(child | parent), weights ~ Dirichlet.

    Which component made an edge is hidden and part of q. Given the parameters its best
    distribution is known, so it has been summed out:

        expected_log_conditional = log Σ_k exp(E[log weight_k] + E[log p_k]).

    Parameters
    ----------
    components : sequence of posteriors, optional
        What is mixed. By default n_iid clouds (GaussianPosterior with transition="zero") and
        n_local copies of `local`.
    n_iid, n_local : int
        Used if components is None. More clouds than needed do no harm: their weights vanish.
    local : Posterior, optional
        By default GaussianPosterior(covariance, transition="identity"). Copies after the first
        start at half the standard deviation of the one before.
    covariance : {"full", "diag", "spherical"}
        For the Gaussians that are made from n_iid and n_local.
    weight_concentration_prior : float, optional
        The Dirichlet's parameter for each component, by default 1 / number of components, as in
        scikit-learn's BayesianGaussianMixture. Small values favour few components.
    prior_strength, reg_covar : float
        As in GaussianPosterior, for the Gaussians made here. Ψ₀ of each of K clouds is that of
        one cloud times K^(−2/D): K of them fill the same volume.

    Notes
    -----
    `start` deals the records to the clouds by k-means on standardised columns, and gives clouds
    and the others half of the weight each. A record's evidence as the root is the average of the
    components' root evidences.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> mixture = MixturePosterior(n_iid=2, n_local=1).start(X, random_state=0)
    >>> [part.transition for part in mixture.parts], mixture.weights.shape
    (['zero', 'zero', 'identity'], (3,))
    """

    components: Sequence[Posterior] | None = None
    n_iid: int = 1
    n_local: int = 1
    local: Posterior | None = None
    covariance: str = "full"
    weight_concentration_prior: float | None = None
    prior_strength: float = 1.0
    reg_covar: float = 1e-6
    _: KW_ONLY
    parts: Any = field(default=None, repr=False)  # K posteriors
    counts: Any = field(default=None, repr=False)  # (K,), expected edges of each component

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_count(owner, "n_iid", self.n_iid, 0)
        check_count(owner, "n_local", self.n_local, 0)
        check_option(owner, "covariance", self.covariance, COVARIANCES)
        check_number(owner, "prior_strength", self.prior_strength, 0, open_low=True)
        check_number(owner, "reg_covar", self.reg_covar, 0)
        if self.weight_concentration_prior is not None:
            name = "weight_concentration_prior"
            check_number(owner, name, self.weight_concentration_prior, 0, open_low=True)
        named = [] if self.local is None else [("local", self.local)]
        named += [("components", c) for c in self.components or []]
        for name, value in named:
            if not isinstance(value, Posterior):
                raise ValueError(f"{owner} expects posteriors in {name}, but got {value!r}.")
        empty = self.n_iid + self.n_local == 0 if self.components is None else not self.components
        if empty:
            raise ValueError(
                f"{owner} expects at least one component, but there is none; set n_iid or n_local."
            )

    # Start -----------------------------------------------------------------------------------

    def _templates(self) -> list[Posterior]:
        if self.components is not None:
            return list(self.components)
        options: dict[str, Any] = {"covariance": self.covariance, "reg_covar": self.reg_covar}
        local = self.local or GaussianPosterior(
            transition="identity", prior_strength=self.prior_strength, **options
        )
        cloud = GaussianPosterior(transition="zero", prior_strength=self.prior_strength, **options)
        return [cloud] * self.n_iid + [local] * self.n_local

    def _start(self, X: Array, random_state: Any) -> Self:
        templates = self._templates()
        clouds = [
            k for k, t in enumerate(templates) if isinstance(t, GaussianPosterior) and t.parent_free
        ]
        others = [k for k in range(len(templates)) if k not in clouds]
        rng = as_generator(random_state)
        parts: list[Any] = list(templates)
        counts = np.zeros(len(templates))
        edges = len(X) - 1.0
        if clouds:
            share = 0.5 if others else 1.0
            started = clouds_at(X, [templates[k] for k in clouds], share, rng)  # type: ignore[misc]
            for k, (part, count) in zip(clouds, started, strict=True):
                parts[k], counts[k] = part, count
        for repeat, k in enumerate(others):
            share = (0.5 if clouds else 1.0) / len(others)
            part = templates[k].start(X, rng)
            if self.components is None and repeat:
                part = narrowed(part, 4.0**-repeat)
            parts[k], counts[k] = part._with_statistics(share * part.statistics), share * edges
        return replace(self, parts=tuple(parts), counts=counts)

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.parts is None else self.parts[0].n_features

    @property
    def allows_missing(self) -> bool:
        """Whether all components accept NaN cells."""
        return all(part.allows_missing for part in self.parts or self._templates())

    @property
    def parent_free(self) -> bool:
        """Whether all components ignore the parent."""
        return all(part.parent_free for part in self.parts or self._templates())

    def _check_values(self, X: Array, name: str) -> None:
        for part in self.parts or self._templates():
            part._check_values(X, name)

    @property
    def _prior_counts(self) -> Array:
        K = len(self.parts)
        prior = self.weight_concentration_prior
        return np.full(K, 1.0 / K if prior is None else float(prior))

    @property
    def weights(self) -> Array:
        """The expected probability of each component, (K,)."""
        self._require_started()
        total = self.counts + self._prior_counts
        return total / total.sum()

    # Densities ---------------------------------------------------------------------------------

    def _joint(
        self, children: Array, parents: Array, log_weights: Array, name: str
    ) -> tuple[dict[int, Array], dict[int, Array], Array]:
        """Return log weight_k + log p_k: (n,) of parent-free parts, (n, m) of others; their sum.

        `name` is the method's: "expected_log" or "log_predictive".
        """
        free, bound = {}, {}
        pairs = {"expected_log": "_expected_log_conditional", "log_predictive": "_log_predictive"}
        for k, part in enumerate(self.parts):
            if part.parent_free:
                free[k] = log_weights[k] + getattr(part, f"_{name}_child")(children)
            else:
                bound[k] = log_weights[k] + getattr(part, pairs[name])(children, parents)
        total = np.full((len(children), 1), -np.inf)
        if free:
            total = np.logaddexp.reduce(list(free.values()))[:, None]
        for matrix in bound.values():
            total = np.logaddexp(total, matrix)
        return free, bound, total

    def _expected_joint(
        self, children: Array, parents: Array
    ) -> tuple[dict[int, Array], dict[int, Array], Array]:
        log_weights = expected_logs(self.counts + self._prior_counts)
        return self._joint(children, parents, log_weights, "expected_log")

    def _expected_log_conditional(self, children: Array, parents: Array) -> Array:
        total = self._expected_joint(children, parents)[2]
        return np.array(np.broadcast_to(total, (len(children), len(parents))))

    def _expected_log_child(self, children: Array) -> Array:
        return self._expected_joint(children, children[:1])[2][:, 0]

    def _predictive_joint(self, children: Array, parents: Array) -> Array:
        return self._joint(children, parents, np.log(self.weights), "log_predictive")[2]

    def _log_predictive(self, children: Array, parents: Array) -> Array:
        total = self._predictive_joint(children, parents)
        return np.array(np.broadcast_to(total, (len(children), len(parents))))

    def _log_predictive_child(self, children: Array) -> Array:
        return self._predictive_joint(children, children[:1])[:, 0]

    def _log_root(self, X: Array) -> Array:
        logs = np.stack([part._log_root(X) for part in self.parts])
        return logsumexp(logs, axis=0) - np.log(len(self.parts))

    # Statistics --------------------------------------------------------------------------------

    @property
    def statistics(self) -> Array:
        """Expected edges of each component, then the components' statistics."""
        return np.concatenate([self.counts, *[part.statistics for part in self.parts]])

    def _statistics_of_children(self, children: Array, weights: Array) -> Array:
        return self._statistics_of(children, children[:1], weights[:, None])

    def _shared(self, children: Array, parents: Array, weights: Array) -> list[Array]:
        """Return each part's share of the weights: by child if it ignores parents, else by pair."""
        free, bound, total = self._expected_joint(children, parents)
        reached = np.where(np.isneginf(total), 0.0, total)  # impossible pairs have no shares
        shares: dict[int, Array] = {}
        if free:
            log_free = np.logaddexp.reduce(list(free.values()))
            by_child = (weights * np.exp(log_free[:, None] - reached)).sum(axis=1)
            split = np.where(np.isneginf(log_free), 0.0, log_free)
            shares = {k: by_child * np.exp(value - split) for k, value in free.items()}
        for k, value in bound.items():
            shares[k] = weights * np.exp(value - reached)
        return [shares[k] for k in range(len(self.parts))]

    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array:
        shares = self._shared(children, parents, weights)
        counts = np.array([share.sum() for share in shares])
        blocks = [
            part._statistics_of_children(children, share)
            if part.parent_free
            else part._statistics_of(children, parents, share)
            for part, share in zip(self.parts, shares, strict=True)
        ]
        return np.concatenate([counts, *blocks])

    def _with_statistics(self, statistics: Array) -> Self:
        sizes = [len(self.parts), *[len(part.statistics) for part in self.parts]]
        counts, *blocks = np.split(statistics, np.cumsum(sizes)[:-1])
        if not (counts + self._prior_counts > 0).all():
            raise ValueError(f"MixturePosterior expects counts >= 0, but got {counts.min():g}.")
        parts = [p._with_statistics(b) for p, b in zip(self.parts, blocks, strict=True)]
        return replace(self, parts=tuple(parts), counts=counts)

    # Divergence and draws ----------------------------------------------------------------------

    def _kl(self) -> float:
        prior = self._prior_counts
        return dirichlet_kl(self.counts + prior, prior) + sum(part._kl() for part in self.parts)

    def _draw(self, rng: np.random.Generator, root_record: Array | None) -> MixtureMutation:
        K = len(self.parts)
        # Gamma variates in logs: a component with hardly any weight underflows otherwise.
        shapes = self.counts + self._prior_counts
        log_gammas = np.log(rng.standard_gamma(shapes + 1.0)) + np.log(rng.random(K)) / shapes
        log_weights = log_gammas - logsumexp(log_gammas)
        owners = np.full(K, -np.log(K))
        if root_record is not None:
            owners = np.array([part._log_root(root_record[None])[0] for part in self.parts])
        root_weights = np.exp(owners - logsumexp(owners))
        parts = tuple(part._draw(rng, root_record) for part in self.parts)
        return replace(
            MixtureMutation(components=parts),
            parts=parts,
            log_weights=log_weights,
            root_weights=root_weights / root_weights.sum(),
        )

    def _log_prior_ratio(self, mutation: MixtureMutation) -> float:
        prior = self._prior_counts
        # In logs: Π w^(prior − counts) of weights that may be too small for a double.
        weights = dirichlet_log_ratio(np.ones_like(prior), prior, self.counts + prior)
        weights -= float(self.counts @ mutation.log_weights)
        pairs = zip(self.parts, mutation.parts, strict=True)
        return weights + sum(part._log_prior_ratio(theta) for part, theta in pairs)

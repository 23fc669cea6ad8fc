"""Mixtures: children that come from their parent, and children that come from nowhere."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import log_softmax, logsumexp

from outtrees._common.arguments import check_count, check_number, check_option
from outtrees._common.edges import EdgeList, Ints
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.base import Change, Mutation, named_parts
from outtrees.models.covariance import COVARIANCES, InverseWishart, column_scales
from outtrees.models.normal import GaussianMutation, GaussianPosterior
from outtrees.models.posterior import Posterior
from outtrees.models.priors import (
    dirichlet_kl,
    dirichlet_log_ratio,
    draw_dirichlet_logs,
    expected_logs,
)
from outtrees.models.regression import GaussianPrior
from outtrees.models.tables import part_of


class Mixed(Change):
    """What mixtures of mutations and of posteriors share: their components, and who made what.

    A mixture is a frozen dataclass with the fields below; `parts` are the started components.
    """

    _family: ClassVar[type]  # what components are
    _gaussian: ClassVar[Any]  # the family's Gaussian, of which default components are made
    components: Any
    n_iid: int
    n_local: int
    local: Any
    covariance: str
    prior_strength: float
    reg_covar: float
    parts: Any

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_count(owner, "n_iid", self.n_iid, 0)
        check_count(owner, "n_local", self.n_local, 0)
        check_option(owner, "covariance", self.covariance, COVARIANCES)
        check_number(owner, "reg_covar", self.reg_covar, 0)
        named = [] if self.local is None else [("local", self.local)]
        named += [("components", c) for c in self.components or []]
        for name, value in named:
            if not isinstance(value, self._family):
                word = self._family.__name__.lower()
                raise ValueError(f"{owner} expects {word}s in {name}; got {value!r}.")
        empty = self.n_iid + self.n_local == 0 if self.components is None else not self.components
        if empty:
            raise ValueError(
                f"{owner} expects at least one component, but there is none; set n_iid or n_local."
            )

    def _templates(self) -> list[Any]:
        if self.components is not None:
            return list(self.components)
        options: dict[str, Any] = {
            "covariance": self.covariance,
            "prior_strength": self.prior_strength,
            "reg_covar": self.reg_covar,
        }
        cloud = self._gaussian(transition="zero", **options)
        local = self.local or self._gaussian(transition="identity", **options)
        return [cloud] * self.n_iid + [local] * self.n_local

    def _clouds(self, templates: list[Any]) -> tuple[list[int], list[int]]:
        """Return which components are Gaussians that ignore the parent, and which others."""
        clouds = [
            k for k, t in enumerate(templates) if isinstance(t, self._gaussian) and t.parent_free
        ]
        return clouds, [k for k in range(len(templates)) if k not in clouds]

    def _started_others(
        self, templates: list[Any], others: list[int], X: Array, rng: np.random.Generator
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number of each component that is no cloud, and the component started.

        Copies have less and less noise: equal components would stay equal through every step.
        """
        for repeat, k in enumerate(others):
            part = templates[k].start(X, rng)
            if self.components is None and repeat:
                part = part._narrowed(4.0**-repeat)
            if part is None:
                family = self._family.__name__.lower()
                raise ValueError(
                    f"{type(self).__name__} expects n_local=1 for {type(templates[k]).__name__}, "
                    f"whose copies would all start alike; give different {family}s in components "
                    "instead."
                )
            yield k, part

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

    def _joint(
        self,
        children: Array,
        parents: Array,
        log_weights: Array,  # (K,)
        of_pairs: str,  # the components' method for pairs
    ) -> Joint:
        """Return log weight_k + log p_k of all components, and the log of the sum."""
        free, bound = {}, {}
        for k, part in enumerate(self.parts):
            if part.parent_free:
                free[k] = log_weights[k] + getattr(part, of_pairs)(children, parents[:1])[:, 0]
            else:
                bound[k] = log_weights[k] + getattr(part, of_pairs)(children, parents)
        total = np.full((len(children), 1), -np.inf)
        if free:
            total = logsumexp(np.stack(list(free.values())), axis=0)[:, None]
        for matrix in bound.values():
            total = np.logaddexp(total, matrix)
        return Joint(free, bound, total)


class Joint(NamedTuple):
    """Log-probabilities of pairs and of the component that made them."""

    free: dict[int, Array]  # (n,) of components that ignore the parent
    bound: dict[int, Array]  # (n, m) of the others
    total: Array  # (n, m), or (n, 1) where all ignore the parent

    def of_pairs(self, n_parents: int) -> Array:
        """Return the log of the sum over components, (n, m)."""
        return np.array(np.broadcast_to(self.total, (len(self.total), n_parents)))

    def shares(self, weights: Array) -> list[Array]:
        """Return each one's share of weights (n, m): (n, 1) if it ignores parents, else (n, m).

        All components that ignore the parent together cost one exponential of a matrix.
        """
        found: dict[int, Array] = {}
        if self.free:
            log_free = logsumexp(np.stack(list(self.free.values())), axis=0)
            by_child = (weights * part_of(log_free[:, None], self.total)).sum(axis=1)
            for k, value in self.free.items():
                found[k] = (by_child * part_of(value, log_free))[:, None]
        for k, value in self.bound.items():
            found[k] = weights * part_of(value, self.total)
        return [found[k] for k in range(len(found))]


# Of mutations --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class MixtureMutation(Mixed, Mutation):
    """p(child | parent) = Σ_k weight_k p_k(child | parent).

    Components that ignore the parent are a Gaussian mixture, a component around the parent is a
    Parzen window; together they are everything between the two.

    Parameters
    ----------
    components : sequence of mutations, optional
        What is mixed. By default n_iid Gaussians with transition="zero" and n_local copies of
        `local`.
    n_iid, n_local : int
        Used if components is None.
    local : Mutation, optional
        By default GaussianMutation(covariance, transition="identity"). Copies after the first
        start at half the standard deviation of the one before.
    covariance : {"full", "diag", "spherical"}
        For the Gaussians that are made from n_iid and n_local.
    weight_concentration : float >= 1
        The Dirichlet prior of the weights, (weight_concentration − 1) Σ_k log weight_k.
    prior_strength, reg_covar : float
        As in GaussianMutation, for the Gaussians made here. The prior mode of the k-th of K iid
        Gaussians is the covariance of the data times K^(−2/D): K of them fill the same volume.
    n_init : int
        How often scikit-learn's GaussianMixture is tried by `start`.

    Notes
    -----
    `start` fits scikit-learn's GaussianMixture to the Gaussians with transition="zero" and gives
    them half of the weight, or all of it if there are no others. The root's density is that
    mixture, kept as it is; without such components it is the average of the components' root
    densities.

    `refit` is one step of EM over the hidden component of each pair. All components that ignore
    the parent together cost one vector of length T beside the T × T matrices of the others.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> mutation = MixtureMutation(n_iid=2, n_local=1).start(X, random_state=0)
    >>> [part.transition for part in mutation.parts], mutation.weights[2]
    (['zero', 'zero', 'identity'], np.float64(0.5))
    """

    _family = Mutation
    _gaussian = GaussianMutation
    components: Sequence[Mutation] | None = None
    n_iid: int = 1
    n_local: int = 1
    local: Mutation | None = None
    covariance: str = "full"
    weight_concentration: float = 2.0
    prior_strength: float = 1.0
    reg_covar: float = 1e-6
    n_init: int = 1
    _: KW_ONLY
    parts: Any = field(default=None, repr=False)  # K mutations with parameters
    log_weights: Any = field(default=None, repr=False)  # (K,)
    root_weights: Any = field(default=None, repr=False)  # (K,), of the parts' root densities

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        check_count(owner, "n_init", self.n_init, 1)
        check_number(owner, "weight_concentration", self.weight_concentration, 1)
        check_number(owner, "prior_strength", self.prior_strength, 0)

    # Start -----------------------------------------------------------------------------------

    def _start(self, X: Array, random_state: Any) -> Self:
        templates = self._templates()
        iid, others = self._clouds(templates)
        weights, root_weights = np.zeros(len(templates)), np.zeros(len(templates))
        parts = list(templates)
        if iid:
            fitted, gaussians = fit_iid_components(
                X,
                [templates[k] for k in iid],
                reg_covar=self.reg_covar,
                n_init=self.n_init,
                random_state=random_state,
            )
            root_weights[iid] = fitted
            weights[iid] = fitted * (0.5 if others else 1.0)
            for k, part in zip(iid, gaussians, strict=True):
                parts[k] = part
        rng = as_generator(random_state)
        for k, part in self._started_others(templates, others, X, rng):
            parts[k] = part
        if others:
            weights[others] = (0.5 if iid else 1.0) / len(others)
        if not iid:
            root_weights[:] = 1.0 / len(templates)
        with np.errstate(divide="ignore"):  # scikit-learn may leave a component empty
            log_weights = np.log(weights)
        return replace(self, parts=tuple(parts), log_weights=log_weights, root_weights=root_weights)

    @property
    def weights(self) -> Array:
        """The probability of each component, shape (K,)."""
        self._require_started()
        return np.asarray(np.exp(self.log_weights))

    def _named(self) -> dict[str, Array]:
        return {"weights": self.weights} | named_parts(self.parts)

    # Densities and samples ---------------------------------------------------------------------

    def _log_joint(self, children: Array, parents: Array) -> Joint:
        return self._joint(children, parents, self.log_weights, "_log_conditional")

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        return self._log_joint(children, parents).of_pairs(len(parents))

    def _log_by_class(self, X: Array, weights: Array, records: Array) -> Array:
        return np.asarray(self.parts[0]._log_by_class(X, weights, records))

    def _log_edges(self, children: Array, parents: Array, child: Ints, parent: Ints) -> Array:
        result = self._log_excess(children, parents, child, parent)
        log_f = self._log_anywhere(children)
        return result if log_f is None else np.logaddexp(result, log_f[child])

    def _log_anywhere(self, children: Array) -> Array | None:
        shares = [part._log_anywhere(children) for part in self.parts]
        weighed = zip(self.log_weights, shares, strict=True)
        free = [w + share for w, share in weighed if share is not None and w > -np.inf]
        return logsumexp(np.stack(free), axis=0) if free else None

    def _log_excess(self, children: Array, parents: Array, child: Ints, parent: Ints) -> Array:
        result = np.full(len(child), -np.inf)
        for log_weight, part in zip(self.log_weights, self.parts, strict=True):
            if not part.parent_free:
                log_e = log_weight + part._log_excess(children, parents, child, parent)
                result = np.logaddexp(result, log_e)
        return result

    def _embeddings(self, children: Array, parents: Array) -> list[tuple[Array, Array]] | None:
        result: list[tuple[Array, Array]] = []
        for part in self.parts:
            spaces = part._embeddings(children, parents)
            if spaces is None:
                return None
            result += spaces
        return result

    def _log_root(self, X: Array) -> Array:
        used = np.flatnonzero(self.root_weights > 0)
        logs = [np.log(self.root_weights[k]) + self.parts[k]._log_root(X) for k in used]
        return np.asarray(logsumexp(np.stack(logs), axis=0))

    def _sample(self, parents: Array, rng: np.random.Generator) -> Array:
        chosen = rng.choice(len(self.parts), size=len(parents), p=_normalised(self.weights))
        result = np.empty_like(parents)
        for k, part in enumerate(self.parts):
            if (chosen == k).any():
                result[chosen == k] = part._sample(parents[chosen == k], rng)
        return result

    def _sample_root(self, n: int, rng: np.random.Generator) -> Array:
        chosen = rng.choice(len(self.parts), size=n, p=_normalised(self.root_weights))
        result = np.empty((n, self.n_features or 0))
        for k, part in enumerate(self.parts):
            if (chosen == k).any():
                result[chosen == k] = part._sample_root(int((chosen == k).sum()), rng)
        return result

    # Learning ----------------------------------------------------------------------------------

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        shares = self._log_joint(X, X).shares(edge_marginals)
        parts = [part._refit(X, share) for part, share in zip(self.parts, shares, strict=True)]
        return self._reweighed(parts, [share.sum() for share in shares])

    def _reweighed(
        self, parts: list[Mutation], sums: list[float], rng: np.random.Generator | None = None
    ) -> Self:
        """Return the mixture of these parts, with the weights that these sums of shares give.

        With `rng` the weights are drawn from their Dirichlet law.
        """
        if rng is not None:
            drawn = rng.dirichlet(np.array(sums) + self.weight_concentration)
            return replace(self, parts=tuple(parts), log_weights=np.log(drawn))
        counts = np.array(sums) + self.weight_concentration - 1.0
        if counts.sum() <= 0:
            return self
        with np.errstate(divide="ignore"):
            log_weights = np.log(np.maximum(counts, 0.0)) - np.log(counts.sum())
        return replace(self, parts=tuple(parts), log_weights=log_weights)

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        shares = self._log_joint(X, X).shares(edge_marginals)
        by_parts = [part._gradient(X, s) for part, s in zip(self.parts, shares, strict=True)]
        return np.concatenate([self._by_logits([share.sum() for share in shares]), *by_parts])

    def _by_logits(self, sums: list[float]) -> Array:
        counts = np.array(sums) + self.weight_concentration - 1.0
        return np.asarray((counts - counts.sum() * self.weights)[1:])

    def _split_shares(
        self, X: Array, edges: EdgeList, excess: Array, anywhere: Array | None
    ) -> tuple[list[tuple[Array, Array | None]], list[float]]:
        """Return each part's share of the weights of log e and of log f, and their sums."""
        log_e = self._log_excess(X, X, edges.child, edges.parent)
        log_f = self._log_anywhere(X)
        shares: list[tuple[Array, Array | None]] = []
        for log_weight, part in zip(self.log_weights, self.parts, strict=True):
            log_part = part._log_excess(X, X, edges.child, edges.parent)
            bound = excess * part_of(log_weight + log_part, log_e)
            free = part._log_anywhere(X)
            if free is not None:
                if anywhere is None or log_f is None:  # all such parts have weight zero
                    free = 0.0 * free
                else:
                    free = anywhere * part_of(log_weight + free, log_f)
            shares.append((bound, free))
        sums = [float(b.sum()) + (0.0 if f is None else float(f.sum())) for b, f in shares]
        return shares, sums

    def _refit_split(
        self, X: Array, edges: EdgeList, excess: Array, anywhere: Array | None
    ) -> Self:
        shares, sums = self._split_shares(X, edges, excess, anywhere)
        pairs = zip(self.parts, shares, strict=True)
        return self._reweighed([part._refit_split(X, edges, *s) for part, s in pairs], sums)

    def _gradient_split(
        self, X: Array, edges: EdgeList, excess: Array, anywhere: Array | None
    ) -> Array:
        shares, sums = self._split_shares(X, edges, excess, anywhere)
        pairs = zip(self.parts, shares, strict=True)
        by_parts = [part._gradient_split(X, edges, *s) for part, s in pairs]
        return np.concatenate([self._by_logits(sums), *by_parts])

    def _params(self) -> Array:
        logits = self.log_weights[1:] - self.log_weights[0]
        return np.concatenate([logits, *[part.params for part in self.parts]])

    def _with_params(self, params: Array) -> Self:
        sizes = [len(self.parts) - 1, *[part.n_parameters for part in self.parts]]
        logits, *vectors = np.split(params, np.cumsum(sizes)[:-1])
        parts = [part.with_params(v) for part, v in zip(self.parts, vectors, strict=True)]
        log_weights = log_softmax(np.concatenate([[0.0], logits]))
        return replace(self, parts=tuple(parts), log_weights=log_weights)

    def _log_prior(self) -> float:
        result = sum(part.log_prior() for part in self.parts)
        if self.weight_concentration > 1:
            result += (self.weight_concentration - 1.0) * float(self.log_weights.sum())
        return float(result)


def _normalised(weights: Array) -> Array:
    return np.asarray(weights / weights.sum())  # rng.choice is strict about rounding


def fit_iid_components(
    X: Array,  # (T, D)
    templates: Sequence[GaussianMutation],
    *,
    reg_covar: float,
    n_init: int,
    random_state: Any,
) -> tuple[Array, list[GaussianMutation]]:
    """Return the weights and components of a Gaussian mixture fitted to independent records.

    The prior mode of each of the K covariances is the covariance of the data times K^(−2/D).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> weights, parts = fit_iid_components(
    ...     X, [GaussianMutation(transition="zero")] * 2, reg_covar=1e-6, n_init=1, random_state=0
    ... )
    >>> round(float(weights.sum()), 12), len(parts)
    (1.0, 2)
    """
    from sklearn.exceptions import ConvergenceWarning  # slow to load
    from sklearn.mixture import GaussianMixture

    (T, D), K = X.shape, len(templates)
    kinds = sorted({template.covariance for template in templates})
    if len(kinds) > 1:
        raise ValueError(
            "MixtureMutation expects one covariance option for all components with "
            f"transition='zero'; got {kinds}. Choose one."
        )
    if T < K:
        raise ValueError(
            f"MixtureMutation expects at least one record for each of its {K} iid components, but "
            f"X has {T}; use fewer components."
        )
    seed = random_state
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**31))
    # In units of the columns' spread, for k-means, which starts it, compares lengths; but clouds
    # as wide in every column are round in the units given.
    scales = column_scales(X)
    if kinds[0] == "spherical":
        scales = np.full(D, scales.mean())
    spread, centre = np.sqrt(scales), X.mean(axis=0)
    model = GaussianMixture(
        K,
        covariance_type=kinds[0],
        reg_covar=reg_covar,
        n_init=n_init,
        max_iter=200,
        random_state=seed,
    )
    with warnings.catch_warnings():  # refits follow: the start need not be converged
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit((X - centre) / spread)
    parts = []
    for template, place, value in zip(templates, model.means_, model.covariances_, strict=True):
        cov = value if kinds[0] == "full" else np.diag(np.broadcast_to(value, (D,)))
        mean, cov = centre + spread * place, spread[:, None] * cov * spread
        part = template.start(X)
        prior_cov = None if part.prior_cov is None else part.prior_cov * K ** (-2.0 / D)
        part = replace(part, root_mean=mean, root_cov=cov, offset=mean, mutation_cov=cov)
        parts.append(replace(part, prior_cov=prior_cov))
    return model.weights_, parts


# Of posteriors --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class MixturePosterior(Mixed, Posterior):
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

    _family = Posterior
    _gaussian = GaussianPosterior
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
        super().__post_init__()
        owner, name = type(self).__name__, "weight_concentration_prior"
        check_number(owner, "prior_strength", self.prior_strength, 0, open_low=True)
        if self.weight_concentration_prior is not None:
            check_number(owner, name, self.weight_concentration_prior, 0, open_low=True)

    # Start -----------------------------------------------------------------------------------

    def _start(self, X: Array, random_state: Any) -> Self:
        templates = self._templates()
        clouds, others = self._clouds(templates)
        rng = as_generator(random_state)
        parts: list[Any] = list(templates)
        counts = np.zeros(len(templates))
        edges = len(X) - 1.0
        if clouds:
            share = 0.5 if others else 1.0
            started = clouds_at(X, [templates[k] for k in clouds], share, rng)
            for k, (part, count) in zip(clouds, started, strict=True):
                parts[k], counts[k] = part, count
        for k, part in self._started_others(templates, others, X, rng):
            share = (0.5 if clouds else 1.0) / len(others)
            parts[k], counts[k] = part._with_statistics(share * part.statistics), share * edges
        return replace(self, parts=tuple(parts), counts=counts)

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
        return np.asarray(total / total.sum())

    # Densities ---------------------------------------------------------------------------------

    def _expected(self, children: Array, parents: Array) -> Joint:
        log_weights = expected_logs(self.counts + self._prior_counts)
        return self._joint(children, parents, log_weights, "_expected_log_conditional")

    def _predictive(self, children: Array, parents: Array) -> Joint:
        return self._joint(children, parents, np.log(self.weights), "_log_predictive")

    def _expected_log_conditional(self, children: Array, parents: Array) -> Array:
        return self._expected(children, parents).of_pairs(len(parents))

    def _log_predictive(self, children: Array, parents: Array) -> Array:
        return self._predictive(children, parents).of_pairs(len(parents))

    def _log_root(self, X: Array) -> Array:
        logs = np.stack([part._log_root(X) for part in self.parts])
        return np.asarray(logsumexp(logs, axis=0) - np.log(len(self.parts)))

    # Statistics --------------------------------------------------------------------------------

    @property
    def statistics(self) -> Array:
        """Expected edges of each component, then the components' statistics."""
        return np.concatenate([self.counts, *[part.statistics for part in self.parts]])

    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array:
        shares = self._expected(children, parents).shares(weights)
        counts = np.array([share.sum() for share in shares])
        pairs = zip(self.parts, shares, strict=True)
        blocks = [part._statistics_of(children, parents, share) for part, share in pairs]
        return np.concatenate([counts, *blocks])

    def _with_statistics(self, statistics: Array) -> Self:
        sizes = [len(self.parts), *[len(part.statistics) for part in self.parts]]
        counts, *blocks = np.split(statistics, np.cumsum(sizes)[:-1])
        if not (counts + self._prior_counts > 0).all():
            raise ValueError(f"MixturePosterior expects counts >= 0; got {counts.min():g}.")
        parts = [p._with_statistics(b) for p, b in zip(self.parts, blocks, strict=True)]
        return replace(self, parts=tuple(parts), counts=counts)

    # Divergence and draws ----------------------------------------------------------------------

    def _kl(self) -> float:
        prior = self._prior_counts
        return float(
            dirichlet_kl(self.counts + prior, prior) + sum(part._kl() for part in self.parts)
        )

    def _draw(self, rng: np.random.Generator, root_record: Array | None) -> MixtureMutation:
        K = len(self.parts)
        log_weights = draw_dirichlet_logs(self.counts + self._prior_counts, rng)
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
        return float(weights + sum(part._log_prior_ratio(theta) for part, theta in pairs))


def clouds_at(
    X: Array,  # (T, D)
    templates: Sequence[GaussianPosterior],
    share: float,
    rng: np.random.Generator,
) -> list[tuple[GaussianPosterior, float]]:
    """Return each cloud after its cluster's records with weight `share` each, and their number.

    Clusters are those of k-means on standardised columns. The defaults of Ψ₀ and κ are divided by
    K^(2/D), so that K clouds fill the volume of one.
    """
    from sklearn.cluster import KMeans  # slow to load
    from sklearn.exceptions import ConvergenceWarning

    (T, D), K = X.shape, len(templates)
    if T < K:
        raise ValueError(
            f"MixturePosterior expects at least one record for each of its {K} clouds, but X has "
            f"{T}; use fewer components."
        )
    scaled = (X - X.mean(axis=0)) / np.sqrt(column_scales(X))
    with warnings.catch_warnings():  # fewer distinct records than clusters: some clouds are empty
        warnings.simplefilter("ignore", ConvergenceWarning)
        seed = int(rng.integers(2**31))
        labels = KMeans(K, n_init=1, random_state=seed).fit(scaled).labels_
    result = []
    for k, template in enumerate(templates):
        part = template.start(X)
        part = replace(part, prior_=_smaller(part, K ** (-2.0 / D)))
        weights = np.where(labels == k, share, 0.0)
        result.append((part._update(X, weights[:, None]), float(weights.sum())))
    return result


def _smaller(part: GaussianPosterior, volume: float) -> GaussianPrior:
    """Return the prior of a cloud of that volume whose mean is as uncertain as before.

    Means have covariance S / κ, so where S shrinks κ does too: else a small cloud far from the
    centre would pay for its distance with a wide covariance.
    """
    prior: GaussianPrior = part.prior_
    if part.covariance_prior is None:
        noise = prior.noise
        noise = InverseWishart(noise.kind, noise.dof, noise.scatter * volume)
        prior = replace(prior, noise=noise)
    if part.mean_precision_prior is None:
        prior = replace(prior, gram=prior.gram * volume)
    return prior

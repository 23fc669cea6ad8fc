"""Mixture mutation: children that come from their parent, and children that come from nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.special import log_softmax, logsumexp

from outtrees._common.arguments import check_count, check_number, check_option
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.base import Mutation
from outtrees.models.covariance import COVARIANCES
from outtrees.models.edges import EdgeList, Ints
from outtrees.models.gaussian import GaussianMutation
from outtrees.models.gmm import fit_iid_components


@dataclass(frozen=True, eq=False, repr=False)
class MixtureMutation(Mutation):
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
        owner = type(self).__name__
        check_count(owner, "n_iid", self.n_iid, 0)
        check_count(owner, "n_local", self.n_local, 0)
        check_count(owner, "n_init", self.n_init, 1)
        check_option(owner, "covariance", self.covariance, COVARIANCES)
        check_number(owner, "weight_concentration", self.weight_concentration, 1)
        check_number(owner, "prior_strength", self.prior_strength, 0)
        check_number(owner, "reg_covar", self.reg_covar, 0)
        named = [] if self.local is None else [("local", self.local)]
        named += [("components", c) for c in self.components or []]
        for name, value in named:
            if not isinstance(value, Mutation):
                raise ValueError(f"{owner} expects mutations in {name}, but got {value!r}.")
        empty = self.n_iid + self.n_local == 0 if self.components is None else not self.components
        if empty:
            raise ValueError(
                f"{owner} expects at least one component, but there is none; set n_iid or n_local."
            )

    # Start -----------------------------------------------------------------------------------

    def _templates(self) -> list[Mutation]:
        if self.components is not None:
            return list(self.components)
        options: dict[str, Any] = {
            "covariance": self.covariance,
            "prior_strength": self.prior_strength,
            "reg_covar": self.reg_covar,
        }
        iid = GaussianMutation(transition="zero", **options)
        local = self.local or GaussianMutation(transition="identity", **options)
        return [iid] * self.n_iid + [local] * self.n_local

    def _start(self, X: Array, random_state: Any) -> Self:
        templates = self._templates()
        iid = [k for k, t in enumerate(templates) if _is_iid_gaussian(t)]
        others = [k for k in range(len(templates)) if k not in iid]
        weights, root_weights = np.zeros(len(templates)), np.zeros(len(templates))
        parts = list(templates)
        if iid:
            fitted, gaussians = fit_iid_components(
                X,
                [templates[k] for k in iid],  # type: ignore[misc]
                reg_covar=self.reg_covar,
                n_init=self.n_init,
                random_state=random_state,
            )
            root_weights[iid] = fitted
            weights[iid] = fitted * (0.5 if others else 1.0)
            for k, part in zip(iid, gaussians, strict=True):
                parts[k] = part
        rng = as_generator(random_state)
        for repeat, k in enumerate(others):
            part = templates[k].start(X, rng)
            if self.components is None and repeat:
                part = _narrowed(part, 4.0**-repeat)
            parts[k] = part
        if others:
            weights[others] = (0.5 if iid else 1.0) / len(others)
        if not iid:
            root_weights[:] = 1.0 / len(templates)
        with np.errstate(divide="ignore"):  # scikit-learn may leave a component empty
            log_weights = np.log(weights)
        return replace(self, parts=tuple(parts), log_weights=log_weights, root_weights=root_weights)

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.parts is None else self.parts[0].n_features

    @property
    def weights(self) -> Array:
        """The probability of each component, shape (K,)."""
        self._require_started()
        return np.exp(self.log_weights)

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

    # Densities and samples ---------------------------------------------------------------------

    def _log_joint(
        self, children: Array, parents: Array
    ) -> tuple[dict[int, Array], dict[int, Array], Array]:
        """Return log weight_k p_k: (n,) of parent-free parts, (n, m) of others; and their sum."""
        free, bound = {}, {}
        for k, part in enumerate(self.parts):
            if part.parent_free:
                free[k] = self.log_weights[k] + part._log_child(children)
            else:
                bound[k] = self.log_weights[k] + part._log_conditional(children, parents)
        total = np.full((len(children), 1), -np.inf)
        if free:
            total = logsumexp(np.stack(list(free.values())), axis=0)[:, None]
        for matrix in bound.values():
            total = np.logaddexp(total, matrix)
        return free, bound, total

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        total = self._log_joint(children, parents)[2]
        return np.array(np.broadcast_to(total, (len(children), len(parents))))

    def _log_by_class(self, X: Array, weights: Array, records: Array) -> Array:
        return self.parts[0]._log_by_class(X, weights, records)

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

    def _log_child(self, children: Array) -> Array:
        return self._log_joint(children, children)[2][:, 0]

    def _log_root(self, X: Array) -> Array:
        used = np.flatnonzero(self.root_weights > 0)
        logs = [np.log(self.root_weights[k]) + self.parts[k]._log_root(X) for k in used]
        return logsumexp(np.stack(logs), axis=0)

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

    def _shared(self, X: Array, edge_marginals: Array) -> list[Array]:
        """Return each part's share of the weights: by child if it ignores parents, else by pair."""
        free, bound, total = self._log_joint(X, X)
        reached = np.where(np.isneginf(total), 0.0, total)  # impossible pairs have no shares
        shares: dict[int, Array] = {}
        if free:
            # One exponential serves all of them: their total share, then each one's part of it.
            log_free = logsumexp(np.stack(list(free.values())), axis=0)
            by_child = (edge_marginals * np.exp(log_free[:, None] - reached)).sum(axis=1)
            split = np.where(np.isneginf(log_free), 0.0, log_free)
            shares = {k: by_child * np.exp(value - split) for k, value in free.items()}
        for k, value in bound.items():
            shares[k] = edge_marginals * np.exp(value - reached)
        return [shares[k] for k in range(len(self.parts))]

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        return self._refit_shared(X, self._shared(X, edge_marginals))

    def _refit_children(self, X: Array, weights: Array) -> Self:
        return self._refit_shared(X, self._shared(X, weights[:, None]))

    def _refit_shared(self, X: Array, shares: list[Array]) -> Self:
        parts = [
            part._refit_children(X, share) if part.parent_free else part._refit(X, share)
            for part, share in zip(self.parts, shares, strict=True)
        ]
        return self._reweighed(parts, [share.sum() for share in shares])

    def _reweighed(self, parts: list[Mutation], sums: list[float]) -> Self:
        """Return the mixture of these parts, with the weights that these sums of shares give."""
        counts = np.array(sums) + self.weight_concentration - 1.0
        if counts.sum() <= 0:
            return self
        with np.errstate(divide="ignore"):
            log_weights = np.log(np.maximum(counts, 0.0)) - np.log(counts.sum())
        return replace(self, parts=tuple(parts), log_weights=log_weights)

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        return self._gradient_shared(X, self._shared(X, edge_marginals))

    def _gradient_children(self, X: Array, weights: Array) -> Array:
        return self._gradient_shared(X, self._shared(X, weights[:, None]))

    def _gradient_shared(self, X: Array, shares: list[Array]) -> Array:
        by_parts = [
            part._gradient_children(X, share) if part.parent_free else part._gradient(X, share)
            for part, share in zip(self.parts, shares, strict=True)
        ]
        return np.concatenate([self._by_logits([share.sum() for share in shares]), *by_parts])

    def _by_logits(self, sums: list[float]) -> Array:
        counts = np.array(sums) + self.weight_concentration - 1.0
        return (counts - counts.sum() * self.weights)[1:]

    def _split_shares(
        self, X: Array, edges: EdgeList, excess: Array, anywhere: Array | None
    ) -> tuple[list[tuple[Array, Array | None]], list[float]]:
        """Return each part's share of the weights of log e and of log f, and their sums."""
        log_e = self._log_excess(X, X, edges.child, edges.parent)
        log_f = self._log_anywhere(X)
        shares: list[tuple[Array, Array | None]] = []
        for log_weight, part in zip(self.log_weights, self.parts, strict=True):
            log_part = part._log_excess(X, X, edges.child, edges.parent)
            bound = excess * _share(log_weight + log_part, log_e)
            free = part._log_anywhere(X)
            if free is not None:
                nothing = anywhere is None or log_f is None  # all such parts have weight zero
                share = 0.0 * free if nothing else _share(log_weight + free, log_f)
                free = share if nothing else anywhere * share
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
        return result


def _is_iid_gaussian(mutation: Mutation) -> bool:
    return isinstance(mutation, GaussianMutation) and mutation.parent_free


def _narrowed(part: Any, factor: float) -> Any:
    """Return the part with less noise: equal components would stay equal through every refit."""
    if getattr(part, "mutation_cov", None) is None:
        raise ValueError(
            f"MixtureMutation expects n_local=1 for {type(part).__name__}, whose copies would all "
            "start alike; give different mutations in components instead."
        )
    return replace(part, mutation_cov=factor * part.mutation_cov)


def _share(log_part: Array, log_whole: Array) -> Array:
    """Return part / whole, 0 where there is nothing to share."""
    return np.exp(log_part - np.where(np.isneginf(log_whole), 0.0, log_whole))


def _normalised(weights: Array) -> Array:
    return weights / weights.sum()  # rng.choice is strict about rounding

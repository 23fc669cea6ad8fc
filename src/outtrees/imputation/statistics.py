"""Sufficient statistics of pairs of records, and parameters from them: best, or drawn.

`PairStatistics` sums over the pairs of records, averaged over draws of hidden cells. `refit` turns
the sums into a mutation by a rule: `MStep` (EM), or `PosteriorDraw` (chains that draw parameters).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from outtrees._common.types import Array
from outtrees.imputation.model import HiddenModel
from outtrees.models import (
    CategoricalMutation,
    GaussianMutation,
    MixtureMutation,
    ProductMutation,
)
from outtrees.models.base import Mutation
from outtrees.models.covariance import inverse
from outtrees.models.regression import PairMoments
from outtrees.trees.weights import Ints

_NO_DATA = 1e-10  # of the largest: directions in which parents do not vary


@dataclass(frozen=True)
class PairStatistics:
    """All that an M-step needs of the pairs of records, for each kind of link; linear in them."""

    weight: Array  # (K,)
    child_sum: Array  # (K, D)
    parent_sum: Array  # (K, D)
    child_child: Array  # (K, D, D)
    child_parent: Array  # (K, D, D)
    parent_parent: Array  # (K, D, D)
    counts: list[Array]  # (K, C_d, C_d) [child, parent] for each categorical column

    @classmethod
    def zeros(cls, model: HiddenModel) -> Self:
        """Return the statistics of no pair at all."""
        K, D = model.n_kinds, len(model.continuous)
        return cls(
            weight=np.zeros(K),
            child_sum=np.zeros((K, D)),
            parent_sum=np.zeros((K, D)),
            child_child=np.zeros((K, D, D)),
            child_parent=np.zeros((K, D, D)),
            parent_parent=np.zeros((K, D, D)),
            counts=[np.zeros((K, len(names), len(names))) for names in model.levels],
        )

    @classmethod
    def of(cls, model: HiddenModel, X: Array, edge_marginals: Array, shares: list[Array]) -> Self:
        """Return the statistics of complete records, W_uv of the tree times the kind's share."""
        found = cls.zeros(model)
        Y = X[:, model.continuous]
        codes = X[:, model.categorical].astype(np.intp)
        ones = [np.eye(len(names))[codes[:, d]] for d, names in enumerate(model.levels)]
        for k, share in enumerate(shares):
            W = edge_marginals * share
            by_child, by_parent = W.sum(axis=1), W.sum(axis=0)
            found.weight[k] = by_child.sum()
            found.child_sum[k] = by_child @ Y
            found.parent_sum[k] = by_parent @ Y
            found.child_child[k] = (Y.T * by_child) @ Y
            found.child_parent[k] = Y.T @ (W @ Y)
            found.parent_parent[k] = (Y.T * by_parent) @ Y
            for counts, one in zip(found.counts, ones, strict=True):
                counts[k] = one.T @ (W @ one)
        return found

    @classmethod
    def of_tree(
        cls,
        model: HiddenModel,
        X: Array,
        parents: Ints,  # (T,)
        kinds: Ints,  # (T,)
        weights: Array,  # (T,) of the link above each record
    ) -> Self:
        """Return the statistics of complete records on one tree with known kinds of links."""
        found = cls.zeros(model)
        for k in range(model.n_kinds):
            rows = np.flatnonzero((kinds == k) & (parents >= 0))
            child, parent, w = X[rows], X[parents[rows]], weights[rows]
            Y, V = child[:, model.continuous], parent[:, model.continuous]
            found.weight[k] = w.sum()
            found.child_sum[k] = w @ Y
            found.parent_sum[k] = w @ V
            found.child_child[k] = (Y.T * w) @ Y
            found.child_parent[k] = (Y.T * w) @ V
            found.parent_parent[k] = (V.T * w) @ V
            for counts, c in zip(found.counts, model.categorical, strict=True):
                pair = (child[:, c].astype(np.intp), parent[:, c].astype(np.intp))
                np.add.at(counts[k], pair, w)
        return found

    def towards(self, other: PairStatistics, gain: float) -> PairStatistics:
        """Return (1 − gain) · self + gain · other."""

        def mixed(mine: Array, theirs: Array) -> Array:
            return mine + gain * (theirs - mine)

        names = ("weight", "child_sum", "parent_sum", "child_child", "child_parent")
        values = {n: mixed(getattr(self, n), getattr(other, n)) for n in (*names, "parent_parent")}
        counts = [mixed(a, b) for a, b in zip(self.counts, other.counts, strict=True)]
        return PairStatistics(**values, counts=counts)

    def moments(self, k: int, at: list[int]) -> PairMoments:
        """Return the moments of kind k on some of the continuous columns."""
        inner = np.ix_(at, at)
        return PairMoments(
            weight=float(self.weight[k]),
            centre=np.zeros(len(at)),
            child_sum=self.child_sum[k, at],
            parent_sum=self.parent_sum[k, at],
            child_child=self.child_child[k][inner],
            child_parent=self.child_parent[k][inner],
            parent_parent=self.parent_parent[k][inner],
        )


class Rule(Protocol):
    """How parameters follow from statistics, one kind of mutation at a time."""

    def gaussian(self, part: GaussianMutation, moments: PairMoments) -> GaussianMutation:
        """Return the Gaussian mutation for these moments of pairs."""

    def tables(self, part: CategoricalMutation, counts: list[Array]) -> CategoricalMutation:
        """Return the categorical mutation for these counts of pairs, (C, C) for each column."""

    def log_weights(self, mixture: MixtureMutation, totals: Array) -> Array:
        """Return the log weights of the components for these totals of pairs, (K,)."""


class MStep:
    """The maximum of Σ W E[log p(x_u | x_v)] + log_prior."""

    def gaussian(self, part: GaussianMutation, moments: PairMoments) -> GaussianMutation:
        """Return the maximum, joint in all its parameters where there is a closed form."""
        return part._refit_moments(moments)

    def tables(self, part: CategoricalMutation, counts: list[Array]) -> CategoricalMutation:
        """Return the maximum, column by column.

        The categories themselves, each once, are records whose pairs have the counts as weights.
        """
        alone = [
            one._refit(one.levels[0][:, None], weights)
            for one, weights in zip(single_columns(part), counts, strict=True)
        ]
        return with_columns(part, alone)

    def log_weights(self, mixture: MixtureMutation, totals: Array) -> Array:
        """Return the maximum under the Dirichlet prior."""
        counts = np.maximum(totals + mixture.weight_concentration - 1.0, 0.0)
        with np.errstate(divide="ignore"):  # a component may be left empty
            return np.asarray(np.log(counts) - np.log(counts.sum()))


def refit(model: HiddenModel, statistics: PairStatistics, rule: Rule | None = None) -> Mutation:
    """Return the mutation with the parameters that the rule finds; by default an M-step."""
    return _refit(model.mutation, model, statistics, rule or MStep(), 0)[0]


def _refit(
    mutation: Any, model: HiddenModel, statistics: PairStatistics, rule: Rule, k: int
) -> tuple[Mutation, int]:
    """Return the mutation refitted to the kinds from k on, and the first kind after them."""
    if not isinstance(mutation, MixtureMutation):
        columns = list(range(mutation.n_features))
        return _refit_kind(mutation, model, statistics, rule, k, columns), k + 1
    parts, totals = [], []
    for part in mutation.parts:
        fitted, end = _refit(part, model, statistics, rule, k)
        parts.append(fitted)
        totals.append(statistics.weight[k:end].sum())
        k = end
    log_weights = rule.log_weights(mutation, np.array(totals))
    return replace(mutation, parts=tuple(parts), log_weights=log_weights), k


def _refit_kind(
    mutation: Any,
    model: HiddenModel,
    statistics: PairStatistics,
    rule: Rule,
    k: int,
    columns: list[int],
) -> Mutation:
    if isinstance(mutation, GaussianMutation):
        at = [model.continuous.index(c) for c in columns]
        return rule.gaussian(mutation, statistics.moments(k, at))
    if isinstance(mutation, ProductMutation):
        parts = [
            _refit_kind(part, model, statistics, rule, k, [columns[c] for c in own])
            for part, own in zip(mutation.parts, mutation._columns, strict=True)
        ]
        return replace(mutation, parts=tuple(parts))
    at = [model.categorical.index(c) for c in columns]
    return rule.tables(mutation, [statistics.counts[d][k] for d in at])


def single_columns(mutation: CategoricalMutation) -> list[CategoricalMutation]:
    """Return one categorical mutation for each column."""
    full = mutation.kind == "full"
    return [
        replace(
            mutation,
            levels=mutation.levels[d : d + 1],
            marginals=mutation.marginals[d : d + 1],
            stickiness=None if full else mutation.stickiness[d : d + 1],
            full_matrices=mutation.full_matrices[d : d + 1] if full else None,
        )
        for d in range(len(mutation.levels))
    ]


def with_columns(
    mutation: CategoricalMutation, alone: list[CategoricalMutation]
) -> CategoricalMutation:
    """Return the categorical mutation with the parameters of those for its single columns."""
    if mutation.kind == "full":
        return replace(mutation, full_matrices=tuple(one.full_matrices[0] for one in alone))
    return replace(mutation, stickiness=np.array([one.stickiness[0] for one in alone]))


def draw_covariance(
    scatter: Array,  # (D, D), the prior's included
    degrees: float,
    kind: str,
    rng: np.random.Generator,
) -> Array:
    """Return a covariance from its inverse-Wishart law with that scatter and those degrees.

    Fewer than D + 2 degrees have no mean; they count as D + 2. "diag" and "spherical"
    covariances have independent, or one, inverse chi-square laws instead.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draws = [draw_covariance(np.eye(2) * 97.0, 100, "full", rng) for _ in range(2000)]
    >>> np.mean(draws, axis=0).round(1) + 0.0  # scatter / (degrees − D − 1)
    array([[1., 0.],
           [0., 1.]])
    """
    D = len(scatter)
    degrees = max(degrees, D + 2.0)
    if kind == "diag":
        return np.diag(np.diag(scatter) / rng.chisquare(degrees, size=D))
    if kind == "spherical":
        return np.asarray(np.eye(D) * (np.trace(scatter) / rng.chisquare(degrees * D)))
    bartlett = np.tril(rng.standard_normal((D, D)), -1)
    bartlett[np.diag_indices(D)] = np.sqrt(rng.chisquare(degrees - np.arange(D)))
    # S = L (B Bᵀ)⁻¹ Lᵀ with B Bᵀ from the Wishart law of the unit matrix.
    half = np.linalg.solve(bartlett, np.linalg.cholesky(scatter).T)
    return half.T @ half


class PosteriorDraw:
    """One draw of all parameters given the statistics of one tree's links.

    Gaussian: with the residuals' scatter R and n links, mutation_cov has an inverse-Wishart law
    with scatter R + ν S₀ and n + ν degrees less one for each coefficient of a column (Jeffreys'
    prior times that of `GaussianMutation`); transition and offset are normal around their best
    values given it, under flat priors. Categorical: columns of "full" matrices are Dirichlet; a
    sticky column first draws how many of the links with equal ends kept the parent's value, then s
    from its Beta law. Weights of mixtures are Dirichlet.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def gaussian(self, part: GaussianMutation, moments: PairMoments) -> GaussianMutation:
        """Return the Gaussian mutation with parameters drawn."""
        n = moments.weight
        best = part._refit_moments(moments)
        D = len(best.mutation_cov)
        strength = 0.0 if part.prior_cov is None else part.prior_strength
        offset_is_free = part._offset_is_free
        per_column = {"full": D, "diag": 1.0, "scalar": 1.0 / D}.get(part.transition, 0.0)
        cov = draw_covariance(
            best.mutation_cov * (n + strength),
            n + strength - per_column - offset_is_free,
            part.covariance,
            self.rng,
        )
        if n <= 0:
            return replace(best, mutation_cov=cov)
        parent_mean = moments.parent_sum / n if offset_is_free else np.zeros(D)
        spread = moments.parent_parent - n * np.outer(parent_mean, parent_mean)
        transition = best.transition_matrix + self._transition(part.transition, cov, spread)
        offset = best.offset
        if offset_is_free:
            noise = np.linalg.cholesky(cov / n) @ self.rng.standard_normal(D)
            offset = moments.child_sum / n - transition @ parent_mean + noise
        return replace(best, transition_matrix=transition, offset=offset, mutation_cov=cov)

    def _transition(self, kind: str, cov: Array, spread: Array) -> Array:
        """Return how far the transition is from its best value, (D, D)."""
        D = len(cov)
        if kind == "full":
            free = self._scaled_normal(spread, D).T
            return np.asarray(np.linalg.cholesky(cov) @ free)
        if kind in ("diag", "scalar"):
            curvature = inverse(cov) * spread
            if kind == "diag":
                return np.diag(self._scaled_normal(curvature, 1)[:, 0])
            drawn = self._scaled_normal(curvature.sum().reshape(1, 1), 1)[0, 0]
            return np.asarray(np.eye(D) * drawn)
        return np.zeros((D, D))

    def _scaled_normal(self, precision: Array, n: int) -> Array:
        """Return n columns from N(0, precision⁻¹), zero where the precision is zero, (D, n)."""
        values, vectors = np.linalg.eigh((precision + precision.T) / 2)
        known = values > _NO_DATA * max(values[-1], 0.0)
        draws = self.rng.standard_normal((int(known.sum()), n))
        return np.asarray(vectors[:, known] @ (draws / np.sqrt(values[known])[:, None]))

    def tables(self, part: CategoricalMutation, counts: list[Array]) -> CategoricalMutation:
        """Return the categorical mutation with parameters drawn, column by column."""
        drawn = []
        for one, pairs in zip(single_columns(part), counts, strict=True):
            marginal, strength = one.marginals[0], one.prior_strength
            if part.kind == "full":
                # The prior Π p^(ν marginal) is a density of the probabilities: Dirichlet(1 + …).
                alpha = pairs + 1.0 + strength * marginal[:, None]
                columns = np.stack([self.rng.dirichlet(a) for a in alpha.T], axis=1)
                drawn.append(replace(one, full_matrices=(columns,)))
                continue
            s = float(one.stickiness[0])
            chance = np.divide(s, s + (1 - s) * marginal, out=np.zeros_like(marginal), where=s > 0)
            kept = int(self.rng.binomial(np.rint(np.diag(pairs)).astype(int), chance).sum())
            fresh = float(pairs.sum()) - kept
            s = self.rng.beta(1.0 + strength / 2 + kept, 1.0 + strength / 2 + fresh)
            drawn.append(replace(one, stickiness=np.array([s])))
        return with_columns(part, drawn)

    def log_weights(self, mixture: MixtureMutation, totals: Array) -> Array:
        """Return the log weights of a draw from their Dirichlet law."""
        return np.asarray(np.log(self.rng.dirichlet(totals + mixture.weight_concentration)))

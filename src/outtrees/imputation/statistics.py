"""Expected statistics of all pairs, averaged over draws of hidden cells; the M-step from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from outtrees._common.types import Array
from outtrees.imputation.model import HiddenModel
from outtrees.models import (
    CategoricalMutation,
    GaussianMutation,
    MixtureMutation,
    ProductMutation,
)
from outtrees.models.base import Mutation
from outtrees.models.regression import PairMoments


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
    def of(cls, model: HiddenModel, X: Array, edge_marginals: Array, shares: list[Array]) -> Self:
        """Return the statistics of complete records, W_uv of the tree times the kind's share."""
        Y = X[:, model.continuous]
        codes = X[:, model.categorical].astype(np.intp)
        ones = [np.eye(len(names))[codes[:, d]] for d, names in enumerate(model.levels)]
        parts: list[list[Array]] = [[] for _ in range(6)]
        counts: list[list[Array]] = [[] for _ in ones]
        for share in shares:
            W = edge_marginals * share
            by_child, by_parent = W.sum(axis=1), W.sum(axis=0)
            values = (
                by_child.sum(),
                by_child @ Y,
                by_parent @ Y,
                (Y.T * by_child) @ Y,
                Y.T @ (W @ Y),
                (Y.T * by_parent) @ Y,
            )
            for part, value in zip(parts, values, strict=True):
                part.append(np.asarray(value))
            for total, one in zip(counts, ones, strict=True):
                total.append(one.T @ (W @ one))
        return cls(*(np.array(part) for part in parts), [np.array(c) for c in counts])

    @classmethod
    def of_tree(
        cls,
        model: HiddenModel,
        X: Array,
        parents: NDArray[np.intp],  # (T,)
        kinds: NDArray[np.intp],  # (T,)
        weights: Array,  # (T,) of the link above each record
    ) -> Self:
        """Return the statistics of complete records on one tree with known kinds of links."""
        K, D = model.n_kinds, len(model.continuous)
        sums = [np.zeros(K), np.zeros((K, D)), np.zeros((K, D))]
        products = [np.zeros((K, D, D)) for _ in range(3)]
        counts = [np.zeros((K, len(names), len(names))) for names in model.levels]
        for k in range(K):
            rows = np.flatnonzero((kinds == k) & (parents >= 0))
            child, parent, w = X[rows], X[parents[rows]], weights[rows]
            Y, V = child[:, model.continuous], parent[:, model.continuous]
            sums[0][k], sums[1][k], sums[2][k] = w.sum(), w @ Y, w @ V
            for total, (left, right) in zip(products, ((Y, Y), (Y, V), (V, V)), strict=True):
                total[k] = (left.T * w) @ right
            for d, c in enumerate(model.categorical):
                pair = (child[:, c].astype(np.intp), parent[:, c].astype(np.intp))
                np.add.at(counts[d][k], pair, w)
        return cls(*sums, *products, counts)

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

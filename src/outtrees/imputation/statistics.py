"""Sufficient statistics of pairs of records, and parameters from them: best, or drawn.

`PairStatistics` sums over the pairs of records, averaged over draws of hidden cells. `refit` gives
them to the models, which know their maximum (EM) and their posterior (chains that draw parameters).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from outtrees._common.types import Array
from outtrees.imputation.model import HiddenModel
from outtrees.models import MixtureMutation, ProductMutation
from outtrees.models.base import Mutation
from outtrees.models.regression import PairMoments
from outtrees.trees.weights import Ints


@dataclass(frozen=True)
class PairStatistics:
    """All that an M-step needs of the pairs of records, for each kind of link; linear in them."""

    moments: list[PairMoments]  # K, of the continuous columns, about the origin
    counts: list[list[Array]]  # K times one (C_d, C_d) [child, parent] for each categorical column

    @classmethod
    def of(cls, model: HiddenModel, X: Array, edge_marginals: Array, shares: list[Array]) -> Self:
        """Return the statistics of complete records, W_uv of the tree times the kind's share."""
        Y = X[:, model.continuous]
        codes = X[:, model.categorical].astype(np.intp)
        ones = [np.eye(len(names))[codes[:, d]] for d, names in enumerate(model.levels)]
        moments, counts = [], []
        for share in shares:
            W = edge_marginals * share
            moments.append(PairMoments.between(Y, Y, W, np.zeros(Y.shape[1])))
            counts.append([one.T @ (W @ one) for one in ones])
        return cls(moments, counts)

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
        moments, counts = [], []
        for k in range(model.n_kinds):
            rows = np.flatnonzero((kinds == k) & (parents >= 0))
            child, parent, w = X[rows], X[parents[rows]], weights[rows]
            ends = child[:, model.continuous], parent[:, model.continuous]
            moments.append(PairMoments.of_links(*ends, w))
            tables = [np.zeros((len(names), len(names))) for names in model.levels]
            for table, c in zip(tables, model.categorical, strict=True):
                np.add.at(table, (child[:, c].astype(np.intp), parent[:, c].astype(np.intp)), w)
            counts.append(tables)
        return cls(moments, counts)

    def towards(self, other: PairStatistics, gain: float) -> PairStatistics:
        """Return (1 − gain) · self + gain · other."""
        pairs = zip(self.moments, other.moments, strict=True)
        tables = zip(self.counts, other.counts, strict=True)
        return PairStatistics(
            [mine.towards(theirs, gain) for mine, theirs in pairs],
            [[a + gain * (b - a) for a, b in zip(*two, strict=True)] for two in tables],
        )


def refit(
    model: HiddenModel, statistics: PairStatistics, rng: np.random.Generator | None = None
) -> Mutation:
    """Return the mutation that maximises Σ W E[log p(x_u | x_v)] + log_prior, or a draw of it.

    With `rng` all parameters are drawn from their posterior given the statistics, which are then
    those of one tree's links.
    """
    return _refit(model.mutation, model, statistics, rng, 0)[0]


def _refit(
    mutation: Any,
    model: HiddenModel,
    statistics: PairStatistics,
    rng: np.random.Generator | None,
    k: int,
) -> tuple[Mutation, int]:
    """Return the mutation refitted to the kinds from k on, and the first kind after them."""
    if not isinstance(mutation, MixtureMutation):
        columns = list(range(mutation.n_features))
        return _refit_kind(mutation, model, statistics, rng, k, columns), k + 1
    parts, totals = [], []
    for part in mutation.parts:
        fitted, end = _refit(part, model, statistics, rng, k)
        parts.append(fitted)
        totals.append(sum(m.weight for m in statistics.moments[k:end]))
        k = end
    return mutation._reweighed(parts, totals, rng), k


def _refit_kind(
    mutation: Any,
    model: HiddenModel,
    statistics: PairStatistics,
    rng: np.random.Generator | None,
    k: int,
    columns: list[int],
) -> Mutation:
    if isinstance(mutation, ProductMutation):
        parts = [
            _refit_kind(part, model, statistics, rng, k, [columns[c] for c in own])
            for part, own in zip(mutation.parts, mutation._columns, strict=True)
        ]
        return replace(mutation, parts=tuple(parts))
    found: Mutation
    if mutation.hidden_cells == "linear":
        at = [model.continuous.index(c) for c in columns]
        moments = statistics.moments[k].of_columns(at)
        found = mutation._refit_moments(moments) if rng is None else mutation._drawn(moments, rng)
        return found
    at = [model.categorical.index(c) for c in columns]
    # No cell is missing here: the last row and column stay empty.
    counts = [np.pad(statistics.counts[k][d], ((0, 1), (0, 1))) for d in at]
    found = mutation._refit_counts(counts) if rng is None else mutation._drawn(counts, rng)
    return found

"""One step of the sampler: a tree given the records, then the hidden cells given the tree."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from outtrees._common.types import Array
from outtrees.imputation.leaves import draw_rows
from outtrees.imputation.linear import draw_cells
from outtrees.imputation.model import HiddenModel
from outtrees.imputation.sweep import Ints, Placed, sweep
from outtrees.inference.messages import draw_states
from outtrees.trees import OutTreeDistribution


class Beliefs(NamedTuple):
    """Hidden cells given one tree, as exact expectations."""

    mean: Array  # (T, D) of continuous cells; observed cells as they are
    variance: Array  # (T, D)
    chances: list[Array]  # (T, C_d) for each categorical column


class HiddenSampler:
    """Draws from p(tree, hidden cells | observed cells) for one mutation, alternating.

    1. A tree given complete records, from all out-trees at once.
    2. The kind of each link, where the mutation is a mixture.
    3. Record after record: parent, kind and hidden cells together (`sweep`).
    4. All hidden cells given tree and kinds, jointly, by messages along the tree.

    Each leaves the joint posterior as it is.
    """

    def __init__(self, model: HiddenModel, observed: Array) -> None:  # (T, D), codes, NaN = hidden
        self.model, self.observed = model, observed

    def tree(self, X: Array) -> tuple[OutTreeDistribution, list[Array]]:
        """Return the trees of complete records, and each kind's share of each pair."""
        log_kinds = self.model.log_kinds(X)
        # Kinds that ignore the parent are columns: added first, they stay cheap.
        total = reduce(np.logaddexp, sorted(log_kinds, key=np.size))
        shares = [np.ones((1, 1))]
        if len(log_kinds) > 1:
            reached = np.where(np.isneginf(total), 0.0, total)  # impossible pairs have no shares
            shares = [np.exp(log_kind - reached) for log_kind in log_kinds]
        log_beta = np.array(np.broadcast_to(total, (len(X), len(X))))
        return OutTreeDistribution(log_beta, self.model.log_root(X)), shares

    def cells(self, parents: Ints, X: Array, rng: np.random.Generator) -> tuple[Placed, Beliefs]:
        """Return records with hidden cells and tree drawn anew, and what is expected of them."""
        model = self.model
        kinds = draw_rows(model.log_chosen(X, parents), rng)
        X, parents, kinds = sweep(model, self.observed, Placed(X, parents, kinds), rng)
        mean, variance = self.observed.copy(), np.zeros_like(X)
        if model.continuous:
            found = draw_cells(parents, self.observed[:, model.continuous], model.edges, kinds, rng)
            X[:, model.continuous] = found.draw
            mean[:, model.continuous] = found.mean
            variance[:, model.continuous] = found.variance
        chances = []
        for column, table in zip(model.categorical, model.log_tables, strict=True):
            seen = self.observed[:, column]
            missing = np.isnan(seen)
            nodes = np.full((len(X), table.shape[1]), -np.inf)
            nodes[missing] = 0.0
            nodes[~missing, seen[~missing].astype(np.intp)] = 0.0
            root = table[kinds[parents < 0][0], :, 0]
            states = draw_states(parents, nodes, table[kinds], rng, root)
            X[:, column] = states.states
            mean[:, column] = states.marginals.argmax(axis=1)
            chances.append(states.marginals)
        return Placed(X, parents, kinds), Beliefs(mean, variance, chances)

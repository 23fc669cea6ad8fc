"""Draws of trees and hidden cells: one step of the sampler, and its moves."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from outtrees._common.types import Array
from outtrees.imputation.linear import draw_cells
from outtrees.imputation.model import HiddenModel
from outtrees.inference.messages import draw_states
from outtrees.trees import OutTreeDistribution
from outtrees.trees.weights import Ints


class Placed(NamedTuple):
    """Complete records, their tree, and the kind of each link."""

    X: Array  # (T, D), categories as positions
    parents: Ints  # (T,), −1 at the root
    kinds: Ints  # (T,)


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


def sweep(
    model: HiddenModel,
    observed: Array,  # (T, D), NaN where hidden
    state: Placed,
    rng: np.random.Generator,
) -> Placed:
    """Return the state after each record with hidden cells drew parent, kind and cells anew.

    Given a tree, hidden cells lie near the parent's; given those cells, the tree keeps that
    parent: alternating the two alone moves slowly, and not at all where mutations are small. Here
    a record u draws its parent v and the kind k of its link with weights

        weight_k · ∫ p_k(x_u | x_v) Π_children p(x_c | x_u) d(hidden cells of u),

    over all v that do not descend from u, and then its hidden cells given v, k and its children.
    Each draw is exact given the rest, so the joint distribution of trees and cells stays as it
    is. The root has no parent to draw and is left to the other moves. O(K T² D²) for all records.
    """
    from outtrees.imputation.sweep_kernels import sweep_records

    edges = model.edges
    hidden = np.isnan(observed)
    T = len(observed)
    cells = np.ascontiguousarray(state.X[:, model.continuous])
    codes = np.ascontiguousarray(state.X[:, model.categorical].astype(np.intp))
    parents, kinds = state.parents.copy(), state.kinds.copy()
    in_range = sweep_records(
        rng.permutation(T),
        parents,
        kinds,
        cells,
        np.ascontiguousarray(hidden[:, model.continuous]),
        codes,
        np.ascontiguousarray(hidden[:, model.categorical]),
        edges.precision,
        edges.pulled,
        edges.pulled_back,
        edges.transition,
        edges.offset,
        edges.log_precision,
        model.log_weights,
        model.parent_free,
        model.stacked_tables,
        np.array([len(names) for names in model.levels], dtype=np.intp),
        rng.random(T),
        rng.standard_normal(cells.shape),
        rng.random(codes.shape),
    )
    if not in_range:
        raise ValueError(
            "hidden cells need covariances well inside double precision, but a precision is not "
            "positive definite; use a larger reg_covar or prior_strength."
        )
    X = state.X.copy()
    X[:, model.continuous], X[:, model.categorical] = cells, codes
    return Placed(X, parents, kinds)


def draw_rows(log_weights: Array, rng: np.random.Generator) -> Ints:
    """Return one position for each row (n, m) of log-weights; never one of weight zero."""
    top = log_weights.max(axis=1, keepdims=True)
    passed = np.cumsum(np.exp(log_weights - top), axis=1)
    uniform = rng.random((len(log_weights), 1)) * passed[:, -1:]
    return np.asarray((uniform >= passed).sum(axis=1))

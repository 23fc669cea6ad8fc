"""Draws of trees and hidden cells: one step of the sampler, and its moves."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from outtrees._common.types import Array
from outtrees.imputation.linear import draw_cells, hidden_columns
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
    from outtrees.imputation.cell_kernels import sweep_records

    edges, K = model.edges, model.n_kinds
    T, D, E = len(observed), len(model.continuous), len(model.categorical)
    hidden = np.isnan(observed)
    linear = hidden[:, model.continuous]
    parents, kinds = state.parents.copy(), state.kinds.copy()
    # Cells and a column of ones, that carries offsets; and the observed ones alone.
    cells = np.column_stack([state.X[:, model.continuous], np.ones(T)])
    seen = cells.copy()
    seen[:, :D][linear] = 0.0
    codes = np.ascontiguousarray(state.X[:, model.categorical].astype(np.intp))
    # With P, A, b of each link: P, P (A b), (A b), and what a child tells its parent of precision
    # (AᵀPA 0) and of level (AᵀP −AᵀPb).
    P, offset = edges.precision[:K], edges.offset[:K, :, None]
    PA = np.concatenate([edges.pulled[:K], P @ offset], axis=2)
    A = np.concatenate([edges.transition[:K], offset], axis=2)
    back = np.swapaxes(edges.pulled[:K], 1, 2)
    to_precision = np.concatenate([edges.pulled_back[:K], np.zeros((K, D, 1))], axis=2)
    to_level = np.concatenate([back, -back @ offset], axis=2)
    # What the observed cells of a record say by themselves (K, T), and P times them (K, T, D).
    pulled_alone = seen[:, :D] @ P
    constant = model.log_weights + 0.5 * edges.log_precision[:K]
    log_alone = constant[:, None] - 0.5 * (pulled_alone * seen[:, :D]).sum(axis=2)
    # P times the mean of each record's children (K, D, T), and half of the mean times that.
    pulled = np.ascontiguousarray(PA @ cells.T)
    squares = 0.5 * (pulled * (A @ cells.T)).sum(axis=1)
    tables = model.stacked_tables
    C = tables.shape[2]
    turns = rng.permutation(T)
    random = rng.random(T), rng.standard_normal((T, D)), rng.random((T, E))
    categories = None
    if E:
        unknown = np.ascontiguousarray(hidden[:, model.categorical])
        n_levels = np.array([len(names) for names in model.levels], dtype=np.intp)
        scratch = np.empty(C), np.empty((E, C)), np.zeros((T, E, C))
        categories = (codes, unknown, tables, n_levels, random[2]), scratch
    in_range = sweep_records(
        turns[(parents[turns] >= 0) & hidden[turns].any(axis=1)],
        parents,
        kinds,
        np.bincount(parents[parents >= 0], minlength=T),
        cells,
        (*hidden_columns(linear), seen),
        # One layout is compiled.
        tuple(np.ascontiguousarray(link) for link in (P, PA, A, to_precision, to_level)),
        # With the number of parents whose weights may differ.
        (log_alone, pulled_alone, np.where(model.parent_free, 1, T)),
        (pulled, squares),
        categories,
        random[:2],
        (
            np.empty(K * T),
            np.empty(T, dtype=bool),
            np.zeros((T, D, D + 1)),
            np.empty((K, D, D)),
            np.empty((K, D, T)),
        ),
    )
    if not in_range:
        raise ValueError(
            "hidden cells need covariances well inside double precision, but a precision is not "
            "positive definite; use a larger reg_covar or prior_strength."
        )
    X = state.X.copy()
    X[:, model.continuous], X[:, model.categorical] = cells[:, :D], codes
    return Placed(X, parents, kinds)


def draw_rows(log_weights: Array, rng: np.random.Generator) -> Ints:
    """Return one position for each row (n, m) of log-weights; never one of weight zero."""
    top = log_weights.max(axis=1, keepdims=True)
    passed = np.cumsum(np.exp(log_weights - top), axis=1)
    uniform = rng.random((len(log_weights), 1)) * passed[:, -1:]
    return np.asarray((uniform >= passed).sum(axis=1))

"""Draws of trees and hidden cells: one step of the sampler, and its moves.

Given a tree, continuous cells have exact moments and exact joint draws (`draw_cells`).
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.imputation.model import HiddenModel, LinearEdges
from outtrees.inference.messages import cycle_size, draw_states
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


# Continuous cells on a known tree ---------------------------------------------------------------


class HiddenCells(NamedTuple):
    """What is known of the hidden cells, given the tree; observed cells are as they were."""

    mean: Array  # (T, D) E[cell | tree, observed cells], exact
    variance: Array  # (T, D) their variances, zero where observed, exact
    draw: Array  # (T, D) one joint draw
    log_z: float  # log-density of the observed cells, given the tree


def draw_cells(
    parents: ArrayLike,  # (T,), −1 at a root
    X: ArrayLike,  # (T, D), NaN where hidden
    edges: LinearEdges,
    kinds: ArrayLike,  # (T,) the kind of link between a record and its parent, or of a root
    rng: Any = None,
) -> HiddenCells:
    """Return posterior moments of the hidden cells of a tree's records, and one joint draw.

    Records are x_u = A x_π(u) + b + noise, each with some cells observed. With M the projection
    on the hidden cells of u, o its observed cells (zero elsewhere), P the noise's precision and
    (J, h) what the children said, the hidden cells of u given its parent have

        precision  K = M (P + J) M,        mean  K⁻¹ M (P b + h − (P + J) o + P A x_π(u)),

    and integrating them out tells the parent (Aᵀ (P − P M K⁻¹ M P) A, …), a Gaussian function of
    x_π(u) again: messages go up once, and means, covariances and the draw come down once. Exact;
    O(T D³).

    Raises
    ------
    ValueError
        If `parents` hold a cycle.

    Examples
    --------
    A random walk 0 → 1 → 2 seen at its ends only; the root is N(0, 1).

    >>> walk = LinearEdges(
    ...     np.array([[[1.0]], [[0.0]]]), np.zeros((2, 1)), np.array([[[1.0]], [[1.0]]])
    ... )
    >>> X = np.array([[1.0], [np.nan], [2.0]])
    >>> cells = draw_cells([-1, 0, 1], X, walk, [1, 0, 0], 0)
    >>> cells.mean.ravel().round(6), cells.variance.ravel().round(6)
    (array([1. , 1.5, 2. ]), array([0. , 0.5, 0. ]))
    """
    from outtrees.imputation.cell_kernels import pass_messages

    up_to = np.ascontiguousarray(parents, dtype=np.intp)
    chosen = np.asarray(kinds, dtype=np.intp)
    records = np.asarray(X, dtype=np.float64)
    T, D = records.shape
    hidden = np.isnan(records)
    index, size = hidden_columns(hidden)
    # A last row stands for the parent of roots: its cells are zero, and nobody hears its messages.
    cells = np.zeros((T + 1, D + 1))
    cells[:T, :D], cells[:, D] = np.where(hidden, 0.0, records), 1.0
    seen = cells[:T, :D]
    rows, noise = np.arange(T)[:, None], as_generator(rng).standard_normal((T, D))
    P, pulled = edges.precision[chosen], edges.pulled[chosen]
    error = seen - edges.offset[chosen]
    weighed = np.einsum("uij,uj->ui", P, error)
    # The links' quadratic forms in the parent's cells and 1, hidden cells of the child at 0.
    link = np.empty((T, D + 1, D + 1))
    link[:, :D, :D] = edges.pulled_back[chosen]
    link[:, :D, D] = link[:, D, :D] = -np.einsum("uij,ui->uj", pulled, error)
    link[:, D, D] = (error * weighed).sum(axis=1)
    message, cov = np.zeros((T + 1, D + 1, D + 1)), np.zeros((T + 1, D, D))
    factor = P[rows[:, :, None], index[:, :, None], index[:, None, :]]
    solved = np.concatenate(
        [
            pulled[rows, index],
            -weighed[rows, index, None],
            np.tile(np.eye(D), (T, 1, 1)),
            noise[rows, index, None],
        ],
        axis=2,
    )
    mean, draw = cells.copy(), cells.copy()
    work = np.empty(T, dtype=np.intp), np.full(T, -1), np.empty(D)
    log_size = pass_messages(
        up_to[None], index, size, message, link, factor, solved, mean, draw, cov, work
    )
    if np.isinf(log_size):
        raise ValueError(
            f"parents of draw_cells must be a tree or a forest; got {cycle_size(up_to)} of {T} "
            "records on or below a cycle. Give it a root (-1)."
        )
    if np.isnan(log_size):
        raise ValueError(
            "covariances of draw_cells must lie well inside double precision; got a precision of "
            "hidden cells that is not positive definite. Use a larger reg_covar or prior_strength."
        )
    # The messages at the observed cells; those of roots are constants, in the last row.
    scatter = np.einsum("ui,uij,uj->", cells[:T], message[:T], cells[:T]) + message[T, D, D]
    scatter += 2.0 * log_size - edges.log_precision[chosen].sum()
    log_z = -0.5 * float(scatter + (T * D - size.sum()) * np.log(2.0 * np.pi))
    variance = np.einsum("uii->ui", cov[:T]).copy()
    return HiddenCells(mean[:T, :D], variance, draw[:T, :D], log_z)


def hidden_columns(hidden: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Return the hidden columns of each record, in order and first, and how many there are.

    Examples
    --------
    >>> index, size = hidden_columns(np.array([[False, True, True]]))
    >>> index[0, :2].tolist(), size.tolist()
    ([1, 2], [2])
    """
    return np.argsort(~hidden, axis=1, kind="stable"), hidden.sum(axis=1)

"""Hidden continuous cells on a known tree: exact posterior moments and exact joint draws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.inference.messages import cycle_size
from outtrees.models.covariance import cholesky, inverse
from outtrees.trees.weights import Ints


@dataclass(frozen=True)
class LinearEdges:
    """K kinds of links: child = transition · parent + offset + N(0, cov).

    A root is a link of a kind whose transition is zero: offset and cov are then the mean and
    covariance of the root.
    """

    transition: Array  # (K, D, D) [child, parent]
    offset: Array  # (K, D)
    cov: Array  # (K, D, D)

    @cached_property
    def precision(self) -> Array:
        """Inverses of the covariances, (K, D, D)."""
        return np.array([inverse(cov) for cov in self.cov]).reshape(self.cov.shape)

    @cached_property
    def pulled(self) -> Array:
        """Precision times transition, (K, D, D)."""
        return self.precision @ self.transition

    @cached_property
    def pulled_back(self) -> Array:
        """What a child says of its parent's precision: Aᵀ P A, (K, D, D)."""
        return np.swapaxes(self.transition, 1, 2) @ self.pulled

    @cached_property
    def log_precision(self) -> Array:
        """Log determinants of the precisions, (K,)."""
        factors = [cholesky(cov, "mutation_cov") for cov in self.cov]
        return np.array([-2.0 * np.log(np.diag(factor)).sum() for factor in factors])


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
            f"draw_cells expects a tree or a forest, but {cycle_size(up_to)} of {T} records are "
            "on or below a cycle of parents; give it a root (-1)."
        )
    if np.isnan(log_size):
        raise ValueError(
            "draw_cells expects covariances well inside double precision, but a precision of "
            "hidden cells is not positive definite; use a larger reg_covar or prior_strength."
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

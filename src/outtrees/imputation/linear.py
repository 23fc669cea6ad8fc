"""Hidden continuous cells on a known tree: exact posterior moments and exact joint draws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.covariance import cholesky, inverse


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
    from outtrees.imputation.cell_kernels import pass_cells

    up_to = np.ascontiguousarray(parents, dtype=np.intp)
    chosen = np.ascontiguousarray(kinds, dtype=np.intp)
    records = np.ascontiguousarray(X, dtype=np.float64)  # one layout is compiled
    hidden = np.isnan(records)
    seen = np.where(hidden, 0.0, records)
    noise = as_generator(rng).standard_normal(records.shape)
    mean, draw, variance = (np.empty_like(seen) for _ in range(3))
    n_reached, log_z = pass_cells(
        up_to,
        seen,
        hidden,
        chosen,
        edges.precision,
        edges.pulled,
        edges.pulled_back,
        edges.offset,
        edges.log_precision,
        noise,
        mean,
        draw,
        variance,
    )
    if n_reached < 0:
        raise ValueError(
            "draw_cells expects covariances well inside double precision, but a precision of "
            "hidden cells is not positive definite; use a larger reg_covar or prior_strength."
        )
    if n_reached < len(records):
        raise ValueError(
            f"draw_cells expects a tree or a forest, but {len(records) - n_reached} of "
            f"{len(records)} records are on or below a cycle of parents; give it a root (-1)."
        )
    return HiddenCells(mean, variance, draw, log_z)

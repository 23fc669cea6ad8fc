"""Weighted regression of children on parents from moments of all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from outtrees._common.types import Array
from outtrees.models.covariance import inverse, posterior_cov

TRANSITIONS = ("full", "diag", "scalar", "identity", "zero")


@dataclass(frozen=True)
class PairMoments:
    """Weighted moments of all pairs (x_u, x_v), taken about `centre`.

    They are all that a linear Gaussian conditional needs from T² pairs, and cost one product
    W X, O(T² D). Centring first keeps the differences of large numbers out of the scatter.
    """

    weight: float  # Σ W
    centre: Array  # (D,)
    child_sum: Array  # (D,)  Σ W x_u
    parent_sum: Array  # (D,)  Σ W x_v
    child_child: Array  # (D, D)  Σ W x_u x_uᵀ
    child_parent: Array  # (D, D)  Σ W x_u x_vᵀ
    parent_parent: Array  # (D, D)  Σ W x_v x_vᵀ

    @classmethod
    def of_pairs(cls, X: Array, edge_marginals: Array, *, centred: bool) -> Self:
        """Return the moments of all pairs [child, parent] of the records."""
        centre = _centre(X, centred)
        Y = X - centre
        by_child, by_parent = edge_marginals.sum(axis=1), edge_marginals.sum(axis=0)
        return cls(
            weight=float(by_child.sum()),
            centre=centre,
            child_sum=by_child @ Y,
            parent_sum=by_parent @ Y,
            child_child=(Y.T * by_child) @ Y,
            child_parent=Y.T @ (edge_marginals @ Y),
            parent_parent=(Y.T * by_parent) @ Y,
        )

    @classmethod
    def of_children(cls, X: Array, weights: Array, *, centred: bool) -> Self:
        """Return the moments when parents do not matter: theirs are zero."""
        centre = _centre(X, centred)
        Y = X - centre
        nothing = np.zeros((X.shape[1], X.shape[1]))
        return cls(
            weight=float(weights.sum()),
            centre=centre,
            child_sum=weights @ Y,
            parent_sum=nothing[0],
            child_child=(Y.T * weights) @ Y,
            child_parent=nothing,
            parent_parent=nothing,
        )

    def residuals(self, transition: Array, offset: Array) -> tuple[Array, Array, Array]:
        """Return Σ W e, Σ W e x_vᵀ and Σ W e eᵀ of the residuals e = x_u − transition x_v − offset.

        The middle one is about the origin, not about `centre`.
        """
        shift = offset + transition @ self.centre - self.centre
        total = self.child_sum - transition @ self.parent_sum - self.weight * shift
        with_parent = (
            self.child_parent - transition @ self.parent_parent - np.outer(shift, self.parent_sum)
        )
        with_child = (
            self.child_child - transition @ self.child_parent.T - np.outer(shift, self.child_sum)
        )
        scatter = with_child - with_parent @ transition.T - np.outer(total, shift)
        return total, with_parent + np.outer(total, self.centre), (scatter + scatter.T) / 2


def _centre(X: Array, centred: bool) -> Array:
    if not centred:
        return np.zeros(X.shape[1])
    # A constant column is centred exactly, so that no regression is run on its rounding noise.
    return np.where(np.ptp(X, axis=0) == 0, X[0], X.mean(axis=0))


def fit_conditional(
    moments: PairMoments,
    start: tuple[Array, Array, Array],  # transition (D, D), offset (D,), mutation_cov (D, D)
    *,
    transition_kind: str,
    covariance_kind: str,
    fit_offset: bool,
    prior_cov: Array | None,
    strength: float,
    max_cycles: int = 100,
) -> tuple[Array, Array, Array]:
    """Return the transition, offset and covariance that maximise likelihood times prior.

    The maximum is joint and exact whenever the best transition does not depend on the covariance:
    for "full", "identity" and "zero" transitions, for "diag" with diagonal or spherical
    covariance and for "scalar" with spherical covariance. Else generalised least squares for the
    transition alternates with the covariance (ECM), each step exact, until neither moves; no step
    lowers the objective.

    Where the data do not determine the transition (collinear parents), it makes the smallest
    change, in units of the columns, that reaches the maximum.
    """
    transition, offset, cov = start
    if moments.weight + (0.0 if prior_cov is None else strength) <= 0:
        return start  # no data and no prior: everything is equally good

    if fit_offset and moments.weight > 0:
        # For any transition the best offset equates the weighted means, so it is profiled out.
        child_shift = moments.child_sum / moments.weight
        parent_shift = moments.parent_sum / moments.weight
    else:
        # Moments are about the origin, or the transition is the identity: the offset is a
        # constant shift of the children either way.
        child_shift, parent_shift = offset, np.zeros_like(offset)
    weight, total_child, total_parent = moments.weight, moments.child_sum, moments.parent_sum
    cc = (
        moments.child_child
        - np.outer(total_child, child_shift)
        - np.outer(child_shift, total_child)
        + weight * np.outer(child_shift, child_shift)
    )
    cp = (
        moments.child_parent
        - np.outer(child_shift, total_parent)
        - np.outer(total_child, parent_shift)
        + weight * np.outer(child_shift, parent_shift)
    )
    pp = moments.parent_parent - np.outer(total_parent, parent_shift)

    exact = (
        transition_kind in ("full", "identity", "zero")
        or covariance_kind == "spherical"
        or (transition_kind == "diag" and covariance_kind == "diag")
    )
    for _ in range(1 if exact else max_cycles):
        before = np.concatenate([transition.ravel(), cov.ravel()])
        transition = transition + _step(transition_kind, cp - transition @ pp, pp, cov)
        scatter = cc - transition @ cp.T - cp @ transition.T + transition @ pp @ transition.T
        cov = posterior_cov(scatter, weight, prior_cov, strength, covariance_kind)
        after = np.concatenate([transition.ravel(), cov.ravel()])
        if np.abs(after - before).max() <= 1e-12 * np.abs(after).max():
            break

    if fit_offset and weight > 0:
        offset = moments.centre + child_shift - transition @ (moments.centre + parent_shift)
    return transition, offset, cov


def _step(kind: str, residual_parent: Array, parent_parent: Array, cov: Array) -> Array:
    """Return the change of the transition that reaches the maximum for this covariance."""
    if kind in ("identity", "zero"):
        return np.zeros_like(residual_parent)
    if kind == "full":
        return residual_parent @ _scaled_pinv(parent_parent)
    precision = inverse(cov)
    if kind == "diag":
        slope = np.sum(precision * residual_parent.T, axis=1)
        return np.diag(_scaled_pinv(precision * parent_parent) @ slope)
    curvature = float(np.sum(precision * parent_parent))
    slope = float(np.sum(precision * residual_parent))
    return (slope / curvature if curvature > 0 else 0.0) * np.eye(len(cov))


def _scaled_pinv(matrix: Array) -> Array:
    """Return the pseudo-inverse after scaling to unit diagonal, so that units do not matter."""
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale[scale == 0] = 1.0
    return np.linalg.pinv(matrix / np.outer(scale, scale), rcond=1e-10, hermitian=True) / np.outer(
        scale, scale
    )

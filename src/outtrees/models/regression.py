"""Regression of children on parents: what Gaussian and kernel models share.

`RegressionMutation` holds a mean function and normal noise, `RegressionPosterior` what is believed
of both; `PairMoments` and `fit_conditional` are the weighted regression on the parents themselves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import block_diag

from outtrees._common.arguments import check_number, check_option
from outtrees._common.edges import Ints
from outtrees._common.types import Array
from outtrees.models import covariance as cov_
from outtrees.models.base import Mutation
from outtrees.models.covariance import (
    InverseWishart,
    inverse,
    log_normal,
    log_normal_edges,
    posterior_cov,
    whitened,
)
from outtrees.models.posterior import Posterior

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
    def between(
        cls,
        children: Array,  # (n, D)
        parents: Array,  # (m, D)
        weights: Any,  # (n, m), may be sparse
        centre: Array,
    ) -> Self:
        """Return the moments of all pairs of these children and parents."""
        C, P = children - centre, parents - centre
        by_child, by_parent = weights.sum(axis=1), weights.sum(axis=0)
        return cls(
            weight=float(by_child.sum()),
            centre=centre,
            child_sum=by_child @ C,
            parent_sum=by_parent @ P,
            child_child=(C.T * by_child) @ C,
            child_parent=C.T @ (weights @ P),
            parent_parent=(P.T * by_parent) @ P,
        )

    @classmethod
    def of_pairs(cls, X: Array, edge_marginals: Any, *, centred: bool) -> Self:
        """Return the moments of all pairs [child, parent] of the records."""
        return cls.between(X, X, edge_marginals, _centre(X, centred))

    @classmethod
    def of_links(
        cls,
        children: Array,  # (n, D)
        parents: Array,  # (n, D), of each child
        weights: Array,  # (n,)
    ) -> Self:
        """Return the moments of one link for each child, about the origin."""
        return cls(
            weight=float(weights.sum()),
            centre=np.zeros(children.shape[1]),
            child_sum=weights @ children,
            parent_sum=weights @ parents,
            child_child=(children.T * weights) @ children,
            child_parent=(children.T * weights) @ parents,
            parent_parent=(parents.T * weights) @ parents,
        )

    @classmethod
    def of_children(cls, X: Array, weights: Array, *, centred: bool) -> Self:
        """Return the moments when parents do not matter: theirs are zero."""
        centre = _centre(X, centred)
        found = cls.of_links(X - centre, np.zeros_like(X), weights)
        return replace(found, centre=centre)

    def towards(self, other: PairMoments, gain: float) -> Self:
        """Return (1 − gain) · self + gain · other, which have one centre."""
        names = [f.name for f in fields(self) if f.name != "centre"]
        mine, theirs = ([getattr(m, name) for name in names] for m in (self, other))
        moved = [a + gain * (b - a) for a, b in zip(mine, theirs, strict=True)]
        return replace(self, **dict(zip(names, moved, strict=True)))

    def of_columns(self, at: list[int]) -> Self:
        """Return the moments of some of the columns."""
        inner = np.ix_(at, at)
        return replace(
            self,
            centre=self.centre[at],
            child_sum=self.child_sum[at],
            parent_sum=self.parent_sum[at],
            child_child=self.child_child[inner],
            child_parent=self.child_parent[inner],
            parent_parent=self.parent_parent[inner],
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
    return np.asarray(np.where(np.ptp(X, axis=0) == 0, X[0], X.mean(axis=0)))


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
    return np.asarray(
        np.linalg.pinv(matrix / np.outer(scale, scale), rcond=1e-10, hermitian=True)
        / np.outer(scale, scale)
    )


# A mean function and normal noise -----------------------------------------------------------


def check_regression(options: Any, covariances: tuple[str, ...]) -> None:
    """Refuse wrong options of the noise and the start of a model."""
    owner = type(options).__name__
    check_option(owner, "covariance", options.covariance, covariances)
    check_number(owner, "reg_covar", options.reg_covar, 0)
    if options.start_correlation is not None:
        check_number(owner, "start_correlation", options.start_correlation, 0, 1)


class IidStart(NamedTuple):
    """Records as if they were independent, and the share of their covariance that is noise."""

    mean: Array  # (D,)
    cov: Array  # (D, D)
    floor: Array  # (D, D), the least covariance
    h2: float  # the square of a Parzen bandwidth, in units of `cov`
    correlation: float  # between parent and child
    noise: float  # in units of `cov`


def iid_start(options: Any, X: Array, correlation: float | None = None) -> IidStart:
    """Return where a regression starts; a correlation left open makes a smoothed Parzen window."""
    mean, cov = cov_.iid_moments(X, options.covariance)
    scales = cov_.restrict(np.diag(cov_.column_scales(X)), options.covariance)
    h2 = cov_.bandwidth(*X.shape) ** 2
    a = float(np.sqrt(1.0 - h2)) if correlation is None else correlation
    return IidStart(mean, cov, options.reg_covar * scales, h2, a, 1.0 - a**2 if a < 1 else h2)


class RegressionMutation(Mutation):
    """Child = a function of the parent + N(0, mutation_cov); root N(root_mean, root_cov).

    A model is a frozen dataclass with the fields below. It writes `means`, and its coefficients as
    one vector without constraints.
    """

    covariance: str
    prior_strength: float
    root_mean: Any  # (D,)
    root_cov: Any  # (D, D)
    offset: Any  # (D,)
    mutation_cov: Any  # (D, D)
    prior_cov: Any  # (D, D), None without a prior

    @property
    @abstractmethod
    def _offset_is_free(self) -> bool: ...

    @abstractmethod
    def means(self, parents: Array) -> Array:
        """Return the mean of each parent's children, shape (n, D)."""

    @abstractmethod
    def _coefficients(self) -> Array: ...

    @abstractmethod
    def _with_coefficients(self, vector: Array) -> Self: ...

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.mutation_cov is None else len(self.mutation_cov)

    # Densities and samples ---------------------------------------------------------------------

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        if self.parent_free:
            alone = log_normal(children, self.offset[None], self.mutation_cov)
            return np.repeat(alone, len(parents), axis=1)
        return log_normal(children, self.means(parents), self.mutation_cov)

    def _log_edges(self, children: Array, parents: Array, child: Ints, parent: Ints) -> Array:
        if self.parent_free:
            return np.asarray(self._log_conditional(children, parents[:1])[child, 0])
        return log_normal_edges(children, self.means(parents), self.mutation_cov, child, parent)

    def _embeddings(self, children: Array, parents: Array) -> list[tuple[Array, Array]]:
        if self.parent_free:
            return []
        return [whitened(children, self.means(parents), self.mutation_cov)[1:]]

    def _log_root(self, X: Array) -> Array:
        self._require_root()
        return log_normal(X, self.root_mean[None], self.root_cov, "root_cov")[:, 0]

    def _sample(self, parents: Array, rng: np.random.Generator) -> Array:
        factor = cov_.cholesky(self.mutation_cov, "mutation_cov")
        return self.means(parents) + rng.standard_normal(parents.shape) @ factor.T

    def _sample_root(self, n: int, rng: np.random.Generator) -> Array:
        self._require_root()
        factor = cov_.cholesky(self.root_cov, "root_cov")
        return np.asarray(self.root_mean + rng.standard_normal((n, len(factor))) @ factor.T)

    def _require_root(self) -> None:
        if self.root_mean is None or self.root_cov is None:
            raise ValueError(
                f"{type(self).__name__} expects root_mean and root_cov for the root's density, but "
                "they were not given; give both, or use start(X)."
            )

    def _narrowed(self, factor: float) -> Self:
        return replace(self, mutation_cov=factor * self.mutation_cov)  # type: ignore[type-var]  # a dataclass

    # Parameters: coefficients, the offset if it is free, the factor of mutation_cov --------------

    def _slopes(
        self, by_coefficients: Array, by_offset: Array, weight: float, scatter: Array
    ) -> Array:
        """Return the gradient from that of the mean, and from Σ W and Σ W e eᵀ of residuals e."""
        if self.prior_cov is not None:
            weight = weight + self.prior_strength
            scatter = scatter + self.prior_strength * self.prior_cov
        by_cov = cov_.vector_gradient(self.mutation_cov, self.covariance, weight, scatter)
        shift = by_offset if self._offset_is_free else by_offset[:0]
        return np.concatenate([by_coefficients, shift, by_cov])

    def _params(self) -> Array:
        cov = cov_.to_vector(self.mutation_cov, self.covariance)
        shift = self.offset if self._offset_is_free else self.offset[:0]
        return np.concatenate([self._coefficients(), shift, cov])

    def _with_params(self, params: Array) -> Self:
        n, D = len(self._coefficients()), len(self.mutation_cov)
        free, offset, cov = np.split(params, [n, n + (D if self._offset_is_free else 0)])
        return replace(  # type: ignore[type-var]  # a dataclass
            self._with_coefficients(free),
            offset=offset if self._offset_is_free else self.offset,
            mutation_cov=cov_.from_vector(cov, D, self.covariance),
        )

    def _log_prior(self) -> float:
        return cov_.log_prior_cov(self.mutation_cov, self.prior_cov, self.prior_strength)


# Posteriors of both -------------------------------------------------------------------------


@dataclass(frozen=True)
class GaussianPrior:
    """Every number of the prior of a `RegressionPosterior`, and of its root's."""

    centre: Array  # (D,), m
    coefficients: Array  # (D, H), B₀
    gram: Array  # (H, H), K₀
    noise: InverseWishart  # ν₀, Ψ₀
    root_precision: float  # κ_r
    root_noise: InverseWishart  # ν_r, Ψ_r

    def draw_root(
        self, rng: np.random.Generator, record: Array | None = None
    ) -> tuple[Array, Array]:
        """Return mean and covariance of the root, from the prior or given the root's record."""
        mean, precision, noise = self.centre, self.root_precision, self.root_noise
        if record is not None:
            apart = record - mean
            share = precision / (precision + 1.0)
            scatter = noise.scatter + share * cov_.restrict(np.outer(apart, apart), noise.kind)
            noise = InverseWishart(noise.kind, noise.dof + 1.0, scatter)
            mean, precision = mean + apart / (precision + 1.0), precision + 1.0
        cov = noise.draw(rng)
        factor = cov_.cholesky(cov, "the drawn root_cov")
        return mean + factor @ rng.standard_normal(len(mean)) / np.sqrt(precision), cov


def gaussian_prior(options: Any, X: Array) -> GaussianPrior:
    """Return the prior that a GaussianPosterior's options ask for, its gaps filled from X."""
    D, owner = X.shape[1], type(options).__name__
    blocks, precisions = [], []
    if options.transition == "full":
        A0 = options.transition_prior
        A0 = float(A0) * np.eye(D) if np.ndim(A0) == 0 else A0
        blocks.append(_shaped(A0, np.eye(D), owner, "transition_prior"))
        K0 = options.transition_precision_prior
        K0 = float(K0) * np.diag(cov_.column_scales(X)) if np.ndim(K0) == 0 else K0
        shaped = _shaped(K0, np.eye(D), owner, "transition_precision_prior")
        precisions.append(_definite(shaped, "it"))
    if options._offset_is_free:
        kappa = options.mean_precision_prior
        kappa = 1.0 if kappa is None else float(kappa)
        blocks.append(np.zeros((D, 1)))
        precisions.append(np.array([[kappa]]))
    coefficients = np.hstack(blocks) if blocks else np.empty((D, 0))
    gram = block_diag(*precisions) if precisions else np.empty((0, 0))
    h2 = 1.0 if options.parent_free else cov_.bandwidth(*X.shape) ** 2
    return regression_prior(options, X, coefficients, gram, h2)


def regression_prior(
    options: Any,
    X: Array,  # (T, D)
    coefficients: Array,  # (D, H), B₀
    gram: Array,  # (H, H), K₀
    h2: float,  # the noise's share of the covariance of the records, where Ψ₀ was not given
) -> GaussianPrior:
    """Return the prior with this B₀ and K₀; centre, noise and root from the options or from X."""
    D, kind, owner = X.shape[1], options.covariance, type(options).__name__
    mean, cov, floor, *_ = iid_start(options, X)
    full = kind == "full"
    noise = InverseWishart(
        kind,
        _degrees(options.degrees_of_freedom_prior, D if full else 1.0, D, kind, owner),
        _covariance(
            options.covariance_prior,
            options.prior_strength * (h2 * cov + floor),
            kind,
            owner,
            "covariance_prior",
        ),
    )
    root_noise = InverseWishart(
        kind,
        _degrees(options.root_degrees_of_freedom_prior, D + 2.0 if full else 3.0, D, kind, owner),
        _covariance(
            options.root_covariance_prior, cov + floor, kind, owner, "root_covariance_prior"
        ),
    )
    return GaussianPrior(
        centre=_shaped(options.mean_prior, mean, owner, "mean_prior"),
        coefficients=coefficients,
        gram=gram,
        noise=noise,
        root_precision=float(options.root_mean_precision_prior),
        root_noise=root_noise,
    )


def _shaped(value: Any, default: Array, owner: str, name: str) -> Array:
    array = default if value is None else np.array(value, dtype=np.float64)
    if array.shape != default.shape or not np.isfinite(array).all():
        raise ValueError(
            f"{owner} expects {name} of shape {default.shape} with finite entries, but "
            f"got shape {array.shape}; give one entry for each column of X."
        )
    return array


def _degrees(value: float | None, default: float, D: int, kind: str, owner: str) -> float:
    degrees = default if value is None else float(value)
    least = D - 1.0 if kind == "full" else 0.0
    if not degrees > least:
        raise ValueError(
            f"{owner} expects degrees of freedom > {least:g} for covariance={kind!r} and "
            f"{D} columns; got {degrees:g}. Raise them."
        )
    return degrees


def _covariance(value: Any, default: Array, kind: str, owner: str, name: str) -> Array:
    return _definite(cov_.restrict(_shaped(value, default, owner, name), kind), name)


def _definite(matrix: Array, name: str) -> Array:
    cov_.cholesky(matrix, name)
    return matrix


class RegressionPosterior(Posterior):
    """What families share in which a child is linear in known features z of its parent.

        y | z ~ N(B z, S),   B | S ~ matrix normal(B₀, S, K₀⁻¹),   S ~ inverse Wishart(ν₀, Ψ₀)

    with y the child less a base that the parent determines; q is of the same kind. A family is a
    frozen dataclass with the fields below. It writes `_design`, and how B and S make a mutation.
    """

    covariance: str
    prior_: Any  # GaussianPrior, None before `start`
    statistics_: Any  # (1 + D² + DH + H²,)
    # Of q, from prior and statistics:
    coefficients: Any  # (D, H), B's mean
    gram: Any  # (H, H), K
    noise: Any  # InverseWishart of S

    @abstractmethod
    def _design(self, parents: Array) -> tuple[Array, Array]:
        """Return what is taken off the children of each parent, (n, D) or (D,), and z (n, H)."""

    @abstractmethod
    def _mutation(self, B: Array, cov: Array, root: tuple[Array, Array]) -> RegressionMutation: ...

    @abstractmethod
    def _coefficients_of(self, mutation: Any) -> Array:
        """Return the B (D, H) of a mutation from `_mutation`."""

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for name in ("prior_strength", "root_mean_precision_prior"):
            check_number(owner, name, getattr(self, name), 0, open_low=True)
        for name in (
            "mean_precision_prior",
            "degrees_of_freedom_prior",
            "root_degrees_of_freedom_prior",
        ):
            if getattr(self, name) is not None:
                check_number(owner, name, getattr(self, name), 0, open_low=True)

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.prior_ is None else len(self.prior_.centre)

    # Statistics: weight, Σ W y yᵀ, Σ W y zᵀ, Σ W z zᵀ -------------------------------------------

    def _moments(self) -> tuple[float, Array, Array, Array]:
        D, H = self.prior_.coefficients.shape
        weight, yy, yz, zz = np.split(self.statistics_, np.cumsum([1, D * D, D * H]))
        return float(weight[0]), yy.reshape(D, D), yz.reshape(D, H), zz.reshape(H, H)

    def _with_statistics(self, statistics: Array) -> Self:
        prior: GaussianPrior = self.prior_
        held = replace(self, statistics_=statistics)  # type: ignore[type-var]  # a dataclass
        N, yy, yz, zz = held._moments()
        if prior.noise.dof + N <= 0 or N < -1e-6:
            raise ValueError(f"{type(self).__name__} expects a weight >= 0; got {N:g}.")
        K = prior.gram + (zz + zz.T) / 2
        weighted0 = prior.coefficients @ prior.gram
        right = weighted0 + yz
        B = np.linalg.solve(K, right.T).T if K.size else right
        # Ψ₀ + Σ W (y − Bz)(y − Bz)ᵀ + (B − B₀) K₀ (B − B₀)ᵀ: sums of squares, no difference of
        # large numbers where B is the maximum.
        change = B - prior.coefficients
        residual = yy - B @ yz.T - yz @ B.T + B @ zz @ B.T
        scatter = prior.noise.scatter + residual + change @ prior.gram @ change.T
        scatter = cov_.restrict(scatter, self.covariance)
        cov_.cholesky(scatter, "the posterior scatter")  # refuses what is no posterior
        cov_.cholesky(K, "the posterior precision of the transition")
        noise = InverseWishart(self.covariance, prior.noise.dof + N, scatter)
        return replace(held, coefficients=B, gram=K, noise=noise)  # type: ignore[type-var]  # a dataclass

    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array:
        if self.parent_free:
            weights = weights.sum(axis=1, keepdims=True)
        base, z = self._design(parents[: weights.shape[1]])
        by_child, by_parent = weights.sum(axis=1), weights.sum(axis=0)
        y = children - self.prior_.centre
        # y' W first: D is small beside the number of features.
        weighed = y.T @ weights
        yy, yz, zz = (y.T * by_child) @ y, weighed @ z, (z.T * by_parent) @ z
        if base.ndim == 2:  # each parent takes its own base off its children
            p = base - self.prior_.centre
            cross = weighed @ p
            yy = yy + (p.T * by_parent) @ p - cross - cross.T
            yz = yz - (p.T * by_parent) @ z
        return np.concatenate([[by_child.sum()], yy.ravel(), yz.ravel(), zz.ravel()])

    def _after(self, B: Array, zz: Array, cov: Array, weight: float) -> Self:
        """Return q after so many edges that follow B and S = cov, with E[z zᵀ] = zz, exactly."""
        blocks = [np.ones(1), (cov + B @ zz @ B.T).ravel(), (B @ zz).ravel(), zz.ravel()]
        return self._with_statistics(weight * np.concatenate(blocks))

    def _narrowed(self, factor: float) -> Self:
        weight, yy, yz, zz = self._moments()
        explained = self.coefficients @ zz @ self.coefficients.T  # of yy; the rest is noise
        noise = factor * (yy - explained)
        blocks = [[weight], (explained + noise).ravel(), yz.ravel(), zz.ravel()]
        return self._with_statistics(np.concatenate(blocks))

    # Densities ---------------------------------------------------------------------------------

    def _means(self, parents: Array) -> tuple[Array, Array]:
        """Return the expected child of each parent (n, D), and zᵀ K⁻¹ z (n,)."""
        base, z = self._design(parents)
        doubt = np.zeros(len(parents))
        if z.size:
            doubt = np.sum(z.T * np.linalg.solve(self.gram, z.T), axis=0)
        return base + z @ self.coefficients.T, doubt

    def _expected_log_conditional(self, children: Array, parents: Array) -> Array:
        means, doubt = self._means(parents[:1] if self.parent_free else parents)
        log_pairs = log_normal(children, means, self.noise.harmonic_mean, "the posterior scatter")
        D = children.shape[1]
        log_pairs -= 0.5 * (self.noise.log_det_excess() + D * doubt)
        return np.repeat(log_pairs, len(parents), axis=1) if self.parent_free else log_pairs

    def _log_predictive(self, children: Array, parents: Array) -> Array:
        means, doubt = self._means(parents[:1] if self.parent_free else parents)
        log_pairs = self.noise.log_student(children, means, 1.0 + doubt)
        return np.repeat(log_pairs, len(parents), axis=1) if self.parent_free else log_pairs

    def _log_root(self, X: Array) -> Array:
        prior: GaussianPrior = self.prior_
        spread = np.array([1.0 + 1.0 / prior.root_precision])
        return prior.root_noise.log_student(X, prior.centre[None], spread)[:, 0]

    # Parameters, divergence and draws ------------------------------------------------------------

    def mean(self) -> Any:
        """Return the mutation at the mean of B and the harmonic mean of S."""
        self._require_started()
        root = (self.prior_.centre, self.prior_.root_noise.harmonic_mean)
        return self._mutation(self.coefficients, self.noise.harmonic_mean, root)

    def _kl(self) -> float:
        prior: GaussianPrior = self.prior_
        change = self.coefficients - prior.coefficients
        K, K0 = self.gram, prior.gram
        D, H = change.shape
        result = self.noise.kl(prior.noise)
        if H:
            moved = change @ K0 @ change.T
            log_dets = cov_.log_determinant(K, "K") - cov_.log_determinant(K0, "K₀")
            result += 0.5 * D * (float(np.trace(np.linalg.solve(K, K0))) - H + log_dets)
            result += 0.5 * float(np.sum(self.noise.expected_precision * moved))
        return float(result)

    def _draw(self, rng: np.random.Generator, root_record: Array | None) -> RegressionMutation:
        cov = self.noise.draw(rng)
        D, H = self.coefficients.shape
        rows = cov_.cholesky(cov, "the drawn covariance") @ rng.standard_normal((D, H))
        B = self.coefficients
        if H:
            # With K = L Lᵀ, noise Lᵀ⁻¹ from the right has covariance K⁻¹.
            B = B + np.linalg.solve(cov_.cholesky(self.gram, "K").T, rows.T).T
        return self._mutation(B, cov, self.prior_.draw_root(rng, root_record))

    def _log_prior_ratio(self, mutation: RegressionMutation) -> float:
        return float(self._log_prior_ratios([mutation])[0])

    def _log_prior_ratios(self, mutations: Sequence[Any]) -> Array:
        prior: GaussianPrior = self.prior_
        B = np.array([self._coefficients_of(m) for m in mutations])
        cov = np.array([m.mutation_cov for m in mutations])
        result = prior.noise.log_ratio(self.noise, cov)
        if B.size:
            precision = np.linalg.inv(cov)
            for sign, mean, K in (
                (1.0, prior.coefficients, prior.gram),
                (-1.0, self.coefficients, self.gram),
            ):
                change = B - mean
                quadratic = np.sum(precision * (change @ K @ change.mT), axis=(1, 2))
                log_det = cov.shape[1] * cov_.log_determinant(K, "K")
                result = result + 0.5 * sign * (log_det - quadratic)
        return np.asarray(result)

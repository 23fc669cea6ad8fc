"""The prior of a regression on the parent, given or scaled by the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outtrees._common.types import Array
from outtrees.models import covariance as cov_
from outtrees.models.conjugate.inverse_wishart import InverseWishart


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
    parent_free = options.transition == "zero"
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
        kappa = (1.0 if parent_free else 0.01) if kappa is None else float(kappa)
        blocks.append(np.zeros((D, 1)))
        precisions.append(np.array([[kappa]]))
    coefficients = np.hstack(blocks) if blocks else np.empty((D, 0))
    gram = np.zeros((coefficients.shape[1],) * 2)
    low = 0
    for block in precisions:
        gram[low : low + len(block), low : low + len(block)] = block
        low += len(block)
    h2 = 1.0 if parent_free else cov_.bandwidth(*X.shape) ** 2
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
    mean, cov = cov_.iid_moments(X, kind)
    floor = options.reg_covar * cov_.restrict(np.diag(cov_.column_scales(X)), kind)
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
            f"{D} columns, but got {degrees:g}; raise them."
        )
    return degrees


def _covariance(value: Any, default: Array, kind: str, owner: str, name: str) -> Array:
    return _definite(cov_.restrict(_shaped(value, default, owner, name), kind), name)


def _definite(matrix: Array, name: str) -> Array:
    cov_.cholesky(matrix, name)
    return matrix

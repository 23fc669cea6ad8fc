"""Regression of children on what is known of their parents, with a conjugate posterior."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np

from outtrees._common.types import Array
from outtrees.models import covariance as cov_
from outtrees.models.conjugate.base import Posterior
from outtrees.models.conjugate.gaussian_prior import GaussianPrior
from outtrees.models.conjugate.inverse_wishart import InverseWishart
from outtrees.models.normal import log_normal


class RegressionPosterior(Posterior):
    """What families share in which a child is linear in known features z of its parent.

        y | z ~ N(B z, S),   B | S ~ matrix normal(B₀, S, K₀⁻¹),   S ~ inverse Wishart(ν₀, Ψ₀)

    with y the child less a base that the parent determines; q is of the same kind. A family is a
    frozen dataclass with the fields below, and writes `_design`.
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

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.prior_ is None else len(self.prior_.centre)

    # Statistics: weight, Σ W y yᵀ, Σ W y zᵀ, Σ W z zᵀ -------------------------------------------

    @property
    def statistics(self) -> Array:
        """Σ W, Σ W y yᵀ, Σ W y zᵀ and Σ W z zᵀ in one vector."""
        return self.statistics_

    def _moments(self) -> tuple[float, Array, Array, Array]:
        D, H = self.prior_.coefficients.shape
        weight, yy, yz, zz = np.split(self.statistics_, np.cumsum([1, D * D, D * H]))
        return float(weight[0]), yy.reshape(D, D), yz.reshape(D, H), zz.reshape(H, H)

    def _with_statistics(self, statistics: Array) -> Self:
        prior: GaussianPrior = self.prior_
        held = replace(self, statistics_=statistics)
        N, yy, yz, zz = held._moments()
        if prior.noise.dof + N <= 0 or N < -1e-6:
            raise ValueError(f"{type(self).__name__} expects a weight >= 0, but got {N:g}.")
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
        return replace(held, coefficients=B, gram=K, noise=noise)

    # Densities ---------------------------------------------------------------------------------

    def _means(self, parents: Array) -> tuple[Array, Array]:
        """Return the expected child of each parent (n, D), and zᵀ K⁻¹ z (n,)."""
        base, z = self._design(parents)
        doubt = np.zeros(len(parents))
        if z.size:
            doubt = np.sum(z.T * np.linalg.solve(self.gram, z.T), axis=0)
        return base + z @ self.coefficients.T, doubt

    def _expected(self, children: Array, parents: Array) -> Array:
        means, doubt = self._means(parents)
        log_pairs = log_normal(children, means, self.noise.harmonic_mean, "the posterior scatter")
        D = children.shape[1]
        log_pairs -= 0.5 * (self.noise.log_det_excess() + D * doubt)
        return log_pairs

    def _predictive(self, children: Array, parents: Array) -> Array:
        means, doubt = self._means(parents)
        return self.noise.log_student(children, means, 1.0 + doubt)

    def _log_root(self, X: Array) -> Array:
        prior: GaussianPrior = self.prior_
        spread = np.array([1.0 + 1.0 / prior.root_precision])
        return prior.root_noise.log_student(X, prior.centre[None], spread)[:, 0]

    # Divergence and draws ----------------------------------------------------------------------

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
        return result

    def _drawn(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return B and S from q."""
        cov = self.noise.draw(rng)
        D, H = self.coefficients.shape
        rows = cov_.cholesky(cov, "the drawn covariance") @ rng.standard_normal((D, H))
        B = self.coefficients
        if H:
            # With K = L Lᵀ, noise Lᵀ⁻¹ from the right has covariance K⁻¹.
            B = B + np.linalg.solve(cov_.cholesky(self.gram, "K").T, rows.T).T
        return B, cov

    def _log_ratio(self, B: Array, cov: Array) -> float:
        """Return log p(B, S) − log q(B, S)."""
        prior: GaussianPrior = self.prior_
        result = prior.noise.log_ratio(self.noise, cov)
        if B.size:
            precision = cov_.inverse(cov)
            for sign, mean, K in (
                (1.0, prior.coefficients, prior.gram),
                (-1.0, self.coefficients, self.gram),
            ):
                quadratic = np.sum(precision * ((B - mean) @ K @ (B - mean).T))
                result += 0.5 * sign * (len(cov) * cov_.log_determinant(K, "K") - quadratic)
        return float(result)

"""Inverse-Wishart distributions of covariances of three shapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import digamma, gammaln, multigammaln

from outtrees._common.types import Array
from outtrees.models.covariance import cholesky, inverse, log_determinant, restrict


@dataclass(frozen=True)
class InverseWishart:
    """A covariance S of D columns with density ∝ |S|^(−(ν+D+1)/2) exp(−tr(Ψ S⁻¹)/2).

    ν (`dof`) counts residuals and Ψ (`scatter`) is their sum of squares. A "diag" covariance has
    D independent inverse-Gamma(ν/2, Ψ_dd/2) variances, a "spherical" one a single
    inverse-Gamma(Dν/2, tr Ψ/2): in all three ν residuals add ν to `dof`.

    Examples
    --------
    >>> InverseWishart("full", 5.0, np.eye(2)).expected_precision
    array([[5., 0.],
           [0., 5.]])
    """

    kind: str  # "full", "diag" or "spherical"
    dof: float
    scatter: Array  # (D, D), of the kind; "spherical" holds the mean of its diagonal, as restrict

    @property
    def D(self) -> int:
        """The number of columns."""
        return len(self.scatter)

    @property
    def expected_precision(self) -> Array:
        """E[S⁻¹] = ν Ψ⁻¹."""
        return self.dof * inverse(self.scatter, "the posterior scatter")

    @property
    def harmonic_mean(self) -> Array:
        """E[S⁻¹]⁻¹ = Ψ / ν."""
        return self.scatter / self.dof

    def log_det_excess(self) -> float:
        """Return E[log|S|] − log|E[S⁻¹]⁻¹|, positive: what Jensen's inequality leaves."""
        D, nu = self.D, self.dof
        if self.kind == "full":
            halves = (nu - np.arange(D)) / 2
            return float(D * np.log(nu / 2) - digamma(halves).sum())
        n = nu * D if self.kind == "spherical" else nu
        return float(D * (np.log(n / 2) - digamma(n / 2)))

    def expected_log_det(self) -> float:
        """Return E[log|S|]."""
        return self.log_det_excess() + log_determinant(self.harmonic_mean, "the posterior scatter")

    def log_constant(self) -> float:
        """Return the logarithm of the factor that normalises the density.

        Ψ enters a spherical covariance by its trace, D times its mean.
        """
        D, nu = self.D, self.dof
        log_det = log_determinant(self.scatter / 2, "the posterior scatter")
        if self.kind == "full":
            return 0.5 * nu * log_det - float(multigammaln(nu / 2, D))
        if self.kind == "diag":
            return 0.5 * nu * log_det - D * float(gammaln(nu / 2))
        return 0.5 * nu * (log_det + D * np.log(D)) - float(gammaln(D * nu / 2))

    def kl(self, other: InverseWishart) -> float:
        """Return KL(self ‖ other)."""
        more = self.dof - other.dof
        trace = float(np.sum((other.scatter - self.scatter) * self.expected_precision))
        return (
            self.log_constant()
            - other.log_constant()
            - 0.5 * more * self.expected_log_det()
            + 0.5 * trace
        )

    def log_ratio(self, other: InverseWishart, cov: Array) -> float:
        """Return log self(S) − log other(S)."""
        return (
            self.log_constant()
            - other.log_constant()
            - 0.5 * (self.dof - other.dof) * log_determinant(cov)
            - 0.5 * float(np.sum((self.scatter - other.scatter) * inverse(cov)))
        )

    def draw(self, rng: np.random.Generator) -> Array:
        """Return a covariance, by Bartlett's decomposition."""
        D, nu = self.D, self.dof
        if self.kind == "diag":
            return np.diag(np.diag(self.scatter) / rng.chisquare(nu, size=D))
        if self.kind == "spherical":
            return D * self.scatter / rng.chisquare(D * nu)
        # S⁻¹ = Ψ^(−1/2) A Aᵀ Ψ^(−1/2)ᵀ, so S = F Fᵀ with F = Ψ^(1/2) A⁻ᵀ, A lower triangular.
        A = np.tril(rng.standard_normal((D, D)), -1)
        A[np.diag_indices(D)] = np.sqrt(rng.chisquare(nu - np.arange(D)))
        factor = solve_triangular(
            A, cholesky(self.scatter, "the posterior scatter").T, lower=True
        ).T
        return restrict(factor @ factor.T, "full")

    def log_student(
        self,
        points: Array,  # (n, D)
        means: Array,  # (m, D)
        spread: Array,  # (m,)
    ) -> Array:
        """Return the log-densities (n, m) of points that given S are N(mean, spread · S).

        With S integrated out: Student's t with ν − D + 1 degrees of freedom ("full"), a product
        of t with ν ("diag"), one t with Dν ("spherical"). O(n m D).
        """
        D, nu = self.D, self.dof
        log_det = log_determinant(self.scatter, "the posterior scatter")
        log_scale = 0.5 * (log_det + D * np.log(np.pi)) + 0.5 * D * np.log(spread)
        if self.kind == "diag":
            tail = np.zeros((len(points), len(means)))
            for d, scatter in enumerate(np.diag(self.scatter)):
                squared = np.square(points[:, d, None] - means[None, :, d])
                tail += np.log1p(squared / (scatter * spread))
            constant = D * float(gammaln((nu + 1) / 2) - gammaln(nu / 2))
            return constant - log_scale - 0.5 * (nu + 1) * tail
        factor = cholesky(self.scatter, "the posterior scatter")
        shift = means[0]  # whitening mixes columns, where a common large part would only round
        white_points = solve_triangular(factor, (points - shift).T, lower=True).T
        white_means = solve_triangular(factor, (means - shift).T, lower=True).T
        squared = cdist(white_points, white_means, "sqeuclidean")
        if self.kind == "spherical":  # the density knows tr Ψ, D times the mean that is held
            squared, log_scale, top = squared / D, log_scale + 0.5 * D * np.log(D), D * nu + D
        else:
            top = nu + 1
        constant = float(gammaln(top / 2) - gammaln((top - D) / 2))
        return constant - log_scale - 0.5 * top * np.log1p(squared / spread)

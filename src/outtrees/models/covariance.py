"""Covariances of three shapes: their prior, their unconstrained coordinates, their estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import digamma, gammaln, multigammaln

from outtrees._common.edges import Ints, chunks
from outtrees._common.types import Array

COVARIANCES = ("full", "diag", "spherical")


def restrict(matrix: Array, kind: str) -> Array:
    """Return the part of a symmetric matrix that a covariance of this kind responds to.

    For S of that kind tr(S⁻¹ M) = tr(S⁻¹ restrict(M)), so the restricted scatter divided by its
    weight is the exact maximiser of a Gaussian likelihood over covariances of that kind.

    Examples
    --------
    >>> restrict(np.array([[4.0, 1.0], [1.0, 2.0]]), "spherical")
    array([[3., 0.],
           [0., 3.]])
    """
    if kind == "full":
        return (matrix + matrix.T) / 2
    diagonal = np.diag(matrix)
    if kind == "diag":
        return np.diag(diagonal)
    return diagonal.mean() * np.eye(len(matrix))


def cholesky(cov: Array, name: str) -> Array:
    """Return the lower Cholesky factor, or say which covariance is not positive definite."""
    try:
        return np.asarray(np.linalg.cholesky(cov), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"{name} is expected to be positive definite, but it is singular (constant, duplicated "
            "or collinear columns, or identical records); use prior_strength > 0 with "
            "reg_covar > 0, or covariance='diag'."
        ) from error


def inverse(cov: Array, name: str = "mutation_cov") -> Array:
    """Return the inverse of a covariance."""
    return cho_solve((cholesky(cov, name), True), np.eye(len(cov)))


def log_determinant(cov: Array, name: str = "mutation_cov") -> float:
    """Return the log determinant of a covariance."""
    return 2.0 * float(np.log(np.diag(cholesky(cov, name))).sum())


def to_vector(cov: Array, kind: str) -> Array:
    """Return free coordinates: the Cholesky factor by rows, its diagonal in logs.

    Diagonal covariances need only the logs of the D standard deviations, spherical ones a single
    log.
    """
    factor = cholesky(cov, "mutation_cov")
    if kind != "full":
        log_scales = np.log(np.diag(factor))
        return log_scales if kind == "diag" else log_scales[:1]
    coordinates = factor.copy()
    np.fill_diagonal(coordinates, np.log(np.diag(factor)))
    return coordinates[np.tril_indices(len(cov))]


def from_vector(vector: Array, D: int, kind: str) -> Array:
    """Return the covariance with the given free coordinates.

    Examples
    --------
    >>> cov = np.array([[4.0, 1.0], [1.0, 2.0]])
    >>> np.allclose(from_vector(to_vector(cov, "full"), 2, "full"), cov)
    True
    """
    if kind != "full":
        return np.diag(np.exp(2.0 * np.broadcast_to(vector, (D,))))
    factor = np.zeros((D, D))
    factor[np.tril_indices(D)] = vector
    np.fill_diagonal(factor, np.exp(np.diag(factor)))
    return factor @ factor.T


def vector_gradient(cov: Array, kind: str, weight: float, scatter: Array) -> Array:
    """Return the gradient of −weight/2 log|S| − tr(S⁻¹ scatter)/2 in free coordinates."""
    precision = inverse(cov)
    # dJ/dS for symmetric S; with S = LLᵀ the chain rule gives dJ/dL = 2 (dJ/dS) L.
    by_cov = 0.5 * (precision @ ((scatter + scatter.T) / 2) @ precision - weight * precision)
    if kind != "full":
        by_log_scale = 2.0 * np.diag(by_cov) * np.diag(cov)
        return by_log_scale if kind == "diag" else by_log_scale.sum(keepdims=True)
    factor = cholesky(cov, "mutation_cov")
    by_factor = 2.0 * by_cov @ factor
    by_factor[np.diag_indices(len(cov))] *= np.diag(factor)
    return by_factor[np.tril_indices(len(cov))]


def log_prior_cov(cov: Array, prior_cov: Array | None, strength: float) -> float:
    """Return the log prior of a covariance, which is 0 at its mode `prior_cov`.

        −strength/2 · (log|S| − log|S₀| + tr(S₀ S⁻¹) − D)

    This is the log-likelihood of `strength` more residuals of covariance S₀, measured from its
    maximum: an inverse-Wishart density without its constant.

    Examples
    --------
    >>> log_prior_cov(np.eye(2), np.eye(2), 3.0)
    -0.0
    """
    if prior_cov is None or strength == 0:
        return 0.0
    divergence = (
        log_determinant(cov)
        - log_determinant(prior_cov, "prior_cov")
        + float(np.sum(prior_cov * inverse(cov)))
        - len(cov)
    )
    return -0.5 * strength * divergence


def posterior_cov(
    scatter: Array, weight: float, prior_cov: Array | None, strength: float, kind: str
) -> Array:
    """Return the covariance that maximises likelihood times prior.

    It is (scatter + strength · prior_cov) / (weight + strength), restricted to the kind.
    """
    if prior_cov is not None:
        scatter, weight = scatter + strength * prior_cov, weight + strength
    return restrict(scatter / weight, kind)


def column_scales(X: Array) -> Array:
    """Return a positive variance for each column, borrowed from the others where it is constant."""
    variances = X.var(axis=0)
    varying = np.ptp(X, axis=0) > 0  # the variance of a constant can be rounding noise
    typical = variances[varying].mean() if varying.any() else 1.0
    return np.where(varying, variances, typical)


def iid_moments(X: Array, kind: str) -> tuple[Array, Array]:
    """Return mean and maximum-likelihood covariance of independent records."""
    constant = np.ptp(X, axis=0) == 0
    mean = np.where(constant, X[0], X.mean(axis=0))
    deviations = X - mean
    return mean, restrict(deviations.T @ deviations / len(X), kind)


def bandwidth(n_samples: int, n_features: int) -> float:
    """Return T^(−1/(D+4)), the rate at which a Parzen bandwidth shrinks (Scott's rule).

    Examples
    --------
    >>> round(bandwidth(534, 3), 3)
    0.408
    """
    return float(n_samples ** (-1.0 / (n_features + 4)))


def log_normal(
    points: Array,  # (n, D)
    means: Array,  # (m, D)
    cov: Array,  # (D, D)
    name: str = "mutation_cov",
) -> Array:
    """Return log N(point u | mean v, cov), shape (n, m).

    Distances are taken between whitened points, not expanded into products, which would cancel
    for points far from the origin. O((n + m) D² + n m D).

    Examples
    --------
    >>> log_normal(np.zeros((1, 1)), np.array([[0.0], [2.0]]), np.eye(1)) + 0.5 * np.log(2 * np.pi)
    array([[ 0., -2.]])
    """
    log_constant, white_points, white_means = whitened(points, means, cov, name)
    return log_constant - 0.5 * cdist(white_points, white_means, "sqeuclidean")


def log_normal_edges(
    points: Array,  # (n, D)
    means: Array,  # (m, D)
    cov: Array,  # (D, D)
    point: Ints,  # (E,) rows of points
    mean: Ints,  # (E,) rows of means
) -> Array:
    """Return log N(points[point] | means[mean], cov) of listed pairs, (E,). O((n + m) D² + E D).

    Examples
    --------
    >>> points = np.array([[0.0], [1.0]])
    >>> log = log_normal_edges(points, points, np.eye(1), np.array([0, 1]), np.array([1, 1]))
    >>> log + 0.5 * np.log(2 * np.pi)
    array([-0.5,  0. ])
    """
    log_constant, white_points, white_means = whitened(points, means, cov)
    result = np.empty(len(point))
    for rows in chunks(len(point), len(cov)):
        apart = white_points[point[rows]] - white_means[mean[rows]]
        result[rows] = log_constant - 0.5 * np.einsum("ed,ed->e", apart, apart)
    return result


def whitened(
    points: Array,  # (n, D)
    means: Array,  # (m, D)
    cov: Array,  # (D, D)
    name: str = "mutation_cov",
) -> tuple[float, Array, Array]:
    """Return the log-density at no distance, and points and means in units of the noise.

    log N(point | mean, cov) is the first less half the squared distance of the others.
    """
    factor = cholesky(cov, name)
    log_constant = -0.5 * len(cov) * np.log(2 * np.pi) - np.log(np.diag(factor)).sum()
    # One shift for both: whitening mixes columns, where a common large part would only round.
    shift = means[0]
    white_points = solve_triangular(factor, (points - shift).T, lower=True).T
    white_means = solve_triangular(factor, (means - shift).T, lower=True).T
    return float(log_constant), white_points, white_means


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

    def log_ratio(self, other: InverseWishart, cov: Array) -> Array:
        """Return log self(S) − log other(S) of each S (…, D, D)."""
        change = (self.scatter - other.scatter) * np.linalg.inv(cov)
        return np.asarray(
            self.log_constant()
            - other.log_constant()
            - 0.5 * (self.dof - other.dof) * np.linalg.slogdet(cov)[1]
            - 0.5 * change.sum(axis=(-2, -1))
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
        white = whitened(points, means, self.scatter, "the posterior scatter")[1:]
        squared = cdist(*white, "sqeuclidean")
        if self.kind == "spherical":  # the density knows tr Ψ, D times the mean that is held
            squared, log_scale, top = squared / D, log_scale + 0.5 * D * np.log(D), D * nu + D
        else:
            top = nu + 1
        constant = float(gammaln(top / 2) - gammaln((top - D) / 2))
        return constant - log_scale - 0.5 * top * np.log1p(squared / spread)


_CONSTANT = 1e-6  # of the other columns' variance: `reg_covar` of the mutations
_CENTRE = 1.0  # records at the mean of all that each class's mean is worth beforehand


def log_gaussian_by_class(
    X: Array,  # (T, D)
    weights: Array,  # (T, C) how much each record is of each class
    records: Array,  # (n, D)
) -> Array:
    """Return the log-densities of the records in Gaussians with one covariance, (n, C).

    The covariance is that within classes, held near the variances of all records with the weight
    of D records: so it stays positive definite for any number of columns. A constant column says
    nothing of the class; it gets about the spread that mutations give it, so that records which
    begin anew are no less likely for it than others.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [9.0], [10.0]])
    >>> log_gaussian_by_class(X, np.eye(2)[[0, 0, 1, 1]], np.array([[2.0]])).argmax(axis=1)
    array([0])
    """
    varying = np.ptp(X, axis=0) > 0  # the variance of a constant can be rounding noise
    spread = column_scales(X)
    x, r, D = X[:, varying], records[:, varying], int(varying.sum())
    n_class = weights.sum(axis=0)
    means = (weights.T @ x + _CENTRE * x.mean(axis=0)) / (n_class + _CENTRE)[:, None]
    cov = D * np.diag(spread[varying])
    for mean, weight in zip(means, weights.T, strict=True):
        cov += (weight[:, None] * (x - mean)).T @ (x - mean)
    root = np.linalg.cholesky(cov / max(D + n_class.sum(), 1.0))
    log_scale = np.log(np.diag(root)).sum() + 0.5 * D * np.log(2 * np.pi)
    steps = [solve_triangular(root, (r - mean).T, lower=True) for mean in means]
    found = np.array([-0.5 * (step**2).sum(axis=0) - log_scale for step in steps]).T
    narrow = _CONSTANT * spread[~varying] / (len(X) + 1)
    off = (records - X[0])[:, ~varying] ** 2 / narrow + np.log(2 * np.pi * narrow)
    return np.asarray(found - 0.5 * off.sum(axis=1, keepdims=True))

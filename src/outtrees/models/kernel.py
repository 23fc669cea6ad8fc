"""Hilbert Gaussian mutation: the child's mean is a smooth function of its parent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from outtrees._common.arguments import check_count, check_number, check_option
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models import covariance as cov_
from outtrees.models.covariance import bandwidth
from outtrees.models.regression import (
    RegressionMutation,
    RegressionPosterior,
    check_regression,
    iid_start,
    regression_prior,
)

KERNELS = ("rbf", "polynomial", "linear")
_ROUNDING = 1e-12  # of a column's largest value: less than that is no spread


@dataclass(frozen=True, eq=False, repr=False)
class KernelMutation(RegressionMutation):
    """Child = Σ_l kernel_weights[l] k(parent, landmark l) + offset + noise (paper, section 8).

        root   N(root_mean, diag(root_variances))
        child  N(kernel_weightsᵀ k(landmarks, parent) + offset, diag(variances))

    Parameters
    ----------
    kernel : {"rbf", "polynomial", "linear"} or callable
        A callable takes two records and returns a number; it must be positive semi-definite.
    gamma : float or "scale"
        For "rbf" and "polynomial"; "scale" is 1 / D, with each column in units of its standard
        deviation, so that the units of a column do not matter.
    degree, coef0 : float
        For "polynomial".
    ridge : float > 0
        The penalty on the squared norm of the mean function, in units of the noise:

            log_prior = −Σ_d ridge ‖f_d‖² / (2 variance_d) + prior of the variances,
            ‖f_d‖² = kernel_weights[:, d]ᵀ K kernel_weights[:, d],

        a Gaussian prior on the weights given the variances, so that the best weights are those of
        kernel ridge regression with alpha = ridge, whatever the variances.
    n_landmarks : int, optional
        How many records, drawn by `start`, carry weights (Nyström). None takes all T as in the
        paper; a refit costs O(T² D + T m² + m³) for m landmarks.
    covariance : {"diag", "spherical"}
        One variance for each column, or one for all.
    fit_offset : bool
        Whether the offset is learned; else it is 0.
    prior_strength, reg_covar : float
        As in GaussianMutation, for the variances.
    start_correlation : float in [0, 1], optional
        At `start` the mean function is the kernel ridge fit of mean + a (parent − mean); by
        default a² = 1 − T^(−2/(D+4)), and a = 0 is the iid solution.

    Notes
    -----
    Weights are held in the coordinates of `features`, F = K(·, landmarks) B with Bᵀ K B = I,
    where directions in which K vanishes are left out: they are the zero function. In these
    coordinates the penalty is a plain sum of squares and the normal equations are regular even
    with duplicated landmarks.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> mutation = KernelMutation(n_landmarks=10).start(X, random_state=0)
    >>> mutation.kernel_weights.shape
    (10, 2)
    """

    kernel: str | Callable[[Array, Array], float] = "rbf"
    gamma: float | str = "scale"
    degree: float = 3
    coef0: float = 1.0
    ridge: float = 1.0
    n_landmarks: int | None = 100
    covariance: str = "diag"
    fit_offset: bool = True
    prior_strength: float = 1.0
    reg_covar: float = 1e-6
    start_correlation: float | None = None
    _: KW_ONLY
    root_mean: Any = field(default=None, repr=False)  # (D,)
    root_cov: Any = field(default=None, repr=False)  # (D, D)
    landmarks: Any = field(default=None, repr=False)  # (m, D)
    basis: Any = field(default=None, repr=False)  # (m, k), B
    feature_weights: Any = field(default=None, repr=False)  # (k, D)
    offset: Any = field(default=None, repr=False)  # (D,)
    mutation_cov: Any = field(default=None, repr=False)  # (D, D)
    prior_cov: Any = field(default=None, repr=False)  # (D, D)
    scale_gamma: Any = field(default=None, repr=False)  # (D,), what gamma="scale" came to

    def __post_init__(self) -> None:
        check_kernel_options(self)
        check_number(type(self).__name__, "prior_strength", self.prior_strength, 0)

    # Start -----------------------------------------------------------------------------------

    def _start(self, X: Array, random_state: Any) -> Self:
        T, D = X.shape
        mean, cov, floor, h2, correlation, noise = iid_start(self, X, self.start_correlation)
        # A copy: scikit-learn rounds the kernel of an array with itself in another way, and what
        # comes back from a file is never the records themselves.
        landmarks = X.copy()
        if self.n_landmarks is not None and self.n_landmarks < T:
            chosen = as_generator(random_state).choice(T, self.n_landmarks, replace=False)
            landmarks = X[np.sort(chosen)]
        variances, largest = X.var(axis=0), np.abs(X).max(axis=0)
        varies = variances > (_ROUNDING * largest) ** 2  # else a constant, and its rounding
        empty = replace(
            self,
            root_mean=mean,
            root_cov=cov + self.prior_strength / (T + self.prior_strength) * floor,
            landmarks=landmarks,
            prior_cov=h2 * cov + floor if self.prior_strength > 0 else None,
            scale_gamma=1.0 / (D * np.where(varies, variances, 1.0)),
        )
        basis = _basis(empty._kernel(landmarks, landmarks))
        started = replace(
            empty,
            basis=basis,
            feature_weights=np.zeros((basis.shape[1], D)),
            offset=mean if self.fit_offset else np.zeros(D),
            mutation_cov=empty.root_cov,
        )
        # Each record as its own parent teaches the identity; shrinking it towards the mean and
        # adding (1 − a²) of the variance leaves the iid Gaussian nearly stationary.
        taught = started._regress(started.features(X), np.ones(T), X - mean)
        shrunk = replace(
            taught,
            feature_weights=correlation * taught.feature_weights,
            offset=correlation * taught.offset + (1.0 - correlation) * started.offset,
        )
        missed = mean + correlation * (X - mean) - shrunk.means(X)
        return replace(
            shrunk,
            mutation_cov=noise * empty.root_cov
            + cov_.restrict(np.diag((missed**2).mean(axis=0)), self.covariance),
        )

    @property
    def _offset_is_free(self) -> bool:
        return self.fit_offset

    @property
    def kernel_weights(self) -> Array:
        """The paper's α, one row for each landmark, shape (m, D)."""
        self._require_started()
        return np.asarray(self.basis @ self.feature_weights)

    @property
    def variances(self) -> Array:
        """The noise variances, shape (D,)."""
        self._require_started()
        return np.diag(self.mutation_cov)

    def features(self, X: Array) -> Array:
        """Return the features of records as parents, shape (n, k).

        Parameters
        ----------
        X : array of shape (n, D)
            Records.

        Returns
        -------
        array of shape (n, k)
            Features.
        """
        return np.asarray(self._kernel(X, self.landmarks) @ self.basis)

    def means(self, parents: Array) -> Array:
        """Return the mean of each parent's children, shape (n, D).

        Parameters
        ----------
        parents : array of shape (n, D)
            Records.

        Returns
        -------
        array of shape (n, D)
            Means of their children.
        """
        return np.asarray(self.features(parents) @ self.feature_weights + self.offset)

    def _kernel(self, X: Array, Z: Array) -> Array:
        from sklearn.metrics.pairwise import pairwise_kernels  # slow to load

        options: dict[str, Any] = {}
        if not callable(self.kernel):
            options = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
            if self.gamma == "scale" and self.kernel != "linear":
                units = np.sqrt(self.scale_gamma)
                X, Z, options["gamma"] = X * units, Z * units, 1.0
        K = pairwise_kernels(
            X, Z, metric=self.kernel, filter_params=not callable(self.kernel), **options
        )
        if not np.isfinite(K).all():
            u, v = np.argwhere(~np.isfinite(K))[0]
            raise ValueError(
                f"KernelMutation expects finite kernel values, but k(record {u}, landmark {v}) is "
                f"{K[u, v]}; scale the data or change the kernel."
            )
        return np.asarray(K)

    def _named(self) -> dict[str, Array]:
        names = ("kernel_weights", "offset", "mutation_cov")
        return {name: getattr(self, name) for name in names}

    # Learning ----------------------------------------------------------------------------------

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        F = self.features(X)
        by_parent = edge_marginals.sum(axis=0)
        # A parent's children enter the regression only through their weighted sum.
        child_sums = edge_marginals.T @ (X - self.root_mean)
        taught = self._regress(F, by_parent, child_sums)
        _, sums_of_squares = taught._residuals(F, X, edge_marginals)
        scatter = np.diag(sums_of_squares + self.ridge * (taught.feature_weights**2).sum(axis=0))
        weight = edge_marginals.sum()
        if weight + (0.0 if self.prior_cov is None else self.prior_strength) <= 0:
            return self
        cov = cov_.posterior_cov(
            scatter, weight, self.prior_cov, self.prior_strength, self.covariance
        )
        cov_.cholesky(cov, "mutation_cov")
        return replace(taught, mutation_cov=cov)

    def _regress(
        self,
        F: Array,  # (T, k) features of the parents
        by_parent: Array,  # (T,) Σ_u W_uv
        child_sums: Array,  # (T, D) Σ_u W_uv (x_u − root_mean)
    ) -> Self:
        """Return the mutation with weights and offset of the weighted kernel ridge regression."""
        total = by_parent.sum()
        if total <= 0:
            return self
        if self.fit_offset:
            F_mean = by_parent @ F / total
            child_mean = child_sums.sum(axis=0) / total
        else:  # a fixed offset of 0 is −root_mean in centred coordinates
            F_mean = np.zeros(F.shape[1])
            child_mean = -self.root_mean
        F = F - F_mean
        gram = (F.T * by_parent) @ F + self.ridge * np.eye(F.shape[1])
        target = F.T @ (child_sums - by_parent[:, None] * child_mean)
        weights = cho_solve(cho_factor(gram), target)
        offset = self.root_mean + child_mean - F_mean @ weights
        return replace(
            self,
            feature_weights=weights,
            offset=offset if self.fit_offset else np.zeros_like(offset),
        )

    def _residuals(self, F: Array, X: Array, edge_marginals: Array) -> tuple[Array, Array]:
        """Return Σ_u W_uv e_uv for each parent (T, D) and Σ_uv W_uv e_uv² (D,)."""
        means = F @ self.feature_weights + self.offset - self.root_mean
        Y = X - self.root_mean
        by_child, by_parent = edge_marginals.sum(axis=1), edge_marginals.sum(axis=0)
        child_sums = edge_marginals.T @ Y
        squares = by_child @ Y**2 - 2 * (child_sums * means).sum(axis=0) + by_parent @ means**2
        return child_sums - by_parent[:, None] * means, squares

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        F = self.features(X)
        by_parent, squares = self._residuals(F, X, edge_marginals)
        by_weights = (F.T @ by_parent - self.ridge * self.feature_weights) / self.variances
        scatter = np.diag(squares + self.ridge * (self.feature_weights**2).sum(axis=0))
        by_offset = by_parent.sum(axis=0) / self.variances
        return self._slopes(by_weights.ravel(), by_offset, edge_marginals.sum(), scatter)

    def _coefficients(self) -> Array:
        return np.asarray(self.feature_weights.ravel())

    def _with_coefficients(self, vector: Array) -> Self:
        return replace(self, feature_weights=vector.reshape(self.feature_weights.shape))

    def _log_prior(self) -> float:
        norms = (self.feature_weights**2).sum(axis=0)
        return super()._log_prior() - 0.5 * self.ridge * float((norms / self.variances).sum())


def check_kernel_options(options: Any) -> None:
    """Refuse wrong options of a kernel, its landmarks, the noise and the start."""
    owner = type(options).__name__
    check_regression(options, ("diag", "spherical"))
    if not callable(options.kernel):
        check_option(owner, "kernel", options.kernel, KERNELS)
    if options.gamma != "scale":
        check_number(owner, "gamma", options.gamma, 0, open_low=True)
    check_number(owner, "ridge", options.ridge, 0, open_low=True)
    if options.n_landmarks is not None:
        check_count(owner, "n_landmarks", options.n_landmarks, 1)


def _basis(K: Array) -> Array:
    """Return B (m, k) with Bᵀ K B = I, over the directions in which K does not vanish."""
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    top = max(float(values[-1]), 0.0)
    if values[0] < -1e-8 * max(top, np.abs(values).max()):
        raise ValueError(
            "KernelMutation expects a positive semi-definite kernel, but its matrix over the "
            f"landmarks has the eigenvalue {values[0]:.3g}; use 'rbf', 'polynomial' or 'linear'."
        )
    kept = values > 1e-12 * top
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


@dataclass(frozen=True, eq=False, repr=False)
class KernelPosterior(RegressionPosterior):
    """Child = f(parent) + noise, f a smooth function with a Gaussian-process prior.

    The Bayesian twin of KernelMutation (paper, section 8). In the coordinates of its `features`
    F, where ‖f‖² is a sum of squares, the child is linear in z = [F(parent), 1]:

        child − m | z ~ N(B z, S),  B_d | S_dd ~ N(0, S_dd K₀⁻¹),  K₀ = diag(ridge, …, ridge, κ)

    so q is that of a linear regression, exactly: S inverse Gamma, B normal given S, and the child
    of a new parent Student t, wider where few parents were seen. The root is GaussianPosterior's.

    Parameters
    ----------
    kernel, gamma, degree, coef0, n_landmarks, start_correlation
        As in KernelMutation: what f may be, and where a fit begins. They are held fixed.
    ridge : float > 0
        The prior precision of f: before any edge, column d of f(x) has the variance
        S_dd k(x, x) / ridge.
    covariance : {"diag", "spherical"}
        One noise variance for each column, or one for all.
    mean_precision_prior : float
        κ, the number of pseudo-records behind f = m where the kernel vanishes.
    mean_prior, degrees_of_freedom_prior, covariance_prior, prior_strength, reg_covar
        m, ν₀ and Ψ₀, as in GaussianPosterior.
    root_mean_precision_prior, root_degrees_of_freedom_prior, root_covariance_prior
        As in GaussianPosterior.

    Notes
    -----
    With k features `update` costs O(T² D + T k²) and a step's algebra O(k³).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> curve = KernelPosterior(n_landmarks=10).start(X, random_state=0)
    >>> curve
    <KernelPosterior(n_landmarks=10) with 2 columns>
    >>> curve.log_predictive(X, X).shape
    (50, 50)
    """

    kernel: str | Callable[[Array, Array], float] = "rbf"
    gamma: float | str = "scale"
    degree: float = 3
    coef0: float = 1.0
    ridge: float = 0.01
    n_landmarks: int | None = 100
    covariance: str = "diag"
    mean_prior: Any = None
    mean_precision_prior: float = 0.01
    degrees_of_freedom_prior: float | None = None
    covariance_prior: Any = None
    prior_strength: float = 1.0
    reg_covar: float = 1e-6
    root_mean_precision_prior: float = 1.0
    root_degrees_of_freedom_prior: float | None = None
    root_covariance_prior: Any = None
    start_correlation: float | None = None
    _: KW_ONLY
    mutation_: Any = field(default=None, repr=False)  # KernelMutation with the features
    prior_: Any = field(default=None, repr=False)  # GaussianPrior
    statistics_: Any = field(default=None, repr=False)  # (1 + D² + DH + H²,), H = k + 1
    coefficients: Any = field(default=None, repr=False)  # (D, H)
    gram: Any = field(default=None, repr=False)  # (H, H)
    noise: Any = field(default=None, repr=False)  # InverseWishart

    def __post_init__(self) -> None:
        check_kernel_options(self)
        kappa = self.mean_precision_prior
        check_number(type(self).__name__, "mean_precision_prior", kappa, 0, open_low=True)
        super().__post_init__()

    def _start(self, X: Array, random_state: Any) -> Self:
        names = {f.name for f in fields(self)} & {f.name for f in fields(KernelMutation) if f.repr}
        options = {name: getattr(self, name) for name in names}
        mutation = KernelMutation(**options).start(X, random_state)
        (T, D), H = X.shape, mutation.basis.shape[1] + 1
        K0 = np.diag(np.append(np.full(H - 1, float(self.ridge)), self.mean_precision_prior))
        prior = regression_prior(self, X, np.zeros((D, H)), K0, bandwidth(T, D) ** 2)
        held = replace(self, mutation_=mutation, prior_=prior)
        # After T − 1 edges from these records that follow the mutation exactly.
        _, z = held._design(X)
        cov = mutation.mutation_cov
        return held._after(held._coefficients_of(mutation), z.T @ z / T, cov, T - 1.0)

    def _design(self, parents: Array) -> tuple[Array, Array]:
        z = np.column_stack([self.mutation_.features(parents), np.ones(len(parents))])
        return self.prior_.centre, z

    # Parameters --------------------------------------------------------------------------------

    def _mutation(self, B: Array, cov: Array, root: tuple[Array, Array]) -> KernelMutation:
        mutation: KernelMutation = replace(
            self.mutation_,
            feature_weights=B[:, :-1].T,
            offset=self.prior_.centre + B[:, -1],
            mutation_cov=cov,
            root_mean=root[0],
            root_cov=root[1],
        )
        return mutation

    def _coefficients_of(self, mutation: KernelMutation) -> Array:
        return np.column_stack([mutation.feature_weights.T, mutation.offset - self.prior_.centre])

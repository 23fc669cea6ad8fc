"""Hilbert Gaussian mutation with a conjugate posterior of its mean function and noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

from outtrees._common.arguments import check_number
from outtrees._common.types import Array
from outtrees.models.conjugate.gaussian_prior import regression_prior
from outtrees.models.conjugate.regression import RegressionPosterior
from outtrees.models.covariance import bandwidth
from outtrees.models.kernel import KernelMutation, check_kernel_options


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
        owner = type(self).__name__
        check_kernel_options(owner, self)
        for name in ("mean_precision_prior", "prior_strength", "root_mean_precision_prior"):
            check_number(owner, name, getattr(self, name), 0, open_low=True)
        for name in ("degrees_of_freedom_prior", "root_degrees_of_freedom_prior"):
            if getattr(self, name) is not None:
                check_number(owner, name, getattr(self, name), 0, open_low=True)

    def _start(self, X: Array, random_state: Any) -> Self:
        names = {f.name for f in fields(self)} & {f.name for f in fields(KernelMutation) if f.repr}
        options = {name: getattr(self, name) for name in names}
        mutation = KernelMutation(**options).start(X, random_state)
        (T, D), H = X.shape, mutation.basis.shape[1] + 1
        K0 = np.diag(np.append(np.full(H - 1, float(self.ridge)), self.mean_precision_prior))
        prior = regression_prior(self, X, np.zeros((D, H)), K0, bandwidth(T, D) ** 2)
        held = replace(self, mutation_=mutation, prior_=prior)
        # The posterior after T − 1 edges from these records that follow the mutation exactly.
        _, z = held._design(X)
        y = mutation.means(X) - prior.centre
        yy = y.T @ y + T * mutation.mutation_cov
        blocks = [np.array([T]), yy.ravel(), (y.T @ z).ravel(), (z.T @ z).ravel()]
        return held._with_statistics((1.0 - 1.0 / T) * np.concatenate(blocks))

    def _design(self, parents: Array) -> tuple[Array, Array]:
        z = np.column_stack([self.mutation_.features(parents), np.ones(len(parents))])
        return self.prior_.centre, z

    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array:
        m, z = self._design(parents)
        y = children - m
        by_child, by_parent = weights.sum(axis=1), weights.sum(axis=0)
        # y' W first: D is small beside the number of features.
        yy, yz, zz = (y.T * by_child) @ y, (y.T @ weights) @ z, (z.T * by_parent) @ z
        return np.concatenate([[by_child.sum()], yy.ravel(), yz.ravel(), zz.ravel()])

    def _expected_log_conditional(self, children: Array, parents: Array) -> Array:
        return self._expected(children, parents)

    def _log_predictive(self, children: Array, parents: Array) -> Array:
        return self._predictive(children, parents)

    # Parameters --------------------------------------------------------------------------------

    def _mutation(self, B: Array, cov: Array, root: tuple[Array, Array]) -> KernelMutation:
        return replace(
            self.mutation_,
            feature_weights=B[:, :-1].T,
            offset=self.prior_.centre + B[:, -1],
            mutation_cov=cov,
            root_mean=root[0],
            root_cov=root[1],
        )

    def mean(self) -> KernelMutation:
        """Return the mutation at the mean of B and the harmonic mean of S."""
        self._require_started()
        root = (self.prior_.centre, self.prior_.root_noise.harmonic_mean)
        return self._mutation(self.coefficients, self.noise.harmonic_mean, root)

    def _draw(self, rng: np.random.Generator, root_record: Array | None) -> KernelMutation:
        return self._mutation(*self._drawn(rng), self.prior_.draw_root(rng, root_record))

    def _log_prior_ratio(self, mutation: KernelMutation) -> float:
        B = np.column_stack([mutation.feature_weights.T, mutation.offset - self.prior_.centre])
        return self._log_ratio(B, mutation.mutation_cov)

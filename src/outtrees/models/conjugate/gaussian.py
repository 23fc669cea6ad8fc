"""Linear Gaussian mutation with a matrix-normal inverse-Wishart posterior."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np

from outtrees._common.arguments import check_number, check_option
from outtrees._common.types import Array
from outtrees.models import covariance as cov_
from outtrees.models.conjugate.gaussian_prior import gaussian_prior
from outtrees.models.conjugate.regression import RegressionPosterior
from outtrees.models.gaussian import GaussianMutation

TRANSITIONS = ("full", "identity", "zero")


@dataclass(frozen=True, eq=False, repr=False)
class GaussianPosterior(RegressionPosterior):
    """Child − m = transition · (parent − m) + offset + noise, with a conjugate prior.

    With y the child (less the parent for "identity"), z the parent and a constant (as far as
    they are free), all about the centre m, and B = [transition, offset]:

        y | z ~ N(B z, S),   B | S ~ matrix normal(B₀, S, K₀⁻¹),   S ~ inverse Wishart(ν₀, Ψ₀)

    and q is of the same kind. The root is N(μ, S_r) with μ | S_r ~ N(m, S_r / κ_r) and
    S_r ~ inverse Wishart(ν_r, Ψ_r); a record's evidence as the root is a Student-t density.

    Parameters
    ----------
    covariance : {"full", "diag", "spherical"}
        The shape of the noise covariance S and of the root's.
    transition : {"full", "identity", "zero"}
        Whether the transition is learned, fixed (a Parzen window), or absent (one cloud).
    fit_offset : bool, optional
        By default True, except for "identity".
    mean_prior : array of shape (D,), optional
        m. By default the mean of the records.
    mean_precision_prior : float, optional
        The number of pseudo-records behind offset 0 (so behind the mean m of one cloud). By
        default 1 for "zero", as in scikit-learn's BayesianGaussianMixture, else 0.01.
    transition_prior : float or array of shape (D, D)
        The transition in B₀; a number stands for a multiple of the identity.
    transition_precision_prior : float or array of shape (D, D)
        K₀ for the transition; a number stands for that many pseudo-parents with the variances
        of the columns.
    degrees_of_freedom_prior : float, optional
        ν₀. By default D for "full" (the round number above the limit D − 1), else 1.
    covariance_prior : array of shape (D, D), optional
        Ψ₀. By default `prior_strength` · (h² C + reg_covar · diag(v)), as in GaussianMutation: C is
        the covariance of the records, v their variances, h² is 1 for "zero", T^(−2/(D+4)) else.
    prior_strength, reg_covar : float
        For the default of covariance_prior.
    root_mean_precision_prior : float
        κ_r.
    root_degrees_of_freedom_prior : float, optional
        ν_r, by default D + 2 for "full", else 3.
    root_covariance_prior : array of shape (D, D), optional
        Ψ_r, by default C + reg_covar · diag(v).
    start_correlation : float in [0, 1], optional
        As in GaussianMutation.

    Notes
    -----
    Defaults read the scale of the data, as scikit-learn's do: priors to be compared across data
    sets should be given. `update` costs O(T² D), as does GaussianMutation's `refit`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> parzen = GaussianPosterior(transition="identity").start(X)
    >>> parzen
    <GaussianPosterior(transition='identity') with 2 columns>
    >>> parzen.log_predictive(X, X).shape
    (50, 50)
    """

    covariance: str = "full"
    transition: str = "full"
    fit_offset: bool | None = None
    mean_prior: Any = None
    mean_precision_prior: float | None = None
    transition_prior: Any = 0.0
    transition_precision_prior: Any = 0.01
    degrees_of_freedom_prior: float | None = None
    covariance_prior: Any = None
    prior_strength: float = 1.0
    reg_covar: float = 1e-6
    root_mean_precision_prior: float = 1.0
    root_degrees_of_freedom_prior: float | None = None
    root_covariance_prior: Any = None
    start_correlation: float | None = None
    _: KW_ONLY
    prior_: Any = field(default=None, repr=False)  # GaussianPrior, set by start
    statistics_: Any = field(default=None, repr=False)  # (1 + D² + DH + H²,)
    # Of q, from prior and statistics:
    coefficients: Any = field(default=None, repr=False)  # (D, H), B's mean
    gram: Any = field(default=None, repr=False)  # (H, H), K
    noise: Any = field(default=None, repr=False)  # InverseWishart of S

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_option(owner, "covariance", self.covariance, cov_.COVARIANCES)
        check_option(owner, "transition", self.transition, TRANSITIONS)
        check_option(owner, "fit_offset", self.fit_offset, (None, True, False))
        check_number(owner, "prior_strength", self.prior_strength, 0, open_low=True)
        check_number(owner, "reg_covar", self.reg_covar, 0)
        check_number(
            owner, "root_mean_precision_prior", self.root_mean_precision_prior, 0, open_low=True
        )
        for name in (
            "mean_precision_prior",
            "degrees_of_freedom_prior",
            "root_degrees_of_freedom_prior",
        ):
            if getattr(self, name) is not None:
                check_number(owner, name, getattr(self, name), 0, open_low=True)
        if self.start_correlation is not None:
            check_number(owner, "start_correlation", self.start_correlation, 0, 1)

    # Start -----------------------------------------------------------------------------------

    def _start(self, X: Array, random_state: Any) -> Self:
        given = replace(self, prior_=gaussian_prior(self, X))
        D, h2 = X.shape[1], cov_.bandwidth(*X.shape) ** 2
        mean, cov = cov_.iid_moments(X, self.covariance)
        floor = cov_.restrict(np.diag(cov_.column_scales(X)), self.covariance)
        cov = cov + self.reg_covar * floor
        a = {"identity": 1.0, "zero": 0.0}.get(self.transition, self.start_correlation)
        a = float(np.sqrt(1.0 - h2)) if a is None else a
        noise = (1.0 - a**2 if a < 1 else h2) * cov
        offset = np.zeros(D) if self.transition == "identity" else (1.0 - a) * mean
        return given.at(a * np.eye(D), offset, noise, (mean, cov), len(X) - 1.0)

    def at(
        self,
        transition: Array,  # (D, D)
        offset: Array,  # (D,), about the origin, as in GaussianMutation
        mutation_cov: Array,  # (D, D)
        parents: tuple[Array, Array],  # their mean (D,) and covariance (D, D)
        weight: float,
    ) -> Self:
        """Return the posterior after `weight` edges that follow these parameters exactly."""
        m, prior = self.prior_.centre, self.prior_
        mean, cov = parents
        D, H = prior.coefficients.shape
        shift = offset + transition @ m - m
        zz = np.zeros((H, H))
        B = np.empty((D, H))
        if self.transition == "full":
            zz[:D, :D] = cov + np.outer(mean - m, mean - m)
            B[:, :D] = transition
        if self._offset_is_free:
            zz[-1, -1] = 1.0
            B[:, -1] = shift
        if self.transition == "full" and self._offset_is_free:
            zz[-1, :D] = zz[:D, -1] = mean - m
        yz, yy = B @ zz, mutation_cov + B @ zz @ B.T
        blocks = [np.ones(1), yy.ravel(), yz.ravel(), zz.ravel()]
        return self._with_statistics(weight * np.concatenate(blocks))

    def turned(self) -> Self | None:
        """Return the posterior that takes children for parents; None if there is none.

        As in GaussianMutation: a start worth trying, for the direction of descent is hard to see.
        """
        if self.transition != "full":
            return None
        weight, yy, _, _ = self._moments()
        turned = self.mean().turned()
        if turned is None or weight <= 0:
            return None
        parents = (self.prior_.centre, yy / weight)
        return self.at(
            turned.transition_matrix, turned.offset, turned.mutation_cov, parents, weight
        )

    @property
    def parent_free(self) -> bool:
        """Whether records are independent."""
        return self.transition == "zero"

    @property
    def _offset_is_free(self) -> bool:
        return self.transition != "identity" if self.fit_offset is None else self.fit_offset

    # Statistics ------------------------------------------------------------------------------

    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array:
        by_child, by_parent = weights.sum(axis=1), weights.sum(axis=0)
        if self.parent_free:
            return self._statistics_of_children(children, by_child)
        C, P = children - self.prior_.centre, parents - self.prior_.centre
        cc, pp, cp = (C.T * by_child) @ C, (P.T * by_parent) @ P, C.T @ (weights @ P)
        c, p, weight = by_child @ C, by_parent @ P, by_child.sum()
        if self.transition == "identity":
            yy, yz, zz = cc + pp - cp - cp.T, np.empty((len(cc), 0)), np.empty((0, 0))
            if self._offset_is_free:
                yz, zz = (c - p)[:, None], np.array([[weight]])
        else:
            yy, yz, zz = cc, cp, pp
            if self._offset_is_free:
                yz = np.column_stack([cp, c])
                zz = np.block([[pp, p[:, None]], [p[None], np.array([[weight]])]])
        return np.concatenate([[weight], yy.ravel(), yz.ravel(), zz.ravel()])

    def _statistics_of_children(self, children: Array, weights: Array) -> Array:
        Y = children - self.prior_.centre
        weight, total, scatter = weights.sum(), weights @ Y, (Y.T * weights) @ Y
        if not self._offset_is_free:
            return np.concatenate([[weight], scatter.ravel()])
        return np.concatenate([[weight], scatter.ravel(), total, [weight]])

    def _design(self, parents: Array) -> tuple[Array, Array]:
        m = self.prior_.centre
        columns = [parents - m] if self.transition == "full" else []
        if self._offset_is_free:
            columns.append(np.ones((len(parents), 1)))
        z = np.hstack(columns) if columns else np.empty((len(parents), 0))
        return (parents if self.transition == "identity" else m), z

    # Densities ---------------------------------------------------------------------------------

    def _expected_log_conditional(self, children: Array, parents: Array) -> Array:
        if self.parent_free:
            return np.repeat(self._expected_log_child(children)[:, None], len(parents), axis=1)
        return self._expected(children, parents)

    def _log_predictive(self, children: Array, parents: Array) -> Array:
        if self.parent_free:
            return np.repeat(self._log_predictive_child(children)[:, None], len(parents), axis=1)
        return self._predictive(children, parents)

    def _expected_log_child(self, children: Array) -> Array:
        return self._expected(children, children[:1])[:, 0]

    def _log_predictive_child(self, children: Array) -> Array:
        return self._predictive(children, children[:1])[:, 0]

    # Parameters ----------------------------------------------------------------------

    def _mutation(
        self, B: Array, cov: Array, root: tuple[Array, Array] | None = None
    ) -> GaussianMutation:
        m, D = self.prior_.centre, len(cov)
        options: dict[str, Any] = {
            "covariance": self.covariance,
            "transition": self.transition,
            "fit_offset": self.fit_offset,
            "mutation_cov": cov,
        }
        shift = B[:, -1] if self._offset_is_free else np.zeros(D)
        if self.transition == "identity":
            options["offset"] = shift
        elif self.transition == "zero":
            options["offset"] = m + shift
        else:
            options.update(transition_matrix=B[:, :D], offset=m + shift - B[:, :D] @ m)
        if root is not None:
            options.update(root_mean=root[0], root_cov=root[1])
        return GaussianMutation(**options)

    def mean(self) -> GaussianMutation:
        """Return the mutation at the mean of B and the harmonic mean of S."""
        self._require_started()
        prior = self.prior_
        root = (prior.centre, prior.root_noise.harmonic_mean)
        return self._mutation(self.coefficients, self.noise.harmonic_mean, root)

    def _draw(self, rng: np.random.Generator, root_record: Array | None) -> GaussianMutation:
        return self._mutation(*self._drawn(rng), self.prior_.draw_root(rng, root_record))

    def _log_prior_ratio(self, mutation: GaussianMutation) -> float:
        m, A = self.prior_.centre, mutation.transition_matrix
        columns = [A] if self.transition == "full" else [np.empty((len(m), 0))]
        if self._offset_is_free:
            columns.append((mutation.offset + A @ m - m)[:, None])
        return self._log_ratio(np.hstack(columns), mutation.mutation_cov)

"""Linear Gaussian mutation: from independent records to a learned Parzen window."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np

from outtrees._common.arguments import check_number, check_option
from outtrees._common.types import Array
from outtrees.models import covariance as cov_
from outtrees.models.base import Mutation
from outtrees.models.edges import Ints
from outtrees.models.normal import log_normal, log_normal_edges, whitened
from outtrees.models.regression import TRANSITIONS, PairMoments, fit_conditional


@dataclass(frozen=True, eq=False, repr=False)
class GaussianMutation(Mutation):
    """Child = transition · parent + offset + Gaussian noise; Gaussian root (paper, section 4).

        root   N(root_mean, root_cov)
        child  N(transition_matrix @ parent + offset, mutation_cov)

    `transition_matrix` is the paper's Σ_{c|π}, `offset` its μ_c, `mutation_cov` its Σ_cc.

    Parameters
    ----------
    covariance : {"full", "diag", "spherical"}
        The shape of mutation_cov and root_cov.
    transition : {"full", "diag", "scalar", "identity", "zero"}
        What of the transition is learned. "zero" makes records independent (a single Gaussian);
        "identity" makes the leaf predictive a Parzen estimate whose bandwidth matrix,
        mutation_cov, is learned.
    fit_offset : bool, optional
        Whether the offset is learned; else it keeps its value, 0 unless given. By default True,
        except for "identity".
    prior_strength : float
        The number ν of pseudo-residuals behind the prior of mutation_cov,

            log_prior = −ν/2 (log|S| − log|S₀| + tr(S₀ S⁻¹) − D),

        an inverse-Wishart density with its mode at S₀ and its constant chosen so that the mode
        has 0. `start` sets S₀ = h² C + reg_covar · diag(v), where C is the iid covariance, v the
        variances of the columns (a constant column borrows the mean of the others) and h² is 1
        for "zero" and T^(−2/(D+4)), the square of a Parzen bandwidth, for all others. With it no
        duplicate, discrete or constant column can drive a variance to zero. The transition and
        the offset have a flat prior.
    reg_covar : float
        The floor of S₀, as a fraction of each column's variance.
    start_correlation : float in [0, 1], optional
        The correlation a between parent and child at `start` for "full", "diag" and "scalar":
        transition a·I, offset (1 − a)·mean, mutation_cov (1 − a²)·C, which leaves the iid
        Gaussian stationary whatever a is. By default a² = 1 − h², a smoothed Parzen window. At
        a = 0 `start` is the iid solution itself; see Notes.
    root_mean, root_cov, transition_matrix, offset, mutation_cov : arrays, optional
        Parameters for use without `start`; there is no prior then.

    Notes
    -----
    At the iid solution all parents are equally likely, so the regression of a record on all
    *other* records has slope −1/(T−1), and from there the likelihood climbs to a maximum with
    negative transition. On a spiral that one is far worse than the maximum reached from the
    default start; on data symmetric about their mean it can be better.

    `refit` costs O(T² D), `log_conditional` O(n m D).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 2))
    >>> parzen = GaussianMutation(transition="identity").start(X)
    >>> parzen
    <GaussianMutation(transition='identity') with 2 columns and 3 parameters>
    >>> parzen.log_conditional(X, X).shape
    (50, 50)
    >>> iid = GaussianMutation(transition="zero").start(X)
    >>> bool(np.allclose(iid.log_conditional(X, X)[:, 0], iid.log_root(X)))
    True
    """

    covariance: str = "full"
    transition: str = "full"
    fit_offset: bool | None = None
    prior_strength: float = 1.0
    reg_covar: float = 1e-6
    start_correlation: float | None = None
    _: KW_ONLY
    root_mean: Any = field(default=None, repr=False)  # (D,)
    root_cov: Any = field(default=None, repr=False)  # (D, D)
    transition_matrix: Any = field(default=None, repr=False)  # (D, D) [child, parent]
    offset: Any = field(default=None, repr=False)  # (D,)
    mutation_cov: Any = field(default=None, repr=False)  # (D, D)
    prior_cov: Any = field(default=None, repr=False)  # (D, D), S₀, set by start

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_option(owner, "covariance", self.covariance, cov_.COVARIANCES)
        check_option(owner, "transition", self.transition, TRANSITIONS)
        check_option(owner, "fit_offset", self.fit_offset, (None, True, False))
        check_number(owner, "prior_strength", self.prior_strength, 0)
        check_number(owner, "reg_covar", self.reg_covar, 0)
        if self.start_correlation is not None:
            check_number(owner, "start_correlation", self.start_correlation, 0, 1)
        if self.mutation_cov is not None:
            self._complete()

    def _complete(self) -> None:
        """Turn given parameters into arrays of the right shape and fill in those that are fixed."""
        owner = type(self).__name__
        cov = np.atleast_2d(np.asarray(self.mutation_cov, dtype=np.float64))
        D = len(cov)
        fixed = {"identity": np.eye(D), "zero": np.zeros((D, D))}.get(self.transition)
        given = {
            "mutation_cov": cov,
            "transition_matrix": fixed
            if self.transition_matrix is None
            else self.transition_matrix,
            "offset": np.zeros(D) if self.offset is None else self.offset,
            "root_mean": self.root_mean,
            "root_cov": self.root_cov,
            "prior_cov": self.prior_cov,
        }
        for name, value in given.items():
            if value is None and name == "transition_matrix":
                raise ValueError(
                    f"{owner} expects transition_matrix beside mutation_cov for transition="
                    f"{self.transition!r}, but it is missing; give it, or use start(X)."
                )
            if value is None:
                continue
            array = np.array(value, dtype=np.float64)
            shape = (D,) if name in ("offset", "root_mean") else (D, D)
            if array.shape != shape:
                raise ValueError(
                    f"{owner} expects {name} of shape {shape}, as mutation_cov has {D} columns, "
                    f"but got {array.shape}."
                )
            if name.endswith("_cov"):
                self._check_shape(name, array, self.covariance)
                cov_.cholesky(array, name)
            if name == "transition_matrix" and fixed is not None and (array != fixed).any():
                raise ValueError(
                    f"{owner} expects no transition_matrix for transition={self.transition!r}, "
                    "which fixes it, but got another; leave it out or change the option."
                )
            if name == "transition_matrix" and self.transition in ("diag", "scalar"):
                kind = "diag" if self.transition == "diag" else "spherical"
                self._check_shape(name, array, kind)
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def _check_shape(self, name: str, matrix: Array, kind: str) -> None:
        tolerance = 1e-9 * np.abs(matrix).max(initial=0.0)
        if not np.allclose(cov_.restrict(matrix, kind), matrix, rtol=0, atol=tolerance):
            raise ValueError(
                f"{type(self).__name__} expects {name} to fit the options (covariance="
                f"{self.covariance!r}, transition={self.transition!r}), but it has entries that "
                "do not; change the options or the matrix."
            )

    # Start -----------------------------------------------------------------------------------

    def _start(self, X: Array, random_state: Any) -> Self:
        T, D = X.shape
        mean, cov = cov_.iid_moments(X, self.covariance)
        floor = self.reg_covar * cov_.restrict(np.diag(cov_.column_scales(X)), self.covariance)
        h2 = 1.0 if self.transition == "zero" else cov_.bandwidth(T, D) ** 2
        root_cov = cov + self.prior_strength / (T + self.prior_strength) * floor

        correlation = {"identity": 1.0, "zero": 0.0}.get(self.transition, self.start_correlation)
        if correlation is None:
            correlation = float(np.sqrt(1.0 - h2))
        noise = 1.0 - correlation**2 if correlation < 1 else h2
        offset, mutation_cov = (1.0 - correlation) * mean, noise * root_cov
        if not self._offset_is_free:
            missed = (1.0 - correlation) * mean
            offset = np.zeros(D)
            mutation_cov = mutation_cov + cov_.restrict(np.outer(missed, missed), self.covariance)
        return replace(
            self,
            root_mean=mean,
            root_cov=root_cov,
            transition_matrix=correlation * np.eye(D),
            offset=offset,
            mutation_cov=mutation_cov,
            prior_cov=h2 * cov + floor if self.prior_strength > 0 else None,
        )

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.mutation_cov is None else len(self.mutation_cov)

    @property
    def parent_free(self) -> bool:
        """Whether records are independent."""
        return self.transition == "zero"

    @property
    def _offset_is_free(self) -> bool:
        return self.transition != "identity" if self.fit_offset is None else self.fit_offset

    # Densities and samples ---------------------------------------------------------------------

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        if self.parent_free:
            return np.repeat(self._log_child(children)[:, None], len(parents), axis=1)
        means = parents @ self.transition_matrix.T + self.offset
        return log_normal(children, means, self.mutation_cov)

    def _log_edges(self, children: Array, parents: Array, child: Ints, parent: Ints) -> Array:
        if self.parent_free:
            return self._log_child(children)[child]
        means = parents @ self.transition_matrix.T + self.offset
        return log_normal_edges(children, means, self.mutation_cov, child, parent)

    def _embeddings(self, children: Array, parents: Array) -> list[tuple[Array, Array]]:
        if self.parent_free:
            return []
        means = parents @ self.transition_matrix.T + self.offset
        return [whitened(children, means, self.mutation_cov)[1:]]

    def _log_child(self, children: Array) -> Array:
        return log_normal(children, self.offset[None], self.mutation_cov)[:, 0]

    def _log_root(self, X: Array) -> Array:
        self._require_root()
        return log_normal(X, self.root_mean[None], self.root_cov, "root_cov")[:, 0]

    def _sample(self, parents: Array, rng: np.random.Generator) -> Array:
        factor = cov_.cholesky(self.mutation_cov, "mutation_cov")
        noise = rng.standard_normal(parents.shape) @ factor.T
        return parents @ self.transition_matrix.T + self.offset + noise

    def _sample_root(self, n: int, rng: np.random.Generator) -> Array:
        self._require_root()
        factor = cov_.cholesky(self.root_cov, "root_cov")
        return self.root_mean + rng.standard_normal((n, len(factor))) @ factor.T

    def _require_root(self) -> None:
        if self.root_mean is None or self.root_cov is None:
            raise ValueError(
                f"{type(self).__name__} expects root_mean and root_cov for the root's density, but "
                "they were not given; give both, or use start(X)."
            )

    # Learning ----------------------------------------------------------------------------------

    def turned(self) -> Self | None:
        """Return the mutation that takes children for parents; None if there is none.

        child = A parent + b + noise, read backwards, is parent = A⁻¹ child − A⁻¹ b − A⁻¹ noise.
        From records alone the direction of descent is hard to see, so near a maximum of the
        likelihood there is often a second one at the turned parameters: a start worth trying.
        """
        if self.transition in ("identity", "zero"):
            return None
        unit = np.sqrt(np.diag(self.mutation_cov))
        if np.linalg.cond(self.transition_matrix * unit / unit[:, None]) > 1e3:
            return None  # what the child forgets cannot be read backwards
        back = np.linalg.inv(self.transition_matrix)
        noise = cov_.restrict(back @ self.mutation_cov @ back.T, self.covariance)
        offset = -back @ self.offset if self._offset_is_free else self.offset
        return replace(self, transition_matrix=back, offset=offset, mutation_cov=noise)

    def _moments(self, X: Array, edge_marginals: Array) -> PairMoments:
        if self.parent_free:
            return self._child_moments(X, edge_marginals.sum(axis=1))
        centred = self._offset_is_free or self.transition == "identity"
        return PairMoments.of_pairs(X, edge_marginals, centred=centred)

    def _child_moments(self, X: Array, weights: Array) -> PairMoments:
        return PairMoments.of_children(X, weights, centred=self._offset_is_free)

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        return self._refit_moments(self._moments(X, edge_marginals))

    def _refit_children(self, X: Array, weights: Array) -> Self:
        return self._refit_moments(self._child_moments(X, weights))

    def _refit_moments(self, moments: PairMoments) -> Self:
        transition_matrix, offset, mutation_cov = fit_conditional(
            moments,
            (self.transition_matrix, self.offset, self.mutation_cov),
            transition_kind=self.transition,
            covariance_kind=self.covariance,
            fit_offset=self._offset_is_free,
            prior_cov=self.prior_cov,
            strength=self.prior_strength,
        )
        return replace(
            self, transition_matrix=transition_matrix, offset=offset, mutation_cov=mutation_cov
        )

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        return self._gradient_moments(self._moments(X, edge_marginals))

    def _gradient_children(self, X: Array, weights: Array) -> Array:
        return self._gradient_moments(self._child_moments(X, weights))

    def _gradient_moments(self, moments: PairMoments) -> Array:
        total, with_parent, scatter = moments.residuals(self.transition_matrix, self.offset)
        precision = cov_.inverse(self.mutation_cov)
        by_transition = precision @ with_parent
        by_offset = precision @ total
        weight = moments.weight
        if self.prior_cov is not None:
            weight = weight + self.prior_strength
            scatter = scatter + self.prior_strength * self.prior_cov
        by_cov = cov_.vector_gradient(self.mutation_cov, self.covariance, weight, scatter)
        by_free = self._free_transition(by_transition)
        if self.transition == "scalar":
            by_free = np.array([np.trace(by_transition)])
        return np.concatenate([by_free, by_offset if self._offset_is_free else [], by_cov])

    def _free_transition(self, matrix: Array) -> Array:
        if self.transition == "full":
            return matrix.ravel()
        return np.diag(matrix)[: {"diag": len(matrix), "scalar": 1}.get(self.transition, 0)]

    def _params(self) -> Array:
        return np.concatenate(
            [
                self._free_transition(self.transition_matrix),
                self.offset if self._offset_is_free else [],
                cov_.to_vector(self.mutation_cov, self.covariance),
            ]
        )

    def _with_params(self, params: Array) -> Self:
        D = len(self.mutation_cov)
        n_transition = len(self._free_transition(self.transition_matrix))
        n_offset = D if self._offset_is_free else 0
        free, offset, cov = np.split(params, [n_transition, n_transition + n_offset])
        if self.transition == "full":
            transition_matrix = free.reshape(D, D)
        elif n_transition:
            transition_matrix = np.diag(np.broadcast_to(free, (D,)))
        else:
            transition_matrix = self.transition_matrix
        return replace(
            self,
            transition_matrix=transition_matrix,
            offset=offset if n_offset else self.offset,
            mutation_cov=cov_.from_vector(cov, D, self.covariance),
        )

    def _log_prior(self) -> float:
        return cov_.log_prior_cov(self.mutation_cov, self.prior_cov, self.prior_strength)

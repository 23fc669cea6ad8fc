"""Linear Gaussian mutation: from independent records to a learned Parzen window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np

from outtrees._common.arguments import check_number, check_option
from outtrees._common.types import Array
from outtrees.models import covariance as cov_
from outtrees.models.base import Change
from outtrees.models.column import (
    CellKernel,
    Quantity,
    logit,
    rounding,
    share_of,
    typical_variance,
)
from outtrees.models.place import LONG_TAIL, PRIOR_SPREAD, log_step
from outtrees.models.priors import LogitBeta, Normal, Prior
from outtrees.models.quick import Metric, normal_constant
from outtrees.models.regression import (
    TRANSITIONS,
    IidStart,
    PairMoments,
    RegressionMutation,
    RegressionPosterior,
    check_regression,
    fit_conditional,
    gaussian_prior,
    iid_start,
)


class Linear(Change):
    """What a linear mutation and its posterior share: which of its coefficients are free."""

    transition: str
    fit_offset: bool | None
    start_correlation: float | None

    def _check_linear(self, transitions: tuple[str, ...]) -> None:
        owner = type(self).__name__
        check_regression(self, cov_.COVARIANCES)
        check_option(owner, "transition", self.transition, transitions)
        check_option(owner, "fit_offset", self.fit_offset, (None, True, False))

    @property
    def parent_free(self) -> bool:
        """Whether records are independent."""
        return self.transition == "zero"

    @property
    def _offset_is_free(self) -> bool:
        return self.transition != "identity" if self.fit_offset is None else self.fit_offset

    def _iid_start(self, X: Array) -> IidStart:
        fixed = {"identity": 1.0, "zero": 0.0}.get(self.transition, self.start_correlation)
        return iid_start(self, X, fixed)


@dataclass(frozen=True, eq=False, repr=False)
class GaussianMutation(Linear, RegressionMutation):
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
        self._check_linear(TRANSITIONS)
        check_number(type(self).__name__, "prior_strength", self.prior_strength, 0)
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
                    f"{owner} expects {name} of shape {shape}, as mutation_cov has {D} columns; "
                    f"got {array.shape}."
                )
            if name.endswith("_cov"):
                self._check_shape(name, array, self.covariance)
                cov_.cholesky(array, name)
            if name == "transition_matrix" and fixed is not None and (array != fixed).any():
                raise ValueError(
                    f"{owner} expects no transition_matrix for transition={self.transition!r}, "
                    "which fixes it; got another. Leave it out or change the option."
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
        mean, cov, floor, h2, correlation, noise = self._iid_start(X)
        if self.parent_free:
            h2 = 1.0
        root_cov = cov + self.prior_strength / (T + self.prior_strength) * floor
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
    def hidden_cells(self) -> str:
        """Linear in the parent's."""
        return "linear"

    def _named(self) -> dict[str, Array]:
        names = ["transition_matrix"] if self.transition == "full" else []
        names += ["offset"] if self._offset_is_free else []
        return {name: getattr(self, name) for name in [*names, "mutation_cov"]}

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
        return np.asarray(parents @ self.transition_matrix.T + self.offset)

    # Learning ----------------------------------------------------------------------------------

    def turned(self) -> Self | None:
        """Return the mutation that takes children for parents; None if there is none.

        child = A parent + b + noise, read backwards, is parent = A⁻¹ child − A⁻¹ b − A⁻¹ noise.
        From records alone the direction of descent is hard to see, so near a maximum of the
        likelihood there is often a second one at the turned parameters: a start worth trying.

        Returns
        -------
        GaussianMutation or None
            The mutation read backwards.
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
            by_child = edge_marginals.sum(axis=1)
            return PairMoments.of_children(X, by_child, centred=self._offset_is_free)
        centred = self._offset_is_free or self.transition == "identity"
        return PairMoments.of_pairs(X, edge_marginals, centred=centred)

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        return self._refit_moments(self._moments(X, edge_marginals))

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

    def _drawn(self, moments: PairMoments, rng: np.random.Generator) -> Self:
        """Return the mutation with parameters drawn given the moments of whole links.

        With the residuals' scatter R and n links, mutation_cov has an inverse-Wishart law with
        scatter R + ν S₀ and n + ν degrees less one for each coefficient of a column (Jeffreys'
        prior times that of the class); transition and offset are normal around their best values
        given it, under flat priors. Fewer than D + 2 degrees have no mean; they count as D + 2.
        """
        n, best = moments.weight, self._refit_moments(moments)
        D = len(best.mutation_cov)
        strength = 0.0 if self.prior_cov is None else self.prior_strength
        per_column = {"full": D, "diag": 1.0, "scalar": 1.0 / D}.get(self.transition, 0.0)
        degrees = max(n + strength - per_column - self._offset_is_free, D + 2.0)
        scatter = best.mutation_cov * (n + strength)
        cov = cov_.InverseWishart(self.covariance, degrees, scatter).draw(rng)
        if n <= 0:
            return replace(best, mutation_cov=cov)
        parent_mean = moments.parent_sum / n if self._offset_is_free else np.zeros(D)
        spread = moments.parent_parent - n * np.outer(parent_mean, parent_mean)
        transition = best.transition_matrix + _transition_noise(self.transition, cov, spread, rng)
        offset = best.offset
        if self._offset_is_free:
            noise = np.linalg.cholesky(cov / n) @ rng.standard_normal(D)
            offset = moments.child_sum / n - transition @ parent_mean + noise
        return replace(best, transition_matrix=transition, offset=offset, mutation_cov=cov)

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        moments = self._moments(X, edge_marginals)
        total, with_parent, scatter = moments.residuals(self.transition_matrix, self.offset)
        precision = cov_.inverse(self.mutation_cov)
        by_transition = precision @ with_parent
        by_free = self._free_transition(by_transition)
        if self.transition == "scalar":
            by_free = np.array([np.trace(by_transition)])
        return self._slopes(by_free, precision @ total, moments.weight, scatter)

    def _free_transition(self, matrix: Array) -> Array:
        if self.transition == "full":
            return matrix.ravel()
        return np.diag(matrix)[: {"diag": len(matrix), "scalar": 1}.get(self.transition, 0)]

    def _coefficients(self) -> Array:
        return self._free_transition(self.transition_matrix)

    def _with_coefficients(self, vector: Array) -> Self:
        if not len(vector):
            return self
        D = len(self.mutation_cov)
        if self.transition == "full":
            return replace(self, transition_matrix=vector.reshape(D, D))
        return replace(self, transition_matrix=np.diag(np.broadcast_to(vector, (D,))))


_NO_DATA = 1e-10  # of the largest: directions in which parents do not vary


def _transition_noise(kind: str, cov: Array, spread: Array, rng: np.random.Generator) -> Array:
    """Return how far a drawn transition is from its best value, (D, D)."""
    D = len(cov)
    if kind == "full":
        return np.asarray(np.linalg.cholesky(cov) @ _scaled_normal(spread, D, rng).T)
    if kind in ("diag", "scalar"):
        curvature = cov_.inverse(cov) * spread
        if kind == "diag":
            return np.diag(_scaled_normal(curvature, 1, rng)[:, 0])
        return np.asarray(np.eye(D) * _scaled_normal(curvature.sum().reshape(1, 1), 1, rng)[0, 0])
    return np.zeros((D, D))


def _scaled_normal(precision: Array, n: int, rng: np.random.Generator) -> Array:
    """Return n columns from N(0, precision⁻¹), zero where the precision is zero, (D, n)."""
    values, vectors = np.linalg.eigh((precision + precision.T) / 2)
    known = values > _NO_DATA * max(values[-1], 0.0)
    draws = rng.standard_normal((int(known.sum()), n))
    return np.asarray(vectors[:, known] @ (draws / np.sqrt(values[known])[:, None]))


_STEEPEST = 1.25  # the largest share that is considered: values may grow from parent to child


@dataclass(frozen=True, eq=False)
class Reversion(CellKernel):
    """child = share·parent + step + N(0, spread²), composed k times for k links.

    At share = 1 it is a random walk with a direction, at share = 0 the parent says nothing: a
    column that does not follow the tree is found out and costs nothing. k links have mean
    share^k·parent + step·Σ_{i<k} share^i and variance spread²·Σ_{i<k} share^2i.

    The spread is log-normal beforehand, about a tenth of the column's typical spread and within a
    factor of 7 of it by one standard deviation, and never finer than the cells are written.

    Parameters
    ----------
    stationary : bool
        Whether children are spread as the column is, so that the share decides all: spread² =
        (1 − share²) · variance of the column. Where only likeness beyond that to all records
        counts, a free spread and step could single out some parents for being unlike the other
        records, which says nothing about descent.

    Examples
    --------
    >>> kernel = Reversion().start(np.array([[0.0], [1.0], [3.0]]))
    >>> cells, edge = np.array([[1.0]]), np.array([0])
    >>> pairs = kernel.pairs(cells, cells, edge, edge)
    >>> bool(kernel.log_steps(pairs, 1)[0] > kernel.log_steps(pairs, 2)[0])
    True
    """

    stationary: bool = False
    _: KW_ONLY
    tail: float | None = None  # degrees of freedom of Student's t instead of the normal
    share: float = 1.0
    step: float = 0.0
    variance: float = 1.0  # of one link
    centre: float = 0.0  # of cells without a parent
    centre_variance: float = 1.0
    unit: float = 0.1  # the prior's guess of the spread
    finest: float = 0.0  # the rounding of cells, in these units

    def start(self, values: Array) -> Self:
        """Return the kernel with share 3/4 and the column's mean and variance kept."""
        known = values[~np.isnan(values)]
        centre = float(known.mean()) if len(known) else 0.0
        variance = float(known.var()) if len(known) else 0.0
        if not variance > 0:
            variance = 1.0  # a constant column has no scale of its own; any positive one serves
        typical = float(typical_variance(known[:, None])[0])
        finest = float(rounding(known[:, None])[0])
        share = 0.75
        return replace(
            self,
            share=share,
            step=(1 - share) * centre,
            variance=(1 - share**2) * typical + finest**2,
            centre=centre,
            centre_variance=variance,
            unit=PRIOR_SPREAD * float(np.sqrt(typical)),
            finest=finest / (PRIOR_SPREAD * float(np.sqrt(typical))),
        )

    @staticmethod
    def _sums(share: float, k: int) -> tuple[float, float]:
        """Return Σ_{i<k} share^i and Σ_{i<k} share^2i."""
        powers = share ** np.arange(k)
        return float(powers.sum()), float((powers**2).sum())

    def _log_pairs(self, cells: Array, k: int, elapsed: Array | None) -> Array:
        drifted, grown = self._sums(self.share, k)
        residual = cells[:, 0] - self.share**k * cells[:, 1] - self.step * drifted
        variance = self.variance * grown
        return np.asarray(log_step(residual**2 / variance, 1, self.tail) - 0.5 * np.log(variance))

    def _log_cell(self, x: Array) -> Array:
        residual = x[:, 0] - self.centre
        return np.asarray(
            -0.5 * (residual**2 / self.centre_variance + np.log(2 * np.pi * self.centre_variance))
        )

    def variants(self) -> Sequence[Self]:
        """Return normal and long-tailed steps, unless a tail was asked for."""
        chosen = self.stationary or self.tail is not None
        return [self] if chosen else [self, replace(self, tail=LONG_TAIL)]

    @property
    def params(self) -> Array:
        """The share (a logit within its range), the step beyond what keeps the mean, the spread."""
        if self.stationary:
            return np.array([logit(min(self.share, 1 - 1e-9))])
        square = self.variance / self.unit**2 - self.finest**2
        return np.array(
            [
                logit(self.share / _STEEPEST),
                (self.step - self._kept_mean) / self.unit,
                0.5 * np.log(max(square, 1e-12)),
            ]
        )

    @property
    def _kept_mean(self) -> float:
        """The step that keeps the column's mean."""
        return (1 - self.share) * self.centre

    def with_params(self, params: Array) -> Self:
        """Return the kernel with these parameters."""
        if self.stationary:
            moved = replace(self, share=share_of(params[0]))
            finest = (self.unit * max(self.finest, 1e-6)) ** 2
            variance = (1 - moved.share**2) * self.centre_variance + finest
            return replace(moved, step=moved._kept_mean, variance=variance)
        moved = replace(self, share=_STEEPEST * share_of(params[0]))
        return replace(
            moved,
            step=moved._kept_mean + float(params[1]) * self.unit,
            variance=self.unit**2 * float(np.exp(2 * params[2]) + self.finest**2),
        )

    def start_grid(self) -> list[Array]:
        """Return small and large shares with spreads up to the column's own."""
        if self.stationary:
            return [np.array([value]) for value in (-3.0, -1.0, 1.0, 3.0)]
        grid = []
        for share in (0.3, 0.95):
            for spread in (0.03, 0.2, 1.0):
                finest = self.finest**2
                variance = self.unit**2 * ((spread / PRIOR_SPREAD) ** 2 + finest)
                kernel = replace(self, share=share, variance=variance)
                grid.append(replace(kernel, step=kernel._kept_mean).params)
        return grid

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return the parents' values after k links."""
        drifted, grown = self._sums(self.share, k)
        noise = np.sqrt(self.variance * grown) * rng.standard_normal(parents.shape)
        if self.tail is not None:
            noise /= np.sqrt(rng.chisquare(self.tail, size=noise.shape) / self.tail)
        return np.asarray(self.share**k * parents + self.step * drifted + noise)

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return draws from the normal of all cells."""
        return np.asarray(self.centre + np.sqrt(self.centre_variance) * rng.standard_normal((n, 1)))

    def quick(self, values: Array, generations: int, elapsed: float) -> Metric:
        """Return the differences from what the parents foretell, in standard deviations."""
        links = range(1, generations + 1)
        sums = np.array([self._sums(self.share, k) for k in links])  # (K, 2)
        spread = np.sqrt(self.variance * sums[:, 1])[:, None, None]
        kept = (self.share ** np.array(links))[:, None, None]
        child = (values - self.step * sums[:, 0, None, None]) / spread
        constant = normal_constant(float(np.log(self.variance)), 1, sums[:, 1])
        return Metric(child, kept * values / spread, constant)

    def priors(self) -> list[Prior]:
        """Return those of the share, the step and the spread.

        Children are not far from the column's mean: where few records come early enough to be
        parents, a free step would make them likely parents for being unlike the others.
        """
        if self.stationary:
            return [LogitBeta(0.5, 0.5)]
        return [Normal(0.0, 4.0), Normal(0.0, 0.3), Normal(0.0, 2.0)]

    def quantities(self) -> list[Quantity]:
        """Return the share of the parent's value that a child keeps, the step and the spread."""
        return [
            Quantity("share", self.share),
            Quantity("step", self.step, "column"),
            Quantity("spread", float(np.sqrt(self.variance)), "column"),
        ]

    def describe(self) -> str:
        """Return which share of the parent's value a child keeps, and the spread.

        Examples
        --------
        >>> Reversion(share=0.5, step=-3.77).describe()
        'child = 0.5 × parent − 3.77 ± 1'
        """
        step = f"{'+' if self.step >= 0 else '−'} {abs(self.step):.3g}"
        return f"child = {self.share:.3g} × parent {step} ± {np.sqrt(self.variance):.3g}"


@dataclass(frozen=True, eq=False, repr=False)
class GaussianPosterior(Linear, RegressionPosterior):
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
        The number of pseudo-records behind offset 0 (so behind the mean m of one cloud): the
        offset is N(0, S / number) beforehand, in units of the noise of one link. By default 1, as
        in scikit-learn's BayesianGaussianMixture: a drift is about as large as the noise of a link,
        as surely as one link says. With far less, few records are explained by long drifts
        (docs/benchmarks/trust.md).
    transition_prior : float or array of shape (D, D)
        The transition in B₀; a number stands for a multiple of the identity, by default 1: a
        child is like its parent until records say otherwise.
    transition_precision_prior : float or array of shape (D, D)
        K₀ for the transition; a number stands for that many pseudo-parents with the variances
        of the columns. By default 1, as much as one link says. With far less, few records are
        explained by maps that turn and stretch (docs/benchmarks/trust.md).
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
    transition_prior: Any = 1.0
    transition_precision_prior: Any = 1.0
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
        self._check_linear(("full", "identity", "zero"))
        super().__post_init__()

    # Start -----------------------------------------------------------------------------------

    def _start(self, X: Array, random_state: Any) -> Self:
        given = replace(self, prior_=gaussian_prior(self, X))
        mean, cov, floor, _, a, noise = self._iid_start(X)
        D, cov = X.shape[1], cov + floor
        offset = np.zeros(D) if self.transition == "identity" else (1.0 - a) * mean
        return given.at(a * np.eye(D), offset, noise * cov, (mean, cov), len(X) - 1.0)

    def at(
        self,
        transition: Array,  # (D, D)
        offset: Array,  # (D,), about the origin, as in GaussianMutation
        mutation_cov: Array,  # (D, D)
        parents: tuple[Array, Array],  # their mean (D,) and covariance (D, D)
        weight: float,
    ) -> Self:
        """Return the posterior after `weight` edges that follow these parameters exactly."""
        mutation, (mean, cov) = self._linear(transition, offset, mutation_cov), parents
        z = self._design(mean[None])[1][0]
        zz = np.outer(z, z)
        if self.transition == "full":
            zz[: len(cov), : len(cov)] += cov
        return self._after(self._coefficients_of(mutation), zz, mutation_cov, weight)

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

    def _design(self, parents: Array) -> tuple[Array, Array]:
        m = self.prior_.centre
        columns = [parents - m] if self.transition == "full" else []
        if self._offset_is_free:
            columns.append(np.ones((len(parents), 1)))
        z = np.hstack(columns) if columns else np.empty((len(parents), 0))
        return (parents if self.transition == "identity" else m), z

    # Parameters ----------------------------------------------------------------------

    def _mutation(self, B: Array, cov: Array, root: tuple[Array, Array]) -> GaussianMutation:
        m, D = self.prior_.centre, len(cov)
        fixed = {"identity": np.eye(D), "zero": np.zeros((D, D))}
        A = fixed.get(self.transition, B[:, :D])
        shift = B[:, -1] if self._offset_is_free else np.zeros(D)
        offset = shift if self.transition == "identity" else m + shift - A @ m
        return replace(self._linear(A, offset, cov), root_mean=root[0], root_cov=root[1])

    def _linear(self, transition: Array, offset: Array, cov: Array) -> GaussianMutation:
        return GaussianMutation(
            self.covariance,
            self.transition,
            self.fit_offset,
            transition_matrix=transition,
            offset=offset,
            mutation_cov=cov,
        )

    def _coefficients_of(self, mutation: GaussianMutation) -> Array:
        m, A = self.prior_.centre, mutation.transition_matrix
        columns = [A] if self.transition == "full" else [np.empty((len(m), 0))]
        if self._offset_is_free:
            columns.append((mutation.offset + A @ m - m)[:, None])
        return np.hstack(columns)

"""Bernoulli mutation: binary attributes that are switched on and off from parent to child."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit, xlog1py, xlogy

from outtrees._common.arguments import check_number
from outtrees._common.types import Array
from outtrees.models.base import Mutation
from outtrees.models.by_class import shares_by_class
from outtrees.models.edges import Ints
from outtrees.models.logdot import log_dot, log_dot_edges


@dataclass(frozen=True, eq=False, repr=False)
class BernoulliMutation(Mutation):
    """Binary columns, each with p(child = 1 | parent = 0) and p(child = 1 | parent = 1).

    Parameters
    ----------
    prior_strength : float
        The pseudo-count ν of the Beta priors, whose modes are the frequencies m of the ones:

            log_prior = −ν Σ_d Σ_{b=0,1} KL(Bernoulli(m_d) ‖ Bernoulli(p_d|b)),

        so that it is 0 where children are independent of their parents. The same pseudo-count,
        half of it a one, keeps m itself inside (0, 1).
    start_correlation : float in [0, 1]
        The correlation between parent and child at `start`; 0 is the iid solution.
    root_probability, child_probability : arrays of shape (D,) and (2, D), optional
        Parameters for use without `start`; row b of child_probability is p(child = 1 | parent = b).

    Examples
    --------
    >>> X = np.array([[0, 1], [0, 0], [1, 1], [1, 0]])
    >>> mutation = BernoulliMutation().start(X)
    >>> mutation.child_probability
    array([[0.25, 0.25],
           [0.75, 0.75]])
    """

    prior_strength: float = 1.0
    start_correlation: float = 0.5
    _: KW_ONLY
    root_probability: Any = field(default=None, repr=False)  # (D,)
    child_probability: Any = field(default=None, repr=False)  # (2, D) by the parent's value
    prior_probability: Any = field(default=None, repr=False)  # (D,), set by start

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_number(owner, "prior_strength", self.prior_strength, 0)
        check_number(owner, "start_correlation", self.start_correlation, 0, 1)
        if self.child_probability is None:
            return
        for name, ndim in (("child_probability", 2), ("root_probability", 1)):
            value = getattr(self, name)
            array = np.array(np.nan if value is None else value, dtype=np.float64)
            if array.ndim != ndim or (ndim == 2 and len(array) != 2):
                raise ValueError(
                    f"{owner} expects child_probability of shape (2, D) and root_probability of "
                    f"shape (D,), but {name} has shape {array.shape}."
                )
            if not ((array >= 0) & (array <= 1)).all():
                raise ValueError(f"{owner} expects probabilities in [0, 1], but {name} has others.")
            object.__setattr__(self, name, array)

    def _check_values(self, X: Array, name: str) -> None:
        wrong = (X != 0) & (X != 1)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ValueError(
                f"BernoulliMutation expects cells 0 or 1, but {name} has {X[row, column]:g} in row "
                f"{row}, column {column}; code the column as 0/1 or use CategoricalMutation."
            )

    def _start(self, X: Array, random_state: Any) -> Self:
        ones = (X.sum(axis=0) + 0.5 * self.prior_strength) / (len(X) + self.prior_strength)
        a = self.start_correlation
        return replace(
            self,
            root_probability=ones,
            child_probability=np.stack([(1 - a) * ones, (1 - a) * ones + a]),
            prior_probability=ones,
        )

    @property
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""
        return None if self.child_probability is None else self.child_probability.shape[1]

    def _log_tables(self) -> tuple[Array, Array]:
        """Return log p(child = 0 | b) and log p(child = 1 | b), each (2, D)."""
        with np.errstate(divide="ignore"):
            return np.log1p(-self.child_probability), np.log(self.child_probability)

    def _log_values(self, parents: Array) -> Array:
        """Return log p(0 | parent's value) and log p(1 | …) of each column side by side."""
        on = parents == 1
        return np.hstack([np.where(on, t[1], t[0]) for t in self._log_tables()])

    def _log_conditional(self, children: Array, parents: Array) -> Array:
        # One row of log-probabilities for each parent turns all pairs into a matrix product.
        return log_dot(np.hstack([1 - children, children]), self._log_values(parents))

    def _log_edges(self, children: Array, parents: Array, child: Ints, parent: Ints) -> Array:
        values = np.hstack([1 - children, children])
        return log_dot_edges(values, self._log_values(parents), child, parent)

    def _log_root(self, X: Array) -> Array:
        p = self.root_probability
        return (xlogy(X, p) + xlog1py(1 - X, -p)).sum(axis=1)

    def _sample(self, parents: Array, rng: np.random.Generator) -> Array:
        p = np.where(parents == 1, self.child_probability[1], self.child_probability[0])
        return (rng.random(parents.shape) < p).astype(np.float64)

    def _log_by_class(self, X: Array, weights: Array, records: Array) -> Array:
        found = np.zeros((len(records), weights.shape[1]))
        for column, values in zip(X.T, records.T, strict=True):
            one = (column.sum() + 0.5) / (len(column) + 1)  # never 0 or 1
            counts = np.array([weights.T @ (1 - column), weights.T @ column]).T
            shares = shares_by_class(counts, np.array([1 - one, one]))  # (C, 2)
            found += np.log(shares).T[values.astype(np.intp)]
        return found

    def _sample_root(self, n: int, rng: np.random.Generator) -> Array:
        return (rng.random((n, self.n_features or 0)) < self.root_probability).astype(np.float64)

    def _counts(self, X: Array, edge_marginals: Array) -> tuple[Array, Array]:
        """Return the weights of all pairs and of those with child 1, (2, D) by parent's value.

        The prior's pseudo-counts are included.
        """
        by_child, by_parent = edge_marginals.sum(axis=1), edge_marginals.sum(axis=0)
        parent_on = by_parent @ X
        both_on = (X * (edge_marginals @ X)).sum(axis=0)
        pairs = np.stack([by_parent.sum() - parent_on, parent_on])
        ones = np.stack([by_child @ X - both_on, both_on])
        if self.prior_probability is None:
            return pairs, ones
        nu = self.prior_strength
        return pairs + nu, ones + nu * self.prior_probability

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        pairs, ones = self._counts(X, edge_marginals)
        seen = pairs > 0
        fitted = np.clip(ones / np.where(seen, pairs, 1.0), 0.0, 1.0)  # rounding may pass the ends
        return replace(self, child_probability=np.where(seen, fitted, self.child_probability))

    def _gradient(self, X: Array, edge_marginals: Array) -> Array:
        pairs, ones = self._counts(X, edge_marginals)
        return (ones - pairs * self.child_probability).ravel()

    def _params(self) -> Array:
        return logit(self.child_probability).ravel()

    def _with_params(self, params: Array) -> Self:
        return replace(self, child_probability=expit(params.reshape(2, -1)))

    def _log_prior(self) -> float:
        if self.prior_probability is None or self.prior_strength == 0:
            return 0.0
        m, p = self.prior_probability, self.child_probability
        divergence = xlogy(m, m) + xlog1py(1 - m, -m) - xlogy(m, p) - xlog1py(1 - m, -p)
        return -self.prior_strength * float(divergence.sum())

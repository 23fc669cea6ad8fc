"""What is believed about a mutation's parameters: conjugate priors updated by weighted edges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import MISSING, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.arguments import check_edge_marginals, check_records
from outtrees._common.order import record_order
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.base import Mutation


class Posterior(ABC):
    """A distribution q(θ) over the parameters of a mutation, beside its conjugate prior p(θ).

    Learning with out-trees by variational Bayes (paper, section 6) alternates between the edge
    marginals W of the trees weighted by exp E_q[log p(x_u | x_v, θ)], and

        q(θ) ∝ p(θ) Π_uv p(x_u | x_v, θ)^W_uv.

    In a conjugate family the second step adds expected sufficient statistics to the prior's
    parameters, so a posterior *is* its prior and one vector of statistics, `statistics`, linear
    in W. Where an edge has something hidden (the component of a mixture, the origin of a
    count), that is part of q too and has been summed out of `expected_log_conditional`.

    A posterior is a value: no method changes it. `start` scales the priors that were not given
    by the data and returns a posterior to begin from; before, only options are held. Matrices
    are [child, parent].
    """

    # What a family writes ------------------------------------------------------------------

    @abstractmethod
    def _start(self, X: Array, random_state: Any) -> Self: ...

    @abstractmethod
    def _expected_log_conditional(self, children: Array, parents: Array) -> Array: ...

    @abstractmethod
    def _log_predictive(self, children: Array, parents: Array) -> Array: ...

    @abstractmethod
    def _log_root(self, X: Array) -> Array: ...

    @abstractmethod
    def _statistics_of(self, children: Array, parents: Array, weights: Array) -> Array: ...

    @abstractmethod
    def _with_statistics(self, statistics: Array) -> Self: ...

    @abstractmethod
    def _kl(self) -> float: ...

    @abstractmethod
    def _draw(self, rng: np.random.Generator, root_record: Array | None) -> Mutation: ...

    @abstractmethod
    def _log_prior_ratio(self, mutation: Any) -> float: ...

    @property
    @abstractmethod
    def statistics(self) -> Array:
        """The expected sufficient statistics that were added to the prior, one flat vector."""

    @property
    @abstractmethod
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""

    # What a family may write ---------------------------------------------------------------

    @property
    def allows_missing(self) -> bool:
        """Whether NaN cells are accepted, as values to be summed out."""
        return False

    @property
    def parent_free(self) -> bool:
        """Whether the conditional ignores the parent.

        Such a family also writes the three methods below, with one weight for each child, so
        that a mixture pays O(T) instead of O(T²) for it.
        """
        return False

    def _expected_log_child(self, children: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} depends on the parent")

    def _log_predictive_child(self, children: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} depends on the parent")

    def _statistics_of_children(self, children: Array, weights: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} depends on the parent")

    def _check_values(self, X: Array, name: str) -> None:  # noqa: B027, most families take any
        """Refuse values outside the support of the family, such as negative counts."""

    def _update(self, X: Array, edge_marginals: Array) -> Self:
        return self._with_statistics(self._statistics_of(X, X, edge_marginals))

    def _update_children(self, X: Array, weights: Array) -> Self:
        return self._with_statistics(self._statistics_of_children(X, weights))

    # What everybody calls ------------------------------------------------------------------

    def start(self, X: ArrayLike, random_state: Any = None) -> Self:
        """Return the posterior to begin from, with priors scaled by X where none were given.

        Parameters
        ----------
        X : array of shape (T, D), at least two records
        random_state : None, int, Generator or RandomState
            Used by the families whose start is random (mixtures).
        """
        X = check_records(X, type(self).__name__, allows_missing=self.allows_missing, min_rows=2)
        self._check_values(X, "X")
        as_generator(random_state)  # refuses a wrong one even where none is needed
        return self._start(X[record_order(X)], random_state)

    def expected_log_conditional(self, children: ArrayLike, parents: ArrayLike) -> Array:
        """Return E_q[log p(child u | parent v, θ)], shape (n, m): the paper's log β (section 6).

        With something hidden in an edge: log Σ_h exp E_q[log p(child u, h | parent v, θ)].
        """
        children = self._checked(children, "children")
        return self._expected_log_conditional(children, self._checked(parents, "parents"))

    def log_predictive(self, children: ArrayLike, parents: ArrayLike) -> Array:
        """Return log ∫ q(θ) p(child u | parent v, θ) dθ, shape (n, m): normalised by child."""
        children = self._checked(children, "children")
        return self._log_predictive(children, self._checked(parents, "parents"))

    def log_root(self, X: ArrayLike) -> Array:
        """Return log ∫ p(x | θ_m) p(θ_m) dθ_m, the evidence of each record as the root, (n,)."""
        return self._log_root(self._checked(X, "X"))

    def update(
        self,
        X: ArrayLike,  # (T, D)
        edge_marginals: ArrayLike,  # (T, T) [child, parent]
    ) -> Self:
        """Return q(θ) ∝ p(θ) Π p(x_u | x_v, θ)^W_uv; what is hidden in edges follows this q."""
        X = self._checked(X, "X")
        return self._update(X, check_edge_marginals(edge_marginals, len(X), type(self).__name__))

    def with_statistics(self, statistics: ArrayLike) -> Self:
        """Return the posterior with these expected sufficient statistics instead.

        Raises
        ------
        ValueError
            If no proper posterior has them (a scatter that is not positive definite, a count
            below zero).
        """
        vector = np.asarray(statistics, dtype=np.float64)
        if vector.shape != self.statistics.shape or not np.isfinite(vector).all():
            raise ValueError(
                f"{type(self).__name__} expects {self.statistics.shape[0]} finite statistics, but "
                f"got shape {vector.shape} with {int((~np.isfinite(vector)).sum())} not finite; "
                "start from the vector in .statistics."
            )
        return self._with_statistics(vector)

    def prior(self) -> Self:
        """Return the prior, as a posterior that has seen nothing."""
        self._require_started()
        return self._with_statistics(np.zeros_like(self.statistics))

    def kl(self) -> float:
        """Return KL(q ‖ p) of the posterior from its prior, in nats."""
        self._require_started()
        return float(self._kl())

    def draw(self, random_state: Any = None, root_record: ArrayLike | None = None) -> Mutation:
        """Return a mutation with parameters drawn from q.

        Its root's parameters are drawn from their posterior given the one record that is the
        root, or from their prior if none is named.
        """
        self._require_started()
        record = None
        if root_record is not None:
            record = self._checked(np.atleast_2d(np.asarray(root_record)), "root_record")[0]
        return self._draw(as_generator(random_state), record)

    def log_prior_ratio(self, mutation: Mutation) -> float:
        """Return log p(θ) − log q(θ) at the parameters of a mutation from `draw`."""
        self._require_started()
        return float(self._log_prior_ratio(mutation))

    @property
    def started(self) -> bool:
        """Whether there are priors and statistics."""
        return self.n_features is not None

    def __repr__(self) -> str:
        options = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)  # type: ignore[arg-type]
            if f.repr and (f.default is MISSING or not _same(getattr(self, f.name), f.default))
        ]
        text = f"{type(self).__name__}({', '.join(options)})"
        return f"<{text} with {self.n_features} columns>" if self.started else text

    # Checks --------------------------------------------------------------------------------

    def _require_started(self) -> None:
        if not self.started:
            raise ValueError(
                f"{type(self).__name__} has no priors yet; call start(X) first and use the "
                "posterior that it returns."
            )

    def _checked(self, X: ArrayLike, name: str) -> Array:
        self._require_started()
        records = check_records(
            X,
            type(self).__name__,
            name=name,
            n_features=self.n_features,
            allows_missing=self.allows_missing,
        )
        self._check_values(records, name)
        return records


def _same(value: Any, default: Any) -> bool:
    return value is default or (np.ndim(value) == 0 and np.ndim(default) == 0 and value == default)

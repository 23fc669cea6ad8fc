"""What every mutation model answers, with shapes and checks done once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import MISSING, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.sparse import coo_array, issparse

from outtrees._common.arguments import check_edge_marginals, check_records
from outtrees._common.order import record_order
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.by_class import log_gaussian_by_class
from outtrees.models.listed import ListedPairs


class Mutation(ListedPairs, ABC):
    """How a child differs from its parent: the conditional p(x_u | x_v) and the root's p(x_r).

    A mutation is a value: no method changes it, `start`, `refit` and `with_params` return a new
    one. Learning with out-trees needs, for the edge marginals W of the current distribution over
    trees, steps that raise

        Σ_uv W_uv log p(x_u | x_v)  +  log_prior(),

    which is what `refit` does (EM) and what `gradient` differentiates (gradient ascent, since
    ∂ log Z / ∂θ = Σ_uv W_uv ∂ log p(x_u | x_v) / ∂θ).

    The root keeps the fit it got from `start`, the one of independent records. One record is the
    root, so maximising over the root's parameters has no maximum: its density can be piled onto a
    single record. Root parameters are therefore neither refitted nor part of `params`.

    With many records W has entries for listed pairs only: `ListedPairs`.

    A new model is a frozen dataclass that writes the methods that start with an underscore below;
    it receives checked arrays there. Matrices are always [child, parent]; `edge_marginals` may be a
    SciPy sparse array, of which products and sums are taken.
    """

    # What a model writes -------------------------------------------------------------------

    @abstractmethod
    def _start(self, X: Array, random_state: Any) -> Self: ...

    @abstractmethod
    def _log_conditional(self, children: Array, parents: Array) -> Array: ...

    @abstractmethod
    def _log_root(self, X: Array) -> Array: ...

    @abstractmethod
    def _sample(self, parents: Array, rng: np.random.Generator) -> Array: ...

    @abstractmethod
    def _sample_root(self, n: int, rng: np.random.Generator) -> Array: ...

    @abstractmethod
    def _gradient(self, X: Array, edge_marginals: Array) -> Array: ...

    @abstractmethod
    def _params(self) -> Array: ...

    @abstractmethod
    def _with_params(self, params: Array) -> Self: ...

    @abstractmethod
    def _log_prior(self) -> float: ...

    @property
    @abstractmethod
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""

    # What a model may write ----------------------------------------------------------------

    @property
    def allows_missing(self) -> bool:
        """Whether NaN cells are accepted, as values to be integrated out."""
        return False

    @property
    def parent_free(self) -> bool:
        """Whether the conditional ignores the parent.

        Such a model also writes `_log_child(children)`, `_refit_children(X, weights)` and
        `_gradient_children(X, weights)`, with one weight for each child, so that a mixture pays
        O(T) instead of O(T²) for it.
        """
        return False

    def _log_child(self, children: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} depends on the parent")

    def _refit_children(self, X: Array, weights: Array) -> Self:
        raise NotImplementedError(f"{type(self).__name__} depends on the parent")

    def _gradient_children(self, X: Array, weights: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} depends on the parent")

    def _log_by_class(self, X: Array, weights: Array, records: Array) -> Array:
        return log_gaussian_by_class(X, weights, records)

    def _check_values(self, X: Array, name: str) -> None:  # most models take any
        """Refuse values outside the support of the model, such as negative counts."""

    def _refit(self, X: Array, edge_marginals: Array) -> Self:
        """Climb the gradient with L-BFGS, for models without an M-step of their own."""

        def loss(params: Array) -> tuple[float, Array]:
            there = self._with_params(params)
            return -there._objective(X, edge_marginals), -there._gradient(X, edge_marginals)

        found = minimize(loss, self._params(), jac=True, method="L-BFGS-B", options={"maxiter": 20})
        return self._with_params(found.x) if found.fun < loss(self._params())[0] else self

    def _objective(self, X: Array, edge_marginals: Array) -> float:
        # Pairs of weight 0 may be impossible, and 0 · (−inf) is nothing here.
        if issparse(edge_marginals):
            pairs = coo_array(edge_marginals)
            used = pairs.data != 0
            log_pairs = self._log_edges(X, X, pairs.row[used], pairs.col[used])
            return float((pairs.data[used] * log_pairs).sum()) + self._log_prior()
        log_weights = np.where(edge_marginals != 0, self._log_conditional(X, X), 0.0)
        return float((edge_marginals * log_weights).sum()) + self._log_prior()

    # What everybody calls ------------------------------------------------------------------

    def start(self, X: ArrayLike, random_state: Any = None) -> Self:
        """Return the mutation with starting parameters and data-scaled priors.

        Parameters given or learned before are forgotten, so the result depends on the options
        and on X only, and not on the order of its records.

        Parameters
        ----------
        X : array of shape (T, D), at least two records
        random_state : None, int, Generator or RandomState
            Used by the models whose start is random (mixtures, landmarks of kernels).
        """
        X = check_records(X, type(self).__name__, allows_missing=self.allows_missing, min_rows=2)
        self._check_values(X, "X")
        as_generator(random_state)  # refuses a wrong one even where none is needed
        return self._start(X[record_order(X)], random_state)

    def log_conditional(self, children: ArrayLike, parents: ArrayLike) -> Array:
        """Return the matrix log p(child u | parent v), shape (n, m) [child, parent]."""
        children = self._checked(children, "children")
        return self._log_conditional(children, self._checked(parents, "parents"))

    def log_root(self, X: ArrayLike) -> Array:
        """Return log p(x) under the root's density for each record, shape (n,)."""
        return self._log_root(self._checked(X, "X"))

    def log_by_class(self, X: ArrayLike, weights: ArrayLike, records: ArrayLike) -> Array:
        """Return the records' log-densities in each class, shape (n, C), parents aside.

        The classes' densities come from X (T, D), with weights (T, C) for how much each of its
        records is of each class, and are held near that of all of X (`mutations.by_class`).
        """
        X = self._checked(X, "X")
        memberships = np.asarray(weights, dtype=np.float64)
        if memberships.ndim != 2 or len(memberships) != len(X) or not (memberships >= 0).all():
            raise ValueError(
                f"{type(self).__name__} expects a weight of 0 or more for each of {len(X)} records "
                f"and each class, but got shape {memberships.shape}, least "
                f"{memberships.min(initial=0.0):g}; pass for example np.eye(C)[labels]."
            )
        return self._log_by_class(X, memberships, self._checked(records, "records"))

    def sample(self, parents: ArrayLike, rng: Any = None) -> Array:
        """Return one child for each row of parents, shape (n, D)."""
        return self._sample(self._checked(parents, "parents"), as_generator(rng))

    def sample_root(self, n: int, rng: Any = None) -> Array:
        """Return n independent draws from the root's density, shape (n, D)."""
        self._require_started()
        return self._sample_root(int(n), as_generator(rng))

    def refit(
        self,
        X: ArrayLike,  # (T, D)
        edge_marginals: ArrayLike,  # (T, T) [child, parent]
        root_marginals: ArrayLike | None = None,  # (T,)
    ) -> Self:
        """Return the mutation after one M-step, which never lowers Σ W log p + log_prior.

        `root_marginals` completes the picture for models that could use it; none here does,
        because the root keeps its start (see the class).
        """
        X = self._checked(X, "X")
        weights = check_edge_marginals(edge_marginals, len(X), type(self).__name__)
        self._check_root_marginals(root_marginals, len(X))
        return self._refit(X, weights)

    def gradient(
        self,
        X: ArrayLike,  # (T, D)
        edge_marginals: ArrayLike,  # (T, T) [child, parent]
        root_marginals: ArrayLike | None = None,  # (T,)
    ) -> Array:
        """Return the gradient of Σ W log p(x_u | x_v) + log_prior with respect to `params`."""
        X = self._checked(X, "X")
        weights = check_edge_marginals(edge_marginals, len(X), type(self).__name__)
        self._check_root_marginals(root_marginals, len(X))
        return self._gradient(X, weights)

    def objective(
        self,
        X: ArrayLike,  # (T, D)
        edge_marginals: ArrayLike,  # (T, T) [child, parent]
    ) -> float:
        """Return Σ W log p(x_u | x_v) + log_prior, which `refit` raises."""
        X = self._checked(X, "X")
        return self._objective(X, check_edge_marginals(edge_marginals, len(X), type(self).__name__))

    @property
    def params(self) -> Array:
        """The conditional's parameters as one flat vector without constraints."""
        self._require_started()
        return self._params()

    def with_params(self, params: ArrayLike) -> Self:
        """Return the mutation with the conditional's parameters taken from a flat vector."""
        vector = np.asarray(params, dtype=np.float64)
        if vector.shape != (self.n_parameters,):
            raise ValueError(
                f"{type(self).__name__} expects a vector of {self.n_parameters} parameters, but "
                f"got shape {vector.shape}; start from the vector in .params."
            )
        if np.isnan(vector).any():
            raise ValueError(
                f"{type(self).__name__} expects parameters that are numbers, but entry "
                f"{np.flatnonzero(np.isnan(vector))[0]} is NaN; take a smaller step."
            )
        try:
            with np.errstate(over="raise"):
                return self._with_params(vector)
        except FloatingPointError as error:
            raise ValueError(
                f"{type(self).__name__} expects parameters whose exponentials are finite, but they "
                f"range from {vector.min():g} to {vector.max():g}; take a smaller step."
            ) from error

    def log_prior(self) -> float:
        """Return the log prior density of the conditional's parameters, up to a fixed constant.

        The density is with respect to the natural parameters (covariances, probabilities, rates),
        so its maximum does not depend on how `params` codes them. It is 0 if the prior has no
        strength, or if the parameters were given without `start`.
        """
        self._require_started()
        return float(self._log_prior())

    @property
    def n_parameters(self) -> int:
        """The number of free parameters of the conditional."""
        return len(self.params)

    @property
    def started(self) -> bool:
        """Whether there are parameters."""
        return self.n_features is not None

    def __repr__(self) -> str:
        options = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)  # type: ignore[arg-type]
            if f.repr and (f.default is MISSING or getattr(self, f.name) != f.default)
        ]
        text = f"{type(self).__name__}({', '.join(options)})"
        if not self.started:
            return text
        return f"<{text} with {self.n_features} columns and {self.n_parameters} parameters>"

    # Checks --------------------------------------------------------------------------------

    def _require_started(self) -> None:
        if not self.started:
            raise ValueError(
                f"{type(self).__name__} has no parameters yet; call start(X) first and use the "
                "mutation that it returns."
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

    def _check_root_marginals(self, root_marginals: ArrayLike | None, n_samples: int) -> None:
        if root_marginals is not None and np.shape(root_marginals) != (n_samples,):
            raise ValueError(
                f"{type(self).__name__} expects root_marginals of shape {(n_samples,)}, but got "
                f"{np.shape(root_marginals)}; pass one probability for each record in X."
            )

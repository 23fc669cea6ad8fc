"""What every model of change answers, with shapes and checks done once.

`Change` is what a model with parameters (`Mutation`) and what is believed about its parameters
(`outtrees.models.posterior.Posterior`) have in common; `Mutation` is the contract of the former.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.sparse import coo_array, issparse

from outtrees._common.arguments import check_edge_marginals, check_edges, check_records
from outtrees._common.edges import EdgeList, Ints
from outtrees._common.order import record_order
from outtrees._common.random import as_generator
from outtrees._common.types import Array
from outtrees.models.covariance import log_gaussian_by_class


class Change(ABC):
    """A frozen dataclass that describes rows of numbers, with a `start` and a root's density.

    A change is a value: no method alters it, `start` returns a new one. Methods that begin with an
    underscore receive checked arrays. Matrices are always [child, parent].
    """

    # What messages call it, and what `start` gives it.
    _word: ClassVar[str]
    _started_with: ClassVar[str]

    @abstractmethod
    def _start(self, X: Array, random_state: Any) -> Self: ...

    @abstractmethod
    def _log_root(self, X: Array) -> Array: ...

    @property
    @abstractmethod
    def n_features(self) -> int | None:
        """The number of columns, None before `start`."""

    @property
    def allows_missing(self) -> bool:
        """Whether NaN cells are accepted, as values to be integrated out."""
        return False

    @property
    def parent_free(self) -> bool:
        """Whether the conditional ignores the parent."""
        return False

    def _narrowed(self, factor: float) -> Self | None:
        """Return the same with `factor` times the noise's variance; None if that has no meaning."""
        return None

    def _check_values(self, X: Array, name: str) -> None:  # noqa: B027, most take any
        """Refuse values outside the support, such as negative counts."""

    def start(self, X: ArrayLike, random_state: Any = None) -> Self:
        """Return the same with starting parameters and priors scaled by X where none were given.

        Parameters given or learned before are forgotten, so the result depends on the options
        and on X only, and not on the order of its records.

        Parameters
        ----------
        X : array of shape (T, D), at least two records
        random_state : None, int, Generator or RandomState
            Used where the start is random (mixtures, landmarks of kernels).
        """
        X = check_records(X, type(self).__name__, allows_missing=self.allows_missing, min_rows=2)
        self._check_values(X, "X")
        as_generator(random_state)  # refuses a wrong one even where none is needed
        return self._start(X[record_order(X)], random_state)

    def log_root(self, X: ArrayLike) -> Array:
        """Return log p(x) of each record as the root, shape (n,); parameters integrated out by q.

        Under the density that `start` found for a mutation; for a posterior it is the evidence
        log ∫ p(x | θ_m) p(θ_m) dθ_m.
        """
        return self._log_root(self._checked(X, "X"))

    @property
    def started(self) -> bool:
        """Whether `start` has been called, or parameters were given."""
        return self.n_features is not None

    def __repr__(self) -> str:
        options = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)  # type: ignore[arg-type]  # every model is a dataclass
            if f.repr and (f.default is MISSING or not _same(getattr(self, f.name), f.default))
        ]
        text = f"{type(self).__name__}({', '.join(options)})"
        return f"<{text} with {self._size()}>" if self.started else text

    def _size(self) -> str:
        return f"{self.n_features} columns"

    def _require_started(self) -> None:
        if not self.started:
            raise ValueError(
                f"{type(self).__name__} has no {self._started_with} yet; call start(X) first and "
                f"use the {self._word} that it returns."
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
    return value is default or (isinstance(value, (str, int, float)) and bool(value == default))


class Mutation(Change):
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

    With many records W has entries for listed pairs only. Part of a conditional may come from
    anywhere, p(x_u | x_v) = f(x_u) + e(x_u, x_v) with f the same for every parent, as in a mixture
    with a component that ignores the parent. Then f can be summed over all parents at no cost, and
    a list cuts short only e, the excess. Weights of pairs fall apart alike, into weights of log e
    (E,) and of log f (T,).

    A new model is a frozen dataclass that writes the methods that start with an underscore below;
    those with a body have a default that serves every model. `edge_marginals` may be a SciPy sparse
    array, of which products and sums are taken. A model that ignores the parent, `parent_free`,
    may be asked with one parent that stands for all, and is given weights (T, 1): so a mixture
    pays O(T) instead of O(T²) for it.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> mutation = GaussianMutation().start([[0.0], [1.0], [3.0]])
    >>> isinstance(mutation, Mutation), mutation.n_features
    (True, 1)
    """

    _word = "mutation"
    _started_with = "parameters"

    # What a model writes, beside `_start`, `_log_root` and `n_features` -----------------------

    @abstractmethod
    def _log_conditional(self, children: Array, parents: Array) -> Array: ...

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

    # What a model may write ----------------------------------------------------------------

    def _log_by_class(self, X: Array, weights: Array, records: Array) -> Array:
        return log_gaussian_by_class(X, weights, records)

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
        parents = X[: edge_marginals.shape[1]]  # one stands for all if parents do not matter
        log_weights = np.where(edge_marginals != 0, self._log_conditional(X, parents), 0.0)
        return float((edge_marginals * log_weights).sum()) + self._log_prior()

    def _log_edges(
        self,
        children: Array,  # (n, D)
        parents: Array,  # (m, D)
        child: Ints,  # (E,) rows of children
        parent: Ints,  # (E,) rows of parents
    ) -> Array:
        """Return log p(children[child] | parents[parent]), (E,): one child after the other."""
        result = np.empty(len(child))
        order = np.argsort(child, kind="stable")
        for edges in np.split(order, np.flatnonzero(np.diff(child[order])) + 1):
            if len(edges):
                one = children[child[edges[:1]]]
                result[edges] = self._log_conditional(one, parents[parent[edges]])[0]
        return result

    def _log_anywhere(self, children: Array) -> Array | None:
        """Return log f (n,), the part of the density that is the same for every parent.

        None if there is no such part.
        """
        return self._log_conditional(children, children[:1])[:, 0] if self.parent_free else None

    def _log_excess(self, children: Array, parents: Array, child: Ints, parent: Ints) -> Array:
        """Return log e of listed pairs, (E,): what a parent adds to the part from anywhere."""
        if self.parent_free:
            return np.full(len(child), -np.inf)
        return self._log_edges(children, parents, child, parent)

    def _refit_split(
        self,
        X: Array,  # (T, D)
        edges: EdgeList,
        excess: Array,  # (E,) weights of log e
        anywhere: Array | None,  # (T,) weights of log f, None if there is none
    ) -> Self:
        """Raise Σ excess log e + Σ anywhere log f + log_prior."""
        if anywhere is not None:
            return self._refit(X, anywhere[:, None])
        return self._refit(X, edges.matrix(excess))

    def _gradient_split(
        self, X: Array, edges: EdgeList, excess: Array, anywhere: Array | None
    ) -> Array:
        """Return the gradient of what `_refit_split` raises."""
        if anywhere is not None:
            return self._gradient(X, anywhere[:, None])
        return self._gradient(X, edges.matrix(excess))

    def _embeddings(self, children: Array, parents: Array) -> list[tuple[Array, Array]] | None:
        """Return points (n, K) of children and (m, K) of parents, near where e is large.

        One pair for each component whose e falls with the Euclidean distance of the points; none
        if parents do not matter. None if e has no such form: then all pairs are compared.
        """
        return [] if self.parent_free else None

    @property
    def hidden_cells(self) -> str | None:
        """How hidden cells can be integrated out along a tree: "linear", "tables" or not, None.

        "linear" models have normal noise about a linear function of the parent, and write
        `_refit_moments(moments)`. Models by "tables" have a finite number of values, the `levels`
        of their columns, with `marginals` and `matrices`, and write `_refit_counts(counts)` and
        `_with_observed_root(X)`. Both write `_drawn(moments or counts, rng)`.
        """
        return None

    def _named(self) -> dict[str, Array]:
        """Return the conditional's free parameters as arrays by name; parts have their number."""
        return {"params": self._params()}

    # What everybody calls ------------------------------------------------------------------

    def log_conditional(self, children: ArrayLike, parents: ArrayLike) -> Array:
        """Return the matrix log p(child u | parent v), shape (n, m) [child, parent].

        Parameters
        ----------
        children : array-like of shape (n, D)
            Records as children.
        parents : array-like of shape (m, D)
            Records as parents.

        Returns
        -------
        array of shape (n, m)
            Log-densities.

        Examples
        --------
        >>> from outtrees.models import GaussianMutation
        >>> X = [[0.0], [1.0], [3.0]]
        >>> GaussianMutation().start(X).log_conditional(X, X).shape
        (3, 3)
        """
        children = self._checked(children, "children")
        return self._log_conditional(children, self._checked(parents, "parents"))

    def log_by_class(self, X: ArrayLike, weights: ArrayLike, records: ArrayLike) -> Array:
        """Return the records' log-densities in each class, shape (n, C), parents aside.

        The classes' densities come from X (T, D), with weights (T, C) for how much each of its
        records is of each class. They are held near that of all of X: few records of a class say
        little by themselves.

        Parameters
        ----------
        X : array-like of shape (T, D)
            Records that the classes' densities come from.
        weights : array-like of shape (T, C)
            How much each of them is of each class.
        records : array-like of shape (n, D)
            Records whose densities are asked for.

        Returns
        -------
        array of shape (n, C)
            Log-densities.
        """
        X = self._checked(X, "X")
        memberships = np.asarray(weights, dtype=np.float64)
        if memberships.ndim != 2 or len(memberships) != len(X) or not (memberships >= 0).all():
            raise ValueError(
                f"{type(self).__name__} expects a weight of 0 or more for each of {len(X)} records "
                f"and each class; got shape {memberships.shape}, least "
                f"{memberships.min(initial=0.0):g}; pass for example np.eye(C)[labels]."
            )
        return self._log_by_class(X, memberships, self._checked(records, "records"))

    def sample(self, parents: ArrayLike, rng: Any = None) -> Array:
        """Return one child for each row of parents, shape (n, D).

        Parameters
        ----------
        parents : array-like of shape (n, D)
            Records.
        rng : int, Generator or None
            For the draws.

        Returns
        -------
        array of shape (n, D)
            Children.
        """
        return self._sample(self._checked(parents, "parents"), as_generator(rng))

    def sample_root(self, n: int, rng: Any = None) -> Array:
        """Return n independent draws from the root's density, shape (n, D).

        Parameters
        ----------
        n : int
            The number of draws.
        rng : int, Generator or None
            For the draws.

        Returns
        -------
        array of shape (n, D)
            Records.
        """
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

        Parameters
        ----------
        X : array-like of shape (T, D)
            Records.
        edge_marginals : array-like of shape (T, T) [child, parent]
            Weights W of pairs.
        root_marginals : array-like of shape (T,), optional
            Probabilities of being the root.

        Returns
        -------
        Mutation
            With new parameters.
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
        """Return the gradient of Σ W log p(x_u | x_v) + log_prior with respect to `params`.

        Parameters
        ----------
        X : array-like of shape (T, D)
            Records.
        edge_marginals : array-like of shape (T, T) [child, parent]
            Weights W of pairs.
        root_marginals : array-like of shape (T,), optional
            Probabilities of being the root.

        Returns
        -------
        array of shape (P,)
            Slopes.
        """
        X = self._checked(X, "X")
        weights = check_edge_marginals(edge_marginals, len(X), type(self).__name__)
        self._check_root_marginals(root_marginals, len(X))
        return self._gradient(X, weights)

    def objective(
        self,
        X: ArrayLike,  # (T, D)
        edge_marginals: ArrayLike,  # (T, T) [child, parent]
    ) -> float:
        """Return Σ W log p(x_u | x_v) + log_prior, which `refit` raises.

        Parameters
        ----------
        X : array-like of shape (T, D)
            Records.
        edge_marginals : array-like of shape (T, T) [child, parent]
            Weights W of pairs.

        Returns
        -------
        float
            In nats.
        """
        X = self._checked(X, "X")
        return self._objective(X, check_edge_marginals(edge_marginals, len(X), type(self).__name__))

    @property
    def params(self) -> Array:
        """The conditional's parameters as one flat vector without constraints."""
        self._require_started()
        return self._params()

    def with_params(self, params: ArrayLike) -> Self:
        """Return the mutation with the conditional's parameters taken from a flat vector.

        Parameters
        ----------
        params : array-like of shape (P,)
            As `params` gives them.

        Returns
        -------
        Mutation
            With these parameters.
        """
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

        Returns
        -------
        float
            In nats.
        """
        self._require_started()
        return float(self._log_prior())

    @property
    def n_parameters(self) -> int:
        """The number of free parameters of the conditional."""
        return len(self.params)

    def _size(self) -> str:
        return f"{self.n_features} columns and {self.n_parameters} parameters"

    def _check_root_marginals(self, root_marginals: ArrayLike | None, n_samples: int) -> None:
        if root_marginals is not None and np.shape(root_marginals) != (n_samples,):
            raise ValueError(
                f"{type(self).__name__} expects root_marginals of shape {(n_samples,)}; got "
                f"{np.shape(root_marginals)}; pass one probability for each record in X."
            )

    # Listed pairs --------------------------------------------------------------------------

    def log_beta_edges(
        self,
        X: ArrayLike,  # (T, D)
        child: ArrayLike,  # (E,)
        parent: ArrayLike,  # (E,)
    ) -> Array:
        """Return log p(x_child | x_parent) of listed pairs of records, (E,). O(E D).

        Parameters
        ----------
        X : array-like of shape (T, D)
            Records.
        child : array-like of shape (E,)
            Rows of children.
        parent : array-like of shape (E,)
            Rows of parents.

        Returns
        -------
        array of shape (E,)
            Log-densities.
        """
        X = self._checked(X, "X")
        check_edges(child, parent, len(X), type(self).__name__)
        return self._log_edges(X, X, *(np.asarray(end, dtype=np.intp) for end in (child, parent)))

    def refit_edges(
        self,
        X: ArrayLike,  # (T, D)
        child: ArrayLike,  # (E,)
        parent: ArrayLike,  # (E,)
        weight: ArrayLike,  # (E,)
    ) -> Self:
        """Return `refit` for weights of listed pairs; all others have none.

        O(E D) for sums, and memory for some vectors of length E and matrices (T, D).

        Parameters
        ----------
        X : array-like of shape (T, D)
            Records.
        child : array-like of shape (E,)
            Rows of children.
        parent : array-like of shape (E,)
            Rows of parents.
        weight : array-like of shape (E,)
            Weights of pairs.

        Returns
        -------
        Mutation
            With new parameters.
        """
        return self._refit_split(*self._split(X, child, parent, weight))

    def gradient_edges(
        self, X: ArrayLike, child: ArrayLike, parent: ArrayLike, weight: ArrayLike
    ) -> Array:
        """Return `gradient` for weights of listed pairs; all others have none.

        Parameters
        ----------
        X : array-like of shape (T, D)
            Records.
        child : array-like of shape (E,)
            Rows of children.
        parent : array-like of shape (E,)
            Rows of parents.
        weight : array-like of shape (E,)
            Weights of pairs.

        Returns
        -------
        array of shape (P,)
            Slopes.
        """
        return self._gradient_split(*self._split(X, child, parent, weight))

    def _split(
        self, X: ArrayLike, child: ArrayLike, parent: ArrayLike, weight: ArrayLike
    ) -> tuple[Array, EdgeList, Array, Array | None]:
        """Return the weights of pairs as those of log e and of log f."""
        X = self._checked(X, "X")
        owner = type(self).__name__
        check_edges(child, parent, len(X), owner)
        weights = np.asarray(weight, dtype=np.float64)
        if weights.shape != np.shape(child):
            raise ValueError(
                f"{owner} expects one weight for each of {len(np.asarray(child))} edges; got "
                f"shape {weights.shape}."
            )
        if len(weights) and not (weights.min() >= -1e-6 and weights.max() < np.inf):
            raise ValueError(
                f"{owner} expects finite weights >= 0, but they range from {weights.min()} to "
                f"{weights.max()}; pass the marginals of a distribution over out-trees."
            )
        order = np.argsort(np.asarray(child), kind="stable")
        edges, weights = EdgeList.of(child, parent, len(X)), weights[order]
        log_f = self._log_anywhere(X)
        if log_f is None:
            return X, edges, weights, None
        log_e, log_f = self._log_excess(X, X, edges.child, edges.parent), log_f[edges.child]
        log_all = np.logaddexp(log_e, log_f)
        reached = np.where(np.isneginf(log_all), 0.0, log_all)  # impossible pairs have no shares
        return (
            X,
            edges,
            weights * np.exp(log_e - reached),
            edges.by_child(weights * np.exp(log_f - reached)),
        )


def named_parts(parts: Sequence[Mutation]) -> dict[str, Array]:
    """Return the free parameters of the parts of a mixture or product, by number and name."""
    return {f"parts[{k}].{n}": v for k, part in enumerate(parts) for n, v in part._named().items()}

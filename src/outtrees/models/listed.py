"""What every mutation model answers about listed pairs of records instead of all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.types import Array
from outtrees.models.edges import EdgeList, Ints, check_edges


class ListedPairs(ABC):
    """The half of `Mutation` that looks at listed pairs (child, parent) only.

    Part of a conditional may come from anywhere, p(x_u | x_v) = f(x_u) + e(x_u, x_v) with f the
    same for every parent, as in a mixture with a component that ignores the parent. Then f can be
    summed over all parents at no cost, and a list cuts short only e, the excess. Weights of pairs
    fall apart alike, into weights of log e (E,) and of log f (T,).

    What starts with an underscore has a default that serves every model; a model with a formula
    for single pairs writes `_log_edges`, one whose parents can be searched `_embeddings`.
    """

    # What the other half writes --------------------------------------------------------------

    @abstractmethod
    def _log_conditional(self, children: Array, parents: Array) -> Array: ...

    @abstractmethod
    def _gradient(self, X: Array, edge_marginals: Any) -> Array: ...

    @abstractmethod
    def _refit(self, X: Array, edge_marginals: Any) -> Self: ...

    @abstractmethod
    def _log_child(self, children: Array) -> Array: ...

    @abstractmethod
    def _refit_children(self, X: Array, weights: Array) -> Self: ...

    @abstractmethod
    def _gradient_children(self, X: Array, weights: Array) -> Array: ...

    @property
    @abstractmethod
    def parent_free(self) -> bool:
        """Whether the conditional ignores the parent."""

    @abstractmethod
    def _checked(self, X: ArrayLike, name: str) -> Array: ...

    # What a model may write ----------------------------------------------------------------

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
        return self._log_child(children) if self.parent_free else None

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
            return self._refit_children(X, anywhere)
        return self._refit(X, edges.matrix(excess))

    def _gradient_split(
        self, X: Array, edges: EdgeList, excess: Array, anywhere: Array | None
    ) -> Array:
        """Return the gradient of what `_refit_split` raises."""
        if anywhere is not None:
            return self._gradient_children(X, anywhere)
        return self._gradient(X, edges.matrix(excess))

    def _embeddings(self, children: Array, parents: Array) -> list[tuple[Array, Array]] | None:
        """Return points (n, K) of children and (m, K) of parents, near where e is large.

        One pair for each component whose e falls with the Euclidean distance of the points; none
        if parents do not matter. None if e has no such form: then all pairs are compared.
        """
        return [] if self.parent_free else None

    # What everybody calls ------------------------------------------------------------------

    def log_beta_edges(
        self,
        X: ArrayLike,  # (T, D)
        child: ArrayLike,  # (E,)
        parent: ArrayLike,  # (E,)
    ) -> Array:
        """Return log p(x_child | x_parent) of listed pairs of records, (E,). O(E D)."""
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
        """
        return self._refit_split(*self._split(X, child, parent, weight))

    def gradient_edges(
        self, X: ArrayLike, child: ArrayLike, parent: ArrayLike, weight: ArrayLike
    ) -> Array:
        """Return `gradient` for weights of listed pairs; all others have none."""
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
                f"{owner} expects one weight for each of {len(np.asarray(child))} edges, but got "
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

"""The log posterior as a function of the mutation: over all pairs of records, or over candidates.

A fit needs little of it (`Objective`, `Point`): the value, the gradient, and one step of EM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from outtrees._common.edges import EdgeList, Ints
from outtrees._common.types import Array
from outtrees.inference.likelihood import log_number_of_trees, tree_distribution
from outtrees.models.base import Mutation
from outtrees.trees import OutTreeDistribution
from outtrees.trees.sparse.fronts import Plan


class Point(ABC):
    """One mutation and its log posterior. Marginals are computed when asked for."""

    mutation: Mutation
    value: float  # log p(X | θ) + log_prior(θ)
    tree: OutTreeDistribution | None = None  # over all trees of the records, where these are summed

    @cached_property
    def params(self) -> Array:
        """θ, (P,)."""
        return self.mutation.params

    @property
    @abstractmethod
    def gradient(self) -> Array:
        """∂ log posterior / ∂θ, (P,)."""

    @abstractmethod
    def refit(self) -> Mutation:
        """Return the mutation after one step of EM from here."""


class Objective(ABC):
    """The log posterior for fixed records; counts how often the engine was asked for log Z."""

    def __init__(self, X: ArrayLike) -> None:  # (T, D)
        self.X = np.asarray(X, dtype=np.float64)
        self.n_evaluations = 0

    @abstractmethod
    def at(self, mutation: Mutation) -> Point:
        """Return the point of a mutation."""

    def at_params(self, mutation: Mutation, params: Array) -> Point | None:
        """Return the point of a parameter vector; None where the log posterior is −inf.

        That is where parameters overflow, a covariance is singular in floating point, or the
        weights leave no out-tree: a step in that direction was too long.
        """
        if not np.isfinite(params).all():
            return None
        try:
            point = self.at(mutation.with_params(params))
        except ValueError:
            return None
        return point if point.value > -np.inf else None


class DenseObjective(Objective):
    """The log posterior summed over all trees; O(T³ + T² D) for each point."""

    def at(self, mutation: Mutation) -> DensePoint:
        """Return the point of a mutation."""
        self.n_evaluations += 1
        return DensePoint(mutation, self.X)


class DensePoint(Point):
    """One mutation, its distribution over all trees, and its log posterior."""

    tree: OutTreeDistribution

    def __init__(self, mutation: Mutation, X: Array) -> None:
        self.mutation, self._X = mutation, X
        self.tree = tree_distribution(mutation, X)
        self.value = self.tree.log_z + mutation.log_prior() - log_number_of_trees(len(X))

    @cached_property
    def gradient(self) -> Array:
        """∂ log posterior / ∂θ, (P,)."""
        return self.mutation.gradient(self._X, self.tree.edge_marginals, self.tree.root_marginals)

    def refit(self) -> Mutation:
        """Return the mutation after one step of EM from here."""
        return self.mutation.refit(self._X, self.tree.edge_marginals, self.tree.root_marginals)


class CandidateObjective(Objective):
    """The log posterior when only some pairs of records are looked at one by one.

    A conditional is p(x_u | x_v) = f(x_u) + e(x_u, x_v), f the same for every parent (0 for most
    mutations). Row u of the weights is taken as

        β_uv = f_u + e_uv       for the candidate parents v,
        β_uv = f_u + g_u        for all others,

    with g_u the mean of e over the others, estimated from a sample (`OtherParents`): so every row
    has the right sum but for sampling error, and no record's parents are cut off. What is the same
    for all parents goes through one more node h, "anywhere": u ← h weighs T (f_u + g_u), h ← v
    weighs one for every v. Eliminating h gives these β back, exactly (a star turned into a mesh),
    and the marginal of u ← h is the probability that u's parent is one of many. So the list has
    E + 2T edges, and the gradient and the steps of EM are exact for the weights above.

    Parameters
    ----------
    table : array of shape (T, k)
        The candidate parents of each record.
    others, log_each : arrays of shape (T, m)
        The sample of the others, and the log of how many each of them stands for. m = 0 leaves
        all others at f_u alone: then the value is a lower bound of the log posterior.
    """

    def __init__(self, X: ArrayLike, table: Ints, others: Ints, log_each: Array) -> None:
        super().__init__(X)
        self.near = EdgeList.of_table(table)
        self.far = EdgeList.of_table(others)
        self.n_far = others.shape[1]
        self.edges = EdgeList.of_table(np.hstack([table, others]))
        self.log_each = log_each.ravel()
        self.plan: Plan | None = None  # of the last point: the list of edges stays

    def at(self, mutation: Mutation) -> CandidatePoint:
        """Return the point of a mutation; one sparse elimination."""
        self.n_evaluations += 1
        point = CandidatePoint(mutation, self)
        self.plan = point.trees.plan
        return point


class CandidatePoint(Point):
    """One mutation, its distribution over trees of candidates, and its log posterior."""

    def __init__(self, mutation: Mutation, objective: CandidateObjective) -> None:
        self.mutation = mutation
        self._X, self._objective = objective.X, objective
        X, near, far = objective.X, objective.near, objective.far
        T = len(X)
        log_near = mutation._log_excess(X, X, near.child, near.parent)
        self._log_far = mutation._log_excess(X, X, far.child, far.parent) + objective.log_each
        self._log_f = mutation._log_anywhere(X)
        log_anywhere = np.full(T, -np.inf)
        if self._log_f is not None:
            log_anywhere = np.log(T) + self._log_f
        if objective.n_far:
            # Spread over the T − 1 others; h also offers the record itself, which is no parent.
            sums = logsumexp(self._log_far.reshape(T, -1), axis=1) + np.log(T / (T - 1))
            log_anywhere = np.logaddexp(log_anywhere, sums)
        self._log_anywhere = log_anywhere
        log_root = mutation._log_root(X)
        self._has_hub = bool((log_anywhere > -np.inf).any())
        if self._has_hub:
            every, hub = np.arange(T), np.full(T, T)
            self.trees = OutTreeDistribution.from_candidates(
                np.concatenate([near.child, every, hub]),
                np.concatenate([near.parent, hub, every]),
                np.concatenate([log_near, log_anywhere, np.zeros(T)]),
                np.append(log_root, -np.inf),
                plan=objective.plan,
            )
        else:
            self.trees = OutTreeDistribution.from_candidates(
                near.child, near.parent, log_near, log_root, plan=objective.plan
            )
        log_z = self.trees.log_z - (float(np.log(T)) if self._has_hub else 0.0)
        self.value = log_z + mutation.log_prior() - log_number_of_trees(T)

    @cached_property
    def _weights(self) -> tuple[EdgeList, Array, Array | None]:
        """The marginals as weights of log e of near and far edges, and of log f."""
        objective = self._objective
        T, n = len(self._X), len(objective.near)
        marginals = self.trees.edge_marginals
        near = marginals[:n].reshape(T, -1)
        anywhere = marginals[n : n + T] if self._has_hub else np.zeros(T)
        reached = np.where(np.isneginf(self._log_anywhere), 0.0, self._log_anywhere)
        far = np.empty((T, 0))
        if objective.n_far:
            shift = np.log(T / (T - 1)) - reached
            log_far = self._log_far.reshape(T, -1)
            far = anywhere[:, None] * np.exp(log_far + shift[:, None])
        free = None
        if self._log_f is not None:
            free = anywhere * np.exp(np.log(T) + self._log_f - reached)
        return objective.edges, np.hstack([near, far]).ravel(), free

    @cached_property
    def gradient(self) -> Array:
        """∂ log posterior / ∂θ, (P,)."""
        return self.mutation._gradient_split(self._X, *self._weights)

    def refit(self) -> Mutation:
        """Return the mutation after one step of EM from here."""
        return self.mutation._refit_split(self._X, *self._weights)

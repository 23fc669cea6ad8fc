"""The log posterior over listed edges, with a sample standing for all that are not listed."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from outtrees._common.types import Array
from outtrees.inference.likelihood import log_number_of_trees
from outtrees.inference.objective import Objective, Point
from outtrees.models.base import Mutation
from outtrees.models.edges import EdgeList, Ints
from outtrees.trees.candidates import CandidateTrees
from outtrees.trees.sparse.plans import Plan


class CandidateObjective(Objective):
    """The log posterior of fixed records when only some pairs are looked at one by one.

    A conditional is p(x_u | x_v) = f(x_u) + e(x_u, x_v), f the same for every parent (0 for most
    mutations). Row u of the weights is taken as

        β_uv = f_u + e_uv       for the listed parents v,
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
        The listed parents of each record.
    others, log_each : arrays of shape (T, m)
        The sample of the others, and the log of how many each of them stands for. m = 0 leaves
        all others at f_u alone: then the value is a lower bound of the log posterior.
    """

    def __init__(self, X: Array, table: Ints, others: Ints, log_each: Array) -> None:
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
    """One mutation, its distribution over trees with listed edges, and its log posterior."""

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
            self.trees = CandidateTrees(
                np.concatenate([near.child, every, hub]),
                np.concatenate([near.parent, hub, every]),
                np.concatenate([log_near, log_anywhere, np.zeros(T)]),
                np.append(log_root, -np.inf),
                plan=objective.plan,
            )
        else:
            self.trees = CandidateTrees(
                near.child, near.parent, log_near, log_root, plan=objective.plan
            )
        log_z = self.trees.log_z - (float(np.log(T)) if self._has_hub else 0.0)
        self.log_posterior = log_z + mutation.log_prior() - log_number_of_trees(T)

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

"""The list of possible edges that a fitted mutation leads to, and what it leaves out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from outtrees._common.types import Array
from outtrees.candidates.approximate import approximate_is_used
from outtrees.candidates.dropped import dropped_bound, dropped_mass
from outtrees.candidates.neighbours import joined, nearest_parents
from outtrees.models.base import Mutation
from outtrees.models.edges import EdgeList, Ints


class Listed(NamedTuple):
    """The candidates of each record, linked where they alone leave no out-tree."""

    edges: EdgeList
    # (T, k) log-densities of the k likeliest parents; None if one of these may be missing
    log_near: Array | None
    n_left: int  # records that are no candidates of a record


class Dropped(NamedTuple):
    """The mean share of a record's parents, by weight, that is not listed."""

    mean: float  # estimated from all parents of some records
    standard_error: float
    bound: float | None  # of the mean; without sampling, where there is one


def listed_parents(
    mutation: Mutation, X: Array, n_candidates: int, neighbours: str = "exact"
) -> Listed:
    """Return the `n_candidates` likeliest parents of each record, with links between clusters.

    Examples
    --------
    >>> from outtrees.models import GaussianMutation
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> listed = listed_parents(GaussianMutation(transition="identity").start(X), X, 1)
    >>> len(listed.edges), listed.n_left
    (6, 2)
    """
    table = nearest_parents(mutation, X, n_candidates, neighbours)
    edges = joined(mutation, X, table, n_candidates)
    n_left = len(X) - 1 - table.shape[1]
    spaces = mutation._embeddings(X[:1], X[:1])
    several = spaces is not None and len(spaces) > 1
    if several or any(approximate_is_used(neighbours, space) for space in spaces or ()):
        return Listed(edges, None, n_left)
    near = EdgeList.of_table(table)
    log_near = mutation._log_edges(X, X, near.child, near.parent).reshape(table.shape)
    return Listed(edges, log_near, n_left)


def what_is_dropped(
    mutation: Mutation,
    X: Array,  # (T, D)
    listed: Listed,
    *,
    sharpness: float = 1.0,
    n_sampled: int = 200,
    random_state: Any = None,
) -> Dropped:
    """Return the share of a record's parents that is not listed, when weights are p^sharpness."""
    edges = listed.edges

    def log_weights(rows: Ints) -> Array:
        log_beta = _powered(mutation._log_conditional(X[rows], X), sharpness)
        log_beta[np.arange(len(rows)), rows] = -np.inf
        return log_beta

    def listed_of(row: int) -> Ints:
        return edges.parent[edges.starts[row] : edges.starts[row + 1]]

    found = dropped_mass(
        len(X), log_weights, listed_of, n_sampled=n_sampled, random_state=random_state
    )
    bound = None
    if listed.log_near is not None:
        bound = dropped_bound(_powered(listed.log_near, sharpness), listed.n_left)
    return Dropped(found.mean, found.standard_error, bound)


def _powered(log_weights: Array, sharpness: float) -> Array:
    """Return sharpness · log_weights; what is impossible stays so, even at sharpness 0."""
    possible = ~np.isneginf(log_weights)
    return np.multiply(
        log_weights, sharpness, out=np.full_like(log_weights, -np.inf), where=possible
    )

"""The list of possible edges that a fitted mutation leads to."""

from __future__ import annotations

from typing import NamedTuple

from outtrees._common.types import Array
from outtrees.candidates.approximate import approximate_is_used
from outtrees.candidates.neighbours import joined, nearest_parents
from outtrees.models.base import Mutation
from outtrees.models.edges import EdgeList


class Listed(NamedTuple):
    """The candidates of each record, linked where they alone leave no out-tree."""

    edges: EdgeList
    # (T, k) log-densities of the k likeliest parents; None if one of these may be missing
    log_near: Array | None
    n_left: int  # records that are no candidates of a record


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

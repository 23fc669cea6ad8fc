"""Labels on trees of which only some edges are possible."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outtrees._common.types import Array
from outtrees.labels.model import LabelModel, Labels
from outtrees.models.edges import chunks
from outtrees.trees.candidates import CandidateTrees
from outtrees.trees.sparse.plans import Plan


@dataclass(frozen=True)
class CandidateLabelModel(LabelModel):
    """A `LabelModel` whose edges are listed: `log_attributes` is (1 or 2, E) in their order.

    Its posterior is that over trees of listed edges. Memory O(E).

    Examples
    --------
    Four records in two pairs, and one edge between them.

    >>> edges = {"child": np.array([0, 1, 2, 2, 3]), "parent": np.array([1, 0, 1, 3, 2])}
    >>> model = CandidateLabelModel(
    ...     np.array([[9.0, 9.0, 0.0, 9.0, 9.0]]), np.zeros(4), np.array([0.5, 0.5]), 0.9, **edges
    ... )
    >>> model.trees(np.array([0, 0, 1, 1])).edge_marginals.round(2)
    array([0.5, 0.5, 1. , 0. , 1. ])
    """

    child: Labels = field(kw_only=True)  # (E,), never falling; the parents of each child rise
    parent: Labels = field(kw_only=True)  # (E,)

    def weights(self, labels: Labels) -> tuple[Array, Array]:
        """Return the log-weights of edges (E,) and roots (T,) when all labels are known. O(E)."""
        of_child, of_parent = labels[self.child], labels[self.parent]
        origins = self.log_origins
        begun = None if origins is None else origins[self.child, of_child]
        log_weight = self.log_pairs(self.log_layers, of_child, of_parent, begun)
        return log_weight, self.log_roots + self.log_marginal[labels]

    def distribution(self, log_beta: Array, log_root: Array) -> Any:
        """Return the distribution over trees with these weights of edges and of roots."""
        return CandidateTrees(self.child, self.parent, log_beta, log_root, plan=self._plan)

    @cached_property
    def _plan(self) -> Plan | None:
        """The plan of the attributes alone, which serves whatever the labels are."""
        log_weight = self.log_layers.max(axis=0)
        return CandidateTrees(self.child, self.parent, log_weight, self.log_roots).plan

    def pair_sums(
        self,
        left: Array,  # (T, C) by the child
        right: Array,  # (T, C) by the parent
    ) -> Array:
        """Return Σ_c left[u, c] right[v, c] of each edge, (E,)."""
        result = np.empty(len(self.child))
        for rows in chunks(len(result), left.shape[1]):
            ends = left[self.child[rows]], right[self.parent[rows]]
            result[rows] = np.einsum("ec,ec->e", *ends)
        return result

    def of_children(self, values: Array) -> Array:
        """Return values of the records (T,) at each edge's child, (E,)."""
        return values[self.child]

    def along(self, values: Array, trees: NDArray[np.intp]) -> Array:
        """Return the edges' values at the edges of trees (n, T); a root's entry means nothing."""
        T = self.n_records
        wanted = np.arange(T) * T + np.maximum(trees, 0)
        found = np.searchsorted(self.child * T + self.parent, wanted)
        return values[..., np.minimum(found, len(self.child) - 1)]

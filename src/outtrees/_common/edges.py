"""Lists of edges: pairs (child, parent) of records, one type for every use.

Models, searches for candidates and sums over trees all take an `EdgeList`. What one of them knows
beyond the pairs stands in a class of its own that is an `EdgeList` too:
`outtrees.candidates.edges.PossibleEdges` and `outtrees.trees.edges.ListedEdges`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from outtrees._common.types import Array

Ints = NDArray[np.intp]
# Cells of records that are gathered at once: 8 MB, which stays in the cache.
_CELLS_AT_ONCE = 2**20


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Pairs (child, parent) of T records.

    Weights of the pairs are vectors of length E in this order; as a sparse matrix they enter
    every sum that an M-step needs by one product, O(E D) time and O(E + T D) memory.

    Examples
    --------
    >>> edges = EdgeList(np.array([2, 0, 2]), np.array([0, 1, 1]), 3)
    >>> edges.into(2)[1].tolist()  # its possible parents
    [0, 1]
    >>> edges.by_child(np.array([0.25, 0.5, 0.25])).tolist()
    [0.5, 0.0, 0.5]
    """

    child: Ints  # (E,)
    parent: Ints  # (E,)
    n_records: int

    @classmethod
    def of(cls, child: ArrayLike, parent: ArrayLike, n_records: int) -> EdgeList:
        """Return the list in the order of the children; edges of a child keep their order."""
        children, parents = np.asarray(child, dtype=np.intp), np.asarray(parent, dtype=np.intp)
        order = np.argsort(children, kind="stable")
        return EdgeList(children[order], parents[order], n_records)

    @classmethod
    def of_table(cls, parents: Ints) -> EdgeList:  # (T, k)
        """Return the list of a table with the k possible parents of each record in its row."""
        T, k = parents.shape
        return EdgeList(np.repeat(np.arange(T), k), np.ascontiguousarray(parents).ravel(), T)

    def __len__(self) -> int:
        return len(self.child)

    @cached_property
    def order(self) -> Ints:
        """The edges in the order of their children, those of a child as listed, (E,)."""
        return np.argsort(self.child, kind="stable")

    @cached_property
    def starts(self) -> Ints:
        """Where in `order` the edges of each child begin, and where the last ones end, (T + 1,)."""
        counts = np.bincount(self.child, minlength=self.n_records)
        return np.concatenate([[0], np.cumsum(counts)])

    def into(self, child: int) -> tuple[Ints, Ints]:
        """Return the edges into a record, and their parents."""
        edges = self.order[self.starts[child] : self.starts[child + 1]]
        return edges, self.parent[edges]

    def matrix(self, weight: Array) -> csr_array:
        """Return the weights (E,) as a sparse matrix (T, T) [child, parent]."""
        shape = (self.n_records, self.n_records)
        # SciPy may sort a row's columns and join equal ones in place, in all three: it gets copies.
        columns = self.parent[self.order]
        return csr_array((weight[self.order], columns, self.starts.copy()), shape=shape)

    def by_child(self, weight: Array) -> Array:
        """Return the sum of each child's weights, (T,)."""
        total = np.bincount(self.child, weights=weight, minlength=self.n_records)
        return np.asarray(total, dtype=np.float64)


def within_runs(sizes: Ints) -> Ints:
    """Return 0, 1, …, n − 1 for each n of the sizes, one run after the other.

    Examples
    --------
    >>> within_runs(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def chunks(n_edges: int, width: int) -> Iterator[slice]:
    """Yield slices of edges whose records, of `width` cells each, are gathered together."""
    step = max(1, _CELLS_AT_ONCE // max(width, 1))
    for low in range(0, n_edges, step):
        yield slice(low, min(low + step, n_edges))

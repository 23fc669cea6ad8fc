"""Lists of possible edges: which pairs of records a sparse fit looks at."""

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
    """Pairs (child, parent) of T records, those of a child next to each other.

    Weights of the pairs are vectors of length E in this order; as a sparse matrix they enter
    every sum that an M-step needs by one product, O(E D) time and O(E + T D) memory.

    Examples
    --------
    >>> edges = EdgeList.of([2, 0, 2], [0, 1, 1], 3)
    >>> edges.child.tolist(), edges.parent.tolist()
    ([0, 2, 2], [1, 0, 1])
    >>> edges.by_child(np.array([0.5, 0.25, 0.25])).tolist()
    [0.5, 0.0, 0.5]
    """

    child: Ints  # (E,), never falling
    parent: Ints  # (E,)
    n_records: int

    @classmethod
    def of(cls, child: ArrayLike, parent: ArrayLike, n_records: int) -> EdgeList:
        """Return the list in the order of the children; edges of a child keep their order."""
        children, parents = np.asarray(child, dtype=np.intp), np.asarray(parent, dtype=np.intp)
        order = np.argsort(children, kind="stable")
        return cls(children[order], parents[order], n_records)

    @classmethod
    def of_table(cls, parents: Ints) -> EdgeList:  # (T, k)
        """Return the list of a table with the k possible parents of each record in its row."""
        T, k = parents.shape
        return cls(np.repeat(np.arange(T), k), np.ascontiguousarray(parents).ravel(), T)

    def __len__(self) -> int:
        return len(self.child)

    @cached_property
    def starts(self) -> Ints:
        """Where the edges of each child begin, and where the last ones end, (T + 1,)."""
        counts = np.bincount(self.child, minlength=self.n_records)
        return np.concatenate([[0], np.cumsum(counts)])

    def matrix(self, weight: Array) -> csr_array:
        """Return the weights (E,) as a sparse matrix (T, T) [child, parent]."""
        shape = (self.n_records, self.n_records)
        # SciPy may sort a row's columns and join equal ones in place, in all three: it gets copies.
        return csr_array((weight.copy(), self.parent.copy(), self.starts.copy()), shape=shape)

    def by_child(self, weight: Array) -> Array:
        """Return the sum of each child's weights, (T,)."""
        total = np.bincount(self.child, weights=weight, minlength=self.n_records)
        return np.asarray(total, dtype=np.float64)


def check_edges(child: ArrayLike, parent: ArrayLike, n_records: int, owner: str) -> None:
    """Raise ValueError unless both ends are vectors of one length that hold records."""
    ends = {"child": np.asarray(child), "parent": np.asarray(parent)}
    if ends["child"].ndim != 1 or ends["child"].shape != ends["parent"].shape:
        raise ValueError(
            f"{owner} expects child and parent as vectors of one length; got shapes "
            f"{ends['child'].shape} and {ends['parent'].shape}; give both ends of each edge."
        )
    for name, values in ends.items():
        if len(values) and values.dtype.kind not in "iu":
            raise ValueError(
                f"{owner} expects row numbers in {name}; got {values.dtype}. Use integers."
            )
        outside = (values < 0) | (values >= n_records)
        if outside.any():
            raise ValueError(
                f"{owner} expects rows 0 … {n_records - 1} in {name}; got "
                f"{values[outside][0]}; X has {n_records} records."
            )


def chunks(n_edges: int, width: int) -> Iterator[slice]:
    """Yield slices of edges whose records, of `width` cells each, are gathered together."""
    step = max(1, _CELLS_AT_ONCE // max(width, 1))
    for low in range(0, n_edges, step):
        yield slice(low, min(low + step, n_edges))

"""Links between parts: candidates that connect records which the best-ranked ones leave apart.

The best-ranked parents of separated clusters leave no way from one cluster to the other, and then
no out-tree of all records. Both searches add links round by round; which links, each decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

Index = NDArray[np.intp]


class Parts(NamedTuple):
    """Sets of records that can all be each other's ancestors, by the listed edges."""

    part: Index  # (T,), the number of each record's part
    closed: NDArray[np.bool_]  # (P,), whether no record of the part has a listed parent outside


Links = Callable[[Index, Index, Parts], tuple[Index, Index]]


def parts_of(child: Index, parent: Index, n_records: int) -> Parts:
    """Return the parts of the records, and which of them are closed; O(T + E).

    Examples
    --------
    >>> found = parts_of(np.array([0, 1, 2, 3, 3]), np.array([1, 0, 3, 2, 1]), 4)
    >>> bool(found.part[0] == found.part[1] != found.part[2] == found.part[3])
    True
    >>> found.closed[found.part].tolist()
    [True, True, False, False]
    """
    ones = np.ones(len(child), dtype=np.int8)
    graph = csr_array((ones, (child, parent)), shape=(n_records, n_records))
    n, part = connected_components(graph, directed=True, connection="strong")
    closed = np.ones(n, dtype=bool)
    closed[part[child[part[child] != part[parent]]]] = False
    return Parts(part.astype(np.intp), closed)


def linked(
    child: Index,  # (E,)
    parent: Index,  # (E,)
    n_records: int,
    links: Links,
    most_rounds: int | None = None,
) -> tuple[Index, Index]:
    """Return the edges with those that `links` adds to them, until it adds none.

    Parameters
    ----------
    links : function of child, parent and Parts
        Returns more edges, from records of closed parts to parents outside of them. Every round
        with such an edge leaves fewer closed parts, so the rounds come to an end.
    most_rounds : int, optional
    """
    rounds = 0
    while most_rounds is None or rounds < most_rounds:
        more_child, more_parent = links(child, parent, parts_of(child, parent, n_records))
        if not len(more_child):
            break
        child, parent = np.append(child, more_child), np.append(parent, more_parent)
        rounds += 1
    return child, parent

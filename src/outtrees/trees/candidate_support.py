"""Whether some tree of a list of edges holds an edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

if TYPE_CHECKING:
    from outtrees.trees.candidates import CandidateTrees


def edge_is_possible(trees: CandidateTrees, child: int, parent: int) -> bool:
    """Return whether some spanning tree holds the edge ``child`` ← ``parent``, which is listed.

    It does if the parent can reach a permitted root without passing through the child. Asked of
    the graph, since a marginal may have underflowed to 0, or rounding left a trace of one.
    """
    keep = (trees.log_weight > -np.inf) & (trees.child != child)
    T = trees.n_records
    ends = trees.child[keep], trees.parent[keep]
    graph = csr_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(T, T))
    ancestors = breadth_first_order(graph, parent, return_predecessors=False)
    may_be_root = trees.log_root > -np.inf
    if trees.roots == "single":
        may_be_root = may_be_root & np.isfinite(trees.log_z_rooted)
    may_be_root[child] = False
    return bool(may_be_root[ancestors].any())

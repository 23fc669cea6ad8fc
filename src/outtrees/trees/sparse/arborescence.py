"""The best out-tree of a list of edges, certified by its own dual bound."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING

import numpy as np

from outtrees.trees.weights import Floats, Ints

if TYPE_CHECKING:
    from outtrees.trees.sparse.trees import SparseTrees


def best_trees(
    trees: SparseTrees,
    edge_weight: Floats,  # (E,), −inf where an edge is not allowed
    root_weight: Floats,  # (T,)
) -> tuple[Ints, float]:
    """Return parents (T,), −1 at roots, of the largest total weight, and that weight.

    Records alone take their best edge; each component is a problem of its own, in which the edges
    that leave it count as one, the best of them.
    """
    from outtrees.trees.sparse import arborescence_kernels as kernels

    edges, components = trees.edges, trees.components
    T = edges.n_records
    chosen, best = np.empty(T, dtype=np.intp), np.empty(T)
    kernels.best_outside(
        edges.start,
        edges.parent,
        edge_weight,
        root_weight,
        components.label,
        components.alone,
        chosen,
        best,
    )
    members = components.members
    if len(members):
        inner = trees.inner
        single = np.repeat(components.single, np.diff(components.first))
        inside, gain, _, _ = kernels.best_parents(
            inner.first, inner.column, edge_weight[inner.edge], best[members], single
        )
        takes = inside >= 0
        chosen[members[takes]] = inner.edge[inside[takes]]
        best[members[takes]] = edge_weight[inner.edge[inside[takes]]]
        weight, bound = fsum(best[members]), fsum(gain)
        scale = max(1.0, float(np.abs(gain).max()))
        if not abs(bound - weight) <= 1e-12 * scale * len(gain):
            raise ArithmeticError(
                f"the best tree weighs {weight} but the bound is {bound}: please report this as a "
                "bug"
            )
    parents = np.where(chosen >= 0, edges.parent[chosen] if len(edges.parent) else -1, -1)
    return parents, fsum(best)

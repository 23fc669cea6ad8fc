"""Exact samples of the trees of a list of edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from outtrees.trees.sparse.elimination import FrontElimination
from outtrees.trees.sparse.wide import WideElimination
from outtrees.trees.weights import Ints

if TYPE_CHECKING:
    from outtrees.trees.sparse.trees import SparseTrees


def draw_trees(trees: SparseTrees, n: int, rng: np.random.Generator) -> Ints:
    """Return n trees as parents (n, T), −1 at roots.

    Components draw their trees by running the elimination backwards; who leaves its component then
    chooses where to, and so does every record that is alone.
    """
    from outtrees.trees.sparse.sampling_kernels import draw_outside

    edges, components = trees.edges, trees.components
    edge, root = trees.marginals
    result = np.full((n, edges.n_records), -2, dtype=np.intp)
    solution = trees.sampling_solution
    if solution is not None:
        members = components.members
        skipped = solution.narrow.bad
        result[:, members] = members_or_out(members, _draw(solution.narrow, skipped, n, rng))
        if solution.wide is not None:
            some = members[solution.wide_nodes]
            none = np.zeros(len(solution.wide.shift), dtype=bool)
            result[:, some] = members_or_out(some, _draw(solution.wide, none, n, rng))
    for tree in result:
        draw_outside(
            rng,
            edges.start,
            edges.parent,
            edge,
            root,
            components.label,
            components.alone,
            tree,
        )
    return result


def members_or_out(members: Ints, drawn: Ints) -> Ints:
    """Return records for nodes, and −2 where a node leaves its component."""
    return np.append(members, -2)[drawn]


def _draw(
    e: FrontElimination | WideElimination,
    skipped: Any,  # (C,) components without a draw
    n: int,
    rng: np.random.Generator,
) -> Ints:
    """Return n draws of parents (n, nodes); the number of nodes stands for leaving."""
    from outtrees.trees.sparse.sampling_kernels import draw

    fronts, inner = e.fronts, e.inner
    nodes = len(fronts.order)
    fields = (e.weight, e.out, e.s, e.factors, e.stack)
    pairs = [
        part for field in fields for part in (field if isinstance(field, tuple) else (field, None))
    ]
    by_position = np.full((n, nodes), nodes, dtype=np.intp)
    draw(
        rng,
        *fronts.arrays,
        inner.single,
        skipped,
        *pairs,
        fronts.order,
        inner.first,
        inner.column,
        by_position,
    )
    result = np.empty_like(by_position)
    result[:, fronts.order] = np.append(fronts.order, nodes)[by_position]
    return result

"""Which trees are possible at all: reachability in the graph of allowed edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from outtrees.errors import NoSpanningTreeError
from outtrees.trees.weights import Ints, Weights

_NAMED = 8  # how many records an error message lists before it stops


def possible_roots(weights: Weights) -> Ints:
    """Return the nodes that every other node can descend from, in order.

    They are the one strongly connected class that no edge leaves, following edges from child
    to parent.  Raises :class:`NoSpanningTreeError` if there are several such classes, or if no
    member of the one class may be the root.
    """
    allowed = weights.log_beta > -np.inf
    if np.count_nonzero(allowed) == weights.n * (weights.n - 1):
        members: Ints = np.arange(weights.n)
    else:
        classes = _closed_classes(allowed)
        if len(classes) > 1:
            raise NoSpanningTreeError(_several_groups(classes))
        members = classes[0]
    if not np.any(weights.log_root[members] > -np.inf):
        raise NoSpanningTreeError(
            f"no out-tree spans the records: its root would have to be {listed(members)}, "
            f"but log_root is -inf there; allow one of them as root, or allow it a parent"
        )
    return members


def require_rooted(weights: Weights) -> None:
    """Raise if some record of a lifted forest can reach no root (node 0 is the virtual root)."""
    allowed = csr_array(weights.log_beta > -np.inf)
    reached = breadth_first_order(allowed.T.tocsr(), 0, return_predecessors=False)
    lost = np.setdiff1d(np.arange(1, weights.n), reached) - 1
    if len(lost):
        verb = "reaches" if len(lost) == 1 else "reach"
        raise NoSpanningTreeError(
            f"{listed(lost)} {verb} no root: following allowed parents never leads to a record "
            f"whose log_root is above -inf; allow one of them as root, or another parent"
        )


def edge_is_possible(weights: Weights, child: int, parent: int) -> bool:
    """Return whether some spanning out-tree holds the edge ``child`` ← ``parent``.

    It does if the parent can reach a permitted root without passing through the child.
    """
    if not weights.log_beta[child, parent] > -np.inf:
        return False
    members = possible_roots(weights)
    roots = members[weights.log_root[members] > -np.inf]
    allowed = weights.log_beta > -np.inf
    allowed[child, :] = False
    ancestors = breadth_first_order(csr_array(allowed), parent, return_predecessors=False)
    return bool(np.isin(roots[roots != child], ancestors).any())


def _closed_classes(allowed: NDArray[np.bool_]) -> list[Ints]:
    graph = csr_array(allowed)
    count, label = connected_components(graph, directed=True, connection="strong")
    child, parent = graph.nonzero()
    leaves = np.zeros(count, dtype=bool)
    leaves[label[child[label[child] != label[parent]]]] = True
    return [np.flatnonzero(label == c) for c in np.flatnonzero(~leaves)]


def _several_groups(classes: list[Ints]) -> str:
    shown = "; ".join(listed(members) for members in classes[:3])
    more = f"; and {len(classes) - 3} more" if len(classes) > 3 else ""
    return (
        f"no out-tree spans the records: {len(classes)} separate groups have no allowed parent "
        f"outside themselves ({shown}{more}); allow a parent across, or use roots='any'"
    )


def listed(members: Ints) -> str:
    """Return "records 3, 5, …", naming a few."""
    names = ", ".join(str(int(i)) for i in members[:_NAMED])
    more = f", … ({len(members)} in all)" if len(members) > _NAMED else ""
    return f"record{'s' if len(members) > 1 else ''} {names}{more}"

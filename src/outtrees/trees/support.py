"""Which trees are possible at all: reachability in the graph of allowed edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from outtrees.errors import NoSpanningTreeError, Option
from outtrees.trees.weights import Ints, Weights

_NAMED = 8  # how many records an error message lists before it stops


def possible_roots(weights: Weights, records: Ints | None = None) -> Ints:
    """Return the nodes that every other node can descend from, in order.

    They are the one strongly connected class that no edge leaves, following edges from child
    to parent.  Raises :class:`NoSpanningTreeError` if there are several such classes, or if no
    member of the one class may be the root; ``records`` (n,) is what an error calls the nodes.
    """
    names = np.arange(weights.n) if records is None else records
    if weights.complete:
        members: Ints = np.arange(weights.n)
    else:
        classes = _closed_classes(weights.log_beta > -np.inf)
        if len(classes) > 1:
            raise separate_groups([names[members] for members in classes])
        members = classes[0]
    if not np.any(weights.log_root[members] > -np.inf):
        raise NoSpanningTreeError(
            f"no out-tree spans the records: its root would have to be {listed(names[members])}, "
            f"but log_root is -inf there; allow one of them as root, or allow it a parent",
            cause="excluded roots",
            records=names[members].tolist(),
        )
    return members


def require_rooted(weights: Weights, records: Ints | None = None) -> None:
    """Raise if some record of a lifted forest can reach no root (node 0 is the virtual root)."""
    if (weights.log_beta[1:, 0] > -np.inf).all():
        return  # each may be a root itself
    allowed = csr_array(weights.log_beta > -np.inf)
    reached = breadth_first_order(allowed.T.tocsr(), 0, return_predecessors=False)
    lost = np.setdiff1d(np.arange(1, weights.n), reached) - 1
    if len(lost):
        lost = lost if records is None else records[lost]
        verb = "reaches" if len(lost) == 1 else "reach"
        raise NoSpanningTreeError(
            f"{listed(lost)} {verb} no root: following allowed parents never leads to a record "
            f"whose log_root is above -inf; allow one of them as root, or another parent",
            cause="no way to a root",
            records=lost.tolist(),
        )


def edge_is_possible(
    child: Ints,  # (E,) the allowed edges
    parent: Ints,  # (E,)
    may_be_root: NDArray[np.bool_],  # (T,) in some tree
    u: int,
    v: int,
) -> bool:
    """Return whether some spanning out-tree holds the allowed edge ``u`` ← ``v``.

    It does if v can reach a permitted root without passing through u.
    """
    T = len(may_be_root)
    others = child != u
    ends = child[others], parent[others]
    graph = csr_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(T, T))
    ancestors = breadth_first_order(graph, v, return_predecessors=False)
    return bool(may_be_root[ancestors[ancestors != u]].any())


def _closed_classes(allowed: NDArray[np.bool_]) -> list[Ints]:
    graph = csr_array(allowed)
    count, label = connected_components(graph, directed=True, connection="strong")
    child, parent = graph.nonzero()
    leaves = np.zeros(count, dtype=bool)
    leaves[label[child[label[child] != label[parent]]]] = True
    return [np.flatnonzero(label == c) for c in np.flatnonzero(~leaves)]


def separate_groups(classes: list[Ints]) -> NoSpanningTreeError:
    """Return the error that names groups without an allowed parent outside themselves."""
    shown = "; ".join(listed(members) for members in classes[:3])
    more = f"; and {len(classes) - 3} more" if len(classes) > 3 else ""
    return NoSpanningTreeError(
        f"no out-tree spans the records: {len(classes)} separate groups have no allowed parent "
        f"outside themselves ({shown}{more}); allow a parent across, or use ",
        Option("roots", "any"),
        cause="separate groups",
        records=np.concatenate(classes).tolist(),
        groups=[members.tolist() for members in classes],
    )


def listed(members: Ints) -> str:
    """Return "records 3, 5, …", naming a few."""
    names = ", ".join(str(int(i)) for i in members[:_NAMED])
    more = f", … ({len(members)} in all)" if len(members) > _NAMED else ""
    return f"record{'s' if len(members) > 1 else ''} {names}{more}"

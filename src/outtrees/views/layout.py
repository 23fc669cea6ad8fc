"""Where the records of a tree are drawn: one row each, so that no line crosses a name."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees.io.trees import children_of, roots_and_order


def tree_rows(
    parents: ArrayLike,  # (T,), −1 for a root
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the row and the depth of every record of a tree or forest.

    No two records share a row and the records below one record fill adjacent rows, half of its
    children's branches above it and half below, the small ones nearest. So, when a child is
    drawn to the right of its parent and joined to it by a line that goes first up or down and
    then right, no two lines cross and the space to the right of every record is free for its
    name. Trees of more than one record are parted by an empty row. Cost O(T log T).

    Examples
    --------
    A root, 0, with the children 1, 2 and 3, and a tree of its own, 4:

    >>> rows, depth = tree_rows([-1, 0, 0, 0, -1])
    >>> rows.tolist(), depth.tolist()
    ([2, 1, 3, 0, 5], [0, 1, 1, 1, 0])
    """
    parent = check_parents(parents)
    T = len(parent)
    children = children_of(parent)
    roots, order = roots_and_order(parent, children)
    if len(order) < T:
        lost = min(set(range(T)) - set(order))
        raise ValueError(
            f"parents must form a tree, but following them from record {lost} never reaches a "
            "root; mark each root with -1"
        )
    depth = np.zeros(T, dtype=np.intp)
    size = np.ones(T, dtype=np.intp)
    for record in order:
        if parent[record] >= 0:
            depth[record] = depth[parent[record]] + 1
    for record in reversed(order):
        if parent[record] >= 0:
            size[parent[record]] += size[record]

    first = np.zeros(T, dtype=np.intp)  # the top row of the record's branch
    rows = np.zeros(T, dtype=np.intp)
    next_row, before = 0, 1
    for root in roots:
        if next_row and max(before, size[root]) > 1:
            next_row += 1
        first[root] = next_row
        next_row += size[root]
        before = size[root]
    for record in order:
        branches = sorted(children[record], key=lambda child: (size[child], child))
        row = first[record]
        for member in [*reversed(branches[0::2]), record, *branches[1::2]]:
            if member == record:
                rows[record] = row
                row += 1
            else:
                first[member] = row
                row += size[member]
    return rows, depth


def check_parents(parents: ArrayLike, n_records: int | None = None) -> NDArray[np.intp]:
    """Return the parents as an integer array after checking their shape and range.

    Examples
    --------
    >>> check_parents([-1, 0]).tolist()
    [-1, 0]
    """
    array = np.asarray(parents)
    T = len(array) if n_records is None and array.ndim == 1 else n_records
    if array.shape != (T,) or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            "parents must be one integer per record, -1 for a root"
            f"{'' if n_records is None else f', for {n_records} records'}; "
            f"got an array of shape {array.shape} and type {array.dtype}"
        )
    wrong = np.flatnonzero((array < -1) | (array >= len(array)))
    if wrong.size:
        raise ValueError(
            f"a parent must be -1 (a root) or a record from 0 to {len(array) - 1}; got "
            f"{array[wrong[0]]} for record {wrong[0]}"
        )
    return array.astype(np.intp)


def tree_columns(
    parents: ArrayLike,
    depth: NDArray[np.intp],
    dates: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Return how far right each record stands: its date, or its depth where there are no dates.

    A record without a date (NaN) stands where its parent stands, a root without one at the
    earliest date of all.

    Examples
    --------
    >>> parents = [-1, 0, 1]
    >>> _, depth = tree_rows(parents)
    >>> tree_columns(parents, depth, [5.0, float("nan"), 9.0]).tolist()
    [5.0, 5.0, 9.0]
    """
    if dates is None:
        return depth.astype(np.float64)
    parent = check_parents(parents)
    across = np.array(dates, dtype=np.float64)
    if across.shape != parent.shape:
        raise ValueError(
            f"dates must have one entry per record; got shape {across.shape} for {len(parent)}"
        )
    if np.isinf(across).any():
        record = int(np.flatnonzero(np.isinf(across))[0])
        raise ValueError(
            f"dates must be numbers of days, NaN where unknown; got {across[record]} for record "
            f"{record}"
        )
    known = across[~np.isnan(across)]
    earliest = float(known.min()) if known.size else 0.0
    for record in np.argsort(depth, kind="stable"):  # parents before children
        if np.isnan(across[record]):
            across[record] = across[parent[record]] if parent[record] >= 0 else earliest
    return across

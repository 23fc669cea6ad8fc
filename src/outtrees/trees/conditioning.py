"""Known parents, excluded parents and known roots, as changes to the weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from outtrees.trees.arguments import check_pairs, check_parent_of, whole_number
from outtrees.trees.weights import Floats


def condition(
    log_beta: Floats,  # (T, T) [child, parent]
    log_root: Floats,  # (T,)
    *,
    parent: Mapping[int, int] | None,
    not_parent: Iterable[tuple[int, int]],
    root: int | None,
) -> tuple[Floats, Floats]:
    """Return weights under which only the trees that agree with what is known are possible."""
    log_beta, log_root = log_beta.copy(), log_root.copy()
    T = len(log_root)
    items = check_parent_of(parent).items()
    known = {record_number(u, 0, T): record_number(v, -1, T) for u, v in items}
    if root is not None and known.setdefault(record_number(root, 0, T), -1) != -1:
        raise ValueError(f"record {root} cannot be a root and descend from {known[root]}")
    for child, not_from in check_pairs(not_parent):
        u, w = record_number(child, 0, T), record_number(not_from, -1, T)
        if w < 0:
            log_root[u] = -np.inf
        else:
            log_beta[u, w] = -np.inf
    everyone = np.arange(T)
    for u, v in known.items():
        log_beta[u, everyone != v] = -np.inf
        if v >= 0:  # where one root is asked for, a record without parents is it
            log_root[u] = -np.inf
    return log_beta, log_root


def record_number(value: object, lowest: int, T: int) -> int:
    """Return the number of a record, or say which were expected."""
    index = whole_number(value)
    if index is None or not lowest <= index < T:
        raise ValueError(f"a record must be an integer {lowest} … {T - 1}; got {value!r}")
    return index

"""Known parents, excluded parents and known roots, as changes to the weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from outtrees.trees.weights import Floats


def condition(
    log_beta: Floats,  # (T, T) [child, parent]
    log_root: Floats,  # (T,)
    *,
    parent: Mapping[int, int],
    not_parent: Iterable[tuple[int, int]],
    root: int | None,
) -> tuple[Floats, Floats]:
    """Return weights under which only the trees that agree with what is known are possible."""
    log_beta, log_root = log_beta.copy(), log_root.copy()
    T = len(log_root)
    known = {_record(u, 0, T): _record(v, -1, T) for u, v in parent.items()}
    if root is not None and known.setdefault(_record(root, 0, T), -1) != -1:
        raise ValueError(f"record {root} cannot be a root and descend from {known[root]}")
    for child, not_from in not_parent:
        u, w = _record(child, 0, T), _record(not_from, -1, T)
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


def _record(value: int, lowest: int, T: int) -> int:
    index = int(value)
    if index != value or not lowest <= index < T:
        raise ValueError(f"a record must be an integer {lowest} … {T - 1}; got {value!r}")
    return index

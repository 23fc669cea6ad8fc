"""Trees as arrays of parents: ``parents[u]`` is u's parent, −1 at a root."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees.trees.weights import Ints


def check_parents(parents: ArrayLike, n_records: int) -> Ints:
    """Return (T,) or (n, T) parents as integers, or say in one sentence what is wrong."""
    try:
        array = np.asarray(parents)
    except ValueError:  # rows of different lengths
        raise ValueError(
            f"parents must be one array of integers, ({n_records},) or (n, {n_records}); got "
            f"{parents!r}"
        ) from None
    if array.ndim not in (1, 2) or array.shape[-1] != n_records:
        raise ValueError(
            f"parents must have shape ({n_records},) or (n, {n_records}); got {array.shape}"
        )
    if array.dtype.kind not in "iu":
        raise ValueError(f"parents must be integers, -1 at a root; got dtype {array.dtype}")
    wrong = (array < -1) | (array >= n_records)
    if wrong.any():
        raise ValueError(f"a parent must be -1 or 0 … {n_records - 1}; got {array[wrong][0]}")
    return array.astype(np.intp)


def are_out_trees(parents: Ints, *, single_root: bool) -> NDArray[np.bool_]:
    """Return for each row of (n, T) parents whether it is an out-tree (or a forest)."""
    T = parents.shape[1]
    n_roots = (parents < 0).sum(axis=1)
    right_roots = n_roots == 1 if single_root else n_roots >= 1
    # Climb 1, 2, 4, … steps at once; whoever never arrives above a root is on a cycle.
    above = np.full((len(parents), T + 1), T)
    above[:, :T] = np.where(parents < 0, T, parents)
    for _ in range(T.bit_length()):
        above = np.take_along_axis(above, above, axis=1)
    return np.asarray(right_roots & (above == T).all(axis=1))

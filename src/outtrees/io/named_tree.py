"""A tree of records, checked, in the order in which files want it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Tree:
    """Records and their parents, of which nothing needs checking any more."""

    ids: tuple[str, ...]
    parents: NDArray[np.intp]  # (T,), −1 at roots
    supports: NDArray[np.float64] | None  # (T,), NaN where unknown
    dates: NDArray[np.float64] | None  # (T,), NaN where unknown

    @property
    def roots(self) -> list[int]:
        """The records without a parent."""
        return np.flatnonzero(self.parents < 0).tolist()

    @cached_property
    def children(self) -> list[list[int]]:
        """The children of each record, in the order of the records."""
        result: list[list[int]] = [[] for _ in self.ids]
        for child, parent in enumerate(self.parents.tolist()):
            if parent >= 0:
                result[parent].append(child)
        return result

    @cached_property
    def lengths(self) -> list[float | None]:
        """The length of the edge to each record's parent, None if there is none or it is unknown.

        The time between the two dates; 0 where a child is older than its parent; 1 without dates.
        """
        below = self.parents >= 0
        lengths = np.where(below, 1.0, np.nan)
        if self.dates is not None:
            lengths[below] = np.maximum(self.dates[below] - self.dates[self.parents[below]], 0.0)
        return _known(lengths)

    @cached_property
    def support(self) -> list[float | None]:
        """The support of each record's parent, None if unknown."""
        return [None] * len(self.ids) if self.supports is None else _known(self.supports)


def _known(values: NDArray[np.float64]) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]  # NaN


def check_tree(
    ids: Sequence[str],  # (T,)
    parents: ArrayLike,  # (T,)
    supports: ArrayLike | None = None,  # (T,)
    dates: ArrayLike | None = None,  # (T,)
) -> Tree:
    """Return the tree or forest, or say what is wrong with it.

    Raises
    ------
    ValueError
        If lengths differ, identities repeat, a parent does not exist, or some records descend
        from themselves.

    Examples
    --------
    >>> check_tree(["a", "b", "c"], [-1, 0, 0]).children
    [[1, 2], [], []]
    """
    names = tuple(str(name) for name in ids)
    T = len(names)
    above = np.asarray(parents)
    if T == 0:
        raise ValueError("a tree is expected to have records, but there are none")
    if above.shape != (T,) or above.dtype.kind not in "iu":
        raise ValueError(
            f"parents are expected as {T} whole numbers, one for each record, but got an array of "
            f"shape {above.shape} and type {above.dtype}"
        )
    if len(set(names)) != T:
        raise ValueError("identities are expected to differ, but some repeat; rename them")
    if above.min() < -1 or above.max() >= T:
        raise ValueError(
            f"parents are expected between −1 (a root) and {T - 1}, but they range from "
            f"{above.min()} to {above.max()}"
        )
    tree = Tree(names, above.astype(np.intp), _floats("supports", supports, T), _days(dates, T))
    reached = list(tree.roots)
    for record in reached:  # grows while it is read
        reached.extend(tree.children[record])
    if len(reached) < T:
        lost = min(set(range(T)) - set(reached))
        raise ValueError(
            f"parents are expected to lead to a root, but {T - len(reached)} records go around in "
            f"circles; the first of them is {names[lost][:60]!r}"
        )
    return tree


def _floats(name: str, values: ArrayLike | None, T: int) -> NDArray[np.float64] | None:
    if values is None:
        return None
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (T,) or np.isinf(array).any():
        raise ValueError(
            f"{name} are expected as {T} finite numbers (NaN where unknown), but got shape "
            f"{array.shape}{' with infinities' if np.isinf(array).any() else ''}"
        )
    return array


def _days(dates: ArrayLike | None, T: int) -> NDArray[np.float64] | None:
    array = None if dates is None else np.asarray(dates)
    if array is not None and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # the values of a column of records
    return _floats("dates", array, T)

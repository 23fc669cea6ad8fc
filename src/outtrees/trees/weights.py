"""Checked log-weights: who may descend from whom, and who may be the root.

The engine below this file knows one problem only: *one* root. A forest is brought to that
form by one more node, the virtual root ∗ at index 0, from which every real root descends
(:func:`lift`); so every formula is written and tested once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees._common.threads import over_rows
from outtrees.errors import InvalidWeightsError

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

# A ratio of two tree weights holds at most n edges. Up to this size of n times the spread of one
# edge, doubles still tell one nat from the next, and the 64-bit exponents of the extended range
# are far from their end.
LARGEST_TREE_SPREAD = 1.0e15


@dataclass(frozen=True)
class Weights:
    """Log-weights of the single-root problem; see :func:`check` for how they are made."""

    log_beta: Floats  # (n, n) [child, parent], diagonal −inf, read-only
    log_root: Floats  # (n,), read-only
    complete: bool = False  # known to allow all edges
    largest: Floats | None = None  # (n,) of each row of log_beta, where known

    @property
    def n(self) -> int:
        """Number of nodes (records, and the virtual root where there is one)."""
        return len(self.log_root)

    @cached_property
    def log_scale(self) -> Floats:
        """Each row's largest log-weight (0 where a row has none): the scaling constants.

        Row u may be divided by any constant if ``log_root[u]`` is divided too: Z is divided by it.
        """
        largest = self.log_beta.max(axis=1) if self.largest is None else self.largest
        return np.where(np.isneginf(largest), 0.0, largest)


def check(log_beta: ArrayLike, log_root: ArrayLike | None) -> Weights:
    """Return the weights as arrays of their own, or say in one sentence what is wrong."""
    raw = real_numbers(log_beta, "log_beta")
    if raw.ndim != 2 or raw.shape[0] != raw.shape[1]:
        raise InvalidWeightsError(
            f"log_beta must be a square (T, T) array [child, parent]; got shape {raw.shape}"
        )
    T = len(raw)
    if T == 0:
        raise InvalidWeightsError("log_beta is empty: an out-tree needs at least one record")
    root = np.zeros(T) if log_root is None else as_floats(log_root, "log_root")
    if root.shape != (T,):
        raise InvalidWeightsError(
            f"log_root must hold one log-weight per record, shape ({T},); got shape {root.shape}"
        )
    beta, largest = np.empty((T, T)), np.empty(T)
    smallest: list[float] = []

    def copy(rows: slice) -> None:
        """Copy some rows with their ranges; the diagonal is ignored whatever it holds."""
        part = beta[rows]
        part[:] = raw[rows]
        diagonal = part[:, rows]
        np.fill_diagonal(diagonal, 0.0)  # not to be mistaken for −inf
        smallest.append(part.min())
        np.fill_diagonal(diagonal, -np.inf)
        part.max(axis=1, out=largest[rows])

    over_rows(beta, copy)
    low, high = min(smallest), largest.max()
    refuse_infinite(beta, high, "log_beta")
    refuse_infinite(root, root.max(), "log_root")
    least = smallest_finite(beta) if np.isneginf(low) else low
    refuse_wide(min(least, smallest_finite(root)), max(high, root.max()), T)
    return frozen(beta, root, complete=low > -np.inf, largest=largest)


def frozen(
    log_beta: Floats, log_root: Floats, *, complete: bool = False, largest: Floats | None = None
) -> Weights:
    """Return weights that share these arrays and forbid writing to them."""
    log_beta.flags.writeable = False
    log_root.flags.writeable = False
    return Weights(log_beta, log_root, complete, largest)


def lift(weights: Weights) -> Weights:
    """Return the single-root problem whose trees are the forests of ``weights``.

    The virtual root ∗ becomes node 0: it has no parent, and being its child weighs what
    being a root weighed.
    """
    n = weights.n + 1
    log_beta = np.full((n, n), -np.inf)
    log_beta[1:, 1:] = weights.log_beta
    log_beta[1:, 0] = weights.log_root
    log_root = np.full(n, -np.inf)
    log_root[0] = 0.0
    return frozen(log_beta, log_root)


def anchored_order(n: int, anchor: int) -> Ints:
    """Return 0 … n−1 with ``anchor`` and 0 exchanged: its own inverse."""
    order = np.arange(n)
    order[[0, anchor]] = anchor, 0
    return order


def as_floats(values: ArrayLike, name: str) -> Floats:
    """Return the values as doubles of their own, or say in one sentence that they are none."""
    return np.array(real_numbers(values, name), dtype=np.float64, order="C")


def real_numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return the values as an array, or say in one sentence that they are no real numbers."""
    raw: NDArray[Any] = np.asarray(values)
    if raw.dtype.kind not in "biuf":
        raise InvalidWeightsError(
            f"{name} must hold real numbers; got dtype {raw.dtype}. Pass an array of log-weights"
        )
    return raw


def refuse_infinite(values: Floats, largest: float, name: str) -> None:
    """Raise where the largest log-weight is +inf or NaN; only then is the place looked for."""
    if largest < np.inf:
        return
    place = tuple(int(i) for i in np.argwhere(~(values < np.inf))[0])
    value = values[place]
    index = ", ".join(map(str, place))
    remedy = "use -inf for 0" if name == "log_root" else "use -inf for an edge that is not allowed"
    raise InvalidWeightsError(
        f"{name}[{index}] is {value}; every log-weight must be below inf: {remedy}"
    )


def smallest_finite(values: Floats) -> float:
    """Return the smallest log-weight above −inf, 0 if that is smaller."""
    return float(np.min(values, where=values > -np.inf, initial=0.0))


def refuse_wide(low: float, high: float, T: int) -> None:
    """Raise where the log-weights of T records, from low to high, span too much for doubles."""
    span = max(0.0, high) - min(0.0, low)
    if T * span > LARGEST_TREE_SPREAD:
        raise InvalidWeightsError(
            f"the log-weights span {span:.3g}, too wide for {T} records: at that size a double no "
            "longer tells one nat from the next; use -inf for edges that are not allowed"
        )

"""Columns in a form that compiled loops read: enough to rank a record's possible parents.

Each description says for cells without gaps what `ColumnKernel.log_steps` says, up to what its
docstring leaves out. Candidates are ranked by these; weights are always computed by the kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Metric(NamedTuple):
    """log p = constant_k + shift of the child − ½ ‖child_k − parent_k‖²; NaN where unknown."""

    child: Array  # (K, T, D)
    parent: Array  # (K, T, D)
    constant: Array  # (K,)
    shift: Array | float = 0.0  # (T,)


class Match(NamedTuple):
    """log p = same_k[child's code] if child and parent agree, else other_k[child's code]."""

    code: NDArray[np.int32]  # (T,), −1 where unknown
    same: Array  # (K, C)
    other: Array  # (K, C)


class Sites(NamedTuple):
    """log p = sites alike · same_k + sites that differ · change_k + unread in parent · unread.

    All changes count alike, and so do all sites that were read in the child only.
    """

    codes: NDArray[np.uint8]  # (T, L), 255 where unread; only sites that differ between records
    same: Array  # (K,)
    change: Array  # (K,)
    unread: float
    constant: Array  # (K,), of the sites at which all records agree


class Gaps(NamedTuple):
    """log p = table_k at the time from the parent's end to the child's date.

    Dates known to within ± width count as if they were where they fit best, times the share of
    the range that one unit is.
    """

    start: Array  # (T,), NaN where unknown
    end: Array  # (T,)
    width: Array  # (T,)
    is_open: NDArray[np.bool_]  # (T,)
    closed: Array  # (K, G), at times 0, step, 2 step, …
    still_open: Array  # (K, G)
    step: float
    unit: float


Quick = Metric | Match | Sites | Gaps


def normal_constant(log_det: float, D: int, factor: Any) -> Any:
    """Return the log-density of a normal at its mean, its covariance scaled by `factor`."""
    return -0.5 * (log_det + D * np.log(2 * np.pi * factor))

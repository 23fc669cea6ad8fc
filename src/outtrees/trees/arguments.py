"""What callers say: how many trees, which parents; one sentence where it is no such thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray


def check_count(value: object, name: str, least: int) -> int:
    """Return the value as an int, or say that it is no number of ``least`` or more."""
    count = whole_number(value)
    if count is None or count < least:
        raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}")
    return count


def check_parent_of(value: object) -> Mapping[object, object]:
    """Return known parents as the mapping they are meant to be."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(
            f"parent must be a dict {{child: parent}}; got {value!r}. Write parent={{2: 0}} for "
            "'record 2 descends from record 0'"
        )
    return value


def check_pairs(value: object) -> list[tuple[object, object]]:
    """Return excluded parents as a list of pairs."""
    expected = (
        "not_parent must be a list of pairs (child, parent); got {!r}. Write not_parent=[(2, 0)] "
        "for 'record 2 does not descend from record 0'"
    )
    if not isinstance(value, Iterable) or isinstance(value, Mapping | str):
        raise ValueError(expected.format(value))
    pairs = []
    for pair in value:
        if not isinstance(pair, Iterable) or isinstance(pair, str):
            raise ValueError(expected.format(value))
        ends = tuple(pair)
        if len(ends) != 2:
            raise ValueError(expected.format(value))
        pairs.append(ends)
    return pairs


def whole_number(value: object) -> int | None:
    """Return an integer of any type, or a float that is one; None for anything else."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return None
    if isinstance(value, Integral):
        return int(value)
    number = float(value)
    return int(number) if number.is_integer() else None


def check_values(values: ArrayLike, n_records: int) -> NDArray[np.float64]:
    """Return a (T, T) array of finite values [child, parent] of its own, 0 on the diagonal."""
    try:
        raw = np.asarray(values)
    except ValueError:  # rows of different lengths
        raw = np.empty(0, dtype=object)
    if raw.dtype.kind not in "biuf":
        raise ValueError(f"values must be real numbers [child, parent]; got {values!r}")
    if raw.shape != (n_records, n_records):
        raise ValueError(f"values must have shape ({n_records}, {n_records}); got {raw.shape}")
    array = np.array(raw, dtype=np.float64)
    np.fill_diagonal(array, 0.0)
    if not np.isfinite(array).all():
        u, v = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"values[{u}, {v}] is {array[u, v]}; every value must be finite")
    return array

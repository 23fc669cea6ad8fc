"""Refusals in one sentence: what was expected, what came, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from outtrees._common.text import shown
from outtrees._common.types import Array
from outtrees.errors import ArgumentError, Option


def check_records(
    X: ArrayLike,  # (n, D)
    owner: str,
    *,
    name: str = "X",
    n_features: int | None = None,
    allows_missing: bool = False,
    min_rows: int = 1,
) -> Array:
    """Return the records as a float array, or say in one sentence why they cannot be used.

    Examples
    --------
    >>> check_records([[1, 2]], "GaussianMutation", n_features=3)
    Traceback (most recent call last):
    outtrees.errors.ArgumentError: GaussianMutation knows 3 columns, but X has 2; ...
    """
    try:
        records = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"{owner} expects numbers in {name}, but some cells are not ({error}); "
            "encode or drop those columns."
        ) from error
    if records.ndim != 2:
        raise ArgumentError(
            f"{owner} expects {name} with 2 dimensions (records, columns), but it has "
            f"{records.ndim}; use reshape(-1, 1) for one column or reshape(1, -1) for one record."
        )
    n, D = records.shape
    if n < min_rows or D < 1:
        raise ArgumentError(
            f"{owner} expects at least {min_rows} record(s) and 1 column in {name}, but its shape "
            f"is {records.shape}; pass more data."
        )
    if n_features is not None and n_features != D:
        raise ArgumentError(
            f"{owner} knows {n_features} columns, but {name} has {D}; "
            "pass records with the same columns."
        )
    if np.isinf(records).any():
        raise ArgumentError(
            f"{owner} expects finite numbers, but {name} contains infinity; remove those records."
        )
    if not allows_missing and np.isnan(records).any():
        row, column = np.argwhere(np.isnan(records))[0]
        raise ArgumentError(
            f"{owner} expects complete records, but {name} contains NaN (first in row {row}, "
            f"column {column}); impute it, or use CategoricalMutation, which accepts missing cells."
        )
    return records


def check_edge_marginals(
    edge_marginals: ArrayLike,  # (T, T) [child, parent]
    n_samples: int,
    owner: str,
) -> Array:
    """Return the weights of all (child, parent) pairs as a float array, checked."""
    weights = np.asarray(edge_marginals, dtype=np.float64)
    if weights.shape != (n_samples, n_samples):
        raise ArgumentError(
            f"{owner} expects edge_marginals of shape {(n_samples, n_samples)} [child, parent]; "
            f"got {weights.shape}. Pass one weight for each pair of the records in X."
        )
    # NaN fails the comparison too; rounding may leave an exact zero slightly below zero.
    if not weights.min() >= -1e-6 or not weights.max() < np.inf:
        raise ArgumentError(
            f"{owner} expects finite edge_marginals >= 0, but they range from {weights.min()} to "
            f"{weights.max()}; pass the marginals of a distribution over out-trees."
        )
    return weights


def check_edges(child: ArrayLike, parent: ArrayLike, n_records: int, owner: str) -> None:
    """Raise ValueError unless both ends are vectors of one length that hold records."""
    ends = {"child": np.asarray(child), "parent": np.asarray(parent)}
    if ends["child"].ndim != 1 or ends["child"].shape != ends["parent"].shape:
        raise ValueError(
            f"{owner} expects child and parent as vectors of one length; got shapes "
            f"{ends['child'].shape} and {ends['parent'].shape}; give both ends of each edge."
        )
    for name, values in ends.items():
        if len(values) and values.dtype.kind not in "iu":
            raise ValueError(
                f"{owner} expects row numbers in {name}; got {values.dtype}. Use integers."
            )
        outside = (values < 0) | (values >= n_records)
        if outside.any():
            raise ValueError(
                f"{owner} expects rows 0 … {n_records - 1} in {name}; got "
                f"{values[outside][0]}; X has {n_records} records."
            )


def check_option(owner: str, name: str, value: object, allowed: Iterable[object]) -> None:
    """Raise ArgumentError unless the value is one of those allowed."""
    allowed = list(allowed)
    one = not isinstance(value, np.ndarray)  # an array is compared number by number
    if not (one and any(value is option or value == option for option in allowed)):
        listed = ", ".join(repr(option) for option in allowed)
        raise ArgumentError(
            Option(name), f" of {owner} must be one of {listed}; got {shown(repr(value))}."
        )


def check_number(
    owner: str,
    name: str,
    value: object,
    low: float,
    high: float = np.inf,
    *,
    open_low: bool = False,
) -> None:
    """Raise ArgumentError unless the value is a number between low and high."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(
        value, bool
    )
    if not number or not (low < value if open_low else low <= value) or not value <= high:  # type: ignore[operator]
        left = ">" if open_low else ">="
        right = "" if high == np.inf else f" and <= {high:g}"
        raise ArgumentError(
            Option(name),
            f" of {owner} must be a number {left} {low:g}{right}; got {shown(repr(value))}.",
        )


def check_count(owner: str, name: str, value: object, low: int) -> None:
    """Raise ArgumentError unless the value is an integer, and no float, of at least low."""
    as_count(name, value, low, owner, floats=False)


def as_count(name: str, value: object, low: int, owner: str = "", *, floats: bool = True) -> int:
    """Return an integer of at least low, else raise ArgumentError; a float that is one will do.

    Examples
    --------
    >>> as_count("k", 3.0, 1)
    3
    >>> as_count("k", 0, 1, "best")
    Traceback (most recent call last):
    outtrees.errors.ArgumentError: k of best must be an integer of at least 1; got 0.
    """
    count = whole_number(value)
    if count is None or count < low or not (floats or isinstance(value, Integral)):
        of = f" of {owner}" if owner else ""
        raise ArgumentError(
            Option(name), f"{of} must be an integer of at least {low}; got {shown(repr(value))}."
        )
    return count


def whole_number(value: object) -> int | None:
    """Return an integer of any type, or a float that is one; None for anything else."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return None
    if isinstance(value, Integral):
        return int(value)
    number = float(value)
    return int(number) if number.is_integer() else None

"""What y may be: which records are labelled, with which classes."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

_UNLABELED_HINT = "use -1 (or unlabeled=...) for unknown labels"


class Targets(NamedTuple):
    """The classes, and each record's."""

    classes: NDArray[Any]  # (C,), sorted
    labels: NDArray[np.intp]  # (T,) positions in classes, −1 where unknown


def read_targets(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    unlabeled: Any,
    max_classes: int,
) -> Targets:
    """Return the classes and the known labels, or say in one sentence what is wrong with y."""
    name = type(estimator).__name__
    if y is None:
        raise ValueError(
            f"This {name} estimator requires y to be passed, but the target y is None."
        )
    check_consistent_length(X, y)
    target = np.asarray(column_or_1d(y, warn=True))
    if target.dtype.kind == "f" and np.isnan(target).any():
        raise ValueError(f"Input y contains NaN; {_UNLABELED_HINT}")
    if target.dtype.kind == "f" and np.isinf(target).any():
        raise ValueError(f"Input y contains infinity; {_UNLABELED_HINT}")
    if target.dtype.kind == "O" and any(value is None or value != value for value in target):
        raise ValueError(f"Input y contains None or NaN; {_UNLABELED_HINT}")
    check_classification_targets(target)
    known = _known(target, unlabeled)
    if not known.any():
        raise ValueError(
            f"no labelled record: every y equals the unlabelled mark {unlabeled!r}; label at "
            "least one record, or pass another unlabeled"
        )
    classes, codes, counts = np.unique(target[known], return_inverse=True, return_counts=True)
    if len(classes) > max_classes:
        raise ValueError(
            f"{len(classes)} classes; limit max_classes={max_classes}. Each draw costs the square "
            "of their number; raise max_classes if that is meant"
        )
    if len(classes) == 1 and not known.all() and _is_number(unlabeled) and unlabeled == -1:
        warnings.warn(
            "all -1 were read as unlabelled, leaving one class; pass unlabeled=None if -1 is a "
            "class",
            UserWarning,
            stacklevel=4,
        )
    elif len(classes) > 1 and counts.min() == 1:
        alone = classes[counts == 1]
        warnings.warn(
            f"{len(alone)} of {len(classes)} classes have a single labelled record (first: "
            f"{alone[0]}); nothing can be checked about such a class by hiding its label",
            UserWarning,
            stacklevel=4,
        )
    labels = np.full(len(target), -1, dtype=np.intp)
    labels[known] = codes
    return Targets(classes, labels)


def _known(target: NDArray[Any], unlabeled: Any) -> NDArray[np.bool_]:
    if unlabeled is None:
        return np.ones(len(target), dtype=bool)
    is_text = target.dtype.kind in "US" or (
        target.dtype.kind == "O" and all(isinstance(value, str) for value in target)
    )
    if is_text and _is_number(unlabeled):
        raise ValueError(
            f"y holds text but unlabeled={unlabeled!r} is a number; pass unlabeled='' or None"
        )
    if target.dtype.kind in "biuf" and isinstance(unlabeled, str):
        raise ValueError(
            f"y holds numbers but unlabeled={unlabeled!r} is text; pass unlabeled=-1 or None"
        )
    return np.array([value != unlabeled for value in target], dtype=bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)

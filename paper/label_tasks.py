"""The tasks of the paper's section 9: one character is the label, the others are the input."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.types import Array
from paper.characters import CharacterMatrix
from paper.units import seed_of

INPUTS = {"3d": "three principal components", "full": "all attributes"}
N_COMPONENTS = 3  # the paper's
_AT_LEAST = 6  # records beyond the labelled ones, half of them for the test
_TRIES = 100

Rows = NDArray[np.intp]


class Split(NamedTuple):
    """Rows that are labelled, that choose settings, and that are the test."""

    labelled: Rows
    validation: Rows
    test: Rows


def chosen_labels(matrix: CharacterMatrix, most: int) -> list[int]:
    """Return up to `most` characters that can be labels, taken at random once for all.

    Examples
    --------
    >>> from paper.characters import zoo
    >>> len(chosen_labels(zoo(), 5)), chosen_labels(zoo(), 5) == chosen_labels(zoo(), 5)
    (5, True)
    """
    usable = matrix.labels
    rng = np.random.default_rng(seed_of("labels", matrix.name))
    return sorted(rng.choice(usable, min(most, len(usable)), replace=False).tolist())


def targets(matrix: CharacterMatrix, label: int) -> NDArray[np.intp]:
    """Return the classes of a character as 0 … C−1, −1 where its cell is not known, (T,)."""
    column = matrix.codes[:, label]
    seen = ~np.isnan(column)
    y = np.full(len(column), -1, dtype=np.intp)
    y[seen] = np.unique(column[seen], return_inverse=True)[1]
    return y


def split(
    y: NDArray[np.intp],  # (T,), −1 where not known
    n: int,
    matrix: str,
    label: int,
    fold: int,
) -> Split | None:
    """Return n labelled rows, and the other known ones in two halves; None if they are too few.

    At least two classes are labelled. The same for all methods and all kinds of input.

    Examples
    --------
    >>> parts = split(np.array([0, 1] * 10), 4, "toy", 0, 0)
    >>> [len(rows) for rows in parts]
    [4, 8, 8]
    """
    known = np.flatnonzero(y >= 0)
    if n > len(known) - _AT_LEAST:
        return None
    rng = np.random.default_rng(seed_of("split", matrix, label, n, fold))
    for _ in range(_TRIES):
        order = rng.permutation(known)
        if len(np.unique(y[order[:n]])) > 1:
            half = n + (len(known) - n) // 2
            return Split(order[:n], order[n:half], order[half:])
    return None


def indicators(
    codes: Array,  # (T, D), NaN where not known
) -> Array:
    """Return one column for each state of each character, centred, missing cells at the mean.

    Their common scale is such that they spread as three standardised columns do.

    Examples
    --------
    >>> indicators(np.array([[0.0], [1.0], [np.nan]])).shape
    (3, 2)
    """
    columns = []
    for column in codes.T:
        seen = ~np.isnan(column)
        for state in np.unique(column[seen]):
            share = np.mean(column[seen] == state)
            columns.append(np.where(seen, column == state, share))
    found = np.array(columns, dtype=np.float64).T
    found -= found.mean(axis=0)
    return np.asarray(found / np.sqrt(found.var(axis=0).sum() / N_COMPONENTS))


def components(codes: Array) -> Array:
    """Return three principal components of the indicators, (T, 3), of mean variance 1.

    Examples
    --------
    >>> from paper.characters import zoo
    >>> components(zoo().codes).var(axis=0).mean().round(9).item()
    1.0
    """
    U, s, _ = np.linalg.svd(indicators(codes), full_matrices=False)
    found = U[:, :N_COMPONENTS] * s[:N_COMPONENTS]
    return np.asarray(found / np.sqrt(found.var(axis=0).mean()))

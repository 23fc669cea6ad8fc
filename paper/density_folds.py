"""The paper's density data, its folds of 80 / 10 / 10, and one unit of its Table 1."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from outtrees._common.types import Array
from outtrees.datasets import load_diabetes, load_heart, load_liver, make_spiral
from paper.density_ours import OURS
from paper.density_peers import PEERS
from paper.units import Unit, seed_of

SETS = ("spiral", "heart", "diabetes", "liver")
SPREAD = tuple(f"{name} spread" for name in SETS[1:])
METHODS = {**PEERS, **OURS}
FOLDS = 10


def records(name: str, quick: bool = False) -> Array:
    """Return the records of a data set as the paper counts them: (T, D).

    "spiral" is generated with seed 0; two cells of "heart" are missing and get the column's
    median. In a set called "… spread" every value is moved at random within its rounding
    interval, so that no density can gain by narrow peaks on the values.

    Examples
    --------
    >>> [records(name).shape for name in SETS]
    [(534, 3), (139, 13), (268, 8), (200, 6)]
    """
    kind, *spread = name.split()
    loaders = {"heart": load_heart, "diabetes": load_diabetes, "liver": load_liver}
    if kind == "spiral":
        X = make_spiral(534, random_state=0)
    elif kind in loaders:
        X = np.array(loaders[kind](subset="paper").data, dtype=np.float64)
    else:
        known = ", ".join([*SETS, *SPREAD])
        raise ValueError(f"a data set among {known} is expected, but got {name!r}.")
    X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    if spread:
        rng = np.random.default_rng(seed_of("table1", name, "spread"))
        steps = np.array([np.diff(np.unique(column)).min() for column in X.T])
        X = X + (rng.random(X.shape) - 0.5) * steps
    return X[:40] if quick else X


def fold(name: str, n_records: int, number: int) -> tuple[Array, Array, Array]:
    """Return the rows for training, validation and test: 80, 10 and 10 % of the records.

    The records are dealt into ten parts, the same for every method and number of folds; part i is
    the test and part i + 1 validates, so that over ten folds every record is tested once. A
    set and its spread form have the same parts.

    Examples
    --------
    >>> [len(rows) for rows in fold("heart", 139, 0)]
    [111, 14, 14]
    """
    rng = np.random.default_rng(seed_of("table1", name.split()[0], "parts"))
    parts = np.array_split(rng.permutation(n_records), FOLDS)
    test, validation = parts[number % FOLDS], parts[(number + 1) % FOLDS]
    rest = [part for i, part in enumerate(parts) if i not in (number, (number + 1) % FOLDS)]
    return np.sort(np.concatenate(rest)), np.sort(validation), np.sort(test)


def evaluate(unit: Unit, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores of one method on one fold, in the units of the data.

    Every number called a score, or ending so, is the sum of the test records' log-densities, of
    records whose columns were standardised by the training records' mean and deviation; what that
    changed is put back.
    """
    quick = bool(settings["quick"])
    X = records(unit.dataset, quick)
    train, validation, test = (X[rows] for rows in fold(unit.dataset, len(X), unit.fold))
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    deviation[deviation == 0] = 1.0  # a column that is constant in training keeps its units
    scaled = [(part - mean) / deviation for part in (train, validation, test)]
    volume = len(test) * float(np.log(deviation).sum())
    with warnings.catch_warnings():
        # Duplicated records, and chains of EM that stop early, are expected in these sets.
        for category in (ConvergenceWarning, UserWarning):
            warnings.simplefilter("ignore", category)
        result = METHODS[unit.method](*scaled, unit.seed, quick)
    moved = {k: v - volume for k, v in result.items() if k.split()[-1] == "score"}
    return {**result, **moved, "n_test": len(test)}

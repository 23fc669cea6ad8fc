"""Errors on hidden labels, task by task, and what they say of pairs of methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from outtrees._common.types import Array
from paper.characters import CharacterMatrix
from paper.label_methods import (
    OURS,
    other_inputs,
    other_votes,
    our_inputs,
    our_votes,
)
from paper.label_tasks import INPUTS, chosen_labels, split, targets
from paper.units import Progress, Unit, run_units

COUNTS = (4, 8, 12, 16, 20, 32, 64)
SIDES = ("out-tree", "others")
RULES = {"vote": "tied settings vote", "single": "one tied setting at random"}


class Protocol(NamedTuple):
    """How much of the paper's protocol is run."""

    counts: tuple[int, ...] = COUNTS  # of labelled records
    labels: int = 10  # characters of each matrix that are labels in turn, at most
    folds: int = 2  # random splits of each


@dataclass(frozen=True)
class Error:
    """The errors of one method on one task, in both ways of breaking ties."""

    matrix: str
    inputs: str
    label: int
    n: int  # labelled records
    fold: int
    method: str
    n_settings: int
    n_tied: int
    vote: float
    single: float


def run_tasks(
    folder: Path,
    experiment: str,
    matrices: Sequence[CharacterMatrix],
    protocol: Protocol,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> list[Error]:
    """Return the errors of all methods on all tasks; those found in the folder are not run again.

    A unit is one label of one matrix with one kind of input, one side (the four forms of the
    out-tree, or all other methods) and one fold, at all numbers of labelled records.
    """
    by_name = {f"{m.name} {m.digest}": m for m in matrices}
    units = [
        Unit(experiment, f"{name} {inputs} {label}", side, fold)
        for fold in range(protocol.folds)
        for name, matrix in by_name.items()
        for label in chosen_labels(matrix, protocol.labels)
        for inputs in INPUTS
        for side in SIDES
    ]
    found = run_units(
        folder,
        units,
        partial(one_unit, by_name),
        settings={"counts": list(protocol.counts)},
        n_jobs=n_jobs,
        progress=progress,
    )
    return [Error(**row) for result in found for row in result["errors"]]


def one_unit(
    by_name: Mapping[str, CharacterMatrix], unit: Unit, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the errors of one side on one label, input and fold, at each count."""
    name, inputs, label = unit.dataset.rsplit(" ", 2)
    matrix, d = by_name[name], int(label)
    y = targets(matrix, d)
    C, codes = int(y.max()) + 1, matrix.without(d)
    ours = unit.method == SIDES[0]
    ready: Any = our_inputs(codes, inputs) if ours else other_inputs(codes, inputs)
    rows = []
    for n in settings["counts"]:
        parts = split(y, n, matrix.name, d, unit.fold)
        if parts is None:
            continue
        known = np.full(len(y), -1, dtype=np.intp)
        known[parts.labelled] = y[parts.labelled]
        if ours:
            votes = our_votes(ready, known, C, np.random.default_rng([unit.seed, n]))
        else:
            votes = other_votes(ready, known, C)
        for method, found in votes.items():
            errors = outcome(found, y, parts.validation, parts.test)
            place = {"matrix": matrix.name, "inputs": inputs, "label": d, "n": n}
            rows.append({**place, "fold": unit.fold, "method": method, **errors})
    return {"errors": rows}


def outcome(
    votes: Array,  # (n, T, C)
    y: NDArray[np.intp],  # (T,)
    validation: NDArray[np.intp],
    test: NDArray[np.intp],
) -> dict[str, Any]:
    """Return the test errors of the settings with the fewest validation errors.

    "vote": the error of their mean class probabilities; "single": the mean of their own errors,
    which is what to expect of one of them taken at random.

    Examples
    --------
    >>> right, wrong = np.eye(2)[[0, 1, 0]], np.eye(2)[[0, 1, 1]]
    >>> found = outcome(np.array([right, wrong]), np.array([0, 1, 0]), [0, 1], [2])
    >>> found["n_tied"], found["single"]
    (2, 0.5)
    """
    misses = (votes[:, validation].argmax(axis=2) != y[validation]).sum(axis=1)
    if not len(misses):
        raise ValueError("a method must have at least one setting that can be fitted; got none")
    tied = votes[misses == misses.min()][:, test]
    return {
        "n_settings": len(votes),
        "n_tied": len(tied),
        "vote": float((tied.mean(axis=0).argmax(axis=1) != y[test]).mean()),
        "single": float((tied.argmax(axis=2) != y[test]).mean()),
    }


# What the errors say -----------------------------------------------------------------------------


def by_task(
    errors: Iterable[Error], inputs: str, rule: str, n: int | None = None
) -> dict[str, dict[tuple[str, int], float]]:
    """Return for each method the error of each (matrix, label), over folds and counts, or at n.

    A count at which a matrix has no records left for a test is left out for all methods alike.
    """
    found: dict[str, dict[tuple[str, int], list[float]]] = {}
    for error in errors:
        if error.inputs == inputs and n in (None, error.n):
            tasks = found.setdefault(error.method, {})
            tasks.setdefault((error.matrix, error.label), []).append(getattr(error, rule))
    return {
        method: {task: float(np.mean(values)) for task, values in tasks.items()}
        for method, tasks in found.items()
    }


def shared_counts(errors: Iterable[Error]) -> list[int]:
    """Return the numbers of labels at which every matrix takes part."""
    matrices: dict[int, set[str]] = {}
    for error in errors:
        matrices.setdefault(error.n, set()).add(error.matrix)
    every = set().union(*matrices.values())
    return sorted(n for n, names in matrices.items() if names == every)


def mean_and_error(tasks: Mapping[tuple[str, int], float]) -> tuple[float, float]:
    """Return the mean over labels, then over matrices, and its standard error.

    The labels of a matrix are taken as independent; a matrix with one label adds no variance.

    Examples
    --------
    >>> mean, error = mean_and_error({("a", 0): 0.1, ("a", 1): 0.3, ("b", 0): 0.4})
    >>> round(mean, 3), round(error, 3)
    (0.3, 0.05)
    """
    by_matrix: dict[str, list[float]] = {}
    for (matrix, _), value in tasks.items():
        by_matrix.setdefault(matrix, []).append(value)
    means = [float(np.mean(values)) for values in by_matrix.values()]
    squares = [np.var(v, ddof=1) / len(v) for v in by_matrix.values() if len(v) > 1]
    return float(np.mean(means)), float(np.sqrt(np.sum(squares)) / len(means))


class Paired(NamedTuple):
    """One method minus another on the same tasks."""

    mean: float
    standard_error: float
    p_t: float  # two-sided, paired t-test
    p_wilcoxon: float  # two-sided, signed ranks
    n_tasks: int


def paired(
    ours: Mapping[tuple[str, int], float], theirs: Mapping[tuple[str, int], float]
) -> Paired:
    """Return the mean difference over tasks (matrix, label), and two paired tests of it.

    Examples
    --------
    >>> ours = {("a", i): 0.1 + 0.01 * i for i in range(8)}
    >>> theirs = {("a", i): 0.2 + 0.02 * i for i in range(8)}
    >>> found = paired(ours, theirs)
    >>> round(found.mean, 3), found.p_t < 0.001, found.p_wilcoxon < 0.05
    (-0.135, True, True)
    """
    # Shares of few records often differ by exactly the same; rounding must not look like spread.
    differences = np.array([ours[task] - theirs[task] for task in ours]).round(12)
    n = len(differences)
    if n < 2 or np.ptp(differences) == 0:  # nothing varies: no test can say anything
        return Paired(float(differences.mean()), 0.0, 1.0, 1.0, n)
    return Paired(
        float(differences.mean()),
        float(differences.std(ddof=1) / np.sqrt(n)),
        float(stats.ttest_1samp(differences, 0.0).pvalue),
        float(stats.wilcoxon(differences, method="approx").pvalue),
        n,
    )


def our_methods(inputs: str) -> tuple[str, ...]:
    """Return the forms of the out-tree that take this kind of input.

    Examples
    --------
    >>> our_methods("full")
    ('hill-climb', 'posterior', 'posterior, wide choice')
    """
    return OURS if inputs == "3d" else OURS[1:]

"""Fits that survive being killed: what was reached is kept in a file after each iteration."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from outtrees.ancestry.columns import ModelColumn
from outtrees.errors import RecordsError
from outtrees.learning.candidates import Constraints
from outtrees.learning.stages import Stage, Track
from outtrees.mutations.columns import Lineage
from outtrees.store import load, save


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The stages that a fit has reached, and of which fit they are."""

    fingerprint: str
    stages: tuple[tuple[Any, ...], ...]  # the fields of each `Stage`


def tracked(
    path: str | os.PathLike[str], fingerprint: str, columns: Sequence[ModelColumn]
) -> Track:
    """Return the track of a fit that keeps what it reaches in a file, and goes on from one.

    Raises
    ------
    RecordsError
        If the file is that of another table or of other settings.
    """
    stages: list[Stage] = []
    if Path(path).exists():
        kept = load(path, classes=[Checkpoint])
        if not isinstance(kept, Checkpoint) or kept.fingerprint != fingerprint:
            raise RecordsError(
                f"{os.path.basename(path)!r} is no checkpoint of this table with these settings; "
                "name another file, or delete it to begin anew"
            )
        stages = [_with_matrices(Stage(*fields), columns) for fields in kept.stages]

    def keep(reached: Sequence[Stage]) -> None:
        fields = tuple(tuple(_without_matrices(stage)) for stage in reached)
        save(Checkpoint(fingerprint, fields), path, classes=[Checkpoint])

    return Track(stages, keep)


def fingerprint(
    settings: dict[str, Any], columns: Sequence[ModelColumn], given: Constraints
) -> str:
    """Return a digest of everything that a fit depends on."""
    digest = hashlib.sha256()
    digest.update(json.dumps(settings, sort_keys=True, default=_plain).encode())
    for column in columns:
        digest.update(f"{column.name} {column.kernel!r}".encode("utf-8", "backslashreplace"))
        for array in (column.values, getattr(column.kernel, "matrix", None)):
            if array is not None:
                digest.update(np.ascontiguousarray(array).tobytes())
    for array in given:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else repr(value)


# Matrices of distances or weights do not change, and would be most of the file.


def _without_matrices(stage: Stage) -> Stage:
    return stage._replace(parameters=_matrices_replaced(stage.parameters, {}))


def _with_matrices(stage: Stage, columns: Sequence[ModelColumn]) -> Stage:
    given = {
        c: column.kernel.matrix
        for c, column in enumerate(columns)
        if hasattr(column.kernel, "matrix")
    }
    return stage._replace(parameters=_matrices_replaced(stage.parameters, given))


def _matrices_replaced(lineage: Lineage, matrices: dict[int, Any]) -> Lineage:
    kernels = tuple(
        replace(kernel, matrix=matrices.get(c)) if hasattr(kernel, "matrix") else kernel  # type: ignore[type-var]
        for c, kernel in enumerate(lineage.kernels)
    )
    return replace(lineage, kernels=kernels)

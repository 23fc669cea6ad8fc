"""Checkpoints of a table: which fit they are of, and what of it is kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from outtrees.ancestry.columns import ModelColumn
from outtrees.candidates import Constraints
from outtrees.inference.checkpoints import tracked
from outtrees.inference.stages import Stage, Track
from outtrees.models.columns import Lineage


def tracked_lineage(
    path: str | os.PathLike[str], fingerprint: str, columns: Sequence[ModelColumn]
) -> Track:
    """Return the track of a fit of a table that keeps what it reaches in a file.

    Matrices of distances or weights do not change, and would be most of the file: they are left
    out, and put back from the columns.
    """
    given = {
        c: column.kernel.matrix
        for c, column in enumerate(columns)
        if hasattr(column.kernel, "matrix")
    }

    def packed(stage: Stage) -> tuple[Any, ...]:
        return tuple(stage._replace(parameters=_matrices_replaced(stage.parameters, {})))

    def unpacked(fields: tuple[Any, ...]) -> Stage:
        stage = Stage(*fields)
        return stage._replace(parameters=_matrices_replaced(stage.parameters, given))

    return tracked(path, fingerprint, unpacked, packed=packed)


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


def _matrices_replaced(lineage: Lineage, matrices: dict[int, Any]) -> Lineage:
    kernels = tuple(
        replace(kernel, matrix=matrices.get(c)) if hasattr(kernel, "matrix") else kernel  # type: ignore[type-var]
        for c, kernel in enumerate(lineage.kernels)
    )
    return replace(lineage, kernels=kernels)

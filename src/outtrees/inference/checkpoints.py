"""Fits that survive being killed: what was reached is kept in a file after each iteration."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outtrees.errors import RecordsError
from outtrees.inference.stages import Track
from outtrees.io import load, save
from outtrees.io.model_classes import allowed_classes
from outtrees.io.model_values import Encoder


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The stages that a fit has reached, and of which fit they are."""

    fingerprint: str
    stages: tuple[tuple[Any, ...], ...]  # the fields of each stage
    seed: int | None = None  # drawn for a fit to which none was given


def tracked(
    path: str | os.PathLike[str],
    fingerprint: str,
    unpacked: Callable[[tuple[Any, ...]], Any],
    *,
    packed: Callable[[Any], tuple[Any, ...]] = tuple,
    of: str = "table",
    seed: int | None = None,
    classes: Iterable[type] = (),
) -> Track:
    """Return the track of a fit that keeps what it reaches in a file, and goes on from one.

    Parameters
    ----------
    unpacked, packed : callables
        From the fields in the file to a stage, and back.
    of : str
        What is fitted, for the message.
    seed : int, optional
        Kept in a new file; an old one has its own, `Track.seed`.
    classes : iterable of types
        Classes of the user's own that stages hold.

    Raises
    ------
    RecordsError
        If the file is that of other data or of other settings.
    """
    stages: list[Any] = []
    allowed = [Checkpoint, *classes]
    if Path(path).exists():
        kept = load(path, classes=allowed)
        if not isinstance(kept, Checkpoint) or kept.fingerprint != fingerprint:
            raise RecordsError(
                f"{os.path.basename(path)!r} is no checkpoint of this {of} with these settings; "
                "name another file, or delete it to begin anew"
            )
        stages, seed = [unpacked(fields) for fields in kept.stages], kept.seed

    def keep(reached: Sequence[Any]) -> None:
        fields = tuple(tuple(packed(stage)) for stage in reached)
        save(Checkpoint(fingerprint, fields, seed), path, classes=allowed)

    return Track(stages, keep, seed)


def digest(value: Any, classes: Iterable[type] = ()) -> str:
    """Return a digest of anything that can be saved, every number of its arrays included.

    Examples
    --------
    >>> digest({"tol": 0.1, "X": np.zeros(3)}) == digest({"tol": 0.1, "X": np.zeros(3)})
    True
    >>> digest(np.arange(2000.0)) == digest(np.append(np.arange(1999.0), 0.0))
    False
    """
    encoder = Encoder(allowed_classes(classes))
    text = json.dumps(encoder.encode(value, "settings"), sort_keys=True, allow_nan=False)
    found = hashlib.sha256(text.encode("utf-8", "backslashreplace"))
    for name, array in encoder.arrays.items():
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()

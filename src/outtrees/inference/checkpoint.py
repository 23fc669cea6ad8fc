"""Checkpoints: an interrupted fit resumes from a file and ends with the same bits."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from outtrees.errors import RecordsError
from outtrees.io import load, save
from outtrees.io.model_classes import allowed_classes
from outtrees.io.model_values import Encoder


class Checkpoint:
    """The stages of a fit, in order; `keep` is called with all of them after each iteration.

    A stage is a named tuple with a field `finished`: one climb from one start, say. A fit that is
    given the stages of an interrupted one resumes where that one stopped. Whatever is not in a
    stage is computed again from it, so both end with the same bits. Without arguments nothing is
    resumed and nothing is kept.

    Examples
    --------
    >>> kept = []
    >>> checkpoint = Checkpoint(keep=lambda stages: kept.append(len(stages)))
    >>> checkpoint.record(checkpoint.begin(), "first stage")
    >>> checkpoint.record(checkpoint.begin(), "second stage")
    >>> kept, Checkpoint(checkpoint.stages).reached(1), Checkpoint().reached(0)
    ([1, 2], 'second stage', None)
    """

    def __init__(
        self,
        stages: Sequence[Any] = (),
        keep: Callable[[Sequence[Any]], None] | None = None,
        seed: int | None = None,
    ) -> None:
        self.stages = list(stages)
        self.seed = seed  # of a fit to which none was given
        self._keep = keep
        self._begun = 0

    @classmethod
    def in_file(
        cls,
        path: str | os.PathLike[str],
        fingerprint: str,
        unpack: Callable[[tuple[Any, ...]], Any],
        *,
        pack: Callable[[Any], tuple[Any, ...]] = tuple,
        of: str = "table",
        seed: int | None = None,
        classes: Iterable[type] = (),
    ) -> Self:
        """Return the checkpoint in a file, with the stages of an interrupted fit if there are any.

        Parameters
        ----------
        fingerprint : str
            The `digest` of everything that the fit depends on.
        unpack, pack : callables
            From the fields in the file to a stage, and back.
        of : str
            What is fitted, for the message.
        seed : int, optional
            Stored in a new file; an existing file has its own.
        classes : iterable of types
            Classes of the user's own that stages hold.

        Raises
        ------
        RecordsError
            If the file belongs to other data or other settings.
        """
        stages: list[Any] = []
        allowed = [CheckpointFile, *classes]
        if Path(path).exists():
            kept = load(path, classes=allowed)
            if not isinstance(kept, CheckpointFile) or kept.fingerprint != fingerprint:
                raise RecordsError(
                    f"{os.path.basename(path)!r} is no checkpoint of this {of} with these "
                    "settings; name another file, or delete it to start again"
                )
            stages, seed = [unpack(fields) for fields in kept.stages], kept.seed

        def keep(reached: Sequence[Any]) -> None:
            fields = tuple(tuple(pack(stage)) for stage in reached)
            save(CheckpointFile(fingerprint, fields, seed), path, classes=allowed)

        return cls(stages, keep, seed)

    def begin(self) -> int:
        """Return the number of the next stage, 0 at first."""
        self._begun += 1
        return self._begun - 1

    def reached(self, number: int) -> Any:
        """Return what the numbered stage had reached, None if it had not begun."""
        return self.stages[number] if number < len(self.stages) else None

    def finished(self, number: int) -> bool:
        """Return whether the numbered stage had ended."""
        reached = self.reached(number)
        return reached is not None and bool(reached.finished)

    def record(self, number: int, stage: Any) -> None:
        """Keep what the numbered stage has reached."""
        self.stages[number:] = [stage]
        if self._keep is not None:
            self._keep(self.stages)


@dataclass(frozen=True, eq=False)
class CheckpointFile:
    """What the file holds."""

    fingerprint: str
    stages: tuple[tuple[Any, ...], ...]  # the fields of each stage
    seed: int | None = None  # drawn for a fit to which none was given


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

"""The folder of a run: one file for each finished unit, and what the run was asked to do."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from outtrees._common.files import write_atomically
from outtrees._common.folders import finish, whole_folder
from outtrees.errors import Message, Option, RunFolderError
from outtrees.parallel.units import fresh_seed

FORMAT = 1
RUN, UNITS = "run.json", "units"


class RunFolder:
    """A folder that one run fills, in one go or in several.

    Parameters
    ----------
    path : path
        Made if need be.
    data : str
        A digest of everything that was read.
    settings : mapping of str to data that JSON knows
        Everything else on which results depend.
    seed : int, optional
        A run without a seed draws one, and keeps it when it goes on.

    Raises
    ------
    RunFolderError
        If the folder holds a run on other data or with other settings.

    Notes
    -----
    run.json holds the above; units/ one file of JSON for each finished unit, written whole or not
    at all, named after the unit. Two programs that fill a folder at the same time do work twice
    and no harm: they write the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as path:
    ...     folder = RunFolder(path, "0a1b", {"max_iter": 100}, seed=0)
    ...     folder.write("north", b"[1, 2]")
    ...     again = RunFolder(path, "0a1b", {"max_iter": 100})
    ...     again.has("north"), again.has("south"), again.read("north"), again.seed
    (True, False, [1, 2], 0)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        data: str,
        settings: Mapping[str, Any],
        seed: int | None = None,
    ) -> None:
        self.path = Path(path)
        self.units = self.path / UNITS
        about = {"format": FORMAT, "data": data, "settings": json.loads(json.dumps(settings))}
        before = self._before()
        if before is None:
            self.seed = fresh_seed() if seed is None else seed
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomically(
                self.path / RUN, json.dumps({**about, "seed": self.seed}, indent=1) + "\n"
            )
        else:
            self._refuse_other(before, about, seed)
            self.seed = int(before["seed"])
            finish(self.path)
        self.units.mkdir(exist_ok=True)  # after run.json, which says what its files are

    def _before(self) -> dict[str, Any] | None:
        """Return what the folder says of the run in it, None if there is none."""
        file = self.path / RUN
        if not file.exists():
            if self.units.exists() and (not self.units.is_dir() or any(self.units.iterdir())):
                raise RunFolderError(
                    f"{str(self.path)!r} has {UNITS!r} in it but no {RUN!r} that says of which "
                    "run; name another folder, or delete this one"
                )
            return None
        try:
            before = json.loads(file.read_bytes())
            if {"format", "data", "settings", "seed"} <= set(before):
                return dict(before)
        except (ValueError, TypeError):
            pass
        raise RunFolderError(
            f"{str(file)!r} is damaged, or another program wrote it; name another folder, or "
            "delete this one"
        )

    def _refuse_other(
        self, before: Mapping[str, Any], about: Mapping[str, Any], seed: int | None
    ) -> None:
        old = {**dict(before["settings"]), "format": before["format"], "seed": before["seed"]}
        new = {**about["settings"], "format": about["format"]}
        new["seed"] = before["seed"] if seed is None else seed
        changes = [
            Message(
                Option(name),
                f" was {json.dumps(old.get(name))[:60]} and is {json.dumps(new.get(name))[:60]}",
            )
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        ]
        if before["data"] != about["data"]:
            changes.insert(0, Message("the data differ"))
        if changes:
            raise RunFolderError(
                f"{str(self.path)!r} holds another run (",
                changes[0],
                "); name another folder, or delete this one",
                file=str(self.path),
            )

    def file(self, name: str) -> Path:
        """Return the path of a unit's file."""
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        readable = re.sub(r"[^A-Za-z0-9]+", "-", name)[:40].strip("-")
        return self.units / f"{readable}-{digest}.json"

    def has(self, name: str) -> bool:
        """Return whether a unit is finished."""
        return self.file(name).is_file()

    def write(self, name: str, result: bytes) -> None:
        """Keep the result of a unit, JSON as bytes."""
        write_atomically(self.file(name), result + b"\n")

    def read(self, name: str) -> Any:
        """Return the result of a finished unit."""
        file = self.file(name)
        try:
            return json.loads(file.read_bytes())
        except ValueError:
            raise RunFolderError(
                f"{str(file)!r} is damaged; delete it and run again: only that unit is repeated"
            ) from None

    @contextmanager
    def results(self, about: Mapping[str, Any] | None = None) -> Iterator[Path]:
        """Yield a folder to write files of results into; they take their places when complete."""
        with whole_folder(self.path, about) as stage:
            yield stage


def open_text(path: Path) -> TextIO:
    """Open a file of results, to be written piece by piece, the same bytes on every system."""
    # Half a surrogate pair is written as an escape.
    return open(path, "x", encoding="utf-8", errors="backslashreplace", newline="\n")

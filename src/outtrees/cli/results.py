"""Files of results: a folder that is written whole or not at all, and its files named on screen."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from outtrees._common.folders import MANIFEST, finish, read_manifest, whole_folder
from outtrees.cli.errors import CommandError, sound_model
from outtrees.cli.screen import Screen

MODEL = "model.safetensors"

Writer = Callable[[Path], Any]


def csv_writer(columns: Mapping[str, Any]) -> Writer:
    """Return what writes a table as CSV that no spreadsheet executes."""
    from outtrees.io import write_csv

    return lambda path: write_csv(path, dict(columns))


def _model_writer(screen: Screen, model: Any) -> dict[str, Writer]:
    """Return the writer of the model file; none, with a warning, for a model without a format."""
    from outtrees.io import CLASSES, save

    name = type(model).__name__
    if name not in CLASSES:
        screen.warn(f"no {MODEL}: {name} cannot be saved yet; keep the command and the seed")
        return {}
    return {MODEL: lambda path: save(model, path)}


def write_files(
    screen: Screen,
    folder: str | None,
    writers: Mapping[str, Writer],
    names: Iterable[str] = (),
    model: Any = None,
) -> None:
    """Write all files and the model, or none, and say which; without a folder, nothing.

    Files of an earlier run go with it. `names` are what such files are called: those that are not
    known to be of a run stay, and are warned of.
    """
    from outtrees import __version__

    screen.summary["files"] = {}
    if folder is None:
        return
    if model is not None:
        writers = {**writers, **_model_writer(screen, model)}
    about = {"outtrees": __version__, "command": screen.summary.get("command")}
    if "inputs" in screen.summary:
        about["inputs"] = screen.summary["inputs"]  # name of each file → its sha256
    with whole_folder(folder, about) as stage:
        for name, write in writers.items():
            write(stage / name)
    screen.summary["files"] = {name: str(Path(folder) / name) for name in writers}
    for name in names:
        if name not in writers and (Path(folder) / name).exists():
            screen.warn(
                f"{str(Path(folder) / name)!r} is not of this run: it was there before, and "
                f"{MANIFEST} did not list it as it is; move it away if an earlier run wrote it"
            )


def name_files(screen: Screen) -> None:
    """Print the files that were written."""
    files = screen.summary["files"]
    if not files:
        screen.say("\nno files written; --out FOLDER writes the whole tables and the model")
        return
    screen.say("\nfiles written:")
    for path in files.values():
        screen.say(f"  {path}")


def where_whole(folder: str | None, name: str) -> str:
    """Return where the rest of a table is that is cut on screen."""
    return "give --out FOLDER for all" if folder is None else f"all are in {Path(folder) / name}"


def saved_ancestry(path: Path, max_bytes: int) -> Any:
    """Return the fitted `Ancestry` of a model file, or of a folder of results."""
    from outtrees.ancestry import Ancestry
    from outtrees.io import load

    path = path / MODEL if path.is_dir() else path
    model = load(path, max_bytes=max_bytes)
    if not isinstance(model, Ancestry):
        raise CommandError(
            f"{str(path)!r} must be a model of 'outtrees ancestry'; it is a {type(model).__name__}"
        )
    with sound_model(path, model):
        _ = model.fitted
    return model


# The folder ----------------------------------------------------------------------------------


def check_folder(path: str | os.PathLike[str] | None, names: Iterable[str] = ()) -> None:
    """Refuse, before hours of work, a folder that cannot be made or written to."""
    if path is None:
        return
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{str(path)!r} is a file, but --out must be a folder; name another", 3)
    there = folder.absolute()
    while not there.exists():
        if there.is_symlink():
            raise CommandError(f"{str(there)!r} is a link to nowhere; name another --out", 3)
        there = there.parent
    if not there.is_dir():
        raise CommandError(f"{str(path)!r} cannot be made: {str(there)!r} is a file", 3)
    if not os.access(there, os.W_OK | os.X_OK):
        raise CommandError(f"{str(there)!r}: no permission to write there; name another --out", 3)
    if folder.is_dir():
        finish(folder)  # what a killed run had decided
        _refuse_other_command(folder)
    for name in names:
        if (folder / name).exists() and not (folder / name).is_file():
            raise CommandError(f"{str(folder / name)!r} is not a regular file; move it away", 3)


def _refuse_other_command(folder: Path) -> None:
    """Refuse to replace the results of another command, which may have taken hours."""
    context = click.get_current_context(silent=True)
    before = (read_manifest(folder) or {}).get("command")
    if context is not None and isinstance(before, str) and before != context.command.name:
        raise CommandError(
            f"{str(folder)!r} holds the results of 'outtrees {before[:40]}'; name another --out, "
            "or delete that folder",
        )

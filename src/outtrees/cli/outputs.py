"""Files written and named on screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from outtrees.cli.folder import whole_folder
from outtrees.cli.screen import Screen

MODEL = "model.safetensors"

Writer = Callable[[Path], Any]


def csv_writer(columns: Mapping[str, Any]) -> Writer:
    """Return what writes a table as CSV that no spreadsheet executes."""
    from outtrees.io import write_csv

    return lambda path: write_csv(path, dict(columns))


def text_writer(text: str) -> Writer:
    """Return what writes a text."""
    from outtrees.io import write_text

    return lambda path: write_text(path, text)


def model_writer(screen: Screen, model: Any) -> dict[str, Writer]:
    """Return the writer of the model file; none, with a warning, for a model without a format."""
    from outtrees.io import CLASSES, save

    name = type(model).__name__
    if name not in CLASSES:
        screen.warn(f"no {MODEL}: {name} cannot be saved yet; keep the command and the seed")
        return {}
    return {MODEL: lambda path: save(model, path)}


def write_files(screen: Screen, folder: str | None, writers: Mapping[str, Writer]) -> None:
    """Write all files, or none, and say which; without a folder, nothing."""
    screen.summary["files"] = {}
    if folder is None:
        return
    with whole_folder(folder) as stage:
        for name, write in writers.items():
            write(stage / name)
    screen.summary["files"] = {name: str(Path(folder) / name) for name in writers}


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

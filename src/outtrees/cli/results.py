"""Files of results: a folder that is written whole or not at all, and its files named on screen."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outtrees.cli.errors import CommandError
from outtrees.cli.screen import Screen

MODEL = "model.safetensors"

Writer = Callable[[Path], Any]


def csv_writer(columns: Mapping[str, Any]) -> Writer:
    """Return what writes a table as CSV that no spreadsheet executes."""
    from outtrees.io import write_csv

    return lambda path: write_csv(path, dict(columns))


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


# The folder ----------------------------------------------------------------------------------


def check_folder(path: str | os.PathLike[str], names: Iterable[str] = ()) -> None:
    """Refuse, before hours of work, a folder that cannot be made or written to."""
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{str(path)!r} is a file, but --out must be a folder; name another", 3)
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        raise CommandError(f"{str(path)!r} cannot be made: {str(there)!r} is a file", 3)
    if not os.access(there, os.W_OK | os.X_OK):
        raise CommandError(f"{str(there)!r}: no permission to write there; name another --out", 3)
    for name in names:
        if (folder / name).exists() and not (folder / name).is_file():
            raise CommandError(f"{str(folder / name)!r} is not a regular file; move it away", 3)


@contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a hidden folder to write into; on success its files take their places in `path`.

    A new folder appears in one step. In a folder that exists already each file is replaced in one
    step, and Ctrl-C waits until all are. On failure nothing is left behind.
    """
    import secrets  # slow to import, and help needs neither
    import shutil

    target = Path(os.path.realpath(path))
    made = _make_parents(target)
    is_new = not target.exists()
    stage = (target.parent if is_new else target) / f".outtrees-{secrets.token_hex(8)}.tmp"
    done = False
    try:
        stage.mkdir()
        yield stage
        with uninterrupted():
            if is_new:
                stage.rename(target)
            else:
                _move_files(stage, target)
            done = True
    finally:
        if not done:
            shutil.rmtree(stage, ignore_errors=True)
            for folder in made:
                folder.rmdir()


def _make_parents(target: Path) -> list[Path]:
    """Return the folders that had to be made above the target, the innermost first."""
    missing = []
    above = target.parent
    while not above.exists():
        missing.append(above)
        above = above.parent
    for folder in reversed(missing):
        folder.mkdir()
    return missing


def _move_files(stage: Path, target: Path) -> None:
    for file in sorted(stage.iterdir()):
        place = target / file.name
        if place.exists():
            os.chmod(file, stat.S_IMODE(place.stat().st_mode))
        os.replace(file, place)
    stage.rmdir()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until the end of the block."""
    if threading.current_thread() is not threading.main_thread():  # signals come elsewhere
        yield
        return
    arrived: list[int] = []

    def remember(number: int, frame: Any) -> None:
        arrived.append(number)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    if arrived:
        raise KeyboardInterrupt

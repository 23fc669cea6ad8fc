"""Folders of results: all files of one run, or none, and a list by which that is seen.

The files of a run are written to a hidden folder, with a list of their checksums, `results.json`.
Then they take their places:

- A new folder gets its name in one step.
- A folder that holds nothing but the results of an earlier run is exchanged for the new one in one
  step, where the system can do that.
- In any other folder, one with files of the user's own say, the hidden folder is renamed to
  ``.outtrees-commit``. From that step on the new results stand: files of the earlier run are
  deleted, then those of the new one moved to their places, its list last. Whoever is killed on the
  way leaves files of one run only, without a list; the next to open the folder finishes the work.

Of an earlier run all files in its list are deleted, but for those that somebody changed since.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from outtrees._common.files import about_file, remove_litter, temporary_path

MANIFEST = "results.json"
_COMMIT = ".outtrees-commit"
_PLAN = ".outtrees-plan.json"
_FORMAT = 1
_CHUNK = 2**20
_LONGEST_MANIFEST = 2**24


@contextmanager
def whole_folder(
    path: str | os.PathLike[str], about: Mapping[str, Any] | None = None
) -> Iterator[Path]:
    """Yield a hidden folder to write into; on success its files become the results in `path`.

    On failure nothing is left behind. SIGINT and SIGTERM wait while files take their places.

    Parameters
    ----------
    path : path
        Made if need be. Files in it that are not of an earlier run stay as they are, but for those
        that the new results have the names of.
    about : mapping, optional
        What `results.json` says beside the checksums.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     for names in ("abc", "ad"):
    ...         with whole_folder(there + "/results") as stage:
    ...             for name in names:
    ...                 _ = (stage / name).write_text(name)
    ...     sorted(os.listdir(there + "/results")), problems(there + "/results")
    (['a', 'd', 'results.json'], [])
    """
    target = Path(os.path.realpath(path))
    made = _make_parents(target)
    if target.is_dir():
        finish(target)
        remove_litter(target)
    remove_litter(target.parent)
    # Beside the folder if it is new or will be exchanged, else within it.
    beside = not target.is_dir() or _is_exchangeable(target, read_manifest(target))
    stage = temporary_path(target.parent if beside else target)
    done = False
    try:
        stage.mkdir()
        yield stage
        _write_manifest(stage, about or {})
        with uninterrupted():
            _place(stage, target)
            done = True
    except OSError as error:
        if error.errno is None:
            raise
        # The file has another place than the user named.
        name = error.filename if isinstance(error.filename, str) else os.fspath(path)
        own = Path(name).parent == stage
        raise about_file(error, Path(path) / Path(name).name if own else name) from error
    finally:
        if not done:
            shutil.rmtree(stage, ignore_errors=True)
            for folder in made:
                with suppress(OSError):  # somebody else uses it by now
                    folder.rmdir()


def finish(folder: str | os.PathLike[str]) -> bool:
    """Put the results of a killed run in their places; return whether there were any."""
    target = Path(os.path.realpath(folder))
    if not (target / _COMMIT).is_dir():
        return False
    with uninterrupted(), _locked(target):
        return _finish(target)


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return what the list of a folder's results says, None if there is none that can be read."""
    file = Path(folder) / MANIFEST
    try:
        if not file.is_file() or file.stat().st_size > _LONGEST_MANIFEST:
            return None
        found = json.loads(file.read_bytes())
        files = found["files"]
        right = all(_is_plain(name) and isinstance(entry, dict) for name, entry in files.items())
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return dict(found) if right else None


def problems(folder: str | os.PathLike[str]) -> list[str] | None:
    """Return what is wrong with a folder of results, in words; None if it has no list of them."""
    there = Path(folder)
    if (there / _COMMIT).is_dir():
        return ["a run was killed while it put its results in their places"]
    found = read_manifest(there)
    if found is None:
        return None
    said = []
    for name, entry in found["files"].items():
        try:
            same = _entry(there / name) == entry
        except FileNotFoundError:
            said.append(f"{name} is missing")
            continue
        if not same:
            said.append(f"{name} is not what the run wrote: another run or somebody changed it")
    return said


# Before the step ------------------------------------------------------------------------------


def _make_parents(target: Path) -> list[Path]:
    """Return the folders that had to be made above the target, the innermost first."""
    missing = []
    above = target.parent
    while not above.exists():
        missing.append(above)
        above = above.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
    return missing


def _write_manifest(stage: Path, about: Mapping[str, Any]) -> None:
    """Write the list of all files, and let the disk have them."""
    files = {name: _entry(stage / name, sync=True) for name in sorted(os.listdir(stage))}
    text = json.dumps({"format": _FORMAT, **about, "files": files}, indent=1) + "\n"
    _write(stage / MANIFEST, text)
    _sync(stage)


def _write(path: Path, text: str) -> None:
    with open(path, "xb", buffering=0) as file:
        file.write(text.encode())
        os.fsync(file.fileno())


def _entry(path: Path, *, sync: bool = False) -> dict[str, Any]:
    """Return size and checksum of a file."""
    digest = hashlib.sha256()
    size = 0
    with open(path, "rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            size += len(piece)
        if sync:
            os.fsync(file.fileno())
    return {"bytes": size, "sha256": digest.hexdigest()}


def _sync(folder: Path) -> None:
    """Let the disk have the names in a folder, where the system can be asked to."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_plain(name: Any) -> bool:
    """Return whether a name is that of a file in the folder itself, and no hidden one of ours."""
    return (
        isinstance(name, str)
        and name == os.path.basename(name)
        and name not in ("", ".", "..", MANIFEST, _COMMIT, _PLAN)
        and "\0" not in name
    )


# The step -------------------------------------------------------------------------------------


def _place(stage: Path, target: Path) -> None:
    if stage.parent == target.parent:
        try:
            os.rename(stage, target)  # if it is new or empty
        except OSError:
            if not target.is_dir():
                raise
        else:
            _sync(target.parent)
            return
    with _locked(target):
        _finish(target)
        old = read_manifest(target)
        _copy_modes(stage, target)
        if (
            stage.parent == target.parent
            and _is_exchangeable(target, old)
            and _exchanged(stage, target)
        ):
            _sync(target.parent)
            shutil.rmtree(stage, ignore_errors=True)
            return
        new = [name for name in os.listdir(stage) if _is_plain(name)]
        for name in new:
            if (target / name).is_dir():
                raise IsADirectoryError(f"{str(target / name)!r} is a folder; move it away")
        _write(stage / _PLAN, json.dumps({"delete": sorted({*_unchanged(target, old), *new})}))
        _sync(stage)
        os.rename(stage, target / _COMMIT)
        _sync(target)
        _finish(target)


def _finish(target: Path) -> bool:
    """Move the files of `.outtrees-commit` to their places, from wherever that was interrupted."""
    commit = target / _COMMIT
    if not commit.is_dir():
        return False
    if (commit / MANIFEST).exists():  # it goes last
        waiting = sorted(name for name in os.listdir(commit) if _is_plain(name))
        deleted = json.loads((commit / _PLAN).read_bytes())["delete"]
        everything = json.loads((commit / MANIFEST).read_bytes())["files"]
        (target / MANIFEST).unlink(missing_ok=True)
        for name in deleted:
            # What is of the new run and no longer waiting is in its place already.
            if _is_plain(name) and (name in waiting or name not in everything):
                (target / name).unlink(missing_ok=True)
        for name in waiting:
            os.replace(commit / name, target / name)
        os.replace(commit / MANIFEST, target / MANIFEST)
        _sync(target)
    shutil.rmtree(commit, ignore_errors=True)
    return True


def _unchanged(target: Path, manifest: Mapping[str, Any] | None) -> list[str]:
    """Return the files of an earlier run that nobody changed since."""
    found = []
    for name, entry in (manifest or {"files": {}})["files"].items():
        with suppress(OSError):
            if (target / name).is_file() and _entry(target / name) == entry:
                found.append(name)
    return found


def _copy_modes(stage: Path, target: Path) -> None:
    for name in os.listdir(stage):
        with suppress(FileNotFoundError):
            os.chmod(stage / name, stat.S_IMODE((target / name).stat().st_mode))


def _is_exchangeable(target: Path, manifest: Mapping[str, Any] | None) -> bool:
    """Return whether a folder is nothing but the results of a run, and may become another one."""
    if manifest is None or not os.access(target.parent, os.W_OK | os.X_OK):
        return False
    try:
        here = Path.cwd()
        status, above = target.stat(), target.parent.stat()
        names = set(os.listdir(target)) - {MANIFEST}
    except OSError:
        return False
    return (
        here != target  # whoever stands in it would stand in a folder that is gone
        and target not in here.parents
        and status.st_dev == above.st_dev
        and (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
        and names <= set(_unchanged(target, manifest))
    )


def _exchanged(stage: Path, target: Path) -> bool:
    """Exchange two folders in one step; return whether the system could."""
    os.chmod(stage, stat.S_IMODE(target.stat().st_mode))
    try:
        library = ctypes.CDLL(None, use_errno=True)
        one, other = os.fsencode(stage), os.fsencode(target)
        if sys.platform == "darwin":
            return int(library.renamex_np(one, other, ctypes.c_uint(2))) == 0
        here = ctypes.c_int(-100)  # AT_FDCWD: paths are absolute
        return int(library.renameat2(here, one, here, other, ctypes.c_uint(2))) == 0
    except (AttributeError, OSError, TypeError):  # a system without it
        return False


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Hold a folder while files take their places; the system frees it if this process dies."""
    try:
        import fcntl
    except ImportError:  # Windows: two runs that end in the same instant are not told apart
        yield
        return
    while True:
        descriptor = os.open(target, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError as error:  # some network file systems have no locks
                if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS):
                    raise
            held, there = os.fstat(descriptor), target.stat()
            if (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino):
                yield
                return
        finally:
            os.close(descriptor)
        # Another run has exchanged the folder meanwhile.


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait until the end of the block."""
    if threading.current_thread() is not threading.main_thread():  # signals come elsewhere
        yield
        return
    arrived: list[int] = []

    def remember(number: int, frame: Any) -> None:
        arrived.append(number)

    before = {n: signal.signal(n, remember) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        for late in dict.fromkeys(arrived):
            signal.raise_signal(late)

"""Files: read only if they are regular and not too large, written whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from outtrees.errors import Option, OutTreesError, RecordsError


def read_bytes(
    path: str | os.PathLike[str], max_bytes: int, error: type[OutTreesError] = RecordsError
) -> bytes:
    """Return the bytes of a regular file that is not too large, as it is on disk."""
    path = Path(path)
    try:
        status = path.stat()
    except FileNotFoundError:
        raise FileNotFoundError(f"no such file: {str(path)!r}") from None
    if not stat.S_ISREG(status.st_mode):  # reading a pipe or /dev/zero might never end
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a device or a pipe"
        raise error(f"{str(path)!r} is not a regular file but {kind}; give a file", file=path.name)
    if status.st_size > max_bytes:
        raise error(
            f"{path.name} is {size_text(status.st_size)}; limit {size_text(max_bytes)} (",
            Option("max_bytes"),
            ")",
            file=path.name,
        )
    return path.read_bytes()


def write_atomically(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write a file whole or not at all; return its path.

    The bytes go to a temporary file in the same folder, which then takes the name in one step:
    whoever reads sees the old file or the new one. A failure leaves the old one and no litter; a
    process that is killed leaves a temporary file, which the next to write there removes. Text is
    written as UTF-8.

    Parameters
    ----------
    path : path
        The file.
    data : bytes or str
        Its contents.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/note.txt", "whole").read_text()
    'whole'
    """
    # Half a surrogate pair, as a data frame may hold, is written as an escape.
    raw = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.exists() and not target.is_file():
        raise IsADirectoryError(f"{str(path)!r} is not a regular file; choose another name")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {str(target.parent)!r}; make it first")
    remove_litter(target.parent)
    temporary = temporary_path(target.parent)
    try:
        with open(temporary, "xb", buffering=0) as file:
            rest = memoryview(raw)
            while rest:
                rest = rest[os.write(file.fileno(), rest) :]
            os.fsync(file.fileno())
        if target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise about_file(error, path) from error
        raise
    return Path(path)


def about_file(error: OSError, path: str | os.PathLike[str]) -> OSError:
    """Return an error of the system, such as a full disk, with the file that it is about.

    Examples
    --------
    >>> print(about_file(OSError(28, "No space left on device"), "parents.csv"))
    [Errno 28] No space left on device: 'parents.csv'
    """
    return OSError(error.errno, error.strerror, os.fspath(path))


# Temporary files ------------------------------------------------------------------------------

_TEMPORARY = re.compile(r"\.outtrees-(?:([0-9a-f]{8})-([0-9]{1,9})-)?[0-9a-f]{16}\.tmp")
_OLD_SECONDS = 24 * 3600
_cleared: set[str] = set()


def temporary_path(folder: Path) -> Path:
    """Return a hidden name in a folder that says which process on which machine uses it."""
    return folder / f".outtrees-{_machine()}-{os.getpid()}-{secrets.token_hex(8)}.tmp"


def remove_litter(folder: Path) -> None:
    """Remove temporary files and folders of killed processes; each folder is looked at once.

    Those of a dead process of this machine; and of any other machine, whose processes cannot be
    asked for from here, after a day. What cannot be removed stays.
    """
    if str(folder) in _cleared:
        return
    _cleared.add(str(folder))
    try:
        with os.scandir(folder) as entries:
            stale = [entry.path for entry in entries if _is_stale(entry)]
    except OSError:
        return
    for path in stale:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                os.unlink(path)


def _is_stale(entry: os.DirEntry[str]) -> bool:
    found = _TEMPORARY.fullmatch(entry.name)
    if found is None:
        return False
    machine, number = found.groups()
    if machine == _machine() and os.name == "posix":
        try:
            os.kill(int(number), 0)  # asks only
        except ProcessLookupError:
            return True
        except OSError:
            pass
        return False
    try:
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > _OLD_SECONDS
    except OSError:  # somebody else removed it
        return False


@lru_cache(maxsize=1)
def _machine() -> str:
    """Return a name of where process numbers mean the same: a machine since it started, or a
    container.
    """
    import hashlib
    import socket

    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def size_text(n: int) -> str:
    """Return a number of bytes in words.

    Examples
    --------
    >>> size_text(512), size_text(9_100_000_000)
    ('512 bytes', '9.1 GB')
    """
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= factor:
            return f"{n / factor:.1f} {unit}"
    return f"{n} bytes"

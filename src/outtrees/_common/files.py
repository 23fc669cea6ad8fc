"""Files: read only if they are regular and not too large, written whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
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
    whoever reads sees the old file or the new one, and a failure leaves the old one and no litter.
    Text is written as UTF-8.
    """
    # Half a surrogate pair, as a data frame may hold, is written as an escape.
    raw = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.exists() and not target.is_file():
        raise IsADirectoryError(f"{str(path)!r} is not a regular file; choose another name")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {str(target.parent)!r}; make it first")
    temporary = target.parent / f".outtrees-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return Path(path)


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

"""Memory: how much is free, and refusal of what needs more before it is allocated."""

from __future__ import annotations

import os
from pathlib import Path
from types import EllipsisType

from outtrees._common.files import size_text
from outtrees.errors import Message

__all__ = ["check_memory", "free_memory", "size_text"]

_CGROUP_2 = ("memory.max", "memory.current")
_CGROUP_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
# Limits of the process (`ulimit -v`, `ulimit -d`) in /proc/self/limits, and what counts towards
# them in /proc/self/status.
_LIMITS = {"Max address space": "VmSize:", "Max data size": "VmData:"}


def free_memory(root: str | os.PathLike[str] = "/") -> int | None:
    """Return the bytes that can still be had, None where the system does not say.

    The least of what the machine has available, and of what the control groups of this process
    (containers, batch queues) and its own limits (`ulimit -v`, `ulimit -d`) leave.
    """
    root = Path(root)
    available = _kilobytes(root / "proc/meminfo", "MemAvailable:")
    limits = [available, *_control_groups(root), *_process_limits(root)]
    known = [limit for limit in limits if limit is not None]
    return max(0, min(known)) if known else None


def check_memory(
    subject: str, needed: int, remedy: str, free: int | EllipsisType | None = ...
) -> None:
    """Raise MemoryError if more bytes are needed than are free, before they are allocated.

    Parameters
    ----------
    subject : str
        What needs them, with the verb: "all pairs of 9 records need".
    remedy : str or Message
        One sentence.
    free : int or None, optional
        By default asked for now.

    Examples
    --------
    >>> check_memory("all pairs of 9 records need", 2_000_000, "Use fewer records.", 1000)
    Traceback (most recent call last):
    MemoryError: all pairs of 9 records need about 2.0 MB of memory; 1.0 kB are free. Use fewer
    records.
    """
    left = free_memory() if isinstance(free, EllipsisType) else free
    if left is not None and needed > left:
        raise MemoryError(
            Message(
                f"{subject} about {size_text(needed)} of memory; {size_text(left)} are free. ",
                remedy,
            )
        )


def _kilobytes(path: Path, name: str) -> int | None:
    """Return the bytes that a line of a file states in kB."""
    for line in _lines(path):
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return None


def _process_limits(root: Path) -> list[int]:
    """Return what each limit of this process leaves."""
    left = []
    for line in _lines(root / "proc/self/limits"):
        for name, used_name in _LIMITS.items():
            limit = line.removeprefix(name).split()
            if line.startswith(name) and limit and limit[0].isdigit():  # or "unlimited"
                used = _kilobytes(root / "proc/self/status", used_name)
                left.append(int(limit[0]) - (used or 0))
    return left


def _control_groups(root: Path) -> list[int]:
    """Return what each control group above this process leaves."""
    left = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        base = root / "sys/fs/cgroup" / controllers
        names = _CGROUP_1 if controllers else _CGROUP_2
        group = base / path.strip().lstrip("/")
        # Inside a container the path is that of the host: its own group is then the base.
        for folder in (group, *group.parents):
            limit, used = (_number(folder / name) for name in names)
            if limit is not None and used is not None:
                left.append(limit - used)
            if folder == base:
                break
    return left


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None  # "max" is no limit


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []

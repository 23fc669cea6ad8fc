"""How much memory is left, by the machine and by its control groups."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP_2 = ("memory.max", "memory.current")
_CGROUP_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def free_memory(root: str | os.PathLike[str] = "/") -> int | None:
    """Return the bytes that can still be had, None where the system does not say.

    The least of what the machine has available and of what the control groups of this process
    (containers, batch queues) leave.
    """
    root = Path(root)
    limits = [_available(root / "proc/meminfo"), *_control_groups(root)]
    known = [limit for limit in limits if limit is not None]
    return max(0, min(known)) if known else None


def _available(path: Path) -> int | None:
    for line in _lines(path):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


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

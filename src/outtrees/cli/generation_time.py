"""A table of generation times: how probable it is to wait 0, 1, 2, … units for a child."""

from __future__ import annotations

import os

from outtrees.cli.failing import CommandError

_LONGEST = 100_000  # units; a table is short, and a time such as 20200305 is a date


def read_generation_time(
    path: str | os.PathLike[str], encoding: str, max_bytes: int
) -> tuple[list[float], str]:
    """Return P(waiting i units), i = 0, 1, …, and a sentence that says how the file was read.

    One column: its first entry is the probability of waiting 1 unit, as tables of generation times
    are usually written. Two columns: times in whole units, and probabilities; times that are not
    listed have probability 0. A header is skipped.
    """
    from outtrees.records.files import read_source

    source = read_source(path, max_bytes)
    rows = []
    for number, line in enumerate(source.text(encoding).splitlines(), start=1):
        parts = line.replace(",", " ").replace(";", " ").split()
        if not parts:
            continue
        try:
            values = [float(part.strip('"')) for part in parts]
        except ValueError:
            if rows or number > 1:
                raise CommandError(
                    f"{source.name} line {number}: numbers are expected, but got {line[:60]!r}; "
                    "write one probability a line, or a time and a probability"
                ) from None
            continue
        rows.append((number, values))
    if not rows:
        raise CommandError(f"{source.name} has no data rows; write one probability a line")
    width = len(rows[0][1])
    for number, values in rows:
        if len(values) != width or width > 2:
            raise CommandError(
                f"{source.name} line {number}: {len(values)} fields, but one column "
                "(probabilities) or two (times, probabilities) are expected"
            )
        if not 0 <= values[-1] < float("inf"):
            raise CommandError(
                f"{source.name} line {number}: a probability of at least 0 is expected, but got "
                f"{values[-1]:g}"
            )
    if not sum(values[-1] for _, values in rows) > 0:
        raise CommandError(f"{source.name}: all probabilities are 0; at least one must be positive")
    if width == 1:
        chances = [0.0, *(values[0] for _, values in rows)]
        told = "its first entry is the probability of waiting 1 unit"
    else:
        chances = _by_time(source.name, rows)
        told = "times from its first column, probabilities from its second"
    mean = sum(i * chance for i, chance in enumerate(chances)) / sum(chances)
    return chances, f"generation times of {source.name}: {told}; mean {mean:.3g} units"


def _by_time(name: str, rows: list[tuple[int, list[float]]]) -> list[float]:
    chances: dict[int, float] = {}
    for number, (time, chance) in rows:
        if time != time or not 0 <= time <= _LONGEST or time != int(time) or int(time) in chances:
            raise CommandError(
                f"{name} line {number}: times are expected to be different whole numbers from 0 "
                f"to {_LONGEST}, but got {time:g}"
            )
        chances[int(time)] = chance
    return [chances.get(time, 0.0) for time in range(max(chances) + 1)]

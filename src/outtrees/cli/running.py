"""What every command does around its own work."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from outtrees import __version__
from outtrees.cli.failing import CommandError
from outtrees.cli.screen import Screen

if TYPE_CHECKING:
    from outtrees.records import Column, Records

_FIRST, _FEW = 40, 10  # lines on the screen of a long list; so few more are not worth a cut
_CLOSELY = 0.9  # a rank correlation with dates that makes whole numbers suspicious
_UNKNOWN_MARKS = {-9.0, -99.0, -999.0, -9999.0}


@contextmanager
def running(command: str, options: Mapping[str, Any]) -> Iterator[Screen]:
    """Yield the screen; limit the cores, tell warnings, print the summary at the end."""
    screen = Screen(options["quiet"], options["as_json"])
    if screen.quiet:
        os.environ["OUTTREES_COMPILE_QUIETLY"] = "1"  # heeded by outtrees._common.compiled
    screen.summary.update({"command": command, "version": __version__, "seed": options.get("seed")})
    with screen.warnings_told(), _cores(options.get("jobs")):
        yield screen


@contextmanager
def _cores(jobs: int | None) -> Iterator[None]:
    if jobs is None:
        yield
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(jobs):
        yield


def estimator(module: str, name: str) -> Any:
    """Return a class by module and name, or say in one line that it is not there."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("outtrees."):
            raise
        raise CommandError(
            f"this command needs {name}, which this version of outtrees does not have yet; "
            "install a newer one"
        ) from None


def shortened(lines: Sequence[str], what: str, last: int = 20) -> str:
    """Return lines for a screen: of too many the first 40 and the last.

    Examples
    --------
    >>> shortened([str(n) for n in range(1000)], "lines").splitlines()[39:42]
    ['39', '… 940 more lines', '980']
    """
    rest = len(lines) - _FIRST - last
    if rest > _FEW:
        lines = [*lines[:_FIRST], f"… {rest:,} more {what}", *lines[len(lines) - last :]]
    return "\n".join(lines)


def _unknown_mark(column: Column) -> float | None:
    """Return the one negative value of a column, if it is one that often stands for unknown."""
    if column.kind not in ("continuous", "date"):
        return None
    negative = {float(value) for value in column.values.ravel() if value < 0}
    return negative.pop() if len(negative) == 1 and negative < _UNKNOWN_MARKS else None


def _rising(records: Records) -> Iterator[tuple[str, str]]:
    """Yield the columns of whole numbers that rise with the dates, and the name of those."""
    import numpy as np

    dates = [column for column in records.columns if column.kind == "date"]
    for column in records.columns:
        if column.kind not in ("count", "continuous") or not dates:
            continue
        values, when = column.values[:, 0], dates[0].values[:, 0]
        known = ~np.isnan(values) & ~np.isnan(when)
        if (values[known] != np.round(values[known])).any():
            continue
        ranks = [np.unique(cells[known], return_inverse=True)[1] for cells in (values, when)]
        # Five values or fewer rise by chance too often.
        enough = min(len(np.unique(rank)) for rank in ranks) > 5
        if enough and np.corrcoef(ranks)[0, 1] > _CLOSELY:
            yield column.name, dates[0].name


def tell_records(screen: Screen, records: Records) -> None:
    """Print the kinds of the columns and put them into the summary."""
    from outtrees.records.column import counted

    kinds = Counter([c.kind for c in records.columns] + [role for _, role, _ in records.roles])
    listed = ", ".join(f"{n:,} {kind}" for kind, n in kinds.most_common())
    screen.say(shortened(records.describe().splitlines(), f"columns (in all: {listed})", 0))
    for column in records.columns:
        mark = _unknown_mark(column)
        if mark is not None:
            screen.warn(
                f"column {column.name!r}: {mark:g} is its only negative value; if it means "
                f"unknown, pass --na {mark:g}"
            )
        if column.kind == "sequence" and column.n_missing:
            screen.say(
                f"{counted(column.n_missing, 'record')} without a sequence: all sites of "
                f"{column.name!r} count as unread there"
            )
    for name, date in _rising(records):
        screen.warn(
            f"column {name!r} rises with {date!r}; if it numbers the records or is another date, "
            f"pass --ignore {name!r} (or --until {name!r}, if records ended then)"
        )
    screen.summary["records"] = len(records)
    screen.summary["columns"] = [
        {"name": c.name, "kind": c.kind, "missing": c.n_missing} for c in records.columns
    ] + [{"name": name, "kind": role} for name, role, _ in records.roles]
    screen.summary["inputs"] = dict(records.provenance)


def tell_dropped_mass(screen: Screen, model: Any) -> None:
    """Say how much probability a fit over candidates leaves out; nothing after one over all."""
    mass = getattr(model, "dropped_mass_", None)
    if mass is None:
        return
    screen.summary["dropped_mass"] = asdict(mass)
    screen.say(
        f"parents that are no candidates hold {mass.mean:.2g} ± {mass.error:.1g} of a record's "
        "parents, by weight"
    )

"""Units of work that are kept: an interrupted experiment goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from outtrees import __version__
from outtrees._common.files import write_atomically
from outtrees.parallel import run_units_into

# (done, total, what was done last)
Progress = Callable[[int, int, str], None]
Work = Callable[["Unit", Mapping[str, Any]], Mapping[str, Any]]


def seed_of(*names: str | int) -> int:
    """Return a seed below 2³² that depends on the names alone, in their order.

    Examples
    --------
    >>> seed_of("table1", "heart", "split", 0) == seed_of("table1", "heart", "split", 0)
    True
    >>> seed_of("table1", "heart", "split", 0) == seed_of("table1", "heart", "split", 1)
    False
    """
    text = json.dumps([str(name) for name in names])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


@dataclass(frozen=True)
class Unit:
    """One method on one fold of one data set.

    Examples
    --------
    >>> unit = Unit("table1", "heart", "GMM-1", 3)
    >>> unit.file
    'heart.GMM-1.03.json'
    """

    experiment: str
    dataset: str
    method: str
    fold: int

    @property
    def seed(self) -> int:
        """A seed of its own: the same wherever, whenever and beside whatever the unit runs."""
        return seed_of(self.experiment, self.dataset, self.method, self.fold)

    @property
    def file(self) -> str:
        """The name of the file that holds its result."""
        words = [re.sub(r"[^\w+-]+", "-", w).strip("-") for w in (self.dataset, self.method)]
        return f"{words[0]}.{words[1]}.{self.fold:02d}.json"


@dataclass(frozen=True)
class Run:
    """How an experiment is run: what a user chooses, and where results go."""

    out: Path  # the folder of all experiments
    folds: int | None = None  # where there are any; None: those of the paper
    n_jobs: int = 1  # units at a time
    quick: bool = False  # a small form, in seconds
    data: Path | None = None  # figures 3 and 4: matrices of the user's own
    progress: Progress | None = None

    @property
    def side_by_side(self) -> dict[str, Any]:
        """The options of `run_units` that no result depends on."""
        return {"n_jobs": self.n_jobs, "progress": self.progress}


def run_units(
    folder: Path,
    units: Sequence[Unit],
    work: Work,
    *,
    settings: Mapping[str, Any] | None = None,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Return the result of each unit, in their order; those found in the folder are not run again.

    `outtrees.parallel` runs them. Each result is written as soon as it is there, whole or not at
    all, to ``folder/units``, with the unit's names, seed, settings and the version of the library;
    if any of these differs the unit is run again. The files hold the same bytes whatever ran beside
    them and on whichever backend of joblib (``joblib.parallel_config``): every unit has a seed of
    its own and one BLAS thread. What it cost, which is never twice the same, stands apart in
    ``folder/costs``.

    Parameters
    ----------
    folder : path
        Of the experiment; made if need be.
    units : sequence of Unit
    work : function of (unit, settings)
        Returns a dictionary of numbers, texts and lists of them. It must be importable by its
        name, for other processes to find it.
    settings : mapping, optional
        What the results depend on beside the unit, in types that JSON knows: "quick", a
        checksum of data that came from outside.
    n_jobs : int
    progress : function of (done, total, name), optional

    Raises
    ------
    RuntimeError
        That names the first unit that failed, after all others are done and kept.

    Examples
    --------
    >>> import tempfile
    >>> def draw(unit, settings):
    ...     return {"score": unit.fold + settings["shift"]}
    >>> units = [Unit("example", "toy", "draw", fold) for fold in range(3)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run_units(Path(folder), units, draw, settings={"shift": 0.5})
    [{'score': 0.5}, {'score': 1.5}, {'score': 2.5}]
    """
    files = [unit.file for unit in units]
    twice = {file for file in files if files.count(file) > 1}
    if twice:
        raise ValueError(
            f"each unit must have a file of its own; got two for {sorted(twice)[0]!r}. Give their "
            "data sets or methods other names."
        )
    by_name = dict(zip(files, units, strict=True))
    store = _Results(folder, by_name, {} if settings is None else dict(settings))
    tell = progress or (lambda done, total, name: None)
    failures = run_units_into(
        store,
        _timed,
        by_name,
        data=(work, store.settings),
        n_jobs=n_jobs,
        progress=lambda done, total: tell(done, total, store.last),
    )
    if failures:
        name, reason = next(iter(failures.items()))
        raise RuntimeError(
            f"{len(failures)} of {len(units)} units failed, first {name!r}: {reason}. The others "
            "are kept; run the experiment again after correcting it."
        )
    return [store.found[file] for file in files]


def _timed(unit: Unit, data: tuple[Work, Mapping[str, Any]], seed: object) -> dict[str, Any]:
    """Return a unit's result and cost; its seed is its own, not that of a run."""
    work, settings = data
    begin = time.process_time()
    result = work(unit, settings)
    return {"result": result, "cpu_seconds": round(time.process_time() - begin, 3)}


class _Results:
    """The folder of an experiment, as `run_units_into` asks for it."""

    seed = 0  # units have their own

    def __init__(self, folder: Path, units: Mapping[str, Unit], settings: dict[str, Any]):
        self.units, self.settings = units, settings
        self.results, self.costs = folder / "units", folder / "costs"
        self.found: dict[str, dict[str, Any]] = {}
        self.last = ""  # what was written last, in words
        for place in (self.results, self.costs):
            place.mkdir(parents=True, exist_ok=True)

    def has(self, name: str) -> bool:
        """Return whether the file holds a result for these names, settings and version."""
        try:
            content = json.loads((self.results / name).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # not there, or damaged
            return False
        if not isinstance(content, dict) or not isinstance(content.get("result"), dict):
            return False
        if any(content.get(key) != value for key, value in self._about(name).items()):
            return False
        self.found[name] = content["result"]
        return True

    def write(self, name: str, result: bytes) -> None:
        """Keep a result, and apart from it what it cost."""
        unit, outcome = self.units[name], json.loads(result)
        self.found[name] = outcome["result"]
        cost = {**asdict(unit), "cpu_seconds": outcome["cpu_seconds"]}
        write_atomically(self.costs / name, json.dumps(cost) + "\n")
        content = {**self._about(name), "result": outcome["result"]}
        text = json.dumps(content, indent=1, sort_keys=True)
        write_atomically(self.results / name, text + "\n")
        self.last = f"{unit.dataset}, {unit.method}, fold {unit.fold + 1}"

    def _about(self, name: str) -> dict[str, Any]:
        unit = self.units[name]
        about = {**asdict(unit), "seed": unit.seed, "version": __version__}
        return {**about, "settings": json.loads(json.dumps(self.settings))}


def cpu_seconds(folder: Path, units: Sequence[Unit]) -> list[float | None]:
    """Return the processor time that each unit took when it was run; None where it is not known."""
    found = []
    for unit in units:
        file = folder / "costs" / unit.file
        found.append(json.loads(file.read_text())["cpu_seconds"] if file.is_file() else None)
    return found

"""Units of work that are kept: an interrupted experiment goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from outtrees._common.files import write_atomically

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

    Each result is written as soon as it is there, whole or not at all, to ``folder/units``, with
    the unit's names, seed, settings and the version of the library; if any of these differs the
    unit is run again. The files hold the same bytes whatever ran beside them and on
    whichever backend of joblib (``joblib.parallel_config``): every unit has a seed of its own and
    one BLAS thread. What it cost, which is never twice the same, stands apart in ``folder/costs``.

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
    settings = {} if settings is None else dict(settings)
    stored, spent = folder / "units", folder / "costs"
    for place in (stored, spent):
        place.mkdir(parents=True, exist_ok=True)
    files = [unit.file for unit in units]
    twice = {file for file in files if files.count(file) > 1}
    if twice:
        raise ValueError(
            f"each unit is expected to have a file of its own, but {sorted(twice)[0]!r} is that of "
            "two; give their data sets or methods other names."
        )
    found = {i: _stored(stored / unit.file, unit, settings) for i, unit in enumerate(units)}
    results = {i: result for i, result in found.items() if result is not None}
    missing = [i for i in range(len(units)) if i not in results]
    tell = progress or (lambda done, total, name: None)
    tell(len(results), len(units), "")
    # One unit a batch: what is done is written at once.
    pool = Parallel(
        n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="all"
    )
    for i, result, seconds in pool(delayed(_done)(i, work, units[i], settings) for i in missing):
        unit = units[i]
        text = _text({**_names(unit, settings), "result": result}, unit)
        results[i] = json.loads(text)["result"]
        cost = json.dumps({**asdict(unit), "cpu_seconds": round(seconds, 3)})
        write_atomically(spent / unit.file, cost + "\n")
        write_atomically(stored / unit.file, text)
        tell(len(results), len(units), f"{unit.dataset}, {unit.method}, fold {unit.fold + 1}")
    return [results[i] for i in range(len(units))]


def cpu_seconds(folder: Path, units: Sequence[Unit]) -> list[float | None]:
    """Return the processor time that each unit took when it was run; None where it is not known."""
    found = []
    for unit in units:
        file = folder / "costs" / unit.file
        found.append(json.loads(file.read_text())["cpu_seconds"] if file.is_file() else None)
    return found


def library_version() -> str:
    """Return the version of this library, "unknown" if it is not installed.

    Examples
    --------
    >>> library_version().count(".") >= 1 or library_version() == "unknown"
    True
    """
    try:
        return version("outtrees")
    except PackageNotFoundError:
        return "unknown"


def _done(
    i: int, work: Work, unit: Unit, settings: Mapping[str, Any]
) -> tuple[int, Mapping[str, Any], float]:
    """Run one unit; sums over several BLAS threads would differ in their last digits."""
    begin = time.process_time()
    with threadpool_limits(1):
        result = work(unit, settings)
    return i, result, time.process_time() - begin


def _names(unit: Unit, settings: Mapping[str, Any]) -> dict[str, Any]:
    names = {**asdict(unit), "seed": unit.seed, "version": library_version()}
    return {**names, "settings": json.loads(json.dumps(settings))}


def _stored(file: Path, unit: Unit, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the result in the file; None if there is none for these names and settings."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # not there, or not ours
        return None
    if not isinstance(content, dict) or not isinstance(content.get("result"), dict):
        return None
    names = _names(unit, settings)
    return content["result"] if all(content.get(k) == v for k, v in names.items()) else None


def _text(content: Mapping[str, Any], unit: Unit) -> str:
    try:
        return json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"unit {unit.file!r} is expected to return finite numbers, texts and lists of them, "
            f"but JSON says: {error}; convert arrays with tolist(), and find out where a NaN or an "
            "infinity comes from"
        ) from error

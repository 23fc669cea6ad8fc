"""Many populations in one table, each fitted on its own, on many cores or machines."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from outtrees import __version__
from outtrees._common.parameters import check_params
from outtrees._common.progress import note, under_way
from outtrees._common.random import as_generator
from outtrees._common.text import first_ten
from outtrees.ancestry.estimator import Ancestry
from outtrees.ancestry.inputs import read_table
from outtrees.candidates.plan import MOST_DENSE
from outtrees.errors import ArgumentError, Option, RecordsError
from outtrees.io.tables import Table, to_csv, write_csv
from outtrees.parallel import RunFolder, run_units_into
from outtrees.parallel.folder import open_text
from outtrees.records import Records

PARENTS, LABELS, POPULATIONS = "parents.csv", "labels.csv", "populations.csv"


@dataclass(frozen=True)
class PopulationFits:
    """What came of fitting many populations.

    Attributes
    ----------
    folder : Path
        Where parents.csv, populations.csv and, with labels, labels.csv are.
    table : Table
        A row for each population: records, log_likelihood, iterations, converged, expected_right
        (number of right parents expected in the consensus tree), dropped_mass (the share of
        probability on parents that were no candidates, None if all took part), failure (empty if
        it was fitted).
    """

    folder: Path
    table: Table

    @property
    def failures(self) -> dict[str, str]:
        """The populations that could not be fitted, with the reasons."""
        rows = zip(self.table["population"], self.table["failure"], strict=True)
        return {name: reason for name, reason in rows if reason}


def fit_populations(
    ancestry: Ancestry,
    table: Any,
    by: str | None = None,
    out: str | os.PathLike[str] = "populations",
    *,
    sequences: Any = None,
    unsequenced: str = "error",
    min_support: float = 0.1,
    n_jobs: int | None = None,
    scheduler: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PopulationFits:
    """Fit each population of a table on its own, write its parents, and return what came out.

    Records of different populations are never related, as with a column of kind "group"; but here
    each population has parameters of its own and is a unit of work of its own. Kinds of columns and
    their categories are those of the whole table. Identities need to differ within each population
    only.

    Parameters
    ----------
    ancestry : Ancestry
        How to fit; it is not changed. Its `known_parents` and `forbidden` may name records of any
        population, if no other has a record of that name.
    table : path, data frame, mapping of columns, or Records
        See `outtrees.records.read_records`. Records that are read already need groups, and may
        be read with unique_within="group".
    by : str
        The column that names each record's population.
    out : path
        The folder for the results. If it holds a part of this same run, the run goes on there; a
        folder of another run is refused.
    sequences : path or mapping, optional
    unsequenced : {"error", "missing"}
        Whether records that `sequences` do not name are refused, or all their sites unread.
    min_support : float
        Parents less probable than this are not listed.
    n_jobs : int, optional
        Populations at the same time, as in joblib.
    scheduler : str, optional
        The address of a Dask scheduler whose workers do the work.
    progress : callable, optional
        Called as progress(finished, total).

    Returns
    -------
    PopulationFits
        A table with a row for each population, and the reasons of those that failed.

    Notes
    -----
    The bytes written do not depend on where populations were fitted, in which order, or how often
    the run was interrupted. (Between different kinds of processors the last digits may differ.)
    With candidates="auto", all pairs take part in populations of up to 4,000 records, however much
    memory there is. A population that cannot be fitted is listed with the reason, and tried again
    when the run is repeated. Time and memory of each are those of `Ancestry.fit`; here, one
    population at a time is held beside the table.

    Examples
    --------
    >>> import tempfile
    >>> table = {
    ...     "case": ["a1", "a2", "a3", "b1", "b2"],
    ...     "site": ["A", "A", "A", "B", "B"],
    ...     "day": [0, 3, 6, 0, 2],
    ... }
    >>> model = Ancestry(id="case", kinds={"day": "date"}, waiting_mean=3.0, waiting_sd=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = fit_populations(model, table, by="site", out=folder)
    ...     print((found.folder / "parents.csv").read_text().splitlines()[0])
    population,child,parent,support,rank
    >>> found.table["population"], found.table["records"], found.failures
    (['A', 'B'], [3, 2], {})
    """
    check_params(ancestry)
    if ancestry.root is not None:
        raise ArgumentError(
            Option("root", ancestry.root),
            " names one record, but every population has a root of its own; say ",
            Option("known_parents", {ancestry.root: None}),
            " instead",
        )
    if ancestry.group_spread:
        raise ArgumentError(
            Option("group_spread", True),
            " shares parameters between groups, but every population is fitted "
            "on its own, with its own spread; leave it out",
        )
    records = _read(ancestry, table, by, sequences, unsequenced)
    populations = Populations(records, ancestry.known_parents, ancestry.forbidden)
    bare = clone(ancestry).set_params(
        known_parents=None, forbidden=None, progress=None, random_state=None
    )
    state = ancestry.random_state
    seed = None if state is None else int(as_generator(state).integers(2**63))
    folder = RunFolder(out, digest_of(records), _settings(ancestry, min_support), seed)

    def tell(finished: int, total: int) -> None:
        note(f"{finished} of {total} populations")
        if progress is not None:
            progress(finished, total)

    with under_way("fit_populations"):
        failures = run_units_into(
            folder,
            fit_population,
            populations,
            data=(bare, min_support),
            n_jobs=n_jobs,
            scheduler=scheduler,
            progress=tell,
        )
    return PopulationFits(folder.path, _merge(folder, populations, failures))


def fit_population(
    unit: tuple[Records, dict[str, Any]],
    data: tuple[Ancestry, float],
    seed: np.random.SeedSequence,
) -> dict[str, Any]:
    """Return the parents of one population and what was learned, as data that JSON knows."""
    records, known = unit
    ancestry, min_support = data
    # Parameters are drawn as in a fit of this population alone.
    model = clone(ancestry).set_params(**known, random_state=None)
    # By size alone: how much memory this machine has left must not change results here.
    if model.candidates == "auto":
        model.set_params(candidates="dense" if len(records) <= MOST_DENSE else "knn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told by `converged`
        model.fit(records)
    dropped = model.dropped_mass_
    result = {
        "records": len(records),
        "log_likelihood": float(model.log_likelihood_),
        "iterations": int(model.n_iter_),
        "converged": bool(model.converged_),
        "expected_right": float(model.expected_right_),
        "dropped_mass": None if dropped is None else float(dropped.mean),
        "parameters": model.describe(),
        "warnings": list(model.warnings_),
        "parents": dict(model.parents(min_support)),
    }
    if any(column.kind == "label" for column in records.columns):
        result["labels"] = dict(model.predict_labels(random_state=np.random.default_rng(seed)))
    return result


def _read(
    ancestry: Ancestry, table: Any, by: str | None, sequences: Any, unsequenced: str
) -> Records:
    if isinstance(table, Records) and (by is not None or sequences is not None):
        raise RecordsError(
            "these records are read already; name the populations when reading, ",
            Option("kinds", {"site": "group"}),
            ", and join sequences then",
        )
    kinds = dict(ancestry.kinds or {})
    if by is not None:
        others = [name for name, kind in kinds.items() if kind == "group" and name != by]
        if others or kinds.get(by, "group") != "group":
            raise RecordsError(
                f"by={by!r} names the populations, but kinds make it {kinds.get(by)!r} and "
                f"{first_ten(others) or 'nothing'} the group; leave these kinds out"
            )
        kinds[by] = "group"
    return read_table(ancestry, table, sequences, unsequenced, kinds=kinds, unique_within="group")


def _settings(ancestry: Ancestry, min_support: float) -> dict[str, Any]:
    """Return what results depend on besides the records: options, and the version."""
    aside = ("progress", "random_state", "id", "kinds")  # the records show what became of these
    options = {name: value for name, value in ancestry.get_params().items() if name not in aside}
    options = {name: _plain(value) for name, value in options.items()}
    return {**options, "min_support": min_support, "outtrees": __version__}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def _merge(folder: RunFolder, populations: Populations, failures: Mapping[str, str]) -> Table:
    """Write the tables of all populations, one population in memory at a time."""
    said = ("log_likelihood", "iterations", "converged", "expected_right", "dropped_mass")
    rows: dict[str, list[Any]] = {name: [] for name in ("population", "records", *said, "failure")}
    labelled = any(column.kind == "label" for column in populations.records.columns)
    headers: dict[str, tuple[str, ...]] = {PARENTS: ("child", "parent", "support", "rank")}
    if labelled:
        headers[LABELS] = ("record", "column", "label", "support", "error")
    sizes = populations.sizes()
    for name in populations:
        rows["population"].append(name)
        rows["records"].append(sizes[name])
        rows["failure"].append(failures.get(name, ""))
    with folder.results({"outtrees": __version__, "command": "populations"}) as stage:
        for file, columns in headers.items():
            with open_text(stage / file) as text:
                text.write(to_csv({"population": [], **{column: [] for column in columns}}))
                for name in populations:
                    found = None if name in failures else folder.read(name)
                    if file == PARENTS:
                        for key in said:
                            rows[key].append(None if found is None else found[key])
                    if found is not None:
                        part = found[file.removesuffix(".csv")]
                        whole = {"population": [name] * len(part["support"]), **part}
                        text.write(to_csv(whole).split("\n", 1)[1])
        table = Table(rows)
        write_csv(stage / POPULATIONS, table)
    return table


# The records of each population ----------------------------------------------------------------


class Populations(Mapping[str, tuple[Records, dict[str, Any]]]):
    """Each population's own records and what is known of them, cut out when asked for.

    Parameters
    ----------
    records : Records
        With groups.
    known_parents : mapping of identities, or None
    forbidden : iterable of pairs of identities, or None
    """

    def __init__(self, records: Records, known_parents: Any = None, forbidden: Any = None) -> None:
        if records.groups is None:
            raise RecordsError(
                "records must say to which population they belong; got none with groups. Read them "
                "with ",
                Option("kinds", {"site": "group"}),
                ", or give ",
                Option("by", "site"),
            )
        self.records = records
        order = np.argsort(records.groups, kind="stable")
        groups = records.groups[order]
        starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
        names = [records.group_names[groups[i]] for i in starts]
        self._rows = dict(zip(names, np.split(order, starts[1:]), strict=True))
        self._known: dict[str, dict[Any, Any]] = {name: {} for name in names}
        self._forbidden: dict[str, list[tuple[Any, Any]]] = {name: [] for name in names}
        place: dict[str, list[int]] = {}
        for row, name in enumerate(records.ids):
            place.setdefault(name, []).append(row)
        for child, parent in dict(known_parents or {}).items():
            ends = (child,) if parent is None or parent == "" else (child, parent)
            home = self._homes(ends, place)
            if len(home) > 1:
                raise RecordsError(
                    f"the known parent {parent!r} of {child!r} belongs to another population; "
                    "correct one of the two"
                )
            self._known[home.pop()][child] = parent
        for pair in forbidden or ():
            home = self._homes(pair, place)
            if len(home) == 1:  # else they are no pair anyway
                self._forbidden[home.pop()].append(tuple(pair))

    def _homes(self, ends: Any, place: Mapping[str, list[int]]) -> set[str]:
        for name in ends:
            if str(name) not in place:
                raise RecordsError(
                    f"no record is called {str(name)!r}; identities are like {next(iter(place))!r}"
                )
            if len(place[str(name)]) > 1:
                raise RecordsError(
                    f"{len(place[str(name)])} populations have a record called {str(name)!r}; say "
                    "parents in a column of kind 'parent', or give the records names that differ"
                )
        groups = self.records.groups
        assert groups is not None  # asked in the constructor
        return {self.records.group_names[groups[place[str(name)][0]]] for name in ends}

    def sizes(self) -> dict[str, int]:
        """Return the number of records of each population."""
        return {name: len(rows) for name, rows in self._rows.items()}

    def __getitem__(self, name: str) -> tuple[Records, dict[str, Any]]:
        own = replace(self.records.take(self._rows[name]), groups=None, group_names=())
        return own, {
            "known_parents": self._known[name] or None,
            "forbidden": self._forbidden[name] or None,
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def digest_of(records: Records) -> str:
    """Return a digest of everything that a fit may see."""
    digest = hashlib.sha256()

    def add(part: Any) -> None:
        raw = part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)

    add((records.ids, sorted(records.known_parents.items()), records.group_names))
    samples = records.samples
    below = () if samples is None else samples.table.columns
    for column in (*records.columns, *below):
        add((column.name, column.kind, column.levels, column.text, column.calendar))
        add((column.values.shape, column.values.dtype.str))
        add(np.ascontiguousarray(column.values).tobytes())
        add(b"" if column.uncertainty is None else np.asarray(column.uncertainty).tobytes())
    if samples is not None:
        add((samples.table.ids, samples.host.tolist(), samples.at.tolist()))
        add(np.asarray(samples.shares, dtype=np.float64).tobytes())
    assert records.groups is not None  # asked by `Populations`
    add(np.asarray(records.groups, dtype="<i8").tobytes())
    return digest.hexdigest()

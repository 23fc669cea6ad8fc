"""Files of a fitted table: report, trees, tables, formats of other tools; methods of `Ancestry`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from outtrees import io
from outtrees._common.docs import shared_docs
from outtrees._common.text import counted
from outtrees.ancestry.model_choice import date_options
from outtrees.ancestry.nearest import transmission_of
from outtrees.ancestry.posterior import Posterior
from outtrees.ancestry.report import report_data as report_of
from outtrees.ancestry.spread import Spread
from outtrees.ancestry.support import ranked
from outtrees.io.formats import Field, Findings
from outtrees.records import Column
from outtrees.views.report import write_report
from outtrees.views.report_data import ReportData

if TYPE_CHECKING:
    from outtrees.ancestry.estimator import Ancestry

_documented = shared_docs(
    file="path : path, optional\n    A file that is written too.\n"
    'kind : {"consensus", "mode", "sample"}\n    As in `tree`.',
    text="Returns\n-------\nstr\n    The text.",
    report="command : str, optional\n    What was typed, for the provenance.\n"
    "spread : Spread, optional\n    What `spread` returned, if it was computed already.",
)


@_documented
def report_data(
    self: Ancestry, command: str | None = None, spread: Spread | None = None
) -> ReportData:
    """Return what the report shows; `spread`, if it was computed already, is used.

    Parameters
    ----------
    {report}

    Returns
    -------
    ReportData
        Records, edges with their evidence, trees, parameters and provenance.
    """
    if spread is None and transmission_of(self.lineage_) is not None:
        spread = self.spread()
    return report_of(
        self.fitted,
        parameters=self._sentences(),
        warnings=self.warnings_,
        trace=self.objectives_,
        seed=self.random_state,
        command=command,
        spread=spread,
    )


@_documented
def report(
    self: Ancestry,
    path: str | os.PathLike[str],
    command: str | None = None,
    spread: Spread | None = None,
) -> Path:
    """Write the report, one HTML file that needs nothing else; return its path.

    Parameters
    ----------
    path : path
        Where the file is written.
    {report}

    Returns
    -------
    Path
        The file.
    """
    return write_report(self.report_data(command, spread), path)


def write(
    self: Ancestry,
    to: str,
    path: str | os.PathLike[str],
    kind: str = "consensus",
    *,
    min_support: float = 0.01,
    n_draws: int = 1000,
    random_state: Any = None,
) -> Path:
    """Write the results in another tool's format and return the path.

    Parameters
    ----------
    to : str
        One of `outtrees.io.FORMATS`: "auspice", "microreact", "microbetrace", "epicontacts",
        "dot", "nexus", "geff", "ctc", "anndata", "treedata" or "arviz".
    path : path
        A folder, which must not be there yet, for formats of several files.
    kind : {"consensus", "mode", "sample"}
        The tree.
    min_support : float
        Of candidate parents besides those of the tree, where a format lists them.
    n_draws : int
        Parameters and trees that are drawn for "arviz".
    random_state : int, Generator or None
        For drawn trees; by default that of the model.

    Returns
    -------
    Path
        The path.

    Raises
    ------
    ValueError
        If there is no such format, or it needs what the table lacks.
    MissingExtraError
        If the library that writes it is not installed.
    """
    if to not in io.FORMATS:
        raise ValueError(f"to must be one of {', '.join(io.FORMATS)}; got {to!r}")
    rng = self._generator(random_state)
    parents = self.tree(kind, random_state)
    found = findings(self.fitted, parents, min_support, date_options(self).until)
    if to == "arviz":
        table = self.posterior(n_draws)
        parameters = {name: table[name] for name in table.columns[2:]}
        drawn = self.fitted.trees.sample(len(table), rng)
        found = replace(found, draws=drawn, parameters=parameters)
    return io.FORMATS[to].write(found, path)


@_documented
def to_newick(
    self: Ancestry, path: Any = None, kind: str = "consensus", *, leaves: bool = False
) -> str:
    """Return (and write) the tree as Newick, a line for each root.

    Parameters
    ----------
    {file}
    leaves : bool
        Whether each record that is a parent is also a leaf, for tools that know names at
        leaves only.

    {text}

    Examples
    --------
    >>> from outtrees import Ancestry
    >>> table = {"id": ["a", "b", "c"], "day": [1, 4, 8], "ward": ["N", "N", "S"]}
    >>> model = Ancestry(kinds={"day": "date"}, waiting_mean=4.0, waiting_sd=2.0)
    >>> print(model.fit(table).to_newick())
    ((c[&support=0...]:4)b[&support=0.8...]:3)a[&support=1];
    """
    return _written(path, io.to_newick(*_named_tree(self, kind), leaves=leaves))


@_documented
def to_nexus(
    self: Ancestry, path: Any = None, kind: str = "consensus", *, leaves: bool = False
) -> str:
    """Return (and write) the tree as NEXUS.

    Parameters
    ----------
    {file}
    leaves : bool
        As in `to_newick`.

    {text}
    """
    return _written(path, io.to_nexus(*_named_tree(self, kind), leaves=leaves))


@_documented
def to_graphml(self: Ancestry, path: Any = None, kind: str = "consensus") -> str:
    """Return (and write) the tree as GraphML.

    Parameters
    ----------
    {file}

    {text}
    """
    return _written(path, io.to_graphml(*_named_tree(self, kind)))


def to_networkx(self: Ancestry, kind: str = "consensus") -> Any:
    """Return the tree as a networkx graph, from parents to children.

    Parameters
    ----------
    kind : {"consensus", "mode", "sample"}
        As in `tree`.

    Returns
    -------
    networkx.DiGraph
        With `support` and `length` of edges.

    Raises
    ------
    MissingExtraError
        If networkx is not installed.
    """
    return io.to_networkx(*_named_tree(self, kind))


def to_arviz(self: Ancestry, n_draws: int = 400) -> Any:
    """Return draws of equal weight for arviz; needs the extra `arviz`.

    Parameters
    ----------
    n_draws : int
        How many.

    Returns
    -------
    arviz.InferenceData
        With the group posterior.

    Raises
    ------
    ImportError
        If arviz is not installed.
    """
    try:
        from arviz import from_dict
    except ImportError as error:
        raise ImportError(
            "to_arviz needs arviz, which is not installed. Run pip install 'outtrees[arviz]'."
        ) from error
    table = self.posterior(n_draws)
    return from_dict(posterior={n: np.array([table[n]]) for n in table.columns[2:]})


def to_csv(self: Ancestry, path: str | os.PathLike[str], min_support: float = 0.01) -> Path:
    """Write the parents' table; return its path.

    Parameters
    ----------
    path : path
        The file; TSV if it ends so.
    min_support : float
        Parents with less support are left out.

    Returns
    -------
    Path
        The file.
    """
    return io.write_csv(path, self.parents(min_support))


def _named_tree(self: Ancestry, kind: str) -> tuple[Any, ...]:
    """Return identities, parents, supports and dates, as the exchange formats take them."""
    posterior, parents = self.fitted, self.tree(kind)
    return posterior.records.ids, parents, posterior.supports(parents), posterior.days


def _written(path: Any, text: str) -> str:
    if path is not None:
        io.write_text(path, text)
    return text


def findings(
    posterior: Posterior,
    parents: NDArray[np.intp],
    min_support: float,
    until: str | None,
) -> Findings:
    """Return this tree with supports, candidates of at least `min_support`, and all columns."""
    records, dates = posterior.records, posterior.dates
    best = ranked(posterior)
    kept = (best.support >= min_support) | (parents[best.child] == best.parent)
    rows = zip(best.child[kept], best.parent[kept], best.support[kept], strict=True)
    names = (column.name for column in records.columns)
    end = records.column(until) if until is not None and until in names else None
    place = next((c for c in records.columns if c.kind == "place"), None)
    shown = [c for c in records.columns if c.kind not in ("sequence", "place") and c is not dates]
    return Findings(
        title=f"Ancestry of {counted(len(records), 'record')}",
        ids=records.ids,
        parents=parents.tolist(),
        supports=posterior.supports(parents).tolist(),
        root_probability=posterior.trees.root_marginals.tolist(),
        candidates=[(int(u), int(v), float(s)) for u, v, s in rows],
        fields={column.name: _field(column) for column in shown},
        dates=None if dates is None else _numbers(dates),
        ends=None if end is None else _numbers(end),
        calendar=posterior.calendar,
        places=None if place is None else _places(place.values),
        end_places=None if place is None or place.end_values is None else _places(place.end_values),
        coordinates=None if place is None or not place.projected else _coordinates(place),
        changes=_changes(posterior, parents),
        n_sites=next((c.values.shape[1] for c in records.columns if c.kind == "sequence"), 0),
    )


def _numbers(column: Column) -> list[float | None]:
    return [None if np.isnan(v) else float(v) for v in column.values[:, 0]]


def _field(column: Column) -> Field:
    cells: list[Any] = [text or None for text in column.text]
    if column.kind in ("continuous", "count"):
        cells = _numbers(column)
    return Field(column.kind, cells, column.states if column.levels is not None else None)


def _places(values: NDArray[np.float64]) -> list[tuple[float, ...] | None]:
    rows = values[:, :3].tolist()
    return [None if np.isnan(row).any() else tuple(row) for row in rows]


def _coordinates(column: Column) -> list[tuple[float, float] | None]:
    """Return latitudes and longitudes, as the cells have them."""
    found: list[tuple[float, float] | None] = []
    for text in column.text:
        try:
            lat, lon = (float(part) for part in text.split(","))
        except ValueError:
            found.append(None)
            continue
        found.append((lat, lon))
    return found


def _changes(posterior: Posterior, parents: NDArray[np.intp]) -> list[list[str]] | None:
    """Return the substitutions from each record's parent to it, of the first sequence column."""
    column = next((c for c in posterior.records.columns if c.kind == "sequence"), None)
    if column is None or any(len(level) != 1 for level in column.levels or ()):
        return None
    values, letters = column.values, column.levels or ()
    found: list[list[str]] = []
    for child, parent in enumerate(parents.tolist()):
        if parent < 0:
            found.append([])
            continue
        a, b = values[parent], values[child]
        sites = np.flatnonzero((a != b) & ~np.isnan(a) & ~np.isnan(b))
        found.append([f"{letters[int(a[s])]}{s + 1}{letters[int(b[s])]}" for s in sites.tolist()])
    return found

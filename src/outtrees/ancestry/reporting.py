"""What a fit says to people and to other tools: sentences, reports, trees, simulations."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np

from outtrees import __version__
from outtrees.ancestry.fitted import Fitted
from outtrees.ancestry.questions import log_density, ranked_parents
from outtrees.candidates.choices import log_sums
from outtrees.candidates.dropped_mass import DroppedMass
from outtrees.io import to_graphml, to_networkx, to_newick, to_nexus, write_text
from outtrees.io.tables import Table
from outtrees.models.columns import GroupedDrift, Sticky, Substitution, Waiting
from outtrees.records.column import counted
from outtrees.views.report_data import ReportColumn, ReportData, ReportEdge

_LEAST_SUPPORT = 1e-3  # candidates below this are not in the report
_EPOCH = date(1970, 1, 1)


def parameter_sentences(fitted: Fitted) -> list[str]:
    """Return the fitted parameters in words."""
    lineage = fitted.lineage
    # A change knows numbers; that they are days, the column knows.
    calendar = any(c.kind == "date" and c.calendar for c in fitted.records.columns)
    unit = "days" if calendar else "units of time"
    sentences = []
    for name, kernel, share in zip(
        fitted.names, lineage.kernels, lineage.outlier_shares, strict=True
    ):
        text = f"{name}: {kernel.describe()}".replace(" units of time", f" {unit}")
        if share > 0:
            text += f"; {share:.1%} of the cells do not follow their parent"
        sentences.append(text + ".")
    if lineage.exponents is not None:
        sentences.append(exponent_sentence(fitted, lineage.exponents))
    if lineage.generations > 1:
        links = ", ".join(f"{k}: {w:.1%}" for k, w in enumerate(lineage.step_weights, start=1))
        sentences.append(f"links between a record and its parent record: {links}.")
    if fitted.roots == "any":
        expected = float(fitted.trees.root_marginals.sum())
        sentences.append(
            f"{expected:.2f} records are expected to be roots (each with probability "
            f"{fitted.root_rate:.3g} beforehand)."
        )
    return sentences


def exponent_sentence(fitted: Fitted, exponents: Any, limit: int | None = None) -> str:
    """Return how often each column counts, in words."""
    powers = ", ".join(
        f"{name} {power:.2f}" for name, power in zip(fitted.names, exponents, strict=True)
    )
    where = "" if limit is None else f"where no record has more than {_children(limit)}, "
    return f"{where}columns count as often as known parents ask for: {powers}."


def _children(limit: int) -> str:
    return "1 child" if limit == 1 else f"{limit} children"


def dropped_sentence(dropped: DroppedMass) -> str:
    """Return the probability that candidates leave out, with its error, in words."""
    if dropped.kind == "exact":
        return (
            f"parents that are no candidates hold {dropped.mean:.2g} of a record's probability "
            f"(all {dropped.n_records} records were looked at)."
        )
    text = (
        f"parents that are no candidates hold {dropped.mean:.2g} ± {dropped.error:.1g} of a "
        f"record's probability (a sample of {dropped.n_records} records"
    )
    return text + (")." if dropped.bound is None else f"; at most {dropped.bound:.2g}).")


# The report --------------------------------------------------------------------------------


def report_data(ancestry: Any, command: str | None) -> ReportData:
    """Return what the report shows."""
    fitted: Fitted = ancestry.fitted
    records = fitted.records
    dates = next((c for c in records.columns if c.kind == "date" and c.name in fitted.names), None)
    T = len(records)
    seed = ancestry.random_state
    provenance = {
        "version": f"outtrees {__version__}",
        "seed": "none" if seed is None else str(seed),
        **({"command": command} if command else {}),
        **{f"sha256 of {name}": digest for name, digest in records.provenance.items()},
    }
    return ReportData(
        title=f"Ancestry of {counted(T, 'record')}",
        ids=list(records.ids),
        columns=[_report_column(column) for column in records.columns],
        edges=_report_edges(fitted),
        evidence_names=list(fitted.names),
        consensus=fitted.consensus.parents,
        mode=fitted.mode.parents,
        dates=None if dates is None else dates.values[:, 0],
        calendar=False if dates is None else dates.calendar,
        root_probability=fitted.trees.root_marginals,
        expected_children=np.bincount(
            fitted.edges.parent, fitted.trees.edge_marginals, minlength=T
        ),
        log_density=log_density(fitted),
        parameters=ancestry.describe(),
        warnings=ancestry.warnings_,
        trace=ancestry.objectives_,
        provenance=provenance,
    )


def _report_column(column: Any) -> ReportColumn:
    values: list[Any]
    if column.kind in ("categorical", "label", "sequence"):
        values = [text or None for text in column.text]
    else:
        first = column.values[:, 0]
        values = [None if np.isnan(v) else float(v) for v in first]
    return ReportColumn(column.name, column.kind, values, list(column.text))


def _report_edges(fitted: Fitted) -> list[ReportEdge]:
    """Return the candidates worth showing, with what each column says for them."""
    T = len(fitted.records)
    order = np.argsort(fitted.edges.child, kind="stable")
    child = fitted.edges.child[order]
    number = np.bincount(child, minlength=T)
    mean = np.full((len(fitted.names), T), -np.inf)  # log of the average candidate's p
    has = number > 0
    for c, row in enumerate(fitted.log_columns):
        mean[c, has] = log_sums(child, row[order], T)[has] - np.log(number[has])
    ranked = ranked_parents(fitted)
    shown = ranked.support >= _LEAST_SUPPORT
    for tree in (fitted.consensus, fitted.mode):  # whose edges are always shown
        shown |= tree.parents[ranked.child] == ranked.parent
    child, parent, edge = ranked.child[shown], ranked.parent[shown], ranked.edge[shown]
    E = len(fitted.edges.child)
    listed = edge < E
    own = fitted.log_alone[:, child]
    own[:, listed] = fitted.log_columns[:, edge[listed]]
    # Without any candidate there is nothing to compare with.
    compared = np.isfinite(mean[:, child])
    evidence = np.where(compared, own - np.where(compared, mean[:, child], 0.0), 0.0)
    rows = zip(
        child.tolist(),
        parent.tolist(),
        ranked.support[shown].tolist(),
        map(tuple, evidence.T.tolist()),
        strict=True,
    )
    return [ReportEdge(*row) for row in rows]


# Files -------------------------------------------------------------------------------------


def exported(ancestry: Any, form: str, path: Any, kind: str, **options: Any) -> Any:
    """Return the tree in one of the exchange formats, and write it where a path is given."""
    fitted: Fitted = ancestry.fitted
    parents = ancestry.tree(kind)
    dates = next(
        (
            column.values[:, 0]
            for column in fitted.records.columns
            if column.kind == "date" and column.name in fitted.names
        ),
        None,
    )
    write = {
        "newick": to_newick,
        "nexus": to_nexus,
        "graphml": to_graphml,
        "networkx": to_networkx,
    }[form]
    result = write(fitted.records.ids, parents, fitted.supports(parents), dates, **options)
    if path is not None:
        write_text(path, result)
    return result


# Simulation --------------------------------------------------------------------------------


def simulated(fitted: Fitted, n: int, rng: np.random.Generator) -> Table:
    """Return n records that the fitted model generates, as a table with their true parents.

    The first is a root; each of the others takes one of those before it as its parent, all equally
    likely.
    """
    kernels = fitted.lineage.kernels
    cells = [np.empty((n, values.shape[1])) for values in fitted.values]
    parents = np.full(n, -1)
    for c, first in enumerate(fitted.lineage.sample_alone(1, rng)):
        cells[c][0] = first
    for i in range(1, n):
        parents[i] = rng.integers(i)
        above = [column[parents[i] : parents[i] + 1] for column in cells]
        for c, child in enumerate(fitted.lineage.sample(above, rng)):
            cells[c][i] = child
    names = [f"r{i + 1}" for i in range(n)]
    table: dict[str, list[Any]] = {
        "id": names,
        "true_parent": [names[p] if p >= 0 else "" for p in parents],
    }
    for name, kernel, values in zip(fitted.names, kernels, cells, strict=True):
        column = fitted.records.column(name)
        if isinstance(kernel, Waiting):
            start = np.nanmin(column.values[:, 0]) if column.calendar else 0.0
            table[name] = [_date(start + v, column.calendar) for v in values[:, 0]]
        elif isinstance(kernel, Substitution):
            table[name] = ["".join(kernel.levels[int(c)] for c in row) for row in values]
        elif isinstance(kernel, Sticky):
            table[name] = [kernel.levels[int(v)] for v in values[:, 0]]
        elif isinstance(kernel, GroupedDrift):
            groups = [fitted.records.group_names[int(g)] for g in values[:, -1]]
            table |= {_group_column(fitted): groups, **_by_axis(name, values[:, :-1])}
        elif values.shape[1] == 1:
            table[name] = values[:, 0].tolist()
        else:
            table |= _by_axis(name, values)
    return Table(table)


def _group_column(fitted: Fitted) -> str:
    return next(name for name, role, _ in fitted.records.roles if role == "group")


def _by_axis(name: str, values: Any) -> dict[str, list[Any]]:
    return {f"{name}_{axis}": cells.tolist() for axis, cells in zip("xyz", values.T, strict=False)}


def _date(value: float, calendar: bool) -> Any:
    return (_EPOCH + timedelta(days=float(value))).isoformat() if calendar else float(value)

"""Results in the formats of other tools: trees, networks and tables with supports.

Each format is a function of `Findings` that returns what is to be written: a text, the files of a
folder, or a function that writes to a path. `Format.write` puts it in place, whole or not at all.
Libraries that a format needs are imported when it is asked for. Text of the records goes through
the escapes of the format, so that no name can break a file.
"""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from outtrees._common.text import free_name
from outtrees.errors import library
from outtrees.io.masks import write_masks
from outtrees.io.readers import SUPPORTS
from outtrees.io.tables import neutral, to_csv
from outtrees.io.trees import (
    check_tree,
    control_escaped,
    quoted_name,
    to_graphml,
    to_newick,
    to_nexus,
)
from outtrees.records.names import RESULTS

_EPOCH = date(1970, 1, 1)
_NUMBERS = ("continuous", "count")
# Of Auspice: what a substitution may be written with.
_BASES = set("ATCGNYRWSKMDVHB-")
_NEWICK = str.maketrans(dict.fromkeys("(),:;[]", "_"))


# A file's text, the files of a folder by their names, or what writes to a path itself.
Content: TypeAlias = "str | Mapping[str, str] | Callable[[Path], object]"


class Field(NamedTuple):
    """One column of the records: its kind and a cell for each, None where nothing is known.

    `states` are those of each cell of a category: several where it is polymorphic, none where
    nothing is known.
    """

    kind: str
    cells: Sequence[float | str | None]
    states: Sequence[tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Findings:
    """A tree of records with all that is known of them, ready for any format."""

    title: str
    ids: Sequence[str]
    parents: Sequence[int]  # −1: a root
    supports: Sequence[float]  # of each record's parent, or of being a root
    root_probability: Sequence[float]
    candidates: Sequence[tuple[int, int, float]]  # child, parent (−1: none), support
    fields: Mapping[str, Field] = field(default_factory=dict)
    dates: Sequence[float | None] | None = None  # days
    ends: Sequence[float | None] | None = None  # when each record ended, if that is known
    calendar: bool = False  # whether days count from 1970-01-01
    places: Sequence[tuple[float, ...] | None] | None = None  # x, y and perhaps z
    end_places: Sequence[tuple[float, ...] | None] | None = None  # where each was at its end
    coordinates: Sequence[tuple[float, float] | None] | None = None  # latitude, longitude
    changes: Sequence[Sequence[str]] | None = None  # substitutions on the way to each record: A45G
    n_sites: int = 0  # of the sequences that these are of
    draws: np.ndarray | None = None  # (n, T) parents of trees drawn from the distribution
    parameters: Mapping[str, Sequence[float]] = field(default_factory=dict)  # n draws of each

    @property
    def days(self) -> np.ndarray | None:
        """The dates as an array, NaN where unknown."""
        return None if self.dates is None else np.array(self.dates, dtype=np.float64)

    def named(self, changed: Callable[[str], str]) -> Findings:
        """Return the same with names that a format can hold, numbered where two become alike."""
        return replace(self, ids=_unique(self.ids, changed))

    def day(self, record: int) -> str:
        """Return the record's date as text, "" if it has none."""
        when = None if self.dates is None else self.dates[record]
        if when is None:
            return ""
        if not self.calendar:
            return f"{when:.12g}"
        return (_EPOCH + timedelta(days=math.floor(when))).isoformat()

    def rows(self) -> dict[str, list[Any]]:
        """Return one row for each record: id, parent, support, date, place and its columns.

        What was found is called as in `RESULTS`, which `read_records` takes for no observation.
        """
        parents = ["" if p < 0 else self.ids[p] for p in self.parents]
        results = parents, list(self.supports), list(self.root_probability)
        found: dict[str, list[Any]] = {
            "id": list(self.ids),
            **dict(zip(RESULTS, results, strict=True)),
        }
        if self.dates is not None:
            found["date"] = [self.day(i) for i in range(len(self.ids))]
        if self.coordinates is not None:
            for axis, name in enumerate(("latitude", "longitude")):
                found[name] = [None if p is None else p[axis] for p in self.coordinates]
        for name, column in self.fields.items():
            found[free_name(name, found)] = list(column.cells)
        return found

    def links(self) -> dict[str, list[Any]]:
        """Return one row for each candidate parent: from (the parent), to, support, in_tree."""
        rows = [(u, v, s) for u, v, s in self.candidates if v >= 0]
        return {
            "from": [self.ids[v] for _, v, _ in rows],
            "to": [self.ids[u] for u, _, _ in rows],
            "support": [s for _, _, s in rows],
            "in_tree": ["yes" if self.parents[u] == v else "no" for u, v, _ in rows],
        }


# Nextstrain and Microreact -----------------------------------------------------------------


def _auspice(found: Findings) -> Content:
    """Return the tree as an Auspice v2 JSON dataset for Nextstrain.

    Every record is a tip; one that is a parent too is an internal node beside, at no distance.
    Supports, root probabilities and columns are colourings; `div` counts substitutions where there
    are sequences, and generations where there are none. A record without a date stands at its
    parent's.
    """
    names = _unique(found.ids, lambda text: "_".join(control_escaped(text).split()) or "record")
    keys = _unique(
        found.fields, lambda text: "col_" + "".join(c if c.isalnum() else "_" for c in text)
    )
    nodes, demes = _auspice_nodes(found, names, dict(zip(found.fields, keys, strict=True)))
    colorings = [
        {"key": "parent_support", "title": "support of the parent", "type": "continuous"},
        {"key": "root_probability", "title": "probability of no parent", "type": "continuous"},
    ]
    if found.dates is not None and found.calendar:
        colorings.append({"key": "num_date", "title": "date", "type": "temporal"})
    for key, (title, column) in zip(keys, found.fields.items(), strict=True):
        kind = "continuous" if column.kind in _NUMBERS else "categorical"
        colorings.append({"key": key, "title": title, "type": kind})
    meta: dict[str, Any] = {
        "title": found.title,
        "updated": date.today().isoformat(),
        "panels": ["tree", "map"] if demes else ["tree"],
        "colorings": colorings,
        "display_defaults": {"color_by": "parent_support"},
    }
    if found.changes is not None:
        # Mutations are shown only beside the extent of what mutates.
        sites = [int(c[1:-1]) for changes in found.changes for c in changes]
        extent = {"start": 1, "end": max([found.n_sites, 1, *sites]), "strand": "+"}
        meta["genome_annotations"] = {"nuc": extent}
    if demes:
        meta["geo_resolutions"] = [{"key": "place", "title": "place", "demes": demes}]
    tree = nodes[0] if len(nodes) == 1 else _hung_together(nodes, names)
    return _json({"version": "v2", "meta": meta, "tree": tree})


def _hung_together(roots: list[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Return several trees as one: their common node is hidden, for nobody observed it."""
    name = free_name("no_common_ancestor", names)
    attributes: dict[str, Any] = {"div": 0, "hidden": "always"}
    dates = [root["node_attrs"].get("num_date", {}).get("value") for root in roots]
    if None not in dates:
        attributes["num_date"] = {"value": min(dates)}
    return {"name": name, "node_attrs": attributes, "branch_attrs": {}, "children": roots}


def _auspice_nodes(
    found: Findings, names: Sequence[str], keys: Mapping[str, str]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the trees, one for each root, and where places lie."""
    tree = check_tree(found.ids, found.parents)
    nodes: list[dict[str, Any]] = [{} for _ in found.ids]
    demes: dict[str, Any] = {}
    taken = set(names)
    div = np.zeros(len(names))
    when: list[float | None] = [None] * len(names)
    roots = []
    for record in tree.order:  # parents first
        parent = int(tree.parents[record])
        changes = [] if found.changes is None else list(found.changes[record])
        if parent >= 0:
            div[record] = div[parent] + (1 if found.changes is None else len(changes))
        attributes: dict[str, Any] = {
            "div": float(div[record]),
            "parent_support": {"value": float(found.supports[record])},
            "root_probability": {"value": float(found.root_probability[record])},
        }
        if found.dates is not None and found.calendar:
            own = found.dates[record]
            when[record] = own if own is not None or parent < 0 else when[parent]
            if when[record] is None:
                when[record] = min((d for d in found.dates if d is not None), default=0.0)
            attributes["num_date"] = {"value": _decimal_year(when[record])}
        for name, key in keys.items():
            cell = found.fields[name].cells[record]
            if cell is not None:
                attributes[key] = {
                    "value": control_escaped(cell) if isinstance(cell, str) else cell
                }
        place = None if found.coordinates is None else found.coordinates[record]
        if place is not None:
            name = f"{place[0]:.4f}, {place[1]:.4f}"
            demes[name] = {"latitude": place[0], "longitude": place[1]}
            attributes["place"] = {"value": name}
        branch: dict[str, Any] = {"labels": {"support": f"{found.supports[record]:.0%}"}}
        written = [c for c in changes if {c[0], c[-1]} <= _BASES]
        if written:
            branch["mutations"] = {"nuc": written}
        tip: dict[str, Any] = {
            "name": names[record],
            "node_attrs": attributes,
            "branch_attrs": branch,
        }
        if tree.children[record]:
            label = free_name(f"as_parent_{names[record]}", taken)
            taken.add(label)
            still = {"name": names[record], "node_attrs": attributes, "branch_attrs": {}}
            tip = {**tip, "name": label, "children": [still]}
        nodes[record] = tip
        if parent >= 0:
            nodes[parent]["children"].append(tip)
        else:
            roots.append(tip)
    return roots, demes


def _decimal_year(days: float | None) -> float:
    day = _EPOCH + timedelta(days=math.floor(days or 0.0))
    first, following = date(day.year, 1, 1), date(day.year + 1, 1, 1)
    return round(day.year + ((day - first).days + 0.5) / (following - first).days, 6)


def _microreact(found: Findings) -> Content:
    """Return a Microreact project: table, a tree for each root, map and timeline.

    Microreact joins leaves and rows by their names, and its reader of Newick (phylocanvas.gl) knows
    neither quotation marks nor comments: signs of Newick in names become "_", in the table too,
    which then has the names as they were in a column of its own.
    """
    given = found.ids
    found = found.named(
        lambda text: neutral(control_escaped(text).translate(_NEWICK)).strip() or "record"
    )
    rows = found.rows()
    if list(found.ids) != list(given):
        rows[free_name("name", rows)] = list(given)
    timed = found.dates is not None and found.calendar
    fields: list[str] = []
    if timed:
        parts = [
            found.day(i).split("-") if found.day(i) else [""] * 3 for i in range(len(rows["id"]))
        ]
        for at, name in enumerate(("year", "month", "day")):
            rows[free_name(name, rows)] = [part[at] for part in parts]
            fields.append(list(rows)[-1])
    files = {"data-file": _embedded("data-file", "records.csv", "data", "text/csv", to_csv(rows))}
    panes: dict[str, dict[str, Any]] = {"trees": {}, "maps": {}, "timelines": {}}
    lines = to_newick(found.ids, found.parents, None, found.days, leaves=True, bare=True)
    for number, text in enumerate(lines.splitlines(), start=1):
        if "," not in text:
            continue  # a root alone is no tree
        name = f"tree-file-{number}"
        files[name] = _embedded(name, f"tree{number}.nwk", "tree", "text/x-nh", text)
        panes["trees"][f"tree-{number}"] = {
            **{"title": f"Tree {number}", "file": name, "type": "rc", "labelField": "id"},
            "showLeafLabels": True,
        }
    if found.coordinates is not None:
        panes["maps"]["map-1"] = {
            **{"title": "Map", "dataType": "geographic-coordinates"},
            "coordinate-unit": "decimal-degrees",
            **{"latitudeField": "latitude", "longitudeField": "longitude"},
        }
    if timed:
        panes["timelines"]["timeline-1"] = {
            **{"title": "Timeline", "dataType": "year-month-day"},
            **dict(zip(("yearField", "monthField", "dayField"), fields, strict=True)),
        }
    project = {
        "schema": "https://microreact.org/schema/v1.json",
        "version": 1,
        "meta": {"name": found.title},
        "datasets": {"dataset-1": {"id": "dataset-1", "file": "data-file", "idFieldName": "id"}},
        "files": files,
        "tables": {
            "table-1": {
                **{"title": "Records", "dataset": "dataset-1", "file": "data-file"},
                "columns": [{"field": name, "fixed": False} for name in rows],
            }
        },
        **panes,
        **{name: {} for name in ("charts", "filters", "matrices", "networks", "notes", "slicers")},
        "panes": {},
        "styles": {},
        "views": [],
    }
    return _json(project)


def _embedded(id: str, name: str, type: str, format: str, text: str) -> dict[str, Any]:
    content = text.encode("utf-8", "backslashreplace")  # names may hold lone surrogates
    blob = base64.b64encode(content).decode("ascii")
    return {
        **{"id": id, "name": name, "type": type, "format": format, "size": len(content)},
        "blob": f"data:application/octet-stream;base64,{blob}",
    }


# Networks ----------------------------------------------------------------------------------


def _microbetrace(found: Findings) -> Content:
    """Return nodes.csv, links.csv and network.graphml (the tree) for MicrobeTrace.

    `distance` is 1 − support, so that its threshold of links keeps the supported ones. Names are
    the same in all three: MicrobeTrace takes them from `id`, and from `_id` in GraphML.
    """
    found = found.named(lambda text: neutral(control_escaped(text)).strip() or "record")
    links = found.links()
    links = {
        "source": links.pop("from"),
        "target": links.pop("to"),
        "distance": [1 - s for s in links["support"]],
        **links,
    }
    graphml = to_graphml(
        found.ids, found.parents, found.supports, found.days, name="_id", distances=True
    )
    return {
        "nodes.csv": to_csv(found.rows()),
        "links.csv": to_csv(links),
        "network.graphml": graphml,
    }


def _epicontacts(found: Findings) -> Content:
    """Return linelist.csv and contacts.csv, from parent to child, for epicontacts (R)."""
    return {"linelist.csv": to_csv(found.rows()), "contacts.csv": to_csv(found.links())}


def _dot(found: Findings) -> Content:
    """Return the tree for Graphviz: edges from parent to child, wider the surer."""

    def quoted(text: str) -> str:
        # A backslash is an escape of labels, and of the quotation mark.
        return '"' + control_escaped(text).replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = ["digraph lineage {", "  rankdir=LR;", "  node [shape=box];"]
    for record, name in enumerate(found.ids):
        when = found.day(record)
        label = quoted(name)[:-1] + (f"\\n{when}" if when else "") + '"'
        lines.append(f"  n{record} [label={label}];")
    for child, parent in enumerate(found.parents):
        if parent >= 0:
            s = found.supports[child]
            lines.append(
                f'  n{parent} -> n{child} [support="{s:.6g}", label="{s:.0%}", '
                f'penwidth="{0.5 + 2.5 * s:.2f}"];'
            )
    return "\n".join([*lines, "}"]) + "\n"


# Characters --------------------------------------------------------------------------------

_SYMBOLS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # NEXUS takes letters of both cases for one


def _nexus(found: Findings) -> Content:
    """Return a NEXUS file: categories as characters with CHARSTATELABELS, and the trees.

    A polymorphic cell is written as the set of its states, {01}. Columns with more than 36 states,
    more than NEXUS has symbols for, are named in a comment and left out.
    """
    text = to_nexus(found.ids, found.parents, found.supports, found.days)
    labels: list[str] = []
    rows, left_out, most = ["" for _ in found.ids], list[str](), 1
    for name, column in found.fields.items():
        if column.states is None:
            continue
        levels = sorted({state for cell in column.states for state in cell})
        if len(levels) > len(_SYMBOLS):
            left_out.append(control_escaped(name).replace("]", ")").replace("[", "("))
            continue
        most = max(most, len(levels))
        code = dict(zip(levels, _SYMBOLS, strict=False))
        states = " ".join(quoted_name(level) for level in levels)
        labels.append(f"    {len(labels) + 1} {quoted_name(name)}{' / ' if states else ''}{states}")
        for record, cell in enumerate(column.states):
            symbols = "".join(code[state] for state in cell) or "?"
            rows[record] += symbols if len(symbols) == 1 else f"{{{symbols}}}"
    if not labels:
        return text
    note = f"[left out, with more than 36 states: {', '.join(left_out)}]\n" if left_out else ""
    matrix = "\n".join(
        f"    {quoted_name(n)} {row}" for n, row in zip(found.ids, rows, strict=True)
    )
    block = (
        f"begin characters;\n  dimensions nchar={len(labels)};\n"
        f'  format datatype=standard symbols="{_SYMBOLS[:most]}" missing=? gap=-;\n'
        "  charstatelabels\n" + ",\n".join(labels) + f";\n  matrix\n{matrix};\nend;\n"
    )
    head, trees = text.split("begin trees;", 1)
    return f"{head}{note}{block}begin trees;{trees}"


# Cells -------------------------------------------------------------------------------------


def _geff(found: Findings) -> Content:
    """Return what writes a GEFF folder (zarr): nodes with t, place, name; edges with support."""
    geff, networkx = _library("geff"), _library("networkx")
    days = _times(found, "GEFF", "time")
    axes = ["t"]
    places = found.places
    if places is not None and all(place is not None for place in places):
        axes += ["x", "y", "z"][: len(places[0] or ())]
    graph = networkx.DiGraph()
    for record, name in enumerate(found.ids):
        place = (places[record] or ()) if places is not None and len(axes) > 1 else ()
        graph.add_node(
            record,
            t=float(days[record]),
            **dict(zip(axes[1:], map(float, place), strict=False)),
            name=control_escaped(name),
            root_probability=float(found.root_probability[record]),
        )
    for child, parent in enumerate(found.parents):
        if parent >= 0:
            graph.add_edge(parent, child, support=float(found.supports[child]))
    kinds = ["time", *["space"] * (len(axes) - 1)]
    return lambda folder: geff.write(graph, folder, axis_names=axes, axis_types=kinds)


def _times(found: Findings, format: str, what: str) -> np.ndarray:
    if found.days is None or np.isnan(found.days).any():
        raise ValueError(
            f"{format} needs a {what} for every record; this table lacks some or all dates"
        )
    return found.days


def _ctc(found: Findings) -> Content:
    """Return what writes a result of the Cell Tracking Challenge: res_track.txt and label images.

    Tracks are numbered from 1 in the order of the records; frames are whole numbers, from 0. A
    track ends where its record does, and before its first child begins. Images (mask000.tif, …)
    show each track at its place, moving straight to where it ended; without places there are none.
    The format has no room for names and supports: they are in SUPPORTS beside it, one row for each
    candidate link, with labels as in res_track.txt (parent 0: none).
    """
    days = _times(found, "CTC", "frame")
    if (days != np.round(days)).any():
        raise ValueError("CTC needs whole frames; the dates of this table have fractions")
    begin = (days - days.min()).astype(np.intp)
    parents = np.asarray(found.parents, dtype=np.intp)
    child = np.flatnonzero(parents >= 0)
    before = np.full(len(begin), np.iinfo(np.intp).max)
    np.minimum.at(before, parents[child], begin[child] - 1)
    if (before < begin).any():
        name = found.ids[int(np.flatnonzero(before < begin)[0])]
        raise ValueError(
            f"CTC needs children that begin after their parent; a child of {name[:60]!r} begins in "
            "its first frame or earlier"
        )
    ends = np.where(before == np.iinfo(np.intp).max, begin, before)
    if found.ends is not None:
        known = np.floor(np.array(found.ends, dtype=np.float64) - days.min())
        ends = np.where(np.isnan(known), ends, np.clip(known, begin, before)).astype(np.intp)
    rows = zip(begin.tolist(), ends.tolist(), (parents + 1).tolist(), strict=True)
    lines = [f"{label} {b} {e} {parent}\n" for label, (b, e, parent) in enumerate(rows, start=1)]

    links = {(u, v): s for u, v, s in found.candidates}
    links |= {(u, int(v)): found.supports[u] for u, v in enumerate(parents)}
    supports: dict[str, list[Any]] = {
        "label": [u + 1 for u, _ in links],
        "parent": [v + 1 for _, v in links],
        "support": list(links.values()),
        "in_tree": ["yes" if parents[u] == v else "no" for u, v in links],
        "name": [found.ids[u] for u, _ in links],
    }

    def write(folder: Path) -> None:
        folder.mkdir()
        (folder / "res_track.txt").write_text("".join(lines), encoding="ascii", newline="")
        _put(to_csv(supports), folder / SUPPORTS)
        if found.places is not None and None not in found.places:
            start = np.array(found.places)
            stop = start if found.end_places is None else np.array(found.end_places)
            write_masks(folder, begin, ends, start, stop)

    return write


def _annotated(found: Findings) -> dict[str, Any]:
    """Return what AnnData and TreeData hold alike.

    Records in obs, supports of all candidates in obsp["support"] and the tree in obsp["tree"], both
    [child, parent], places in obsm["spatial"].
    """
    pandas, sparse = _library("pandas"), import_module("scipy.sparse")
    names = _unique(found.ids, lambda text: control_escaped(text) or "record")
    rows = found.rows()
    rows.pop("id")
    # HDF5 takes a slash for a folder.
    titles = _unique(rows, lambda text: control_escaped(text).replace("/", "∕") or "column")
    cells = map(_frame_column, rows.values())
    obs = pandas.DataFrame(dict(zip(titles, cells, strict=True)), index=names)
    T = len(names)

    def matrix(edges: Sequence[tuple[int, int, float]]) -> Any:
        child, parent, value = np.array([e for e in edges if e[1] >= 0]).reshape(-1, 3).T
        ends = child.astype(np.intp), parent.astype(np.intp)
        return sparse.csr_matrix((value, ends), shape=(T, T))

    content = {
        "obs": obs,
        "obsp": {
            "support": matrix(found.candidates),
            "tree": matrix([(u, p, 1.0) for u, p in enumerate(found.parents)]),
        },
        "uns": {"title": found.title},
    }
    if found.places is not None:
        axes = max((len(p) for p in found.places if p is not None), default=0)
        unknown = (np.nan,) * axes
        places = [unknown if p is None else p for p in found.places]
        content["obsm"] = {"spatial": np.array(places).reshape(T, axes)}
    return content


def _anndata(found: Findings) -> Content:
    """Return what writes an h5ad file for AnnData, see `_annotated`."""
    data = _library("anndata").AnnData(**_annotated(found))
    return lambda path: data.write_h5ad(path)


def _treedata(found: Findings) -> Content:
    """Return what writes an h5td file for TreeData: as AnnData, and each root's tree in obst."""
    treedata, networkx = _library("treedata"), _library("networkx")
    content = _annotated(found)
    names = list(content["obs"].index)
    tree = check_tree(found.ids, found.parents)
    trees: dict[int, Any] = {}
    members: dict[int, int] = {}
    for record in tree.order:
        parent = int(tree.parents[record])
        root = members[record] = record if parent < 0 else members[parent]
        graph = trees.setdefault(root, networkx.DiGraph())
        graph.add_node(names[record], support=float(found.supports[record]))
        if parent >= 0:
            graph.add_edge(names[parent], names[record], support=float(found.supports[record]))
    # A root without children is no tree of TreeData.
    kept = {f"tree{n}": g for n, g in enumerate(trees.values(), start=1) if len(g) > 1}
    data = treedata.TreeData(
        np.zeros((len(names), 0)), **content, obst=kept, alignment="nodes", label=None
    )
    return lambda path: data.write_h5td(path)


def _frame_column(cells: Sequence[Any]) -> Any:
    if all(cell is None or isinstance(cell, (int, float)) for cell in cells):
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    return np.array(["" if cell is None else control_escaped(str(cell)) for cell in cells], object)


def _arviz(found: Findings) -> Content:
    """Return what writes draws as netCDF for ArviZ: parameters, and posterior["parent"].

    One chain; draws are independent, and a tree is not of the parameters with its number. Roots
    have the parent −1.
    """
    arviz = _library("arviz")
    if found.draws is None:
        raise ValueError("ArviZ needs drawn trees; these results have none")
    names = _unique(found.ids, lambda text: control_escaped(text) or "record")
    draws = np.asarray(found.draws, dtype=np.int64)
    data = arviz.from_dict(
        posterior={
            # netCDF takes a slash for a folder.
            **{name.replace("/", "∕"): np.array([v]) for name, v in found.parameters.items()},
            "parent": draws[None],
            "n_roots": (draws < 0).sum(axis=1)[None],
        },
        coords={"record": names},
        dims={"parent": ["record"]},
        attrs={"title": found.title, "support": "share of draws with that parent"},
    )
    return lambda path: data.to_netcdf(str(path))


# All of them -------------------------------------------------------------------------------


class Format(NamedTuple):
    """One format: what is written, by what, and what the path is called by default."""

    what: str
    content: Callable[[Findings], Content]
    name: str
    folder: bool = False
    needs: str = ""  # a library, an extra of the same name

    def write(self, found: Findings, path: str | os.PathLike[str]) -> Path:
        """Write the findings whole or not at all; what is there already is not replaced."""
        target = Path(path)
        if target.exists():
            raise FileExistsError(
                f"{str(target)!r} is there already; name another, or move it away"
            )
        content = self.content(found)
        stage = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.absolute().parent))
        try:
            _put(content, stage / target.name)
            (stage / target.name).rename(target)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
        return target


def _put(content: Content, path: Path) -> None:
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8", errors="backslashreplace", newline="")
    elif isinstance(content, Mapping):
        path.mkdir()
        for name, text in content.items():
            _put(text, path / name)
    else:
        content(path)


FORMATS: dict[str, Format] = {
    "auspice": Format("Auspice v2 JSON, for Nextstrain", _auspice, "auspice.json"),
    "microreact": Format("Microreact project", _microreact, "lineage.microreact"),
    "microbetrace": Format(
        "CSV and GraphML for MicrobeTrace", _microbetrace, "microbetrace", folder=True
    ),
    "epicontacts": Format(
        "line list and contacts, for epicontacts", _epicontacts, "epicontacts", folder=True
    ),
    "dot": Format("Graphviz", _dot, "lineage.dot"),
    "nexus": Format("characters and trees, for Mesquite and others", _nexus, "lineage.nex"),
    "geff": Format("GEFF, graphs of cells", _geff, "lineage.geff", folder=True, needs="geff"),
    "ctc": Format("tracks of the Cell Tracking Challenge", _ctc, "01_RES", folder=True),
    "anndata": Format("AnnData (h5ad), for scverse", _anndata, "lineage.h5ad", needs="anndata"),
    "treedata": Format("TreeData (h5td), for scverse", _treedata, "lineage.h5td", needs="treedata"),
    "arviz": Format("draws as netCDF, for ArviZ", _arviz, "draws.nc", needs="arviz"),
}


def _library(name: str) -> Any:
    return library(name, f"this format needs {name}; pip install {name}, or 'outtrees[formats]'")


def _unique(names: Sequence[str] | Mapping[str, Any], changed: Callable[[str], str]) -> list[str]:
    """Return the names as a format wants them, numbered where that makes two alike."""
    found: list[str] = []
    seen: set[str] = set()
    for name in names:
        plain = base = changed(name)
        number = 1
        while plain in seen:
            number += 1
            plain = f"{base}_{number}"
        seen.add(plain)
        found.append(plain)
    return found


def _json(content: Any) -> str:
    """Return JSON; trees may be deeper than Python's stack allows."""
    return "".join(_pieces(content)) + "\n"


def _pieces(content: Any) -> Iterator[str]:
    stack: list[Any] = [content]
    while stack:
        item = stack.pop()
        if isinstance(item, _Raw):
            yield item
        elif isinstance(item, dict):
            parts: list[Any] = [_Raw("{")]
            for number, (key, value) in enumerate(item.items()):
                parts += [_Raw(("," if number else "") + json.dumps(str(key)) + ":"), value]
            stack += reversed([*parts, _Raw("}")])
        elif isinstance(item, list):
            parts = [_Raw("[")]
            for number, value in enumerate(item):
                parts += [_Raw("," if number else ""), value]
            stack += reversed([*parts, _Raw("]")])
        else:
            yield json.dumps(item, allow_nan=False)


class _Raw(str):
    """Text that is JSON already."""

"""Results in other tools' formats, read back with the format's own library where there is one.

`make validators` runs this file where all of those libraries are, the tools' own JavaScript too.
"""

import base64
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import dendropy
import networkx
import numpy as np
import pytest

from outtrees import Ancestry
from outtrees.errors import RecordsError
from outtrees.io import FORMATS, read_ctc, read_delta, read_geff
from outtrees.io.formats import Field, Findings
from outtrees.records import read_records
from outtrees.records.contacts import read_contacts

HOSTILE = [
    "=1+1", "</script><img src=x onerror=alert(1)>", 'q"q\\', "it's; [x]", "a\nb\tc",
    "\u202eabc", "\ud800\x00", " two  words ", "n0", "ключ,=",
]  # fmt: skip


def findings(ids=None, **changes):
    """Seven records in two trees: 0 ← 1, 2; 1 ← 3, 4; 5 ← 6."""
    ids = [f"case {i}" for i in range(7)] if ids is None else ids
    T = len(ids)
    parents = [-1, 0, 0, 1, 1, -1, 5, *[5] * T][:T]
    supports = np.linspace(0.5, 1, T).tolist()
    content = {
        "title": "An outbreak",
        "ids": ids,
        "parents": parents,
        "supports": supports,
        "root_probability": [s if p < 0 else 0.01 for s, p in zip(supports, parents, strict=True)],
        "candidates": [
            *((u, p, s) for u, (p, s) in enumerate(zip(parents, supports, strict=True))),
            (4, 0, 0.1),
        ],
        "fields": {
            "ward": Field(
                "categorical",
                ["N", None, "N / S", *["S"] * (T - 3)],
                [("N",), (), ("N", "S"), *[("S",)] * (T - 3)],
            ),
            "age": Field("continuous", [31.5, *[40.0] * (T - 2), None]),
        },
        "dates": [19_800.0, None, 19_803.0, *[19_806.0] * (T - 3)],
        "calendar": True,
        "places": [(0.5 * i, 1.0 * i) for i in range(T)],
        "coordinates": [(50.0 + i, 8.0) for i in range(T)],
        "changes": [[] if p < 0 else ["A5G"] for p in parents],
        "draws": np.array([parents, parents]),
    }
    return Findings(**(content | changes))


def dated(found):
    """GEFF and CTC want a time for every record."""
    return replace(found, dates=[float(i) for i in range(len(found.ids))], calendar=False)


def tips(node):
    if "children" not in node:
        return [node]
    return [tip for child in node["children"] for tip in tips(child)]


def test_auspice(tmp_path):
    path = FORMATS["auspice"].write(findings(), tmp_path / "auspice.json")
    data = json.loads(path.read_text())
    assert data["version"] == "v2"
    # Two roots: what joins them is hidden.
    assert data["tree"]["node_attrs"]["hidden"] == "always"
    assert len(data["tree"]["children"]) == 2
    leaves = {tip["name"]: tip["node_attrs"] for tip in tips(data["tree"])}
    assert sorted(leaves) == [f"case_{i}" for i in range(7)]  # every record is a tip, no blanks
    assert leaves["case_4"]["parent_support"]["value"] == pytest.approx(0.5 + 4 / 12)
    assert leaves["case_3"]["div"] == 2
    assert leaves["case_0"]["num_date"]["value"] == pytest.approx(2024.2, abs=0.02)
    assert leaves["case_1"]["num_date"] == leaves["case_0"]["num_date"]  # it has none of its own
    keys = {c["key"] for c in data["meta"]["colorings"]}
    assert {"parent_support", "root_probability", "num_date", "col_ward", "col_age"} == keys
    assert "col_ward" not in leaves["case_1"]
    # Mutations come with the extent of what mutates: the sequence, or at least their sites.
    assert data["meta"]["genome_annotations"] == {"nuc": {"start": 1, "end": 5, "strand": "+"}}
    long = FORMATS["auspice"].write(findings(n_sites=900), tmp_path / "long.json")
    assert json.loads(long.read_text())["meta"]["genome_annotations"]["nuc"]["end"] == 900
    (places,) = data["meta"]["geo_resolutions"]
    assert leaves["case_2"]["place"]["value"] in places["demes"]
    # Several trees, without dates or places; one tree.
    bare = findings(dates=None, places=None, coordinates=None, changes=None, fields={})
    data = json.loads(FORMATS["auspice"].write(bare, tmp_path / "b.json").read_text())
    assert data["meta"]["panels"] == ["tree"]
    assert "genome_annotations" not in data["meta"]
    one = findings(parents=[-1, 0, 0, 1, 1, 0, 5])
    data = json.loads(FORMATS["auspice"].write(one, tmp_path / "c.json").read_text())
    assert data["tree"]["name"] == "as_parent_case_0"


@pytest.mark.parametrize("ids", [None, HOSTILE], ids=["plain", "hostile"])
def test_auspice_passes_nextstrains_validator(tmp_path, ids):
    augur = shutil.which("augur")
    if augur is None:
        pytest.skip("make validators has augur, which wants older libraries")
    for number, found in enumerate([findings(ids), findings(ids, dates=None, coordinates=None)]):
        path = FORMATS["auspice"].write(found, tmp_path / f"{number}.json")
        done = subprocess.run(
            [augur, "validate", "export-v2", str(path)],
            capture_output=True,
            text=True,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        )
        assert done.returncode == 0, done.stderr
        assert "WARN" not in done.stderr.upper(), done.stderr


def test_a_deep_tree_is_no_deep_recursion(tmp_path):
    T = 5000
    chain = Findings(
        **{"title": "chain", "ids": [f"r{i}" for i in range(T)], "parents": list(range(-1, T - 1))},
        **{"supports": [1.0] * T, "root_probability": [0.0] * T, "candidates": []},
    )
    text = FORMATS["auspice"].write(chain, tmp_path / "chain.json").read_text()
    assert text.count('"name"') == 2 * T - 1


@pytest.mark.parametrize("ids", [None, HOSTILE], ids=["plain", "hostile"])
def test_microreact(tmp_path, ids):
    found = findings(ids)
    path = FORMATS["microreact"].write(found, tmp_path / "x.microreact")
    project = json.loads(path.read_text())
    content = {
        name: base64.b64decode(file["blob"].split(",")[1]).decode()
        for name, file in project["files"].items()
    }
    for name, text in content.items():
        assert project["files"][name]["size"] == len(text.encode())
    rows = list(csv.DictReader(io.StringIO(content["data-file"], newline="")))
    assert len(rows) == len(found.ids)
    assert not any(row["id"].startswith(("=", "+", "@")) for row in rows)
    assert (rows[0]["year"], rows[0]["month"], rows[0]["day"]) == ("2024", "03", "18")
    fields = [column["field"] for column in project["tables"]["table-1"]["columns"]]
    assert fields == list(rows[0])
    assert project["timelines"]["timeline-1"]["dayField"] in fields
    assert project["maps"]["map-1"]["latitudeField"] in fields
    leaves = []
    for tree in project["trees"].values():
        # As Microreact reads Newick: signs part names, and quotation marks and brackets are none.
        words = re.split(r"\s*([;(),:])\s*", content[tree["file"]])
        leaves += [name for sign, name in pairwise(words) if sign in ("(", ",") and name]
    assert sorted(leaves) == sorted(row["id"] for row in rows)  # Microreact joins them by name
    # What Microreact's viewer writes and reads itself: github.com/microreact/viewer,
    # schema/version-1-to-2.js (the sections), utils/files.js (formats), src/dev/debug.json.
    sections = "charts datasets files filters maps meta networks notes panes styles tables"
    for name in [*sections.split(), "timelines", "trees"]:
        assert isinstance(project[name], dict), name
    assert project["schema"] == "https://microreact.org/schema/v1.json"
    (dataset,) = project["datasets"].values()
    assert dataset["idFieldName"] in fields
    for part in [dataset, *project["tables"].values(), *project["trees"].values()]:
        assert part["file"] in project["files"]
    for key, file in project["files"].items():
        assert file["id"] == key
        assert (file["type"], file["format"]) in {("data", "text/csv"), ("tree", "text/x-nh")}
        assert file["name"].endswith({"data": ".csv", "tree": ".nwk"}[file["type"]])
    (pane,) = project["maps"].values()
    assert (pane["dataType"], pane["coordinate-unit"]) == (
        "geographic-coordinates",
        "decimal-degrees",
    )
    (line,) = project["timelines"].values()
    assert line["dataType"] == "year-month-day"
    # Its own parsers of CSV and Newick, where `make validators` installed them.
    seen = parsed_by_microreact(tmp_path, content)
    if seen is not None:
        assert sorted(seen["leaves"]) == sorted(seen["ids"]) == sorted(leaves)


def parsed_by_microreact(tmp_path, content):
    """Return ids and leaves as papaparse and phylocanvas.gl read them; None without these."""
    modules = os.environ.get("OUTTREES_NODE_MODULES")
    if modules is None:
        return None
    (tmp_path / "content.json").write_text(json.dumps(content))
    script = """
      const Module = require("module");
      const load = Module._load;
      const blank = new Proxy(class {}, { get: (c, k) => k in c ? c[k] : class {} });
      Module._load = (name, ...rest) => /gl\\/(core|layers|constants)$/.test(name) ? blank
        : load(name, ...rest);
      const content = JSON.parse(require("fs").readFileSync(process.argv[1]));
      const { Newick } = require("@phylocanvas/phylocanvas.gl");
      const table = require("papaparse").parse(content["data-file"], { header: true });
      const leaves = [];
      const walk = (node) => node.children && node.children.length
        ? node.children.forEach(walk) : leaves.push(node.name ?? node.id);
      for (const [name, text] of Object.entries(content)) {
        if (name !== "data-file") walk(Newick.parse_newick(text));
      }
      console.log(JSON.stringify(
        { leaves, ids: table.data.map((row) => row.id).filter((id) => id) }));
    """
    done = subprocess.run(
        ["node", "-e", script, str(tmp_path / "content.json")],
        capture_output=True,
        text=True,
        env={**os.environ, "NODE_PATH": modules},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("ids", [None, HOSTILE], ids=["plain", "hostile"])
def test_microbetrace(tmp_path, ids):
    found = findings(ids)
    folder = FORMATS["microbetrace"].write(found, tmp_path / "mt")
    read = lambda name: (folder / name).read_text()  # noqa: E731
    nodes = list(csv.DictReader(io.StringIO(read("nodes.csv"), newline="")))
    links = list(csv.DictReader(io.StringIO(read("links.csv"), newline="")))
    names = {node["id"] for node in nodes}
    assert len(names) == len(found.ids)
    assert {link["source"] for link in links} | {link["target"] for link in links} <= names
    for link in links:
        assert float(link["distance"]) == pytest.approx(1 - float(link["support"]))
    # The headers that MicrobeTrace looks for: matchFileTableHeaders in files-plugin.component.ts
    # of github.com/CDCgov/MicrobeTrace; in GraphML `_id` and `distance`: graphml.service.ts.
    assert next(iter(nodes[0])) == "id"
    assert list(links[0])[:3] == ["source", "target", "distance"]
    graph = networkx.read_graphml(folder / "network.graphml")
    tree = [(p, c) for c, p in enumerate(found.parents) if p >= 0]
    assert sorted(graph.edges) == sorted((f"n{p}", f"n{c}") for p, c in tree)
    assert graph.is_directed()
    assert {data["_id"] for _, data in graph.nodes(data=True)} == names
    said = {(link["source"], link["target"]): float(link["distance"]) for link in links}
    for parent, child, data in graph.edges(data=True):
        ends = graph.nodes[parent]["_id"], graph.nodes[child]["_id"]
        assert data["distance"] == pytest.approx(said[ends])
    assert sum(link["in_tree"] == "yes" for link in links) == len(tree)
    with pytest.raises(FileExistsError, match="is there already"):
        FORMATS["microbetrace"].write(found, folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mt"]


@pytest.mark.parametrize("ids", [None, HOSTILE], ids=["plain", "hostile"])
def test_epicontacts_is_what_make_epicontacts_takes(tmp_path, ids):
    """R/make_epicontacts.R of github.com/reconhub/epicontacts: its checks, one by one."""
    folder = FORMATS["epicontacts"].write(findings(ids), tmp_path / "epi")
    tables = {}
    for name in ("linelist", "contacts"):
        text = (folder / f"{name}.csv").read_text()
        tables[name] = list(csv.DictReader(io.StringIO(text, newline="")))
    linelist, contacts = tables["linelist"], tables["contacts"]
    assert len(linelist) >= 1  # "linelist should have at least one row"
    assert len(contacts) >= 1
    assert list(contacts[0])[:2] == ["from", "to"]  # its defaults: the first column and the second
    names = [row["id"] for row in linelist]
    assert next(iter(linelist[0])) == "id"
    assert len(set(names)) == len(names)  # "Duplicated IDs detected in the linelist"
    assert {row[end] for row in contacts for end in ("from", "to")} <= set(names)


@pytest.mark.parametrize("names", ["case", "12"], ids=["text", "numbers"])
def test_epicontacts_come_back_without_knowing_what_was_found(tmp_path, names):
    """A supported parent is no known parent, its support no attribute, a candidate no contact."""
    found = findings([f"{names}{i}" for i in range(7)])
    folder = FORMATS["epicontacts"].write(found, tmp_path / "epi")
    records = read_records(folder / "linelist.csv", id="id")
    assert records.ids == tuple(found.ids)
    assert records.known_parents == {}
    assert {c.name for c in records.columns} == {"date", "place", "ward", "age"}
    assert set(records.ignored) == {"likely_parent", "parent_support", "root_probability"}
    assert records.column("date").calendar
    with pytest.raises(RecordsError, match="contacts must have been observed"):
        read_contacts(folder / "contacts.csv")
    # Contacts that somebody observed are read as ever, with a support as well.
    observed = {"from": ["a"], "to": ["b"], "support": [0.5]}
    assert read_contacts(observed).first == ["a"]


@pytest.mark.filterwarnings("ignore")  # pydot uses old names of pyparsing
def test_dot_is_read_by_pydot(tmp_path):
    pydot = pytest.importorskip("pydot")
    for number, ids in enumerate([None, HOSTILE]):
        found = findings(ids)
        path = FORMATS["dot"].write(found, tmp_path / f"{number}.dot")
        (graph,) = pydot.graph_from_dot_file(path, encoding="utf-8")
        edges = {(e.get_source(), e.get_destination()): e.get("support") for e in graph.get_edges()}
        assert len(edges) == sum(p >= 0 for p in found.parents)
        for child, parent in enumerate(found.parents):
            if parent >= 0:
                said = float(edges[f"n{parent}", f"n{child}"].strip('"'))
                assert said == pytest.approx(found.supports[child], rel=1e-5)
        nodes = [n for n in graph.get_nodes() if n.get_name().startswith("n") and n.get("label")]
        assert len(nodes) >= len(found.ids)


@pytest.mark.parametrize("ids", [None, HOSTILE], ids=["plain", "hostile"])
@pytest.mark.filterwarnings("ignore")  # zarr warns of what its next version will do
def test_geff_there_and_back(tmp_path, ids):
    geff = pytest.importorskip("geff")
    found = dated(findings(ids))
    path = FORMATS["geff"].write(found, tmp_path / "x.geff")
    geff.validate_structure(path)
    graph, metadata = geff.read(path)
    assert [axis.name for axis in metadata.axes] == ["t", "x", "y"]
    for child, parent in enumerate(found.parents):
        if parent >= 0:
            assert graph.edges[parent, child]["support"] == pytest.approx(found.supports[child])
    table = read_geff(path)
    # 5 ← 6 is a chain without a branch: one track (with seven records).
    assert len(table) == (6 if ids is None else len(ids))
    by_name = {row.track: row for row in table}
    if ids is None:
        assert by_name["case 3"].likely_parent == "case 1"
        assert by_name["case 1"].likely_parent == "case 0"
        assert (by_name["5"].begin, by_name["5"].end, by_name["5"].x_end) == (5, 6, 3.0)
        assert by_name["case 3"].parent_support == pytest.approx(found.supports[3])
    assert read_records(table, id="track").known_parents == {}
    # Parents without supports are what somebody observed.
    for edge in graph.edges.values():
        del edge["support"]
    geff.write(graph, tmp_path / "observed.geff", axis_names=["t", "x", "y"])
    observed = read_geff(tmp_path / "observed.geff")
    assert "parent_support" not in observed.columns
    assert [row.parent for row in observed] == [row.likely_parent for row in table]
    with pytest.raises(ValueError, match="needs a time for every record"):
        FORMATS["geff"].write(findings(), tmp_path / "y.geff")
    assert not (tmp_path / "y.geff").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordsError, match="cannot be read as GEFF"):
        read_geff(tmp_path / "empty")


def test_ctc_there_and_back(tmp_path):
    found = dated(findings())
    path = FORMATS["ctc"].write(found, tmp_path / "01_RES")
    lines = (path / "res_track.txt").read_text().splitlines()
    assert lines[0] == "1 0 0 0"
    assert lines[1] == "2 1 2 1"  # until before its first child
    table = read_ctc(path)
    assert table["likely_parent"] == ["", "1", "1", "2", "2", "", "6"]
    # Names and supports of links come back from the file beside; they are no observations.
    assert table["parent_support"] == pytest.approx(found.supports)
    assert table["name"] == found.ids
    links = list(csv.DictReader((path / "res_supports.csv").read_text().splitlines()))
    assert {(r["label"], r["parent"]): float(r["support"]) for r in links} == pytest.approx(
        {(str(u + 1), str(v + 1)): s for u, v, s in found.candidates}
    )
    assert [(r["label"], r["parent"]) for r in links if r["in_tree"] == "no"] == [("5", "1")]
    assert read_records(table, id="track").known_parents == {}
    assert table["begin"] == list(range(7))
    assert table["x"] == pytest.approx([0.5 * i for i in range(7)], abs=1.5)  # of a disc at an edge
    assert read_ctc(path / "res_track.txt").columns == ("track", "begin", "end", "parent")
    # Known ends hold unless a child begins before; a cell moves straight to its last place.
    far = [(100.0 + 30 * i, 200.0) for i in range(7)]
    ended = replace(found, ends=[9.0] * 7, places=[(50.0, 60.0 + 20 * i) for i in range(7)])
    moved = FORMATS["ctc"].write(replace(ended, end_places=far), tmp_path / "moved")
    again = read_ctc(moved)
    assert again["end"] == [0, 2, 9, 9, 9, 5, 9]
    assert again["x"][2:5] == pytest.approx([50] * 3)
    assert again["y_end"][2:5] == pytest.approx([200] * 3)
    assert again["x_end"][2:5] == pytest.approx([160, 190, 220])
    # In three dimensions, and in units that are no pixels.
    deep = replace(found, places=[(1e-3 * i, -2e-3 * i, float(i)) for i in range(7)])
    table = read_ctc(FORMATS["ctc"].write(deep, tmp_path / "deep"))
    assert {"x", "y", "z", "z_end"} <= set(table.columns)
    assert (np.diff(table["x"]) > 0).all()
    assert (np.diff(table["y"]) < 0).all()
    # Two cells in one place: each is seen. Without places: tracks alone.
    same = replace(found, dates=[0.0, *[1.0] * 6], parents=[-1, *[0] * 6], places=[(5, 5)] * 7)
    table = read_ctc(FORMATS["ctc"].write(same, tmp_path / "same"))
    assert None not in table["x"]
    bare = FORMATS["ctc"].write(replace(found, places=None), tmp_path / "bare")
    assert sorted(file.name for file in bare.iterdir()) == ["res_supports.csv", "res_track.txt"]
    (bare / "res_supports.csv").write_text("label,parent,support,name\n1,0,much,a\n")
    with pytest.raises(RecordsError, match="line 2: a line must have label, parent, support"):
        read_ctc(bare)
    (bare / "res_supports.csv").unlink()  # of another tool: its parents are what it says
    assert read_ctc(bare)["parent"] == ["", "1", "1", "2", "2", "", "6"]
    for changes, message in [
        ({"dates": [0.5] * 7}, "whole frames"),
        ({"dates": None}, "frame for every record"),
        ({"dates": [0.0] * 7}, "begin after their parent"),
        ({"dates": [1e7 * i for i in range(7)]}, "too much"),
    ]:
        with pytest.raises(ValueError, match=message):
            FORMATS["ctc"].write(replace(found, **changes), tmp_path / "c")
    assert not (tmp_path / "c").exists()
    (tmp_path / "bare" / "mask000.tif").write_bytes(b"no image")
    with pytest.raises(RecordsError, match="cannot be read as an image"):
        read_ctc(tmp_path / "bare")
    with pytest.raises(FileNotFoundError):
        read_ctc(tmp_path)
    for text, message in [
        ("1 0 4\n", "line 1: a line must be four whole numbers"),
        ("1 0 4 0\n1 0 4 0\n", "label of its own"),
        ("1 5 4 0\n", "before it begins"),
        ("1 0 4 9\n", "parent 9, which is none"),
        ("", "label of its own"),
    ]:
        (tmp_path / "bad.txt").write_text(text)
        with pytest.raises(RecordsError, match=message):
            read_ctc(tmp_path / "bad.txt")


def test_ctc_passes_the_validator_of_py_ctcmetrics(tmp_path):
    scripts = pytest.importorskip("ctc_metrics.scripts.validate", reason="an extra of the tests")
    places = [(50.0 + 3 * i, 60.0 + 20 * i) for i in range(7)]
    deep = [(*place, float(i)) for i, place in enumerate(places)]
    for number, given in enumerate([places, deep]):
        found = replace(dated(findings()), places=given, ends=[9.0] * 7)
        path = FORMATS["ctc"].write(found, tmp_path / f"{number}")
        assert scripts.validate_sequence(str(path), threads=1) == {"Valid": 1}


TEI = """<?xml version="1.0" encoding="UTF-8"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc><sourceDesc><listWit>
<witness n="A"/><witness n="B"/><witness n="C"/></listWit></sourceDesc></fileDesc></teiHeader>
<text><body><ab>
<app xml:id="u1"><rdg n="1" wit="A"><w>wine</w></rdg><rdg n="2" wit="B"><w>water</w></rdg>
<witDetail n="W1/2" type="ambiguous" target="1 2" wit="C"><certainty target="1" degree="0.5"/>
<certainty target="2" degree="0.5"/></witDetail></app>
<app xml:id="u2"><rdg n="1" wit="A B"><w>of</w></rdg><rdg n="2" wit="C"><w>from</w></rdg></app>
</ab></body></text></TEI>
"""


def test_an_apparatus_in_tei_keeps_its_ambiguous_readings(tmp_path):
    pytest.importorskip("teiphy", reason="an extra of the tests")
    (tmp_path / "texts.xml").write_text(TEI)
    teiphy = Path(sys.executable).parent / "teiphy"
    done = subprocess.run(
        [teiphy, "texts.xml", "texts.nex"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (tmp_path / "texts.nex").exists(), done.stderr
    records = read_records(tmp_path / "texts.nex")
    assert records.ids == ("A", "B", "C")
    (states,) = [column.states for column in records.columns if len(column.states[2]) > 1]
    assert states[2] == (*states[0], *states[1])
    # And back: NEXUS with the same sets and names.
    fields = {c.name: Field(c.kind, list(c.text), c.states) for c in records.columns}
    found = findings(list(records.ids), fields=fields, parents=[-1, 0, 0], changes=None)
    again = read_records(FORMATS["nexus"].write(found, tmp_path / "back.nex"))
    assert [(c.name, c.states) for c in again.columns] == [
        (c.name, c.states) for c in records.columns
    ]


@pytest.mark.parametrize("ids", [None, HOSTILE], ids=["plain", "hostile"])
def test_nexus_keeps_sets_and_names_of_states(tmp_path, ids):
    found = findings(ids)
    odd = [("=1",), ("it's [x], / y;",), ("a b", "=1"), (), *[("=1",)] * (len(found.ids) - 4)]
    many = [(f"s{i}", f"t{i}", f"u{i}", f"v{i}", f"w{i}", f"x{i}") for i in range(len(found.ids))]
    fields = {
        **found.fields,
        "o'dd [column]; /": Field("categorical", [" / ".join(s) for s in odd], odd),
        "many ]": Field("categorical", [" / ".join(s) for s in many], many),
    }
    path = FORMATS["nexus"].write(replace(found, fields=fields), tmp_path / "x.nex")
    matrix = dendropy.StandardCharacterMatrix.get(path=path, schema="nexus")
    assert len(matrix) == len(found.ids)
    records = read_records(path)
    assert [column.name for column in records.columns] == ["ward", "o'dd [column]; /"]  # of strings
    assert records.column("ward").states == list(found.fields["ward"].states)
    assert [set(s) for s in records.columns[1].states] == [set(s) for s in odd]
    trees = dendropy.TreeList.get(path=path, schema="nexus", preserve_underscores=True)
    assert len(trees) == 2
    plain = replace(found, fields={"age": found.fields["age"]})
    assert "characters" not in FORMATS["nexus"].write(plain, tmp_path / "y.nex").read_text()


@pytest.mark.parametrize("ids", [None, HOSTILE], ids=["plain", "hostile"])
@pytest.mark.filterwarnings("ignore")  # anndata and pandas warn of what their next versions do
def test_anndata(tmp_path, ids):
    anndata = pytest.importorskip(
        "anndata", reason="make validators has anndata, which wants an older pandas"
    )
    found = findings(ids)
    fields = {**found.fields, "a/b": found.fields["age"], "a∕b": found.fields["ward"]}
    path = FORMATS["anndata"].write(replace(found, fields=fields), tmp_path / "x.h5ad")
    data = anndata.read_h5ad(path)
    assert data.n_obs == len(found.ids)
    assert data.obs["parent_support"].to_numpy() == pytest.approx(found.supports)
    assert data.obs["age"].iloc[0] == 31.5
    assert list(data.obs["ward"][:3]) == ["N", "", "N / S"]
    assert {"a∕b", "a∕b_2"} <= set(data.obs)  # a slash would be a folder of the file
    assert data.obsp["support"][4, 0] == pytest.approx(0.1)
    tree = data.obsp["tree"].toarray()
    np.testing.assert_array_equal(
        np.where(tree.any(axis=1), tree.argmax(axis=1), -1), found.parents
    )
    np.testing.assert_array_equal(data.obsm["spatial"], found.places)
    if ids is None:
        assert list(data.obs_names) == found.ids


@pytest.mark.parametrize("ids", [None, HOSTILE], ids=["plain", "hostile"])
@pytest.mark.filterwarnings("ignore")  # anndata and pandas warn of what their next versions do
def test_treedata(tmp_path, ids):
    treedata = pytest.importorskip(
        "treedata", reason="make validators has treedata, which wants an older pandas"
    )
    found = findings(ids)
    path = FORMATS["treedata"].write(found, tmp_path / "x.h5td")
    data = treedata.read_h5td(path)
    assert data.n_obs == len(found.ids)
    assert sum(len(tree) for tree in data.obst.values()) == len(found.ids)
    assert data.obsp["support"][4, 0] == pytest.approx(0.1)
    names = list(data.obs_names)
    assert data.obst["tree1"].edges[names[0], names[2]]["support"] == pytest.approx(
        found.supports[2]
    )


@pytest.mark.parametrize("ids", [None, HOSTILE], ids=["plain", "hostile"])
def test_arviz(tmp_path, ids):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arviz announces its next version when imported
        arviz = pytest.importorskip("arviz")
        found = findings(ids, parameters={"length / km": [1.5, 2.5]})
        path = FORMATS["arviz"].write(found, tmp_path / "draws.nc")
        data = arviz.from_netcdf(path)
    assert data.posterior["parent"].shape == (1, 2, len(found.ids))
    np.testing.assert_array_equal(data.posterior["parent"][0, 1], found.parents)
    np.testing.assert_array_equal(data.posterior["length ∕ km"], [[1.5, 2.5]])
    data.close()


def test_every_format_takes_hostile_names_and_leaves_nothing_half_written(tmp_path):
    """Those whose libraries are absent say which; none leaves a part behind."""
    ids = HOSTILE
    for name, format in FORMATS.items():
        if format.needs and find_spec(format.needs) is None:
            with pytest.raises(ImportError, match=format.needs):
                format.write(findings(ids), tmp_path / name)
            continue
        found = dated(findings(ids)) if name in ("geff", "ctc") else findings(ids)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries announce their next versions
            format.write(found, tmp_path / name)
        assert (tmp_path / name).is_dir() == format.folder
    assert {p.name for p in tmp_path.iterdir()} <= set(FORMATS)


DELTA = """*SHOW A small example.
*CHARACTER TYPES 3,RN 4,TE 5,IN
*IMPLICIT VALUES 2,1
*CHARACTER LIST
#1. leaves <shape>/
   1. ovate/
   2. linear <very narrow>/
   3. round/
#2. hairs/ 1. absent/ 2. present/
#3. length <of leaves>/ mm/
#4. notes/
#5. stamens/
*ITEM DESCRIPTIONS
# Alpha <first> beta/ 1,1 2,2 3,(3-)4-6(-9) 4<a note> 5,10
# Gamma/ 1,1/3 3,5.5 5,U
# Delta/ 1,2-3<rarely> 2,- 3,4-5-9
# Epsilon/ 1,V
"""


def test_delta_items(tmp_path):
    path = tmp_path / "items"
    path.write_text(DELTA)
    table = read_delta(path)
    assert table["item"] == ["Alpha beta", "Gamma", "Delta", "Epsilon"]
    assert table["leaves"] == ["ovate", "{ovate / round}", "{linear / round}", None]
    # In a table, sets are no states of their own.
    leaves = read_records(table, id="item", kinds={"leaves": "categorical"}).column("leaves")
    assert leaves.levels == ("linear", "ovate", "round")
    assert leaves.states == [("ovate",), ("ovate", "round"), ("linear", "round"), ()]
    assert leaves.reason.endswith("2 cells are one of several states")
    assert table["hairs"] == ["present", "absent", None, "absent"]
    assert table["length"] == [5.0, 5.5, 5.0, None]
    assert table["notes"] == ["a note", "", "", ""]
    assert table["stamens"] == [10.0, None, None, None]
    # In several files, as the programs of DELTA keep them.
    head, items = DELTA.split("*ITEM")
    (tmp_path / "chars").write_text(head)
    (tmp_path / "only").write_text("*ITEM" + items)
    assert read_delta(tmp_path / "only", tmp_path / "chars") == table
    alone = read_delta(tmp_path / "only")
    assert alone["character 1"][0] == "1"
    with pytest.raises(RecordsError, match=r"must have \*ITEM DESCRIPTIONS"):
        read_delta(tmp_path / "chars")
    (tmp_path / "bad").write_text("*ITEM DESCRIPTIONS\n# no values here")
    with pytest.raises(RecordsError, match="an item must be"):
        read_delta(tmp_path / "bad")


def test_a_fit_is_written_in_each_format(tmp_path):
    table = {
        "case": ["a", "b", "c", "d", "e"],
        "onset": [f"2024-03-0{d}" for d in (1, 3, 4, 6, 7)],
        "ward": ["N", "N", "S", "S", "N"],
        "lat": ["50.1", "50.2", "50.3", "50.1", ""],
        "lon": ["8.1", "8.2", "8.1", "8.1", ""],
    }
    dna = {
        "a": "ACGTACGTAA",
        "b": "ACGTACGTAC",
        "c": "ACGTACGTAA",
        "d": "ACTTACGTAA",
        "e": "N" * 10,
    }
    model = Ancestry(waiting_mean=3, waiting_sd=1, random_state=0).fit(table, sequences=dna)
    data = json.loads(model.write("auspice", tmp_path / "a.json").read_text())
    leaves = {tip["name"]: tip for tip in tips(data["tree"])}
    supports = dict(zip(model.records.ids, model.records_["support"], strict=True))
    for name, tip in leaves.items():
        assert tip["node_attrs"]["parent_support"]["value"] == pytest.approx(supports[name])
    assert leaves["a"]["node_attrs"]["place"]["value"] == "50.1000, 8.1000"
    folder = model.write("epicontacts", tmp_path / "epi", min_support=0.2)
    links = list(csv.DictReader((folder / "contacts.csv").read_text().splitlines()))
    expected = [r for r in model.parents(0.2) if r.parent]
    assert len(links) >= len(expected)
    for name in FORMATS:
        if name in ("geff", "ctc", "arviz", "anndata", "treedata"):
            continue
        model.write(name, tmp_path / f"{name}.x", "mode")
    if find_spec("arviz"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import arviz

            data = arviz.from_netcdf(model.write("arviz", tmp_path / "d.nc", n_draws=50))
        assert data.posterior["parent"].shape == (1, 50, 5)
        assert len(data.posterior) > 2  # parameters beside trees and their roots
        data.close()
    with pytest.raises(ValueError, match="to must be one of auspice"):
        model.write("pdf", tmp_path / "x")

"""Files, names and command lines made up: whatever comes is read or refused in one line."""

import contextlib
import csv
import gzip
import hashlib
import io
import json
import os
import re
import socket
import struct
import tempfile
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

from fuzz.timed import FAILURES, SECONDS, fuzzed
from outtrees import OutTreeDensity
from outtrees.cli import main
from outtrees.cli.app import Server, Session
from outtrees.cli.errors import CommandError, sound_model
from outtrees.cli.group import COMMANDS
from outtrees.cli.show import sentences
from outtrees.errors import ModelFileError, RecordsError
from outtrees.io import load, save, to_csv, to_graphml, to_newick, to_nexus
from outtrees.records import read_records
from outtrees.records.reading import read_cells
from outtrees.views.report import report_html
from outtrees.views.report_data import ReportColumn, ReportEdge
from views.report_cases import Page, small

NEXUS = b"""#NEXUS
[a comment] begin taxa; dimensions ntax=2; taxlabels x 'y z'; end;
begin characters; dimensions nchar=4; format datatype=standard symbols="01" missing=? gap=-;
matrix x 01?{01} 'y z' 1-00; end;
begin sets; charset a = 1-3\\2; end;
"""
SEEDS = {
    "x.csv": b"id,onset,a,b\nx,2020-01-02,1.5,u\ny,2020-01,2,\"v\nw\"\nz,,-3e2,u\n",
    "x.tsv": b"id\tx\ty\tparent\nr1\t1\t2\t\nr2\t3\t4\tr1\nr3\t5\t6\tr2\n",
    "x.fasta": b">x|2020-01-01 first\nACGTN\nACG\n>y|2020-01-05\nACGTA\nAC-\n",
    "x.nex": NEXUS,
}  # fmt: skip
TOKENS = [
    *(b"", b"\0", b"\n", b"\r", b'"', b"'", b",", b";", b"\t", b"|", b"[", b"]", b"{", b"}", b"("),
    *(b"=", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"-", b"1e999", b"nan", b"inf", b"-0", b"NA"),
    *(b"99999999999999999999", b"2020-13-45", b"0001-01-01", b"9999-12-31", b"root", b"id"),
    *(b"\x1b[2J", "\u202e".encode(), "\u0661".encode(), b">", b"#NEXUS", b"begin ", b"end;"),
    *(b"matrix", b"interleave", b"datatype=dna", b"datatype=continuous", b"nchar=0", b"/", b"\\"),
]
edits = st.lists(
    st.tuples(
        st.floats(0, 1), st.integers(0, 12), st.sampled_from(TOKENS), st.integers(1, 40)
    ),
    max_size=6,
)  # fmt: skip


def edited(data, changes):
    """Return bytes with tokens put in, over so many bytes, so often."""
    for place, over, token, times in changes:
        at = int(place * len(data))
        data = data[:at] + token * times + data[at + over :]
    return data[: 2**16]


def parquet():
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as module

    made = io.BytesIO()
    columns = {"id": ["a", "b", "c"], "x": [1.5, None, 2.0], "t": ["u", "u", "v"]}
    module.write_table(pyarrow.table(columns), made)
    return made.getvalue()


@contextlib.contextmanager
def bounded():
    """In the long form, hold what is inside to 100 MB."""
    if not SECONDS:
        yield
        return
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def reads(name, data, reader=read_records):
    """Read a file, or be refused in one line; keep it if neither."""
    said = "read"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            with bounded(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reader(path, max_bytes=2**22)
        except (RecordsError, ModelFileError) as error:
            said = str(error)
        except Exception:
            FAILURES.mkdir(exist_ok=True)
            (FAILURES / f"{hashlib.sha256(data).hexdigest()[:12]}-{name}").write_bytes(data)
            raise
    assert len(said.splitlines()) == 1, "a message of several lines"
    assert not re.search(r"[\x00-\x1f\x7f]", said), "a message that steers a terminal"


@pytest.mark.parametrize(
    "path", sorted(FAILURES.glob("*-*")), ids=lambda path: path.name
)  # fmt: skip
def test_what_once_failed(path):
    name = path.name.split("-", 1)[1]
    reads(name, path.read_bytes(), load if name.endswith("safetensors") else read_records)


@fuzzed(st.sampled_from(sorted(SEEDS)), edits, examples=100)
def test_text_files(name, changes):
    reads(name, edited(SEEDS[name], changes))


@fuzzed(st.sampled_from(sorted(SEEDS)), st.binary(max_size=300))
def test_any_bytes(name, data):
    reads(name, data)


@fuzzed(edits, edits)
def test_gzip(inside, outside):
    packed = gzip.compress(edited(SEEDS["x.csv"], inside), mtime=0)
    reads("x.csv.gz", edited(packed, outside))


@fuzzed(edits)
def test_parquet(changes):
    reads("x.parquet", edited(parquet(), changes))


@fuzzed(st.sampled_from(["xl/worksheets/sheet1.xml", "xl/workbook.xml", "whole"]), edits)
def test_spreadsheets(part, changes):
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (("id", "a"), ("x", 1), ("y", 2.5)):
        book.active.append(row)
    made, changed = io.BytesIO(), io.BytesIO()
    book.save(made)
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(changed, "w") as new:
        for member in old.infolist():
            data = old.read(member)
            new.writestr(
                member.filename, edited(data, changes) if member.filename == part else data
            )
    data = changed.getvalue()
    reads("x.xlsx", edited(data, changes) if part == "whole" else data)


# Models -----------------------------------------------------------------------------------------


def model():
    if not MODEL:
        X = np.random.default_rng(0).normal(size=(8, 2))
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            path = save(OutTreeDensity(max_iter=2).fit(X), Path(folder) / "model")
            MODEL.append(path.read_bytes())
    return MODEL[0]


MODEL: list[bytes] = []
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["PoissonMutation", "OutTreeDensity", "Records", "0", "1", "F"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["kind", "name", "class", "fields", "items"]), inner)
    | st.builds(
        lambda kind, inner: {"kind": kind, "items": inner, "value": inner, "name": "0"},
        st.sampled_from(["array", "tuple", "set", "dict", "scalar", "objects", "generator"]),
        inner,
    ),
    max_leaves=6,
)  # fmt: skip


def places(tree, path=()):
    """Yield the path of every node of a JSON tree."""
    yield path
    if isinstance(tree, (dict, list)):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from places(value, (*path, key))


@fuzzed(edits)
def test_damaged_models(changes):
    reads("x.safetensors", edited(model(), changes), load)


@fuzzed(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), values), min_size=1, max_size=3),
        examples=60)  # fmt: skip
def test_forged_models(changes):
    """With a checksum that fits: refused, or a model of which `show` speaks or complains."""
    good = model()
    end = 8 + int.from_bytes(good[:8], "little")
    header = json.loads(good[8:end])
    about = json.loads(header["__metadata__"]["outtrees"])
    for where, value in changes:
        paths = list(places(about["model"], ("model",)))
        *path, last = paths[int(where * len(paths))]
        inner = about
        for key in path:
            inner = inner[key]
        inner[last] = value
    about["sha256"] = "0" * 64
    header["__metadata__"]["outtrees"] = json.dumps(about, separators=(",", ":"))
    text = json.dumps(header, separators=(",", ":")).encode()
    data = struct.pack("<Q", len(text)) + text + good[end:]
    begin = re.search(rb'\\"sha256\\":\\"(0{64})\\"', data)
    if begin is None:
        return
    digest = hashlib.sha256(data).hexdigest().encode()

    def shown(path, max_bytes):
        found = load(path, max_bytes=max_bytes)
        refused = (CommandError, ValueError, OSError, MemoryError)
        with contextlib.suppress(*refused), sound_model(path, found):
            sentences(found)

    reads("x.safetensors", data[: begin.start(1)] + digest + data[begin.end(1) :], shown)


# Formats ----------------------------------------------------------------------------------------

hostile = st.text(max_size=12) | st.sampled_from(
    ["=1+1", "</script>", "a\x1b[2J", "'", '"', "a,b", "(b:1)", "[x]", "\u202e", "a\rb", "\ud800"]
)


@fuzzed(st.lists(st.tuples(hostile, hostile), min_size=1, max_size=5))
def test_tables(rows):
    """CSV has the same rows for every reader, and no cell that a spreadsheet or terminal obeys."""
    columns = {"a": [a for a, _ in rows], "b": [b for _, b in rows]}
    text = to_csv(columns)
    found = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert [len(row) for row in found] == [2] * (len(rows) + 1)
    number = re.compile(r"\+[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)
    obeyed = [cell for row in found for cell in row if cell.startswith(tuple("=+@\t\r\n"))]
    assert all(number.fullmatch(cell) for cell in obeyed)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", text)


@fuzzed(st.lists(hostile.filter(str.strip), min_size=2, max_size=5, unique=True))
def test_trees(names):
    """Newick, NEXUS and GraphML of any names are read by other programs, with as many records."""
    dendropy = pytest.importorskip("dendropy")
    import networkx

    parents = [-1, *range(len(names) - 1)]
    try:
        texts = to_newick(names, parents), to_nexus(names, parents), to_graphml(names, parents)
    except ValueError:  # names that become the same
        return
    newick, nexus, graphml = texts
    tree = dendropy.Tree.get(data=newick, schema="newick", suppress_internal_node_taxa=True)
    assert len(tree.nodes()) >= len(names)
    dendropy.TreeList.get(data=nexus, schema="nexus", suppress_internal_node_taxa=True)
    graph = networkx.parse_graphml(graphml)
    assert (len(graph), graph.number_of_edges()) == (len(names), len(names) - 1)


wild = hostile | st.sampled_from(
    ["<img src=x onerror=alert(1)>", "-->", "]]>", "&lt;", "@@DATA@@", "@@SCRIPT@@", "${a}", "`"]
)


@fuzzed(st.lists(wild, min_size=8, max_size=8, unique=True), wild, wild, examples=15)
def test_report(names, one, other):
    """No text of the data becomes an element, an attribute or a control character of the page."""
    edges = [ReportEdge(e.child, e.parent, e.support, (0.5,)) for e in small().edges]
    data = small(
        title=one,
        ids=names,
        columns=[ReportColumn(other, "categorical", names, names)],
        edges=edges,
        evidence_names=[one],
        parameters=[other],
        warnings=[one],
        provenance={other: one},
    )
    calm, page = Page(report_html(small(warnings=["w"]))), Page(report_html(data))
    # Words that look like options, --so, are set as code, which is inert.
    assert sorted({*page.tags} - {"code"}) == sorted({*calm.tags} - {"code"})
    assert page.tags.count("script") == calm.tags.count("script")
    assert {a[:2] for a in page.attributes} == {a[:2] for a in calm.attributes}
    embedded = page.blocks[1][1]
    assert not set("<>&") & set(embedded)
    assert len(json.loads(embedded)["ids"]) == len(names)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.text)


# Command lines ----------------------------------------------------------------------------------

ASIDE = ("scheduler", "jobs", "checkpoint", "debug")  # a network, and files outside of the case
WORDS = [
    *("", "x", "a", "onset", "0", "-1", "1.5", "nan", "inf", "1e400", "auto", "any", "no", "x=y"),
    *(
        "a=count",
        "a=date",
        "x,y",
        "../..",
        "/dev/zero",
        ".",
        "t.csv",
        "m",
        "=",
        "\x1b[2J",
        "--",
        "é",
    ),
]


def parameters(name):
    command = main.get_command(click.Context(main), name)
    return [p for p in command.params if isinstance(p, click.Option) and p.name not in ASIDE]


@st.composite
def command_lines(draw):
    name = draw(st.sampled_from([c for c in COMMANDS if c != "diseases"]))
    line = [name, "m" if name in ("show", "sample") else "t.csv"]
    options = parameters(name)
    for _ in range(draw(st.integers(0, 5))):
        option = draw(st.sampled_from(options))
        line.append(draw(st.sampled_from([*option.opts, *option.secondary_opts])))
        if not option.is_flag:
            line.append(draw(st.sampled_from(WORDS)))
    if any("--check" in option.opts for option in options):
        line.append("--check")
    return line


@fuzzed(command_lines(), examples=60)
def test_command_lines(line):
    """An exit code that is documented, one line, no traceback, nothing written elsewhere."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "a" / "b"
        home.mkdir(parents=True)
        (home / "t.csv").write_bytes(SEEDS["x.csv"])
        (home / "m").write_bytes(model())
        os.chdir(home)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = CliRunner().invoke(main, line)
        finally:
            os.chdir(before)
        assert result.exit_code in (0, 2, 3, 4), (line, result.output)
        assert "Traceback" not in result.output
        assert "\x1b" not in result.output


# The app --------------------------------------------------------------------------------------

heads = st.sampled_from(
    [b"Host: %h", b"Host: evil", b"Origin: http://evil", b"Origin: null", b"Content-Length: 5",
     b"Content-Length: -1", b"Content-Length: 99999999999", b"Transfer-Encoding: chunked", b": x",
     b"Host", b"X: \xff\x00", b"Expect: 100-continue", b"Range: bytes=0-"]
)  # fmt: skip
paths = st.sampled_from(
    ["", "state", "results.zip", "results/../../t", "results/%2e%2e/t", "files/x", "files/%00",
     "files/..%2f..%2fx", "run", "look", "use", "*", "//", "?a", "diseases", "%ff"]
)  # fmt: skip
bodies = st.sampled_from([b"", b"{}", b"[1]x", b"\xff{}[]", b'{"a":1}', b"[" * 5000])


@fuzzed(
    st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "\x00", "GET /"]),
    st.booleans(), paths, st.lists(heads, max_size=4), bodies, examples=40,
)  # fmt: skip
def test_requests_to_the_app(method, knows_the_token, path, headers, body):
    """Whatever is sent is answered or cut off; strangers learn nothing, files stay inside."""
    with tempfile.TemporaryDirectory() as home:
        session = Session(Path(home) / "app", 1000)
        session.folder.mkdir()
        server = Server(session, 0)
        server.start()
        token = server.token if knows_the_token else "x" * len(server.token)
        host = server.host.encode()
        lines = [f"{method} /{token}/{path} HTTP/1.0".encode(), *headers]
        raw = b"\r\n".join(lines).replace(b"%h", host) + b"\r\n\r\n" + body
        try:
            with (
                contextlib.suppress(ConnectionError),
                socket.create_connection(
                    ("127.0.0.1", server.server_address[1]), timeout=10
                ) as link,
            ):
                link.sendall(raw)
                link.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda: link.recv(65536), b""))
                if not (knows_the_token and b"Host: %h" in headers):
                    assert b" 200 " not in answer.split(b"\r\n")[0]
                assert b"Traceback" not in answer
                assert knows_the_token or server.token.encode() not in answer
        finally:
            server.close()
            session.close()
        assert os.listdir(home) == []


def test_cells_are_what_was_written(tmp_path):
    """What the fuzzing reads is read: the seeds are files that make sense."""
    for name, data in SEEDS.items():
        (tmp_path / name).write_bytes(data)
        assert len(read_records(tmp_path / name)) >= 2
    assert read_cells(tmp_path / "x.csv")["b"] == ["u", "v\nw", "u"]

"""Trees in other tools' formats, read back with dendropy and networkx."""

import io
import sys

import dendropy
import numpy as np
import pytest

from oracles.newick import read_newick
from outtrees.io import to_graphml, to_networkx, to_newick, to_nexus, write_text

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "=cmd|'/c calc'!A1",
    "..\\..\\x",
    "\u202eevil",
    "x" * 100_000,
    "a_b",
    "a b",
    "O'Hara; (1)[2]{3}:4,5",
    "12",
    "1.5e3",
    '"quoted"',
    "ä😀",
    " lead",
    "A",
]


def forest(T, n_roots=1, seed=0):
    """Random parents: each record descends from an earlier one of a random order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(T)
    parents = np.full(T, -1)
    for place in range(n_roots, T):
        parents[order[place]] = order[rng.integers(place)]
    return parents


def edges_by_name(ids, parents):
    return {(ids[p] if p >= 0 else None, ids[c]) for c, p in enumerate(parents.tolist())}


def dendropy_edges(trees):
    """(parent, child) labels, lengths and supports of every node of dendropy trees."""
    edges, lengths, supports = set(), {}, {}
    for tree in trees:
        for node in tree.preorder_node_iter():
            name = label(node)
            edges.add((label(node.parent_node) if node.parent_node else None, name))
            lengths[name] = node.edge_length
            supports[name] = node.annotations.get_value("support")
    return edges, lengths, supports


def label(node):
    return node.taxon.label if node.taxon else node.label


def read_back(text, schema):
    dendropy = pytest.importorskip("dendropy")
    return dendropy.TreeList.get(
        data=text,
        schema=schema,
        suppress_internal_node_taxa=False,
        suppress_leaf_node_taxa=False,
        extract_comment_metadata=True,
        rooting="force-rooted",
    )


@pytest.mark.parametrize("writer", [to_newick, to_nexus])
@pytest.mark.parametrize("n_roots", [1, 3])
def test_dendropy_reads_the_same_tree(writer, n_roots):
    ids = [*HOSTILE, *(f"r{i}" for i in range(26))]
    parents = forest(40, n_roots)
    supports = np.round(np.random.default_rng(1).random(40), 3)
    trees = read_back(writer(ids, parents, supports), writer.__name__.removeprefix("to_"))
    assert len(trees) == n_roots
    edges, lengths, found = dendropy_edges(trees)
    assert edges == edges_by_name(ids, parents)
    assert {float(found[name]) for name in ids} == set(supports)
    assert all(float(found[n]) == s for n, s in zip(ids, supports, strict=True))
    assert all(lengths[n] == (1 if p >= 0 else None) for n, p in zip(ids, parents, strict=True))


def test_names_that_are_numbers_are_names():
    """A reader of NEXUS might take 1 for the first taxon."""
    ids = ["3", "2", "1", "10"]
    parents = np.array([-1, 0, 1, 1])
    for writer in (to_newick, to_nexus):
        trees = read_back(writer(ids, parents), writer.__name__.removeprefix("to_"))
        assert dendropy_edges(trees)[0] == edges_by_name(ids, parents)


def test_lengths_are_times():
    ids, parents = list("abcde"), np.array([-1, 0, 1, 1, 2])
    dates = np.array([18326, 18328.5, 18328, 18330, np.nan])
    lengths = dendropy_edges(read_back(to_newick(ids, parents, dates=dates), "newick"))[1]
    assert lengths == {"a": None, "b": 2.5, "c": 0, "d": 1.5, "e": None}  # c is older than b
    column = dates[:, None]  # as Column.values holds them
    assert to_newick(ids, parents, dates=column) == to_newick(ids, parents, dates=dates)


def test_records_as_leaves_only():
    ids, parents = [f"r {i}" for i in range(30)], forest(30, 2)
    supports = np.linspace(0, 1, 30)
    trees = read_back(to_newick(ids, parents, supports, leaves=True), "newick")
    leaves = {label(leaf): leaf for tree in trees for leaf in tree.leaf_node_iter()}
    assert set(leaves) == set(ids)
    for tree in trees:
        assert all(node.label is None and node.taxon is None for node in tree.internal_nodes())
    internal = set(parents.tolist()) - {-1}
    # A record's own node: the leaf, or the node above the zero-length leaf that names it.
    nodes = {}
    for i, name in enumerate(ids):
        leaf = leaves[name]
        assert leaf.edge_length == (0 if i in internal else (1 if parents[i] >= 0 else None))
        nodes[i] = leaf.parent_node if i in internal else leaf
    for i, parent in enumerate(parents.tolist()):
        assert nodes[i].parent_node is (nodes[parent] if parent >= 0 else None)
        if parent >= 0:
            assert float(nodes[i].annotations.get_value("support")) == pytest.approx(
                supports[i], rel=1e-5
            )


@pytest.mark.parametrize("n_roots", [1, 4])
def test_graphml_and_networkx_agree(n_roots):
    networkx = pytest.importorskip("networkx")
    ids = [*HOSTILE, "line\nend\r\ttab", *(f"r{i}" for i in range(25))]
    parents = forest(40, n_roots)
    rng = np.random.default_rng(1)
    supports, dates = rng.random(40), rng.normal(size=40)
    supports[3], dates[5] = np.nan, np.nan
    graph = to_networkx(ids, parents, supports, dates)
    assert networkx.is_forest(graph)
    assert max(dict(graph.in_degree()).values()) == 1
    edges = {(a, b) for a, b in edges_by_name(ids, parents) if a is not None}
    assert set(graph.edges) == edges
    text = to_graphml(ids, parents, supports, dates)
    read = networkx.read_graphml(io.BytesIO(text.encode()))
    read = networkx.relabel_nodes(read, dict(read.nodes(data="name")))
    assert set(read.edges) == edges
    for name, data in graph.nodes(data=True):
        assert read.nodes[name] == {"name": name, **data}
    for edge in edges:
        assert read.edges[edge] == graph.edges[edge]
    assert "date" not in graph.nodes[ids[5]]
    assert "support" not in graph.nodes[ids[3]]


def test_characters_that_a_format_cannot_hold():
    ids = ["nul\0", "vt\x0b", "half\ud800", "end\n"]
    text = to_graphml(ids, [-1, 0, 0, 0])
    networkx = pytest.importorskip("networkx")
    graph = networkx.read_graphml(io.BytesIO(text.encode()))
    assert [name for _, name in graph.nodes(data="name")] == [
        *("nul\\x00", "vt\\x0b", "half\\ud800", "end\n"),
    ]
    newick = to_newick(ids, [-1, 0, 0, 0])
    assert newick.count("\n") == 1
    assert read_newick(newick)[0] == ["nul\\x00", "vt\\x0b", "half\\ud800", "end\\n"]


def test_a_chain_of_twenty_thousand():
    T = 20_000
    assert sys.getrecursionlimit() < T
    ids, parents = [f"r{i}" for i in range(T)], np.arange(-1, T - 1)
    newick = to_newick(ids, parents, np.ones(T), leaves=False)
    names, above, _ = read_newick(newick)
    assert names == ids  # parents first: the chain in its order
    np.testing.assert_array_equal(above, parents)
    assert len(read_newick(to_newick(ids, parents, leaves=True))[0]) == 2 * T - 1
    assert to_nexus(ids, parents).count("(") == T - 1
    assert to_graphml(ids, parents).count("<edge") == T - 1
    networkx = pytest.importorskip("networkx")
    assert networkx.is_arborescence(to_networkx(ids, parents))


@pytest.mark.parametrize("n_roots", [1, 5])
def test_what_is_written_is_read(n_roots):
    ids = [*HOSTILE, *(f"r{i}" for i in range(186))]
    parents = forest(200, n_roots)
    dates = np.round(np.random.default_rng(2).normal(size=200), 3)
    names, above, lengths = read_newick(to_newick(ids, parents, np.full(200, 0.5), dates))
    place = [names.index(name) for name in ids]
    expected = np.where(parents >= 0, np.array(place)[parents], -1)
    np.testing.assert_array_equal(np.array(above)[place], expected)
    times = np.where(parents >= 0, np.maximum(dates - dates[parents], 0), np.nan)
    # Twelve digits are written.
    np.testing.assert_allclose(np.array(lengths, dtype=float)[place], times, rtol=1e-11)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "must have at least one record; got none"),
        ((["a", "b"], [-1]), r"2 integers, one for each record; got .* \(1,\)"),
        ((["a"], [-1.0]), "integers, .* float64"),
        ((["a", "a"], [-1, 0]), "identities must differ; got some twice"),
        ((["a", "b"], [-1, 2]), "between -1 .* and 1; got -1 to 2"),
        ((["a", "b", "c"], [-1, 2, 1]), "a cycle above 2 records, the first of them 'b'"),
        ((["a", "b"], [-1, 0], [1]), r"supports must be 2 finite numbers .* shape \(1,\)"),
        ((["a", "b"], [-1, 0], None, [0, np.inf]), "dates must be .* with infinities"),
    ],
)
def test_refused_trees(arguments, message):
    for writer in (to_newick, to_nexus, to_graphml, to_networkx):
        with pytest.raises(ValueError, match=message):
            writer(*arguments)


def test_written_to_disk(tmp_path):
    path = write_text(tmp_path / "tree.nwk", to_newick(["ä", "b"], [-1, 0]))
    assert path.read_text(encoding="utf-8") == "(b:1)ä;\n"
    assert [p.name for p in tmp_path.iterdir()] == ["tree.nwk"]


@pytest.mark.parametrize("mark", list("(),:;"))
def test_records_called_by_a_mark_are_not_lost(mark):
    """DendroPy takes a quoted mark for the mark itself."""
    names, parents = ["a", mark, "b"], [-1, 0, 0]
    for text, schema in (
        (to_newick(names, parents), "newick"),
        (to_nexus(names, parents), "nexus"),
    ):
        (tree,) = dendropy.TreeList.get(data=text, schema=schema, suppress_internal_node_taxa=True)
        found = [node.taxon.label for node in tree.leaf_nodes()]
        assert {f"\\x{ord(mark):x}", "b"} <= set(found), schema

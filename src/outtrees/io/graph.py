"""Trees as graphs: GraphML text and networkx."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

from numpy.typing import ArrayLike

from outtrees.io.named_tree import Tree, check_tree

# What XML 1.0 cannot hold at all, not even as a reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_ENDS = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}  # or readers would make blanks of them


def to_graphml(
    ids: Sequence[str],  # (T,)
    parents: ArrayLike,  # (T,)
    supports: ArrayLike | None = None,  # (T,)
    dates: ArrayLike | None = None,  # (T,)
) -> str:
    """Return the tree as GraphML text: edges from parent to child with `support` and `length`.

    Nodes have a `name`, which is the record's, and a `date` and the `support` of their parent (of
    being a root, for a root) where known. Characters that XML cannot hold are written as escapes.

    Examples
    --------
    >>> text = to_graphml(["a", "<b>"], [-1, 0], supports=[1, 0.75])
    >>> print(text.splitlines()[-3])
        <edge source="n0" target="n1"><data key="s">0.75</data><data key="l">1.0</data></edge>
    """
    tree = check_tree(ids, parents, supports, dates)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
        '  <key id="name" for="node" attr.name="name" attr.type="string"/>',
        '  <key id="date" for="node" attr.name="date" attr.type="double"/>',
        '  <key id="r" for="node" attr.name="support" attr.type="double"/>',
        '  <key id="s" for="edge" attr.name="support" attr.type="double"/>',
        '  <key id="l" for="edge" attr.name="length" attr.type="double"/>',
        '  <graph id="tree" edgedefault="directed">',
    ]
    for record, name in enumerate(tree.ids):
        data = f'<data key="name">{_xml(name)}</data>'
        data += _data("date", _date(tree, record)) + _data("r", tree.support[record])
        lines.append(f'    <node id="n{record}">{data}</node>')
    for child, parent in enumerate(tree.parents.tolist()):
        if parent >= 0:
            data = _data("s", tree.support[child]) + _data("l", tree.lengths[child])
            lines.append(f'    <edge source="n{parent}" target="n{child}">{data}</edge>')
    return "\n".join([*lines, "  </graph>", "</graphml>"]) + "\n"


def to_networkx(
    ids: Sequence[str],  # (T,)
    parents: ArrayLike,  # (T,)
    supports: ArrayLike | None = None,  # (T,)
    dates: ArrayLike | None = None,  # (T,)
) -> Any:
    """Return the tree as a networkx.DiGraph whose nodes are the identities.

    Edges go from parent to child and have `support` and `length` where known; nodes have `date`
    and `support` (of their parent, or of being a root).

    Examples
    --------
    >>> graph = to_networkx(["a", "b", "c"], [-1, 0, 0], supports=[1, 0.75, 0.5])
    >>> list(graph.edges(data="support"))
    [('a', 'b', 0.75), ('a', 'c', 0.5)]
    """
    try:
        import networkx
    except ImportError:
        raise ImportError("to_networkx needs networkx; pip install networkx") from None
    tree = check_tree(ids, parents, supports, dates)
    graph = networkx.DiGraph()
    for record, name in enumerate(tree.ids):
        graph.add_node(name, **_known(date=_date(tree, record), support=tree.support[record]))
    for child, parent in enumerate(tree.parents.tolist()):
        if parent >= 0:
            known = _known(support=tree.support[child], length=tree.lengths[child])
            graph.add_edge(tree.ids[parent], tree.ids[child], **known)
    return graph


def _date(tree: Tree, record: int) -> float | None:
    date = None if tree.dates is None else float(tree.dates[record])
    return None if date != date else date  # NaN


def _known(**values: float | None) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def _data(key: str, value: float | None) -> str:
    return "" if value is None else f'<data key="{key}">{value!r}</data>'


def _xml(text: str) -> str:
    plain = _NOT_XML.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
    return escape(plain, _LINE_ENDS)

"""Trees for other tools: Newick, NEXUS, GraphML, networkx.

Every function takes identities and parents, −1 at roots, of which there may be several.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees._common.docs import shared_docs
from outtrees.errors import library

# Letters, digits and dots need no quotation marks anywhere; an underscore would become a blank.
_BARE = re.compile(r"[^\W_][^\W_.]*(?:\.[^\W_]+)*")

_MARKS = ("(", ")", ",", ":", ";")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

# What XML 1.0 cannot hold at all, not even as a reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_ENDS = str.maketrans(
    {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
)  # or readers would make blanks of them


_documented = shared_docs(
    tree="ids : sequence of str\n    Identities.\n"
    "parents : array of shape (T,)\n    Rows of the parents, −1 at roots.\n"
    "supports : array of shape (T,), optional\n    Of each record's parent.\n"
    "dates : array of shape (T,), optional\n    From which lengths of edges follow.",
    text="Returns\n-------\nstr\n    The text.",
)


@dataclass(frozen=True)
class Tree:
    """Records and their parents, of which nothing needs checking any more."""

    ids: tuple[str, ...]
    parents: NDArray[np.intp]  # (T,), −1 at roots
    supports: NDArray[np.float64] | None  # (T,), NaN where unknown
    dates: NDArray[np.float64] | None  # (T,), NaN where unknown

    @property
    def roots(self) -> list[int]:
        """The records without a parent."""
        return np.flatnonzero(self.parents < 0).tolist()

    @cached_property
    def children(self) -> list[list[int]]:
        """The children of each record, in the order of the records."""
        return children_of(self.parents)

    @cached_property
    def order(self) -> list[int]:
        """All records, parents before children."""
        return roots_and_order(self.parents, self.children)[1]

    @cached_property
    def lengths(self) -> list[float | None]:
        """The length of the edge to each record's parent, None if there is none or it is unknown.

        The time between the two dates; 0 where a child is older than its parent; 1 without dates.
        """
        below = self.parents >= 0
        lengths = np.where(below, 1.0, np.nan)
        if self.dates is not None:
            lengths[below] = np.maximum(self.dates[below] - self.dates[self.parents[below]], 0.0)
        return _known(lengths)

    @cached_property
    def support(self) -> list[float | None]:
        """The support of each record's parent, None if unknown."""
        return [None] * len(self.ids) if self.supports is None else _known(self.supports)


def _known(values: NDArray[np.float64]) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]  # NaN


def children_of(parents: NDArray[np.intp]) -> list[list[int]]:
    """Return the children of each record, in the order of the records."""
    children: list[list[int]] = [[] for _ in range(len(parents))]
    for child, parent in enumerate(parents.tolist()):
        if parent >= 0:
            children[parent].append(child)
    return children


def roots_and_order(
    parents: NDArray[np.intp], children: list[list[int]]
) -> tuple[list[int], list[int]]:
    """Return the roots, and all records that descend from them, parents before children.

    The order lacks the records on a cycle and below one.
    """
    roots: list[int] = np.flatnonzero(parents < 0).tolist()
    order = list(roots)
    for record in order:  # grows while it is read
        order.extend(children[record])
    return roots, order


def check_tree(
    ids: Sequence[str],  # (T,)
    parents: ArrayLike,  # (T,)
    supports: ArrayLike | None = None,  # (T,)
    dates: ArrayLike | None = None,  # (T,)
) -> Tree:
    """Return the tree or forest, or say what is wrong with it.

    Raises
    ------
    ValueError
        If lengths differ, identities repeat, a parent does not exist, or some records descend
        from themselves.

    Examples
    --------
    >>> check_tree(["a", "b", "c"], [-1, 0, 0]).children
    [[1, 2], [], []]
    """
    names = tuple(str(name) for name in ids)
    T = len(names)
    above = np.asarray(parents)
    if T == 0:
        raise ValueError("a tree must have at least one record; got none")
    if above.shape != (T,) or above.dtype.kind not in "iu":
        raise ValueError(
            f"parents must be {T} integers, one for each record; got an array of shape "
            f"{above.shape} and type {above.dtype}"
        )
    if len(set(names)) != T:
        raise ValueError("identities must differ; got some twice. Rename them")
    if above.min() < -1 or above.max() >= T:
        raise ValueError(
            f"parents must lie between -1 (a root) and {T - 1}; got {above.min()} to {above.max()}"
        )
    tree = Tree(names, above.astype(np.intp), _floats("supports", supports, T), _days(dates, T))
    _, reached = roots_and_order(tree.parents, tree.children)
    if len(reached) < T:
        lost = min(set(range(T)) - set(reached))
        raise ValueError(
            f"parents must lead to a root; got a cycle above {T - len(reached)} records, the first "
            f"of them {names[lost][:60]!r}"
        )
    return tree


def _floats(name: str, values: ArrayLike | None, T: int) -> NDArray[np.float64] | None:
    if values is None:
        return None
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (T,) or np.isinf(array).any():
        raise ValueError(
            f"{name} must be {T} finite numbers (NaN where unknown); got shape "
            f"{array.shape}{' with infinities' if np.isinf(array).any() else ''}"
        )
    return array


def _days(dates: ArrayLike | None, T: int) -> NDArray[np.float64] | None:
    array = None if dates is None else np.asarray(dates)
    if array is not None and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # the values of a column of records
    return _floats("dates", array, T)


# Newick and NEXUS --------------------------------------------------------------------------------


@_documented
def to_newick(
    ids: Sequence[str],  # (T,)
    parents: ArrayLike,  # (T,)
    supports: ArrayLike | None = None,  # (T,)
    dates: ArrayLike | None = None,  # (T,)
    *,
    leaves: bool = False,
    bare: bool = False,
) -> str:
    """Return the tree as Newick text, a line for each root.

    A record that is a parent is a named internal node. Several roots make several trees, one a
    line, which readers of Newick take as a list of trees: to hang them under one unnamed root would
    claim an ancestor that nobody observed, at a distance that nobody knows.

    Parameters
    ----------
    ids : sequence of str
    parents : array of shape (T,)
        −1 at roots.
    supports : array of shape (T,), optional
        How sure each record's parent is, written as a comment, [&support=0.93]; NaN: none.
    dates : array of shape (T,), optional
        In days. A branch is as long as the time between parent and child, 0 if the child is older,
        and has no length if a date is missing (NaN). Without dates every branch has length 1.
    leaves : bool
        Whether internal nodes stay unnamed and hold their record as a leaf at distance 0, for
        tools that only look for names at leaves.
    bare : bool
        Whether names are written as they are, for tools that know no quotation marks; the names
        must then be without signs of Newick.

    {text}

    Notes
    -----
    Names are quoted unless they are letters, digits and inner dots; control characters are
    written as escapes such as \\n. O(T), without recursion.

    Examples
    --------
    >>> print(to_newick(["a", "b c", "d"], [-1, 0, 0], supports=[1, 0.75, 0.5]))
    ('b c'[&support=0.75]:1,d[&support=0.5]:1)a[&support=1];
    >>> print(to_newick(["a", "b", "c"], [-1, 0, -1], leaves=True))
    (a:0,b:1);
    c;
    """
    tree = check_tree(ids, parents, supports, dates)
    quoted = str if bare else quoted_name
    return "\n".join(_newick(tree, root, leaves, quoted) for root in tree.roots) + "\n"


@_documented
def to_nexus(
    ids: Sequence[str],  # (T,)
    parents: ArrayLike,  # (T,)
    supports: ArrayLike | None = None,  # (T,)
    dates: ArrayLike | None = None,  # (T,)
    *,
    leaves: bool = False,
) -> str:
    """Return the tree as a NEXUS file with a block of taxa and a block of trees, one for each root.

    Arguments are those of `to_newick`. All records are taxa, those at internal nodes too. Readers
    of NEXUS may take names that differ only in case for one.

    Parameters
    ----------
    {tree}
    leaves : bool
        As in `to_newick`.

    {text}

    Examples
    --------
    >>> print(to_nexus(["a", "b"], [-1, 0]))
    #NEXUS
    begin taxa;
      dimensions ntax=2;
      taxlabels
        a
        b;
    end;
    begin trees;
      tree tree1 = [&R] (b:1)a;
    end;
    """
    tree = check_tree(ids, parents, supports, dates)
    taxa = "\n".join(f"    {quoted_name(name)}" for name in tree.ids)
    trees = "\n".join(
        f"  tree tree{number} = [&R] {_newick(tree, root, leaves)}"
        for number, root in enumerate(tree.roots, start=1)
    )
    return (
        f"#NEXUS\nbegin taxa;\n  dimensions ntax={len(tree.ids)};\n  taxlabels\n{taxa};\nend;\n"
        f"begin trees;\n{trees}\nend;\n"
    )


def quoted_name(name: str) -> str:
    r"""Return a name as Newick and NEXUS want it.

    Examples
    --------
    >>> [quoted_name(name) for name in ("B.1.1", "a_b", "O'Hara", "x y", "")]
    ['B.1.1', "'a_b'", "'O''Hara'", "'x y'", "''"]
    """
    if _BARE.fullmatch(name):
        return name
    plain = control_escaped(name)
    if plain in _MARKS:  # quoted, some readers take it for the mark all the same, and lose a record
        plain = f"\\x{ord(plain):x}"
    return "'" + plain.replace("'", "''") + "'"


def control_escaped(text: str) -> str:
    r"""Return text in which control characters, line ends and lone surrogates are escapes.

    Examples
    --------
    >>> print(control_escaped("a\nb"))
    a\nb
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _newick(tree: Tree, root: int, leaves: bool, quoted: Callable[[str], str] = quoted_name) -> str:
    pieces: list[str] = []
    stack: list[int | str] = [root]  # text, or a record whose subtree is to come
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        children = tree.children[item]
        if not children:
            pieces.append(quoted(tree.ids[item]) + _annotation(tree, item))
            continue
        name = "" if leaves else quoted(tree.ids[item])
        pieces.append("(")
        stack.append(f"){name}{_annotation(tree, item)}")
        for child in reversed(children):
            stack += [child, ","]
        stack.pop()  # no comma before the first
        if leaves:
            stack.append(f"{quoted(tree.ids[item])}:0,")
    return "".join(pieces) + ";"


def _annotation(tree: Tree, record: int) -> str:
    support, length = tree.support[record], tree.lengths[record]
    comment = "" if support is None else f"[&support={support:.6g}]"
    return comment + ("" if length is None else f":{length:.12g}")


# Graphs -----------------------------------------------------------------------------------------


@_documented
def to_graphml(
    ids: Sequence[str],  # (T,)
    parents: ArrayLike,  # (T,)
    supports: ArrayLike | None = None,  # (T,)
    dates: ArrayLike | None = None,  # (T,)
    *,
    name: str = "name",
    distances: bool = False,
) -> str:
    """Return the tree as GraphML text: edges from parent to child with `support` and `length`.

    Nodes have a `name`, which is the record's, and a `date` and the `support` of their parent (of
    being a root, for a root) where known. Characters that XML cannot hold are written as escapes.

    Parameters
    ----------
    {tree}
    name : str
        What the name of a node is called.
    distances : bool
        Whether edges have a `distance`, 1 − support, besides.

    {text}

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
        f'  <key id="name" for="node" attr.name="{html.escape(name)}" attr.type="string"/>',
        '  <key id="date" for="node" attr.name="date" attr.type="double"/>',
        '  <key id="r" for="node" attr.name="support" attr.type="double"/>',
        '  <key id="s" for="edge" attr.name="support" attr.type="double"/>',
        '  <key id="l" for="edge" attr.name="length" attr.type="double"/>',
        *(['  <key id="d" for="edge" attr.name="distance" attr.type="double"/>'] * distances),
        '  <graph id="tree" edgedefault="directed">',
    ]
    for record, text in enumerate(tree.ids):
        data = f'<data key="name">{_xml(text)}</data>'
        data += _data("date", _date(tree, record)) + _data("r", tree.support[record])
        lines.append(f'    <node id="n{record}">{data}</node>')
    for child, parent in enumerate(tree.parents.tolist()):
        if parent >= 0:
            support = tree.support[child]
            data = _data("s", support) + _data("l", tree.lengths[child])
            data += _data("d", None if support is None or not distances else 1 - support)
            lines.append(f'    <edge source="n{parent}" target="n{child}">{data}</edge>')
    return "\n".join([*lines, "  </graph>", "</graphml>"]) + "\n"


@_documented
def to_networkx(
    ids: Sequence[str],  # (T,)
    parents: ArrayLike,  # (T,)
    supports: ArrayLike | None = None,  # (T,)
    dates: ArrayLike | None = None,  # (T,)
) -> Any:
    """Return the tree as a networkx.DiGraph whose nodes are the identities.

    Edges go from parent to child and have `support` and `length` where known; nodes have `date`
    and `support` (of their parent, or of being a root).

    Parameters
    ----------
    {tree}

    Returns
    -------
    networkx.DiGraph
        The tree.

    Examples
    --------
    >>> graph = to_networkx(["a", "b", "c"], [-1, 0, 0], supports=[1, 0.75, 0.5])
    >>> list(graph.edges(data="support"))
    [('a', 'b', 0.75), ('a', 'c', 0.5)]
    """
    networkx = library(
        "networkx",
        "to_networkx needs networkx, which is not installed; pip install 'outtrees[networkx]'",
    )
    tree = check_tree(ids, parents, supports, dates)
    graph = networkx.DiGraph()
    for record, name in enumerate(tree.ids):
        graph.add_node(name, **_given(date=_date(tree, record), support=tree.support[record]))
    for child, parent in enumerate(tree.parents.tolist()):
        if parent >= 0:
            known = _given(support=tree.support[child], length=tree.lengths[child])
            graph.add_edge(tree.ids[parent], tree.ids[child], **known)
    return graph


def _date(tree: Tree, record: int) -> float | None:
    date = None if tree.dates is None else float(tree.dates[record])
    return None if date != date else date  # NaN


def _given(**values: float | None) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def _data(key: str, value: float | None) -> str:
    return "" if value is None else f'<data key="{key}">{value!r}</data>'


def _xml(text: str) -> str:
    plain = _NOT_XML.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
    return html.escape(plain, quote=False).translate(_LINE_ENDS)

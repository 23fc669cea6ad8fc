"""Trees as Newick and NEXUS text, and Newick read with care."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees.errors import RecordsError
from outtrees.io.named_tree import Tree, check_tree

# Letters, digits and dots need no quotation marks anywhere; an underscore would become a blank.
_BARE = re.compile(r"[^\W_][^\W_.]*(?:\.[^\W_]+)*")

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def to_newick(
    ids: Sequence[str],  # (T,)
    parents: ArrayLike,  # (T,)
    supports: ArrayLike | None = None,  # (T,)
    dates: ArrayLike | None = None,  # (T,)
    *,
    leaves: bool = False,
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
    return "\n".join(_newick(tree, root, leaves) for root in tree.roots) + "\n"


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
    plain = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), name)
    return "'" + plain.replace("'", "''") + "'"


def _newick(tree: Tree, root: int, leaves: bool) -> str:
    pieces: list[str] = []
    stack: list[int | str] = [root]  # text, or a record whose subtree is to come
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        children = tree.children[item]
        if not children:
            pieces.append(quoted_name(tree.ids[item]) + _annotation(tree, item))
            continue
        name = "" if leaves else quoted_name(tree.ids[item])
        pieces.append("(")
        stack.append(f"){name}{_annotation(tree, item)}")
        for child in reversed(children):
            stack += [child, ","]
        stack.pop()  # no comma before the first
        if leaves:
            stack.append(f"{quoted_name(tree.ids[item])}:0,")
    return "".join(pieces) + ";"


def _annotation(tree: Tree, record: int) -> str:
    support, length = tree.support[record], tree.lengths[record]
    comment = "" if support is None else f"[&support={support:.6g}]"
    return comment + ("" if length is None else f":{length:.12g}")


# Reading --------------------------------------------------------------------------------------


class NewickTree(NamedTuple):
    """Nodes of one or several trees, parents before children."""

    names: tuple[str, ...]  # "" for nodes without a name
    parents: NDArray[np.intp]  # (n,), −1 at roots
    lengths: NDArray[np.float64]  # (n,), of the branch to the parent, NaN where none is given


_TOKEN = re.compile(
    r"(?P<comment>\[[^\]]*\])|(?P<blank>\s+)|(?P<mark>[(),;:])|'(?P<quoted>(?:[^']|'')*)'"
    r"|(?P<bare>[^\s()\[\]',:;]+)"
)


def read_newick(text: str) -> NewickTree:
    """Return the nodes of one or several trees written as Newick.

    Comments are skipped; underscores in names without quotation marks become blanks. Nesting may
    be as deep as memory allows: O(length of the text), without recursion.

    Raises
    ------
    RecordsError
        That names the character: unbalanced brackets, a name that occurs twice, a length that is
        negative or no number, anything else that does not belong there.

    Examples
    --------
    >>> tree = read_newick("(b:1,'c d':2.5)a;")
    >>> tree.names, tree.parents.tolist(), tree.lengths.tolist()
    (('a', 'b', 'c d'), [-1, 0, 0], [nan, 1.0, 2.5])
    """
    names, parents, lengths = [""], [-1], [np.nan]
    where: dict[str, int] = {}
    node = 0  # the one being read
    opened: list[int] = []  # characters of the brackets still open
    named = measured = wants_length = finished = closed = False
    offset = 0
    for token in _TOKEN.finditer(text):
        if token.start() != offset:
            _refuse(text, offset, "an unclosed quotation mark or comment, or a stray bracket")
        offset = token.end()
        kind, start = token.lastgroup, token.start()
        if kind in ("comment", "blank"):
            continue
        if finished:  # another tree begins
            names.append("")
            parents.append(-1)
            lengths.append(np.nan)
            node = len(names) - 1
            named = measured = finished = closed = False
        mark = token["mark"]
        if wants_length:
            lengths[node] = _length(text, start, token[0])
            wants_length, measured = False, True
        elif mark == "(":
            if named or measured or closed:
                _refuse(text, start, "a bracket that opens where a comma is expected")
            opened.append(start)
            names.append("")
            parents.append(node)
            lengths.append(np.nan)
            node = len(names) - 1
        elif mark in (",", ")"):
            if not opened:
                _refuse(text, start, "a comma or closing bracket without an open one before it")
            if mark == ",":
                names.append("")
                parents.append(parents[node])
                lengths.append(np.nan)
                node = len(names) - 1
                closed = False
            else:
                opened.pop()
                node = parents[node]
                closed = True
            named = measured = False
        elif mark == ":":
            if measured:
                _refuse(text, start, "a second length")
            wants_length = True
        elif mark == ";":
            if opened:
                _refuse(text, opened[-1], "a bracket that is never closed")
            finished = True
        else:
            if named or measured:
                _refuse(text, start, "a name where a comma, a colon or a bracket is expected")
            name = token["bare"]
            name = token["quoted"].replace("''", "'") if name is None else name.replace("_", " ")
            if name in where:
                _refuse(text, start, f"a name that stood at character {where[name]} already")
            if name:
                where[name] = start
            names[node] = name
            named = True
    if offset != len(text):
        _refuse(text, offset, "an unclosed quotation mark or comment, or a stray bracket")
    if opened:
        _refuse(text, opened[-1], "a bracket that is never closed")
    if not finished:
        _refuse(text, len(text), "the end, but a semicolon is expected there")
    return NewickTree(tuple(names), np.array(parents, dtype=np.intp), np.array(lengths))


def _length(text: str, start: int, token: str) -> float:
    try:
        length = float(token)
    except ValueError:
        length = np.nan
    if not np.isfinite(length) or "_" in token:
        _refuse(text, start, "no number where a length is expected after the colon")
    if length < 0:
        _refuse(text, start, "a negative length; write 0 or more")
    return length


def _refuse(text: str, offset: int, found: str) -> None:
    near = text[offset : offset + 20]
    raise RecordsError(f"Newick text, character {offset} ({near!r}): {found}")

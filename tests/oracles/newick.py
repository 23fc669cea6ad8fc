"""A plain reader of Newick, for what the library writes; without recursion, so that chains fit."""

import re

_TOKEN = re.compile(r"\[[^\]]*\]|\s+|([(),;])|:([^(),;\[\s]+)|'((?:[^']|'')*)'|([^\s()\[\]',:;]+)")


def read_newick(text):
    """Return names, parents (−1 at roots) and branch lengths (None) of nodes, parents first."""
    names, parents, lengths = [], [], []
    opened = []  # the nodes whose brackets are open
    fresh = True  # the next name begins a node

    def new_node():
        names.append("")
        parents.append(opened[-1] if opened else -1)
        lengths.append(None)
        return len(names) - 1

    node, end = -1, 0
    for token in _TOKEN.finditer(text):
        assert token.start() == end, text[end : end + 20]
        end = token.end()
        mark, length, quoted, bare = token.groups()
        if mark == "(":
            opened.append(new_node())
            fresh = True
        elif mark == ")":
            node, fresh = opened.pop(), False
        elif mark in (",", ";"):
            assert mark == "," or not opened
            fresh = True
        elif length is not None:
            lengths[node] = float(length)
        elif quoted is not None or bare is not None:
            if fresh:
                node, fresh = new_node(), False
            assert not names[node]
            names[node] = bare if quoted is None else quoted.replace("''", "'")
    assert end == len(text)
    assert not opened
    return names, parents, lengths

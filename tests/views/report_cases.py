"""Reports with known content, for the tests of the page and of the browser."""

import json
from html.parser import HTMLParser

import numpy as np

from outtrees.views.report_data import ReportColumn, ReportData, ReportEdge

HOSTILE = "</script><img src=x onerror=alert(1)>"
REVERSED = "abc\u202efdp.exe"
LONG = "L" * 1_000_000


def make_report(parents, *, seed=0, ids=None, dates=None, **changes):
    """A report on the given tree; each record has its parent and up to two rivals."""
    rng = np.random.default_rng(seed)
    parents = np.asarray(parents)
    T = len(parents)
    edges, roots, children = [], np.zeros(T), np.zeros(T)
    for child in range(T):
        rivals = [v for v in rng.choice(T, size=min(T, 3), replace=False) if v != child]
        candidates = list(dict.fromkeys([int(parents[child]), *map(int, rivals)]))
        share = [1.0] if len(candidates) == 1 else [0.8] + [0.2 / (len(candidates) - 1)] * 9
        for parent, support in zip(candidates, share, strict=False):
            edges.append(
                ReportEdge(child, parent, support, (1.5, -0.25) if support > 0.5 else (0, 0))
            )
            if parent < 0:
                roots[child] = support
            else:
                children[parent] += support
    wards = ["north", "south", "east"]
    ward = [wards[i % 3] for i in range(T)]
    age = [None if i == 1 else float(20 + i) for i in range(T)]
    content = {
        "title": "A small outbreak",
        "ids": [f"case {i}" for i in range(T)] if ids is None else ids,
        "columns": [
            ReportColumn("ward", "categorical", ward, ward),
            ReportColumn("age", "continuous", age, ["" if a is None else f"{a:g}" for a in age]),
        ],
        "edges": edges,
        "evidence_names": ["ward", "age"],
        "consensus": parents,
        "mode": parents,
        "dates": dates,
        "calendar": dates is not None,
        "root_probability": roots,
        "expected_children": children,
        "log_density": rng.normal(-5, 1, size=T),
        "parameters": ["A child stays in its parent's ward with probability 0.8."],
        "warnings": [],
        "trace": [-30.0, -21.0, -20.5],
        "provenance": {"version": "0.1.0", "seed": "7"},
    }
    return ReportData(**(content | changes))


def small(**changes):
    """Eight records in two trees: 0 ← 1, 2; 1 ← 3, 4; 5 ← 6 ← 7."""
    return make_report([-1, 0, 0, 1, 1, -1, 5, 6], **changes)


def big(T, seed=1):
    """T records, each descending from one of the 40 before it, ten a day."""
    rng = np.random.default_rng(seed)
    parents = [-1] + [int(rng.integers(max(0, i - 40), i)) for i in range(1, T)]
    return make_report(parents, dates=20_000.0 + np.arange(T) // 10)


def hostile():
    """A report in which everything that can be text tries to act."""
    ids = [HOSTILE, REVERSED, LONG, "\ud800\x00", "@@DATA@@", "&lt;b&gt;", "__proto__", ""]
    column = ReportColumn(HOSTILE, "categorical", ids, ids)
    edges = [ReportEdge(e.child, e.parent, e.support, (e.evidence[0],)) for e in small().edges]
    return small(
        title=HOSTILE + "@@SCRIPT@@",
        ids=ids,
        columns=[column],
        edges=edges,
        evidence_names=[HOSTILE],
        parameters=[HOSTILE],
        warnings=[HOSTILE, REVERSED],
        provenance={HOSTILE: HOSTILE, "\"'><script>alert(2)</script>": LONG},
    )


class Page(HTMLParser):
    """The elements of a page and the text of its scripts and styles, as a browser reads them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.blocks, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        self.inside = tag

    def handle_data(self, data):
        if self.tags and self.inside in ("script", "style"):
            self.blocks.append((self.inside, data))
        else:
            self.text += data

    def handle_endtag(self, tag):
        self.inside = None

    def embedded(self):
        return json.loads(self.blocks[1][1])

"""The report: one HTML file that needs no network and lets no name of a record act."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np

from outtrees._common.files import write_atomically
from outtrees.views.report_data import (
    MAX_RECORDS,
    ReportColumn,
    ReportData,
    ReportEdge,
    expected_right,
    page_data,
    visible,
)

__all__ = ["ReportColumn", "ReportData", "ReportEdge", "report_html", "write_report"]

_D3 = "d3-7.9.0"
# In this order: each file uses what those before it define.
_SCRIPTS = (
    *("dom", "elimination", "beside", "model", "colour", "pen", "view", "axis", "tree", "whatif"),
    *("panel", "matrix", "timeline", "curve", "table", "controls", "start"),
)
_EXACT = """<p>Supports, root probabilities and expected numbers of children are sums over
<em>all</em> possible trees of these records: no tree is sampled, and they are exact given the
parameters.</p><p>“What if” answers are sums over all trees as well, computed in this page when you
ask; parameters are not fitted again.</p>"""
_DRAWN = """<p>A parent here is the nearest <em>sampled</em> ancestor: people whom nobody sampled
may lie between. Descent from a record itself is summed over all possible trees; what comes to it
from people who have an unsampled infector in common is averaged over drawn trees, always the same
ones, so that this part of a support has an error of sampling.</p><p>“What if” answers are found in
the same way, in this page, from trees drawn as you suppose; parameters are not fitted again.</p>"""
_SHARES = """<p>A parent here is the nearest <em>sampled</em> ancestor: people whom nobody sampled
may lie between. Supports are shares of whole outbreaks that were drawn from their posterior, with
dates, unsampled people and parameters, so that they have an error of sampling.</p><p>“What if”
answers are shares of those drawn outbreaks that agree with what you suppose.</p>"""
_OPTION = re.compile(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*")
_SENTENCES = 12  # parameters that are shown at once; more unfold
_SENTENCE_LENGTH = 2000  # characters of a parameter, a warning or an entry of the provenance


def write_report(data: ReportData, path: str | os.PathLike[str]) -> Path:
    """Write the report as one self-contained HTML file and return its path.

    The file appears whole or not at all: it is written beside `path` under another name and then
    moved there. With more than 20,000 records the picture holds those nearest the roots, and a
    warning, here and in the page, names `data.tree_file` for the rest.

    Examples
    --------
    >>> import tempfile
    >>> ann, bob = ReportEdge(0, -1, 0.75, (0.0,)), ReportEdge(1, 0, 0.75, (1.5,))
    >>> data = ReportData(
    ...     title="Two records", ids=["Ann", "Bob"], edges=[ann, bob], evidence_names=["height"],
    ...     columns=[ReportColumn("height", "continuous", [1.6, 1.7], ["1.6", "1.7"])],
    ...     consensus=np.array([-1, 0]), mode=np.array([-1, 0]), dates=None, calendar=False,
    ...     root_probability=np.array([0.75, 0.25]), expected_children=np.array([0.75, 0.25]),
    ...     log_density=np.array([-1.0, -1.0]), parameters=[], warnings=[], trace=[-3.0, -2.0],
    ...     provenance={"seed": "0"},
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(data, Path(folder) / "report.html").name
    'report.html'
    """
    page = report_html(data).encode("utf-8")
    if len(data.ids) > MAX_RECORDS:
        warnings.warn(_limited(data), UserWarning, stacklevel=2)
    return write_atomically(path, page)


def report_html(data: ReportData) -> str:
    """Return the report as the text of an HTML page.

    Every text of the data is escaped: as HTML where the page shows it at once, as JSON without
    `<`, `>` or `&` where its script reads it. The content policy allows only the page's own two
    scripts and its style, by their hashes, and no connection to anywhere.
    """
    content = json.dumps(page_data(data), separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        content = content.replace(sign, f"\\u{ord(sign):04x}")
    library = "\n" + _library()
    script = (
        "\n(function () {\n'use strict';\n"
        + "\n".join(asset(f"{name}.js") for name in _SCRIPTS)
        + "})();\n"
    )
    style = asset("report.css")
    policy = (
        f"default-src 'none'; script-src {source_hash(library)} {source_hash(script)}; "
        f"style-src {source_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "POLICY": policy,
        "TITLE": _text(visible(data.title)),
        "SENTENCE": _text(main_sentence(data)),
        "NOTICES": _notices(data),
        "PARAMETERS": _parameters(data.parameters) or '<p class="quiet">No fitted parameters.</p>',
        "EXACT": _SHARES if data.draws is not None else _DRAWN if data.drawn else _EXACT,
        "PROVENANCE": _provenance(data),
        "LICENCE": _text(asset(f"{_D3}.LICENSE")),
        "STYLE": style,
        "DATA": content,
        "LIBRARY": library,
        "SCRIPT": script,
    }
    # One pass over the template alone: a title that looks like a placeholder stays a title.
    return re.sub("@@([A-Z]+)@@", lambda match: parts[match[1]], asset("template.html"))


def main_sentence(data: ReportData) -> str:
    """Return how many records there are and how many right parents to expect, in words."""
    T = len(data.ids)
    right = expected_right(data)
    roots = float(np.sum(data.root_probability))
    sentence = (
        f"{T:,} {'record' if T == 1 else 'records'}: the consensus tree is expected to name "
        f"{right:,.1f} of {T:,} parents correctly ({right / T:.0%}), given the model."
    ).replace("%)", "\N{NO-BREAK SPACE}%)")
    if roots > 1.0005:  # a single-root model says exactly 1, up to rounding
        sentence += f" About {roots:.1f} records have no parent among the others."
    return sentence


def _limited(data: ReportData) -> str:
    return (
        f"picture limited to {MAX_RECORDS:,} of {len(data.ids):,} records, those nearest the "
        f"roots; full tree in {visible(data.tree_file)}"
    )


def _notices(data: ReportData) -> str:
    notes = list(data.warnings)
    if len(data.ids) > MAX_RECORDS:
        limited = _limited(data)
        notes.insert(0, limited[0].upper() + limited[1:] + ".")
    if not notes:
        return ""
    head = "1 warning" if len(notes) == 1 else f"{len(notes)} warnings"
    return (
        f'<section class="notice" id="warnings" aria-label="Warnings"><strong>{head}</strong>'
        f"{_list(notes)}</section>"
    )


def _list(sentences: Iterable[str], kind: str = "") -> str:
    shown = (_text(visible(sentence, _SENTENCE_LENGTH)) for sentence in sentences)
    items = "".join("<li>" + _OPTION.sub(r"<code>\g<0></code>", text) + "</li>" for text in shown)
    return f'<ul class="{kind}">{items}</ul>' if items else ""


def _parameters(sentences: Sequence[str]) -> str:
    shown = _list(sentences[:_SENTENCES], "parameters")
    rest = _list(sentences[_SENTENCES:], "parameters")
    if not rest:
        return shown
    more = f"{len(sentences) - _SENTENCES:,} more parameters"
    return f"{shown}<details><summary>{more}</summary>{rest}</details>"


def _provenance(data: ReportData) -> str:
    rows = "".join(
        f"<dt>{_text(visible(name))}</dt><dd>{_text(visible(text, _SENTENCE_LENGTH))}</dd>"
        for name, text in data.provenance.items()
    )
    return f"<dl>{rows}</dl>" if rows else '<p class="quiet">None was given.</p>'


def _text(text: str) -> str:
    return html.escape(text, quote=True)


def _library() -> str:
    """Return d3 as it goes into the page.

    Its first line names a web address, so the licence, shown in the page, takes its place; the
    names of XML namespaces, which nobody visits, are spelt so that the page holds no address.
    """
    first, code = asset(f"{_D3}.min.js").split("\n", 1)
    owner = first[first.index("Copyright") :]
    code = code.replace("http://", "http:\\/\\/")
    return f"// d3 v{_D3[3:]}. {owner}, ISC licence.\n{code}"


def asset(name: str) -> str:
    """Return the text of a file of the pages."""
    # Hashes are of the text that the browser sees, in which line ends are "\n".
    text = (files("outtrees.views") / "assets" / name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def source_hash(text: str) -> str:
    """Return what a content policy names a script or a style by."""
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"

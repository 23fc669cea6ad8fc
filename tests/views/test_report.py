"""The report as a file and as text: whole, closed to the outside, and inert."""

import base64
import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest

import outtrees.views.report as report_module
from outtrees.views.report import main_sentence, report_html, write_report
from outtrees.views.report_data import (
    MAX_CANDIDATES,
    ReportColumn,
    ReportEdge,
    expected_right,
    page_data,
    visible,
)
from views.report_cases import HOSTILE, LONG, Page, big, hostile, make_report, small

ASSETS = Path(report_module.__file__).parent / "assets"


def test_only_the_pages_own_code_may_run():
    page = Page(report_html(small()))
    contents = [value for _, key, value in page.attributes if key == "content"]
    (policy,) = [value for value in contents if "-src" in value]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["img-src"] == "data:"
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    digests = {
        kind: {
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            for tag, text in page.blocks
            if tag == kind and text != page.blocks[1][1]
        }
        for kind in ("script", "style")
    }
    assert set(rules["script-src"].split()) == digests["script"]
    assert set(rules["style-src"].split()) == digests["style"]
    assert [tag for tag, _ in page.blocks] == ["style", "script", "script", "script"]
    assert not [a for a in page.attributes if a[1].startswith("on") or a[1] in ("style", "src")]


@pytest.mark.parametrize("make", [small, lambda: big(50)])
def test_no_address_anywhere(make):
    text = report_html(make())
    assert not re.search(r"\b(https?|wss?|ftp)://|//cdn|@import|url\(", text)
    assert [a for a in Page(text).attributes if a[1] == "href"] == [("a", "href", "#tree-title")]


def test_library_is_the_published_one_with_its_licence():
    """The pinned file is that of the package d3 7.9.0 on npm, byte for byte."""
    digest = hashlib.sha256((ASSETS / "d3-7.9.0.min.js").read_bytes()).hexdigest()
    assert digest == "f2094bbf6141b359722c4fe454eb6c4b0f0e42cc10cc7af921fc158fceb86539"
    licence = (ASSETS / "d3-7.9.0.LICENSE").read_text()
    assert "Permission to use, copy, modify" in licence
    page = Page(report_html(small()))
    assert licence.strip() in page.text
    assert "Copyright 2010-2023 Mike Bostock" in page.blocks[2][1]


def test_hostile_text_stays_text():
    calm, wild = Page(report_html(small(warnings=["w"]))), Page(report_html(hostile()))
    extra = sorted(set(wild.tags) - set(calm.tags))
    assert extra == []
    assert wild.tags.count("script") == 3
    assert HOSTILE in wild.text  # the title, shown as it is
    data = wild.embedded()
    assert data["ids"][0] == HOSTILE
    assert data["ids"][1] == "abc‹U+202E›fdp.exe"
    assert data["ids"][2] == LONG[:199] + "…"
    assert data["ids"][3] == "‹U+D800›‹U+0000›"
    assert data["ids"][4:] == ["@@DATA@@", "&lt;b&gt;", "__proto__", "(no name)"]
    raw = wild.blocks[1][1]
    assert not set("<>&") & set(raw)
    assert len(raw) < 20_000  # a million letters of one name are not carried along


def test_a_page_without_the_escapes_would_be_caught():
    """The negative control of the test above."""
    broken = report_html(hostile()).replace("\\u003c", "<").replace("\\u003e", ">")
    assert "img" in Page(broken).tags


@pytest.mark.parametrize("limit", [1, 10, 200])
def test_visible_never_exceeds_its_limit(limit):
    for text in ("", "a", "\u202e" * 500, "x" * 500, "\n" * 500):
        assert len(visible(text, limit)) <= limit
    assert visible("a\tb\nc") == "a b c"
    assert visible("क्\u200dष") == "क्\u200dष"  # joiners belong to the scripts that need them


def test_sentence_counts_the_expected_right_parents():
    data = small()
    by_hand = sum(edge.support for edge in data.edges if data.consensus[edge.child] == edge.parent)
    assert expected_right(data) == pytest.approx(by_hand, rel=1e-12)
    assert main_sentence(data) == (
        "8 records: the consensus tree is expected to name 6.4 of 8 parents correctly (80\u00a0%), "
        "given the model. About 1.6 records have no parent among the others."
    )
    assert "no parent among" not in main_sentence(make_report([-1, 0, 1]))


def test_embedded_numbers_are_those_given():
    data = page_data(small(dates=np.array([1.5, np.nan, 2, 3, 4, 5, 6, 7])))
    assert data["dates"][:3] == [1.5, None, 2.0]
    assert data["columns"][1]["values"][:3] == [20.0, None, 22.0]
    assert data["consensus"] == [-1, 0, 0, 1, 1, -1, 5, 6]
    # Supports are written with five digits: nobody reads more off a page.
    kept = {(child, parent): support for child, parent, support, *_ in data["edges"]}
    assert kept == {(e.child, e.parent): pytest.approx(e.support, rel=1e-4) for e in small().edges}
    extreme = small(log_density=np.array([-np.inf] + [0.0] * 7))
    assert page_data(extreme)["logDensity"][0] == "-inf"


def test_every_field_of_the_data_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    section = text.split("## The data in the page")[1].split("## ")[0]
    named = set(re.findall(r"`(\w+)`", section))
    assert set(page_data(small())) <= named


def test_many_candidates_are_cut_but_never_those_of_the_trees():
    T = 40
    weights = np.linspace(1, 2, T - 1) / np.linspace(1, 2, T - 1).sum()
    edges = [ReportEdge(0, v, w, (0, 0)) for v, w in zip(range(1, T), weights, strict=True)]
    edges += [ReportEdge(v, -1 if v == 1 else 1, 1.0, (0, 0)) for v in range(1, T)]
    parents = np.array([1, -1] + [1] * (T - 2))  # record 1: the weakest candidate of record 0
    data = page_data(make_report(parents, edges=edges))
    listed = [parent for child, parent, *_ in data["edges"] if child == 0]
    assert listed == [*range(T - 1, T - 1 - MAX_CANDIDATES, -1), 1]


def test_large_tables_are_drawn_in_part_and_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("outtrees.views.report_data.MAX_RECORDS", 30)
    monkeypatch.setattr(report_module, "MAX_RECORDS", 30)
    data = big(100)
    with pytest.warns(
        UserWarning, match=r"limited to 30 of 100 records.*full tree in tree\.newick"
    ):
        path = write_report(data, tmp_path / "r.html")
    page = Page(path.read_text(encoding="utf-8"))
    assert "Picture limited to 30 of 100 records" in page.text
    assert "tree.newick" in page.text
    assert "100 records: the consensus" in page.text
    shown = page.embedded()
    assert len(shown["ids"]) == 30
    # The part is a tree of its own, with the parents it has in the whole.
    names = [None if p < 0 else shown["ids"][p] for p in shown["consensus"]]
    for name, parent in zip(shown["ids"], names, strict=True):
        whole = data.consensus[data.ids.index(name)]
        assert parent == (None if whole < 0 else data.ids[whole])
    assert all(0 <= child < 30 and -1 <= parent < 30 for child, parent, *_ in shown["edges"])


def test_the_limit_is_the_documented_one():
    assert report_module.MAX_RECORDS == 20_000


def test_file_is_replaced_whole_or_left_alone(tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    assert write_report(small(), target) == target
    before = target.read_bytes()
    mask = os.umask(0)
    os.umask(mask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask

    def refuse(*_):
        raise OSError("disk full")

    for broken in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, broken, refuse)
            with pytest.raises(OSError, match="disk full"):
                write_report(small(title="new"), target)
        assert target.read_bytes() == before
        assert os.listdir(tmp_path) == ["report.html"]
    with pytest.raises(FileNotFoundError):
        write_report(small(), tmp_path / "nowhere" / "report.html")
    write_report(small(title="new"), str(target))
    assert "<title>new</title>" in target.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": []}, "needs at least one record"),
        ({"ids": ["a"]}, "consensus must have one entry per record; got 8 for 1"),
        ({"root_probability": np.zeros(7)}, "root_probability must .* got 7 for 8"),
        ({"log_density": np.full(8, np.nan)}, "log_density must hold numbers; got NaN"),
        ({"consensus": np.full(8, 8)}, "must be -1 .*; got 8 for record 0"),
        ({"consensus": np.zeros(8)}, "one integer per record.*float64"),
        ({"edges": []}, r"record 0 \('case 0'\) lacks -1"),
        ({"edges": [ReportEdge(0, 0, 1.0, (0, 0))]}, "two different records from 0 to 7"),
        ({"edges": [ReportEdge(0, -1, 1.5, (0, 0))]}, "between 0 and 1; got 1.5"),
        ({"edges": [ReportEdge(0, -1, 0.5, (0, 0))] * 2}, "listed twice"),
        ({"edges": [ReportEdge(0, -1, 1.0, (0,))]}, "evidence must be 2 numbers"),
        ({"columns": [ReportColumn("a", "number", [], [])]}, "must be one of .*; got 'number'"),
        ({"columns": [ReportColumn("a", "count", [1.0], [""] * 8)]}, "values of column 'a' must"),
        ({"consensus": np.array([1, 0, 0, 1, 1, -1, 5, 6])}, "never reaches a root|lacks"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        report_html(small(**changes))


def brightness(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_contrasts_with_what_it_stands_on(theme):
    """At least 4.5 to 1, the AA level of the accessibility guidelines (WCAG 2) for text."""
    block = re.findall(r":root \{([^}]*)\}", (ASSETS / "report.css").read_text())[theme]
    colour = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
    for text in ("ink", "soft", "accent"):
        for ground in ("card", "page"):
            low, high = sorted([brightness(colour[text]), brightness(colour[ground])])
            assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)
    low, high = sorted([brightness(colour["ink"]), brightness(colour["notice"])])
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_many_parameters_unfold():
    few, many = (
        report_html(small(parameters=[f"w{i}: kept." for i in range(n)])) for n in (12, 100)
    )
    assert "more parameters" not in few
    assert "<summary>88 more parameters</summary>" in many
    assert "w99: kept." in many

"""The report in a real browser, with real clicks, keys and wheel turns."""

import base64
import csv
import json
import re
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from outtrees import Ancestry
from outtrees.ancestry.nearest import NOTHING, NearestSampled, Part, number_drawn
from outtrees.ancestry.outbreak import ENOUGH
from outtrees.errors import NoSpanningTreeError
from outtrees.trees import OutTreeDistribution
from outtrees.trees.mixture import OutTreeMixture
from outtrees.views.layout import tree_columns, tree_rows
from outtrees.views.report import asset, report_html, write_report
from outtrees.views.report_data import (
    ReportBeside,
    ReportColumn,
    ReportInterval,
    ReportReading,
    ReportSeries,
    ReportSites,
    ReportWeights,
)
from views.report_cases import HOSTILE, big, hostile, make_report, small
from views.report_page import Report, find_browser, open_browser


def test_missing_browser_is_a_reason_to_skip_except_where_it_could_be_installed(monkeypatch):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(pytest.skip.Exception, match="needs Chromium"):
        find_browser()
    monkeypatch.setattr("shutil.which", lambda name: name if name == "apt-get" else None)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(pytest.fail.Exception, match="needs Chromium"):
        find_browser()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception):
        find_browser()


@pytest.fixture(scope="module")
def browser():
    chrome = open_browser()
    yield chrome
    chrome.quit()


@pytest.fixture
def show(browser, tmp_path):
    browser.get_log("browser")

    def open_report(data, hash=""):
        return Report(browser, write_report(data, tmp_path / "report.html"), hash)

    return open_report


@pytest.mark.parametrize(
    "data",
    [
        small(),
        big(300),
        make_report([-1]),
        make_report([-1, -1, -1], columns=[], trace=[]),
        small(log_density=[-float("inf")] * 8, trace=[-1.0]),
        small(
            evidence_names=[], edges=[type(e)(e.child, e.parent, e.support) for e in small().edges]
        ),
    ],
    ids=["small", "dated", "one", "bare", "extreme", "no evidence"],
)
def test_opens_from_a_file_without_a_complaint(show, data):
    page = show(data)
    page.click(0)
    assert page.chosen() == 0
    assert page.complaints() == []
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    width = page.run("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1]


@pytest.mark.parametrize(
    ("page", "tests"),
    [("template.html", "views/test_report_browser.py"), ("app.html", "cli/test_app.py")],
)
def test_every_control_is_tried(page, tests):
    """Whoever adds a button, a field or a menu adds the test that uses it."""
    controls = re.findall(r'<(?:a|button|input|select|details)\b[^>]*\bid="([^"]+)"', asset(page))
    assert len(controls) > 5
    said = (Path(__file__).parents[1] / tests).read_text()
    said += " ".join(f'"view-{view}"' for view in re.findall(r'"(\w+)"', said))
    assert [name for name in controls if f'"{name}"' not in said] == []


def test_click_shows_parents_supports_and_what_speaks_for_them(show):
    page = show(small())
    assert "Choose a record" in page["panel"].text
    page.click(3)
    text = page["panel"].text.split("\n")
    assert text[0] == "case 3"
    best = page["candidates"].find_elements(By.CLASS_NAME, "candidate")[0]
    words = best.text.replace("\u00a0", " ").split("\n")
    assert words[:2] == ["case 1 consensus most likely tree", "80 %"]
    assert words[2:] == ["suppose", "rule out", "ward", "+1.5", "age", "−0.3"]
    bar = best.find_element(By.CSS_SELECTOR, ".meter > span")
    assert bar.size["width"] == pytest.approx(0.8 * best.size["width"], abs=2)  # whole pixels
    cells = page["panel"].find_elements(By.TAG_NAME, "td")
    assert [cell.text for cell in cells[:2]] == ["north", "23"]
    # On to the parent, whose probable children include this record.
    best.find_element(By.CLASS_NAME, "pick").click()
    assert page.chosen() == 1
    assert "case 3" in page["children"].text


def test_clicking_beside_every_record_lets_go(show):
    page = show(small())
    page.click(4)
    assert page.chosen() == 4
    x, y = page.place(0)
    page.click_at(x - 25, y - 40)
    assert page.chosen() == -1
    assert "Choose a record" in page["panel"].text


def test_search_finds_and_centres(show):
    page = show(big(600))
    page["search"].send_keys("case 41")
    names = [item.text for item in page["found"].find_elements(By.TAG_NAME, "li")]
    assert names == ["case 41", *[f"case {i}" for i in range(410, 420)]]
    page["search"].send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    assert page.chosen() == 410
    assert not page["found"].is_displayed()
    page.at_rest()
    x, y = page.run("return window.outtrees.where(410)")
    size = page["canvas"].size
    assert 0.3 * size["width"] < x < 0.7 * size["width"]
    assert 0.3 * size["height"] < y < 0.7 * size["height"]
    page["search"].clear()
    page["search"].send_keys("no such")
    assert page["found"].text == "no record has this in its name"
    # A click on what was found.
    page["search"].clear()
    page["search"].send_keys("case 7")
    page["found"].find_elements(By.TAG_NAME, "li")[0].click()
    assert page.chosen() == 7


def test_slider_fades_weak_edges_and_other_parents_can_be_shown(show):
    page = show(small())
    before = page.picture()
    page["support"].send_keys(Keys.END)
    assert page["support-value"].text.replace("\u00a0", " ") == "100 %: 0 of 8"
    faded = page.picture()
    assert faded != before
    page["support"].send_keys(Keys.HOME)
    assert page.picture() == before
    choice = Select(page["others"])
    choice.select_by_value("all")
    assert page.picture() != before
    # Of the chosen record only: as before, until one is chosen.
    choice.select_by_value("chosen")
    assert page.picture() == before
    page.click(3)
    page.run("document.activeElement.blur()")
    with_own = page.picture()
    choice.select_by_value("none")
    assert page.picture() != with_own


def test_colour_follows_the_column(show):
    page = show(small())
    assert page["legend"].text.split() == ["ward", "north", "south", "east"]
    before = page.picture()
    choice = Select(page["colour"])
    assert [option.text for option in choice.options][:4] == [
        "ward",
        "age",
        "generation",
        "support of the parent",
    ]
    choice.select_by_visible_text("age")
    assert page["legend"].text.split() == ["age", "20", "27", "missing"]
    assert page.picture() != before


def test_the_other_tree_can_be_shown(show):
    page = show(small(mode=small().consensus[[0, 2, 1, 3, 4, 5, 6, 7]] * 0 - 1))
    assert page.run("return window.outtrees.state.tree.parents[3]") == 1
    Select(page["which"]).select_by_value("mode")
    assert page.run("return window.outtrees.state.tree.parents[3]") == -1
    page.click(3)
    assert page.chosen() == 3
    assert page.complaints() == []


def test_matrix_names_the_pair_and_chooses_the_child(show):
    page = show(small())
    page["view-matrix"].click()
    for child, parent, words in [
        (4, 1, "case 4 from case 1: 80 %"),
        (5, -1, "case 5 has no parent here: 80 %"),
    ]:
        page.click_at(*page.place(child, "matrix", f"cell({child}, {parent})"))
        assert page["matrix-tip"].text.replace("\u00a0", " ") == words
        assert page.chosen() == child
    absent = next(v for v in range(8) if v not in [e.parent for e in small().edges if e.child == 4])
    page.click_at(*page.place(4, "matrix", f"cell(4, {absent})"))
    assert page.chosen() == 5


def test_keyboard_walks_the_tree(show):
    page = show(small())
    page.click(3)
    canvas = page["canvas"]
    for key, record in [(Keys.ARROW_LEFT, 1), (Keys.ARROW_LEFT, 0), (Keys.ARROW_RIGHT, 1)]:
        canvas.send_keys(key)
        assert page.chosen() == record
    rows = page.run("return window.outtrees.state.tree.rows")
    canvas.send_keys(Keys.ARROW_DOWN)
    assert rows[page.chosen()] == rows[1] + 1
    page.at_rest()
    canvas.send_keys("0")
    page.at_rest()
    assert page.run("return window.outtrees.view.ky") == pytest.approx(1)
    canvas.send_keys("+")
    page.until(lambda: page.run("return window.outtrees.view.ky") > 1.2)
    canvas.send_keys(Keys.ESCAPE)
    assert page.chosen() == -1


def test_thousands_of_records_are_drawn_only_where_one_looks(show):
    page = show(big(5000))
    page.picture()
    whole = page.run("return window.outtrees.drawn()")
    assert whole["edges"] == 5000
    assert whole["names"] <= 25
    wheel = ScrollOrigin.from_viewport(*map(round, page.place(2500)))
    for _ in range(24):
        ActionChains(page.browser, duration=0).scroll_from_origin(wheel, 0, -400).perform()
    page.picture()
    close = page.run("return window.outtrees.drawn()")
    assert close["edges"] < 500
    assert page.run("return window.outtrees.view.row") > 13  # rows far enough apart to read
    assert close["names"] > 3
    assert page.complaints() == []
    page["zoom-fit"].click()
    page.at_rest()
    page.picture()
    assert page.run("return window.outtrees.drawn()")["edges"] == 5000


def injected(page):
    return page.run(
        "return document.querySelectorAll('img, script:not(:nth-last-of-type(-n+3))').length"
    )


def test_hostile_names_stay_text(show, tmp_path):
    page = show(hostile())
    for record in range(3):
        page["search"].clear()
        page["search"].send_keys("<" if record == 0 else "L")
        page.run("window.outtrees.state.chosen = -1")
        page.click(record)
        assert page.chosen() == record
        page.at_rest()
    page.click(0)
    assert page["chosen"].text == HOSTILE
    page.click(2)
    assert len(page["chosen"].text) == 200
    for option in Select(page["colour"]).options:
        option.click()
    assert injected(page) == 0
    assert page.complaints() == []

    # The negative control: without escapes and without the policy, the name does act.
    broken = report_html(hostile()).replace("\\u003c", "<").replace("\\u003e", ">")
    broken = broken.replace("Content-Security-Policy", "X-Nothing").replace("alert(1)", "1")
    (tmp_path / "broken.html").write_text(broken, encoding="utf-8")
    assert injected(Report(page.browser, tmp_path / "broken.html")) > 0
    page.complaints()


def test_policy_stops_code_and_connections(show):
    page = show(small())
    attack = '<img src=x onerror="window.ran = 2"><p style="position: fixed">'
    page.run(
        "const script = document.createElement('script'); script.textContent = 'window.ran = 1';"
        "const box = document.createElement('div'); box.innerHTML = arguments[0];"
        "document.body.append(script, box); window.probe = box.lastChild;",
        attack,
    )
    assert page.run("return window.ran === undefined")
    assert page.run("return getComputedStyle(window.probe).position") == "static"
    refused = page.browser.execute_async_script(
        "const done = arguments[0];"
        "fetch('data:text/plain,x').then(() => done(false), () => done(true))"
    )
    assert refused
    assert any("Content Security Policy" in text for text in page.complaints())


def test_picture_can_be_saved(show, tmp_path):
    page = show(small())
    folder = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.browser.execute_cdp_cmd("Browser.setDownloadBehavior", folder)
    page["save"].click()
    page.until(lambda: (tmp_path / "tree.png").exists() and (tmp_path / "tree.png").stat().st_size)
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")
    assert page.complaints() == []


def test_dark_where_the_reader_prefers_dark(show):
    page = show(small())
    ground = "return getComputedStyle(document.documentElement).backgroundColor"
    light, picture = page.run(ground), page.picture()
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        page.until(lambda: page.run(ground) != light)
        page.until(lambda: page.picture() != picture)
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_fits_a_phone(show):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page = show(hostile())
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.browser.refresh()
        page.click(4)
        assert page.chosen() == 4
        assert page.run("return document.documentElement.scrollWidth") <= 390
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


# What if -----------------------------------------------------------------------------------------


def mixture(seed, T=9, roots="any", ties=True, n_members=3, n_groups=1, spread=2.0):
    """Random weights of the edges that an order of dates with ties allows; some edges missing."""
    rng = np.random.default_rng(seed)
    groups = np.arange(T) % n_groups
    day = np.arange(T) // (3 * n_groups if ties else 1)
    child, parent = np.nonzero(
        ((day[:, None] > day) | (ties & (day[:, None] == day)))
        & (groups[:, None] == groups)
        & ~np.eye(T, dtype=bool)
        & (rng.random((T, T)) < 0.9)
    )
    weights = rng.dirichlet(np.ones(n_members))
    log_weight = spread * rng.normal(size=(n_members, len(child)))
    log_root = rng.normal(size=(n_members, T)) - 1
    parts = [
        OutTreeDistribution.from_candidates(child, parent, w, r, groups=groups, roots=roots)
        for w, r in zip(log_weight, log_root, strict=True)
    ]
    stored = ReportWeights(child, parent, log_weight, log_root, weights, groups, roots)
    return OutTreeMixture(parts, weights, groups), stored


ANSWER = """window.outtrees.whatIf.answer(arguments[0]).then((found) => ({
    edge: Array.from(found.after.edge), root: Array.from(found.after.root),
    before: Array.from(found.before.edge), probability: found.probability}))"""


@pytest.mark.parametrize(
    "options",
    [
        {"ties": False},
        {"ties": True},
        {"roots": "single"},
        {"roots": "single", "n_groups": 2, "T": 10},
        {"spread": 40.0},  # weights over many orders of magnitude
        {"n_members": 1, "T": 40},
        {"roots": "single", "n_members": 1, "T": 30},
    ],
    ids=["dates", "ties", "one root", "groups", "extreme", "many", "many, one root"],
)
def test_what_if_in_the_page_is_what_python_says(show, options):
    trees, stored = mixture(0, **options)
    T = trees.n_records
    page = show(make_report(np.r_[-1, np.zeros(T - 1, dtype=int)], weights=stored))
    order = np.argsort(stored.child, kind="stable")
    child, parent = stored.child[order], stored.parent[order]
    rng = np.random.default_rng(1)
    asked = 0
    for n in (0, 1, 1, 1, 2, 2, 3):
        known, excluded = {}, []
        for e in rng.choice(len(child), size=n, replace=False):
            if rng.random() < 0.5:
                known[int(child[e])] = int(parent[e])
            else:
                excluded.append((int(child[e]), int(parent[e])))
        if n == 3 and options.get("roots") != "single":
            known[T - 1] = -1
        supposed = [{"kind": "parent", "child": u, "parent": v} for u, v in known.items()]
        supposed += [{"kind": "not", "child": u, "parent": v} for u, v in excluded]
        found = page.later(ANSWER, supposed)
        try:
            expected = trees.given(known, excluded)
            logs = [part.log_z for part in expected.parts]
        except NoSpanningTreeError:
            assert "Error" in found
            continue
        asked += 1
        assert np.isfinite(logs).all()
        np.testing.assert_allclose(found["edge"], expected.edge_marginals[order], rtol=0, atol=1e-9)
        np.testing.assert_allclose(found["root"], expected.root_marginals, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found["before"], trees.edge_marginals[order], rtol=0, atol=1e-9)
    assert asked >= 4


@pytest.mark.parametrize(
    "options",
    [
        {"ties": False},
        {"ties": True, "T": 25},
        {"roots": "single", "n_members": 2},
        {"roots": "single", "n_groups": 2, "T": 20},
    ],
    ids=["dates", "ties", "one root", "groups"],
)
def test_descent_from_beside_others_is_what_python_says(show, options):
    """The page draws the trees that Python draws, under any suppositions."""
    mixed, stored = mixture(3, **options)
    T, rng = mixed.n_records, np.random.default_rng(2)
    order, roots = rng.permutation(T), options.get("roots", "any")
    rank = np.argsort(order)
    listed = np.lexsort((rank[stored.parent], rank[stored.child]))
    direct = rng.random(stored.log_weight.shape) * (rng.random(len(listed)) < 0.9)
    unlikely = rng.random(len(listed)) < 0.2  # found from beside others only
    stored.log_weight[:, unlikely] = -np.inf
    parts = []
    for w, r, d, chance in zip(
        stored.log_weight, stored.log_root, direct, stored.weights, strict=True
    ):
        ends = rank[stored.child][listed], rank[stored.parent][listed]
        groups = stored.groups[order]
        trees = OutTreeDistribution.from_candidates(
            *ends, w[listed], r[order], groups=groups, roots=roots
        )
        parts.append(Part(trees, d[listed], float(chance)))
    ends = stored.child, stored.parent, order, listed
    trees = NearestSampled(parts, *ends, roots == "single", stored.groups)
    by_rank = np.lexsort((rank[stored.parent], stored.child))
    child, parent = stored.child[by_rank], stored.parent[by_rank]
    beside = ReportBeside(direct[:, by_rank], order, number_drawn(T), NOTHING)
    weights = replace(
        stored,
        child=child,
        parent=parent,
        log_weight=stored.log_weight[:, by_rank],
        beside=beside,
    )
    page = show(make_report(np.r_[-1, np.zeros(T - 1, dtype=int)], weights=weights))
    asked, likely = 0, np.flatnonzero(trees.drawn_edges > 0.02)
    for n in (0, 1, 1, 1, 2, 2):
        known, excluded = {}, []
        for e in rng.choice(likely, size=n, replace=False):
            if rng.random() < 0.6:
                known[int(stored.child[e])] = int(stored.parent[e])
            else:
                excluded.append((int(stored.child[e]), int(stored.parent[e])))
        supposed = [{"kind": "parent", "child": u, "parent": v} for u, v in known.items()]
        supposed += [{"kind": "not", "child": u, "parent": v} for u, v in excluded]
        found = page.later(ANSWER, supposed)
        try:
            expected = trees.given(known, excluded)
        except NoSpanningTreeError:
            assert "Error" in found
            continue
        asked += 1
        edges, roots_found = expected.edge_marginals[by_rank], expected.root_marginals
        np.testing.assert_allclose(found["edge"], edges, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found["root"], roots_found, rtol=0, atol=1e-9)
        before = trees.edge_marginals[by_rank]
        np.testing.assert_allclose(found["before"], before, rtol=0, atol=1e-9)
    assert asked >= 4


def test_the_pages_best_tree_is_the_consensus(show):
    page = show(small())
    for seed, roots in ((0, "any"), (1, "single"), (2, "single"), (3, "any")):
        trees, stored = mixture(seed, T=12, roots=roots, ties=seed > 0)
        choices = [
            *zip(stored.child.tolist(), stored.parent.tolist(), trees.edge_marginals, strict=True),
            *((u, -1, s) for u, s in enumerate(trees.root_marginals)),
        ]
        choices = [[u, v, float(s)] for u, v, s in choices if s > 0]
        found = page.run(
            "return window.outtrees.bestTree(12, arguments[0], arguments[1])",
            choices,
            roots == "single",
        )
        support = {(u, v): s for u, v, s in choices}
        right = sum(support[u, v] for u, v in enumerate(found))
        assert right == pytest.approx(trees.consensus().expected_right, abs=1e-12)


def fitted(**options):
    """Eleven cases with dates that tie, wards and DNA, and unknown waiting times."""
    rng = np.random.default_rng(4)
    dna = ["".join(rng.choice(list("ACGT"), size=60))]
    for case in range(1, 11):
        parent, site = max(0, case - int(rng.integers(1, 4))), int(rng.integers(60))
        changed = "ACGT"[("ACGT".index(dna[parent][site]) + 1) % 4]
        dna.append(dna[parent][:site] + changed + dna[parent][site + 1 :])
    table = {
        "case": [f"c{i}" for i in range(11)],
        "onset": [f"2024-03-{1 + 2 * (i // 2):02d}" for i in range(11)],
        "ward": ["N", "N", "S", "S", "N", "S", "", "N", "S", "S", "N"],
        "lat": [f"{50 + 0.01 * i:.2f}" for i in range(11)],
        "lon": [f"{8 + 0.02 * (i % 4):.2f}" for i in range(11)],
    }
    model = Ancestry(random_state=0, **options)
    return model.fit(table, sequences=dict(zip(table["case"], dna, strict=True))), dna


@pytest.fixture(scope="module")
def outbreak():
    return fitted()


SUPPOSED = "return window.outtrees.state.supposed"


def suppose(page, row, button):
    before = page.run("return location.hash")
    rows = page["candidates"].find_elements(By.CLASS_NAME, "candidate")
    rows[row].find_elements(By.CSS_SELECTOR, ".suppose button")[button].click()
    page.until(lambda: page.run("return location.hash") != before)
    page.until(lambda: "Summing" not in page["what-if"].text)


@pytest.mark.parametrize(
    "options",
    [{"transmission": False}, {"transmission": True, "parameters": "fitted"}],
    ids=["waiting", "transmission"],
)
def test_supposing_by_clicks_moves_all_supports_and_goes_back(show, options):
    model, _ = fitted(**options)
    page = show(model.report_data())
    lead = page["lead"].text
    page["search"].send_keys("c7", Keys.ENTER)
    table = model.parents(0.0)
    rows = [r for r in table.rows() if r[0] == "c7"]
    second = rows[1][1] or None
    suppose(page, 1, 0)
    expected = {(r[0], r[1]): r[3] for r in model.what_if({"c7": second}, 0.0).rows()}
    shown = page.run("return window.outtrees.supports()")
    ids = model.records.ids
    named = {(ids[u], "" if v < 0 else ids[v]): s for u, v, s in shown}
    for pair, support in named.items():
        assert support == pytest.approx(expected[pair], abs=1e-9)
    tree = page.run("return window.outtrees.state.tree.parents")
    assert tree[ids.index("c7")] == (-1 if second is None else ids.index(second))
    assert "What is supposed had a probability of" in page["what-if"].text
    # The page's first sentence has the number that the answer has, not the report's.
    (right,) = re.findall(r"If it is true, ([\d.]+) of", page["what-if"].text)
    assert f"if what is supposed is true, the consensus tree is expected to name {right} of" in (
        page["lead"].text
    )
    granted = "takes the fitted parameters for granted" in page["what-if"].text
    assert granted == (options.get("parameters") == "fitted")
    first = page["what-if-changes"].find_elements(By.CSS_SELECTOR, "tbody tr")[0].text
    assert first.startswith("c7")
    # Rule out a parent of another record besides, then take one back after the other.
    page["search"].clear()
    page["search"].send_keys("c9", Keys.ENTER)
    suppose(page, 0, 1)
    best = next(r[1] or None for r in table.rows() if r[0] == "c9")
    if best is not None:  # the best may differ once c7 is known
        best = page.run("return window.outtrees.state.supposed[1].parent")
        best = None if best < 0 else ids[best]
    after = model.what_if({"c7": second}, 0.0, not_parent=[("c9", best)])
    expected = {(r[0], r[1]): r[3] for r in after.rows()}
    for u, v, s in page.run("return window.outtrees.supports()"):
        assert s == pytest.approx(expected[ids[u], "" if v < 0 else ids[v]], abs=1e-9)
    page["what-if-undo"].click()
    page.until(lambda: len(page.run("return window.outtrees.state.supposed")) == 1)
    page["what-if-back"].click()
    assert not page["what-if"].is_displayed()
    assert page["lead"].text == lead
    whole = {(r[0], r[1]): r[2] for r in table.rows()}
    for u, v, s in page.run("return window.outtrees.supports()"):
        # Supports of the report have five digits.
        assert s == pytest.approx(whole[ids[u], "" if v < 0 else ids[v]], rel=1e-4)
    assert page.complaints() == []


def test_drawn_outbreaks_that_agree_answer(show):
    """As Python does, which draws others where few agree; there the page shows the command."""
    model, _ = fitted(transmission=True)
    page, trees, ids = show(model.report_data()), model.fitted.trees, model.records.ids
    order = np.argsort(-trees.edge_marginals)
    best, rare = order[0], order[(trees.edge_marginals[order] > 0).sum() - 1]
    second = next(e for e in order[1:] if trees.child[e] != trees.child[best])
    known = {int(trees.child[best]): int(trees.parent[best])}
    pair = int(trees.child[second]), int(trees.parent[second])
    supposed = [{"kind": "parent", "child": u, "parent": v} for u, v in known.items()]
    parents = trees.draws.parents
    for excluded in ([], [pair]):
        agree = parents[:, trees.child[best]] == trees.parent[best]
        for u, v in excluded:
            agree &= parents[:, u] != v
        more = [{"kind": "not", "child": u, "parent": v} for u, v in excluded]
        found = page.later(ANSWER, supposed + more)
        if agree.sum() < ENOUGH:
            assert "too few" in found
            continue
        assert found["probability"] == pytest.approx(agree.mean())
        pairs = page.run("const w = window.outtrees.whatIf; return [w.child, w.parent]")
        page_edges = dict(zip(zip(*pairs, strict=True), found["edge"], strict=True))
        expected = trees.given(known, excluded)
        ends = zip(trees.child.tolist(), trees.parent.tolist(), strict=True)
        for ends_of, support in zip(ends, expected.edge_marginals, strict=True):
            assert page_edges.get(ends_of, 0.0) == pytest.approx(support, abs=1e-9)
        np.testing.assert_allclose(found["root"], expected.root_marginals, rtol=0, atol=1e-9)
    u, v = int(trees.child[rare]), int(trees.parent[rare])
    page.later(
        "window.outtrees.supposeAll(arguments[0]).then(() => 0)",
        [{"kind": "parent", "child": u, "parent": v}],
    )
    assert "too few to tell" in page["what-if"].text
    assert f"--suppose '{ids[u]}={ids[v]}'" in page["what-if-command"].text
    assert page.complaints() == []


def test_what_contradicts_itself_is_said_to_be_impossible(show, outbreak):
    model, _ = outbreak
    page = show(model.report_data(), "#suppose=" + json.dumps(["c0", "c9"]).replace('"', "%22"))
    page.later("window.outtrees.ready")
    assert "No tree agrees with this" in page["what-if"].text
    page["what-if-back"].click()
    assert not page["what-if"].is_displayed()


def test_commands_of_long_names_fit_a_phone(show):
    page = show(
        small(ids=["L" * 190 + str(i) for i in range(8)])
    )  # no weights: the command is shown
    size = {"width": 400, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        supposed = [{"kind": "parent", "child": 3, "parent": 1}]
        page.later("window.outtrees.supposeAll(arguments[0]).then(() => 0)", supposed)
        assert page["what-if-command"].is_displayed()
        assert page.run("return document.documentElement.scrollWidth") <= 400
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_large_tables_get_the_command_instead(show):
    page = show(make_report([-1, 0, 0], ids=["it's", "b", "c"]))
    page.click(1)
    suppose(page, 0, 0)
    assert page["what-if-command"].text == "outtrees what-if RESULTS --suppose 'b=it'\\''s'"
    page.click(0)
    suppose(page, 0, 0)
    assert page["what-if-command"].text.endswith("--introduction 'it'\\''s'")


def test_any_other_record_can_be_supposed_by_its_name(show):
    _, weights = mixture(1, T=8)
    names = [f"case {min(i, 6)}" for i in range(8)]  # one occurs twice
    page = show(small(weights=weights, ids=names))
    pairs = list(zip(weights.child.tolist(), weights.parent.tolist(), strict=True))
    listed = {(edge.child, edge.parent) for edge in small().edges}
    child, parent = next(pair for pair in pairs if pair not in listed and max(pair) < 6)
    page.run("window.outtrees.choose(arguments[0])", child)

    def click(button, name):
        page["another"].clear()
        page["another"].send_keys(name)
        page["another"].find_elements(By.XPATH, "../button")[button].click()

    for wrong in ("nobody", f"case {child}", "case 6", ""):
        click(0, wrong)
        assert "must be another record" in page["another"].get_property("validationMessage")
        assert page.run("return window.outtrees.state.supposed") == []
    for button, kind in enumerate(("parent", "not")):
        click(button, f"case {parent}")
        supposed = [{"kind": kind, "child": child, "parent": parent}]
        page.until(lambda supposed=supposed: page.run(SUPPOSED) == supposed)
        page.until(lambda: "What is supposed had a probability" in page["what-if"].text)
    # Pairs that the page does not hold may be impossible, or only very improbable.
    child, parent = next(
        (u, v) for u in range(6) for v in range(6) if u != v and (u, v) not in pairs
    )
    page["what-if-back"].click()
    page.run("window.outtrees.choose(arguments[0])", child)
    click(0, f"case {parent}")
    page.until(lambda: "too improbable for this page" in page["what-if"].text)
    assert page["what-if-command"].text.endswith(f"--suppose 'case {child}=case {parent}'")
    assert page.complaints() == []


# Views -------------------------------------------------------------------------------------------


def test_rows_of_the_page_are_those_of_python(show):
    for parents in ([-1, 0, 0, 0, -1], [-1, 0, 0, 1, 1, -1, 5, 6], big(60).consensus.tolist()):
        page = show(make_report(parents))
        tree = page.run("return window.outtrees.state.tree")
        rows, depth = tree_rows(parents)
        assert tree["rows"] == rows.tolist()
        assert tree["depth"] == depth.tolist()
    dates = np.array([5.0, np.nan, 9.0, 7.0, np.nan])
    parents = [-1, 0, 1, 0, -1]
    page = show(make_report(parents, dates=dates))
    across = tree_columns(parents, tree_rows(parents)[1], dates)
    assert page.run("return window.outtrees.state.tree.across") == across.tolist()


def click_mark(page, view, record):
    page.run(
        "document.getElementById(arguments[0]).scrollIntoView({block: 'center'})", f"{view}-canvas"
    )
    marks = page.until(lambda: page.run(f"return window.outtrees.{view}Marks()"))
    mark = next(m for m in marks if m.get("record") == record)
    x, y = (mark[k] + mark.get(size, 0) / 2 for k, size in (("x", "w"), ("y", "h")))
    box = page.run(
        "const b = document.getElementById(arguments[0]).getBoundingClientRect();return [b.x, b.y]",
        f"{view}-canvas",
    )
    page.click_at(box[0] + x, box[1] + y)


def test_timeline_map_and_curve_are_clicked_filtered_and_coloured(show, outbreak):
    model, _ = outbreak
    page = show(model.report_data())
    for view in ("timeline", "map"):
        page[f"view-{view}"].click()
        click_mark(page, view, 6)
        assert page.chosen() == 6
        assert page[f"{view}-tip"].text.replace("\u00a0", " ").startswith("c6 · 7 Mar 2024 · ")
    page["view-timeline"].click()
    rows = Select(page["timeline-rows"])
    assert [option.text for option in rows.options] == ["ward", "generation"]
    before = page.picture("timeline-canvas")
    rows.select_by_visible_text("generation")
    assert page.picture("timeline-canvas") != before
    page["view-curve"].click()
    before = page.picture("curve-canvas")
    Select(page["colour"]).select_by_visible_text("generation")
    assert page.picture("curve-canvas") != before
    marks = page.run("return window.outtrees.curveMarks()")
    assert sum(int(m["text"].split(" · ")[1].split(" of ")[0]) for m in marks) == 11
    # The filter, by column and by date.
    page["filter"].click()
    Select(page["filter-column"]).select_by_visible_text("ward")
    Select(page["filter-value"]).select_by_visible_text("N")
    assert page["filter-note"].text == "5 of 11 records shown"
    page.picture("curve-canvas")
    marks = page.run("return window.outtrees.curveMarks()")
    assert sum(int(m["text"].split(" · ")[1].split(" of ")[0]) for m in marks) == 5
    page.run(
        "const f = document.getElementById('filter-from'); f.value = '2024-03-05';"
        "f.dispatchEvent(new Event('change'))"
    )
    assert page["filter-note"].text == "3 of 11 records shown"
    page["filter-clear"].click()
    assert page["filter-note"].text == ""
    assert page.complaints() == []


def test_map_zooms_and_names_records(show, tmp_path, outbreak):
    model, _ = outbreak
    page = show(model.report_data())
    page["view-map"].click()

    def gap():
        page.picture("map-canvas")
        a, b = page.run("return window.outtrees.mapMarks().slice(0, 2).map((m) => [m.x, m.y])")
        return np.hypot(a[0] - b[0], a[1] - b[1])

    whole = gap()
    page["map-in"].click()
    assert gap() == pytest.approx(1.6 * whole)
    page["map-out"].click()
    assert gap() == pytest.approx(whole)
    hand = ActionChains(page.browser)
    hand.scroll_from_origin(ScrollOrigin.from_element(page["map-canvas"]), 0, -300).perform()
    page.until(lambda: gap() > 1.2 * whole)
    # What is searched for comes into view.
    page["search"].send_keys("c6", Keys.ENTER)
    place = "return window.outtrees.mapMarks().filter((m) => m.record === 6).map((m) => [m.x, m.y])"
    wide, tall = page.run("const c = document.getElementById('map-canvas').getBoundingClientRect();"
                          "return [c.width, c.height]")  # fmt: skip
    page.picture("map-canvas")
    ((x, y),) = page.run(place)
    assert 0 <= x <= wide
    assert 0 <= y <= tall
    page["map-fit"].click()
    page.until(lambda: gap() == pytest.approx(whole))
    svg = downloaded(page, tmp_path, "save-svg", "map.svg").decode()
    assert ">c6</text>" in svg  # and others that have room
    assert len(set(re.findall(r">(c\d+)</text>", svg))) > 3
    assert page.complaints() == []


def test_table_sorts_searches_and_turns_pages(show):
    page = show(big(120))
    page["view-table"].click()

    def names():
        rows = page["table-body"].find_elements(By.CSS_SELECTOR, "tbody tr")
        return [row.find_element(By.CLASS_NAME, "pick").text for row in rows[:3]]

    head = {
        h.text.strip(" ↑↓"): h
        for h in page["table-body"].find_elements(By.CSS_SELECTOR, "th button")
    }
    fixed = ["record", "date", "parent", "support", "root probability", "expected children"]
    assert list(head) == [*fixed, "ward", "age"]
    head["age"].click()
    assert names() == ["case 0", "case 2", "case 3"]
    page["table-body"].find_elements(By.CSS_SELECTOR, "th button")[-1].click()
    assert names() == ["case 119", "case 118", "case 117"]
    assert page["table-pages"].text == "1 of 3"
    page["table-after"].click()
    assert names()[0] == "case 69"
    page["table-filter"].send_keys("case 11")
    assert page["table-count"].text.endswith("of 120 records")
    assert all(
        "case 11" in row.text
        for row in page["table-body"].find_elements(By.CSS_SELECTOR, "tbody tr")
    )
    page["table-body"].find_element(By.CSS_SELECTOR, "tbody .pick").click()
    assert page.chosen() >= 0


def test_readings_stand_side_by_side(show):
    base = small().consensus
    other = base.copy()
    other[4] = 2
    readings = [
        ReportReading("wait 3 ± 1 days", 0.6, base, np.full(8, 0.8)),
        ReportReading("wait 9 ± 2 days", 0.4, other, np.full(8, 0.5)),
    ]
    page = show(small(readings=readings))
    page["view-readings"].click()
    words = page["readings"].text.replace("\u00a0", " ")
    assert "1 record has different best parents" in words
    assert "weight 40 %, 1 other parent" in words
    assert "case 4 case 1 80 % case 2 50 %" in words
    page = show(small())
    assert not page["view-readings"].is_displayed()
    assert not page["view-map"].is_displayed()


def test_intervals_and_series_are_drawn(show):
    intervals = [
        ReportInterval("generation mean", 5.0, 4.0, 6.5),
        ReportInterval("delay mean", 3.0, 3.0, 3.0, given=True),
        ReportInterval("origin", "2024-01-01", "2023-12-20", "2024-01-05"),
        ReportInterval("contacts", 0.6677, 0.6677, 0.6677),
    ]
    series = [
        ReportSeries("children of one case", [(1.0, 2.0, 1.0, 3.0), (8.0, 0.5, 0.0, 1.0)], "note")
    ]
    page = show(small(intervals=intervals, series=series, interval_note="95 %."))
    words = page["estimates"].text
    assert "generation mean 5 4 to 6.5" in words
    assert "delay mean 3 given" in words
    assert "origin 2024-01-01 2023-12-20 to 2024-01-05" in words
    assert "contacts 0.6677 fixed" in words
    assert len(page["estimates"].find_elements(By.CSS_SELECTOR, "figure circle")) == 2
    assert page.complaints() == []
    # Bars are as long as the numbers say, on an axis whose ends are written.
    low, high, left, right, middle = page.run(
        "const bar = document.querySelector('.interval'), at = (name) => bar.querySelector(name);"
        "const part = at('.whisker').getBoundingClientRect(), point = at('.point');"
        "const box = bar.getBoundingClientRect(), wide = bar.clientWidth, x = box.left + 1;"
        "const dot = point.getBoundingClientRect();"
        "return [Number(at('.from').textContent), Number(at('.to').textContent),"
        "(part.left - x) / wide, (part.right - x) / wide, (dot.left + dot.width / 2 - x) / wide]"
    )
    assert (low, high) == (0, 8)  # it does not end where the interval does
    shown = [low + part * (high - low) for part in (left, middle, right)]
    assert shown == pytest.approx([4.0, 5.0, 6.5], abs=0.1)
    size = {"width": 400, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert page.run("return document.documentElement.scrollWidth") <= 400
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert not show(small())["estimates-card"].is_displayed()


def test_sequences_are_shown_as_differences_from_the_parent(show, outbreak):
    model, dna = outbreak
    page = show(model.report_data())
    ids, parents = model.records.ids, model.tree()
    for case in (0, 3, 8):
        page.run("window.outtrees.choose(arguments[0])", case)
        words = page["panel"].text
        if parents[case] < 0:
            assert "60 sites; no parent to compare with" in words
            continue
        own, other = dna[case], dna[parents[case]]
        changes = [
            f"{b}{i + 1}{a}" for i, (a, b) in enumerate(zip(own, other, strict=True)) if a != b
        ]
        n = len(changes)
        said = f"{'1 difference' if n == 1 else f'{n} differences'} from {ids[parents[case]]}: "
        assert (said + " ".join(changes) if n else f"the same as {ids[parents[case]]}") in words
    sites = ReportSites("ACGT", [[], [(1, "T?")], None, [(0, "G")], [], [], [], []])
    column = ReportColumn("dna", "sequence", [None] * 8, ["x"] * 8, sites=sites)
    page = show(small(columns=[column], evidence_names=["a", "b"]))
    for record, words in [
        (1, "1 difference from case 0: C2T (4 sites, 1 read in only one of the two)"),
        (2, "not read"),
        (3, "2 differences from case 1: A1G T2C"),
    ]:
        page.run("window.outtrees.choose(arguments[0])", record)
        assert words in page["panel"].text


# Around the pictures -----------------------------------------------------------------------------


def test_state_is_in_the_address_and_comes_back(show, outbreak):
    model, _ = outbreak
    page = show(model.report_data())
    page["search"].send_keys("c5", Keys.ENTER)
    suppose(page, 1, 0)
    page["view-timeline"].click()
    Select(page["timeline-rows"]).select_by_visible_text("generation")
    Select(page["colour"]).select_by_visible_text("support of the parent")
    page["filter"].click()
    Select(page["filter-column"]).select_by_visible_text("ward")
    Select(page["filter-value"]).select_by_visible_text("N")
    page["support"].send_keys(Keys.ARROW_RIGHT)
    Select(page["others"]).select_by_value("none")
    look = (
        "const s = window.outtrees.state; return [s.view, s.chosen, s.others, s.threshold, "
        "s.supposed, s.colourName, s.rowsName(), Array.from(s.shown), s.readFilter(), "
        "s.tree.parents]"
    )
    before, address = page.run(look), page.run("return location.hash")
    assert before[0] == "timeline"
    assert sum(before[7]) == 5
    page = show(model.report_data(), address)
    page.later("window.outtrees.ready")
    assert page.run(look) == before
    # Nonsense in an address is left alone.
    for odd in (
        "#suppose=[1&view=nothing&record=%3Cimg%3E&support=1e9",
        "#view=__proto__&filter-column=x",
    ):
        page = show(model.report_data(), odd)
        assert page.later("window.outtrees.ready") is True
        assert page.run("return window.outtrees.state.view") == "tree"
    assert page.complaints() == []


def test_zoom_sorting_and_search_are_in_the_address(show, outbreak):
    model, _ = outbreak
    data = model.report_data()
    page = show(data)

    def again():
        """The same in another window, by the address alone."""
        found = show(data, page.run("return location.hash"))
        found.later("window.outtrees.ready")
        return found

    def places(page):
        page.picture("map-canvas")
        return page.run("return window.outtrees.mapMarks().map((m) => [m.x, m.y])")

    page["view-map"].click()
    for _ in range(3):
        page["map-in"].click()
    hand = ActionChains(page.browser)
    hand.drag_and_drop_by_offset(page["map-canvas"], 40, 25).perform()
    before = places(page)
    assert "zoom=" in page.until(lambda: page.run("return location.hash"))
    page = again()
    # The address has nine digits.
    assert np.abs(np.array(places(page)) - before).max() < 0.1
    page["map-in"].click()  # and goes on from there
    assert not np.allclose(places(page), before, atol=1)
    page["map-fit"].click()
    page.until(lambda: "zoom=" not in page.run("return location.hash"))
    page["view-tree"].click()
    page["zoom-in"].click()
    page["zoom-in"].click()
    page.at_rest()
    spots = "const o = window.outtrees; return [0, 5, 9].map((i) => o.where(i))"
    before = page.run(spots)
    page = again()
    assert np.abs(np.array(page.run(spots)) - before).max() < 0.5
    page["view-table"].click()
    heads = page["table-body"].find_elements(By.CLASS_NAME, "sort")
    next(head for head in heads if head.text == "support").click()
    page["table-filter"].send_keys("n")
    rows = "return [...document.querySelectorAll('#table-body tbody tr')].map((r) => r.innerText)"
    before = page.run(rows)
    page = again()
    assert page.run(rows) == before
    for odd in ("zoom=1+2", "zoom=NaN+0+0&place=x", "zoom=1e9+0+0", "sort=nothing&page=-3"):
        for view in ("map", "tree", "table"):
            page = show(data, f"#view={view}&{odd}")
            assert page.later("window.outtrees.ready") is True
    assert page.complaints() == []


def downloaded(page, folder, button, name):
    page.browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)}
    )
    if not page.run("return document.getElementById('download').open"):
        page["download"].click()
    # On a loaded machine the browser loses about one download of a hundred: the page's link was
    # clicked, and no file came. So ask again, as a reader would.
    for _ in range(4):
        page[button].click()
        for _ in range(100):
            # The browser first makes an empty file of that name.
            if (folder / name).exists() and (folder / name).stat().st_size > 0:
                content = (folder / name).read_bytes()
                (folder / name).unlink()
                return content
            time.sleep(0.1)
    pytest.fail(f"no {name} was saved")


def test_everything_can_be_downloaded(show, tmp_path, outbreak):
    import dendropy

    model, _ = outbreak
    page = show(model.report_data())
    for view in ("tree", "timeline", "curve", "map", "matrix"):
        page[f"view-{view}"].click()
        page.picture("matrix" if view == "matrix" else "canvas")
        svg = ET.fromstring(downloaded(page, tmp_path, "save-svg", f"{view}.svg"))
        words = "".join(svg.itertext())
        assert len(list(svg.iter())) > 20
        assert "c1" in words or view in ("curve", "map", "timeline")
        assert downloaded(page, tmp_path, "save-png", f"{view}.png").startswith(b"\x89PNG")
    text = downloaded(page, tmp_path, "save-newick", "tree.newick").decode()
    trees = dendropy.TreeList.get(data=text, schema="newick")
    assert len(trees) == (model.tree() < 0).sum()
    own = dendropy.TreeList.get(
        data=model.to_newick(), schema="newick", taxon_namespace=trees.taxon_namespace
    )
    for a, b in zip(trees, own, strict=True):
        assert a.as_string("newick") == b.as_string("newick")
    rows = list(
        csv.DictReader(
            downloaded(page, tmp_path, "save-records", "records.csv").decode().splitlines()
        )
    )
    assert [row["record"] for row in rows] == list(model.records.ids)
    assert rows[3]["ward"] == "S"
    assert float(rows[3]["support"]) == pytest.approx(model.records_["support"][3], rel=1e-4)
    rows = list(
        csv.DictReader(
            downloaded(page, tmp_path, "save-parents", "parents.csv").decode().splitlines()
        )
    )
    assert sum(float(row["support"]) for row in rows) == pytest.approx(11, abs=0.1)
    assert page.complaints() == []


def test_only_pictures_are_saved_as_pictures_under_their_own_names(show, tmp_path):
    other = small().consensus.copy()
    other[4] = 2
    readings = [
        ReportReading(name, 0.5, parents, np.ones(8))
        for name, parents in (("a", small().consensus), ("b", other))
    ]
    page = show(small(readings=readings), "#view=table")
    page["download"].click()
    for view in ("table", "readings", "matrix"):
        page[f"view-{view}"].click()
        for button in ("save-svg", "save-png"):
            assert page[button].is_enabled() == (view == "matrix")
        assert page["save-records"].is_enabled()
    # The browser makes the file later; it has the name of the view that was saved.
    page["view-tree"].click()
    page.picture()
    page.run(
        "window.saved = '';"
        "addEventListener('click', (event) => (window.saved += event.target.download ?? ''))"
    )
    page.run("for (const id of ['save-png', 'view-matrix']) document.getElementById(id).click()")
    page.until(lambda: page.run("return window.saved"))
    assert page.run("return window.saved") == "tree.png"
    assert page.complaints() == []


def test_downloads_of_hostile_names_are_inert(show, tmp_path):
    names = ["=1+1", "@x", "a,b", 'q"q', "it's", "]]>", "\u202eabc", "<b>"]
    page = show(small(ids=names))
    svg = ET.fromstring(downloaded(page, tmp_path, "save-svg", "tree.svg"))
    assert {e.tag.split("}")[1] for e in svg.iter()} <= {"svg", "g", "path", "text", "clipPath"}
    rows = list(
        csv.reader(downloaded(page, tmp_path, "save-records", "records.csv").decode().splitlines())
    )
    assert [row[0] for row in rows[1:4]] == ["'=1+1", "'@x", "a,b"]
    assert "'it''s'" in downloaded(page, tmp_path, "save-newick", "tree.newick").decode()


def test_the_other_controls_do_what_they_say(show, outbreak):
    model, _ = outbreak
    page = show(model.report_data())
    page.run("window.asked = 0; window.print = () => window.asked++;")
    page["download"].click()
    page["print"].click()
    assert page.run("return window.asked") == 1
    page["copy-link"].click()
    page.until(lambda: page["copied"].text)
    page["download"].find_element(By.TAG_NAME, "summary").click()
    before = page.run("return window.outtrees.view.ky")
    page["zoom-in"].click()
    page.until(lambda: page.run("return window.outtrees.view.ky") > before)
    page["zoom-out"].click()
    page.until(lambda: page.run("return window.outtrees.view.ky") == pytest.approx(before))
    # One supposition is taken back by its own cross.
    page["search"].send_keys("c4", Keys.ENTER)
    suppose(page, 1, 0)
    page["search"].clear()
    page["search"].send_keys("c8", Keys.ENTER)
    suppose(page, 0, 1)
    page["what-if"].find_element(By.CSS_SELECTOR, ".chip button").click()
    page.until(lambda: len(page.run("return window.outtrees.state.supposed")) == 1)
    assert page.run("return window.outtrees.state.supposed[0].kind") == "not"
    # A second click on a button that is pressed takes it back as well.
    page.until(lambda: "Summing" not in page["what-if"].text)
    page["candidates"].find_element(By.CSS_SELECTOR, "[aria-pressed=true]").click()
    page.until(lambda: not page["what-if"].is_displayed())
    assert page.complaints() == []


def test_filter_by_numbers_missing_cells_and_days_without_calendar(show):
    points = [[(float(i), 0.0) for i in range(8)], [(0.0, float(i)) for i in range(8)]]
    places = [
        ReportColumn(f"place {k}", "place", [0.0] * 8, [""] * 8, p) for k, p in enumerate(points)
    ]
    data = small(dates=np.arange(8.0), calendar=False)
    page = show(replace(data, columns=[*data.columns, *places]))
    page["filter"].click()
    Select(page["filter-column"]).select_by_visible_text("age")
    page["filter-low"].send_keys("23", Keys.TAB)
    assert page["filter-note"].text == "5 of 8 records shown"
    page["filter-high"].send_keys("25", Keys.TAB)
    assert page["filter-note"].text == "3 of 8 records shown"
    page["filter-from"].send_keys("4", Keys.TAB)
    page["filter-to"].send_keys("4.5", Keys.TAB)
    assert page["filter-note"].text == "1 of 8 records shown"
    page["filter-clear"].click()
    Select(page["filter-column"]).select_by_visible_text("ward")
    Select(page["filter-value"]).select_by_visible_text("missing")
    assert page["filter-note"].text == "0 of 8 records shown"
    for view in (
        "timeline",
        "curve",
        "map",
        "table",
        "matrix",
        "tree",
    ):  # nothing to show, no fault
        page[f"view-{view}"].click()
        page.picture()
    page["filter-clear"].click()
    page["view-map"].click()
    page.picture("map-canvas")
    before = page.run("return window.outtrees.mapMarks()[3]")
    Select(page["map-place"]).select_by_visible_text("place 1")
    page.picture("map-canvas")
    after = page.run("return window.outtrees.mapMarks()[3]")
    assert (before["x"], before["y"]) != (after["x"], after["y"])
    page["view-table"].click()
    assert not page["table-before"].is_enabled()
    assert page.complaints() == []


def test_groups_can_be_rows_colours_and_filters(show):
    table = {
        "id": [f"r{i}" for i in range(8)],
        "village": ["Au", "Bo"] * 4,
        "size": [f"{i / 3:.2f}" for i in range(8)],
    }
    model = Ancestry(id="id", kinds={"village": "group"}, parameters="fitted", random_state=0).fit(
        table
    )
    page = show(model.report_data())
    for name in ("timeline-rows", "colour", "filter-column"):
        options = page[name].find_elements(By.TAG_NAME, "option")
        assert "village" in [option.get_property("textContent") for option in options], name
    page["filter"].click()
    Select(page["filter-column"]).select_by_visible_text("village")
    Select(page["filter-value"]).select_by_visible_text("Bo")
    assert page["filter-note"].text == "4 of 8 records shown"
    assert page["legend"].text.split() == ["village", "Au", "Bo"]
    assert page.complaints() == []


def test_outline_is_a_tree_for_keys_and_screen_readers(show):
    page = show(small())
    page["outline"].find_element(By.TAG_NAME, "summary").click()
    items = page.until(lambda: page["outline-list"].find_elements(By.TAG_NAME, "li"))
    assert len(items) == 8
    levels = [int(item.get_attribute("aria-level")) for item in items]
    assert levels == [1, 2, 3, 3, 2, 1, 2, 3]
    assert items[0].text.replace("\u00a0", " ") == "case 0 root, 80 %, 2 children"
    items[0].click()
    assert page.chosen() == 0
    items[0].send_keys(Keys.ARROW_DOWN)
    page.run("return document.activeElement").send_keys(Keys.ARROW_RIGHT)
    page.run("return document.activeElement").send_keys(Keys.ENTER)
    assert page.chosen() == 3
    page.run("return document.activeElement").send_keys(Keys.ARROW_LEFT)
    assert page.run("return document.activeElement.record") == 1


def test_tabs_follow_the_arrow_keys(show):
    page = show(small())
    page["view-tree"].send_keys(Keys.ARROW_RIGHT)
    assert page.run("return window.outtrees.state.view") == "timeline"
    page["view-timeline"].send_keys(
        Keys.ARROW_LEFT,
    )
    assert page["pane-tree"].is_displayed()
    assert not page["pane-timeline"].is_displayed()


def test_printing_keeps_the_picture_and_leaves_the_controls(show):
    page = show(small())
    pdf = base64.b64decode(page.browser.print_page())
    assert pdf.startswith(b"%PDF")
    media = {"media": "print"}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        assert not page["colour"].is_displayed()
        assert page["canvas"].is_displayed()
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_paper_says_what_is_supposed(show):
    _, weights = mixture(1, T=8)
    page = show(small(weights=weights))
    supposed = [
        {"kind": "not", "child": 3, "parent": 1},
        {"kind": "parent", "child": 7, "parent": 6},
    ]
    page.later("window.outtrees.supposeAll(arguments[0]).then(() => 0)", supposed)
    buttons = page["what-if"].find_elements(By.CSS_SELECTOR, "button:not(.pick)")
    (unfold,) = [button.text for button in buttons if button.text.startswith("all ")]
    assert all(button.is_displayed() for button in buttons)
    lines = "return document.querySelectorAll('#what-if-changes tbody tr').length"
    assert page.run(lines) == 15
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        # Paper cannot be unfolded: it has all changes.
        page.until(lambda: page.run(lines) == int(unfold.split()[1]) > 15)
        chips = page["what-if"].find_elements(By.CLASS_NAME, "chip")
        words = ["case 3 did not come from case 1", "case 7 came from case 6"]
        assert [chip.text for chip in chips] == words
        buttons = page["what-if"].find_elements(By.CSS_SELECTOR, "button:not(.pick)")
        assert not any(button.is_displayed() for button in buttons)
        assert not page["colour"].is_displayed()
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    page.until(lambda: page.run(lines) == 15)


def test_paper_is_wide_enough_for_every_table(show):
    names = [f"column {i} of many" for i in range(30)]
    cells = [f"a rather long cell {i}" for i in range(120)]
    columns = [ReportColumn(name, "categorical", cells, cells) for name in names]
    reading = ReportReading("a reading", 0.5, np.arange(-1, 119), np.full(120, 0.5))
    others = [replace(reading, name=f"reading {i}", parents=np.full(120, -1)) for i in range(7)]
    page = show(replace(big(120), columns=columns, readings=[reading, *others]))
    page["view-table"].click()
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    size = {
        "width": 718,
        "height": 1000,
        "deviceScaleFactor": 1,
        "mobile": False,
    }  # A4 with margins
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wide = "return document.documentElement.scrollWidth"
    cut = (
        "return [...document.querySelectorAll('.scroll th, .scroll td')].filter((cell) => "
        "cell.offsetParent && cell.scrollWidth > cell.clientWidth + 1).map((c) => c.innerText)"
    )
    try:
        page.until(lambda: len(page["table-body"].find_elements(By.TAG_NAME, "table")) > 3)
        head = page.run("return [...document.querySelectorAll('#table-body th')].map("
                        "(th) => th.innerText)")  # fmt: skip
        assert set(names) <= set(head)
        assert head.count("record") == len(page["table-body"].find_elements(By.TAG_NAME, "table"))
        assert "Records 1 to 50 of 120" in page["table-body"].text
        assert page.run(wide) <= 718
        assert page.run(cut) == []
        page.run("window.outtrees.state.show('readings')")
        assert page.run(wide) <= 718
        assert page.run(cut) == []
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    page.run("window.outtrees.state.show('table')")
    page.until(lambda: len(page["table-body"].find_elements(By.TAG_NAME, "table")) == 1)


def test_one_menu_is_open_at_a_time(show):
    page = show(small(dates=np.arange(8.0)))
    page["filter"].find_element(By.TAG_NAME, "summary").click()
    assert page["filter-column"].is_displayed()
    page["download"].find_element(By.TAG_NAME, "summary").click()
    assert page["save-newick"].is_displayed()
    assert not page["filter-column"].is_displayed()  # its buttons would lie below the other's
    page["save-newick"].send_keys(Keys.ESCAPE)
    assert not page["save-newick"].is_displayed()


def test_menus_stay_inside_the_page_of_a_phone(show):
    size = {"width": 400, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page = show(small(dates=np.arange(8.0)))
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.browser.refresh()
        for view in ("tree", "timeline", "curve", "table", "matrix"):
            page.run("document.getElementById(arguments[0]).click()", f"view-{view}")
            menus = page.browser.find_elements(By.CSS_SELECTOR, "details.menu")
            assert len(menus) == 2
            for menu in menus:
                page.run("arguments[0].open = true", menu)
                sheet, summary = page.run(
                    "return ['.sheet', 'summary'].map((part) =>"
                    " arguments[0].querySelector(part).getBoundingClientRect().toJSON())",
                    menu,
                )
                assert sheet["left"] >= 0, view
                assert sheet["right"] <= 400, view
                assert 0 <= sheet["top"] - summary["bottom"] < 10
                assert page.run("return document.documentElement.scrollWidth") <= 400, view
                page.run("arguments[0].open = false", menu)
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_every_view_of_thousands_of_records_and_of_a_phone(show):
    size = {"width": 400, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page = show(big(5000))
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.browser.refresh()
        for view in ("timeline", "curve", "table", "matrix", "tree"):
            page.run("document.getElementById(arguments[0]).click()", f"view-{view}")
            page.picture()
            assert page.run("return document.documentElement.scrollWidth") <= 400, view
        page.run("document.getElementById('outline').open = true")
        page.until(
            lambda: page.run("return document.querySelectorAll('#outline-list li').length") == 5000
        )
        assert page.complaints() == []
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_hostile_names_stay_text_in_every_view(show):
    data = hostile()
    sites = ReportSites("AC", [[(0, "<")], [], None, [], [], [], [], []])
    columns = [
        *data.columns,
        ReportColumn(
            HOSTILE, "place", [0.0] * 8, [HOSTILE] * 8, [(i, i) for i in range(8)], HOSTILE
        ),
        ReportColumn(HOSTILE, "sequence", [None] * 8, [""] * 8, sites=sites),
    ]
    other = data.consensus.copy()
    other[4] = 2
    page = show(
        replace(
            data,
            columns=columns,
            dates=np.arange(8.0),
            readings=[ReportReading(HOSTILE, 0.5, p, np.ones(8)) for p in (data.consensus, other)],
            intervals=[ReportInterval(HOSTILE, HOSTILE, HOSTILE, HOSTILE)],
            interval_note=HOSTILE,
            series=[ReportSeries(HOSTILE, [(0, 1, 0, 2), (1, 1, 0, 2)], HOSTILE)],
        )
    )
    for view in ("timeline", "curve", "map", "table", "matrix", "readings", "tree"):
        page[f"view-{view}"].click()
        page.run("window.outtrees.choose(0)")
        page.picture()
    page["outline"].find_element(By.TAG_NAME, "summary").click()
    page["filter"].click()
    for option in Select(page["filter-column"]).options:
        option.click()
    suppose(page, 0, 0)
    assert HOSTILE in page["readings"].get_property("textContent")
    assert HOSTILE in page["estimates"].text
    assert injected(page) == 0
    assert page.complaints() == []

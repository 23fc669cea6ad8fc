"""The report in a real browser, with real clicks, keys and wheel turns."""

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from outtrees.views.report import report_html, write_report
from views.report_cases import HOSTILE, big, hostile, make_report, small
from views.report_page import Report, find_browser


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
    chromium, driver = find_browser()
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1400,900"):
        options.add_argument(f"--{option}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()


@pytest.fixture
def show(browser, tmp_path):
    browser.get_log("browser")

    def open_report(data):
        return Report(browser, write_report(data, tmp_path / "report.html"))

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


def test_click_shows_parents_supports_and_what_speaks_for_them(show):
    page = show(small())
    assert "Choose a record" in page["panel"].text
    page.click(3)
    text = page["panel"].text.split("\n")
    assert text[0] == "case 3"
    best = page["candidates"].find_elements(By.CLASS_NAME, "candidate")[0]
    words = best.text.replace("\u00a0", " ").split("\n")
    assert words[:2] == ["case 1 consensus most likely tree", "80 %"]
    assert words[2:] == ["ward", "+1.5", "age", "−0.3"]
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
    page["others"].click()
    assert page.picture() != before


def test_colour_follows_the_column(show):
    page = show(small())
    assert page["legend"].text.split() == ["north", "south", "east"]
    before = page.picture()
    choice = Select(page["colour"])
    assert [option.text for option in choice.options][:3] == [
        "ward",
        "age",
        "support of the parent",
    ]
    choice.select_by_visible_text("age")
    assert page["legend"].text.split() == ["20", "27", "missing"]
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
    page.until((tmp_path / "tree.png").exists)
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

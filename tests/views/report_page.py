"""A report open in a browser: where things are, and hands to click with."""

import os
import shutil
import time

import pytest
from selenium import webdriver
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait


def find_browser():
    """The paths of Chromium and its driver; skips where they are absent and cannot be had."""
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if chromium and driver:
        return chromium, driver
    reason = "needs Chromium and its driver (Debian: apt-get install chromium chromium-driver)"
    # .ci/run installs them where it can; there, a missing browser is a failure.
    if os.environ.get("CI") == "true" and shutil.which("apt-get") and os.geteuid() == 0:
        pytest.fail(reason)
    pytest.skip(reason)


def open_browser():
    """A browser without a window, that remembers what pages complain of."""
    chromium, driver = find_browser()
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1400,900"):
        options.add_argument(f"--{option}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # Or the browser may take a quick row of downloads for an attack, and ask nobody.
    allowed = {"profile.default_content_setting_values.automatic_downloads": 1}
    options.add_experimental_option("prefs", allowed)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


class Report:
    """A report open in the browser."""

    def __init__(self, browser, path, hash=""):
        self.browser = browser
        if hash:
            browser.get("about:blank")  # an address that differs by its hash alone is not loaded
        browser.get(path.as_uri() + hash)

    def __getitem__(self, name):
        return self.browser.find_element(By.ID, name)

    def run(self, code, *arguments):
        return self.browser.execute_script(code, *arguments)

    def later(self, code, *arguments):
        """What a promise of the page brings."""
        brings = f"({code}).then(done, (e) => done(`${{e}}`))"
        return self.browser.execute_async_script(
            f"const done = arguments[arguments.length - 1]; {brings}", *arguments
        )

    def until(self, what):
        # A limit on waiting for what is sure to come, not a measurement.
        return WebDriverWait(self.browser, 60, 0.03).until(lambda _: what())

    def chosen(self):
        return self.run("return window.outtrees.state.chosen")

    def place(self, record, canvas="canvas", point="where(arguments[1])"):
        """Where a record (or a pair of the matrix) is drawn, in the window."""
        self.run("document.getElementById(arguments[0]).scrollIntoView({block: 'center'})", canvas)
        return self.run(
            "const box = document.getElementById(arguments[0]).getBoundingClientRect();"
            f"const [x, y] = window.outtrees.{point}; return [box.x + x, box.y + y]",
            canvas,
            record,
        )

    def click_at(self, x, y):
        hand = ActionBuilder(self.browser)
        hand.pointer_action.move_to_location(round(x), round(y)).click()
        hand.perform()

    def click(self, record):
        self.click_at(*self.place(record))

    def picture(self, canvas="canvas"):
        """The pixels, once the next frame is drawn."""
        return self.browser.execute_async_script(
            "const [name, done] = arguments; requestAnimationFrame(() => requestAnimationFrame("
            "() => done(document.getElementById(name).toDataURL())))",
            canvas,
        )

    def at_rest(self):
        """Wait until the view no longer moves."""
        look = "const v = window.outtrees.view; return [v.kx, v.ky, v.tx, v.ty]"

        def still():
            before = self.run(look)
            time.sleep(0.1)
            return self.run(look) == before

        self.until(still)

    def complaints(self):
        return [entry["message"] for entry in self.browser.get_log("browser")]

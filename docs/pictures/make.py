"""Make the pictures of the README, the home page, docs/report.md and docs/app.md anew (Chromium).

The report of the README's commands; and a simulated outbreak of 60 cases, its report, and each of
its views at the width of a desk and of a phone.
"""

import base64
import io
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from outtrees import Ancestry
from outtrees.datasets import make_outbreak

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))
VIEWS = ("tree", "timeline", "curve", "map", "table", "matrix", "readings")
SIZES = {"desktop": (1200, 860, False), "phone": (400, 820, True)}


def outbreak():
    """Return a table with dates, wards, ages and places, and sequences."""
    made, rng, places = make_outbreak(60, random_state=7, n_introductions=3), None, {}
    rng = np.random.default_rng(0)

    def place(name):
        if name not in places:
            parent = made.infectors[name]
            before = place(parent) if parent else 3 * rng.normal(size=2)
            places[name] = before + (rng.normal(size=2) if parent else 0)
        return places[name]

    table = dict(made.table)
    table["lat"] = [f"{50 + 0.1 * place(name)[0]:.4f}" for name in table["case"]]
    table["lon"] = [f"{8 + 0.15 * place(name)[1]:.4f}" for name in table["case"]]
    return table, made.sequences


def main():
    """Fit, write the report, and take a picture of each view."""
    from selenium.webdriver.common.by import By

    from views.report_page import open_browser

    table, sequences = outbreak()
    model = Ancestry(id="case", random_state=0).fit(table, sequences=sequences)
    browser = open_browser()
    with tempfile.TemporaryDirectory() as folder:
        path = model.report(Path(folder) / "report.html", command="outtrees ancestry cases.csv")
        try:
            for size, (width, height, mobile) in SIZES.items():
                screen = {
                    "width": width,
                    "height": height,
                    "deviceScaleFactor": 1,
                    "mobile": mobile,
                }
                browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
                browser.get(path.as_uri())
                for view in VIEWS:
                    browser.find_element(By.ID, f"view-{view}").click()
                    save(browser, f"report-{view}-{size}.png", width)
                save(browser, f"report-estimates-{size}.png", width, "estimates-card")
                browser.get("about:blank")
                browser.get(
                    f"{path.as_uri()}#record=case37&suppose=%5B%22case37%22%2C%22case09%22%5D"
                )
                save(browser, f"report-what-if-{size}.png", width, "what-if", "tree")
            pictures_of_the_app(browser, Path(folder), table, sequences)
            picture_of_the_readme(browser, Path(folder))
        finally:
            browser.quit()


def picture_of_the_readme(browser, folder):
    """Type the commands of the README, and take a picture of the upper part of the report."""
    import contextlib
    import os

    from click.testing import CliRunner

    from outtrees.cli import main as outtrees

    with contextlib.chdir(folder):
        for line in (
            "demo",
            "ancestry outtrees-demo/cases.csv --id case --date onset "
            "--sequences outtrees-demo/dna.fasta --out results",
        ):
            done = CliRunner().invoke(outtrees, line.split())
            assert done.exit_code == 0, done.output
    screen = {"width": 1300, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get((folder / "results" / "report.html").as_uri())
    time.sleep(1)
    clip = {"x": 0, "y": 0, "width": 1300, "height": 1010, "scale": 1}
    keep(browser, os.path.join("..", "images", "report.png"), clip)


def pictures_of_the_app(browser, folder, table, sequences):
    """Drop the same files into the app, run it, and take a picture."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    from outtrees.cli.app import Server, Session
    from outtrees.io import write_csv

    cases, dna = write_csv(folder / "cases.csv", table), folder / "dna.fasta"
    dna.write_text("".join(f">{name}\n{text}\n" for name, text in sequences.items()))
    (folder / "app").mkdir()
    session = Session(folder / "app", 10**8)
    server = Server(session, 0)
    server.start()
    try:
        for size, (width, height, mobile) in SIZES.items():
            screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            browser.get(server.address)
            if size == "desktop":
                browser.find_element(By.ID, "choose").send_keys(f"{cases}\n{dna}")
                time.sleep(2)
                browser.find_element(By.ID, "run").click()
            progress = browser.find_element(By.ID, "progress")
            WebDriverWait(browser, 120).until(lambda _, p=progress: p.text.startswith("done"))
            time.sleep(1)
            browser.execute_script(
                "document.getElementById('results-card').scrollIntoView({block: 'end'})"
            )
            time.sleep(
                5
            )  # a frame that nobody sees is not drawn, nor one at once on a busy machine
            clip = {"x": 0, "y": 0, "width": width, "height": 1500, "scale": 1}
            keep(browser, f"app-{size}.png", clip)
    finally:
        server.close()
        session.close()


def save(browser, name, width, first="tree", last=None):
    """Keep a picture of one part of the page, or from one to another, in few colours."""
    time.sleep(0.7)  # views glide to what is chosen
    y, height = browser.execute_script(
        "const a = document.getElementById(arguments[0]).getBoundingClientRect(),"
        "b = document.getElementById(arguments[1]).getBoundingClientRect();"
        "return [a.top + scrollY, b.bottom - a.top]",
        first,
        last or first,
    )
    clip = {"x": 0, "y": y - 6, "width": width, "height": min(height + 12, 1100), "scale": 1}
    keep(browser, name, clip)


def keep(browser, name, clip):
    """Write one part of the page as a PNG of few colours."""
    shot = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
    )
    image = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
        HERE / name, optimize=True
    )


if __name__ == "__main__":
    main()

"""A table in which names, columns and cells try to act, through every format and view."""

import csv
import os
import warnings
from importlib.util import find_spec

import matplotlib.pyplot as plt
import pytest
from click.testing import CliRunner

from outtrees.cli import main
from outtrees.io import FORMATS, load, read_ctc
from outtrees.records import read_records
from views.report_page import Report, open_browser

NAMES = [
    "=1+1", "</script><img src=x onerror=alert(1)>", 'q"q\\', "it's; [x]", "a\nb\tc", "\u202eabc",
    "@@DATA@@", " two  words ", "n0", "ключ,=", "(a,b):1;", "__proto__", "-", "'", "{01}",
    "%s&amp;",
]  # fmt: skip
COLUMN = 'ward "</td>'


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder that the command writes of such a table."""
    folder = tmp_path_factory.mktemp("hostile")
    T = len(NAMES)
    with open(folder / "cases.csv", "w", newline="", encoding="utf-8") as file:
        write = csv.writer(file)
        write.writerow(["name", "onset", COLUMN, "lat", "lon"])
        for i, name in enumerate(NAMES):
            cells = [f"2024-03-{i + 1:02d}", NAMES[i // 4], 50 + 0.01 * i, 8 + 0.02 * (i % 3)]
            write.writerow([name, *cells])
    command = ["ancestry", folder / "cases.csv", "--id", "name", "--date", "onset", "--no-ties"]
    command += ["--waiting-mean", "3", "--waiting-sd", "1", "--kind", f"{COLUMN}=categorical"]
    command += ["--parameters", "fitted", "--out", folder / "results"]
    done = CliRunner().invoke(main, [str(part) for part in command])
    assert done.exit_code == 0, done.output
    assert len(load(folder / "results" / "model.safetensors").records) == T
    return folder / "results"


def test_every_format_takes_it(results, tmp_path):
    read = {
        "epicontacts": lambda path: len(read_records(path / "linelist.csv", id="id")),
        "nexus": lambda path: len(read_records(path)),
        "ctc": lambda path: len(read_ctc(path)),
    }
    for name, format in FORMATS.items():
        out = tmp_path / f"of {name}"
        command = ["convert", results, "--to", name, "--out", out, "--quiet"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries announce their next versions
            done = CliRunner().invoke(main, [str(part) for part in command])
        if format.needs and find_spec(format.needs) is None:
            assert format.needs in done.output
            continue
        assert done.exit_code == 0, (name, done.output)
        assert out.is_dir() == format.folder
        if name in read:
            assert read[name](out) == len(NAMES)
    assert all(path.name.startswith("of ") for path in tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:Glyph")  # the font has no sign for a control character
def test_every_figure_takes_it(results, tmp_path):
    model = load(results / "model.safetensors")
    for number, draw in enumerate(
        [model.plot, model.plot_support, model.plot_epicurve, model.plot_map]
    ):
        color = {} if draw == model.plot_support else {"color": COLUMN}
        draw(**color).figure.savefig(tmp_path / f"{number}.svg")
        plt.close("all")
        assert b"<script" not in (tmp_path / f"{number}.svg").read_bytes()


def test_every_view_of_the_report_takes_it(results):
    browser = open_browser()
    try:
        page = Report(browser, results / "report.html")
        assert page.run("return window.outtrees !== undefined")
        for view in ("timeline", "curve", "map", "table", "matrix", "tree"):
            page[f"view-{view}"].click()
            page.picture()
            for record in range(len(NAMES)):
                page.run("window.outtrees.choose(arguments[0])", record)
        assert page.run("return document.images.length") == 0
        assert page.complaints() == []
        kept = "left out; --keep 'ward \"</td>' keeps it"  # as it is typed, not as Python has it
        assert kept in page["warnings"].text
    finally:
        browser.quit()
    said = CliRunner().invoke(main, ["show", os.fspath(results)])
    assert kept in said.output

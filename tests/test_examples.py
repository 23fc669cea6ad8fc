"""Each example, which is a tutorial of the site too, runs as a user would run it."""

import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
LONG = ("densities_labels_gaps",)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in LONG))
        for path in EXAMPLES
    ],
)
def test_example(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    runpy.run_path(str(path), run_name="__main__")
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert figures
    assert all(ax.has_data() for figure in figures for ax in figure.axes)
    plt.close("all")


def test_each_kind_of_user_has_one():
    assert {path.stem for path in EXAMPLES} == {
        "outbreak",  # epidemiologists
        "cells",  # cell biologists
        "manuscripts",  # stemmatologists
        "densities_labels_gaps",  # data scientists
        "own_kind",  # those who extend the library
        "upgrade",  # maintainers
    }


BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_benchmarks_find_what_they_measure(path, monkeypatch):
    """They are run by hand, and would break unnoticed when something moves."""
    here = [path.parents[1], path.parents[1] / "tests"]  # the tests find these, a script does not
    others = [folder for folder in sys.path if Path(folder).resolve() not in here]
    monkeypatch.setattr(sys, "path", [str(path.parent), *others])
    for name in [name for name in sys.modules if name.partition(".")[0] in ("paper", "oracles")]:
        monkeypatch.delitem(sys.modules, name)
    runpy.run_path(str(path), run_name="read")

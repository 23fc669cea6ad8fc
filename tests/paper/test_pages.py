"""Pages, tables and paired tests."""

import csv

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from paper import EXPERIMENTS, experiment
from paper.page import Page, markdown_table
from paper.table1 import paired_test


def test_page_holds_what_it_was_given(tmp_path):
    page = Page(tmp_path, "figure0", "Figure 0")
    page.heading("Numbers")
    page.table({"method": ["a|b", "c"], "error": [0.12345, None]})
    page.points(["one", "two"])
    page.picture(Figure(), "nothing")
    page.numbers({"method": ["a|b", "=c"], "error": [0.12345, -1.0]}, "-raw")
    text = page.write("python -m paper figure0").read_text()
    assert "| a\\|b | 0.123 |\n| c |  |" in text
    assert "- one\n- two" in text
    assert "![nothing](figure0.png)" in text
    assert "\n    python -m paper figure0\n" in text
    assert (tmp_path / "figure0" / "figure0.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.reader((tmp_path / "figure0" / "figure0-raw.csv").read_text().splitlines()))
    assert rows == [["method", "error"], ["a|b", "0.12345"], ["'=c", "-1.0"]]


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="zip"):
        markdown_table({"a": [1], "b": [1, 2]})


def test_paired_test_is_scipys_where_folds_share_nothing():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0.4, 1, 10), rng.normal(0, 1, 10)
    found, expected = paired_test(ours, theirs), stats.ttest_rel(ours, theirs)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.difference == pytest.approx((ours - theirs).mean())
    assert found.standard_error == pytest.approx(stats.sem(ours - theirs))
    assert found.ahead == (ours > theirs).sum()
    # What is shared makes it less sure: t shrinks by √((1/n) / (1/n + overlap)).
    shared = paired_test(ours, theirs, overlap=1 / 9)
    t = expected.statistic * np.sqrt(0.1 / (0.1 + 1 / 9))
    assert shared.p_value == pytest.approx(2 * stats.t.sf(abs(t), 9))
    assert shared.p_value > found.p_value


def test_paired_test_without_spread():
    assert paired_test([1.0], [0.0]).p_value is None
    assert paired_test([1.0], [0.0]).text() == "+1.0 (one fold)"
    assert paired_test([1.0, 2.0], [1.0, 2.0]).p_value == 1.0
    assert paired_test([2.0, 3.0], [1.0, 2.0]).p_value == 0.0


def test_every_experiment_is_there():
    assert list(EXPERIMENTS) == ["figure1", "figure2", "table1", "figure3", "figure4"]
    for name in EXPERIMENTS:
        assert experiment(name).__module__.startswith("paper.")
    with pytest.raises(ValueError, match="one of figure1, figure2, table1"):
        experiment("figure5")

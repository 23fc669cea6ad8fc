"""Figures 1 and 2 in their quick forms: what they must show, read back from their files."""

import csv
import json

import numpy as np
import pytest

from paper import figure1, figure2


def rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    page = figure1.run(tmp_path_factory.mktemp("one"), quick=True)
    return page, rows(page.with_suffix(".csv"))


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    return figure2.run(tmp_path_factory.mktemp("two"), quick=True)


def test_figure1_draws_trees(first):
    page, table = first
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    for name in figure1.TRANSITIONS:
        parents = [int(r["parent"] or 0) - 1 for r in table if r["tree"] == name]
        assert len(parents) == 40
        assert parents.count(-1) == 1
        assert (figure1.depths(parents) < 40).all()  # it ended: there is no circle


def test_figure1_steps_have_unit_variance(first):
    """x − Σ parent is N(0, I): its squared lengths are χ² with 3 degrees of freedom."""
    _, table = first
    squared = []
    for name, transition in figure1.TRANSITIONS.items():
        tree = [r for r in table if r["tree"] == name]
        X = np.array([[float(r[c]) for c in "xyz"] for r in tree])
        for t, r in enumerate(tree):
            if r["parent"]:
                squared.append(np.square(X[t] - transition @ X[int(r["parent"]) - 1]).sum())
    error = np.sqrt(6 / len(squared))  # the variance of χ²₃ is 6
    assert np.mean(squared) == pytest.approx(3.0, abs=4 * error)
    wrong = [t for t in figure1.TRANSITIONS.values() if not np.allclose(t, t @ t)]
    assert len(wrong) == 3  # else Σ and Σ² could not be told apart


@pytest.mark.slow
def test_figure1_is_the_same_again(first, tmp_path):
    page, _ = first
    again = figure1.run(tmp_path, quick=True, n_jobs=2)
    assert again.with_suffix(".csv").read_bytes() == page.with_suffix(".csv").read_bytes()
    assert again.with_suffix(".png").read_bytes() == page.with_suffix(".png").read_bytes()


def test_figure2_climbs(second):
    """EM never lowers the penalised likelihood, and a spiral is not fitted at the start."""
    table = rows(second.parent / "figure2-steps.csv")
    for method in figure2.METHODS:
        values = [float(r["penalised log-likelihood"]) for r in table if r["mutation"] == method]
        assert len(values) > 2
        assert np.diff(values).min() >= -1e-9
        assert values[-1] > values[0] + 1


def test_figure2_has_the_papers_27_numbers(second):
    assert "27 free numbers (paper: 27)" in second.read_text()


def test_figure2_less_noise_is_less_noise(second):
    """Of the last panel the steps' variance is `SMALL` times that of the others."""
    unit = json.loads((second.parent / "units" / "spiral.gaussian.00.json").read_text())
    A, b = (np.array(unit["result"]["parameters"][k]) for k in ("transition_matrix", "offset"))
    spread = []
    for drawn in unit["result"]["populations"]:
        X, parents = np.array(drawn["records"]), np.array(drawn["parents"])
        children = parents >= 0
        spread.append(np.square(X[children] - X[parents[children]] @ A.T - b).sum())
    # Sums over 119 · 3 squared normal numbers: each is known to 8 %.
    assert spread[2] / spread[0] == pytest.approx(figure2.SMALL, rel=0.5)
    assert spread[1] / spread[0] == pytest.approx(1.0, rel=0.5)

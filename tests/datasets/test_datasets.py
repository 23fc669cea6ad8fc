"""Bundled tables have the paper's shapes; generators follow the paper's recipe."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from outtrees.datasets import (
    load_diabetes,
    load_heart,
    load_liver,
    load_zoo,
    make_out_tree,
    make_spiral,
    random_out_tree,
)
from outtrees.models import GaussianMutation
from outtrees.trees.parents import are_out_trees


@pytest.mark.parametrize(
    ("load", "whole", "paper"),
    [
        (load_heart, (303, 13), (139, 13)),
        (load_diabetes, (768, 8), (268, 8)),
        (load_liver, (345, 6), (200, 6)),
    ],
)
def test_shapes_of_the_paper(load, whole, paper):
    everything, subset = load(), load(subset="paper")
    assert everything.data.shape == whole
    assert subset.data.shape == paper
    assert len(set(everything.target)) == 2
    assert len(set(subset.target)) == 1
    assert len(everything.feature_names) == whole[1]
    assert "CC BY 4.0" in everything.DESCR


def test_missing_cells():
    rows = np.isnan(load_heart(subset="paper").data).any(axis=1)
    assert rows.sum() == 2
    kept, marked = load_diabetes(), load_diabetes(zeros="nan")
    assert not np.isnan(kept.data).any()
    empty = dict(zip(marked.feature_names, np.isnan(marked.data).sum(axis=0), strict=True))
    assert empty["insulin"] == 374
    assert empty["pregnant"] == 0
    assert (kept.data[:, 0] == 0).any()


def test_values_of_known_rows():
    assert load_liver().data[0].tolist() == [85, 92, 45, 27, 31, 0]
    heart = load_heart()
    assert dict(zip(heart.feature_names, heart.data[1], strict=True))["chol"] == 286
    zoo = load_zoo()
    row = dict(zip(zoo.feature_names, zoo.data[zoo.names.tolist().index("gull")], strict=True))
    assert (row["feathers"], row["legs"], row["milk"]) == (1, 2, 0)
    assert len(set(zoo.target)) == 7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_heart(subset="papers"), "subset must be 'all' or 'paper'"),
        (lambda: load_diabetes(zeros="drop"), "zeros must be 'keep' or 'nan'"),
        (lambda: make_spiral(0), "n must be an integer >= 1; got 0"),
        (lambda: make_spiral(True), "n must be an integer"),
        (lambda: make_spiral(noise=-1), "noise must be a number >= 0"),
        (lambda: make_spiral(random_state="x"), "random_state must be None"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_spiral():
    X = make_spiral()
    assert X.shape == (534, 3)
    np.testing.assert_array_equal(X, make_spiral())
    assert not np.array_equal(X, make_spiral(random_state=1))
    exact = make_spiral(noise=0.0)
    t = 4 * np.pi * exact[:, 2]
    assert t.min() >= 2 * np.pi
    assert t.max() <= 6 * np.pi
    np.testing.assert_allclose(np.hypot(exact[:, 0], exact[:, 1]), 10 / t)
    residual = (X - exact) / 0.05
    assert stats.kstest(residual.ravel(), "norm").pvalue > 0.01


@pytest.mark.parametrize("n", [1, 2, 3, 50])
def test_random_trees_are_out_trees(n):
    trees = np.array([random_out_tree(n, random_state=seed) for seed in range(30)])
    assert are_out_trees(trees, single_root=True).all()


def test_all_out_trees_are_equally_likely():
    rng = np.random.default_rng(0)
    counts = Counter(tuple(random_out_tree(4, rng).tolist()) for _ in range(6400))
    assert len(counts) == 64
    assert stats.chisquare(list(counts.values())).pvalue > 0.01


def test_generated_records_follow_their_parents():
    walk = GaussianMutation(
        transition_matrix=[[0.5]],
        offset=[2.0],
        mutation_cov=[[0.09]],
        root_mean=[100.0],
        root_cov=[[1.0]],
    )
    X, parents = make_out_tree(3000, walk, random_state=0)
    child = np.flatnonzero(parents >= 0)
    residual = (X[child, 0] - 0.5 * X[parents[child], 0] - 2.0) / 0.3
    assert stats.kstest(residual, "norm").pvalue > 0.01
    assert abs(X[parents == -1][0, 0] - 100) < 5
    again = make_out_tree(3000, walk, random_state=0)
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(parents, again[1])

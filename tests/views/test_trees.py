"""The places of records in a picture of a tree, and the matplotlib figures."""

import sys

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from scipy.integrate import fixed_quad

from outtrees import OutTreeDensity
from outtrees.datasets import random_out_tree
from outtrees.inference.likelihood import leaf_log_density
from outtrees.views.layout import tree_columns, tree_rows
from outtrees.views.matrix import plot_log_likelihoods, plot_support
from outtrees.views.space import plot_density_3d, wall_densities
from outtrees.views.trees import plot_tree


def forest(T, seed):
    """A random tree, some edges of which are cut."""
    rng = np.random.default_rng(seed)
    parents = np.array(random_out_tree(T, random_state=rng))
    return np.where(rng.random(T) < 0.1, -1, parents)


def descendants(parents, record):
    below = {record}
    for _ in parents:
        below |= {i for i, p in enumerate(parents) if p in below}
    return below


@pytest.mark.parametrize("seed", range(5))
def test_every_record_has_a_row_and_every_branch_adjacent_rows(seed):
    parents = forest(25, seed)
    rows, depth = tree_rows(parents)
    assert len(set(rows)) == 25
    for record, parent in enumerate(parents):
        branch = sorted(rows[i] for i in descendants(parents, record))
        assert branch == list(range(branch[0], branch[0] + len(branch)))
        assert depth[record] == (0 if parent < 0 else depth[parent] + 1)


@pytest.mark.parametrize("seed", range(5))
def test_no_lines_cross_and_names_are_free(seed):
    """Every pair of a vertical and a horizontal piece, looked at one by one."""
    parents = forest(25, seed)
    rows, depth = tree_rows(parents)
    rng = np.random.default_rng(seed)
    dates = np.zeros(25)
    for record in np.argsort(depth, kind="stable"):
        dates[record] = rng.integers(1, 4) + (dates[parents[record]] if parents[record] >= 0 else 0)
    x = tree_columns(parents, depth, dates)
    joined = [(i, p) for i, p in enumerate(parents) if p >= 0]
    for child, parent in joined:
        top, bottom = sorted([rows[parent], rows[child]])
        for other in range(25):
            if top < rows[other] < bottom:
                # The line into `other`, and the space to its right, keep clear of the vertical
                # piece at the parent's place, unless they hang from the same parent.
                reaches_from = x[parents[other]] if parents[other] >= 0 else x[other]
                assert x[other] > x[parent]
                assert reaches_from >= x[parent]


def test_long_chains_need_no_recursion():
    T = 50_000
    rows, depth = tree_rows(np.arange(-1, T - 1))
    assert depth[-1] == T - 1
    assert sorted(rows) == list(range(T))


def test_unknown_dates_are_borrowed():
    parents = [-1, 0, 1, -1]
    _, depth = tree_rows(parents)
    nan = float("nan")
    assert tree_columns(parents, depth, [3, nan, nan, nan]).tolist() == [3, 3, 3, 3]
    assert tree_columns(parents, depth, [nan] * 4).tolist() == [0, 0, 0, 0]
    assert tree_columns(parents, depth).tolist() == [0, 1, 2, 0]
    with pytest.raises(ValueError, match="date of record 1 is inf"):
        tree_columns(parents, depth, [3, float("inf"), 4, 5])
    with pytest.raises(ValueError, match="one entry per record"):
        tree_columns(parents, depth, [3])


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([1, 0], "following them from record 0 never reaches a root"),
        ([0], "never reaches a root"),
        ([-1, 2], "parent of record 1 is 2"),
        ([-1.0, 0.0], "one integer per record"),
        ([[-1, 0]], "one integer per record"),
    ],
)
def test_what_is_no_tree_is_refused(parents, message):
    with pytest.raises(ValueError, match=message):
        tree_rows(parents)


def lines(ax):
    return next(c for c in ax.collections if isinstance(c, LineCollection))


def test_lines_join_parent_and_child_as_wide_as_the_support():
    ax = Figure().subplots()
    parents, support = [-1, 0, 0], np.array([1.0, 0.9, 0.2])
    assert plot_tree(parents, support, ["a", "$b$", "c"], dates=[1.0, 4.0, 6.0], ax=ax) is ax
    rows, _ = tree_rows(parents)
    drawn = {
        tuple(s[-1]): (s[0], w)
        for s, w in zip(lines(ax).get_segments(), lines(ax).get_linewidths(), strict=True)
    }
    widths = []
    for child, date in [(1, 4.0), (2, 6.0)]:
        start, width = drawn[(date, rows[child])]
        assert start.tolist() == [1.0, rows[0]]
        widths.append(width)
    assert widths[0] - 0.4 == pytest.approx((widths[1] - 0.4) * 0.9 / 0.2)
    assert [text.get_text() for text in ax.texts] == ["a", "$b$", "c"]
    assert ax.get_xlabel() == "time"


def test_calendar_dates_are_shown_as_dates():
    ax = plot_tree([-1, 0], dates=[20_000.0, 20_010.0], calendar=True)
    ax.figure.canvas.draw()
    texts = [label.get_text() for label in ax.get_xticklabels()]
    assert ax.xaxis.get_major_formatter().get_offset() == "2024-Oct"
    assert any(texts)


def test_support_matrix_follows_the_tree():
    rng = np.random.default_rng(0)
    T, parents = 6, np.array([3, 0, 0, -1, 3, 4])
    support, roots = rng.random((T, T)), rng.random(T)
    names = list("abcdef")
    ax = plot_support(support, roots, names, parents=parents)
    shown = ax.images[0].get_array()
    down = [label.get_text() for label in ax.get_yticklabels()]
    across = [label.get_text() for label in ax.get_xticklabels()]
    rows, _ = tree_rows(parents)
    assert down == [names[i] for i in np.argsort(rows)]
    assert across == ["(root)", *down]
    for i, child in enumerate(down):
        assert shown[i, 0] == roots[names.index(child)]
        for j, parent in enumerate(down):
            assert shown[i, j + 1] == support[names.index(child), names.index(parent)]
    assert plot_support(support).images[0].get_array().shape == (T, T)


def test_trace():
    ax = Figure().subplots()
    assert plot_log_likelihoods([-3.0, -2.0], ax=ax) is ax
    assert ax.lines[0].get_ydata().tolist() == [-3.0, -2.0]
    with pytest.raises(ValueError, match="none NaN"):
        plot_log_likelihoods([np.nan])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_tree([-1, 0], [1.0]), r"support must have one entry per record; got \(1,\)"),
        (lambda: plot_tree([-1, 0], [1.0, 2.0]), "between 0 and 1"),
        (lambda: plot_tree([-1, 0], [1.0, np.nan]), "between 0 and 1"),
        (lambda: plot_tree([-1, 0], names=["a"]), "got 1 for 2 records"),
        (lambda: plot_support(np.zeros((2, 3))), r"square.*got \(2, 3\)"),
        (lambda: plot_support(np.zeros((2, 2)), [0.0]), "root_marginals must have one entry"),
        (lambda: plot_support(np.zeros((2, 2)), names=["a"]), "got 1 for 2 records"),
        (lambda: plot_support(np.full((2, 2), np.nan)), "some are NaN"),
        (lambda: plot_support(np.zeros((2, 2)), parents=[-1]), "for 2 records"),
    ],
)
def test_wrong_shapes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.fixture(scope="module")
def estimator():
    return OutTreeDensity("parzen").fit(np.random.default_rng(0).normal(size=(10, 3)))


def test_walls_hold_the_density_of_the_two_other_columns(estimator):
    grids = [np.linspace(-6, 6, 41), np.linspace(-6, 6, 37), np.linspace(-6, 6, 45)]
    walls = wall_densities(estimator, grids)
    for axis, wall in enumerate(walls):
        others = [d for d in range(3) if d != axis]
        assert wall.shape == tuple(len(grids[d]) for d in others)
        i, j = wall.shape[0] // 2 + 2, wall.shape[1] // 2 - 3

        def along(t, axis=axis, others=others, i=i, j=j):
            point = np.zeros((len(t), 3))
            point[:, axis] = t
            point[:, others] = grids[others[0]][i], grids[others[1]][j]
            return np.exp(leaf_log_density(estimator.mutation_, estimator.X_, point))

        # A smooth density that vanishes at both ends: the trapezoidal rule is near exact.
        assert wall[i, j] == pytest.approx(fixed_quad(along, -6, 6, n=200)[0], rel=1e-3)


def test_density_in_space(estimator):
    ax = Figure().add_subplot(projection="3d")
    assert plot_density_3d(estimator, ax, n_grid=8) is ax
    ax.figure.canvas.draw()
    bare = plot_density_3d(estimator, n_grid=8, show_tree=False)
    assert len(ax.collections) == len(bare.collections) + 1
    with pytest.raises(ValueError, match="three-dimensional"):
        plot_density_3d(estimator, Figure().subplots())
    flat = OutTreeDensity("parzen").fit(np.random.default_rng(0).normal(size=(10, 2)))
    with pytest.raises(ValueError, match="draws 3 columns, but the estimator knows 2"):
        plot_density_3d(flat)


def test_figures_leave_no_open_figure_behind():
    plot_tree([-1, 0])
    plot_support(np.zeros((2, 2)))
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []

"""Trees and supports as figures and as a table."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from outtrees import OutTreeDistribution
from outtrees.views.layout import tree_rows
from outtrees.views.trees import parent_table, plot_parents, plot_support, plot_tree


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
    assert ax.xaxis.get_major_formatter().get_offset() == "2024"
    assert texts
    assert all(text.endswith(" Oct") for text in texts)


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


def pair():
    return OutTreeDistribution(np.log([[1.0, 1.0], [3.0, 1.0]]))


def test_table_is_sorted_and_complete():
    rows = parent_table(pair(), min_support=0.0)
    assert rows == [
        ("0", "", 0.75),
        ("0", "1", 0.25),
        ("1", "0", 0.75),
        ("1", "", 0.25),
    ]
    assert [row[2] for row in parent_table(pair(), min_support=0.5)] == [0.75, 0.75]


def test_names_must_match():
    with pytest.raises(ValueError, match="got 1 for 2 records"):
        parent_table(pair(), ["Ann"])


def test_picture_draws_each_likely_edge_once():
    ax = Figure().subplots()
    assert plot_parents(pair(), [[0, 0], [1, 1]], ["Ann", "Bob"], min_support=0.3, ax=ax) is ax
    assert [text.get_text() for text in ax.texts] == ["", "Ann", "Bob"]
    with pytest.raises(ValueError, match="got 1 for 2 records"):
        plot_parents(pair(), [[0, 0], [1, 1]], np.array(["Ann"]))
    with pytest.raises(ValueError, match=r"shape \(2, 2\); got \(3, 2\)"):
        plot_parents(pair(), np.zeros((3, 2)))


def test_figures_are_pyplots_current_ones_and_nothing_is_drawn_over():
    figure = plt.figure()
    assert plot_tree([-1, 0]).figure is figure
    assert plot_support(np.zeros((2, 2))).figure is not figure  # it has a tree already
    left, right = plt.subplots(1, 2)[1]
    plt.sca(left)
    assert plot_tree([-1, 0]) is left
    plt.sca(right)
    assert plot_parents(pair(), [[0, 0], [1, 1]]) is right
    assert len(plt.get_fignums()) == 3


def test_names_of_neighbouring_rows_do_not_collide():
    T = 60
    ax = plot_tree([-1] + [0] * (T - 1), names=[f"record {i}" for i in range(T)])
    figure = ax.figure
    figure.canvas.draw()
    boxes = sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.y0)
    assert len(boxes) == T
    assert all(below.y1 <= above.y0 + 1 for below, above in itertools.pairwise(boxes))


def test_colours_of_categories_and_supports_are_explained():
    ax = plot_tree([-1, 0, 0], [1.0, 0.9, 0.2], colors=["N", "S", ""], color_label="ward")
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["ward", "N", "S", "unknown", "support", "100%", "50%", "10%"]
    assert plot_tree([-1, 0], legend=False).get_legend() is None


def test_figures_are_written_as_vectors(tmp_path):
    path = tmp_path / "tree.svg"
    plot_tree([-1, 0, 0], [1.0, 0.9, 0.2], ["a", "$b", "c"]).figure.savefig(path)
    assert path.read_text().count("<path") > 5

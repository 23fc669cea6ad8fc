"""Epidemic curves and maps."""

import numpy as np
import pytest
from matplotlib.transforms import Bbox

from outtrees import Ancestry, RecordsError
from outtrees.datasets import make_line_list
from outtrees.views import plot_epicurve, plot_map


def heights(ax):
    return [[bar.get_height() for bar in group] for group in ax.containers]


def test_bars_count_the_records_of_each_group():
    ax = plot_epicurve([0.2, 0.9, 1.0, 3.5, np.nan], ["N", "S", "N", "", "N"], step=1.0)
    assert heights(ax) == [[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["N", "S", "unknown"]
    assert ax.get_title() == "1 records without a date are left out"


@pytest.mark.parametrize("span", [0, 0.5, 10, 100, 1000, 100_000])
@pytest.mark.parametrize("calendar", [True, False])
def test_no_more_bars_than_can_be_seen(span, calendar):
    ax = plot_epicurve(20_000 + span * np.linspace(0, 1, 50), calendar=calendar)
    assert len(ax.patches) <= 52
    assert sum(bar.get_height() for bar in ax.patches) == 50


def test_arrows_go_from_parent_to_child_and_roots_are_ringed():
    places = [[0.0, 0.0], [3.0, 1.0], [np.nan, 2.0], [5.0, 5.0]]
    ax = plot_map(places, [-1, 0, 1, 2], [1.0, 0.9, 0.8, 0.5], ["a", "b", "c", "d"])
    arrows = [text for text in ax.texts if not text.get_text()]
    assert [(arrow.xy[0], arrow.xyann[0]) for arrow in arrows] == [(3.0, 0.0)]
    assert ax.get_title() == "1 records without a place are left out"
    assert sorted(text.get_text() for text in ax.texts if text.get_text()) == ["a", "b", "d"]


def test_names_on_a_crowded_map_cover_neither_each_other_nor_records():
    rng = np.random.default_rng(0)
    places = np.vstack([rng.normal(size=(20, 2)), 0.2 * rng.normal(size=(20, 2))])
    parents = [-1, *rng.integers(0, np.arange(1, 40))]
    ax = plot_map(places, parents, rng.random(40), [f"case{i:02d}" for i in range(40)])
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts if text.get_text()]
    names = [text.get_text() for text in ax.texts if text.get_text()]
    assert 15 < len(names) < 40  # not all have room
    assert "case00" in names  # a root has it first
    shrunk = [Bbox.from_extents(b.x0 + 0.5, b.y0 + 0.5, b.x1 - 0.5, b.y1 - 0.5) for b in boxes]
    for i, box in enumerate(shrunk):
        assert not any(box.overlaps(other) for other in shrunk[:i])
        assert not any(box.contains(*dot) for dot in ax.transData.transform(places))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_epicurve([np.nan]), "one known"),
        (lambda: plot_epicurve([1.0, 2.0], ["a"]), "got 1 for 2 records"),
        (lambda: plot_epicurve([1.0, 2.0], step=0.0), "step must be positive"),
        (lambda: plot_map(np.zeros((2, 3)), [-1, 0]), r"shape \(2, 2\); got \(2, 3\)"),
        (lambda: plot_map(np.full((2, 2), np.nan), [-1, 0]), "all are NaN"),
    ],
)
def test_wrong_shapes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_fitted_table_draws_itself():
    cases = make_line_list(30, days=40, random_state=1)
    found = Ancestry(id="case", waiting_mean=5.0, waiting_sd=2.0).fit(cases.table)
    tree = found.plot(color="introduction")
    assert {text.get_text() for text in tree.texts} == set(found.records.ids)
    shown = found.plot_support().images[0].get_array()
    np.testing.assert_allclose(shown.sum(axis=1), 1.0)
    assert np.sum(heights(found.plot_epicurve("ward"))) == 30
    assert found.plot_map(color="onset").get_xlabel() == "x"
    with pytest.raises(ValueError, match=r"color must be 'introduction' or a column .*got 'x1'"):
        found.plot(color="x1")
    bare = Ancestry(roots="single").fit({"id": ["a", "b", "c"], "size": [1.5, 1.6, 1.9]})
    with pytest.raises(RecordsError, match="needs a column of dates"):
        bare.plot_epicurve()
    with pytest.raises(RecordsError, match="needs a column of places"):
        bare.plot_map()

"""The places of records in a picture of a tree."""

import numpy as np
import pytest

from outtrees.datasets import random_out_tree
from outtrees.views.layout import tree_columns, tree_rows


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
    with pytest.raises(ValueError, match="got inf for record 1"):
        tree_columns(parents, depth, [3, float("inf"), 4, 5])
    with pytest.raises(ValueError, match="one entry per record"):
        tree_columns(parents, depth, [3])


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([1, 0], "following them from record 0 never reaches a root"),
        ([0], "never reaches a root"),
        ([-1, 2], "got 2 for record 1"),
        ([-1.0, 0.0], "one integer per record"),
        ([[-1, 0]], "one integer per record"),
    ],
)
def test_what_is_no_tree_is_refused(parents, message):
    with pytest.raises(ValueError, match=message):
        tree_rows(parents)

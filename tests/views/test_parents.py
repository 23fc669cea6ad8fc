import matplotlib as mpl
import numpy as np
import pytest

from outtrees import OutTreeDistribution
from outtrees.views.parents import parent_table, plot_parents

mpl.use("Agg")


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
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert plot_parents(pair(), [[0, 0], [1, 1]], ["Ann", "Bob"], min_support=0.3, ax=ax) is ax
    assert [text.get_text() for text in ax.texts] == ["", "Ann", "Bob"]
    plt.close()
    with pytest.raises(ValueError, match="got 1 for 2 records"):
        plot_parents(pair(), [[0, 0], [1, 1]], np.array(["Ann"]))
    with pytest.raises(ValueError, match=r"shape \(2, 2\); got \(3, 2\)"):
        plot_parents(pair(), np.zeros((3, 2)))

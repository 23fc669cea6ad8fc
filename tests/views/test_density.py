"""Figures of fitted densities and of fits."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.integrate import fixed_quad

from outtrees import OutTreeDensity
from outtrees.inference.likelihood import leaf_log_density
from outtrees.views.density import (
    plot_density,
    plot_density_3d,
    plot_log_likelihoods,
    plot_trace,
    wall_densities,
)


def test_pictures():
    model = OutTreeDensity("gaussian").fit(np.random.default_rng(0).normal(size=(30, 2)))
    axes = Figure().subplots(2)
    assert plot_density(model, axes[0]) is axes[0]
    assert plot_trace(model, axes[1]) is axes[1]
    line = axes[1].lines[0].get_ydata()
    np.testing.assert_allclose(line, model.log_likelihoods_)


def test_trace():
    ax = Figure().subplots()
    assert plot_log_likelihoods([-3.0, -2.0], ax=ax) is ax
    assert ax.lines[0].get_ydata().tolist() == [-3.0, -2.0]
    with pytest.raises(ValueError, match="none NaN"):
        plot_log_likelihoods([np.nan])


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

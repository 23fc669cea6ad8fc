"""A fitted density of three columns in space: the tree, and contours on the walls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outtrees.inference.likelihood import leaf_log_density
from outtrees.views.trees import new_axes


def plot_density_3d(
    estimator: Any,
    ax: Any = None,
    *,
    n_grid: int = 40,
    margin: float = 0.25,
    levels: int = 7,
    show_tree: bool = True,
) -> Any:
    """Draw the records and the consensus tree of three columns in space; return the axes.

    On each of the three walls stand the contours of the density of the two columns it shows, that
    is of the density summed over the third column on a grid of `n_grid`³ points: O(n_grid³ T).

    Parameters
    ----------
    estimator : fitted OutTreeDensity with three columns
    ax : matplotlib Axes3D, optional
        By default those of a new figure.
    n_grid : int
        Points along each axis.
    margin : float
        Space around the records, as a fraction of their range.
    levels : int
        The number of contours on each wall.
    show_tree : bool
        Whether the edges of the consensus tree are drawn; it costs O(T³).

    Examples
    --------
    >>> from outtrees import OutTreeDensity
    >>> X = np.random.default_rng(0).normal(size=(30, 3))
    >>> ax = plot_density_3d(OutTreeDensity("parzen").fit(X), n_grid=8)
    >>> ax.get_title()
    'OutTreeDensity of 30 records'
    """
    X = estimator.X_
    T, D = X.shape
    if D != 3:
        raise ValueError(
            f"plot_density_3d draws 3 columns, but the estimator knows {D}; "
            "plot_density draws 1 or 2"
        )
    if ax is None:
        ax = new_axes(subplot_kw={"projection": "3d"})
    elif not hasattr(ax, "get_zlim"):
        raise ValueError("ax must be three-dimensional: add_subplot(projection='3d')")
    low, high = X.min(axis=0), X.max(axis=0)
    space = margin * np.where(high > low, high - low, 1.0)
    grids = [np.linspace(a, b, n_grid) for a, b in zip(low - space, high + space, strict=True)]
    walls = wall_densities(estimator, grids)
    for axis, zdir in enumerate("xyz"):
        across, up = (d for d in range(3) if d != axis)
        planes: list[Any] = [None, None, None]
        planes[across], planes[up] = np.meshgrid(grids[across], grids[up], indexing="ij")
        planes[axis] = walls[axis]
        # The walls behind the records, as matplotlib looks at them: low x, high y, low z.
        offset = grids[axis][-1 if zdir == "y" else 0]
        ax.contour(
            *planes,
            zdir=zdir,
            offset=offset,
            levels=levels,
            colors="C0",
            linewidths=0.6,
            alpha=0.7,
        )
    if show_tree:
        from mpl_toolkits.mplot3d.art3d import Line3DCollection

        parents = estimator.tree_.consensus().parents
        children = np.flatnonzero(parents >= 0)
        segments = np.stack([X[parents[children]], X[children]], axis=1)
        ax.add_collection3d(Line3DCollection(list(segments), colors="C1", linewidths=0.8))
    ax.scatter(*X.T, s=6, color="black", depthshade=False)
    names = getattr(estimator, "feature_names_in_", [f"column {d}" for d in range(D)])
    for name, grid, axis_name in zip(names, grids, "xyz", strict=True):
        getattr(ax, f"set_{axis_name}lim")(grid[0], grid[-1])
        getattr(ax, f"set_{axis_name}label")(str(name))
    ax.set_title(f"{type(estimator).__name__} of {T} records")
    return ax


def wall_densities(estimator: Any, grids: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Return the density with each column in turn summed out, on the grid of the other two.

    Entry d has the shape of the other two grids, in their order; the sum over grid d is the
    trapezoidal rule.
    """
    points = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1)
    flat = leaf_log_density(estimator.mutation_, estimator.X_, points.reshape(-1, len(grids)))
    density = np.exp(flat).reshape(points.shape[:-1])
    return [np.trapezoid(density, grid, axis=d) for d, grid in enumerate(grids)]

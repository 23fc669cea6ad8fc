"""A fitted density as matplotlib figures: contours with the consensus tree, and its fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees.inference.likelihood import leaf_log_density
from outtrees.views.trees import current_axes, draws


@draws
def plot_density(
    estimator: Any,
    ax: Any = None,
    *,
    n_grid: int = 80,
    margin: float = 0.15,
    levels: int = 10,
    show_tree: bool = True,
) -> Any:
    """Draw the density of one or two columns with the training records; return the axes.

    Two columns: contours of the density (`score_samples`), the records, and the edges of the
    consensus tree, from parent to child. One column: the density as a curve with the records
    below it.

    Parameters
    ----------
    estimator : fitted OutTreeDensity with one or two columns
    {ax}
    n_grid : int
        Points along each axis.
    margin : float
        Space around the records, as a fraction of their range.
    levels : int
        The number of contours, evenly spaced in density.
    show_tree : bool
        Whether the edges of the consensus tree are drawn; it costs O(T³).

    {axes}

    Raises
    ------
    ValueError
        If there are more than two columns.

    Examples
    --------
    >>> from outtrees import OutTreeDensity
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> ax = plot_density(OutTreeDensity().fit(X))
    >>> ax.get_title()
    'OutTreeDensity of 30 records'
    """
    X = estimator.X_
    T, D = X.shape
    if D > 2:
        raise ValueError(
            f"plot_density draws 1 or 2 columns, but the estimator knows {D}; fit one to the "
            "columns that you want to see"
        )
    ax = current_axes(ax=ax)
    names = _column_names(estimator)
    grids = _grids(X, n_grid, margin)
    if D == 1:
        ax.plot(
            grids[0],
            np.exp(leaf_log_density(estimator.mutation_, X, grids[0][:, None])),
            color="C0",
        )
        ax.plot(X[:, 0], np.zeros(T), "|", color="black", markersize=12)
        ax.set_ylabel("density")
    else:
        points = np.column_stack([grid.ravel() for grid in np.meshgrid(*grids)])
        density = np.exp(leaf_log_density(estimator.mutation_, X, points)).reshape(n_grid, n_grid)
        ax.contour(*grids, density, levels=levels, cmap="Blues", zorder=1)
        if show_tree:
            from matplotlib.collections import LineCollection

            segments = _edges(X, estimator.tree_.consensus().parents)
            ax.add_collection(LineCollection(segments, colors="C1", linewidths=0.7, zorder=2))
        ax.plot(X[:, 0], X[:, 1], ".", color="black", markersize=4, zorder=3)
        ax.set_ylabel(names[1])
    ax.set_xlabel(names[0])
    ax.set_title(f"{type(estimator).__name__} of {T} records")
    return ax


@draws
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
    is of the density summed over the third column on a grid of n_grid³ points: O(n_grid³ T).

    Parameters
    ----------
    estimator : fitted OutTreeDensity with three columns
    {ax}
    n_grid : int
        Points along each axis.
    margin : float
        Space around the records, as a fraction of their range.
    levels : int
        The number of contours on each wall.
    show_tree : bool
        Whether the edges of the consensus tree are drawn; it costs O(T³).

    {axes}

    Raises
    ------
    ValueError
        If there are not three columns, or the axes are flat.

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
        ax = current_axes(projection="3d")
    elif not hasattr(ax, "get_zlim"):
        raise ValueError("ax must be three-dimensional: add_subplot(projection='3d')")
    grids = _grids(X, n_grid, margin)
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

        segments = _edges(X, estimator.tree_.consensus().parents)
        ax.add_collection3d(Line3DCollection(segments, colors="C1", linewidths=0.8))
    ax.scatter(*X.T, s=6, color="black", depthshade=False)
    for name, grid, axis_name in zip(_column_names(estimator), grids, "xyz", strict=True):
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
    return [np.asarray(np.trapezoid(density, grid, axis=d)) for d, grid in enumerate(grids)]


@draws
def plot_log_likelihoods(values: ArrayLike, *, ax: Any = None) -> Any:
    """Draw the log-likelihood of each iteration of a fit; return the axes.

    Parameters
    ----------
    values : array-like of float
        The log-likelihood after each iteration.
    {ax}

    {axes}

    Raises
    ------
    ValueError
        If the values are not one number for each iteration.

    Examples
    --------
    >>> plot_log_likelihoods([-30.0, -21.0, -20.5]).get_xlabel()
    'iteration'
    """
    trace = np.asarray(values, dtype=np.float64)
    if trace.ndim != 1 or np.isnan(trace).any():
        raise ValueError(
            f"log-likelihoods must be one number per iteration, none NaN; got {trace!r}"
        )
    ax = current_axes(ax=ax)
    ax.plot(np.arange(len(trace)), trace, ".-", color="C0")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("iteration")
    ax.set_ylabel("log-likelihood")
    return ax


@draws
def plot_trace(estimator: Any, ax: Any = None) -> Any:
    """Draw the penalised log-likelihood against the steps of the fit; return the axes.

    Parameters
    ----------
    estimator : OutTreeDensity
        A fitted one.
    {ax}

    {axes}

    Examples
    --------
    >>> from outtrees import OutTreeDensity
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> plot_trace(OutTreeDensity("gaussian").fit(X)).get_ylabel()
    'log-likelihood + log prior'
    """
    ax = plot_log_likelihoods(estimator.log_likelihoods_, ax=ax)
    ended = "converged" if estimator.converged_ else "NOT converged"
    ax.set_title(f"{estimator.n_iter_} steps, {estimator.n_evaluations_} evaluations, {ended}")
    ax.set_xlabel("step")
    ax.set_ylabel("log-likelihood + log prior")
    return ax


def _column_names(estimator: Any) -> list[str]:
    default = [f"column {d}" for d in range(estimator.X_.shape[1])]
    return [str(name) for name in getattr(estimator, "feature_names_in_", default)]


def _grids(X: NDArray[np.float64], n_grid: int, margin: float) -> list[NDArray[np.float64]]:
    """Return points along each column, with space around the records."""
    low, high = X.min(axis=0), X.max(axis=0)
    space = margin * np.where(high > low, high - low, 1.0)
    return [np.linspace(a, b, n_grid) for a, b in zip(low - space, high + space, strict=True)]


def _edges(X: NDArray[np.float64], parents: NDArray[np.intp]) -> list[NDArray[np.float64]]:
    """Return the two ends of each edge, parent first."""
    children = np.flatnonzero(parents >= 0)
    return list(np.stack([X[parents[children]], X[children]], axis=1))

"""Pictures of a fitted density: contours with the likeliest tree, and the course of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from outtrees.inference.likelihood import leaf_log_density


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
    ax : matplotlib Axes, optional
        By default those of a new figure.
    n_grid : int
        Points along each axis.
    margin : float
        Space around the records, as a fraction of their range.
    levels : int
        The number of contours, evenly spaced in density.
    show_tree : bool
        Whether the edges of the consensus tree are drawn; it costs O(T³).

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
        raise ValueError(f"plot_density draws 1 or 2 columns, but the estimator knows {D}")
    ax = _axes(ax)
    names = getattr(estimator, "feature_names_in_", [f"column {d}" for d in range(D)])
    low, high = X.min(axis=0), X.max(axis=0)
    space = margin * np.where(high > low, high - low, 1.0)
    grids = [np.linspace(a, b, n_grid) for a, b in zip(low - space, high + space, strict=True)]
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
            _draw_edges(ax, X, estimator.tree_.consensus().parents)
        ax.plot(X[:, 0], X[:, 1], ".", color="black", markersize=4, zorder=3)
        ax.set_ylabel(str(names[1]))
    ax.set_xlabel(str(names[0]))
    ax.set_title(f"{type(estimator).__name__} of {T} records")
    return ax


def plot_trace(estimator: Any, ax: Any = None) -> Any:
    """Draw the penalised log-likelihood against the steps of the fit; return the axes.

    Examples
    --------
    >>> from outtrees import OutTreeDensity
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> plot_trace(OutTreeDensity().fit(X)).get_ylabel()
    'log-likelihood + log prior'
    """
    ax = _axes(ax)
    values = estimator.log_likelihoods_
    ax.plot(np.arange(len(values)), values, ".-", color="C0")
    ended = "converged" if estimator.converged_ else "NOT converged"
    ax.set_title(f"{estimator.n_iter_} steps, {estimator.n_evaluations_} evaluations, {ended}")
    ax.set_xlabel("step")
    ax.set_ylabel("log-likelihood + log prior")
    return ax


def _draw_edges(ax: Any, X: Any, parents: Any) -> None:
    from matplotlib.collections import LineCollection

    children = np.flatnonzero(parents >= 0)
    segments = np.stack([X[parents[children]], X[children]], axis=1)
    ax.add_collection(LineCollection(list(segments), colors="C1", linewidths=0.7, zorder=2))


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    # Not pyplot: it would choose a backend, and keep the figure open.
    return Figure().subplots()

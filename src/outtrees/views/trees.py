"""The tree as a matplotlib figure: the wider a line, the surer the parent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees.views.layout import check_parents, tree_columns, tree_rows

_NAMED = 80  # more names than this would only overlap


def plot_tree(
    parents: ArrayLike,  # (T,)
    support: ArrayLike | None = None,  # (T,)
    names: Sequence[str] | None = None,
    *,
    dates: ArrayLike | None = None,  # (T,)
    calendar: bool = False,
    colors: Any = None,
    ax: Any = None,
) -> Any:
    """Draw a tree or forest from left to right, one row a record; return the axes.

    A line goes from each parent up or down and then right to the child; no two lines cross as
    long as no child stands left of its parent. A stub and a ring mark a record without a parent.

    Parameters
    ----------
    parents : (T,) int
        The parent of each record, −1 for a root.
    support : (T,) float, optional
        The support of each record's parent (or of its being a root), which gives its line the
        width and the darkness; by default 1.
    names : T texts, optional
        Written beside the records, up to 80 of them.
    dates : (T,) float, optional
        Days, NaN where unknown; by default records are placed by their depth in the tree.
    calendar : bool
        Whether the dates are days since 1970-01-01, to be shown as dates.
    colors : optional
        The colours of the records, in any form that `Axes.scatter` understands as `c`.
    ax : matplotlib Axes, optional
        By default those of a new figure.

    Examples
    --------
    >>> ax = plot_tree([-1, 0, 0, 1], [0.9, 0.8, 0.3, 1.0], ["Ann", "Bob", "Cem", "Dan"])
    >>> [text.get_text() for text in ax.texts]
    ['Ann', 'Bob', 'Cem', 'Dan']
    """
    from matplotlib.collections import LineCollection

    parent = check_parents(parents)
    T = len(parent)
    share = _shares(support, T)
    if names is not None and len(names) != T:
        raise ValueError(f"names must hold one name per record; got {len(names)} for {T} records")
    rows, depth = tree_rows(parent)
    x = tree_columns(parent, depth, dates)
    if dates is not None and calendar:
        x = x + _epoch()
    ax = new_axes() if ax is None else ax

    stub = 0.04 * (np.ptp(x) or 1.0)
    from_x = np.where(parent >= 0, x[parent], x - stub)
    from_y = np.where(parent >= 0, rows[parent], rows)
    lines = np.stack(
        [
            np.column_stack([from_x, from_y]),
            np.column_stack([from_x, rows]),
            np.column_stack([x, rows]),
        ],
        axis=1,
    )
    order = np.argsort(share, kind="stable")  # the surest on top
    ax.add_collection(
        LineCollection(
            list(lines[order]),
            linewidths=0.4 + 2.6 * share[order],
            colors=[str(grey) for grey in 0.8 - 0.6 * share[order]],
            capstyle="round",
            zorder=1,
        )
    )
    size = float(np.clip(1500 / T, 3, 36))
    roots = parent < 0
    ax.scatter(x, rows, s=size, c="C0" if colors is None else colors, zorder=3, linewidths=0)
    ax.scatter(x[roots], rows[roots], s=3 * size, facecolors="none", edgecolors="0.2", zorder=2)
    named = names is not None and T <= _NAMED
    for name, a, b in zip(names if named else (), x, rows, strict=False):
        ax.annotate(
            str(name),
            (a, b),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            parse_math=False,  # a dollar sign would start a formula
        )
    ax.margins(0.06, 0.05)
    ax.autoscale_view()
    if named:
        left, right = ax.get_xlim()
        longest = max(map(len, map(str, names)), default=0)
        ax.set_xlim(left, right + (right - left) * min(0.4, 0.015 * longest))
    if not ax.yaxis_inverted():
        ax.invert_yaxis()
    _finish(ax, dated=dates is not None, calendar=calendar)
    return ax


def new_axes(**options: Any) -> Any:
    """Return the axes of a new figure that no window and no list of open figures knows."""
    from matplotlib.figure import Figure

    # Not pyplot: it would choose a backend, and keep the figure open.
    return Figure(layout="constrained").subplots(**options)


def _finish(ax: Any, *, dated: bool, calendar: bool) -> None:
    ax.set_yticks([])
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)
    if dated and calendar:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator()
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    else:
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(integer=not dated))
        ax.set_xlabel("time" if dated else "generation")


def _epoch() -> float:
    """Return the number that matplotlib gives 1970-01-01, whatever its settings."""
    from matplotlib.dates import date2num

    return float(date2num(np.datetime64("1970-01-01")))


def _shares(support: ArrayLike | None, T: int) -> NDArray[np.float64]:
    share = np.ones(T) if support is None else np.asarray(support, dtype=np.float64)
    if share.shape != (T,):
        raise ValueError(f"support must have one entry per record; got {share.shape} for {T}")
    if not ((share >= -1e-6) & (share <= 1 + 1e-6)).all():  # room for the rounding of a sum
        raise ValueError("support must lie between 0 and 1 and not be NaN")
    return np.clip(share, 0.0, 1.0)

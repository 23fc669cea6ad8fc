"""Records in time and in space: an epidemic curve, and a map of who came from whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees.views.layout import check_parents
from outtrees.views.trees import (
    calendar_axis,
    category_colors,
    current_axes,
    draw_arrow,
    draw_records,
    draws,
    epoch,
    explain,
    legend_beside,
    shares,
    texts_of,
    write_name,
)

_STEPS = (1 / 24, 1 / 4, 1, 7, 14, 30, 91, 365)  # days, of which a bar stands for one
_BARS = 45  # at most
_NAMED_ON_MAP = 40
_BEND = 0.1  # of arrows


@draws
def plot_epicurve(
    dates: ArrayLike,  # (T,)
    groups: Sequence[str] | None = None,
    *,
    group_label: str = "",
    calendar: bool = False,
    step: float | None = None,
    ax: Any = None,
) -> Any:
    """Draw the number of records by date as bars, stacked by group; return the axes.

    Parameters
    ----------
    dates : (T,) float
        Days, NaN where unknown; records without a date are left out, and counted in the title.
    groups : T texts, optional
        The group of each record, "" where unknown; the nine commonest have a colour of their own.
    group_label : str
        What the groups are, for the legend.
    calendar : bool
        Whether the dates are days since 1970-01-01, to be shown as dates.
    step : float, optional
        The width of a bar; by default an hour, a day, a week, …, whichever gives at most 45 bars.
    {ax}

    {axes}

    Raises
    ------
    ValueError
        If no date is known, groups do not fit the dates, or the step is not positive.

    Examples
    --------
    >>> ax = plot_epicurve([0.0, 0.0, 1.0, 3.0], ["N", "S", "N", "N"])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['N', 'S']
    """
    days = np.asarray(dates, dtype=np.float64)
    known: NDArray[np.bool_] = np.asarray(np.isfinite(days))
    if days.ndim != 1 or not known.any():
        raise ValueError(f"dates must be one number per record, one known; got {dates!r}")
    texts = texts_of(groups, len(days)) or ["records"] * len(days)
    if step is not None and not step > 0:
        raise ValueError(f"step must be positive; got {step!r}")
    first, last = days[known].min(), days[known].max()
    width = step or _step(float(last - first), calendar)
    low = np.floor(first / width) * width
    edges = low + width * np.arange(int((last - low) // width) + 2)
    shift = epoch() if calendar else 0.0
    palette, names = category_colors(
        [text for text, is_known in zip(texts, known, strict=True) if is_known]
    )
    bottom = np.zeros(len(edges) - 1)
    ax = current_axes(ax=ax, height=3.2)
    for name, color in names.items():
        chosen = np.array([shade == color for shade in palette])
        counts = np.histogram(days[known][chosen], edges)[0]
        ax.bar(
            edges[:-1] + shift,
            counts,
            width,
            bottom,
            align="edge",
            color=color,
            edgecolor="white",
            linewidth=0.4,
            label=name,
        )
        bottom += counts
    from matplotlib.ticker import MaxNLocator

    if calendar:
        calendar_axis(ax)
    else:
        ax.set_xlabel("time")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_ylabel(
        f"records a {_STEP_NAMES[width]}" if width in _STEP_NAMES and calendar else "records"
    )
    for side in ("right", "top"):
        ax.spines[side].set_visible(False)
    if groups is not None:
        legend_beside(ax, group_label or None)
    if not known.all():
        ax.set_title(f"{int((~known).sum())} records without a date are left out", fontsize=9)
    return ax


_STEP_NAMES: dict[float, str] = {1: "day", 7: "week", 14: "fortnight"}


def _step(span: float, calendar: bool) -> float:
    """Return the width of bars."""
    if calendar:
        return next((s for s in _STEPS if span / s <= _BARS), 365.0 * np.ceil(span / 365 / _BARS))
    rough = (span or 1.0) / 25
    power = 10.0 ** np.floor(np.log10(rough))
    return float(next(m * power for m in (1, 2, 5, 10) if m * power >= rough))


@draws
def plot_map(
    positions: ArrayLike,  # (T, 2)
    parents: ArrayLike,  # (T,)
    support: ArrayLike | None = None,  # (T,)
    names: Sequence[str] | None = None,
    *,
    colors: Any = None,
    color_label: str = "",
    labels: tuple[str, str] = ("x", "y"),
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """Draw records where they were, and an arrow from each parent to its child; return the axes.

    Parameters
    ----------
    positions : (T, 2) float
        NaN where unknown; such records and their arrows are left out, and counted in the title.
    parents : (T,) int
        The parent of each record, −1 for a root, which is ringed.
    support : (T,) float, optional
        The support of each record's parent: the width and darkness of its arrow.
    names : T texts, optional
        Written beside the records, up to 40 of them, where there is room.
    colors, color_label : optional
        As in `plot_tree`.
    labels : two texts
        Of the axes.
    legend : bool
        Whether to explain the arrows, if supports differ, and the colours.
    {ax}

    {axes}

    Raises
    ------
    ValueError
        If shapes do not fit, or no position is known.

    Examples
    --------
    >>> ax = plot_map([[0, 0], [1, 1], [2, 0]], [-1, 0, 1], [0.9, 0.8, 0.4], ["a", "b", "c"])
    >>> [text.get_text() for text in ax.texts if text.get_text()]
    ['a', 'b', 'c']
    """
    parent = check_parents(parents)
    T = len(parent)
    xy = np.asarray(positions, dtype=np.float64)
    if xy.shape != (T, 2):
        raise ValueError(f"positions must have shape ({T}, 2); got {xy.shape}")
    known: NDArray[np.bool_] = np.asarray(np.isfinite(xy).all(axis=1))
    if not known.any():
        raise ValueError("positions must be known for one record at least; all are NaN")
    share, texts = shares(support, T), texts_of(names, T)
    ax = current_axes(ax=ax)
    drawn = np.argsort(share, kind="stable")
    drawn = drawn[(parent[drawn] >= 0) & known[drawn] & known[parent[drawn]]]
    for child in drawn:
        weight = float(share[child])
        head = "-|>,head_width=0.15,head_length=0.35"
        color = str(0.8 - 0.6 * weight)
        draw_arrow(ax, xy[parent[child]], xy[child], weight, _BEND, arrowstyle=head, color=color)
    size = float(np.clip(1500 / T, 6, 36))
    shown = colors
    if colors is not None and len(np.shape(colors)) == 1 and len(colors) == T:
        shown = np.asarray(colors)[known]
    handles = draw_records(
        ax, xy[known, 0], xy[known, 1], shown, color_label, s=size, zorder=3, linewidths=0
    )
    roots = known & (parent < 0)
    ax.scatter(*xy[roots].T, s=3 * size, facecolors="none", edgecolors="0.2", zorder=2)
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.08)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    if legend:
        explain(ax, handles, supports=bool(np.ptp(share) > 0.05))
    if texts and T <= _NAMED_ON_MAP:
        children = np.bincount(parent[parent >= 0], minlength=T)
        order = np.lexsort([-children, parent >= 0])  # roots, then those with most children
        order = order[known[order]]
        arrows = xy[parent[drawn]], xy[drawn]
        _write_names(ax, [texts[i] for i in order], xy[order], arrows)
    if not known.all():
        ax.set_title(f"{int((~known).sum())} records without a place are left out", fontsize=9)
    return ax


def _write_names(ax: Any, texts: Sequence[str], xy: Any, arrows: Any) -> None:
    """Write names beside dots, as far from arrows as can be; leave out those without room.

    `xy` are the places (n, 2), the most important first, and `arrows` starts and ends (m, 2).
    """
    from matplotlib.patheffects import withStroke

    ax.figure.canvas.figure.draw_without_rendering()  # so that pixels are those of the picture
    dots = ax.transData.transform(xy)
    lines = _along(*(ax.transData.transform(ends) for ends in arrows))
    taken, point = np.empty((0, 4)), ax.figure.dpi / 72
    for text, place, dot in zip(texts, xy, dots, strict=True):
        name = write_name(ax, text, place, (0, 0), fontsize=7)
        name.set_path_effects([withStroke(linewidth=1.5, foreground="white")])
        size = np.array(name.get_window_extent().size)
        low = dot + _SIDES * (size + 8 * point) / 2 - size / 2  # corners of the box on each side
        boxes = np.column_stack([low, low + size])
        free = ~(_overlap(boxes, taken).any(axis=1) | _inside(boxes, dots, point).any(axis=1))
        if not free.any():
            name.remove()
            continue
        crossed = np.where(free, _inside(boxes, lines, 0).sum(axis=1), np.inf)
        best = int(np.argmin(crossed))
        name.xyann = tuple((boxes[best, :2] - dot) / point)
        taken = np.vstack([taken, boxes[best]])


# Where a name may stand about its dot: right, left, above, below, and between.
_SIDES = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [1, -1], [-1, 1], [-1, -1]])


def _along(start: Any, end: Any) -> Any:
    """Return points on the curves that `draw_arrow` draws, in pixels (n, 2)."""
    way = end - start
    middle = (start + end) / 2 + _BEND * np.column_stack([way[:, 1], -way[:, 0]])
    t = np.linspace(0, 1, 25)[:, None, None]
    return ((1 - t) ** 2 * start + 2 * t * (1 - t) * middle + t**2 * end).reshape(-1, 2)


def _inside(boxes: Any, points: Any, margin: float) -> Any:
    """Return which points lie in which box, or nearer than the margin (boxes, points)."""
    low, high = boxes[:, None, :2] - margin, boxes[:, None, 2:] + margin
    return ((points > low) & (points < high)).all(axis=2)


def _overlap(boxes: Any, others: Any) -> Any:
    """Return which boxes share an area with which others (boxes, others)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    return (low < np.minimum(boxes[:, None, 2:], others[None, :, 2:])).all(axis=2)

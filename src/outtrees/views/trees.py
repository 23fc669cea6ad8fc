"""Who descends from whom, as matplotlib figures and a table of names and supports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees._common.docs import shared_docs
from outtrees.trees import OutTreeDistribution
from outtrees.views.layout import check_parents, tree_columns, tree_rows

# What every plot takes and returns.
draws = shared_docs(
    ax="ax : matplotlib Axes, optional\n"
    "    By default the current axes of pyplot if they are empty, else those of a new figure.",
    axes="Returns\n-------\nmatplotlib Axes\n    Those drawn on.",
)

# More names than these would only overlap.
_NAMED, _NAMED_IN_MATRIX = 80, 60
_SMALLEST = 4.0  # points of a letter that can still be read
_PALETTE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#882255"),
    "#000000",
)


@draws
def plot_tree(
    parents: ArrayLike,  # (T,)
    support: ArrayLike | None = None,  # (T,)
    names: Sequence[str] | None = None,
    *,
    dates: ArrayLike | None = None,  # (T,)
    calendar: bool = False,
    colors: Any = None,
    color_label: str = "",
    legend: bool = True,
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
        The colours of the records: a text for each, "" where unknown, which gets a colour and a
        place in the legend; numbers, which get a colour bar; or any form that `Axes.scatter`
        understands as `c`.
    color_label : str
        What the colours stand for, in the legend or beside the colour bar.
    legend : bool
        Whether to explain the lines, if supports differ, and the colours.
    {ax}

    {axes}

    Examples
    --------
    >>> ax = plot_tree([-1, 0, 0, 1], [0.9, 0.8, 0.3, 1.0], ["Ann", "Bob", "Cem", "Dan"])
    >>> [text.get_text() for text in ax.texts]
    ['Ann', 'Bob', 'Cem', 'Dan']
    """
    from matplotlib.collections import LineCollection

    parent = check_parents(parents)
    T = len(parent)
    share = shares(support, T)
    texts = texts_of(names, T)
    rows, depth = tree_rows(parent)
    x = tree_columns(parent, depth, dates)
    if dates is not None and calendar:
        x = x + epoch()
    n_rows = int(rows.max(initial=0)) + 1
    ax = current_axes(height=0.9 + 0.17 * n_rows if texts and T <= _NAMED else None, ax=ax)

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
    handles = draw_records(ax, x, rows, colors, color_label, s=size, zorder=3, linewidths=0)
    ax.scatter(x[roots], rows[roots], s=3 * size, facecolors="none", edgecolors="0.2", zorder=2)
    letters = letter_size(ax, n_rows)
    named = bool(texts) and T <= _NAMED and letters > 0
    for text, *place in zip(texts if named else (), x, rows, strict=False):
        write_name(ax, text, place, (6, 0), va="center", fontsize=letters)
    ax.margins(0.06, 0.05)
    ax.autoscale_view()
    if named:
        left, right = ax.get_xlim()
        longest = max(map(len, texts))
        ax.set_xlim(left, right + (right - left) * min(0.4, 0.015 * longest))
    if not ax.yaxis_inverted():
        ax.invert_yaxis()
    _finish(ax, dated=dates is not None, calendar=calendar)
    if legend:
        explain(ax, handles, supports=bool(np.ptp(share) > 0.05))
    return ax


@draws
def plot_support(
    edge_marginals: ArrayLike,  # (T, T) [child, parent]
    root_marginals: ArrayLike | None = None,  # (T,)
    names: Sequence[str] | None = None,
    *,
    parents: ArrayLike | None = None,  # (T,)
    ax: Any = None,
) -> Any:
    """Draw the support of every parent (across) of every child (down); return the axes.

    Parameters
    ----------
    edge_marginals : (T, T) float
        Supports, [child, parent].
    root_marginals : (T,) float, optional
        The probability of each record of having no parent: one more column, at the left.
    names : T texts, optional
        Written beside rows and columns, up to 60 of them.
    parents : (T,) int, optional
        A tree by which the records are ordered, so that families stand together.
    {ax}

    {axes}

    Raises
    ------
    ValueError
        If shapes do not fit, or a support is NaN.

    Examples
    --------
    >>> ax = plot_support([[0.0, 0.25], [0.75, 0.0]], [0.75, 0.25], ["Ann", "Bob"])
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['(root)', 'Ann', 'Bob']
    """
    support = np.asarray(edge_marginals, dtype=np.float64)
    T = len(support)
    if support.shape != (T, T):
        raise ValueError(f"edge_marginals must be square, [child, parent]; got {support.shape}")
    texts = texts_of(names, T)
    order = np.arange(T)
    if parents is not None:
        order = np.argsort(tree_rows(check_parents(parents, T))[0])
    shown = support[np.ix_(order, order)]
    first = [] if root_marginals is None else ["(root)"]
    if root_marginals is not None:
        roots = np.asarray(root_marginals, dtype=np.float64)
        if roots.shape != (T,):
            raise ValueError(f"root_marginals must have one entry per record; got {roots.shape}")
        shown = np.column_stack([roots[order], shown])
    if np.isnan(shown).any():
        raise ValueError("supports must be numbers between 0 and 1, but some are NaN")
    named = names is not None and T <= _NAMED_IN_MATRIX
    side = 1.6 + 0.16 * T if named else None
    ax = current_axes(height=side, width=None if side is None else side + 1.0, ax=ax)
    picture = ax.imshow(shown, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    ax.figure.colorbar(picture, ax=ax, label="support", shrink=0.8)
    letters = letter_size(ax, T + 2)
    if named and letters:
        texts = [texts[i] for i in order]
        ax.set_yticks(range(T), texts, fontsize=letters, parse_math=False)
        ax.set_xticks(
            range(T + len(first)), [*first, *texts], fontsize=letters, rotation=90, parse_math=False
        )
    else:
        ax.set_xticks([0] if first else [], first)
        ax.set_yticks([])
    if first:
        ax.axvline(0.5, color="0.5", linewidth=0.8)
    ax.set_xlabel("parent")
    ax.set_ylabel("child")
    return ax


def parent_table(
    dist: OutTreeDistribution,
    names: Sequence[str] | None = None,
    min_support: float = 0.1,
) -> list[tuple[str, str, float]]:
    """Return (child, parent, support) of every parent with enough support, best first.

    The parent of a root is the empty string. Supports are exact, given the weights.

    Parameters
    ----------
    dist : OutTreeDistribution
        The trees.
    names : sequence of str, optional
        Of the records; by default their numbers.
    min_support : float
        Parents with less support are left out.

    Returns
    -------
    list of (str, str, float)
        Child, parent and support.

    Examples
    --------
    >>> dist = OutTreeDistribution(np.log([[1.0, 1.0], [3.0, 1.0]]))
    >>> for child, parent, support in parent_table(dist, ["Ann", "Bob"]):
    ...     print(f"{child} from {parent or '(root)'}: {support:.2f}")
    Ann from (root): 0.75
    Ann from Bob: 0.25
    Bob from Ann: 0.75
    Bob from (root): 0.25
    """
    T = dist.n_records
    labels = texts_of(names, T) or [str(i) for i in range(T)]
    support = np.column_stack([dist.edge_marginals, dist.root_marginals])
    rows = []
    for child in range(T):
        for parent in np.argsort(-support[child], kind="stable"):
            if parent != child and support[child, parent] >= min_support:
                rows.append((labels[child], [*labels, ""][parent], float(support[child, parent])))
    return rows


@draws
def plot_parents(
    dist: OutTreeDistribution,
    positions: ArrayLike,  # (T, 2)
    names: Sequence[str] | None = None,
    *,
    min_support: float = 0.02,
    ax: Any = None,
) -> Any:
    """Draw an arrow from parent to child for every likely edge, as wide and dark as its support.

    Ringed records may be roots; the ring is as dark as the probability.

    Parameters
    ----------
    dist : OutTreeDistribution
    positions : (T, 2) float
        Where each record is drawn.
    names : T texts, optional
    min_support : float
        Edges with less support are not drawn.
    {ax}

    {axes}

    Raises
    ------
    ValueError
        If positions or names do not fit the records.

    Examples
    --------
    >>> dist = OutTreeDistribution(np.log([[1.0, 1.0], [3.0, 1.0]]))
    >>> ax = plot_parents(dist, [[0.0, 0.0], [1.0, 1.0]], ["Ann", "Bob"])
    >>> [text.get_text() for text in ax.texts if text.get_text()]
    ['Ann', 'Bob']
    """
    xy = np.asarray(positions, dtype=np.float64)
    if xy.shape != (dist.n_records, 2):
        raise ValueError(f"positions must have shape ({dist.n_records}, 2); got {xy.shape}")
    labels = texts_of(names, dist.n_records)
    ax = current_axes(ax=ax)
    for child, parent in np.argwhere(dist.edge_marginals >= min_support):
        support = min(1.0, float(dist.edge_marginals[child, parent]))  # rounding, not for alpha
        style = {"arrowstyle": "-|>,head_width=0.25,head_length=0.5", "color": "tab:blue"}
        draw_arrow(ax, xy[parent], xy[child], support, 0.12, alpha=support, **style)
    ax.scatter(*xy.T, s=30, color="white", edgecolor="black", zorder=3)
    rings = np.column_stack(
        [np.tile([0.8, 0.1, 0.1], (len(xy), 1)), np.minimum(dist.root_marginals, 1.0)]
    )
    ax.scatter(*xy.T, s=110, facecolor="none", edgecolor=rings, linewidth=2, zorder=2)
    for name, place in zip(labels, xy, strict=False):
        write_name(ax, name, place, (6, 6), fontsize=9)
    ax.margins(0.12)
    return ax


def current_axes(
    *, height: float | None = None, width: float | None = None, ax: Any = None, **options: Any
) -> Any:
    """Return the axes to draw on: those given, pyplot's current ones if empty, or new ones.

    New ones are part of a new pyplot figure of this height and width in inches, so that a notebook
    shows it, `plt.show()` and `plt.savefig()` know it, and nothing is drawn over.
    """
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    if plt.get_fignums():
        now = plt.gcf()
        fits = not options or hasattr(now.gca(), "get_zlim") if now.axes else True
        if fits and (not now.axes or not now.gca().has_data()):
            return now.gca() if now.axes else now.add_subplot(**options)
    default = plt.rcParams["figure.figsize"]
    size = (width or default[0], default[1] if height is None else max(2.0, min(height, 14.0)))
    return plt.figure(figsize=size, layout="constrained").add_subplot(**options)


def letter_size(ax: Any, n_rows: int) -> float:
    """Return the size of letters that fit into one of so many rows, 0 if none can be read."""
    box = ax.get_position().height * ax.figure.get_figheight() * 72
    points = min(8.0, 0.85 * box / max(1, n_rows))
    return points if points >= _SMALLEST else 0.0


def draw_records(
    ax: Any, x: Any, y: Any, colors: Any, label: str = "", **options: Any
) -> list[Any]:
    """Draw records as dots; return the handles of a legend of their colours."""
    if colors is None:
        ax.scatter(x, y, c="C0", **options)
        return []
    values = np.asarray(colors)
    if values.shape == (len(x),) and values.dtype.kind in "if":
        dots = ax.scatter(x, y, c=values, cmap="viridis", **options)
        ax.figure.colorbar(dots, ax=ax, shrink=0.6, label=label)
        return []
    if values.shape != (len(x),) or not all(isinstance(v, str) for v in values.tolist()):
        ax.scatter(x, y, c=colors, **options)
        return []
    from matplotlib.colors import is_color_like

    texts = values.tolist()
    if all(is_color_like(text) for text in texts):
        ax.scatter(x, y, c=texts, **options)
        return []
    palette, names = category_colors(texts)
    ax.scatter(x, y, c=palette, **options)
    from matplotlib.lines import Line2D

    title = [Line2D([], [], linestyle="", label=label)] * bool(label)
    return title + [
        Line2D([], [], marker="o", linestyle="", color=color, markersize=5, label=name)
        for name, color in names.items()
    ]


def category_colors(texts: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a colour for each text, and that of each of its up to nine commonest values.

    Colours that people with colour blindness can tell apart (Okabe and Ito 2008); the rarer values
    share one grey, unknown ones a lighter one.

    Examples
    --------
    >>> category_colors(["b", "a", "b", ""])[1]
    {'a': '#0072B2', 'b': '#D55E00', 'unknown': '#dddddd'}
    """
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    unknown = counts.pop("", 0)
    common = sorted(sorted(counts, key=lambda text: (-counts[text], text))[: len(_PALETTE)])
    names = dict(zip(common, _PALETTE, strict=False))
    if len(counts) > len(common):
        names["other"] = "#999999"
    known = dict(names)
    if unknown:
        names["unknown"] = "#dddddd"
    return ["#dddddd" if not text else known.get(text, "#999999") for text in texts], names


def explain(ax: Any, handles: Sequence[Any], *, supports: bool) -> None:
    """Put a legend of colours, and of the width and darkness of lines, beside the axes."""
    from matplotlib.lines import Line2D

    lines = [
        Line2D(
            [], [], color=str(0.8 - 0.6 * share), linewidth=0.4 + 2.6 * share, label=f"{share:.0%}"
        )
        for share in (1.0, 0.5, 0.1)
    ]
    shown = [*handles]
    if supports:
        shown += [Line2D([], [], linestyle="", label="support"), *lines] if handles else lines
    if shown:
        title = "support" if supports and not handles else None
        legend_beside(ax, title, handles=shown)


def legend_beside(ax: Any, title: str | None, **options: Any) -> None:
    """Put a legend at the right of the axes, where it covers nothing."""
    options |= {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False}
    ax.legend(title=title, fontsize=8, title_fontsize=8, **options)


def draw_arrow(ax: Any, start: Any, end: Any, weight: float, bend: float, **options: Any) -> None:
    """Draw an arrow as wide as its weight; two between the same records bend apart."""
    gap = {"shrinkA": 40 * bend - 0.5, "shrinkB": 40 * bend - 0.5}
    arrow = {"linewidth": 0.4 + 2.0 * weight, "connectionstyle": f"arc3,rad={bend}", **gap}
    ax.annotate("", xy=end, xytext=start, arrowprops=arrow | options, zorder=1)


def write_name(ax: Any, text: str, place: Any, offset: tuple[float, float], **options: Any) -> Any:
    """Write a name beside a record, and return it; a dollar sign starts no formula."""
    options |= {"textcoords": "offset points", "parse_math": False}
    return ax.annotate(text, place, xytext=offset, **options)


def _finish(ax: Any, *, dated: bool, calendar: bool) -> None:
    ax.set_yticks([])
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)
    if dated and calendar:
        calendar_axis(ax)
    else:
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(integer=not dated))
        ax.set_xlabel("time" if dated else "generation")


def calendar_axis(ax: Any) -> None:
    """Show calendar dates across."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    # Not at multiples of the interval: those begin anew each month, and ticks would collide.
    locator = AutoDateLocator(maxticks=7, interval_multiples=False)
    ax.xaxis.set_major_locator(locator)
    # Days with their month: the first tick may lie in the month before.
    formatter = ConciseDateFormatter(locator)
    formatter.formats[2] = formatter.zero_formats[2] = "%d %b"
    formatter.offset_formats[2] = "%Y"
    ax.xaxis.set_major_formatter(formatter)


def epoch() -> float:
    """Return the number that matplotlib gives 1970-01-01, whatever its settings."""
    from matplotlib.dates import date2num

    return float(date2num(np.datetime64("1970-01-01")))


def shares(support: ArrayLike | None, T: int) -> NDArray[np.float64]:
    """Return the supports, checked; 1 for all if none are given."""
    share = np.ones(T) if support is None else np.asarray(support, dtype=np.float64)
    if share.shape != (T,):
        raise ValueError(f"support must have one entry per record; got {share.shape} for {T}")
    if not ((share >= -1e-6) & (share <= 1 + 1e-6)).all():  # room for the rounding of a sum
        raise ValueError("support must lie between 0 and 1 and not be NaN")
    return np.clip(share, 0.0, 1.0)


def texts_of(names: Sequence[str] | None, T: int) -> list[str]:
    """Return the names as text, one for each record; none if none are given."""
    texts = [] if names is None else [str(name) for name in names]
    if names is not None and len(texts) != T:
        raise ValueError(f"names must hold one name per record; got {len(texts)} for {T} records")
    return texts

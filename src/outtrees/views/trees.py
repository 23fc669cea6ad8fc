"""Who descends from whom, as matplotlib figures and a table of names and supports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outtrees.trees import OutTreeDistribution
from outtrees.views.layout import check_parents, tree_columns, tree_rows

# More names than these would only overlap.
_NAMED, _NAMED_IN_MATRIX = 80, 60


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
    texts = _texts(names, T)
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
    named = bool(texts) and T <= _NAMED
    for text, a, b in zip(texts if named else (), x, rows, strict=False):
        ax.annotate(
            text,
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
        longest = max(map(len, texts))
        ax.set_xlim(left, right + (right - left) * min(0.4, 0.015 * longest))
    if not ax.yaxis_inverted():
        ax.invert_yaxis()
    _finish(ax, dated=dates is not None, calendar=calendar)
    return ax


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
    ax : matplotlib Axes, optional
        By default those of a new figure.

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
    texts = _texts(names, T)
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
    ax = new_axes() if ax is None else ax
    picture = ax.imshow(shown, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    ax.figure.colorbar(picture, ax=ax, label="support", shrink=0.8)
    if names is not None and T <= _NAMED_IN_MATRIX:
        texts = [texts[i] for i in order]
        ax.set_yticks(range(T), texts, fontsize=8, parse_math=False)
        ax.set_xticks(
            range(T + len(first)), [*first, *texts], fontsize=8, rotation=90, parse_math=False
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
    labels = _texts(names, T) or [str(i) for i in range(T)]
    support = np.column_stack([dist.edge_marginals, dist.root_marginals])
    rows = []
    for child in range(T):
        for parent in np.argsort(-support[child], kind="stable"):
            if parent != child and support[child, parent] >= min_support:
                rows.append((labels[child], [*labels, ""][parent], float(support[child, parent])))
    return rows


def plot_parents(
    dist: OutTreeDistribution,
    positions: ArrayLike,  # (T, 2)
    names: Sequence[str] | None = None,
    *,
    min_support: float = 0.02,
    ax: Any = None,
) -> Any:
    """Draw an arrow from parent to child for every likely edge, as wide and dark as its support.

    Ringed records may be roots; the ring is as dark as the probability. Returns the axes.
    """
    import matplotlib.pyplot as plt

    xy = np.asarray(positions, dtype=np.float64)
    if xy.shape != (dist.n_records, 2):
        raise ValueError(f"positions must have shape ({dist.n_records}, 2); got {xy.shape}")
    labels = _texts(names, dist.n_records)
    ax = plt.gca() if ax is None else ax
    for child, parent in np.argwhere(dist.edge_marginals >= min_support):
        support = min(1.0, float(dist.edge_marginals[child, parent]))  # rounding, not for alpha
        arrow = {
            "arrowstyle": "-|>,head_width=0.25,head_length=0.5",
            "color": "tab:blue",
            "alpha": support,
            "linewidth": 0.4 + 2.2 * support,
            "shrinkA": 5,
            "shrinkB": 5,
            # Two edges between the same records bend apart.
            "connectionstyle": "arc3,rad=0.12",
        }
        ax.annotate("", xy=xy[child], xytext=xy[parent], arrowprops=arrow)
    ax.scatter(*xy.T, s=30, color="white", edgecolor="black", zorder=3)
    rings = np.column_stack(
        [np.tile([0.8, 0.1, 0.1], (len(xy), 1)), np.minimum(dist.root_marginals, 1.0)]
    )
    ax.scatter(*xy.T, s=110, facecolor="none", edgecolor=rings, linewidth=2, zorder=2)
    for name, (x, y) in zip(labels, xy, strict=False):
        ax.annotate(name, (x, y), xytext=(6, 6), textcoords="offset points", fontsize=9)
    ax.margins(0.12)
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


def _texts(names: Sequence[str] | None, T: int) -> list[str]:
    """Return the names as text, one for each record; none if none are given."""
    texts = [] if names is None else [str(name) for name in names]
    if names is not None and len(texts) != T:
        raise ValueError(f"names must hold one name per record; got {len(texts)} for {T} records")
    return texts

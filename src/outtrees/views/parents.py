"""Pictures and tables of who descends from whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outtrees.trees import OutTreeDistribution


def parent_table(
    dist: OutTreeDistribution,
    names: Sequence[str] | None = None,
    min_support: float = 0.1,
) -> list[tuple[str, str, float]]:
    """Return (child, parent, support) of every parent with enough support, best first.

    The parent of a root is the empty string. Supports are exact, given the weights.

    Examples
    --------
    >>> import numpy as np
    >>> dist = OutTreeDistribution(np.log([[1.0, 1.0], [3.0, 1.0]]))
    >>> for child, parent, support in parent_table(dist, ["Ann", "Bob"]):
    ...     print(f"{child} from {parent or '(root)'}: {support:.2f}")
    Ann from (root): 0.75
    Ann from Bob: 0.25
    Bob from Ann: 0.75
    Bob from (root): 0.25
    """
    T = dist.n_records
    labels = _labels(dist, names) or [str(i) for i in range(T)]
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
    labels = _labels(dist, names)
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


def _labels(dist: OutTreeDistribution, names: Sequence[str] | None) -> list[str]:
    """Return the names as text, one per record; none if none are given."""
    labels = [] if names is None else [str(name) for name in names]
    if names is not None and len(labels) != dist.n_records:
        raise ValueError(
            f"names must hold one name per record; got {len(labels)} for {dist.n_records} records"
        )
    return labels

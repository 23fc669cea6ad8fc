"""The support of every candidate parent as a matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outtrees.views.layout import check_parents, tree_rows
from outtrees.views.trees import new_axes

_NAMED = 60


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
    if names is not None and len(names) != T:
        raise ValueError(f"names must hold one name per record; got {len(names)} for {T} records")
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
    if names is not None and T <= _NAMED:
        texts = [str(names[i]) for i in order]
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


def plot_log_likelihoods(values: ArrayLike, *, ax: Any = None) -> Any:
    """Draw the log-likelihood of each iteration of a fit; return the axes.

    Examples
    --------
    >>> plot_log_likelihoods([-30.0, -21.0, -20.5]).get_xlabel()
    'iteration'
    """
    trace = np.asarray(values, dtype=np.float64)
    if trace.ndim != 1 or np.isnan(trace).any():
        raise ValueError(f"expected one log-likelihood per iteration, none NaN; got {trace!r}")
    ax = new_axes() if ax is None else ax
    ax.plot(np.arange(len(trace)), trace, ".-", color="C0")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("iteration")
    ax.set_ylabel("log-likelihood")
    return ax

"""Figures of a fitted table: its tree, supports, epidemic curve and map; methods of `Ancestry`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from outtrees import views
from outtrees.ancestry.posterior import Posterior
from outtrees.errors import ArgumentError, Option, RecordsError
from outtrees.records import Column
from outtrees.views.trees import draws

if TYPE_CHECKING:
    from outtrees.ancestry.estimator import Ancestry

_MOST_IN_MATRIX = 2000  # records whose supports a picture can show


@draws
def plot(
    self: Ancestry, kind: str = "consensus", *, color: str | None = None, ax: Any = None
) -> Any:
    """Draw the tree, by dates if there are any, lines as wide as the supports.

    Parameters
    ----------
    kind : {"consensus", "mode", "sample"}
        As in `tree`.
    color : str, optional
        A column by which the records are coloured, or "introduction": the root that each
        descends from.
    {ax}

    {axes}
    """
    posterior, parents = self.fitted, self.tree(kind)
    return views.plot_tree(
        parents,
        posterior.supports(parents),
        posterior.records.ids,
        dates=posterior.days,
        calendar=posterior.calendar,
        colors=_colors(posterior, parents, color),
        color_label=color or "",
        ax=ax,
    )


@draws
def plot_support(self: Ancestry, *, ax: Any = None) -> Any:
    """Draw the support of every parent (across) of every child (down).

    Parameters
    ----------
    {ax}

    {axes}

    Raises
    ------
    RecordsError
        If there are more than 2,000 records.
    """
    posterior = self.fitted
    T = len(posterior.records)
    if T > _MOST_IN_MATRIX:
        raise RecordsError(
            f"a picture of supports shows up to {_MOST_IN_MATRIX:,} records; there are {T:,}. Use "
            "parents()."
        )
    matrix = np.zeros((T, T))
    matrix[posterior.edges.child, posterior.edges.parent] = posterior.trees.edge_marginals
    return views.plot_support(
        matrix,
        posterior.trees.root_marginals,
        posterior.records.ids,
        parents=posterior.consensus.parents,
        ax=ax,
    )


@draws
def plot_epicurve(
    self: Ancestry, color: str | None = None, *, step: float | None = None, ax: Any = None
) -> Any:
    """Draw the number of records by date.

    Parameters
    ----------
    color : str, optional
        As in `plot`; bars are stacked by it.
    step : float, optional
        The width of a bar, in days; by default a day, a week, …, whichever fits.
    {ax}

    {axes}

    Raises
    ------
    RecordsError
        If the table has no dates.
    """
    posterior = self.fitted
    if posterior.days is None:
        raise RecordsError(
            "an epidemic curve needs a column of dates, but there is none; name it, for example ",
            Option("kinds", {"onset": "date"}),
        )
    groups = None
    if color is not None:
        found = _colors(posterior, posterior.consensus.parents, color)
        groups = [str(cell) for cell in found]
    return views.plot_epicurve(
        posterior.days,
        groups,
        group_label=color or "",
        calendar=posterior.calendar,
        step=step,
        ax=ax,
    )


@draws
def plot_map(
    self: Ancestry, kind: str = "consensus", *, color: str | None = None, ax: Any = None
) -> Any:
    """Draw the records at their places, with an arrow from each parent to its child.

    Parameters
    ----------
    kind : {"consensus", "mode", "sample"}
        As in `tree`.
    color : str, optional
        As in `plot`.
    {ax}

    {axes}

    Raises
    ------
    RecordsError
        If the table has no column of places with two coordinates.
    """
    posterior, parents = self.fitted, self.tree(kind)
    places = [column for column in posterior.records.columns if column.kind == "place"]
    if not places or places[0].values.shape[1] < 2:
        raise RecordsError(
            "a map needs a column of places with two coordinates, but there is none; name them, "
            "for example ",
            Option("kinds", {"x": "place", "y": "place"}),
        )
    labels = ("km east", "km north") if places[0].projected else ("x", "y")
    return views.plot_map(
        places[0].values[:, :2],
        parents,
        posterior.supports(parents),
        posterior.records.ids,
        colors=_colors(posterior, parents, color),
        color_label=color or "",
        labels=labels,
        ax=ax,
    )


def _colors(posterior: Posterior, parents: NDArray[np.intp], color: str | None) -> Any:
    """Return what the records are coloured by: a column, or the root that each descends from."""
    if color is None:
        return None
    columns = {column.name: column for column in posterior.records.columns}
    if color in columns:
        return _cells(columns[color])
    if color == "introduction":
        roots = np.arange(len(parents))
        for _ in range(len(parents)):
            above = np.where(parents[roots] >= 0, parents[roots], roots)
            if (above == roots).all():
                break
            roots = above
        return [posterior.records.ids[root] for root in roots.tolist()]
    raise ArgumentError(
        Option("color"),
        f" must be 'introduction' or a column ({', '.join(columns) or 'there is none'}); got "
        f"{color!r}. Correct the name.",
    )


def _cells(column: Column) -> Any:
    if column.kind in ("continuous", "count", "date"):
        return column.values[:, 0]
    return list(column.text)

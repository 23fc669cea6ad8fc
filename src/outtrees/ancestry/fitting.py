"""From a table and its constraints to a fitted lineage, by all pairs or by candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outtrees.ancestry.checkpoints import fingerprint, tracked_lineage
from outtrees.ancestry.columns import ModelColumn
from outtrees.ancestry.em import LineageFit, fit_candidates, fit_lineage
from outtrees.candidates import Constraints, PossibleEdges, all_edges
from outtrees.inference.stages import Track
from outtrees.models.columns import Lineage


def fit_table(
    ancestry: Any,
    columns: Sequence[ModelColumn],
    given: Constraints,
    way: str,
    checkpoint: Any = None,
) -> tuple[LineageFit, PossibleEdges]:
    """Return the lineage fitted with the settings of an `Ancestry`, and the edges it was fitted to.

    Parameters
    ----------
    way : {"dense", "knn"}
    checkpoint : path, optional
        Where what the fit reaches is kept, and from where it goes on.
    """
    lineage = Lineage(
        tuple(column.kernel for column in columns), ancestry.generations, ancestry.background
    )
    values = [column.values for column in columns]
    track = Track()
    if checkpoint is not None:
        # Neither changes what is fitted.
        settings = {**ancestry.get_params(), "way": way, "progress": None, "random_state": None}
        track = tracked_lineage(checkpoint, fingerprint(settings, columns, given), columns)
    options: dict[str, Any] = {
        "roots": ancestry.roots,
        "max_iter": ancestry.max_iter,
        "tol": ancestry.tol,
        "progress": ancestry.progress,
        "track": track,
    }
    if way == "knn":
        return fit_candidates(
            lineage, values, given, ancestry.n_candidates, say=ancestry._say, **options
        )
    edges = all_edges(given)
    return fit_lineage(lineage, values, edges, **options), edges

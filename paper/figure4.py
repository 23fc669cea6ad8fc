"""Figure 4 of the paper: labels found among crustaceans, here among matrices of about that size."""

from __future__ import annotations

from pathlib import Path

from paper.label_page import run_figure
from paper.units import Progress


def run(
    out: Path,
    *,
    folds: int | None = None,
    n_jobs: int = 1,
    quick: bool = False,
    data: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return the path of the page: error against the number of labels, one line a method.

    The protocol of the paper's section 9. Without `data`: the zoo, and the matrices beside the
    project where there are any.

    Parameters
    ----------
    out : path
        The folder of all experiments.
    folds : int, optional
        Random splits of each task, 2 by default (1 if quick).
    n_jobs : int
        Units at a time.
    quick : bool
        A generated matrix and few tasks, in seconds.
    data : path, optional
        A matrix of species (rows) and characters, CSV, TSV or NEXUS, or a folder of CSV files.
    progress : function of (done, total, name), optional
    """
    return run_figure(
        "figure4", Path(out), folds=folds, n_jobs=n_jobs, quick=quick, data=data, progress=progress
    )

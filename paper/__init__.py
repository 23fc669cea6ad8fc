"""The paper's figures and tables, each made anew by one module with one function `run`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

__all__ = ["EXPERIMENTS", "experiment"]

# Imported when asked for: pictures need matplotlib.
EXPERIMENTS = {
    "figure1": "paper.figure1",
    "figure2": "paper.figure2",
    "table1": "paper.table1",
    "figure3": "paper.figure3",
    "figure4": "paper.figure4",
}


def experiment(name: str) -> Callable[..., Path]:
    """Return the function that makes a figure or table of the paper.

    All have one signature, ``run(out, *, folds=None, n_jobs=1, quick=False, data=None,
    progress=None)``, write into the folder ``out / name``, go on where an earlier run stopped, and
    return the path of a page in Markdown.

    Parameters
    ----------
    name : {"figure1", "figure2", "table1", "figure3", "figure4"}

    Examples
    --------
    >>> experiment("figure1").__module__
    'paper.figure1'
    """
    if name not in EXPERIMENTS:
        raise ValueError(
            f"the name of an experiment is expected, one of {', '.join(EXPERIMENTS)}, but got "
            f"{name!r}."
        )
    run: Callable[..., Path] = import_module(EXPERIMENTS[name]).run
    return run

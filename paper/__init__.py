"""The paper's figures and tables, made anew: `make paper`, or `python -m paper table1`.

Part of the repository, not of the package that users install.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

__all__ = ["EXPERIMENTS", "experiment"]

EXPERIMENTS = ("figure1", "figure2", "table1", "figure3", "figure4")


def experiment(name: str) -> Callable[..., Path]:
    """Return the function that makes a figure or table of the paper.

    All are called with the folder of all experiments and options of `paper.units.Run`, write into
    the folder ``out / name``, go on where an earlier run stopped, and return the path of a page in
    Markdown, ``out / name / name.md``.

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
            f"the name of an experiment must be one of {', '.join(EXPERIMENTS)}; got {name!r}."
        )
    # Imported when asked for: pictures need matplotlib.
    run: Callable[..., Path]
    if name in ("figure3", "figure4"):
        run = getattr(import_module("paper.label_figures"), name)
    else:
        run = import_module(f"paper.{name}").run
    return run

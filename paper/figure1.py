"""Figure 1 of the paper: out-trees drawn by its non-sequential recipe, in three dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from outtrees._common.types import Array
from outtrees.datasets import make_out_tree
from outtrees.models import GaussianMutation
from paper.page import Page
from paper.units import Run, Unit, run_units


def _turn(degrees: float, shrink: float) -> Array:
    """Return a rotation about the axis (1, 1, 1), times a number."""
    axis = np.ones(3) / np.sqrt(3)
    cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    angle = np.deg2rad(degrees)
    rotation = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return shrink * rotation


# Σ_{c|π}: the paper does not say which it used.
TRANSITIONS = {
    "random walk, Σ = I": np.eye(3),
    "turned by 20°, Σ = 0.98 R": _turn(20.0, 0.98),
    "shrunk, Σ = 0.7 I": 0.7 * np.eye(3),
    "stretched, Σ = diag(1.06, 0.9, 0.5)": np.diag([1.06, 0.9, 0.5]),
}
N_RECORDS = 150


def run(out: Path, **options: Any) -> Path:
    """Write Figure 1 and return its page; `options` are those of `Run`. Quick: 40 records."""
    asked = Run(Path(out), **options)
    n = 40 if asked.quick else N_RECORDS
    units = [Unit("figure1", name, "recipe", 0) for name in TRANSITIONS]
    results = run_units(asked.out / "figure1", units, draw, settings={"n": n}, **asked.side_by_side)
    page = Page(asked.out, "figure1", "Figure 1: out-trees drawn by the recipe of section 2")
    page.text(
        f"Four trees of {n} records each. A tree uniform among all, a root from N(0, I), and then "
        "from parent to child X_t ~ N(Σ_{c|π} X_π(t), I), in three dimensions. Lines are the true "
        "edges, darker the nearer to the root, which is the red point."
    )
    page.picture(picture(units, results), "Four out-trees in space, their edges drawn")
    page.heading("Beside the paper")
    page.table(
        {
            "": ["conditional", "recipe", "Σ_{c|π}", "records"],
            "paper": ["N(Σ_{c|π} X, I)", "not sequential", "not said", "not said"],
            "here": ["the same", "the same", "four kinds, see the picture", str(n)],
        }
    )
    page.text(
        "Mean squared length of the steps x − Σ parent, which is 3 for N(0, I) in three columns, "
        "with its standard error; and the depth of the tree. Sampled."
    )
    page.table(_check(units, results))
    page.heading("Seeds")
    page.text('Each tree by sha256 of ("figure1", its name, "recipe", 0).')
    page.numbers(_raw(units, results))
    return page.write(f"python -m paper figure1{' --quick' if asked.quick else ''}")


def draw(unit: Unit, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the records and parents of one tree."""
    mutation = GaussianMutation(
        transition_matrix=TRANSITIONS[unit.dataset],
        mutation_cov=np.eye(3),
        root_mean=np.zeros(3),
        root_cov=np.eye(3),
    )
    X, parents = make_out_tree(settings["n"], mutation, unit.seed)
    return {"records": X.tolist(), "parents": parents.tolist()}


def picture(units: Sequence[Unit], results: Sequence[Mapping[str, Any]]) -> Any:
    """Return a matplotlib figure with one panel for each tree."""
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    figure = Figure(figsize=(10, 9), layout="constrained")
    for place, (unit, result) in enumerate(zip(units, results, strict=True), start=1):
        ax = figure.add_subplot(2, 2, place, projection="3d")
        X, parents = np.array(result["records"]), np.array(result["parents"])
        depth = depths(parents)
        children = np.flatnonzero(parents >= 0)
        segments = np.stack([X[parents[children]], X[children]], axis=1)
        shade = depth[children] / max(int(depth.max()), 1)
        lines = Line3DCollection(list(segments), cmap="viridis", array=shade, linewidths=1.1)
        lines.set_clim(0.0, 1.25)  # the palest yellow would not be seen
        ax.add_collection3d(lines)
        ax.scatter(*X.T, s=5, color="black", depthshade=False)
        ax.scatter(*X[parents < 0].T, s=45, color="red", depthshade=False)
        ax.auto_scale_xyz(*X.T)
        ax.set_title(unit.dataset, fontsize=11)
        ax.tick_params(labelsize=7)
    return figure


def depths(parents: Sequence[int] | Array) -> Array:
    """Return the number of steps from the root to each record.

    Examples
    --------
    >>> depths([-1, 0, 1, 0]).tolist()
    [0, 1, 2, 1]
    """
    parent = np.asarray(parents)
    depth = np.zeros(len(parent), dtype=np.intp)
    at = parent.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parent[at], -1)
    return depth


def _check(units: Sequence[Unit], results: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = {"tree": [], "mean squared step": [], "± ": [], "depth": []}
    for unit, result in zip(units, results, strict=True):
        X, parents = np.array(result["records"]), np.array(result["parents"])
        children = np.flatnonzero(parents >= 0)
        steps = X[children] - X[parents[children]] @ TRANSITIONS[unit.dataset].T
        squared = np.square(steps).sum(axis=1)
        table["tree"].append(unit.dataset)
        table["mean squared step"].append(round(float(squared.mean()), 2))
        table["± "].append(round(float(squared.std(ddof=1) / np.sqrt(len(squared))), 2))
        table["depth"].append(int(depths(parents).max()))
    return table


def _raw(units: Sequence[Unit], results: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = {name: [] for name in ("tree", "record", "parent", "x", "y", "z")}
    for unit, result in zip(units, results, strict=True):
        for t, (x, parent) in enumerate(zip(result["records"], result["parents"], strict=True)):
            row = [unit.dataset, t + 1, parent + 1 if parent >= 0 else None, *x]
            for column, value in zip(table.values(), row, strict=True):
                column.append(value)
    return table

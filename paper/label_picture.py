"""Pictures of error against the number of labels, one line a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paper.label_errors import Error, by_task, mean_and_error, shared_counts
from paper.label_tasks import INPUTS

# Ours in blues and black, the paper's competitors in reds, all others lighter.
STYLE: dict[str, dict[str, Any]] = {
    "posterior, wide choice": {"color": "black", "marker": "o", "linewidth": 2.2},
    "posterior": {"color": "#1f4e9c", "marker": "s", "linewidth": 1.8},
    "hill-climb": {"color": "#2a9fd6", "marker": "^", "linewidth": 1.8},
    "hill-climb, as printed": {"color": "#2a9fd6", "marker": "v", "linestyle": "--"},
    "SVM linear": {"color": "#c0272d", "marker": "D", "linewidth": 1.8},
    "SVM RBF": {"color": "#f0862b", "marker": "D", "linewidth": 1.8},
    "LabelSpreading": {"color": "#5a9e4b"},
    "LabelPropagation": {"color": "#9bcf8e"},
    "SelfTraining(SVC)": {"color": "#b58bc9"},
    "k-NN": {"color": "#b9a44c"},
}
_WITH_PREFIX = ("posterior, wide choice", "posterior", "hill-climb", "hill-climb, as printed")
_MAIN = ("posterior, wide choice", "hill-climb, as printed", "SVM linear", "SVM RBF")


def draw_means(errors: Sequence[Error], rule: str = "vote") -> Any:
    """Return a figure with a panel for each kind of input: means over matrices, standard errors.

    Only numbers of labels at which all matrices take part. Lines stand a little apart from each
    other, so that their error bars can be read. The most frequent label, far above, is left out.
    """
    from matplotlib.figure import Figure

    counts = shared_counts(errors)
    figure = Figure(figsize=(13, 6), layout="constrained")
    panels = figure.subplots(1, len(INPUTS), sharey=True)
    for panel, (inputs, title) in zip(panels, INPUTS.items(), strict=True):
        _lines(panel, errors, inputs, counts, rule, list(STYLE))
        panel.set_title(title)
    panels[0].set_ylim(bottom=0)  # after all lines: a limit ends the scaling of both panels
    panels[0].set_ylabel("error on the test half")
    _legend(figure, panels[0])
    return figure


def draw_matrices(errors: Sequence[Error], rule: str = "vote") -> Any:
    """Return a figure with a panel for each matrix: the paper's inputs and its methods."""
    from matplotlib.figure import Figure

    names = sorted({error.matrix for error in errors})
    figure = Figure(figsize=(3.8 * len(names), 3.8), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(names)))
    for panel, name in zip(panels, names, strict=True):
        own = [error for error in errors if error.matrix == name]
        _lines(panel, own, "3d", shared_counts(own), rule, _MAIN)
        panel.set_ylim(bottom=0)
        panel.set_title(name, fontsize=10)
    panels[0].set_ylabel("error on the test half")
    _legend(figure, panels[0])
    return figure


def _lines(
    panel: Any,
    errors: Sequence[Error],
    inputs: str,
    counts: Sequence[int],
    rule: str,
    methods: Sequence[str],
) -> None:
    places = np.arange(len(counts), dtype=np.float64)  # evenly: counts double from one to the next
    tables = [by_task(errors, inputs, rule, n) for n in counts]
    for i, method in enumerate(methods):
        if method not in tables[0]:
            continue
        found = np.array([mean_and_error(table[method]) for table in tables])
        options = {"linewidth": 1.1, "markersize": 4, **STYLE[method]}
        label = f"out-tree, {method}" if method in _WITH_PREFIX else method
        shift = 0.055 * (i - (len(methods) - 1) / 2)
        panel.errorbar(
            places + shift, *found.T, label=label, elinewidth=0.8, capsize=2, **options
        )  # fmt: skip
    panel.set_xticks(places, [str(n) for n in counts])
    panel.set_xlabel("labelled records")
    panel.grid(axis="y", color="#e5e5e5")
    panel.set_axisbelow(True)


def _legend(figure: Any, panel: Any) -> None:
    lines, labels = panel.get_legend_handles_labels()
    figure.legend(
        lines, labels, loc="outside lower center", ncols=min(4, len(labels)), fontsize=9,
        frameon=False,
    )  # fmt: skip

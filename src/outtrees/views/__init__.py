"""Figures of trees, supports, outbreaks and densities, and the report as one HTML file.

Every `plot_…` function draws on the axes given as `ax`, else on pyplot's current axes if they are
empty, else on a new pyplot figure; it returns the axes. Save a figure as a vector with
`ax.figure.savefig("tree.pdf")`.
"""

from outtrees.views.density import (
    plot_density,
    plot_density_3d,
    plot_log_likelihoods,
    plot_trace,
)
from outtrees.views.outbreak import plot_epicurve, plot_map
from outtrees.views.trees import parent_table, plot_parents, plot_support, plot_tree

__all__ = [
    "parent_table",
    "plot_density",
    "plot_density_3d",
    "plot_epicurve",
    "plot_log_likelihoods",
    "plot_map",
    "plot_parents",
    "plot_support",
    "plot_trace",
    "plot_tree",
]

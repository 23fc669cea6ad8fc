"""Labels on unknown trees: their posterior, their most likely setting, and their settings."""

from outtrees.labels.choice import Choice, choose_settings
from outtrees.labels.climbing import Climb, climb_labels
from outtrees.labels.importance import WeighedLabels, weigh_trees
from outtrees.labels.model import LabelModel, evidence, smoothed_marginal
from outtrees.labels.posterior import (
    LabelAverage,
    LabelPosterior,
    average_edges,
    average_labels,
    label_posterior,
)

__all__ = [
    "Choice",
    "Climb",
    "LabelAverage",
    "LabelModel",
    "LabelPosterior",
    "WeighedLabels",
    "average_edges",
    "average_labels",
    "choose_settings",
    "climb_labels",
    "evidence",
    "label_posterior",
    "smoothed_marginal",
    "weigh_trees",
]

"""Labels on unknown trees: their posterior, their most likely setting, and their settings."""

from outtrees.learning.labels.averaging import LabelAverage, average_labels
from outtrees.learning.labels.choice import Choice, choose_settings
from outtrees.learning.labels.climbing import Climb, climb_labels
from outtrees.learning.labels.importance import WeighedLabels, weigh_trees
from outtrees.learning.labels.model import LabelModel, evidence, smoothed_marginal
from outtrees.learning.labels.posterior import LabelPosterior, average_edges, label_posterior

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

"""Bundled records with their sources, and generators of records whose truth is known."""

from outtrees.datasets.bundled import load_diabetes, load_heart, load_liver, load_zoo
from outtrees.datasets.diseases import DISEASES, waiting_time
from outtrees.datasets.generators import make_out_tree, make_spiral, random_out_tree
from outtrees.datasets.outbreak import make_line_list, make_outbreak, make_sampled_outbreak

__all__ = [
    "DISEASES",
    "load_diabetes",
    "load_heart",
    "load_liver",
    "load_zoo",
    "make_line_list",
    "make_out_tree",
    "make_outbreak",
    "make_sampled_outbreak",
    "make_spiral",
    "random_out_tree",
    "waiting_time",
]

"""Distributions over out-trees: arrays in, arrays out; no record and no model is known here."""

from outtrees.trees.batch import OutTreeBatch, Trees
from outtrees.trees.distribution import Consensus, OutTreeDistribution, Tree

__all__ = ["Consensus", "OutTreeBatch", "OutTreeDistribution", "Tree", "Trees"]

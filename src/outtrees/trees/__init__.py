"""Distributions over out-trees: arrays in, arrays out; no record and no model is known here."""

from outtrees.trees.distribution import Consensus, OutTreeDistribution, Tree

__all__ = ["Consensus", "OutTreeDistribution", "Tree"]

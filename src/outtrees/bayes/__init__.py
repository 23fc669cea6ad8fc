"""Parameters integrated out: `BayesianOutTree`, its evidence and its averages over models."""

from outtrees.bayes.estimator import BayesianOutTree

__all__ = ["BayesianOutTree"]

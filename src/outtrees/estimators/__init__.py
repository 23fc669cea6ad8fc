"""The scikit-learn faces."""

from outtrees.estimators.bayesian import BayesianOutTree
from outtrees.estimators.classifier import OutTreeClassifier
from outtrees.estimators.density import OutTreeDensity
from outtrees.estimators.imputer import OutTreeImputer

__all__ = ["BayesianOutTree", "OutTreeClassifier", "OutTreeDensity", "OutTreeImputer"]

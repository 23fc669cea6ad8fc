"""Hidden cells: exact given a tree, averaged over trees, integrated out when parameters are fitted.

`model` reads a mutation as kinds of links; `linear` passes Gaussian messages along one tree;
`sampler` draws trees and cells; `statistics` turns pairs of records into parameters; `em` fits
them; `posterior` runs chains and summarises them; `leaves` places new records; `stack` weights
several mutations for one table; `imputer` is the estimator.
"""

from outtrees.imputation.em import HiddenFit, fit_hidden
from outtrees.imputation.posterior import HiddenPosterior, hidden_posterior

__all__ = ["HiddenFit", "HiddenPosterior", "fit_hidden", "hidden_posterior"]

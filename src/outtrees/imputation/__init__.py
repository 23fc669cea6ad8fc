"""Hidden cells: exact given a tree, averaged over trees, integrated out when parameters are fitted.

`model` reads a mutation as kinds of links; `sampler` draws trees and cells; `em` turns pairs of
records into parameters; `posterior` runs chains and summarises them; `leaves` places new records;
`stack` weights several mutations for one table; `imputer` is the estimator.
"""

from outtrees.imputation.em import HiddenFit, fit_hidden
from outtrees.imputation.posterior import HiddenPosterior, hidden_posterior

__all__ = ["HiddenFit", "HiddenPosterior", "fit_hidden", "hidden_posterior"]

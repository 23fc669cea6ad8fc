"""Hidden cells: exact given a tree, averaged over trees, integrated out when parameters are fitted.

`linear` passes Gaussian messages along one tree; `model` reads a mutation as kinds of links;
`sweep` and `sampler` draw trees and cells; `statistics`, `cloud` and `fitting` are EM;
`parameters`, `walks` and `posterior` are chains and their summary; `leaves` places new records;
`dummies` and `stack` weigh several mutations for one table.
"""

from outtrees.imputation.em import HiddenFit, fit_hidden
from outtrees.imputation.posterior import HiddenPosterior, hidden_posterior

__all__ = ["HiddenFit", "HiddenPosterior", "fit_hidden", "hidden_posterior"]

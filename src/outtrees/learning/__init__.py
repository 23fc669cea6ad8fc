"""Fitting: EM and gradient ascent on the tdid posterior, restarts, and choice by held-out data."""

from outtrees.learning.ascent import fit_gradient, fit_lbfgs
from outtrees.learning.em import fit_em
from outtrees.learning.fitting import SOLVERS, fit_mutation
from outtrees.learning.objective import FitResult
from outtrees.learning.selection import Selection, select_mutation

__all__ = [
    "SOLVERS",
    "FitResult",
    "Selection",
    "fit_em",
    "fit_gradient",
    "fit_lbfgs",
    "fit_mutation",
    "select_mutation",
]

"""EM and gradient ascent on the tdid posterior, restarts, and choice by held-out data."""

from outtrees.inference.ascent import FitResult
from outtrees.inference.em import fit_em
from outtrees.inference.gradient import fit_gradient, fit_lbfgs
from outtrees.inference.restarts import SOLVERS, fit_mutation
from outtrees.inference.selection import Selection, select_mutation

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

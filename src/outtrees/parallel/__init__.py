"""Independent pieces of work: on one core, many cores or many machines, resumed where they ended.

A unit is a population, a fold, a restart, a chain or a bootstrap replicate. Units go through
joblib, so that any of its backends serves; what comes back does not depend on which.
"""

from outtrees.parallel.folder import RunFolder
from outtrees.parallel.units import Outcome, run_units, run_units_into, unit_seed

__all__ = ["Outcome", "RunFolder", "run_units", "run_units_into", "unit_seed"]

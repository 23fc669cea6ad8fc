"""scikit-learn's own checks, all of them, without an expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from outtrees.imputation.imputer import OutTreeImputer

QUICK = {"n_draws": 2, "n_chains": 1, "burn_in": 0, "max_iter": 1, "random_state": 0}

# So few draws of toy data disagree, of which the imputer rightly warns.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@parametrize_with_checks([OutTreeImputer("parzen", **QUICK), OutTreeImputer("iid", **QUICK)])
def test_conformity(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([OutTreeImputer(**QUICK)])
def test_conformity_of_the_default(estimator, check):
    check(estimator)

"""scikit-learn's own checks, all of them, without an expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from outtrees import OutTreeDensity
from outtrees.mutations import GaussianMutation

# scikit-learn fits toy data with duplicated and constant columns, of which ours rightly warns.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@parametrize_with_checks(
    [
        OutTreeDensity(),
        OutTreeDensity("mixture", random_state=0),
        OutTreeDensity("columns", max_iter=5, random_state=0),
        OutTreeDensity(GaussianMutation(transition="identity", covariance="diag")),
        OutTreeDensity("gaussian", solver="lbfgs", max_iter=30),
    ]
)
def test_conformity(estimator, check):
    check(estimator)

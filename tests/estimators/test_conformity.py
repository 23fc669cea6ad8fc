"""scikit-learn's own checks, all of them, without an expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from outtrees import OutTreeDensity
from outtrees.mutations import GaussianMutation

# scikit-learn fits toy data with duplicated and constant columns, of which ours rightly warns.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

FEW = {"max_iter": 3, "random_state": 0}  # a fit that is cut short conforms or not like a long one


@parametrize_with_checks(
    [
        OutTreeDensity(**FEW),
        OutTreeDensity("mixture", **FEW),
        OutTreeDensity("columns", **FEW),
        OutTreeDensity(GaussianMutation(transition="identity", covariance="diag"), **FEW),
        OutTreeDensity("gaussian", solver="lbfgs", **FEW),
    ]
)
def test_conformity(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [OutTreeDensity(), OutTreeDensity("mixture"), OutTreeDensity(solver="lbfgs", max_iter=30)]
)
def test_conformity_of_the_defaults(estimator, check):
    check(estimator)

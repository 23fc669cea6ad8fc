"""scikit-learn's own checks: all pass if every label is known, all but one if −1 is a mark."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from outtrees.labels.classifier import OutTreeClassifier

# scikit-learn fits toy data with duplicated rows and classes of one record, of which ours warns.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

FEW = {"n_chains": 2, "n_draws": 4, "burn_in": 0, "max_iter": 3, "random_state": 0}
FIXED = {"stickiness": 0.9, "sharpness": 1.0, **FEW}
MARKED = {
    "check_classifiers_classes": "-1 and text are classes there; with unlabeled=-1, -1 is a mark"
}


def expected(estimator):
    return MARKED if estimator.unlabeled == -1 else {}


@parametrize_with_checks(
    [
        OutTreeClassifier(unlabeled=None, **FIXED),
        OutTreeClassifier(unlabeled=-1, **FIXED),
    ],
    expected_failed_checks=expected,
)
def test_conformity(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        OutTreeClassifier(unlabeled=None),
        OutTreeClassifier(),
        OutTreeClassifier(unlabeled=None, method="hill-climb", **FIXED),
    ],
    expected_failed_checks=expected,
)
def test_conformity_at_length(estimator, check):
    check(estimator)

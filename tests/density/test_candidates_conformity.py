"""scikit-learn's own checks of estimators that look at candidates only."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from outtrees import OutTreeClassifier, OutTreeDensity

# With few candidates much probability is left out, which is told; a test of its own looks at that.
pytestmark = pytest.mark.filterwarnings("ignore:.*outside the candidates hold")


# scikit-learn fits toy data with duplicated and constant columns, of which ours rightly warns.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

FIXED = {"stickiness": 0.9, "sharpness": 1.0, "n_chains": 1, "n_draws": 4, "burn_in": 0}


@parametrize_with_checks([OutTreeDensity("parzen", candidates="knn", n_candidates=5, max_iter=4)])
def test_conformity(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        OutTreeDensity("mixture", candidates="knn", n_candidates=5, max_iter=4, random_state=0),
        OutTreeClassifier(
            candidates="knn", n_candidates=5, unlabeled=None, max_iter=4, random_state=0, **FIXED
        ),
    ]
)
def test_conformity_of_slower_ones(estimator, check):
    check(estimator)

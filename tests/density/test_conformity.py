"""scikit-learn's own checks, all of them, without an expected failure."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from outtrees import BayesianOutTree, OutTreeClassifier, OutTreeDensity, OutTreeImputer
from outtrees.models import GaussianMutation

# scikit-learn fits toy data with duplicated and constant columns, of which ours rightly warns.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

FEW = {"max_iter": 3, "random_state": 0}  # a fit that is cut short conforms or not like a long one


@parametrize_with_checks(
    [
        OutTreeDensity(cv=2, **FEW),
        OutTreeDensity("gaussian", **FEW),
        OutTreeDensity("mixture", **FEW),
        OutTreeDensity(GaussianMutation(transition="identity", covariance="diag"), **FEW),
        OutTreeDensity("gaussian", solver="lbfgs", **FEW),
    ]
)
def test_conformity(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        OutTreeDensity("gaussian"),
        OutTreeDensity("mixture"),
        OutTreeDensity("columns", **FEW),
        OutTreeDensity("gaussian", solver="lbfgs", max_iter=30),
    ]
)
def test_conformity_at_length(estimator, check):
    check(estimator)


def _density(model):
    return model.score_samples([[0.3, -0.2], [2.0, 1.0]])


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        (OutTreeDensity(random_state=0), _density),
        (BayesianOutTree(max_iter=20), _density),
        (OutTreeClassifier(random_state=0), lambda model: model.predict_proba([[0.3, -0.2]])),
        (
            OutTreeImputer("gaussian", n_draws=20, burn_in=5, max_iter=2, random_state=0),
            lambda model: model.sample(2, random_state=0),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_answers_do_not_change_with_what_the_caller_writes_into_x(model, asked):
    X = np.random.default_rng(0).normal(size=(12, 2))
    y = np.arange(12) % 2
    if isinstance(model, OutTreeImputer):
        X[3, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = clone(model).fit(X, y)
    before = asked(model)
    X += 5.0
    y[:] = 0
    np.testing.assert_array_equal(asked(model), before)

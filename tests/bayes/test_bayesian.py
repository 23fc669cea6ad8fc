"""BayesianOutTree: what a fit holds, what it answers, what it refuses."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import BayesianGaussianMixture
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.estimator_checks import parametrize_with_checks

from outtrees.bayes.estimator import BayesianOutTree
from outtrees.datasets import make_spiral
from outtrees.inference.variational import lower_bound
from outtrees.models.conjugate import GaussianPosterior, MixturePosterior
from outtrees.trees.parents import are_out_trees

SPIRAL = make_spiral(80)
PLAIN = np.random.default_rng(0).normal(size=(40, 3))
# scikit-learn fits toy data with duplicated and constant columns, of which ours rightly warns.
QUIET = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def model():
    return BayesianOutTree("gaussian", random_state=0).fit(SPIRAL)


@QUIET
@parametrize_with_checks(
    [
        BayesianOutTree(GaussianPosterior(start_correlation=0.5), max_iter=4),
        BayesianOutTree("parzen"),
        BayesianOutTree("kernel", max_iter=4, random_state=0),
        BayesianOutTree("mixture", n_components=2, max_iter=4, random_state=0),
    ]
)
def test_conformity(estimator, check):
    check(estimator)


def test_what_a_fit_holds(model):
    assert model.converged_
    assert model.n_iter_ + 1 == len(model.lower_bounds_)
    assert (np.diff(model.lower_bounds_) >= 0).all()
    assert model.lower_bound_ == model.lower_bounds_[-1]
    assert model.lower_bound_ == pytest.approx(lower_bound(model.posterior_, SPIRAL), abs=1e-8)
    np.testing.assert_allclose(
        model.edge_marginals_.sum(axis=1) + model.root_marginals_, 1.0, atol=1e-12
    )


def test_scores_are_a_normalised_density():
    X = PLAIN[:, :1]
    model = BayesianOutTree("mixture", random_state=0).fit(X)
    axis = np.linspace(-400, 400, 400_001)
    mass = np.exp(model.score_samples(axis[:, None])).sum() * (axis[1] - axis[0])
    assert mass == pytest.approx(1.0, abs=1e-3)  # Student tails beyond 400
    together = model.score_samples(X[:5])
    np.testing.assert_allclose(together, [model.score_samples(x[None])[0] for x in X[:5]])
    assert model.score(X[:5]) == pytest.approx(together.sum())


def test_it_describes_a_spiral_better_than_scikit_learns_mixture(model):
    X = make_spiral(200, random_state=2)
    other = BayesianGaussianMixture(n_components=10, random_state=0, max_iter=1000).fit(SPIRAL)
    assert model.score(X) > other.score(X) * len(X) + 50


def test_log_predictive_is_the_change_of_the_bound(model):
    new = make_spiral(3, random_state=1)
    both = lower_bound(model.posterior_, np.vstack([SPIRAL, new]))
    assert model.log_predictive(new) == pytest.approx(both - model.lower_bound_, abs=1e-6)


def test_draws(model):
    X, parents = model.sample(30, random_state=0)
    assert X.shape == (30, 3)
    assert are_out_trees(parents[None], single_root=True).all()
    np.testing.assert_array_equal(X, model.sample(30, random_state=0)[0])
    assert are_out_trees(model.sample_trees(3, random_state=0), single_root=True).all()
    for corrected in (False, True):
        draws = model.sample_posterior(2, random_state=0, corrected=corrected)
        assert are_out_trees(np.array([d.parents for d in draws]), single_root=True).all()
        assert draws[0].mutation.transition_matrix.shape == (3, 3)


def test_credible_intervals_are_quantiles_of_q(model):
    intervals = model.credible_intervals(0.8, n_draws=400, random_state=0)
    low, median, high = intervals["transition_matrix"]
    assert (low < median).all()
    assert (median < high).all()
    draws = np.array([model.posterior_.draw(i).transition_matrix for i in range(400)])
    error = draws.std(axis=0) / np.sqrt(400)
    # The standard error of an 80 % interval's end is about 1.7 times that of a mean.
    assert (np.abs(low - np.quantile(draws, 0.1, axis=0)) < 5 * 1.7 * np.sqrt(2) * error).all()
    sample = model.importance(100, random_state=0)
    assert 1 <= sample.effective_draws <= 100
    weighted = model.credible_intervals(0.8, sample=sample)["offset"]
    assert (weighted[0] <= weighted[2]).all()
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        model.credible_intervals(1.0)


def test_evidence_tables(model):
    table = model.evidence(["parzen", "iid"])
    assert table.models == ["parzen", "iid"]
    by_columns = BayesianOutTree("parzen").fit(SPIRAL[:40])
    table = by_columns.evidence(columns={"all": [0, 1, 2], "last": [2]})
    assert set(table.models) == {"all", "last", "none"}
    assert table.models[0] == "all"
    single = by_columns.evidence({"mine": GaussianPosterior(transition="zero")})
    assert single.models == ["mine"]


@QUIET
def test_auto_mixes_families():
    X = SPIRAL[:40, :2]
    model = BayesianOutTree("auto", tol=1.0, random_state=0).fit(X)
    assert model.candidates_["weight"].sum() == pytest.approx(1.0)
    assert isinstance(model.posterior_, MixturePosterior)
    assert len(model.weights_) == (model.candidates_["weight"] >= 1e-3).sum()
    assert np.isfinite(model.lower_bound_)
    assert np.isfinite(model.score(X))
    assert model.sample(4, random_state=0)[0].shape == (4, 2)


def test_priors_by_name_reach_the_posterior():
    model = BayesianOutTree(
        "iid", mean_prior=np.zeros(3), mean_precision_prior=1e6, degrees_of_freedom_prior=9.0
    ).fit(PLAIN + 5.0)
    prior = model.posterior_.prior_
    np.testing.assert_array_equal(prior.centre, np.zeros(3))
    assert prior.noise.dof == 9.0
    np.testing.assert_allclose(model.posterior_.mean().offset, 0.0, atol=1e-3)
    mixture = BayesianOutTree("mixture", n_components=4, weight_concentration_prior=0.1).fit(PLAIN)
    assert mixture.weights_.shape == (5,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_iter": 0}, "'max_iter' parameter of BayesianOutTree must be an int in the range"),
        ({"max_iter": True}, "Got True instead"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"mutation": "gausian"}, r"must be a str among .* Got 'gausian' instead"),
        ({"random_state": "x"}, "'random_state' parameter"),
        ({"mean_precision_prior": 0.0}, "'mean_precision_prior' parameter"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        BayesianOutTree(**options).fit(PLAIN)


@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({"mutation": "gaussian", "n_components": 3}, PLAIN, "is no prior of mutation='gaussian'"),
        ({"mutation": GaussianPosterior(), "mean_precision_prior": 3.0}, PLAIN, "is no prior of"),
        ({"mutation": "auto", "n_components": 2}, PLAIN, "is no prior of mutation='auto'"),
        ({}, np.where(PLAIN > 2, np.nan, PLAIN), "Input X contains NaN"),
        ({}, np.ones((5, 2)), "all 5 rows are identical"),
        ({"mutation": "poisson"}, PLAIN, "expects counts 0, 1, 2"),
        ({}, pd.DataFrame({"a": [1.0, 2], "b": ["x", "y"]}), "column 'b' is text"),
    ],
)
def test_what_is_refused(options, X, message):
    with pytest.raises(ValueError, match=message):
        BayesianOutTree(**options).fit(X)


def test_degenerate_records_are_warned_of_and_described():
    X = np.column_stack([np.repeat(PLAIN[:20], 2, axis=0), np.ones(40)])
    with pytest.warns(ConvergenceWarning) as caught:
        model = BayesianOutTree("parzen", max_iter=500).fit(X)
    texts = " ".join(str(w.message) for w in caught)
    assert "column 3 is constant" in texts
    assert "20 rows are exact duplicates" in texts
    assert np.isfinite(model.score_samples(X)).all()


def test_categories_may_be_missing():
    X = np.array([[0.0, 1], [0, np.nan], [1, 1], [np.nan, 0], [1, 0]])
    model = BayesianOutTree("categorical").fit(X)
    assert np.isfinite(model.score_samples(X)).all()


def test_not_converged_and_not_fitted():
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        model = BayesianOutTree("gaussian", max_iter=1, tol=0.0).fit(SPIRAL)
    assert not model.converged_
    for ask in ("score_samples", "log_predictive"):
        with pytest.raises(NotFittedError):
            getattr(BayesianOutTree(), ask)(PLAIN)
    with pytest.raises(NotFittedError):
        _ = BayesianOutTree().tree_


def test_the_trees_of_the_fit_are_kept(monkeypatch, model):
    again = pickle.loads(pickle.dumps(model))  # without trees, which are made when asked for
    assert again.tree_.log_z == model.tree_.log_z
    monkeypatch.delattr("outtrees.bayes.estimator.variational_trees")
    assert model.sample_trees(2, random_state=0).shape == (2, len(SPIRAL))
    with pytest.raises(NameError):
        pickle.loads(pickle.dumps(model)).sample_trees()


def test_the_default_is_not_behind_its_simpler_forms():
    """Three clouds: one linear map knows one."""
    rng = np.random.default_rng(4)
    middle = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    X = middle[rng.integers(3, size=120)] + rng.normal(size=(120, 2))
    train, test = X[:60], X[60:]
    found = BayesianOutTree(random_state=0).fit(train).score(test) / 60
    for name in ("gaussian", "parzen", "mixture"):
        one = BayesianOutTree(name, random_state=0).fit(train).score(test) / 60
        assert found > one - 0.1

"""Choice among mutations by held-out density, and weights of a stack of models."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from outtrees.inference import select_mutation
from outtrees.inference.selection import Selection, stacking_weights
from outtrees.models import CategoricalMutation, GaussianMutation, MixtureMutation

RNG = np.random.default_rng(1)
CLOUD = RNG.normal(size=(60, 2))
CLUSTERS = RNG.normal(size=(60, 2)) + 12.0 * np.repeat(np.eye(3)[:, :2], 20, axis=0)
MIXTURES = {k: MixtureMutation(n_iid=k, n_local=0, covariance="spherical") for k in (1, 2, 3, 6)}


@pytest.fixture(scope="module")
def clusters():
    return select_mutation(MIXTURES, CLUSTERS, cv=3, random_state=0)


@pytest.mark.slow
def test_finds_the_number_of_clusters(clusters):
    assert clusters.best in (3, 6)


def test_each_record_is_scored_by_a_fit_that_has_not_seen_it():
    """A window that shrinks to nothing is best on seen records and worst on others."""
    candidates = {
        "narrow": GaussianMutation(transition="identity", prior_strength=1e-6),
        "iid": GaussianMutation(transition="zero"),
    }
    outlier = np.vstack([CLOUD, [[60.0, 60.0]]])
    selection = select_mutation(candidates, outlier, random_state=0)
    assert selection.log_densities[0, -1] < selection.log_densities[0, :-1].min() - 20
    assert selection.log_densities.shape == (2, 61)


@pytest.mark.slow
def test_the_same_for_the_same_seed_and_any_number_of_jobs():
    few = {k: MIXTURES[k] for k in (1, 3)}
    runs = [select_mutation(few, CLUSTERS, random_state=3, cv=2, n_jobs=n) for n in (None, 2)]
    np.testing.assert_array_equal(runs[0].log_densities, runs[1].log_densities)
    other = select_mutation(few, CLUSTERS, random_state=4, cv=2)
    assert not np.array_equal(runs[0].log_densities, other.log_densities)


@pytest.mark.slow
def test_the_best_has_the_highest_mean(clusters):
    assert clusters.mean[clusters.names.index(clusters.best)] == clusters.mean.max()
    expected = clusters.log_densities.std(axis=1, ddof=1) / np.sqrt(60)
    np.testing.assert_allclose(clusters.standard_error, expected)


def test_a_candidate_without_density_loses_and_has_no_standard_error():
    selection = Selection(["a", "b"], np.array([[-1.0, -2.0], [-np.inf, -1.0]]))
    assert selection.mean.tolist() == [-1.5, -np.inf]
    assert np.isinf(selection.standard_deviation[1])


def test_a_category_that_a_fold_lacks_is_still_known():
    X = np.zeros((12, 1))
    X[3:8], X[11] = 1.0, 2.0
    candidates = {nu: CategoricalMutation(prior_strength=nu) for nu in (1.0, 4.0)}
    selection = select_mutation(candidates, X, cv=4, random_state=0)
    assert np.isfinite(selection.log_densities).all()


@pytest.mark.parametrize(
    ("candidates", "options", "message"),
    [
        ({}, {}, "at least one mutation"),
        (MIXTURES, {"cv": 1}, "cv of .* must be an integer of at least 2; got 1"),
        (MIXTURES, {"cv": 61}, "cv must be at most the number of records, 60; got 61"),
    ],
)
def test_refusals(candidates, options, message):
    with pytest.raises(ValueError, match=message):
        select_mutation(candidates, CLOUD, **options)


def test_two_records_must_be_outside_each_fold():
    X = np.array([[0.0], [1.0], [3.0], [4.5]])
    mutations = {"iid": GaussianMutation(transition="zero")}
    assert select_mutation(mutations, X, cv=2, random_state=0).best == "iid"
    with pytest.raises(ValueError, match="at least 2 records outside each fold; got 3 records"):
        select_mutation(mutations, X[:3], cv=2, random_state=0)


# Stacking: against a general optimiser, and with a useless model --------------------------------


def objective(w, log_densities):
    return logsumexp(log_densities, axis=0, b=w[:, None]).sum()


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_the_maximum(seed):
    log_densities = np.random.default_rng(seed).normal(size=(4, 60))
    w = stacking_weights(log_densities)
    assert w.sum() == pytest.approx(1.0)
    found = minimize(lambda z: -objective(softmax(z), log_densities), np.zeros(4), tol=1e-12)
    assert objective(w, log_densities) == pytest.approx(-found.fun, abs=1e-6)


def test_a_useless_model_gets_no_weight():
    rng = np.random.default_rng(0)
    log_densities = np.stack([rng.normal(size=50), rng.normal(size=50) - 30.0])
    np.testing.assert_allclose(stacking_weights(log_densities), [1.0, 0.0], atol=1e-9)
    impossible = np.stack([rng.normal(size=50), np.full(50, -np.inf)])
    np.testing.assert_allclose(stacking_weights(impossible), [1.0, 0.0], atol=1e-9)

"""Approximate nearest parents: only when asked for, only in many dimensions, and never short."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from outtrees import OutTreeClassifier, OutTreeDensity
from outtrees.candidates import matrix_search
from outtrees.candidates.matrix_search import matrix_candidates, nearest_parents
from outtrees.models import GaussianMutation

WIDE = np.random.default_rng(0).normal(size=(60, 18)) + 1000.0
IDENTITY = GaussianMutation(transition="identity").start(WIDE)
MAPPED = GaussianMutation(start_correlation=0.5).start(WIDE)


class FakeIndex:
    """Finds all neighbours, but none of those of every seventh point beyond the second."""

    used = 0

    def __init__(self, points, n_neighbors, random_state, n_jobs):
        FakeIndex.used += 1
        assert abs(points.mean()) < 1e-9  # single precision leaves little of 1000.001
        self.points, self.n_neighbors = points, n_neighbors
        self.neighbor_graph = self.query(points, n_neighbors)

    def query(self, children, k):
        apart = ((children[:, None] - self.points[None]) ** 2).sum(axis=-1)
        found = np.argsort(apart, axis=1)[:, :k].astype(np.int32)
        found[::7, 2:] = -1
        return found, apart


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(FakeIndex, "used", 0)
    monkeypatch.setattr(matrix_search, "nn_descent", lambda: FakeIndex)
    return FakeIndex


@pytest.mark.parametrize("mutation", [IDENTITY, MAPPED], ids=["identity", "mapped"])
def test_rows_that_come_short_are_filled(fake, mutation):
    table = nearest_parents(mutation, WIDE, 6, "approximate")
    assert fake.used == 1
    np.testing.assert_array_equal(table, nearest_parents(mutation, WIDE, 6))
    assert fake.used == 1  # "exact" is the default


def test_few_dimensions_stay_exact(fake):
    X = WIDE[:, :4]
    mutation = GaussianMutation(transition="identity").start(X)
    listed = matrix_candidates(mutation, X, 5, "approximate")
    assert fake.used == 0
    assert listed.log_near is not None


def test_what_may_be_missing_gives_no_bound(fake):
    assert matrix_candidates(IDENTITY, WIDE, 5).log_near is not None
    assert matrix_candidates(IDENTITY, WIDE, 5, "approximate").log_near is None


def test_estimators_ask_for_it(fake, monkeypatch):
    from outtrees.candidates import plan as candidates

    monkeypatch.setattr(candidates, "nn_descent", lambda: FakeIndex)
    options = {"candidates": "knn", "n_candidates": 6, "random_state": 0, "max_iter": 60}
    found = OutTreeDensity("parzen", neighbours="approximate", **options).fit(WIDE)
    assert fake.used > 3
    exact = OutTreeDensity("parzen", **options).fit(WIDE)
    np.testing.assert_array_equal(found.candidate_edges_, exact.candidate_edges_)
    assert exact.dropped_mass_.bound is not None
    assert found.dropped_mass_.bound is None
    used = fake.used
    labels = np.where(np.arange(60) < 20, np.arange(60) % 2, -1)
    quick = {"stickiness": 0.9, "sharpness": 1.0, "n_chains": 2, "n_draws": 4, "burn_in": 2}
    model = OutTreeClassifier("parzen", neighbours="approximate", **quick, **options)
    with pytest.warns(ConvergenceWarning, match="chains disagree"):  # after so few draws
        model.fit(WIDE, labels)
    assert fake.used > used
    assert model.dropped_mass_.bound is None


@pytest.mark.parametrize("estimator", [OutTreeDensity, OutTreeClassifier])
def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch, estimator):
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    y = np.arange(60) % 2
    with pytest.raises(ImportError, match=r"neighbours='approximate' needs PyNNDescent; install"):
        estimator(candidates="knn", neighbours="approximate").fit(WIDE, y)
    with pytest.raises(ValueError, match=r"'neighbours' parameter of .* must be a str among"):
        estimator(neighbours="nearly").fit(WIDE, y)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pynndescent") is None, reason="needs the extra outtrees[neighbours]")
@pytest.mark.filterwarnings("ignore")  # those of compiling someone else's code
@pytest.mark.parametrize(("correlation", "share"), [(None, 0.95), (0.5, 0.85)])
def test_most_are_found_and_the_same_again(correlation, share):
    X = np.random.default_rng(1).normal(size=(3000, 18))
    mutation = GaussianMutation(transition="identity").start(X)
    if correlation is not None:
        mutation = GaussianMutation(start_correlation=correlation).start(X)
    exact = nearest_parents(mutation, X, 10)
    found = nearest_parents(mutation, X, 10, "approximate")
    assert all(len(set(row) | {u}) == 11 for u, row in enumerate(found.tolist()))
    kept = [len(np.intersect1d(a, b)) for a, b in zip(exact, found, strict=True)]
    assert np.mean(kept) / 10 > share
    np.testing.assert_array_equal(found, nearest_parents(mutation, X, 10, "approximate"))

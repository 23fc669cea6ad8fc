"""Labels on trees of listed edges: the enumerated posterior of those trees, no other."""

import numpy as np
import pytest

from oracles.labellings import FORMS, enumerate_labels, random_model
from outtrees._common.edges import EdgeList
from outtrees.labels import average_edges, label_posterior, weigh_trees
from outtrees.labels import posterior as posterior_module
from outtrees.labels.choice import neighbourhoods
from outtrees.labels.model import CandidateLabelModel
from outtrees.labels.refitting import AttributeMutations
from outtrees.models import GaussianMutation

KNOWN = np.array([0, -1, 1, -1, -1])
# Two to three possible parents each; 4 is a parent of nobody but 3.
LISTED = [(0, 1), (0, 2), (1, 0), (1, 2), (1, 3), (2, 0), (2, 1), (3, 1), (3, 4), (4, 2), (4, 3)]


def both(seed, C, form, **options):
    """Return a dense model in which only listed edges are possible, and the one with a list."""
    dense = random_model(seed, 5, C, form=form, **options)
    child, parent = np.array(LISTED).T
    barred = np.full_like(dense.log_attributes, -np.inf)
    barred[:, child, parent] = dense.log_attributes[:, child, parent]
    sparse = CandidateLabelModel(
        dense.log_attributes[:, child, parent],
        dense.log_root,
        dense.marginal,
        dense.stickiness,
        dense.sharpness,
        log_fresh=dense.log_fresh,
        child=child,
        parent=parent,
    )
    return dense.with_options(log_attributes=barred), sparse


@pytest.mark.parametrize("form", FORMS)
def test_trees_given_labels(form):
    dense, sparse = both(0, 3, form)
    labels = np.array([0, 2, 2, 1, 0])
    child, parent = np.array(LISTED).T
    expected, found = dense.trees(labels), sparse.trees(labels)
    assert found.log_z == pytest.approx(expected.log_z, abs=1e-12)
    np.testing.assert_allclose(
        found.edge_marginals, expected.edge_marginals[child, parent], atol=1e-12
    )
    trees = found.sample(6, 0)
    inner = trees >= 0 if form != "one" else [True]  # a root's entry means nothing
    np.testing.assert_allclose(sparse.edges(trees)[inner], dense.edges(trees)[inner])


@pytest.mark.parametrize(
    ("form", "leaps"),
    [
        ("two", True),
        ("one", False),
        ("fresh", True),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [("one", True), ("two", False)]),
    ],
)
def test_the_posterior_is_the_enumerated_one(form, leaps, monkeypatch):
    if not leaps:
        monkeypatch.setattr(posterior_module, "_MOST_FOR_OFFERS", 0)
    dense, sparse = both(1, 2, form)
    marginals, edges, log_z, _, _ = enumerate_labels(dense, KNOWN)
    found = label_posterior(sparse, KNOWN, n_chains=4, n_draws=60, random_state=0)
    # Four standard errors; 1e-9 for labels that are known.
    assert np.all(np.abs(found.distributions - marginals) < 4 * found.standard_error + 1e-9)
    assert found.standard_error.max() < 0.1
    assert abs(found.log_z - log_z) < 4 * found.log_z_error
    child, parent = np.array(LISTED).T
    edge, root = average_edges(sparse, found.label_draws[::3])
    # 80 draws of numbers between 0 and 1: an error below 0.05, times three.
    np.testing.assert_allclose(edge, edges[child, parent], atol=0.15)
    assert edge.sum() + root.sum() == pytest.approx(5.0)


def test_weighed_trees():
    dense, sparse = both(2, 3, "one")
    marginals, _, log_z, _, _ = enumerate_labels(dense, KNOWN)
    found = weigh_trees(sparse, KNOWN, 2000, 0)
    # Independent draws of numbers between 0 and 1: an error of at most 0.5 / √n, times four.
    np.testing.assert_allclose(found.marginals, marginals, atol=2 / np.sqrt(found.effective_trees))
    assert abs(found.log_z - log_z) < 4 * found.log_z_error


def test_few_trees_at_a_time_where_records_are_many(monkeypatch):
    monkeypatch.setattr(posterior_module, "_AT_ONCE", 5 * 2 * 3)
    assert posterior_module._at_most(256, both(1, 2, "one")[1]) == 3
    monkeypatch.setattr(posterior_module, "_AT_ONCE", 1)
    assert posterior_module._at_most(256, both(1, 2, "one")[1]) == 2


@pytest.mark.parametrize("classes", [None, np.eye(2)[[0, 1, 0, 1, 0, 1, 0, 1, 0]]])
def test_the_model_of_all_pairs_is_the_dense_one(classes):
    X = np.random.default_rng(0).normal(size=(9, 2))
    mutations = AttributeMutations(GaussianMutation().start(X), classes=classes)
    child, parent = np.argwhere(~np.eye(9, dtype=bool))[np.random.default_rng(1).permutation(72)].T
    marginal = np.array([0.4, 0.6])
    dense = mutations.model(X, marginal, 0.7, 0.5)
    sparse = mutations.model(X, marginal, 0.7, 0.5, EdgeList.of(child, parent, 9))
    labels = np.array([0, 1, 1, 0, 0, 1, 0, 1, 1])
    assert sparse.trees(labels).log_z == pytest.approx(dense.trees(labels).log_z, abs=1e-10)


def test_neighbourhoods():
    T = 400
    ring = EdgeList.of(np.arange(T), (np.arange(T) + 1) % T, T)
    known = np.full(T, -1)
    known[::20] = 0
    rows = neighbourhoods(ring, known, 80, 0)
    assert len(rows) == len(set(rows.tolist())) == 80
    assert (np.diff(rows) > 0).all()
    assert (np.diff(rows) > 1).sum() <= 4  # stretches of the ring, not single records
    assert (known[rows] >= 0).sum() >= 4
    np.testing.assert_array_equal(neighbourhoods(ring, known, 400, 0), np.arange(T))

"""The likeliest parents against all pairs compared; links between clusters."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from outtrees._common.edges import EdgeList
from outtrees.candidates import matrix_search
from outtrees.candidates.matrix_search import (
    joined,
    likeliest_parents,
    nearest_parents,
)
from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    PoissonMutation,
    ProductMutation,
)

RNG = np.random.default_rng(3)
REAL = RNG.normal(size=(60, 2)) @ np.array([[2.0, 0.3], [0.0, 0.5]]) + 100.0
COUNTS = RNG.poisson(3.0, size=(60, 2)).astype(float)
CASES = {
    "gaussian": (GaussianMutation(), REAL),
    "parzen": (GaussianMutation(transition="identity"), REAL),
    "kernel": (KernelMutation(n_landmarks=10), REAL),
    "one local": (MixtureMutation(n_iid=2), REAL),
    "product": (ProductMutation([(GaussianMutation(), [1]), (GaussianMutation(), [0])]), REAL),
    "columns": (ProductMutation(MixtureMutation(n_local=2)), REAL),
    "poisson": (PoissonMutation(), COUNTS),
    "bernoulli": (BernoulliMutation(), (REAL > 100.0).astype(float)),
    "categorical": (CategoricalMutation("full"), np.where(COUNTS > 4, np.nan, COUNTS)),
}


def sorted_densities(mutation, X, table):
    edges = EdgeList.of_table(table)
    log_beta = mutation.log_beta_edges(X, edges.child, edges.parent).reshape(table.shape)
    return np.sort(log_beta, axis=1)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("k", [1, 7, 59, 500])
def test_the_likeliest_are_found(name, k, monkeypatch):
    monkeypatch.setattr(matrix_search, "_PAIRS_AT_ONCE", 600)  # several blocks
    template, X = CASES[name]
    mutation = template.start(X, 0)
    log_beta = mutation.log_conditional(X, X)
    np.fill_diagonal(log_beta, -np.inf)
    k = min(k, 59)
    expected = np.sort(log_beta, axis=1)[:, -k:]
    for search in (nearest_parents, likeliest_parents):
        table = search(mutation, X, k)
        assert table.shape == (60, k)
        assert all(len(set(row) | {u}) == k + 1 for u, row in enumerate(table.tolist()))
        # Equally likely parents are interchangeable, so densities are compared.
        np.testing.assert_allclose(sorted_densities(mutation, X, table), expected, rtol=1e-8)


def test_several_components_miss_next_to_nothing():
    mutation = MixtureMutation(n_iid=1, n_local=2, local=GaussianMutation()).start(REAL, 0)
    table = nearest_parents(mutation, REAL, 8)
    best = sorted_densities(mutation, REAL, likeliest_parents(mutation, REAL, 8))
    found = sorted_densities(mutation, REAL, table)
    assert all(len(set(row) | {u}) == 9 for u, row in enumerate(table.tolist()))
    assert np.exp(found).sum() > 0.999 * np.exp(best).sum()


def test_parents_that_do_not_matter_need_no_search():
    table = nearest_parents(GaussianMutation(transition="zero").start(REAL), REAL, 3)
    np.testing.assert_array_equal(table[58], [59, 0, 1])
    flat = GaussianMutation(start_correlation=0.0).start(REAL)  # all parents map to one place
    np.testing.assert_array_equal(nearest_parents(flat, REAL, 3), table)


def test_duplicates_are_parents_of_each_other():
    X = np.repeat(np.arange(5.0), 8)[:, None]
    mutation = GaussianMutation(transition="identity").start(X)
    table = nearest_parents(mutation, X, 7)
    assert (X[table][:, :, 0] == X).all()
    assert (table != np.arange(40)[:, None]).all()


def test_impossible_parents_fill_up_the_list():
    """At stickiness 1 a record has one possible parent here; the list is as long as any."""
    X = np.array([[0.0], [0.0], [1.0], [1.0], [2.0], [2.0]])
    mutation = CategoricalMutation(start_correlation=1.0).start(X)
    table = nearest_parents(mutation, X, 4)
    assert all(len(set(row) | {u}) == 5 for u, row in enumerate(table.tolist()))
    assert all(u ^ 1 in row for u, row in enumerate(table.tolist()))


# Links -------------------------------------------------------------------------------------


def spans(edges):
    graph = edges.matrix(np.ones(len(edges)))
    n, part = connected_components(graph, directed=True, connection="strong")
    leaving = part[edges.child] != part[edges.parent]
    return len(set(range(n)) - set(part[edges.child[leaving]].tolist())) == 1


@pytest.mark.parametrize("small", [0, 1000], ids=["trees of the others", "more neighbours"])
@pytest.mark.parametrize("name", ["parzen", "gaussian", "two locals", "columns"])
def test_separated_clusters_are_linked(name, small, monkeypatch):
    monkeypatch.setattr(matrix_search._OutsideSearch, "_SMALL", small)
    corners = 80.0 * np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    X = np.concatenate([RNG.normal(size=(12, 2)) + corner for corner in corners])
    template = {
        **{key: case[0] for key, case in CASES.items()},
        "two locals": MixtureMutation(n_iid=1, n_local=2),
    }[name]
    mutation = template.start(X, 0)
    table = nearest_parents(mutation, X, 3)
    edges = joined(mutation, X, table, 2)
    assert spans(edges)
    kept = set(zip(edges.child.tolist(), edges.parent.tolist(), strict=True))
    assert {(u, v) for u, row in enumerate(table.tolist()) for v in row} <= kept
    assert len(kept) == len(edges)  # no edge twice
    if name == "parzen":
        assert not spans(EdgeList.of_table(table))  # else nothing was tested
        links = kept - {(u, v) for u, row in enumerate(table.tolist()) for v in row}
        between = {(u // 12, v // 12) for u, v in links}
        # Along the sides of the square, or inside a cluster whose nearest leave it in parts.
        assert {(a - b) % 4 for a, b in between} <= {0, 1, 3}
        assert any(a != b for a, b in between)

"""The likeliest parents against all pairs compared; links, and samples of others."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from outtrees.candidates import neighbours
from outtrees.candidates import others as others_module
from outtrees.candidates.neighbours import (
    joined,
    likeliest_parents,
    nearest_parents,
    other_parents,
)
from outtrees.candidates.others import OtherParents, _is_in
from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    PoissonMutation,
    ProductMutation,
)
from outtrees.models.edges import EdgeList

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
    monkeypatch.setattr(neighbours, "_PAIRS_AT_ONCE", 600)  # several blocks
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


# Others ------------------------------------------------------------------------------------


def test_others_are_neither_listed_nor_the_record_itself():
    table = nearest_parents(GaussianMutation().start(REAL), REAL, 9)
    others = other_parents(table, RNG.random((60, 12)))
    for u, row in enumerate(others):
        assert not set(row) & (set(table[u]) | {u})
        assert len(set(row)) >= 10  # one from each part, some on a border
        assert row.min() >= 0
        assert row.max() < 60


def test_all_others_if_they_are_few():
    table = nearest_parents(GaussianMutation().start(REAL), REAL, 50)
    others = other_parents(table, RNG.random((60, 9)))
    for u, row in enumerate(others):
        assert sorted([*row, *table[u], u]) == list(range(60))


def test_each_other_is_as_likely():
    table = np.array([[1, 3], [0, 2], [4, 0], [1, 2], [0, 3], [0, 1], [5, 1]])
    counts = np.zeros(7)
    rng = np.random.default_rng(1)
    for _ in range(2000):
        np.add.at(counts, other_parents(table, rng.random((7, 2)))[2], 1)
    expected = np.array([0, 1000, 0, 1000, 0, 1000, 1000])  # 2 of 4, 2000 times
    assert (np.abs(counts - expected) <= 4 * np.sqrt(1000 * 0.5)).all()


# Links -------------------------------------------------------------------------------------


def spans(edges):
    graph = edges.matrix(np.ones(len(edges)))
    n, part = connected_components(graph, directed=True, connection="strong")
    leaving = part[edges.child] != part[edges.parent]
    return len(set(range(n)) - set(part[edges.child[leaving]].tolist())) == 1


@pytest.mark.parametrize("small", [0, 1000], ids=["trees of the others", "more neighbours"])
@pytest.mark.parametrize("name", ["parzen", "gaussian", "two locals", "columns"])
def test_separated_clusters_are_linked(name, small, monkeypatch):
    monkeypatch.setattr(neighbours._OutsideSearch, "_SMALL", small)
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


# Samples that stand for all others -----------------------------------------------------------


@pytest.mark.parametrize("width", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("name", ["parzen", "two locals"])
def test_the_sample_of_others_sums_to_the_right_total(name, width, monkeypatch):
    """Whatever the scale on which densities fall; draws at random alone fail on small ones."""
    monkeypatch.setattr(others_module, "_LEAST", 30)
    X = np.random.default_rng(0).random((600, 2))
    local = GaussianMutation(transition="identity", mutation_cov=np.eye(2) * width**2)
    mutation = local
    if name == "two locals":
        wide = GaussianMutation(transition="identity", mutation_cov=np.eye(2) * (2 * width) ** 2)
        mutation = replace(
            MixtureMutation([local, wide]), parts=(local, wide), log_weights=np.log([0.5, 0.5])
        )
    table = nearest_parents(mutation, X, 10)
    beta = np.exp(mutation.log_conditional(X, X))
    np.fill_diagonal(beta, 0.0)
    near = np.take_along_axis(beta, table, axis=1).sum(axis=1)
    ratios = []
    for seed in range(12):
        drawn = OtherParents(600, 16, seed)
        others, log_each = drawn.drawn(mutation, X, table)
        assert not _is_in(others, table)[log_each > -np.inf].any()
        assert not (others == np.arange(600)[:, None])[log_each > -np.inf].any()
        total = near + (np.take_along_axis(beta, others, axis=1) * np.exp(log_each)).sum(axis=1)
        ratios.append(total / beta.sum(axis=1))
    ratios = np.array(ratios)
    # Rows of a draw share their subsets, so the error of the mean is that of 12 draws.
    error = ratios.mean(axis=1).std(ddof=1) / np.sqrt(12)
    assert abs(ratios.mean() - 1.0) < 4 * error + 0.03
    assert ratios.std() < 0.45
    random_only = (600 - 11) / 16
    far = other_parents(table, np.random.default_rng(1).random((600, 16)))
    plain = near + random_only * np.take_along_axis(beta, far, axis=1).sum(axis=1)
    if width == 0.1:
        assert (plain / beta.sum(axis=1)).std() > 1.5 * ratios.std()


def test_no_others_where_none_are_asked_for_or_left():
    mutation = CASES["parzen"][0].start(REAL)
    for n_others, k in ((0, 5), (9, 59)):
        table = nearest_parents(mutation, REAL, k)
        assert OtherParents(60, n_others, 0).drawn(mutation, REAL, table)[0].shape == (60, 0)
    table = nearest_parents(mutation, REAL, 55)
    others, log_each = OtherParents(60, 9, 0).drawn(mutation, REAL, table)
    assert others.shape == (60, 4)  # all that are left, each for itself
    assert (log_each == 0).all()

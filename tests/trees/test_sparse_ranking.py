"""The k best trees of a list of edges, against enumeration, the dense engine and the definition."""

import numpy as np
import pytest

from outtrees import NoSpanningTreeError, OutTreeDistribution
from outtrees.trees import engine
from trees.test_sparse import ROOTS, Sparse, dated, nearest


def enumerated(trees):
    """Return every parents array of probability above 0, by trying all."""
    possible = [
        [int(v) for v in trees.parent[trees.child == u]] + [-1] for u in range(trees.n_records)
    ]
    grids = np.meshgrid(*possible, indexing="ij")
    all_of_them = np.stack([grid.ravel() for grid in grids], axis=1)
    log_probs = trees.log_prob(all_of_them)
    possible_ones = log_probs > -np.inf
    return dict(
        zip(map(tuple, all_of_them[possible_ones].tolist()), log_probs[possible_ones], strict=True)
    )


@pytest.mark.parametrize("roots", ROOTS)
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_all_trees_in_order(roots, spread):
    """Asked for more trees than there are, it returns each once; with components of all sizes."""
    rng = np.random.default_rng(5)
    checked = 0
    while checked < 12:
        T = int(rng.integers(2, 7))
        pairs = np.argwhere((rng.random((T, T)) < 0.5) & ~np.eye(T, dtype=bool))
        log_weight = rng.normal(size=len(pairs)) * spread
        log_weight[rng.random(len(pairs)) < 0.1] = -np.inf
        log_root = np.where(rng.random(T) < 0.3, -np.inf, rng.normal(size=T) * spread)
        try:
            trees = Sparse(*pairs.T, log_weight, log_root, roots=roots)
        except NoSpanningTreeError:
            continue
        expected = enumerated(trees)
        found = trees.best(len(expected) + 5)
        assert {tuple(tree.parents.tolist()) for tree in found} == set(expected)
        assert len(found) == len(expected)
        log_probs = [tree.log_prob for tree in found]
        np.testing.assert_allclose(
            log_probs, sorted(expected.values(), reverse=True), atol=1e-9 * spread
        )
        assert log_probs == sorted(log_probs, reverse=True)
        for k in (1, 2, 4):
            first = [tree.log_prob for tree in trees.best(k)]
            np.testing.assert_allclose(first, log_probs[:k], atol=1e-9 * spread)
        checked += 1


GRAPHS = {
    "neighbours": lambda rng: nearest(rng, 60, 5),
    "dates": lambda rng: dated(rng, 60, 3, 0),
    "ties": lambda rng: dated(rng, 60, 3, 2),
}


@pytest.mark.parametrize("roots", ROOTS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_equal_to_dense(graph, roots):
    rng = np.random.default_rng(3)
    ends, log_root = GRAPHS[graph](rng), rng.normal(size=60)
    if graph == "neighbours":  # all can descend from each other
        around = np.arange(60), np.roll(np.arange(60), 1), np.full(60, -9.0)
        ends = tuple(np.append(values, more) for values, more in zip(ends, around, strict=True))
        _, kept = np.unique(ends[0] * 60 + ends[1], return_index=True)
        ends = tuple(values[kept] for values in ends)
    fast = Sparse(*ends, log_root, roots=roots)
    dense = OutTreeDistribution.from_candidates(*ends, log_root, roots=roots, method="dense")
    found, expected = fast.best(40), dense.best(40)
    np.testing.assert_allclose(
        [tree.log_prob for tree in found], [tree.log_prob for tree in expected], atol=1e-9
    )
    for tree, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(tree.parents, other.parents)


def test_groups_and_ties():
    """Two groups of three records, all trees alike: 9 × 9 of them, each once."""
    pairs = [(u, v) for u in range(6) for v in range(6) if u != v and u // 3 == v // 3]
    trees = Sparse(*np.array(pairs).T, np.zeros(12), np.zeros(6), groups=[0, 0, 0, 1, 1, 1])
    found = trees.best(100)
    assert len({tuple(tree.parents) for tree in found}) == len(found) == 81
    np.testing.assert_allclose([tree.log_prob for tree in found], -np.log(81), atol=1e-12)


def test_records_without_edges():
    assert [tree.parents.tolist() for tree in Sparse([], [], [], [0.0]).best(3)] == [[-1]]
    only = Sparse([], [], [], np.zeros(3), roots="any")
    assert [tree.parents.tolist() for tree in only.best(3)] == [[-1, -1, -1]]


@pytest.mark.parametrize("ties", [0, 4])
def test_many_records(monkeypatch, ties):
    """No array of all pairs; and the second is the best of what lacks an edge of the first."""
    monkeypatch.setattr(engine, "DenseGroups", None)
    T = 20_000
    child, parent, log_weight = dated(np.random.default_rng(1), T, 4, ties)
    log_root = np.where(np.arange(T) == 0, 0.0, -np.inf)
    trees = OutTreeDistribution.from_candidates(child, parent, log_weight, log_root)
    assert trees.method == "sparse"
    found = trees.best(6)
    np.testing.assert_array_equal(found[0].parents, trees.mode().parents)
    log_probs = [tree.log_prob for tree in found]
    assert log_probs == sorted(log_probs, reverse=True)
    assert len({tree.parents.tobytes() for tree in found}) == 6
    for tree in found:
        assert tree.log_prob == pytest.approx(trees.log_prob(tree.parents), abs=1e-9)
    assert (found[0].parents != found[1].parents).sum() < 20

"""The certificate of the best tree, and ranking at sizes enumeration does not reach."""

from dataclasses import replace

import numpy as np
import pytest

from oracles.enumeration import EnumeratedDistribution
from oracles.weightings import clusters, random_weights
from outtrees import OutTreeDistribution
from outtrees.trees import arborescence
from outtrees.trees.arborescence import best_arborescence
from outtrees.trees.parents import are_out_trees
from outtrees.trees.probabilities import settled


def groups_of(best, node):
    group = node
    while group >= 0:
        yield group
        group = int(best.inside[group])


@pytest.mark.parametrize(
    "make", [random_weights, lambda rng, T: clusters(rng, (T // 2, T // 2), 9)]
)
@pytest.mark.parametrize("T", [6, 30, 80])
def test_the_gains_prove_that_no_tree_is_better(make, T):
    """Dual feasibility, edge by edge: the gains of the groups an edge enters pay for it.

    With contracted groups' gains at most 0, the sum of gains then bounds every tree's weight.
    """
    rng = np.random.default_rng(T)
    weight, root_weight = make(rng, T)
    best = best_arborescence(weight, root_weight)
    chains = [list(groups_of(best, u)) for u in range(T)]
    for u in range(T):
        for v in range(T):
            if u != v:
                entered = [g for g in chains[u] if g not in chains[v]]
                assert best.gain[entered].sum() >= weight[u, v] - 1e-9
        # A root edge enters every group; the outermost holds all records.
        assert best.gain[chains[u]].sum() >= root_weight[u] - 1e-9
    outermost = chains[0][-1]
    inner = [g for g in range(T, len(best.gain)) if g != outermost]
    assert (best.gain[inner] <= 1e-12).all()
    assert best.weight == pytest.approx(best.bound, abs=1e-9)


def test_one_root_however_dear():
    """The single root is a constraint, not a price: no weight buys a second one."""
    log_beta = np.full((4, 4), -1e9)
    dist = OutTreeDistribution(log_beta, np.full(4, 1e9))
    assert (dist.mode().parents == -1).sum() == 1
    assert (dist.consensus().parents == -1).sum() == 1
    assert (dist.sample(20, 0) == -1).sum() == 20
    free = OutTreeDistribution(log_beta, np.full(4, 1e9), roots="any")
    assert (free.mode().parents == -1).all()


@pytest.mark.parametrize("roots", ["single", "any"])
def test_best_is_ordered_and_complete(roots):
    """No sampled tree beats the ranking, and none of its rank is missing."""
    dist = OutTreeDistribution(*clusters(np.random.default_rng(1), (6, 6), 4), roots=roots)
    best = dist.best(60)
    log_probs = [tree.log_prob for tree in best]
    assert log_probs == sorted(log_probs, reverse=True)
    ranked = {tuple(tree.parents) for tree in best}
    assert len(ranked) == 60
    trees = np.array(list(ranked))
    assert are_out_trees(trees, single_root=roots == "single").all()
    for tree in np.unique(dist.sample(5_000, 0), axis=0):
        assert tuple(tree) in ranked or dist.log_prob(tree) <= log_probs[-1] + 1e-9


def test_ties():
    """All nine trees of three records are equally good; all are returned once."""
    trees = OutTreeDistribution(np.zeros((3, 3))).best(20)
    assert len({tuple(tree.parents) for tree in trees}) == len(trees) == 9


def test_best_needs_a_number():
    with pytest.raises(ValueError, match="k must be an integer of at least 1; got 0"):
        OutTreeDistribution([[0.0]]).best(0)


def test_checks_on_our_own_results_can_fail(monkeypatch):
    with pytest.raises(ArithmeticError, match=r"a probability came out as -0\.1"):
        settled(np.array([1.1, -0.1]), 2)
    wrong = replace(best_arborescence(np.array([[-np.inf]]), np.zeros(1)), bound=1.0)
    monkeypatch.setattr(arborescence, "best_arborescence", lambda *_: wrong)
    with pytest.raises(ArithmeticError, match=r"weighs 0\.0 but the bound is 1\.0"):
        arborescence.certified_arborescence(np.array([[-np.inf]]), np.zeros(1))


@pytest.mark.parametrize("engine", ["matrix", "dense", "sparse"])
@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("seed", range(6))
def test_ties_list_every_tree_once(engine, roots, seed):
    """Of trees that weigh the same none is repeated, so none is missing."""
    rng = np.random.default_rng(seed)
    T = 3 if seed == 0 else 4
    log_beta = -rng.integers(2, size=(T, T)).astype(float)
    log_root = -rng.integers(2, size=T).astype(float)
    if seed == 0:
        log_beta, log_root = [[-1, 0, -1], [-1, 0, 0], [-1, 0, 0]], [0, -1, 0]
    log_beta = np.array(log_beta, dtype=float)
    np.fill_diagonal(log_beta, -np.inf)
    slow = EnumeratedDistribution(log_beta, np.array(log_root, dtype=float), roots=roots)
    if engine == "matrix":
        dist = OutTreeDistribution(log_beta, log_root, roots=roots)
    else:
        child, parent = np.nonzero(log_beta > -np.inf)
        dist = OutTreeDistribution.from_candidates(
            child, parent, log_beta[child, parent], log_root, roots=roots, method=engine
        )
    found = dist.best(len(slow.trees) + 1)
    assert sorted(map(tuple, slow.trees.tolist())) == sorted(
        tuple(tree.parents.tolist()) for tree in found
    )
    expected = np.sort(slow.log_weights - slow.log_z)[::-1]
    np.testing.assert_allclose([tree.log_prob for tree in found], expected, rtol=0, atol=1e-12)


def test_ties_are_served_in_the_order_they_were_found():
    """So that the same weights give the same list on every machine, and longer lists go on."""
    dist = OutTreeDistribution(np.zeros((3, 3)))
    found = [tuple(tree.parents.tolist()) for tree in dist.best(9)]
    assert found == [
        *((-1, 0, 0), (1, -1, 0), (2, 0, -1), (-1, 2, 0), (1, 2, -1)),
        *((1, -1, 1), (-1, 0, 1), (2, 2, -1), (2, -1, 1)),
    ]
    assert [tuple(tree.parents.tolist()) for tree in dist.best(4)] == found[:4]

"""Mixtures of distributions over trees: against every tree with its mixed probability."""

import numpy as np
import pytest
from scipy import stats

from oracles.enumeration import EnumeratedDistribution
from oracles.weightings import random_weights
from outtrees import NoSpanningTreeError, OutTreeDistribution
from outtrees.trees.mixture import OutTreeMixture

ROOTS = ["single", "any"]


class EveryTree:
    """The mixed law written out: each tree's probability is the weighted mean of the parts'."""

    def __init__(self, parts, weights, keep=None):
        self.trees = parts[0].trees
        p = np.array([part.probabilities for part in parts])
        joint = (np.asarray(weights) / np.sum(weights))[:, None] * p
        if keep is not None:  # Bayes' rule over parts and trees at once
            joint = joint * keep(self.trees)
        self.weights = joint.sum(axis=1) / joint.sum()
        self.p = joint.sum(axis=0) / joint.sum()

    def edge(self, u, v):
        return self.p[self.trees[:, u] == v].sum()

    def roots(self):
        return self.p @ (self.trees < 0)

    def number_of_roots(self):
        return np.bincount((self.trees < 0).sum(axis=1), self.p)

    def best_right(self):
        """Return the largest expected number of right parents among all trees."""
        T = self.trees.shape[1]
        chance = np.array([[self.edge(u, v) for v in [*range(T), -1]] for u in range(T)])
        return chance[np.arange(T), self.trees].sum(axis=1).max()


def problem(seed, roots, T=4, n=3, scale=1.5):
    """Return a mixture over all edges in a random order, and its slow twin."""
    rng = np.random.default_rng(seed)
    weighted = [random_weights(rng, T, scale) for _ in range(n)]
    weights = rng.gamma(1.0, size=n) + 0.05
    child, parent = np.nonzero(~np.eye(T, dtype=bool))
    order = rng.permutation(len(child))
    child, parent = child[order], parent[order]
    parts = [
        OutTreeDistribution.from_candidates(child, parent, b[child, parent], r, roots=roots)
        for b, r in weighted
    ]
    slow = [EnumeratedDistribution(b, r, roots) for b, r in weighted]
    return OutTreeMixture(parts, weights), slow, weights


def assert_same_law(mixture, slow):
    part = mixture.parts[0]
    right = [slow.edge(u, v) for u, v in zip(part.child, part.parent, strict=True)]
    np.testing.assert_allclose(mixture.edge_marginals, right, atol=1e-12)
    np.testing.assert_allclose(mixture.root_marginals, slow.roots(), atol=1e-12)
    chances, right = mixture.number_of_roots(), slow.number_of_roots()
    T = mixture.n_records
    np.testing.assert_allclose(
        np.pad(chances, (0, T + 1 - len(chances))),
        np.pad(right, (0, T + 1 - len(right))),
        atol=1e-12,
    )
    for tree, p in zip(slow.trees[::7], slow.p[::7], strict=True):
        if p > 0:
            assert mixture.log_prob(tree) == pytest.approx(np.log(p), abs=1e-9)
    np.testing.assert_allclose(mixture.weights, slow.weights, atol=1e-12)


@pytest.mark.parametrize("roots", ROOTS)
def test_against_every_tree(roots):
    for seed in range(8):
        mixture, parts, weights = problem(seed, roots)
        assert_same_law(mixture, EveryTree(parts, weights))
        assert mixture.weights.sum() == pytest.approx(1.0)
        assert mixture.n_records == 4


@pytest.mark.parametrize("roots", ROOTS)
def test_one_tree_for_each_part_would_be_another_law(roots):
    """The tests here can fail: the law of the averaged log-weights is not the mixture's."""
    mixture, parts, weights = problem(0, roots)
    share = weights / weights.sum()
    mean = EnumeratedDistribution(
        sum(s * p.log_beta for s, p in zip(share, parts, strict=True)),
        sum(s * p.log_root for s, p in zip(share, parts, strict=True)),
        roots,
    )
    with pytest.raises(AssertionError):
        assert_same_law(mixture, EveryTree([mean] * 3, weights))


@pytest.mark.parametrize("roots", ROOTS)
def test_what_is_known_changes_trees_and_weights(roots):
    """Bayes' rule over parts and trees: parents, excluded parents, a root, one after another."""
    for seed in range(8):
        mixture, parts, weights = problem(seed, roots)
        cases = [
            ({"parent": {1: 2}}, lambda t: t[:, 1] == 2),
            ({"parent": {1: 2, 0: 3}}, lambda t: (t[:, 1] == 2) & (t[:, 0] == 3)),
            ({"not_parent": [(1, 2), (3, 0)]}, lambda t: (t[:, 1] != 2) & (t[:, 3] != 0)),
            ({"root": 2}, lambda t: t[:, 2] < 0),
            (
                {"parent": {1: 2}, "not_parent": iter([(3, 0)])},
                lambda t: (t[:, 1] == 2) & (t[:, 3] != 0),
            ),
        ]
        for known, keep in cases:
            assert_same_law(mixture.given(**known), EveryTree(parts, weights, keep))
        twice = mixture.given(parent={1: 2}).given(not_parent=[(3, 0)])
        assert_same_law(twice, EveryTree(parts, weights, lambda t: (t[:, 1] == 2) & (t[:, 3] != 0)))
        assert abs(twice.weights - mixture.weights).max() > 1e-4  # or nothing was learned


def two_stories():
    """Return parts of which one says 0 → 1 → 2 and the other 0 → 2, 0 → 1, some edges forbidden."""
    edges = [1, 2, 2], [0, 0, 1]
    root = [0.0, -np.inf, -np.inf]
    one = OutTreeDistribution.from_candidates(*edges, [0.0, -np.inf, 0.0], root)
    other = OutTreeDistribution.from_candidates(*edges, [0.0, 0.0, -np.inf], root)
    return OutTreeMixture([one, other], [1.0, 1.0])


def test_a_part_that_cannot_be_drops_out():
    mixture = two_stories()
    known = mixture.given(parent={2: 1})
    np.testing.assert_allclose(known.edge_marginals, [1.0, 0.0, 1.0], atol=1e-12)
    assert len(known.parts) == 1
    with pytest.raises(NoSpanningTreeError):
        known.given(parent={2: 0})
    with pytest.raises(NoSpanningTreeError):
        mixture.given(not_parent=[(2, 0), (2, 1)])


def test_parts_that_hardly_count_stay_quiet():
    """Weights below the smallest double: no warning, no number lost."""
    edges = [1, 2, 2], [0, 0, 1]
    root = [0.0, -np.inf, -np.inf]
    parts = [
        OutTreeDistribution.from_candidates(*edges, [0.0, -2000.0, 0.0], root),
        OutTreeDistribution.from_candidates(*edges, [0.0, 0.0, 0.0], root),
    ]
    known = OutTreeMixture(parts, [0.5, 0.5]).given(parent={2: 0})
    np.testing.assert_allclose(known.edge_marginals, [1.0, 1.0, 0.0], atol=1e-12)
    assert known.log_prob(np.array([-1, 0, 0])) == pytest.approx(0.0, abs=1e-12)
    assert known.given(root=0).weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("roots", ROOTS)
def test_samples_have_the_mixed_probabilities(roots):
    mixture, parts, weights = problem(3, roots, scale=0.7)
    slow = EveryTree(parts, weights)
    drawn = mixture.sample(6000, random_state=0)
    assert drawn.shape == (6000, 4)
    place = {tuple(tree): i for i, tree in enumerate(slow.trees.tolist())}
    counts = np.bincount([place[tuple(t)] for t in drawn.tolist()], minlength=len(slow.p))
    expected = 6000 * slow.p
    rare = expected < 5
    found = np.append(counts[~rare], counts[rare].sum())
    right = np.append(expected[~rare], expected[rare].sum())
    statistic = ((found - right) ** 2 / np.maximum(right, 1e-9)).sum()
    assert stats.chi2.sf(statistic, len(right) - 1) > 1e-4
    # In no order: the first half has the parts of the second.
    half = [np.mean(part[:, 1] == 2) for part in (drawn[:3000], drawn[3000:])]
    assert half[0] == pytest.approx(half[1], abs=4.5 * 0.5 / np.sqrt(1500))
    np.testing.assert_array_equal(drawn, mixture.sample(6000, random_state=0))


@pytest.mark.parametrize("roots", ROOTS)
def test_the_consensus_has_the_most_expected_right_parents(roots):
    for seed in range(10):
        mixture, parts, weights = problem(seed, roots)
        slow, found = EveryTree(parts, weights), mixture.consensus()
        assert found.expected_right == pytest.approx(slow.best_right(), abs=1e-12)
        listed = [slow.edge(u, v) for u, v in enumerate(found.parents)]
        assert sum(listed) == pytest.approx(found.expected_right, abs=1e-12)


@pytest.mark.parametrize("roots", ROOTS)
def test_the_mode_is_the_best_of_the_parts_best_trees(roots):
    """As documented: not always the most probable tree of all, but its probability is its own."""
    missed = 0
    for seed in range(30):
        mixture, parts, weights = problem(seed, roots)
        slow, found = EveryTree(parts, weights), mixture.mode()
        place = {tuple(tree): i for i, tree in enumerate(slow.trees.tolist())}
        best = [int(part.log_weights.argmax()) for part in parts]
        assert found.log_prob == pytest.approx(np.log(slow.p[best].max()), abs=1e-9)
        assert place[tuple(found.parents.tolist())] in best
        missed += slow.p[best].max() < slow.p.max() - 1e-12
    assert 0 < missed < 15


def test_groups_have_a_tree_each():
    """Two groups: the consensus knows them, and so does what is known later."""
    edges = [1, 0, 3, 2], [0, 1, 2, 3]
    groups = np.array([0, 0, 1, 1])
    parts = [
        OutTreeDistribution.from_candidates(*edges, w, np.zeros(4), groups=groups)
        for w in ([2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 3.0, 0.0])
    ]
    mixture = OutTreeMixture(parts, [2.0, 1.0], groups)
    np.testing.assert_allclose(mixture.root_marginals.sum(), 2.0)
    found = mixture.consensus()
    assert (found.parents < 0).sum() == 2
    known = mixture.given(parent={0: 1})
    assert known.edge_marginals[1] == pytest.approx(1.0)
    assert (known.consensus().parents < 0).sum() == 2

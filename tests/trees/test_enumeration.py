"""Everything the distribution says, against all out-trees one by one."""

import numpy as np
import pytest

from oracles import enumeration
from oracles.enumeration import EnumeratedDistribution, all_trees
from oracles.weightings import clusters, random_weights
from outtrees import NoSpanningTreeError, OutTreeDistribution
from outtrees.trees.support import edge_is_possible

ROOTS = ["single", "any"]


def relative(found, right):
    return np.max(np.abs(found - right) / np.maximum(1.0, np.abs(right)), initial=0.0)


def agree(log_beta, log_root, roots, k=12):
    """Assert that every answer equals enumeration's; return whether any tree exists."""
    slow = EnumeratedDistribution(log_beta, log_root, roots)
    if np.isneginf(slow.log_weights).all():
        with pytest.raises(NoSpanningTreeError):
            OutTreeDistribution(log_beta, log_root, roots=roots)
        return False
    fast = OutTreeDistribution(log_beta, log_root, roots=roots)
    # A log-weight of size L is itself rounded to 1e-16 L, in enumeration as everywhere, and so is
    # every probability made from it: 1e-12 can be asked for up to about L = 1000.
    size = np.abs(slow.log_weights[slow.log_weights > -np.inf]).max()
    tolerance = 1e-12 * max(1.0, size / 1000)
    assert relative(fast.log_z, slow.log_z) <= 1e-12
    possible = slow.log_z_rooted > -np.inf
    np.testing.assert_array_equal(fast.log_z_rooted > -np.inf, possible)
    assert relative(fast.log_z_rooted[possible], slow.log_z_rooted[possible]) <= 1e-12
    assert np.abs(fast.edge_marginals - slow.edge_marginals).max() <= tolerance
    assert np.abs(fast.root_marginals - slow.root_marginals).max() <= tolerance
    assert fast.edge_marginals.min() >= 0.0
    total = fast.edge_marginals.sum(axis=1) + fast.root_marginals
    assert np.abs(total - 1.0).max() <= 1e-14
    assert abs(fast.entropy - slow.entropy) <= tolerance * max(1.0, slow.entropy)
    if roots == "any":
        assert np.abs(fast.number_of_roots() - slow.number_of_roots()).max() <= tolerance

    ranked = np.sort(slow.log_weights[slow.log_weights > -np.inf])[::-1] - slow.log_z
    best = fast.best(k)
    assert len(best) == min(k, len(ranked))
    assert relative(np.array([tree.log_prob for tree in best]), ranked[:k]) <= tolerance
    assert len({tuple(tree.parents) for tree in best}) == len(best)
    for tree in [*best, fast.mode()]:
        assert fast.log_prob(tree.parents) == pytest.approx(tree.log_prob, abs=tolerance)
    assert relative(fast.mode().log_prob, ranked[0]) <= tolerance
    consensus = fast.consensus()
    assert abs(consensus.expected_right - slow.expected_right()) <= 5 * tolerance
    assert fast.log_prob(consensus.parents) > -np.inf
    return True


@pytest.mark.parametrize("roots", ROOTS)
@pytest.mark.parametrize(("T", "cases"), [(1, 20), (2, 150), (3, 120), (4, 120), (5, 60), (6, 15)])
def test_random_weights(T, cases, roots):
    rng = np.random.default_rng(100 * T + len(roots))
    for case in range(cases):
        scale = [0.0, 0.1, 1.0, 5.0, 50.0, 400.0][case % 6]
        assert agree(*random_weights(rng, T, scale), roots)


@pytest.mark.parametrize("roots", ROOTS)
@pytest.mark.parametrize(("T", "cases"), [(1, 20), (2, 100), (3, 150), (4, 150), (5, 60), (6, 10)])
def test_forbidden_edges_and_roots(T, cases, roots):
    rng = np.random.default_rng(200 * T + len(roots))
    possible = 0
    for case in range(cases):
        share = [0.1, 0.3, 0.5, 0.7][case % 4]
        possible += agree(*random_weights(rng, T, [1.0, 30.0][case % 2], share), roots)
    assert 0 < possible < cases or T == 6


@pytest.mark.parametrize("roots", ROOTS)
@pytest.mark.parametrize("separation", [3, 30, 300, 3000])
def test_separated_clusters(separation, roots):
    rng = np.random.default_rng(separation)
    for sizes in [(2, 2), (3, 2), (1, 2, 2), (1, 1, 1, 1)]:
        assert agree(*clusters(rng, sizes, separation), roots)


@pytest.mark.parametrize("roots", ROOTS)
def test_kl(roots):
    rng = np.random.default_rng(7)
    infinite = 0
    for case in range(200):
        T = int(rng.integers(1, 6))
        share = [0.0, 0.3][case % 2]
        pair = [random_weights(rng, T, 2.0, share) for _ in range(2)]
        slow = [EnumeratedDistribution(*weights, roots) for weights in pair]
        if any(np.isneginf(s.log_weights).all() for s in slow):
            continue
        fast = [OutTreeDistribution(*weights, roots=roots) for weights in pair]
        right = slow[0].kl(slow[1])
        infinite += np.isinf(right)
        assert fast[0].kl(fast[1]) == pytest.approx(right, abs=1e-12)
        assert abs(fast[0].kl(fast[0])) <= 1e-12
    assert infinite > 10


def test_kl_is_infinite_however_rare_the_tree():
    """An edge or root of probability e^-800 that the other forbids; its marginal is 0."""
    log_beta = np.zeros((3, 3))
    log_beta[2, 1] = -800.0
    forbids = log_beta.copy()
    forbids[2, 1] = -np.inf
    assert OutTreeDistribution(log_beta).kl(OutTreeDistribution(forbids)) == np.inf
    rare = OutTreeDistribution(np.zeros((2, 2)), [0.0, -800.0])
    assert rare.kl(OutTreeDistribution(np.zeros((2, 2)), [0.0, -np.inf])) == np.inf


def test_kl_is_finite_where_only_impossible_edges_are_forbidden():
    """The graph decides, not the trace that rounding leaves: against enumeration."""
    rng = np.random.default_rng(11)
    impossible = 0
    for _ in range(150):
        T = int(rng.integers(3, 6))
        log_beta, log_root = random_weights(rng, T, 2.0, 0.5)
        slow = EnumeratedDistribution(log_beta, log_root)
        if np.isneginf(slow.log_weights).all():
            continue
        dist = OutTreeDistribution(log_beta, log_root)
        used = slow.edge_marginals > 0
        allowed = np.nonzero(dist.log_beta > -np.inf)
        may_be_root = np.isfinite(dist.log_root) & np.isfinite(dist.log_z_rooted)
        for u, v in np.argwhere(log_beta > -np.inf):
            assert edge_is_possible(*allowed, may_be_root, u, v) == used[u, v]
            if not used[u, v]:
                impossible += 1
                assert dist.kl(dist.given(not_parent=[(u, v)])) == pytest.approx(0.0, abs=1e-12)
    assert impossible > 50


@pytest.mark.parametrize("roots", ROOTS)
def test_given_is_enumeration_restricted(roots):
    rng = np.random.default_rng(8)
    checked = 0
    for _ in range(150):
        T = int(rng.integers(2, 6))
        log_beta, log_root = random_weights(rng, T, 2.0)
        u, v, w, x = (int(i) for i in rng.integers(T, size=4))
        r = int(rng.integers(T))
        slow = EnumeratedDistribution(log_beta, log_root, roots)
        trees = slow.trees
        keep = (trees[:, w] != x) & (trees[:, r] == -1)
        known = {}
        if u != v:
            known = {u: v}
            keep &= trees[:, u] == v
        p = slow.probabilities * keep
        fast = OutTreeDistribution(log_beta, log_root, roots=roots)
        if not keep.any():
            with pytest.raises((NoSpanningTreeError, ValueError)):
                fast.given(parent=known, not_parent=[(w, x)], root=r)
            continue
        conditioned = fast.given(parent=known, not_parent=[(w, x)], root=r)
        checked += 1
        assert conditioned.log_z - fast.log_z == pytest.approx(np.log(p.sum()), abs=1e-12)
        for a in range(T):
            for b in range(T):
                right = p[trees[:, a] == b].sum() / p.sum()
                assert conditioned.edge_marginals[a, b] == pytest.approx(right, abs=1e-12)
    assert checked > 60


def test_given_a_root_written_as_a_parent():
    dist = OutTreeDistribution(np.zeros((4, 4)), roots="any")
    assert dist.given(parent={2: -1}).log_z == pytest.approx(dist.given(root=2).log_z)
    assert dist.given(not_parent=[(2, -1)]).root_marginals[2] == 0.0


def test_expectation():
    rng = np.random.default_rng(9)
    log_beta, log_root = random_weights(rng, 5)
    values = rng.normal(size=(5, 5))
    slow = EnumeratedDistribution(log_beta, log_root)
    sums = [sum(values[u, v] for u, v in enumerate(tree) if v >= 0) for tree in slow.trees]
    values[np.diag_indices(5)] = np.nan  # ignored
    fast = OutTreeDistribution(log_beta, log_root).expectation(values)
    assert fast == pytest.approx(slow.probabilities @ np.array(sums), abs=1e-12)


def test_log_prob_of_what_is_no_tree():
    dist = OutTreeDistribution(np.zeros((3, 3)))
    trees = [[-1, 0, 1], [1, 0, -1], [-1, -1, 0], [1, 2, 0]]
    np.testing.assert_allclose(dist.log_prob(trees), [-np.log(9), -np.inf, -np.inf, -np.inf])
    forest = OutTreeDistribution(np.zeros((3, 3)), roots="any")
    np.testing.assert_allclose(forest.log_prob(trees)[2], -np.log(16))


@pytest.mark.parametrize("T", range(1, 7))
def test_number_of_trees(T):
    assert len(all_trees(T)) == T ** (T - 1)
    assert len(all_trees(T, "any")) == (T + 1) ** (T - 1)


def test_the_papers_formulas_where_they_are_well_conditioned():
    rng = np.random.default_rng(10)
    for T in (2, 4, 6, 25):
        log_beta, log_root = random_weights(rng, T, 0.5)
        beta, root = np.exp(log_beta), np.exp(log_root)
        dist = OutTreeDistribution(log_beta, log_root)
        for formula in (
            enumeration.log_z_by_cofactors,
            enumeration.log_z_by_determinant,
            enumeration.log_z_by_svd,
        ):
            assert formula(beta, root) == pytest.approx(dist.log_z, abs=1e-10)
        inverse = enumeration.edge_marginals_by_inverse(beta, root)
        assert np.abs(inverse - dist.edge_marginals).max() <= 1e-11


def test_a_constant_added_to_a_row_costs_no_digit_of_a_probability():
    rng = np.random.default_rng(12)
    log_beta = np.round(rng.normal(size=(30, 30)) * 2**20) / 2**20  # so that adding 1e6 is exact
    log_root = np.zeros(30)
    dist = OutTreeDistribution(log_beta, log_root)
    moved = OutTreeDistribution(log_beta + 1e6, log_root + 1e6)
    tree = dist.sample(1, 0)[0]
    assert moved.log_prob(tree) == pytest.approx(dist.log_prob(tree), abs=1e-12)

"""Trees over a list of possible edges: against the dense distribution and every forest."""

from functools import partial
from itertools import product
from math import prod

import numpy as np
import pytest
from scipy import stats

from oracles.weightings import random_weights
from outtrees import NoSpanningTreeError, OutTreeDistribution
from outtrees.errors import InvalidWeightsError
from outtrees.trees.parents import are_out_trees

ROOTS = ["single", "any"]


@pytest.fixture(params=["dense", "sparse"])
def make(request):
    """Both ways of solving a list answer every test."""
    return partial(OutTreeDistribution.from_candidates, method=request.param)


def listed(log_beta, rng=None):
    """Return the edges above −inf (child, parent, log-weight), in a random order."""
    child, parent = np.nonzero(log_beta > -np.inf)
    if rng is not None:
        order = rng.permutation(len(child))
        child, parent = child[order], parent[order]
    return child, parent, log_beta[child, parent]


class EveryForest:
    """All assignments of parents whose parts in each group are out-trees (or forests)."""

    def __init__(self, log_beta, log_root, groups, roots):
        T = len(log_root)
        choices = [[-1, *[v for v in range(T) if log_beta[u, v] > -np.inf]] for u in range(T)]
        trees = np.array(list(product(*choices)), dtype=np.intp)
        keep = np.ones(len(trees), dtype=bool)
        for group in np.unique(groups):
            members = np.flatnonzero(groups == group)
            place = np.full(T + 1, -1)
            place[members] = np.arange(len(members))
            keep &= are_out_trees(place[trees[:, members]], single_root=roots == "single")
        weights = np.column_stack([log_beta, log_root])
        self.trees = trees[keep]
        self.log_weights = weights[np.arange(T), self.trees].sum(axis=1)
        self.possible = self.log_weights > -np.inf
        if self.possible.any():
            self.log_z = np.logaddexp.reduce(self.log_weights)
            self.p = np.exp(self.log_weights - self.log_z)

    def chance(self, u, v):
        return self.p[self.trees[:, u] == v].sum()


def two_groups(seed, forbidden=0.0):
    rng = np.random.default_rng(seed)
    T = int(rng.integers(2, 6))
    groups = rng.permutation(np.append([3, 7], rng.choice([3, 7], size=T - 2)))
    log_beta, log_root = random_weights(rng, T, 1.5, forbidden)
    log_beta[groups[:, None] != groups[None, :]] = -np.inf
    return rng, groups, log_beta, log_root


@pytest.mark.parametrize("roots", ROOTS)
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_two_groups_against_every_forest(roots, forbidden, make):
    possible = 0
    for seed in range(40):
        rng, groups, log_beta, log_root = two_groups(seed, forbidden)
        T = len(groups)
        slow = EveryForest(log_beta, log_root, groups, roots)
        child, parent, log_weight = listed(log_beta, rng)
        arguments = (child, parent, log_weight, log_root)
        if not slow.possible.any():
            with pytest.raises(NoSpanningTreeError):
                make(*arguments, groups=groups, roots=roots)
            continue
        possible += 1
        fast = make(*arguments, groups=groups, roots=roots)
        assert fast.log_z == pytest.approx(slow.log_z, abs=1e-11)
        edges = [slow.chance(u, v) for u, v in zip(child, parent, strict=True)]
        np.testing.assert_allclose(fast.edge_marginals, edges, atol=1e-12)
        alone = [slow.chance(u, -1) for u in range(T)]
        np.testing.assert_allclose(fast.root_marginals, alone, atol=1e-12)
        p = slow.p[slow.p > 0]
        assert fast.entropy == pytest.approx(-(p * np.log(p)).sum(), abs=1e-10)
        counts = np.bincount((slow.trees < 0).sum(axis=1), slow.p, minlength=T + 1)
        found = fast.number_of_roots()
        np.testing.assert_allclose(np.pad(found, (0, T + 1 - len(found))), counts, atol=1e-11)

        mode = fast.mode()
        assert mode.log_prob == pytest.approx(np.log(slow.p.max()), abs=1e-10)
        assert mode.log_prob == pytest.approx(log_prob(slow, mode.parents), abs=1e-10)
        consensus = fast.consensus()
        chance = np.array([[slow.chance(u, v) for v in [*range(T), -1]] for u in range(T)])
        right = chance[np.arange(T), slow.trees].sum(axis=1)
        assert consensus.expected_right == pytest.approx(right[slow.possible].max(), abs=1e-10)
        assert chance[np.arange(T), consensus.parents].sum() == pytest.approx(
            consensus.expected_right, abs=1e-10
        )
        assert log_prob(slow, consensus.parents) > -np.inf
    assert possible > 10


def log_prob(slow, parents):
    row = np.flatnonzero((slow.trees == parents).all(axis=1))
    assert len(row) == 1
    return slow.log_weights[row[0]] - slow.log_z


@pytest.mark.parametrize("roots", ROOTS)
@pytest.mark.parametrize("T", [1, 2, 7, 20])
def test_one_group_is_the_dense_distribution(T, roots, make):
    rng = np.random.default_rng(T)
    for forbidden in (0.0, 0.2):
        log_beta, log_root = random_weights(rng, T, 2.0, forbidden if T > 2 else 0.0)
        log_root[0] = 0.0
        try:
            dense = OutTreeDistribution(log_beta, log_root, roots=roots)
        except NoSpanningTreeError:
            continue
        child, parent, log_weight = listed(log_beta, rng)
        for groups in (None, np.full(T, 5)):
            fast = make(child, parent, log_weight, log_root, groups=groups, roots=roots)
            assert fast.log_z == pytest.approx(dense.log_z, rel=1e-13, abs=1e-13)
            ends = child, parent
            np.testing.assert_allclose(fast.edge_marginals, dense.edge_marginals[ends], atol=1e-14)
            np.testing.assert_allclose(fast.root_marginals, dense.root_marginals, atol=1e-14)
            assert fast.entropy == pytest.approx(dense.entropy, abs=1e-12)
            rooted = fast.log_z_rooted
            np.testing.assert_allclose(rooted, dense.log_z_rooted, rtol=1e-13, atol=1e-12)
            assert fast.mode().log_prob == pytest.approx(dense.mode().log_prob, abs=1e-12)
            np.testing.assert_array_equal(fast.mode().parents, dense.mode().parents)
            np.testing.assert_array_equal(fast.consensus().parents, dense.consensus().parents)


@pytest.mark.parametrize("roots", ROOTS)
def test_groups_are_forests_that_no_edge_joins(roots, make):
    """Many groups against one dense forest: the product of independent distributions."""
    rng = np.random.default_rng(4)
    groups = rng.integers(4, size=25)
    log_beta, log_root = random_weights(rng, 25, 1.0)
    log_beta[groups[:, None] != groups[None, :]] = -np.inf
    child, parent, log_weight = listed(log_beta, rng)
    fast = make(child, parent, log_weight, log_root, groups=groups, roots=roots)
    if roots == "any":
        dense = OutTreeDistribution(log_beta, log_root, roots="any")
        assert fast.log_z == pytest.approx(dense.log_z, abs=1e-10)
        np.testing.assert_allclose(fast.edge_marginals, dense.edge_marginals[child, parent])
        np.testing.assert_allclose(fast.number_of_roots(), dense.number_of_roots(), atol=1e-11)
        assert fast.mode().log_prob == pytest.approx(dense.mode().log_prob, abs=1e-10)
    else:
        assert fast.root_marginals.sum() == pytest.approx(len(np.unique(groups)))
        np.testing.assert_array_equal(fast.number_of_roots(), np.eye(26)[4])  # of T + 1
    total = np.bincount(child, fast.edge_marginals, minlength=25) + fast.root_marginals
    np.testing.assert_allclose(total, 1.0, atol=1e-12)


@pytest.mark.parametrize("roots", ROOTS)
@pytest.mark.parametrize("seed", [0, 3, 8])
def test_sample_frequencies(roots, seed, make):
    _, groups, log_beta, log_root = two_groups(seed)
    slow = EveryForest(log_beta, log_root, groups, roots)
    fast = make(*listed(log_beta), log_root, groups=groups, roots=roots)
    n = 6000
    drawn = fast.sample(n, random_state=seed)
    place = {tuple(tree): i for i, tree in enumerate(slow.trees)}
    counts = np.bincount([place[tuple(tree)] for tree in drawn], minlength=len(slow.trees))
    common = n * slow.p >= 5
    found = np.append(counts[common], counts[~common].sum())
    right = np.append(n * slow.p[common], n * slow.p[~common].sum() + 1e-9)
    statistic = ((found - right)[right > 1e-6] ** 2 / right[right > 1e-6]).sum()
    assert found[right <= 1e-6].sum() == 0
    assert stats.chi2.sf(statistic, max((right > 1e-6).sum() - 1, 1)) > 1e-4
    np.testing.assert_array_equal(drawn, fast.sample(n, random_state=seed))
    assert fast.sample(0).shape == (0, len(groups))


def test_groups_are_drawn_independently(make):
    """Two groups alike: the same stream for both would draw the same tree twice."""
    log_beta = np.full((6, 6), -np.inf)
    log_beta[:3, :3] = log_beta[3:, 3:] = 0.0
    np.fill_diagonal(log_beta, -np.inf)
    trees = make(*listed(log_beta), np.zeros(6), groups=[0, 0, 0, 1, 1, 1])
    drawn = trees.sample(900, random_state=0)
    second = np.where(drawn[:, 3:] >= 0, drawn[:, 3:] - 3, -1)
    equal = (drawn[:, :3] == second).all(axis=1).mean()
    assert equal == pytest.approx(1 / 9, abs=0.045)  # 4 standard errors


@pytest.mark.parametrize("roots", ROOTS)
def test_given_is_every_forest_restricted(roots, make):
    """One or two known parents, −1 for a root, in either group."""
    checked = refused = 0
    for seed in range(60):
        rng, groups, log_beta, log_root = two_groups(seed, 0.15)
        slow = EveryForest(log_beta, log_root, groups, roots)
        if not slow.possible.any():
            continue
        T = len(groups)
        some = slow.trees[rng.choice(np.flatnonzero(slow.possible))]
        known = {int(u): int(some[u]) for u in rng.permutation(T)[:2]}
        if seed % 2:
            known = {u: int(rng.integers(-1, T)) for u in known}
        child, parent, log_weight = listed(log_beta, rng)
        fast = make(child, parent, log_weight, log_root, groups=groups, roots=roots)
        keep = prod([slow.trees[:, u] == v for u, v in known.items()]).astype(bool)
        if not (keep & slow.possible).any():
            refused += 1
            with pytest.raises(NoSpanningTreeError):
                fast.given(known)
            continue
        checked += 1
        given = fast.given(known)
        p = slow.p * keep
        assert given.log_z - fast.log_z == pytest.approx(np.log(p.sum()), abs=1e-10)
        edges = [p[slow.trees[:, u] == v].sum() for u, v in zip(child, parent, strict=True)]
        np.testing.assert_allclose(given.edge_marginals, edges / p.sum(), atol=1e-11)
        alone = [p[slow.trees[:, u] == -1].sum() for u in range(T)]
        np.testing.assert_allclose(given.root_marginals, alone / p.sum(), atol=1e-11)
        for u, v in known.items():
            assert (given.sample(20, random_state=1)[:, u] == v).all()
    assert checked > 10
    assert refused > 5


def test_given_leaves_the_distribution_it_came_from_alone(make):
    trees = make([1, 0], [0, 1], np.log([0.6, 0.2]), np.zeros(2))
    before = trees.edge_marginals.copy()
    np.testing.assert_allclose(trees.given({0: -1}).edge_marginals, [1.0, 0.0])
    np.testing.assert_allclose(trees.given({0: 1}).edge_marginals, [0.0, 1.0])
    np.testing.assert_array_equal(trees.edge_marginals, before)
    np.testing.assert_array_equal(trees.log_weight, np.log([0.6, 0.2]))


def test_two_given_roots(make):
    arguments = ([1, 0, 2, 2], [0, 1, 0, 1], np.zeros(4), np.zeros(3))
    with pytest.raises(NoSpanningTreeError):
        make(*arguments).given({0: -1, 1: -1})
    both = make(*arguments, roots="any").given({0: -1, 1: -1})
    np.testing.assert_allclose(both.root_marginals, [1, 1, 1 / 3])


@pytest.mark.parametrize("known", [{-1: 0}, {3: 0}, {0: 3}, {0: -2}])
def test_given_refuses_records_that_do_not_exist(known, make):
    trees = make([1, 0, 2], [0, 1, 0], np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match=r"a record must be an integer (0|-1) … 2; got"):
        trees.given(known)


def test_given_a_parent_that_is_not_listed(make):
    trees = make([1, 0, 2], [0, 1, 0], np.zeros(3), np.zeros(3))
    with pytest.raises(NoSpanningTreeError, match=r"1 is not among the possible parents of 2.*all"):
        trees.given({2: 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parent": [0, -1]}, r"parent must hold records 0 … 2; got -1. .*log_root"),
        ({"child": [1, 3]}, r"child must hold records 0 … 2; got 3"),
        ({"child": [1]}, r"one entry for each possible edge; got shapes \(1,\), \(2,\) and \(2,\)"),
        ({"child": [1, 1], "parent": [0, 0]}, r"0 → 1 is listed several times; add up"),
        ({"groups": [0, 0]}, r"one number for each of 3 records; got shape \(2,\)"),
        ({"groups": [0, 1, 1]}, r"within groups, but 0 → 1 joins two; leave it out or join"),
        ({"roots": "several"}, r"roots must be 'single' or 'any'; got 'several'"),
        ({"log_weight": [0.0, np.nan]}, r"is nan; every log-weight must be below inf"),
    ],
)
def test_errors(change, message, make):
    arguments = {"child": [1, 2], "parent": [0, 0], "log_weight": np.zeros(2)}
    arguments |= {"log_root": np.zeros(3)} | change
    with pytest.raises(InvalidWeightsError, match=message):
        make(**arguments)


def test_the_group_without_a_tree_is_named(make):
    with pytest.raises(NoSpanningTreeError, match=r"\(record 2; record 3\)") as caught:
        make([1], [0], np.zeros(1), np.zeros(4), groups=[0, 0, 1, 1])
    assert caught.value.groups == ((2,), (3,))


def test_one_class_and_its_form(make):
    """A list and a matrix of the same weights: one class, one answer, each in its form."""
    log_beta, log_root = random_weights(np.random.default_rng(2), 5)
    child, parent = np.nonzero(log_beta > -np.inf)
    listed = make(child, parent, log_beta[child, parent], log_root)
    matrix = OutTreeDistribution(log_beta, log_root)
    assert type(listed) is type(matrix) is OutTreeDistribution
    assert listed.log_weight.shape == listed.edge_marginals.shape == (len(child),)
    assert matrix.log_weight.shape == matrix.edge_marginals.shape == (5, 5)
    assert (listed.listed, matrix.listed) == (True, False)
    assert (matrix.method, matrix.plan) == ("dense", None)
    for end in ("child", "parent"):
        with pytest.raises(AttributeError, match="all pairs of records are possible edges"):
            getattr(matrix, end)
    np.testing.assert_allclose(matrix.edge_marginals[child, parent], listed.edge_marginals)
    with pytest.raises(AttributeError, match="use child, parent and log_weight"):
        listed.log_beta  # noqa: B018
    for one, other in ((listed, matrix), (matrix, listed)):
        assert one.kl(other) == pytest.approx(0.0, abs=1e-12)
        assert one.kl(other.given(not_parent=[(int(child[0]), int(parent[0]))])) == np.inf


def test_the_old_name_warns():
    from outtrees.trees.candidates import CandidateTrees

    with pytest.warns(FutureWarning, match=r"now OutTreeDistribution\.from_candidates"):
        old = CandidateTrees([1], [0], [0.0], [0.0, -np.inf])
    assert isinstance(old, OutTreeDistribution)


def test_no_edges_at_all(make):
    alone = make([], [], [], np.log([0.2, 0.3]), roots="any")
    assert alone.log_z == pytest.approx(np.log(0.06))
    np.testing.assert_array_equal(alone.mode().parents, [-1, -1])
    single = make([], [], [], np.zeros(2), groups=[0, 1])
    np.testing.assert_array_equal(single.sample(2, random_state=0), [[-1, -1], [-1, -1]])
    assert single.edge_marginals.shape == (0,)


def test_answers_do_not_change_with_the_caller_s_arrays(make):
    child, parent = np.array([1, 0, 2]), np.array([0, 1, 0])
    log_weight, log_root = np.log([0.6, 0.2, 0.5]), np.zeros(3)
    trees = make(child, parent, log_weight, log_root)
    tree = trees.mode().parents
    before = trees.log_prob(tree), trees.given(root=0).log_z
    log_weight += 5.0
    log_root -= 3.0
    child[:], parent[:] = [2, 0, 2], [1, 1, 0]
    assert (trees.log_prob(tree), trees.given(root=0).log_z) == before
    assert (
        trees.edge_marginals.tolist()
        == make([1, 0, 2], [0, 1, 0], np.log([0.6, 0.2, 0.5]), np.zeros(3)).edge_marginals.tolist()
    )


def test_kl_is_infinite_between_one_tree_and_one_in_each_group(make):
    edges = [1, 0, 3, 2], [0, 1, 2, 3], np.zeros(4), np.zeros(4)
    joined = [1, 0, 3, 2, 2], [0, 1, 2, 3, 0], np.zeros(5), np.zeros(4)
    two, one = make(*edges, groups=[0, 0, 1, 1]), make(*joined)
    assert two.kl(one) == np.inf
    assert one.kl(two) == np.inf
    assert two.kl(make(*edges, groups=[5, 5, 3, 3])) == 0.0


@pytest.mark.parametrize("roots", ["single", "any"])
def test_kl_is_infinite_where_a_root_is_too_improbable_for_a_double(make, roots):
    edges = [1, 0], [0, 1], np.zeros(2)
    mine = make(*edges, np.array([0.0, -2000.0]), roots=roots)
    theirs = make(*edges, np.array([0.0, -np.inf]), roots=roots)
    assert mine.root_marginals[1] == 0.0 or roots == "any"
    assert mine.kl(theirs) == np.inf
    assert np.isfinite(theirs.kl(mine))

"""Trees with few children: sampled frequencies against enumeration, and each move by itself."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2

from oracles.enumeration import EnumeratedDistribution
from oracles.weightings import random_weights
from outtrees.errors import NoSpanningTreeError
from outtrees.trees import OutTreeDistribution, limited
from outtrees.trees import limited_kernels as kernels
from outtrees.trees.edges import ListedEdges
from outtrees.trees.limited import _Chain, _Lists, _summary, _surplus, limited_trees


def listed(log_beta):
    child, parent = np.nonzero(log_beta > -np.inf)
    return child, parent, log_beta[child, parent]


class Limited:
    """The law itself: every tree with at most so many children, one by one."""

    def __init__(self, log_beta, log_root, most, roots):
        slow = EnumeratedDistribution(log_beta, log_root, roots)
        obeys = (_surplus(slow.trees, most) == 0) & (slow.log_weights > -np.inf)
        if not obeys.any():
            raise ZeroDivisionError
        log_weights = slow.log_weights[obeys]
        self.share = np.exp(logsumexp(log_weights) - slow.log_z)
        self.trees = slow.trees[obeys]
        self.probabilities = np.exp(log_weights - logsumexp(log_weights))

    def edges(self, child, parent):
        return ((self.trees[:, child] == parent).T * self.probabilities).sum(axis=1)

    def roots(self):
        return self.probabilities @ (self.trees < 0)

    def p_value(self, trees):
        index = {tuple(tree): i for i, tree in enumerate(self.trees)}
        observed = np.bincount([index[tuple(t)] for t in trees], minlength=len(self.trees))
        expected = self.probabilities * len(trees)
        often = expected >= 5
        observed = np.append(observed[often], observed[~often].sum())
        expected = np.append(expected[often], expected[~often].sum())
        if expected[-1] < 5:
            observed, expected = observed[:-1], expected[:-1]
        return chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1)


@pytest.fixture
def chains_only(monkeypatch):
    """Sample, however few the records are."""
    monkeypatch.setattr(limited, "_MOST_TERMS", 0)


def random_case(seed):
    """Return weights of up to six records, ties, −inf and spreads of a thousand nats among them."""
    rng = np.random.default_rng(seed)
    scale = rng.choice([0.0, 1.0, 4.0, 30.0, 1000.0])
    log_beta, log_root = random_weights(rng, int(rng.integers(2, 7)), scale, rng.choice([0, 0.3]))
    if rng.random() < 0.2:
        log_beta = np.round(log_beta)
    return log_beta, log_root, int(rng.integers(1, 3)), ("single", "any")[seed % 2]


def check_sum(seed):
    log_beta, log_root, most, roots = random_case(seed)
    edges = listed(log_beta)
    try:
        right = Limited(log_beta, log_root, most, roots)
    except ZeroDivisionError:
        with pytest.raises(NoSpanningTreeError):
            limited_trees(*edges, log_root, most, roots=roots)
        return
    found = limited_trees(*edges, log_root, most, roots=roots, random_state=seed)
    # Log-weights of a thousand nats are themselves known to 1e-13.
    np.testing.assert_allclose(found.edge_frequencies, right.edges(*edges[:2]), atol=1e-11)
    np.testing.assert_allclose(found.root_frequencies, right.roots(), atol=1e-11)
    assert found.exact
    assert (found.r_hat, found.edge_errors.max(initial=0), found.root_errors.max()) == (1, 0, 0)
    assert (_surplus(found.trees, most) == 0).all()
    known = {tuple(tree) for tree in right.trees}
    assert all(tuple(tree) in known for tree in found.trees)


@pytest.mark.parametrize("seed", range(40))
def test_few_records_are_summed_exactly(seed):
    check_sum(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_few_records_are_summed_exactly_throughout(part):
    for seed in range(100 + 60 * part, 160 + 60 * part):
        check_sum(seed)


@pytest.mark.parametrize(("most", "roots"), [(1, "single"), (2, "single"), (1, "any"), (2, "any")])
def test_trees_of_the_sum_have_the_law(most, roots):
    log_beta, log_root = random_weights(np.random.default_rng(6), 5, 1.5)
    right = Limited(log_beta, log_root, most, roots)
    found = limited_trees(
        *listed(log_beta), log_root, most, roots=roots, n_chains=300, random_state=0
    )
    assert found.trees.shape == (6000, 5)
    assert right.p_value(found.trees) > 1e-4


def test_sums_end_where_they_would_take_long():
    log_beta, log_root = random_weights(np.random.default_rng(0), 16)
    found = limited_trees(*listed(log_beta), log_root, 2, n_sweeps=20, random_state=0)
    assert not found.exact
    assert found.edge_errors.min() > 0


CASES = [
    (5, 1, "single", 0.0),
    (5, 2, "single", 0.0),
    (5, 1, "any", 0.0),
    (6, 2, "any", 0.3),
    (6, 2, "single", 0.3),
]


@pytest.mark.usefixtures("chains_only")
@pytest.mark.parametrize(("T", "most", "roots", "forbidden"), CASES)
def test_frequencies_are_those_of_every_tree(T, most, roots, forbidden):
    log_beta, log_root = random_weights(np.random.default_rng(T), T, 1.5)
    log_beta[np.random.default_rng(1).random((T, T)) < forbidden] = -np.inf
    right = Limited(log_beta, log_root, most, roots)
    edges = listed(log_beta)
    found = limited_trees(
        *edges, log_root, most, roots=roots, n_sweeps=4000, n_chains=3, random_state=0
    )
    edge, root = right.edges(*edges[:2]), right.roots()
    # Batch means of rare edges are rough: 0.002 stands for what 60 batches may not show.
    assert (np.abs(found.edge_frequencies - edge) <= 5 * found.edge_errors + 2e-3).all()
    assert (np.abs(found.root_frequencies - root) <= 5 * found.root_errors + 2e-3).all()
    assert found.edge_errors.max() < 0.02
    assert found.r_hat < 1.02
    assert not found.exact
    assert abs(found.obeying - right.share) < 5 * np.sqrt(0.25 / 1000)
    assert found.trees.shape == (60, T)
    assert (_surplus(found.trees, most) == 0).all()


def test_a_tenth_of_the_rounds_comes_before_those_counted(monkeypatch):
    """A chain that begins at a mended tree, far from the law, must have time to leave it."""
    made = []
    run = limited._Chain.run

    def noted(chain, n_sweeps, *others):
        made.append(n_sweeps)
        return run(chain, n_sweeps, *others)

    monkeypatch.setattr(limited._Chain, "run", noted)
    monkeypatch.setattr(limited, "_MOST_TERMS", 0)
    log_beta, log_root = random_weights(np.random.default_rng(0), 4)
    limited_trees(*listed(log_beta), log_root, 1, n_sweeps=200, n_chains=2, random_state=0)
    assert made == 2 * [20, *20 * [10]]


MOVES = {
    "redraw": lambda c, u, w: kernels.redraw_parent(c.state, c.lists, np.inf, c.work, c.tree, u),
    "root": lambda c, u, w: kernels.exchange_root(c.state, c.lists, np.inf, c.work, c.tree, u),
    "parents": lambda c, u, w: kernels.exchange_parents(c.state, c.lists, c.tree, u, w),
    "places": lambda c, u, w: kernels.exchange_places(c.state, c.lists, c.tree, c.moved, u, w),
    "places-with-parent": lambda c, u, w: (
        c.tree.parent[u] >= 0
        and kernels.exchange_places(c.state, c.lists, c.tree, c.moved, u, c.tree.parent[u])
    ),
    "three": lambda c, u, w: kernels.redraw_three(
        c.state, c.lists, c.tree, np.array([u, w, next(x for x in range(5) if x not in (u, w))])
    ),
}


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("name", MOVES)
def test_each_move_leaves_the_law_as_it_is(name, roots):
    """From exact draws of the law, one move: exact draws of the law, and not the same ones."""
    if name == "root" and roots == "any":
        pytest.skip("a forest's roots come and go with redrawn parents")
    rng = np.random.default_rng(3)
    log_beta, log_root = random_weights(rng, 5)
    right = Limited(log_beta, log_root, 2, roots)
    lists = _Lists.of(ListedEdges(*listed(log_beta), log_root), roots, 2)
    starts = right.trees[rng.choice(len(right.trees), size=8000, p=right.probabilities)]
    first = rng.integers(5, size=8000)
    second = (first + rng.integers(1, 5, size=8000)) % 5
    chain = _Chain(lists, starts[0], rng)
    after, children = np.empty_like(starts), np.empty_like(starts)
    for i, (tree, u, w) in enumerate(zip(starts, first, second, strict=True)):
        chain._set(tree)
        MOVES[name](chain, u, w)
        after[i], children[i] = chain.tree.parent, chain.tree.children
    np.testing.assert_array_equal(children, (after[:, :, None] == np.arange(5)).sum(axis=1))
    assert (after != starts).any(axis=1).mean() > 0.02
    assert right.p_value(after) > 1e-4


def test_the_moves_alone_reach_every_tree():
    """Without exact trees in between, and with one child at most: paths."""
    rng = np.random.default_rng(4)
    log_beta, log_root = random_weights(rng, 4)
    right = Limited(log_beta, log_root, 1, "single")
    assert len(right.trees) == 24
    lists = _Lists.of(ListedEdges(*listed(log_beta), log_root), "single", 1)
    chain = _Chain(lists, np.array([-1, 0, 0, 0]), rng)  # a star: to be mended first
    assert chain.tree.children.max() == 1
    trees = []
    for _ in range(3000):
        chain._sweep(40, np.inf)  # apart enough to count as independent
        trees.append(chain.tree.parent.copy())
    assert right.p_value(trees) > 1e-4


def test_what_cannot_be():
    star = np.full((5, 5), -np.inf)
    star[1:, 0] = 0.0
    with pytest.raises(NoSpanningTreeError, match=r"exists .* at most 2 children\. Allow"):
        limited_trees(*listed(star), np.zeros(5), 2)
    many = np.full((20, 20), -np.inf)
    many[1:, 0] = 0.0
    with pytest.raises(NoSpanningTreeError, match=r"at most 2 children; .* one with 19\. Allow"):
        limited_trees(*listed(many), np.zeros(20), 2)
    for change, message in [
        ({"max_children": 0}, "max_children must be an integer of at least 1; got 0"),
        ({"max_children": 1.5}, "got 1.5"),
        ({"n_chains": 1}, "n_chains must be an integer of at least 2; got 1"),
        ({"n_sweeps": 3}, "n_sweeps must be an integer of at least 20; got 3"),
    ]:
        arguments = {"max_children": 4, **change}
        with pytest.raises(ValueError, match=message):
            limited_trees(*listed(star), np.zeros(5), **arguments)


@pytest.mark.usefixtures("chains_only")
def test_a_limit_that_binds_nobody():
    """Each round then starts from an independent tree, and the errors are those of counting."""
    log_beta, log_root = random_weights(np.random.default_rng(5), 8)
    exact = OutTreeDistribution.from_candidates(*listed(log_beta), log_root)
    found = limited_trees(*listed(log_beta), log_root, 7, n_sweeps=1000, random_state=1)
    assert found.obeying == 1.0
    p = exact.edge_marginals
    counting = np.sqrt(p * (1 - p) / 4000)
    assert 0.8 < np.median(found.edge_errors / counting) < 1.2
    assert np.abs((found.edge_frequencies - p) / counting).max() < 5
    again = limited_trees(*listed(log_beta), log_root, 7, n_sweeps=1000, random_state=1)
    np.testing.assert_array_equal(found.trees, again.trees)


def test_chains_that_disagree_are_seen():
    stuck = np.zeros((2, 20, 1))
    stuck[0] = 1.0
    assert _summary(stuck, 10)[2] == np.inf
    apart = np.full((2, 20, 1), 0.3)
    apart[0] = 0.7
    assert _summary(apart, 10)[2] > 1.1
    assert _summary(np.full((2, 20, 1), 0.5), 10)[2] == pytest.approx(1.0, abs=0.01)

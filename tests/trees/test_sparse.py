"""Lists of edges solved by components and fronts, against dense elimination and other libraries."""

from functools import partial

import networkx as nx
import numpy as np
import pytest
from scipy import sparse, stats
from scipy.sparse.linalg import splu
from scipy.spatial import cKDTree
from scipy.special import logsumexp

from oracles.enumeration import EnumeratedDistribution
from outtrees import NoSpanningTreeError, OutTreeDistribution
from outtrees.errors import InvalidWeightsError
from outtrees.trees.sparse import elimination, fronts
from outtrees.trees.sparse.components import checked_edges, find_components, inner_problem
from outtrees.trees.sparse.fronts import planned

ROOTS = ["single", "any"]
Sparse = partial(OutTreeDistribution.from_candidates, method="sparse")


@pytest.fixture
def dissected(monkeypatch):
    """Every component of more than one record goes through nested dissection and fronts."""
    monkeypatch.setattr(fronts, "_SMALL", 1)
    monkeypatch.setattr(fronts, "_DENSE", 2.0)
    monkeypatch.setattr(fronts, "_PADDING", 0.0)


def matrix_of(child, parent, log_weight, T):
    log_beta = np.full((T, T), -np.inf)
    log_beta[child, parent] = log_weight
    return log_beta


def nearest(rng, T, k, spread=1.0, D=2):
    """Return the edges from each of T points to its k nearest, with Gaussian log-weights."""
    X = rng.normal(size=(T, D)) * np.sqrt(T) / 10
    distance, parent = cKDTree(X).query(X, k + 1)
    child = np.repeat(np.arange(T), k)
    return child, parent[:, 1:].ravel(), -0.5 * spread * distance[:, 1:].ravel() ** 2


def dated(rng, T, k, ties):
    """Return edges to k of the records up to ``ties`` later and 60 earlier; record 0 is first."""
    child = np.repeat(np.arange(1, T), k)
    parent = child - rng.integers(-ties, 61, size=len(child))
    keep = (parent >= 0) & (parent < T) & (parent != child)
    key = np.unique(child[keep] * T + parent[keep])
    first = np.arange(1, T) * T + np.maximum(np.arange(1, T) - 61, 0)  # all reach the first
    child, parent = np.divmod(np.union1d(key, first), T)
    order = rng.permutation(len(child))
    return child[order], parent[order], rng.normal(size=len(child)) * 2


GRAPHS = {
    "neighbours": lambda rng: (300, *nearest(rng, 300, 8)),
    "dates": lambda rng: (250, *dated(rng, 250, 5, 0)),
    "ties": lambda rng: (250, *dated(rng, 250, 5, 3)),
    "wide ties": lambda rng: (200, *dated(rng, 200, 6, 30)),
}


@pytest.mark.parametrize("roots", ROOTS)
@pytest.mark.parametrize("spread", [1.0, 400.0])
@pytest.mark.parametrize("graph", GRAPHS)
def test_equal_to_dense(graph, spread, roots):
    """Every sum, in the range of a double and (with the wide spread) beyond it."""
    rng = np.random.default_rng(7)
    T, child, parent, log_weight = GRAPHS[graph](rng)
    log_weight = log_weight * spread
    log_root = rng.normal(size=T) * spread
    log_beta = matrix_of(child, parent, log_weight, T)
    try:
        dense = OutTreeDistribution(log_beta, log_root, roots=roots)
    except NoSpanningTreeError:
        with pytest.raises(NoSpanningTreeError):
            Sparse(child, parent, log_weight, log_root, roots=roots)
        return
    fast = Sparse(child, parent, log_weight, log_root, roots=roots)
    assert fast.log_z == pytest.approx(dense.log_z, rel=1e-12)
    # A log-weight of some hundreds is itself known to 1e-13 only.
    tolerance = 1e-12 * max(1.0, spread / 10)
    np.testing.assert_allclose(
        fast.edge_marginals, dense.edge_marginals[child, parent], atol=tolerance
    )
    np.testing.assert_allclose(fast.root_marginals, dense.root_marginals, atol=tolerance)
    assert fast.entropy == pytest.approx(dense.entropy, rel=1e-10, abs=1e-9)
    np.testing.assert_allclose(fast.log_z_rooted, dense.log_z_rooted, rtol=1e-11)
    mode, right = fast.mode(), dense.mode()
    assert mode.log_prob == pytest.approx(right.log_prob, rel=1e-10, abs=1e-9)
    assert mode.log_prob == pytest.approx(dense.log_prob(mode.parents), rel=1e-10, abs=1e-9)
    consensus = fast.consensus()
    assert consensus.expected_right == pytest.approx(dense.consensus().expected_right, abs=1e-9)
    counts = fast.number_of_roots()
    assert counts.shape == (T + 1,)
    if roots == "any":
        np.testing.assert_allclose(counts, dense.number_of_roots(), atol=1e-10)


def test_the_graphs_are_what_they_are_meant_for():
    """One large component, none, some small, and fronts on several levels."""
    rng = np.random.default_rng(7)
    sizes = {}
    for name, graph in GRAPHS.items():
        T, child, parent, log_weight = graph(rng)
        edges = checked_edges(child, parent, log_weight, np.zeros(T))
        components = find_components(edges, "any", None)
        sizes[name] = np.diff(components.first)
    assert sizes["neighbours"].max() > 250
    assert len(sizes["dates"]) == 0
    assert len(sizes["ties"]) > 1
    assert sizes["wide ties"].max() > 100


@pytest.mark.parametrize("roots", ROOTS)
def test_both_ranges_agree(roots):
    rng = np.random.default_rng(3)
    child, parent, log_weight = nearest(rng, 400, 7)
    edges = checked_edges(child, parent, log_weight, rng.normal(size=400))
    components = find_components(edges, roots, None) if roots == "any" else None
    if components is None:  # join what the neighbours leave apart
        child, parent = np.append(child, np.arange(1, 400)), np.append(parent, np.arange(399))
        keys, first = np.unique(child * 400 + parent, return_index=True)
        child, parent = np.divmod(keys, 400)
        log_weight = np.append(log_weight, np.full(399, -3.0))[first]
        edges = checked_edges(child, parent, log_weight, rng.normal(size=400))
        components = find_components(edges, roots, None)
    inner = inner_problem(edges, components)
    plan = planned(inner).fronts
    assert len(plan.above) > 20
    narrow, again = elimination.eliminate(inner, plan), elimination.eliminate_wide(inner, plan)
    assert not narrow.bad.any()
    np.testing.assert_allclose(narrow.log_z(), again.log_z(), rtol=1e-13)
    for one, other in zip(narrow.marginals(), again.marginals(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-13)
    np.testing.assert_allclose(narrow.log_x(), again.log_x(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("roots", ROOTS)
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_small_graphs_in_fronts(dissected, roots, spread):
    """Nested dissection down to single records: all plans are right, not only good ones."""
    checked = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        T = int(rng.integers(2, 12))
        log_beta = rng.normal(size=(T, T)) * spread
        log_beta[rng.random((T, T)) < rng.uniform(0.2, 0.8)] = -np.inf
        np.fill_diagonal(log_beta, -np.inf)
        log_root = np.where(rng.random(T) < 0.3, -np.inf, rng.normal(size=T) * spread)
        child, parent = np.nonzero(log_beta > -np.inf)
        arguments = child, parent, log_beta[child, parent], log_root
        try:
            dense = OutTreeDistribution(log_beta, log_root, roots=roots)
        except NoSpanningTreeError:
            with pytest.raises(NoSpanningTreeError):
                Sparse(*arguments, roots=roots)
            continue
        fast = Sparse(*arguments, roots=roots)
        checked += 1
        assert fast.log_z == pytest.approx(dense.log_z, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(
            fast.edge_marginals, dense.edge_marginals[child, parent], atol=1e-12 * spread
        )
        np.testing.assert_allclose(fast.root_marginals, dense.root_marginals, atol=1e-12 * spread)
        assert fast.mode().log_prob == pytest.approx(dense.mode().log_prob, abs=1e-9)
        for k in (1, 3):
            found = [tree.log_prob for tree in fast.best(k)]
            np.testing.assert_allclose(found, [t.log_prob for t in dense.best(k)], atol=1e-9)
    assert checked > 15


@pytest.mark.parametrize("roots", ROOTS)
@pytest.mark.parametrize("spread", [1.0, 250.0])
def test_samples_through_fronts(dissected, roots, spread):
    """The law of whole trees against every tree's probability, in both ranges."""
    rng = np.random.default_rng(11)
    T = 5
    log_beta = rng.normal(size=(T, T))
    log_root = rng.normal(size=T)
    # Row by row a constant that changes no probability, but leaves the range of a double within
    # a row: two far clusters, joined by weak edges only.
    far = np.array([0, 0, 0, 1, 1])
    log_beta[far[:, None] != far[None, :]] -= 3.0 * spread
    np.fill_diagonal(log_beta, -np.inf)
    log_root[far == 1] -= 3.0 * spread if roots == "any" else 0.0
    dense = OutTreeDistribution(log_beta, log_root, roots=roots)
    child, parent = np.nonzero(log_beta > -np.inf)
    fast = Sparse(child, parent, log_beta[child, parent], log_root, roots=roots)
    n = 8000
    drawn, counts = np.unique(fast.sample(n, random_state=5), axis=0, return_counts=True)
    p = np.exp(dense.log_prob(drawn))
    assert p.min() > 0
    common = n * p >= 5
    found = np.append(counts[common], counts[~common].sum())
    right = np.append(n * p[common], n - n * p[common].sum())
    kept = right > 1e-6
    statistic = ((found - right)[kept] ** 2 / right[kept]).sum()
    assert stats.chi2.sf(statistic, kept.sum() - 1) > 1e-4
    np.testing.assert_array_equal(fast.sample(3, random_state=9), fast.sample(3, random_state=9))


@pytest.mark.parametrize("roots", ROOTS)
@pytest.mark.parametrize("spread", [1.0, 60.0])
def test_sampled_edges_have_their_marginals(roots, spread):
    """A graph of many fronts: each edge's frequency lies where its marginal says."""
    rng = np.random.default_rng(2)
    T = 300
    child, parent, log_weight = nearest(rng, T, 8, spread)
    chain = np.arange(1, T)
    key, first = np.unique(
        np.append(child, chain) * T + np.append(parent, chain - 1), return_index=True
    )
    child, parent = np.divmod(key, T)
    log_weight = np.append(log_weight, np.full(T - 1, -4.0 * spread))[first]
    trees = Sparse(child, parent, log_weight, np.full(T, -2.0 * spread), roots=roots)
    n = 3000
    drawn = trees.sample(n, random_state=0)
    counts = (drawn[:, child] == parent).sum(axis=0)
    p = trees.edge_marginals
    error = np.sqrt(n * p * (1 - p) + 1e-12)
    possible = n * p * (1 - p) > 3
    z = (counts - n * p)[possible] / error[possible]
    assert possible.sum() > 200
    assert np.abs(z).max() < 5.0  # of some thousand edges; 5 sd: once in a thousand such tests
    assert 0.85 < z.std() < 1.15
    assert ((drawn < 0).sum(axis=1) == 1).all() or roots == "any"
    assert np.isfinite(trees.log_prob(drawn[:20])).all()


def test_log_z_is_superlu_s_determinant():
    """Where that is well conditioned: the forest's log Z is the log-determinant of Q + diag ρ."""
    rng = np.random.default_rng(0)
    T = 3000
    child, parent, log_weight = nearest(rng, T, 10, spread=0.5)
    trees = Sparse(child, parent, log_weight, np.zeros(T), roots="any")
    weight = np.exp(log_weight)
    laplacian = sparse.diags_array(
        1.0 + np.bincount(child, weight, minlength=T)
    ) - sparse.csr_array((weight, (child, parent)), shape=(T, T))
    factors = splu(laplacian.tocsc())
    log_det = np.log(np.abs(factors.U.diagonal())).sum()
    assert trees.log_z == pytest.approx(log_det, rel=1e-12)


def test_without_cycles_everyone_chooses_alone():
    rng = np.random.default_rng(1)
    T = 2000
    child, parent, log_weight = dated(rng, T, 8, 0)
    log_root = np.full(T, -np.inf)
    log_root[0] = 0.7
    trees = Sparse(child, parent, log_weight, log_root)
    right = 0.7 + sum(logsumexp(log_weight[child == u]) for u in range(1, T))
    assert trees.log_z == pytest.approx(right, rel=1e-13)
    u = 1234
    mine = child == u
    np.testing.assert_allclose(
        trees.edge_marginals[mine], np.exp(log_weight[mine] - logsumexp(log_weight[mine]))
    )


@pytest.mark.parametrize("seed", range(5))
def test_mode_is_networkx_s(seed):
    rng = np.random.default_rng(seed)
    T = 40
    child, parent, log_weight = nearest(rng, T, 4)
    trees = Sparse(child, parent, log_weight, np.full(T, -3.0), roots="any")
    graph = nx.DiGraph()
    for u in range(T):
        graph.add_edge("root", u, weight=-3.0)
    for u, v, w in zip(child.tolist(), parent.tolist(), log_weight.tolist(), strict=True):
        graph.add_edge(v, u, weight=w)
    best = nx.maximum_spanning_arborescence(graph)
    weight = sum(data["weight"] for _, _, data in best.edges(data=True))
    assert trees.mode().log_prob + trees.log_z == pytest.approx(weight, abs=1e-9)


def test_kl_and_expectation():
    rng = np.random.default_rng(4)
    T, child, parent, log_weight = GRAPHS["wide ties"](rng)
    log_root = rng.normal(size=T)
    other_weight = log_weight + rng.normal(size=len(child))
    for roots in ROOTS:
        mine = Sparse(child, parent, log_weight, log_root, roots=roots)
        order = rng.permutation(len(child))  # the other list is in another order
        other = Sparse(child[order], parent[order], other_weight[order], log_root, roots=roots)
        dense = [
            OutTreeDistribution(matrix_of(child, parent, w, T), log_root, roots=roots)
            for w in (log_weight, other_weight)
        ]
        assert mine.kl(other) == pytest.approx(dense[0].kl(dense[1]), rel=1e-9)
        assert mine.kl(mine) == pytest.approx(0.0, abs=1e-9)
        values = rng.normal(size=len(child))
        matrix = np.zeros((T, T))
        matrix[child, parent] = values
        assert mine.expectation(values) == pytest.approx(dense[0].expectation(matrix), rel=1e-10)
        fewer = Sparse(child[5:], parent[5:], log_weight[5:], log_root, roots="any")
        if roots == "any":
            assert mine.kl(fewer) == np.inf
            assert fewer.kl(mine) < np.inf


def test_kl_asks_the_graph():
    """The edge 1 → 0 is in no tree with the root 0, so forbidding it costs nothing."""
    arguments = [1, 0, 2, 2], [0, 1, 0, 1]
    log_root = [0.0, -np.inf, -np.inf]
    mine = Sparse(*arguments, np.zeros(4), log_root)
    other = Sparse(*arguments, [0.0, -np.inf, 0.0, 0.0], log_root)
    assert mine.kl(other) == pytest.approx(0.0, abs=1e-12)


def test_given_in_a_large_component():
    rng = np.random.default_rng(5)
    T, child, parent, log_weight = GRAPHS["neighbours"](rng)
    trees = Sparse(child, parent, log_weight, np.zeros(T), roots="any")
    likely = int(np.argmax(trees.edge_marginals))
    u, v = int(child[likely]), int(parent[likely])
    given = trees.given(parent={u: v}, not_parent=[(7, -1), (9, int(parent[child == 9][0]))])
    dense = OutTreeDistribution(matrix_of(child, parent, log_weight, T), np.zeros(T), roots="any")
    right = dense.given(parent={u: v}, not_parent=[(7, -1), (9, int(parent[child == 9][0]))])
    assert given.log_z == pytest.approx(right.log_z, rel=1e-12)
    np.testing.assert_allclose(
        given.edge_marginals, right.edge_marginals[child, parent], atol=1e-12
    )


def test_from_candidates():
    rng = np.random.default_rng(6)
    T, child, parent, log_weight = GRAPHS["ties"](rng)
    listed = OutTreeDistribution.from_candidates(
        child, parent, log_weight, np.zeros(T), T, roots="any"
    )
    order = rng.permutation(len(child))
    again = OutTreeDistribution.from_candidates(
        child[order], parent[order], log_weight[order], n_records=T, roots="any"
    )
    np.testing.assert_allclose(again.edge_marginals, listed.edge_marginals[order], atol=1e-14)
    array = sparse.coo_array((log_weight, (child, parent)), shape=(T, T))
    from_array = OutTreeDistribution.from_candidates(array, roots="any")
    np.testing.assert_array_equal(from_array.edge_marginals, listed.edge_marginals)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [0], [0.0]), "the number of records is not said; give n_records"),
        (([1], [0], [0.0], [0.0, 0.0], 3), r"one log-weight for each of 3 records; got shape \(2,"),
        (([1],), "or one sparse array; got child alone"),
        ((sparse.eye_array(2), [0]), "leave out parent and log_weight"),
        ((sparse.coo_array((2, 3)),), r"must be square.*got shape \(2, 3\)"),
        (([1.0], [0], [0.0], [0.0, 0.0]), "child must hold the numbers of records.*float64"),
        (([1], [1], [0.0], [0.0, 0.0]), "makes record 1 its own parent; leave it out"),
        (([1], [0], ["a"], [0.0, 0.0]), "log_weight must hold real numbers"),
    ],
)
def test_from_candidates_refuses(arguments, message):
    with pytest.raises(InvalidWeightsError, match=message):
        OutTreeDistribution.from_candidates(*arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_weight": [0.0, np.inf, 0.0]}, r"log_weight\[1\] is inf; every log-weight must be"),
        ({"log_root": [0.0, np.nan, 0.0]}, r"log_root\[1\] is nan"),
        ({"log_weight": [0.0, 1e15, 0.0]}, r"span 1e\+15, too wide for 3 records"),
        ({"log_weight": [-1e15, 1e15, 0.0]}, r"span 2e\+15, too wide for 3 records"),
        ({"child": [1, 2, 2], "parent": [0, 0, 0]}, "0 → 2 is listed several times"),
        ({"parent": [0, 0, 5]}, r"parent must hold records 0 … 2; got 5"),
        ({"child": [1, -1, 2]}, r"child must hold records 0 … 2; got -1"),
    ],
)
def test_bad_lists(change, message):
    arguments = {"child": [1, 2, 0], "parent": [0, 0, 1], "log_weight": np.zeros(3)}
    arguments |= {"log_root": np.zeros(3)} | change
    with pytest.raises(InvalidWeightsError, match=message):
        Sparse(**arguments)


def test_records_that_reach_no_root_are_named():
    with pytest.raises(NoSpanningTreeError, match=r"records 1, 2 can only descend from each other"):
        Sparse([1, 2], [2, 1], np.zeros(2), [0.0, -np.inf, -np.inf], roots="any")
    with pytest.raises(NoSpanningTreeError, match=r"2 separate groups.*\(record 0; records 1, 2\)"):
        Sparse([1, 2], [2, 1], np.zeros(2), np.zeros(3))


def test_memory_is_asked_for_before_it_is_taken(monkeypatch):
    rng = np.random.default_rng(0)
    child, parent, log_weight = nearest(rng, 2000, 10)
    trees = Sparse(child, parent, log_weight, np.zeros(2000), roots="any")
    monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: 100_000)
    with pytest.raises(MemoryError, match=r"1,999 records .* kB are free\. List fewer candidates"):
        _ = trees.log_z


def test_the_dense_engine_asks_for_memory_too(monkeypatch):
    monkeypatch.setattr("outtrees._common.memory.free_memory", lambda: 100)
    star = np.arange(1, 401), np.zeros(400, dtype=int), np.zeros(400), np.zeros(401)
    with pytest.raises(MemoryError, match=r"for 401 records, about .* 100 bytes .*Use method"):
        OutTreeDistribution.from_candidates(*star, method="dense")


@pytest.mark.parametrize("roots", ROOTS)
def test_sums_of_roots_that_are_nothing_beside_the_others(roots):
    """All trees together fit into a double; those with the root 3, e^20000 times fewer, do not."""
    log_beta = np.full((4, 4), -np.inf)
    log_beta[[0, 1, 1, 1], [1, 0, 2, 3]] = [-160.0, -950.0, 21600.0, 2500.0]
    log_beta[[2, 2, 3, 3], [0, 3, 1, 2]] = [10000.0, 400.0, 13000.0, -5000.0]
    log_root = np.array([10700.0, -9600.0, -10900.0, 15600.0])
    exact = EnumeratedDistribution(log_beta, log_root, roots)
    child, parent = np.nonzero(log_beta > -np.inf)
    fast = Sparse(child, parent, log_beta[child, parent], log_root, roots=roots)
    np.testing.assert_allclose(fast.log_z_rooted, exact.log_z_rooted, rtol=1e-14)
    assert fast.log_z == pytest.approx(exact.log_z, rel=1e-14)


@pytest.mark.parametrize("method", ["sparse", "dense"])
def test_roots_of_many_records_are_counted_in_drawn_trees(method, monkeypatch):
    """Eigenvalues of thousands of records take minutes; 6,000 used to be refused after a fit."""
    rng = np.random.default_rng(0)
    T = 200
    date = np.sort(rng.integers(0, 60, T))
    after = date[:, None] - date[None]
    child, parent = np.nonzero((after > -4) & (after < 12) & ~np.eye(T, dtype=bool))
    trees = OutTreeDistribution.from_candidates(
        child, parent, rng.normal(size=len(child)), np.full(T, 1.0), roots="any", method=method
    )
    exact = trees.number_of_roots()
    monkeypatch.setattr("outtrees.trees.probabilities._MOST_EIGENVALUES", 100)
    drawn = trees.number_of_roots()
    assert drawn.shape == exact.shape == (T + 1,)
    assert not np.array_equal(drawn, exact)
    assert drawn.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(drawn, trees.number_of_roots())
    spread = np.sqrt(exact * (1 - exact) / 2000)
    assert (np.abs(drawn - exact) < 5 * spread + 1e-3).all()


def test_roots_of_a_component_in_range_beside_one_beyond_it():
    """Records 0 to 2 hold the root; below them three whose weights leave the range of doubles."""
    rng = np.random.default_rng(0)
    log_beta = np.full((6, 6), -np.inf)
    log_beta[:3, :3] = rng.normal(size=(3, 3))
    log_beta[3:, 3:] = 900.0 * rng.normal(size=(3, 3))
    log_beta[3, 0] = -2000.0
    np.fill_diagonal(log_beta, -np.inf)
    child, parent = np.nonzero(log_beta > -np.inf)
    log_root = rng.normal(size=6)
    fast = Sparse(child, parent, log_beta[child, parent], log_root, roots="single")
    bad = fast._engine._solution.narrow.bad
    assert bad.any()
    assert not bad.all()
    slow = EnumeratedDistribution(log_beta, log_root, "single")
    np.testing.assert_allclose(fast.log_z_rooted[:3], slow.log_z_rooted[:3], rtol=1e-12)


# Parts by themselves --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_the_stack_of_fronts_is_as_high_as_it_must_be(seed):
    """Against a list of what is outstanding: children are taken off, then the own put on."""
    from outtrees.trees.sparse.order_kernels import stack_places

    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    above, open_ = np.full(n, -1), []
    for f in range(n):  # a forest in which children come before their parents, as a stack does
        taken = int(rng.integers(0, len(open_) + 1)) if f else 0
        for child in open_[len(open_) - taken :]:
            above[child] = f
        open_ = [*open_[: len(open_) - taken], f]
    r = np.where(above >= 0, rng.integers(0, 5, size=n), 0)
    place, height = stack_places(above, np.concatenate([[0], np.cumsum(r)]))
    stack, highest = [], 0
    for f in range(n):
        stack = [g for g in stack if above[g] != f]
        assert place[f] == sum(r[g] * (r[g] + 1) for g in stack)
        stack.append(f)
        highest = max(highest, sum(r[g] * (r[g] + 1) for g in stack))
    assert height == highest

"""Batches give what a loop over the problems gives, and what enumeration gives."""

import numpy as np
import pytest
from scipy.stats import chi2

from oracles.enumeration import EnumeratedDistribution
from oracles.precise import precise_sums
from oracles.weightings import clusters, random_weights
from outtrees import OutTreeDistribution
from outtrees.errors import InvalidWeightsError, NoSpanningTreeError
from outtrees.trees import batch as batches
from outtrees.trees.arborescence import best_arborescence


def problems(rng, B, T, scale=2.0, forbidden=0.0):
    """Return B problems that have a tree, some edges and roots forbidden."""
    made = []
    while len(made) < B:
        one = random_weights(rng, T, scale, forbidden)
        try:
            OutTreeDistribution(*one)
            OutTreeDistribution(*one, roots="any")
        except NoSpanningTreeError:
            continue
        made.append(one)
    return np.array([b for b, _ in made]), np.array([r for _, r in made])


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize(
    ("T", "forbidden"), [(1, 0.0), (2, 0.0), (5, 0.4), (9, 0.5), (12, 0.0), (80, 0.0)]
)
def test_a_batch_is_a_loop(T, forbidden, roots):
    rng = np.random.default_rng(T)
    B = 3 if T > 70 else 40
    log_beta, log_root = problems(rng, B, T, forbidden=forbidden)
    batch = OutTreeDistribution.batch(log_beta, log_root, roots=roots)
    assert len(batch) == B
    best = batch.mode()
    for b in range(B):
        one = OutTreeDistribution(log_beta[b], log_root[b], roots=roots)
        assert batch.log_z[b] == pytest.approx(one.log_z, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(batch.edge_marginals[b], one.edge_marginals, atol=1e-13)
        np.testing.assert_allclose(batch.root_marginals[b], one.root_marginals, atol=1e-13)
        assert batch.entropy[b] == pytest.approx(one.entropy, rel=1e-10, abs=1e-10)
        assert best.parents[b].tolist() == one.mode().parents.tolist()
        assert best.log_prob[b] == pytest.approx(one.mode().log_prob, rel=1e-11, abs=1e-11)
        assert batch.log_prob(best.parents)[b] == pytest.approx(best.log_prob[b], abs=1e-10)
    # log Z alone takes another way than log Z with marginals.
    again = OutTreeDistribution.batch(log_beta, log_root, roots=roots)
    np.testing.assert_allclose(again.log_z, batch.log_z, rtol=1e-14)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_lengths_leave_the_rest_out(roots):
    """Whatever stands beyond a problem's length, NaN included, changes nothing."""
    rng = np.random.default_rng(1)
    lengths = np.array([1, 2, 7, 4, 7])
    log_beta, log_root = rng.normal(size=(5, 7, 7)), rng.normal(size=(5, 7))
    for b, n in enumerate(lengths):
        log_beta[b, n:] = log_beta[b, :, n:] = log_root[b, n:] = np.nan
    batch = OutTreeDistribution.batch(log_beta, log_root, lengths, roots=roots)
    trees, modes = batch.sample(3, 0), batch.mode().parents
    for b, n in enumerate(lengths):
        one = OutTreeDistribution(log_beta[b, :n, :n], log_root[b, :n], roots=roots)
        assert batch.log_z[b] == pytest.approx(one.log_z, rel=1e-13, abs=1e-13)
        edge, root = batch.edge_marginals[b], batch.root_marginals[b]
        np.testing.assert_allclose(edge[:n, :n], one.edge_marginals, atol=1e-14)
        np.testing.assert_allclose(root[:n], one.root_marginals, atol=1e-14)
        assert not edge[n:].any()
        assert not edge[:, n:].any()
        assert not root[n:].any()
        assert (trees[b, :, n:] == -1).all()
        assert (modes[b, n:] == -1).all()
        assert (one.log_prob(trees[b, :, :n]) > -np.inf).all()


def test_problems_out_of_range_in_between():
    """Clusters 40 sd apart leave the doubles; their neighbours in the batch notice nothing."""
    rng = np.random.default_rng(2)
    made = [clusters(rng, (4, 4), separation) for separation in (1, 40, 3, 20, 60)]
    log_beta, log_root = (np.array(part) for part in zip(*made, strict=True))
    batch = OutTreeDistribution.batch(log_beta, log_root)
    for b, one in enumerate(made):
        log_z, _, edge, root = precise_sums(*one)
        assert batch.log_z[b] == pytest.approx(log_z, rel=1e-13, abs=1e-13)
        assert np.abs(batch.edge_marginals[b] - edge).max() <= 1e-13
        assert np.abs(batch.root_marginals[b] - root).max() <= 1e-13
    trees = batch.sample(5, 0)
    assert all((one.log_prob(t) > -np.inf).all() for one, t in zip(batch, trees, strict=True))
    lone = OutTreeDistribution.batch(log_beta, log_root)
    np.testing.assert_allclose(lone.log_z, batch.log_z, rtol=1e-14)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_samples_follow_the_enumerated_law(roots):
    """Chi-square against all trees, each problem by itself and all draws independent."""
    rng = np.random.default_rng(3)
    B, T, n = 4, 4, 20_000
    log_beta, log_root = problems(rng, B, T, 1.0, 0.15)
    trees = OutTreeDistribution.batch(log_beta, log_root, roots=roots).sample(n, 5)
    assert trees.shape == (B, n, T)
    for b in range(B):
        law = EnumeratedDistribution(log_beta[b], log_root[b], roots)
        code = (T + 1) ** np.arange(T)
        which = np.argsort(law.trees @ code)
        found = np.searchsorted((law.trees @ code)[which], trees[b] @ code)
        counts = np.bincount(found, minlength=len(which))
        expected = n * law.probabilities[which]
        assert not counts[expected == 0].any()
        often = expected > 5
        statistic = ((counts - expected)[often] ** 2 / expected[often]).sum()
        assert statistic < chi2.ppf(1 - 1e-4, often.sum() - 1)


def test_draws_depend_on_the_seed_alone(monkeypatch):
    log_beta = np.random.default_rng(4).normal(size=(300, 6, 6))
    batch = OutTreeDistribution.batch(log_beta)
    monkeypatch.setattr(batches, "_WORTH_THREADS", 0)
    first = batch.sample(2, 7)
    monkeypatch.setattr(batches, "_CHUNK", 10**6)  # one thread
    np.testing.assert_array_equal(batch.sample(2, 7), first)
    assert not np.array_equal(batch.sample(2, 8), first)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_slopes_of_marginals_are_covariances(roots):
    """d P(e) in direction v is the covariance of e with the sum of v over the tree: enumerated."""
    rng = np.random.default_rng(5)
    B, T = 3, 4
    log_beta, log_root = problems(rng, B, T, 2.0, 0.15)
    edge, root = rng.normal(size=(B, T, T)), rng.normal(size=(B, T))
    batch = OutTreeDistribution.batch(log_beta, log_root, roots=roots)
    found = batch.marginal_slopes(edge, root)
    for b in range(B):
        law = EnumeratedDistribution(log_beta[b], log_root[b], roots)
        indicator = np.zeros((len(law.trees), T, T + 1))
        for t, tree in enumerate(law.trees):
            indicator[t, np.arange(T), tree] = 1.0
        total = (indicator * np.column_stack([edge[b], root[b]])).sum(axis=(1, 2))
        centred = total - law.probabilities @ total
        right = np.einsum("t,t,tuv->uv", law.probabilities, centred, indicator)
        np.testing.assert_allclose(found[0][b], right[:, :T], atol=1e-13)
        np.testing.assert_allclose(found[1][b], right[:, T], atol=1e-13)


def test_slopes_keep_their_digits_between_clusters():
    """Against differences of precise marginals, where an inverse would have lost all digits."""
    log_beta, log_root = clusters(np.random.default_rng(6), (4, 4), 15)
    direction = np.random.default_rng(7).normal(size=log_beta.shape)
    batch = OutTreeDistribution.batch(log_beta[None], log_root[None])
    found, _ = batch.marginal_slopes(direction[None], np.zeros((1, 8)))
    step = 1e-4
    above, below = (precise_sums(log_beta + d * direction, log_root)[2] for d in (step, -step))
    # Differences of doubles: rounding 1e-16 / 1e-4, and the third derivative times 1e-8.
    np.testing.assert_allclose(found[0], (above - below) / (2 * step), atol=1e-7)
    np.testing.assert_allclose(found[0].sum(), 0.0, atol=1e-12)  # a tree has T − 1 edges
    assert np.abs(found[0]).max() > 1e-2


def test_slopes_out_of_range_are_refused():
    log_beta, log_root = clusters(np.random.default_rng(8), (3, 3), 60)
    batch = OutTreeDistribution.batch(log_beta[None], log_root[None])
    with pytest.raises(InvalidWeightsError, match="problem 0 span too much for second"):
        batch.marginal_slopes(np.ones((1, 6, 6)), np.ones((1, 6)))


def test_modes_are_those_of_the_slow_twin():
    """Whole numbers, so with many circles and ties: the same weight, if not the same tree."""
    rng = np.random.default_rng(9)
    log_beta = rng.integers(0, 4, size=(200, 8, 8)).astype(float)
    log_root = rng.integers(0, 4, size=(200, 8)).astype(float)
    batch = OutTreeDistribution.batch(log_beta, log_root)
    parents, log_prob = batch.mode()
    for b in range(200):
        best = best_arborescence(batch.log_beta[b], batch.log_root[b])
        assert log_prob[b] == pytest.approx(best.weight - batch.log_z[b], abs=1e-10)
        assert batch[b].log_prob(parents[b]) == pytest.approx(log_prob[b], abs=1e-10)


def test_no_problems():
    batch = OutTreeDistribution.batch(np.zeros((0, 3, 3)))
    assert batch.log_z.shape == (0,)
    assert batch.edge_marginals.shape == (0, 3, 3)
    assert batch.sample(2).shape == (0, 2, 3)


def test_bad_batches():
    fine = np.zeros((2, 3, 3))
    cases = [
        (dict(log_beta=np.zeros((3, 3))), r"shape \(B, T, T\)"),
        (dict(log_beta=fine, log_root=np.zeros(3)), r"log_root must have shape \(2, 3\)"),
        (dict(log_beta=fine, lengths=[1]), "2 whole numbers"),
        (dict(log_beta=fine, lengths=[1, 4]), "between 1 and 3; got 4 for problem 1"),
        (dict(log_beta=fine, lengths=[1.0, 2.0]), "dtype float64"),
        (dict(log_beta=np.full((1, 2, 2), np.nan)), r"log_beta\[0, 0, 1\] is nan"),
        (dict(log_beta=fine, log_root=np.full((2, 3), np.inf)), r"log_root\[0, 0\] is inf"),
        (dict(log_beta=fine, roots="two"), "roots must be"),
        (dict(log_beta=fine + np.array([0, 1e16, 0])), "too wide"),
    ]
    for arguments, message in cases:
        with pytest.raises(InvalidWeightsError, match=message):
            OutTreeDistribution.batch(**arguments)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_a_problem_without_trees_is_named(roots):
    log_beta = np.zeros((3, 3, 3))
    log_beta[1] = -np.inf
    log_root = np.zeros((3, 3))
    log_root[1, 0] = -np.inf
    with pytest.raises(NoSpanningTreeError) as caught:
        OutTreeDistribution.batch(log_beta, log_root, roots=roots)
    assert caught.value.__notes__ == ["This is problem 1 of the batch."]

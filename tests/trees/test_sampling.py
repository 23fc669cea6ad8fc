"""Samples are exact: chi-square against enumeration, whatever the separation."""

import numpy as np
import pytest
from scipy.stats import chi2

from oracles.enumeration import EnumeratedDistribution, laplacian
from oracles.weightings import chain, clusters, random_weights, star
from outtrees import OutTreeDistribution
from outtrees.trees import extended
from outtrees.trees.sampling import (
    Wide,
    _cheapest_core,
    _walk_lengths,
    _wide_walk_lengths,
    sampling_tables,
)

N = 40_000
WEIGHTINGS = {
    "flat": lambda rng, T: (np.zeros((T, T)), np.zeros(T)),
    "random": lambda rng, T: random_weights(rng, T, 1.5),
    "sparse": lambda rng, T: (
        random_weights(rng, T)[0] + np.where(rng.random((T, T)) < 0.2, -np.inf, 0.0),
        np.zeros(T),
    ),
    "clusters-10": lambda rng, T: clusters(rng, (T - T // 2, T // 2), 10),
    "clusters-80": lambda rng, T: clusters(rng, (T - T // 2, T // 2), 80),
    "chain": lambda rng, T: chain(rng, T, 1),
    "star": lambda rng, T: star(rng, T, 1.0),
}


def p_value(trees, slow):
    """Chi-square of the sampled trees; those expected fewer than 5 times are put together."""
    index = {tuple(tree): i for i, tree in enumerate(slow.trees)}
    unique, counts = np.unique(trees, axis=0, return_counts=True)
    observed = np.zeros(len(slow.trees))
    for tree, count in zip(unique, counts, strict=True):
        observed[index[tuple(tree)]] = count
    assert observed[slow.probabilities == 0].sum() == 0
    expected = slow.probabilities * len(trees)
    order = np.argsort(expected)
    expected, observed = expected[order], observed[order]
    cell, filled = np.empty(len(expected), dtype=int), 0.0
    number = 0
    for i, more in enumerate(expected):  # the rarest first: each cell takes on until it holds 5
        number, filled = (number + 1, more) if filled >= 5.0 else (number, filled + more)
        cell[i] = number
    observed, expected = np.bincount(cell, observed), np.bincount(cell, expected)
    if len(expected) == 1:
        return 1.0
    return chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1)


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("name", WEIGHTINGS)
@pytest.mark.parametrize("T", [2, 3, 4, 5])
def test_chi_square(T, name, roots):
    log_beta, log_root = WEIGHTINGS[name](np.random.default_rng(T), T)
    dist = OutTreeDistribution(log_beta, log_root, roots=roots)
    slow = EnumeratedDistribution(dist.log_beta, dist.log_root, roots)
    # 56 tests: 1e-4 each lets one in 180 complete runs fail for a right sampler; the seed is fixed.
    assert p_value(dist.sample(N, random_state=T), slow) > 1e-4


def test_chi_square_notices_a_wrong_distribution():
    """Negative control: one weight off by a factor of 1.3 is found out."""
    log_beta, log_root = random_weights(np.random.default_rng(0), 4)
    trees = OutTreeDistribution(log_beta, log_root).sample(N, random_state=0)
    log_beta[1, 0] += np.log(1.3)
    assert p_value(trees, EnumeratedDistribution(log_beta, log_root)) < 1e-6


def parts(dist, wide=False):
    """Return the elimination, the scaled weights in its order and their row sums."""
    e = dist._engine.elimination
    if wide:
        e = extended.eliminate(dist._engine.weights, dist._engine.anchor)
    beta = np.exp(e.weights.log_beta - e.log_scale[:, None])[np.ix_(e.order, e.order)]
    return e, beta, beta.sum(axis=1)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("T", [4, 5, pytest.param(6, marks=pytest.mark.slow)])
def test_any_core_gives_the_same_law(T, roots, wide):
    """However many nodes come back one and all before walks do the rest."""
    dist = OutTreeDistribution(*random_weights(np.random.default_rng(10 + T), T), roots=roots)
    slow = EnumeratedDistribution(dist.log_beta, dist.log_root, roots)
    e, *_ = parts(dist, wide)
    for core in range(1, e.weights.n + 1):
        tables = sampling_tables(e, core)
        assert len(tables.leaf[0]) == core
        trees = dist._engine.to_records(tables.draw(N // 2, np.random.default_rng(core)))
        assert p_value(trees, slow) > 1e-4  # 72 such checks; the seeds are fixed


@pytest.mark.parametrize("name", ["flat", "sparse", "clusters-10", "chain", "star"])
def test_small_cores(name):
    """The ways from a few core nodes to the root, in graphs that differ."""
    log_beta, log_root = WEIGHTINGS[name](np.random.default_rng(6), 5)
    dist = OutTreeDistribution(log_beta, log_root)
    slow = EnumeratedDistribution(dist.log_beta, dist.log_root)
    e, _, beta_sum = parts(dist)
    steps = _walk_lengths(e, beta_sum)
    short = [core for core in (1, 2, 3, 4) if steps[core:].sum() < 1e3]
    assert short  # a cluster needs a core node of its own
    for core in short:
        trees = sampling_tables(e, core).draw(N, np.random.default_rng(core))
        assert p_value(trees, slow) > 1e-4


def test_walk_lengths_are_expected_times_to_get_below():
    """Against one linear system for each node; and their sum bounds Wilson's steps."""
    dist = OutTreeDistribution(*random_weights(np.random.default_rng(11), 90, 1.5))
    e, beta, beta_sum = parts(dist)
    steps = _walk_lengths(e, beta_sum)
    for w in (1, 2, 40, 70, 89):
        time = np.linalg.solve(laplacian(beta)[w:, w:], np.ones(90 - w) * beta_sum[w:])
        assert steps[w] == pytest.approx(time[0], rel=1e-9)
    wide, _, _ = parts(dist, wide=True)
    np.testing.assert_allclose(_wide_walk_lengths(wide, beta_sum)[1:], steps[1:], rtol=1e-12)
    for core in (1, 5, 60):
        visits = np.diag(np.linalg.inv(laplacian(beta)[core:, core:])) * beta_sum[core:]
        assert 0.1 * steps[core:].sum() < visits.sum() <= steps[core:].sum()


def test_walks_are_made_where_they_are_short():
    mixed = OutTreeDistribution(np.random.default_rng(12).normal(size=(200, 200)))
    assert len(mixed._engine.tables.leaf[0]) < 10
    apart = OutTreeDistribution(*clusters(np.random.default_rng(12), (40, 40), 60))
    e, _, beta_sum = parts(apart)
    core = len(apart._engine.tables.leaf[0])
    assert _wide_walk_lengths(e, beta_sum)[core:].sum() < 32 * 80
    pairs = np.repeat(np.arange(40.0), 2)[:, None]  # each record has a twin, and nobody else near
    stuck = OutTreeDistribution(-30.0 * (pairs - pairs.T) ** 2)
    assert len(stuck._engine.tables.leaf[0]) > 70
    walk = np.ones(100)
    walk[2] = np.exp(600.0)
    assert _cheapest_core(walk) == 3
    assert _cheapest_core(np.array([0.0])) == 1


def test_alias_tables_hold_the_weights():
    from outtrees.trees.sampling_kernels import alias_rows

    rng = np.random.default_rng(13)
    weight = np.exp(rng.normal(size=(50, 37)) * rng.choice([0.1, 3.0, 100.0], size=(50, 1)))
    weight[rng.random(weight.shape) < 0.2] = 0.0
    weight[0] = 1.0
    weight[1, 1:] = 0.0
    keep, other = np.ones(weight.shape), np.zeros(weight.shape, dtype=np.uint32)
    alias_rows(weight, keep, other, np.empty(37, dtype=np.intp))
    assert ((keep >= 0) & (keep <= 1)).all()
    for r in range(50):
        mass = keep[r] + np.bincount(other[r], 1.0 - keep[r], 37)
        np.testing.assert_allclose(mass / 37, weight[r] / weight[r].sum(), rtol=1e-12, atol=0)


def test_the_generator_is_xoshiro256():
    """Against the same recurrence in Python's integers."""
    from outtrees.trees.sampling_kernels import uniform

    words = [int(w) for w in np.random.default_rng(14).integers(2**64, size=4, dtype=np.uint64)]
    state = np.array(words, dtype=np.uint64)
    whole = 2**64 - 1

    def turned(x, by):
        return ((x << by) | (x >> (64 - by))) & whole

    for _ in range(1000):
        a, b, c, d = words
        expected = ((turned((a + d) & whole, 23) + a) & whole) >> 11
        c, d, shifted = c ^ a, d ^ b, (b << 17) & whole
        words = [a ^ d, b ^ c, c ^ shifted, turned(d, 45)]
        assert uniform(state) == expected / 2**53
    assert [int(w) for w in state] == words


def test_a_draw_beyond_the_sum_of_the_parts():
    """Parts that rounding leaves short of the whole: the last that is not zero is meant."""
    from outtrees.trees.sampling_kernels import BLOCK, _turning_time, _wide_turning_time

    n = 3 * BLOCK
    rate, share = np.zeros((2, n, n + BLOCK))
    rate[1, :n], share[2, 5:20] = 1.0, 0.1
    i, j, stage = np.uint32(1), np.uint32(2), np.uint32(3)
    for left, k in [(0.05, 5), (0.15, 6), (1.45, 19), (1.5 + 1e-9, 19), (9.0, 19)]:
        assert _turning_time(left, rate, share, i, j, stage) == k
    pairs = []
    for table in (rate[:, :n], share[:, :n], np.ones(n)):
        mantissa, exponent = np.frexp(table)
        pairs.append((mantissa, exponent.astype(np.int64)))
    wide = Wide(*pairs)
    for left, k in [(0.05, 5), (1.45, 19), (1.5 + 1e-9, 19), (9.0, 19)]:
        # Stage 3 is below j here, as it never is in the sampler: the weight is then rate[1, 3] = 1.
        assert _wide_turning_time(left, wide, i, j, stage) == k


@pytest.mark.parametrize("roots", ["single", "any"])
def test_the_two_ranges_draw_the_same_trees(roots):
    rng = np.random.default_rng(1)
    dist = OutTreeDistribution(*random_weights(rng, 40, 3.0), roots=roots)
    (narrow, *_), (wide, *_) = parts(dist), parts(dist, wide=True)
    for core in (41 - (roots == "single"), 20):
        tables = [sampling_tables(e, core) for e in (narrow, wide)]
        assert tables[0].wide is None
        draws = [t.draw(200, np.random.default_rng(2)) for t in tables]
        # A draw within rounding of a limit may differ, and all after it.
        assert np.mean(draws[0] == draws[1]) > 0.99


def test_frequencies_are_the_marginals():
    """At a size no enumeration reaches, with clusters a walk would never leave."""
    dist = OutTreeDistribution(*clusters(np.random.default_rng(3), (30, 30, 20), 60))
    trees = dist.sample(4000, random_state=4)
    assert np.isfinite(dist.log_prob(trees)).all()
    with_root = np.column_stack([dist.edge_marginals, dist.root_marginals])
    counts = np.stack([np.bincount(column % 81, minlength=81) for column in trees.T])
    z = (counts - 4000 * with_root) / np.sqrt(4000 * with_root * (1 - with_root) + 1)
    assert np.abs(z).max() < 5.5  # 6,480 cells
    assert 0.8 < z[with_root > 0.01].var() < 1.1


def test_random_state():
    dist = OutTreeDistribution(*random_weights(np.random.default_rng(5), 12))
    np.testing.assert_array_equal(dist.sample(130, 7), dist.sample(130, 7))
    assert (dist.sample(130, 7) != dist.sample(130, 8)).any()
    generator = np.random.default_rng(9)
    assert (dist.sample(130, generator) != dist.sample(130, generator)).any()
    legacy = [dist.sample(5, np.random.RandomState(1)) for _ in range(2)]
    np.testing.assert_array_equal(*legacy)
    # The streams are per block of trees: asking for more never changes the first ones.
    np.testing.assert_array_equal(dist.sample(128, 7), dist.sample(260, 7)[:128])


def test_none_and_one_record():
    dist = OutTreeDistribution([[0.0]])
    assert dist.sample(0).shape == (0, 1)
    np.testing.assert_array_equal(dist.sample(3), [[-1]] * 3)
    with pytest.raises(ValueError, match="n must be an integer of at least 0; got -1"):
        dist.sample(-1)


def test_nothing_overflows_where_a_root_is_impossible():
    """Its share has no weight at all, and the exponent of nothing is no number to divide by."""
    log_beta = np.array([[-np.inf, 3e4], [4e4, -np.inf]])
    forest = OutTreeDistribution(log_beta, np.array([-3e3, -np.inf]), roots="any")
    with np.errstate(over="raise"):
        assert (forest.sample(20, random_state=0) == [-1, 0]).all()

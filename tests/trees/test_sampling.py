"""Samples are exact: chi-square against enumeration, whatever the separation."""

import numpy as np
import pytest
from scipy.stats import chi2

from outtrees import OutTreeDistribution
from outtrees.trees import extended
from outtrees.trees.enumeration import EnumeratedDistribution
from outtrees.trees.sampling import sampling_tables
from weightings import chain, clusters, random_weights, star

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
    """Chi-square of the sampled trees; cells expected fewer than 5 times are pooled."""
    index = {tuple(tree): i for i, tree in enumerate(slow.trees)}
    unique, counts = np.unique(trees, axis=0, return_counts=True)
    observed = np.zeros(len(slow.trees))
    for tree, count in zip(unique, counts, strict=True):
        observed[index[tuple(tree)]] = count
    assert observed[slow.probabilities == 0].sum() == 0
    expected = slow.probabilities * len(trees)
    order = np.argsort(expected)
    pooled = int(np.searchsorted(np.cumsum(expected[order]), 5.0)) + 1
    cells = [order[:pooled], *order[pooled:, None]]
    observed = np.array([observed[c].sum() for c in cells])
    expected = np.array([expected[c].sum() for c in cells])
    if len(cells) == 1:
        return 1.0
    return chi2.sf(((observed - expected) ** 2 / expected).sum(), len(cells) - 1)


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
    """Negative control: one weight off by a factor of 1.2 is found out."""
    log_beta, log_root = random_weights(np.random.default_rng(0), 4)
    trees = OutTreeDistribution(log_beta, log_root).sample(N, random_state=0)
    log_beta[1, 0] += np.log(1.2)
    assert p_value(trees, EnumeratedDistribution(log_beta, log_root)) < 1e-6


@pytest.mark.parametrize("roots", ["single", "any"])
def test_the_two_ranges_draw_the_same_trees(roots):
    rng = np.random.default_rng(1)
    dist = OutTreeDistribution(*random_weights(rng, 40, 3.0), roots=roots)
    wide = sampling_tables(extended.eliminate(dist._weights, dist._anchor))
    narrow = sampling_tables(dist._elimination)
    assert narrow.total_e is None
    draws = [tables.draw(200, np.random.default_rng(2)) for tables in (narrow, wide)]
    assert np.mean(draws[0] == draws[1]) > 0.999  # a draw within rounding of a limit may differ


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
    np.testing.assert_array_equal(dist.sample(64, 7), dist.sample(130, 7)[:64])


def test_none_and_one_record():
    dist = OutTreeDistribution([[0.0]])
    assert dist.sample(0).shape == (0, 1)
    np.testing.assert_array_equal(dist.sample(3), [[-1]] * 3)
    with pytest.raises(ValueError, match="at least 0; got -1"):
        dist.sample(-1)

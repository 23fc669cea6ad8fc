"""Samples without replacement follow the law of successive draws, however peaked the weights."""

import numpy as np
import pytest
from scipy.stats import chi2

from oracles.enumeration import EnumeratedDistribution
from oracles.weightings import random_weights
from outtrees import OutTreeDistribution
from outtrees.errors import InvalidWeightsError
from outtrees.trees import distinct


def weighting(seed, scale, forbidden=0.0):
    return random_weights(np.random.default_rng(seed), 3, scale, forbidden)


def places(law, trees):
    """Return where each tree stands in the enumeration."""
    code = 4 ** np.arange(3)
    order = np.argsort(law.trees @ code)
    found = np.searchsorted((law.trees @ code)[order], trees @ code)
    return order[found]


def by_sets(dist, rng):
    """Draw two trees, the second by the sets that are otherwise the last resort."""
    return np.array(distinct._more_trees(dist, [dist.sample(1, rng)[0]], 2, rng))


@pytest.mark.parametrize(
    "draw", [by_sets, lambda dist, rng: dist.sample(2, rng, replace=False)], ids=["sets", "sample"]
)
@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_pairs_follow_the_law_of_successive_draws(roots, scale, draw):
    """P(a, then b) = p_a p_b / (1 − p_a): chi-square over all ordered pairs."""
    log_beta, log_root = weighting(1, scale)
    dist = OutTreeDistribution(log_beta, log_root, roots=roots)
    law = EnumeratedDistribution(log_beta, log_root, roots)
    p = law.probabilities
    n = 400
    rng = np.random.default_rng(2)
    counts = np.zeros((len(p), len(p)))
    for _ in range(n):
        pair = places(law, draw(dist, rng))
        counts[tuple(pair)] += 1
    assert not np.diag(counts).any()
    expected = n * p[:, None] * p[None] / (1.0 - p[:, None])
    np.fill_diagonal(expected, 0.0)
    often = expected > 4
    rare = counts[~often].sum() - expected[~often].sum()
    statistic = ((counts - expected)[often] ** 2 / expected[often]).sum()
    statistic += rare**2 / max(expected[~often].sum(), 1.0)
    assert statistic < chi2.ppf(1 - 1e-4, often.sum())


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_all_trees_come_once(roots, scale):
    """Also where the best tree leaves e^-1000 to all others; then there are no more."""
    log_beta, log_root = weighting(3, scale)
    dist = OutTreeDistribution(log_beta, log_root, roots=roots)
    law = EnumeratedDistribution(log_beta, log_root, roots)
    count = len(law.trees)
    trees = dist.sample(count, 0, replace=False)
    assert sorted(places(law, trees)) == list(range(count))
    with pytest.raises(InvalidWeightsError, match=f"at most {count} without replacement"):
        dist.sample(count + 1, 0, replace=False)


def test_the_second_tree_beside_one_that_has_nearly_all():
    """The others share 1e-9, and come in their own proportions: no digit of 1 − p is used."""
    log_beta, log_root = weighting(4, 1.0)
    log_beta[:, 0] += 22.0
    log_root[0] += 22.0
    dist = OutTreeDistribution(log_beta, log_root)
    law = EnumeratedDistribution(log_beta, log_root)
    best = law.probabilities.argmax()
    others = np.where(np.arange(9) == best, 0.0, law.probabilities)
    assert others.sum() < 1e-8
    n = 150
    rng = np.random.default_rng(5)
    pairs = [places(law, dist.sample(2, rng, replace=False)) for _ in range(n)]
    assert all(first == best for first, _ in pairs)
    counts = np.bincount([second for _, second in pairs], minlength=9)
    expected = n * others / others.sum()
    often = expected > 4
    statistic = ((counts - expected)[often] ** 2 / expected[often]).sum()
    assert statistic < chi2.ppf(1 - 1e-4, often.sum() - 1)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_what_all_others_weigh(roots):
    """Against enumeration where 1 − p has digits: all others, and by where they differ first."""
    for seed in range(4):
        log_beta, log_root = weighting(seed, 3.0, 0.1)
        law = EnumeratedDistribution(log_beta, log_root, roots)
        try:
            dist = OutTreeDistribution(log_beta, log_root, roots=roots)
        except ValueError:
            continue
        for t, tree in enumerate(law.trees):
            if np.isneginf(law.log_weights[t]):
                continue
            ratio = np.exp(law.log_weights - law.log_weights[t])
            ratio[t] = 0.0
            found = np.exp(distinct.log_others_over(dist, tree))
            assert found == pytest.approx(ratio.sum(), rel=1e-12, abs=1e-300)
            records, log_weight = distinct.log_first_differences(dist, tree)
            assert sorted(records) == [0, 1, 2]
            agree = np.ones(len(ratio), dtype=bool)
            for u, found in zip(records, np.exp(log_weight), strict=True):
                differ = agree & (law.trees[:, u] != tree[u])
                assert found == pytest.approx(ratio[differ].sum(), rel=1e-12, abs=1e-300)
                agree &= ~differ


def test_lists_and_groups():
    """The same trees from a list of edges, with a tree in each of two groups."""
    child, parent = np.nonzero(~np.eye(3, dtype=bool))
    both = np.append(child, child + 3), np.append(parent, parent + 3)
    log_weight = np.random.default_rng(6).normal(size=12) * 3
    dist = OutTreeDistribution.from_candidates(
        *both, log_weight, np.zeros(6), groups=[0, 0, 0, 1, 1, 1]
    )
    trees = dist.sample(81, 1, replace=False)
    assert len(np.unique(trees, axis=0)) == 81
    assert np.exp(dist.log_prob(trees)).sum() == pytest.approx(1.0)


def test_where_independent_draws_repeat_themselves():
    dist = OutTreeDistribution(np.random.default_rng(7).normal(size=(30, 30)) * 40)
    assert len(np.unique(dist.sample(60, 0), axis=0)) < 40
    trees = dist.sample(12, 0, replace=False)
    assert len(np.unique(trees, axis=0)) == 12
    assert dist.sample(0, replace=False).shape == (0, 30)

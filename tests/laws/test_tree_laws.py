"""Theorems that hold for every weighting, as property tests."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from outtrees import OutTreeDistribution

LOGS = st.floats(-60, 60, allow_nan=False)


@st.composite
def weights(draw, most=7):
    T = draw(st.integers(2, most))
    return draw(arrays(float, (T, T), elements=LOGS)), draw(arrays(float, T, elements=LOGS))


laws = settings(max_examples=60, deadline=None, derandomize=True)
ROOTS = pytest.mark.parametrize("roots", ["single", "any"])


@ROOTS
@laws
@given(weights=weights(), seed=st.integers(0, 10**6))
def test_records_have_no_order(weights, seed, roots):
    log_beta, log_root = weights
    order = np.random.default_rng(seed).permutation(len(log_root))
    dist = OutTreeDistribution(log_beta, log_root, roots=roots)
    shuffled = OutTreeDistribution(log_beta[np.ix_(order, order)], log_root[order], roots=roots)
    assert shuffled.log_z == pytest.approx(dist.log_z, rel=1e-12, abs=1e-12)
    assert shuffled.entropy == pytest.approx(dist.entropy, abs=1e-11)
    expected = dist.edge_marginals[np.ix_(order, order)]
    np.testing.assert_allclose(shuffled.edge_marginals, expected, atol=1e-12)
    np.testing.assert_allclose(shuffled.root_marginals, dist.root_marginals[order], atol=1e-12)


@ROOTS
@laws
@given(weights=weights(), data=st.data())
def test_scaling_a_row_scales_z(weights, data, roots):
    """A record's weights times e^c: Z times e^c, and not one probability changes."""
    log_beta, log_root = weights
    c = data.draw(arrays(float, len(log_root), elements=st.floats(-300, 300)))
    dist = OutTreeDistribution(log_beta, log_root, roots=roots)
    scaled = OutTreeDistribution(log_beta + c[:, None], log_root + c, roots=roots)
    assert scaled.log_z == pytest.approx(dist.log_z + c.sum(), rel=1e-11, abs=1e-11)
    np.testing.assert_allclose(scaled.edge_marginals, dist.edge_marginals, atol=1e-11)


@ROOTS
@laws
@given(weights=weights(most=5))
def test_marginals_are_derivatives(weights, roots):
    log_beta, log_root = weights
    dist = OutTreeDistribution(log_beta, log_root, roots=roots)
    step = 1e-5
    for u, v in np.ndindex(log_beta.shape):
        if u != v:
            nudge = np.zeros_like(log_beta)
            nudge[u, v] = step
            up, down = (
                OutTreeDistribution(log_beta + s * nudge, log_root, roots=roots).log_z
                for s in (1, -1)
            )
            # Rounding of log Z, up to about 300 in size, over the step: 1e-13 / 1e-5.
            assert (up - down) / (2 * step) == pytest.approx(dist.edge_marginals[u, v], abs=1e-7)


@pytest.mark.parametrize("T", [1, 2, 3, 10, 64, 65, 129, 300])
def test_number_of_trees(T):
    """Cayley: T^(T−1) out-trees and (T+1)^(T−1) forests, T^(T−2) trees at each root."""
    single = OutTreeDistribution(np.zeros((T, T)))
    assert single.log_z == pytest.approx((T - 1) * np.log(T), rel=1e-13)
    np.testing.assert_allclose(single.log_z_rooted, (T - 2) * np.log(T), rtol=1e-13)
    assert single.entropy == pytest.approx((T - 1) * np.log(T), rel=1e-12)
    np.testing.assert_allclose(single.root_marginals, 1 / T)
    forest = OutTreeDistribution(np.zeros((T, T)), roots="any")
    assert forest.log_z == pytest.approx((T - 1) * np.log(T + 1), rel=1e-13)


@pytest.mark.parametrize("seed", range(50))
def test_theorem_1(seed):
    """Conditionals that ignore the parent: the tdid likelihood is the iid likelihood."""
    rng = np.random.default_rng(seed)
    T = int(rng.integers(2, 200))
    log_p = rng.normal(scale=10.0 ** rng.integers(-1, 4), size=T)
    dist = OutTreeDistribution(np.repeat(log_p[:, None], T, axis=1), log_p)
    log_likelihood = dist.log_z - (T - 1) * np.log(T)
    assert log_likelihood == pytest.approx(log_p.sum(), rel=1e-12, abs=1e-12 * np.abs(log_p).sum())
    np.testing.assert_allclose(dist.root_marginals, 1 / T, rtol=1e-11)


@laws
@given(weights=weights())
def test_probabilities(weights):
    log_beta, log_root = weights
    dist = OutTreeDistribution(log_beta, log_root)
    assert 0 <= dist.entropy <= (len(log_root) - 1) * np.log(len(log_root)) + 1e-9
    assert dist.log_prob(dist.mode().parents) >= dist.log_prob(dist.sample(5, 0)).max() - 1e-9
    assert dist.consensus().expected_right <= len(log_root) + 1e-9
    forest = OutTreeDistribution(log_beta, log_root, roots="any")
    counts = forest.number_of_roots()
    assert counts.sum() == pytest.approx(1.0, abs=1e-13)
    assert counts @ np.arange(len(counts)) == pytest.approx(forest.root_marginals.sum(), abs=1e-11)


def test_bayes():
    """p(u from v) p(tree | u from v) = p(tree), and the chain of conditions multiplies."""
    rng = np.random.default_rng(1)
    dist = OutTreeDistribution(rng.normal(size=(6, 6)) * 3)
    tree = dist.sample(1, 2)[0]
    total, current = 0.0, dist
    for u, v in enumerate(tree):
        known = current.given(parent={u: int(v)})
        total += known.log_z - current.log_z
        current = known
    assert total == pytest.approx(dist.log_prob(tree), abs=1e-12)
    assert current.log_prob(tree) == pytest.approx(0.0, abs=1e-12)


def test_structured_roots_count_for_large_forests():
    """A directed ring, whose kernel has complex eigenvalues, at a size that would overflow
    coefficients multiplied out; the mean is known from the marginals, the variance by pairs."""
    T = 150
    log_beta = np.full((T, T), -np.inf)
    log_beta[np.arange(T), (np.arange(T) + 1) % T] = 0.0
    dist = OutTreeDistribution(log_beta, np.full(T, np.log(0.3)), roots="any")
    # Each record is a root or descends from the next, but not all may descend: binomial, cut.
    from scipy.stats import binom

    right = binom.pmf(np.arange(T + 1), T, 0.3 / 1.3)
    right[0] = 0.0
    np.testing.assert_allclose(dist.number_of_roots(), right / right.sum(), atol=1e-13)

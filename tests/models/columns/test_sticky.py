"""Categories: against powers of the transition matrix, and what the target decides."""

from dataclasses import replace

import numpy as np
import pytest

from outtrees.models.columns import Sticky

from .conftest import climbed, densities

LEVELS = ("a", "b", "c", "d")


@pytest.mark.parametrize("target", ["marginal", "uniform"])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_against_powers_of_the_transition_matrix(target, k):
    column = np.array([0, 0, 0, 1, 1, 2], dtype=float)[:, None]
    kernel = replace(Sticky(LEVELS, target=target).start(column), stickiness=0.6)
    goal = np.full(4, 0.25) if target == "uniform" else kernel.marginal
    once = 0.6 * np.eye(4) + 0.4 * goal[:, None]  # [child, parent]
    codes = np.arange(4.0)[:, None]
    np.testing.assert_allclose(
        densities(kernel, codes, codes, k), np.linalg.matrix_power(once, k), rtol=1e-12
    )


def test_the_marginal_is_stationary_for_the_marginal_target():
    kernel = Sticky(LEVELS).start(np.array([[0.0], [0.0], [1.0], [2.0]]))
    codes = np.arange(4.0)[:, None]
    np.testing.assert_allclose(
        densities(kernel, codes, codes, 1) @ kernel.marginal, kernel.marginal
    )


def test_a_level_that_was_never_seen_stays_possible():
    for strength in (1.0, 0.0):
        kernel = Sticky(("a", "b"), prior_strength=strength).start(np.zeros((5, 1)))
        assert kernel.marginal[1] > 0
        assert kernel.marginal.sum() == pytest.approx(1.0)
        assert np.isfinite(kernel.log_alone(np.array([[1.0]]))).all()


def test_a_uniform_target_tells_directions_apart():
    """Rare from common, root common, beats common from rare, root rare; reversibly it ties."""
    column = np.array([0.0] * 9 + [1.0])[:, None]
    cells, edge, other = np.array([[0.0], [1.0]]), np.array([0]), np.array([1])
    for target in ("uniform", "marginal"):
        kernel = Sticky(("a", "b"), target=target).start(column)
        alone = kernel.log_alone(cells)
        to_rare = alone[0] + kernel.log_steps(kernel.pairs(cells, cells, other, edge), 1)[0]
        to_common = alone[1] + kernel.log_steps(kernel.pairs(cells, cells, edge, other), 1)[0]
        if target == "uniform":
            assert to_rare > to_common + 1
        else:
            assert to_rare == pytest.approx(to_common, abs=1e-12)


def test_stickiness_is_recovered():
    """3000 links; the standard error of a share near 0.8 is below 0.01."""
    rng = np.random.default_rng(1)
    parents = rng.integers(4, size=(3000, 1)).astype(float)
    truth = replace(Sticky(LEVELS).start(parents), stickiness=0.8)
    children = truth.sample(parents, 2, rng)
    edges = np.arange(3000)
    weights = np.zeros((2, 3000))
    weights[1] = 1.0
    start = replace(truth, stickiness=0.5)
    found = climbed(start, start.pairs(children, parents, edges, edges), weights)
    assert found.stickiness == pytest.approx(0.8, abs=0.03)


def test_nothing_ever_changes():
    """The stickiness goes towards 1 and stops at the prior's mode, 1 − s ≈ 1/(2n)."""
    column = np.zeros((50, 1))
    column[:25] = 1.0
    kernel = Sticky(("a", "b")).start(column)
    child = np.arange(50)
    pairs = kernel.pairs(column, column, child, child)
    found = climbed(kernel, pairs, np.ones((1, 50)))
    # d/ds [50 log(s + (1 − s)/2) + log(s (1 − s))/2] = 0
    grid = np.linspace(0.9, 1 - 1e-6, 200_001)
    best = grid[np.argmax(50 * np.log((1 + grid) / 2) + 0.5 * np.log(grid * (1 - grid)))]
    assert found.stickiness == pytest.approx(best, abs=2e-5)


def test_slopes_are_linear_in_the_weights():
    """Of pairs that are alike, whose weights are added up: sums of exactly 1 too."""
    column = np.tile([0.0, 0.0, 1.0, 2.0], 5)[:, None]
    kernel = Sticky(LEVELS).start(column)
    child, parent = np.array([(u, v) for u in range(20) for v in range(20) if u != v]).T
    pairs = kernel.pairs(column, column, child, parent)
    weights = np.zeros((1, len(child)))
    weights[0, 0] = 1.0
    slopes = kernel.slopes(pairs, weights)
    assert slopes.any()
    np.testing.assert_allclose(kernel.slopes(pairs, 2 * weights), 2 * slopes, rtol=1e-12)

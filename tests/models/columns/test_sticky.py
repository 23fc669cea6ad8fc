"""Categories: against powers of the transition matrix, and what the target decides."""

from dataclasses import replace

import numpy as np
import pytest

from outtrees.models.columns import Spots, Sticky

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


# Cells that are one of several categories ----------------------------------------------------

SETS = [0b0011, 0b1010, 0b0111, 0b1111]  # which of the four levels, the first by the last bit


def cases():
    """Return every category and some sets, as cells and as lists of categories."""
    cells = np.array([0.0, 1.0, 2.0, 3.0] + [4.0 + mask for mask in SETS])[:, None]
    return cells, [[0], [1], [2], [3]] + [[c for c in range(4) if m >> c & 1] for m in SETS]


@pytest.mark.parametrize("target", ["marginal", "uniform"])
@pytest.mark.parametrize("k", [1, 3])
def test_sets_by_enumeration(target, k):
    """Σ over the child's members, average over the parent's, by powers of the whole matrix."""
    column = np.array([0, 0, 0, 1, 1, 2, 4 + 0b1001], dtype=float)[:, None]
    kernel = replace(Sticky(LEVELS, target=target).start(column), stickiness=0.6)
    goal = np.full(4, 0.25) if target == "uniform" else kernel.marginal
    matrix = np.linalg.matrix_power(0.6 * np.eye(4) + 0.4 * goal[:, None], k)
    cells, sets = cases()
    m = kernel.marginal
    slow = [
        [sum(m[b] * matrix[a, b] for a in A for b in B) / sum(m[b] for b in B) for B in sets]
        for A in sets
    ]
    np.testing.assert_allclose(densities(kernel, cells, cells, k), slow, rtol=1e-12)
    alone = [np.log(sum(m[a] for a in A)) for A in sets]
    np.testing.assert_allclose(kernel.log_alone(cells), alone, atol=1e-12)
    base = [np.log(len(A) / 4) for A in sets]
    np.testing.assert_allclose(kernel.log_base(cells), base, atol=1e-12)


def test_a_set_counts_in_equal_parts_in_the_marginal():
    kernel = Sticky(LEVELS, prior_strength=1.0).start(np.array([[0.0], [4 + 0b1001], [np.nan]]))
    np.testing.assert_allclose(kernel.marginal, np.array([1.75, 0.25, 0.25, 0.75]) / 3)


def test_relative_weights_of_sets():
    """log [p(A | B) / g(A)], changed values being drawn from g; slopes by differences."""
    cells, sets = cases()
    kernel = replace(Sticky(LEVELS).start(cells[:6]), stickiness=0.7)
    child, parent = (side.ravel() for side in np.indices((8, 8)))
    pairs = kernel.pairs(cells, cells, child, parent)
    g = np.log(np.linspace(0.2, 0.6, 8))[child]
    m, kept = kernel.marginal, 0.7**2
    alike = np.array(
        [sum(m[b] for b in B if b in A) / sum(m[b] for b in B) for A in sets for B in sets]
    )
    found = kernel.log_relative(pairs, 2, None, g)
    np.testing.assert_allclose(np.exp(found + g), kept * alike + (1 - kept) * np.exp(g), rtol=1e-12)
    weights = np.random.default_rng(0).random((2, 64))

    def total(x, shift):
        moved = kernel.with_params(kernel.params + x)
        logs = [moved.log_relative(pairs, k, None, g + shift) for k in (1, 2)]
        return float((weights * logs).sum())

    slope = (total(1e-5, 0.0) - total(-1e-5, 0.0)) / 2e-5
    assert kernel.slopes_relative(pairs, weights, None, g)[0] == pytest.approx(slope, rel=1e-7)
    slope = (total(0.0, 1e-5) - total(0.0, -1e-5)) / 2e-5
    assert kernel.slopes_of_alone(pairs, weights, g).sum() == pytest.approx(slope, rel=1e-7)


def test_new_values_of_sets():
    """The mean over a set's members; a set of another record is no value that was there."""
    kernel = Sticky(LEVELS)
    cells = np.array([[0.0], [1.0], [4 + 0b1100], [4 + 0b0101], [2.0], [4 + 0b1010]])
    child = np.array([3, 3, 3, 4, 4, 4, 5, 5, 5, 5, 5])
    parent = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4])
    weight = np.array([1, 1, 1, 1, 1, 0.5, 1, 0.5, 1, 1, 0])
    pairs = kernel.pairs(cells, cells, child, parent)
    found, possible = kernel.new_cells(6, [(pairs, child, weight)])
    # Record 3 is a or c, after a and b: c would be new, one of two. Record 5 is b or d after a,
    # beside one b: half of b and all of d are new, among two and a half.
    new = [1, 1, 1, 0.5 * 4 / 2, 4 / 2, (0.5 + 1) / 2 * 4 / 2.5]
    np.testing.assert_allclose(found, 0.99 * np.array(new) + 0.01)
    np.testing.assert_array_equal(possible, 1.0)


@pytest.mark.parametrize("seed", range(12))
def test_values_that_follow_none_before_have_chances_that_sum_to_one(seed):
    """Whatever came before: nothing, some values or all, at once, in sets, or not known."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 12))
    others = rng.integers(0, 4, size=n).astype(float)
    if seed % 3 == 1:
        others = np.concatenate([others, np.arange(4.0)])  # no value is left
    if seed % 3 == 2 and n:
        others[rng.integers(n)] = 4 + 0b0110
        others[rng.integers(n)] = np.nan
    cells = np.concatenate([np.arange(4.0), others])[:, None]
    child = np.repeat(np.arange(4), len(others))  # one record, with each value it may have
    parent = np.tile(4 + np.arange(len(others)), 4)
    weight = (
        rng.choice([0.0, 0.5, 1.0], size=len(others)) if seed % 3 != 1 else np.ones(len(others))
    )
    weight = np.tile(weight, 4)
    kernel = Sticky(LEVELS)
    pairs = kernel.pairs(cells, cells, child, parent)
    found, possible = (x[:4] for x in kernel.new_cells(len(cells), [(pairs, child, weight)]))
    assert (found @ np.exp(kernel.log_base(cells[:4]))) == pytest.approx(1.0, abs=1e-12)
    earlier = {x for x, w in zip(others, weight, strict=False) if w == 1 and x < 4}
    np.testing.assert_array_equal(possible, 0.01 if len(earlier) == 4 else 1.0)
    # A set of values has the chances of all of them together.
    cells[0] = 4 + 0b1011
    pairs = kernel.pairs(cells, cells, child, parent)
    of_set = kernel.new_cells(len(cells), [(pairs, child, weight)])[0][0]
    assert of_set * 3 == pytest.approx(found[[0, 1, 3]].sum(), abs=1e-12)


def test_a_spot_that_is_none_of_the_known_ones_is_new_whoever_else_is_asked_about():
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.5]])
    kernel = Spots().start(corners)
    cells = np.concatenate([corners, [[0.0, 1.0], [7.0, 7.0]]])
    child, parent = np.repeat([3, 4], 3), np.tile([0, 1, 2], 2)
    weight = np.tile([1.0, 0.0, 1.0], 2)

    def new(rows):
        here = np.isin(child, rows)
        pairs = kernel.pairs(cells, cells, child[here], parent[here])
        return kernel.new_cells(5, [(pairs, child[here], weight[here])])[0][rows]

    np.testing.assert_allclose(new([3, 4]), [new([3])[0], new([4])[0]])
    np.testing.assert_allclose(new([4]), 0.99 * 3 / 1 + 0.01)

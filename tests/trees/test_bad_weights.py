"""Bad input gets one clear sentence that names the place."""

import re

import numpy as np
import pytest

from outtrees import InvalidWeightsError, NoSpanningTreeError, OutTreeDistribution


def with_entry(value):
    log_beta = np.zeros((3, 3))
    log_beta[2, 1] = value
    return log_beta


@pytest.mark.parametrize(
    ("log_beta", "log_root", "message"),
    [
        (with_entry(np.nan), None, r"log_beta\[2, 1\] is nan"),
        (with_entry(np.inf), None, r"log_beta\[2, 1\] is inf"),
        (np.zeros((3, 3)), [0, np.nan, 0], r"log_root\[1\] is nan"),
        (np.zeros((3, 3)), [0, 0, np.inf], r"log_root\[2\] is inf"),
        (np.zeros((3, 2)), None, r"square .*got shape \(3, 2\)"),
        (np.zeros(3), None, r"square .*got shape \(3,\)"),
        (np.zeros((0, 0)), None, "at least one record"),
        (np.zeros((3, 3)), [0, 0], r"shape \(3,\); got shape \(2,\)"),
        (np.zeros((3, 3), complex), None, "real numbers; got dtype complex128"),
        ([["a", "b"], ["c", "d"]], None, "real numbers; got dtype"),
        (with_entry(-1e300), None, "span 1e\\+300, too wide for 3 records"),
        (with_entry(-1e300), [1e300, 0.0, 0.0], "span 2e\\+300, too wide for 3 records"),
        (np.zeros((2, 2)), [0, -1e300], "span 1e\\+300"),
    ],
)
@pytest.mark.parametrize("roots", ["single", "any"])
def test_invalid_weights(log_beta, log_root, message, roots):
    with pytest.raises(InvalidWeightsError, match=message):
        OutTreeDistribution(log_beta, log_root, roots=roots)


def test_invalid_roots():
    with pytest.raises(InvalidWeightsError, match="'single' or 'any'; got 'two'"):
        OutTreeDistribution(np.zeros((2, 2)), roots="two")


def test_the_diagonal_is_ignored():
    log_beta = np.zeros((3, 3))
    log_beta[np.diag_indices(3)] = [np.nan, np.inf, 7.0]
    assert OutTreeDistribution(log_beta).log_z == pytest.approx(2 * np.log(3))


def test_the_input_is_copied():
    log_beta = np.zeros((3, 3))
    dist = OutTreeDistribution(log_beta)
    log_beta[:] = 5.0
    assert dist.log_z == pytest.approx(2 * np.log(3))
    for array in (dist.log_beta, dist.log_root, dist.edge_marginals, dist.root_marginals):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_any_real_dtype():
    for dtype in (np.int8, np.uint8, np.float32, bool):
        assert OutTreeDistribution(np.zeros((3, 3), dtype)).log_z == pytest.approx(2 * np.log(3))


def blocks(*sizes):
    label = np.repeat(np.arange(len(sizes)), sizes)
    return np.where(label[:, None] == label, 0.0, -np.inf)


@pytest.mark.parametrize(
    ("log_beta", "log_root", "roots", "message"),
    [
        (blocks(2, 3), None, "single", r"2 separate groups.*records 0, 1; records 2, 3, 4.*any"),
        (blocks(1, 1, 1, 1, 1), None, "single", r"5 separate groups.*and 2 more"),
        (
            blocks(20, 1),
            None,
            "single",
            r"records 0, 1, 2, 3, 4, 5, 6, 7, … \(20 in all\); record 20",
        ),
        (np.zeros((3, 3)), [-np.inf] * 3, "single", "root would have to be records 0, 1, 2"),
        (blocks(2, 2), [0, 0, -np.inf, -np.inf], "any", "records 2, 3 reach no root"),
        (blocks(2, 1), [0, 0, -np.inf], "any", "record 2 reaches no root"),
    ],
)
def test_no_spanning_tree(log_beta, log_root, roots, message):
    with pytest.raises(NoSpanningTreeError, match=message):
        OutTreeDistribution(log_beta, log_root, roots=roots)


def test_errors_carry_the_records():
    with pytest.raises(NoSpanningTreeError) as separate:
        OutTreeDistribution(blocks(2, 3))
    assert separate.value.groups == ((0, 1), (2, 3, 4))
    assert (separate.value.cause, separate.value.option.name) == ("separate groups", "roots")
    with pytest.raises(NoSpanningTreeError) as excluded:
        OutTreeDistribution(np.zeros((3, 3)), [-np.inf] * 3)
    assert (excluded.value.cause, excluded.value.records) == ("excluded roots", (0, 1, 2))
    with pytest.raises(NoSpanningTreeError) as lost:
        OutTreeDistribution(blocks(2, 1), [0, 0, -np.inf], roots="any")
    assert (lost.value.cause, lost.value.records) == ("no way to a root", (2,))
    with pytest.raises(NoSpanningTreeError) as edge:
        OutTreeDistribution([[0, 0, 0], [0, 0, 0], [0, -np.inf, 0]]).given(parent={2: 1})
    assert (edge.value.cause, edge.value.records) == ("excluded edge", (2, 1))


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"parent": {0: 5}}, "integer -1 … 2; got 5"),
        ({"parent": {3: 0}}, "integer 0 … 2; got 3"),
        ({"not_parent": [(0, 1.5)]}, "got 1.5"),
        ({"root": -1}, "got -1"),
        ({"root": "a"}, r"a record must be an integer 0 … 2; got 'a'"),
        ({"root": True}, "got True"),
        ({"parent": {0: None}}, "got None"),
        ({"parent": {0: np.nan}}, "got nan"),
        ({"parent": {0: 1j}}, "got 1j"),
        ({"parent": [(0, 1)]}, r"parent must be a dict {child: parent}; got \[\(0, 1\)\]. Write"),
        ({"parent": []}, "parent must be a dict"),
        ({"not_parent": 1}, r"not_parent must be a list of pairs \(child, parent\); got 1"),
        ({"not_parent": (0, 1)}, r"list of pairs .* got \(0, 1\)"),
        ({"not_parent": [(0, 1, 2)]}, "list of pairs"),
        ({"not_parent": {0: 1}}, "list of pairs"),
        ({"not_parent": ["ab"]}, "list of pairs"),
        ({"parent": {1: 0}, "root": 1}, "record 1 cannot be a root and descend from 0"),
        ({"parent": {1: 0, 0: 1}}, "separate groups|root would have to be"),
    ],
)
def test_given_nonsense(known, message):
    with pytest.raises(ValueError, match=message):
        OutTreeDistribution(np.zeros((3, 3))).given(**known)


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([0, 1], r"shape \(3,\) or \(n, 3\); got \(2,\)"),
        ([-1.0, 0.0, 0.0], "integers, -1 at a root; got dtype float64"),
        ([-1, 0, 3], "-1 or 0 … 2; got 3"),
        ([-2, 0, 1], "got -2"),
        ("tree", r"shape \(3,\) or \(n, 3\); got \(\)"),
        (["a", "b", "c"], "integers, -1 at a root; got dtype <U1"),
        ([[0, 1, 2], [0, 1]], r"one array of integers, \(3,\) or \(n, 3\); got \[\[0, 1, 2\], "),
        (None, r"got \(\)"),
    ],
)
def test_log_prob_of_nonsense(parents, message):
    with pytest.raises(ValueError, match=message):
        OutTreeDistribution(np.zeros((3, 3))).log_prob(parents)


def test_other_nonsense():
    dist = OutTreeDistribution(np.zeros((3, 3)))
    np.testing.assert_array_equal(dist.number_of_roots(), [0.0, 1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"cannot compare .*3 records.*4 records"):
        dist.kl(OutTreeDistribution(np.zeros((4, 4))))
    with pytest.raises(ValueError, match=r"values must have shape \(3, 3\); got \(3,\)"):
        dist.expectation([1, 2, 3])
    with pytest.raises(ValueError, match=r"values\[0, 1\] is inf"):
        dist.expectation([[0, np.inf, 0], [0, 0, 0], [0, 0, 0]])
    for values in ("a", [[1, 2], [3]], np.ones((3, 3)) * 1j, None):
        with pytest.raises(ValueError, match=r"values must be real numbers \[child, parent\]; got"):
            dist.expectation(values)
    with pytest.raises(ValueError, match="kl compares with another OutTreeDistribution; got 3"):
        dist.kl(3)


@pytest.mark.parametrize("n", [-1, 2.5, "3", None, True, np.nan, np.inf, [2], 1j])
def test_numbers_of_trees(n):
    dist = OutTreeDistribution(np.zeros((3, 3)))
    shown = re.escape(repr(n))
    with pytest.raises(ValueError, match=f"n must be an integer of at least 0; got {shown}"):
        dist.sample(n)
    with pytest.raises(ValueError, match=f"k must be an integer of at least 1; got {shown}"):
        dist.best(n)


@pytest.mark.parametrize("seed", ["x", -1, 2.5, {}])
def test_seeds(seed):
    shown = re.escape(repr(seed))
    with pytest.raises(ValueError, match=f"random_state must be None, an integer .* got {shown}"):
        OutTreeDistribution(np.zeros((3, 3))).sample(1, random_state=seed)


def test_numbers_of_any_type():
    dist = OutTreeDistribution(np.zeros((3, 3)))
    assert dist.sample(np.int32(2), np.uint8(1)).shape == dist.sample(2.0, 1).shape == (2, 3)
    assert len(dist.best(np.int64(4))) == 4
    known = dist.given(parent={np.int8(1): np.int16(0)}, not_parent=np.array([[2, 0]]))
    assert known.edge_marginals[1, 0] == 1.0
    assert known.edge_marginals[2, 0] == 0.0


def test_the_virtual_root_is_no_spanning_tree_problem_of_log_z_rooted():
    """A forest of two islands has no single-root tree, and says so with −inf."""
    dist = OutTreeDistribution(blocks(2, 2), roots="any")
    assert np.isneginf(dist.log_z_rooted).all()
    assert dist.number_of_roots()[1] == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_the_widest_spread_that_is_accepted(roots):
    """Just below the limit everything is a number; just above it is refused."""
    wide = [[0.0, -np.inf, -np.inf], [-3.2e14, 0.0, -1.0], [-3.3e14, -2.0, 0.0]]
    dist = OutTreeDistribution(wide, roots=roots)
    assert np.isfinite(dist.log_z)
    total = dist.edge_marginals.sum(axis=1) + dist.root_marginals
    np.testing.assert_allclose(total, 1.0)
    with pytest.raises(InvalidWeightsError, match="too wide for 3 records"):
        OutTreeDistribution([[0.0, 0.0, 0.0], [-3.4e14, 0.0, -1.0], [0.0, 0.0, 0.0]], roots=roots)

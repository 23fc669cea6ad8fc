"""Against ball arithmetic where no double could follow, and the paper's determinant beside it."""

import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from oracles import enumeration
from oracles.precise import precise_sums
from oracles.weightings import chain, clusters, near_reducible, random_weights, star
from outtrees import OutTreeDistribution, trees
from outtrees.trees import elimination, elimination_blocks, elimination_kernels, extended
from outtrees.trees.weights import check


def uniform(rng, T, depth):
    log_beta = -depth * rng.random((T, T))
    np.fill_diagonal(log_beta, -np.inf)
    return log_beta, -depth * rng.random(T)


CASES = {
    **{f"clusters-{sep}": (clusters, (8, 8), sep) for sep in (5, 10, 20, 30, 36, 60)},
    # The reference needs 400,000 digits at 1,000 sd, so fewer records there.
    "clusters-200": (clusters, (5, 4), 200),
    "clusters-1000": (clusters, (2, 1), 1000),
    "five-at-1000": (clusters, (3, 2), 1000),
    "three-clusters-40": (clusters, (4, 5, 6), 40),
    "six-clusters-12": (clusters, (3, 3, 3, 3, 3, 3), 12),
    "uniform-500": (uniform, 15, 500.0),
    "uniform-2000": (uniform, 12, 2000.0),
    "uniform-1e5": (uniform, 8, 1e5),
    "chain-1": (chain, 15, 1),
    "chain-30": (chain, 15, 30),
    "chain-400": (chain, 12, 400),
    "star-3": (star, 15, 3),
    "star-800": (star, 12, 800),
    "bridge-10": (near_reducible, 12, 10),
    "bridge-300": (near_reducible, 12, 300),
    "bridge-5000": (near_reducible, 10, 5000),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n == "five-at-1000" else n for n in CASES],
)
def test_sums_at_any_range(name, monkeypatch):
    make, *arguments = CASES[name]
    log_beta, log_root = make(np.random.default_rng(len(name)), *arguments)
    log_z, log_z_rooted, edge, root = precise_sums(log_beta, log_root)
    for few in (1, 1000):  # compiled blocks, and blocks in NumPy
        monkeypatch.setattr(elimination, "_FEW", few)
        dist = OutTreeDistribution(log_beta, log_root)
        assert dist.log_z == pytest.approx(log_z, rel=1e-12)
        np.testing.assert_allclose(dist.log_z_rooted, log_z_rooted, rtol=1e-12, atol=1e-12)
        assert np.abs(dist.edge_marginals - edge).max() <= 1e-10
        assert np.abs(dist.root_marginals - root).max() <= 1e-10
        total = dist.edge_marginals.sum(axis=1) + dist.root_marginals
        assert np.abs(total - 1.0).max() <= 1e-13


def test_both_paths_are_taken():
    """The cases above exercise either range; neither test would notice the other's absence."""
    taken = set()
    for name, (make, *arguments) in CASES.items():
        dist = OutTreeDistribution(*make(np.random.default_rng(len(name)), *arguments))
        taken.add(type(dist._engine.elimination))
    assert taken == {elimination.Elimination, extended.ExtendedElimination}


@pytest.mark.parametrize("T", [1, 2, 3, 47, 48, 49, 200])
def test_the_two_ranges_are_twins(T):
    """Same numbers from the blocked doubles and from the extended range, node by node."""
    rng = np.random.default_rng(T)
    weights = check(*random_weights(rng, T, 3.0))
    anchor = int(rng.integers(T))
    narrow = elimination.eliminate(weights, anchor)
    wide = extended.eliminate(weights, anchor)
    assert narrow is not None
    assert narrow.log_z_scaled == pytest.approx(wide.log_z_scaled, rel=1e-13)
    everyone = np.arange(T)
    np.testing.assert_allclose(
        narrow.log_z_rooted(everyone), wide.log_z_rooted(everyone), rtol=1e-13, atol=1e-12
    )
    for found, right in zip(narrow.marginals(), wide.marginals(), strict=True):
        np.testing.assert_allclose(found, right, atol=1e-13)


@pytest.mark.parametrize("separation", [20, 36])
def test_the_papers_determinant_fails_where_elimination_does_not(separation):
    """Negative control: the reference is not a formality."""
    log_beta, log_root = clusters(np.random.default_rng(0), (15, 15), separation)
    log_z, _, edge, _ = precise_sums(log_beta, log_root)
    beta, root = np.exp(log_beta), np.exp(log_root)
    with np.errstate(all="ignore"):
        determinant = enumeration.log_z_by_determinant(beta, root)
        try:
            inverse = enumeration.edge_marginals_by_inverse(beta, root)
        except np.linalg.LinAlgError:  # on some processors rounding leaves an exact zero
            inverse = np.full_like(edge, np.nan)
    assert not abs(determinant - log_z) < 1.0
    assert not np.abs(inverse - edge).max() < 0.1
    dist = OutTreeDistribution(log_beta, log_root)
    assert abs(dist.log_z - log_z) <= 1e-10
    assert np.abs(dist.edge_marginals - edge).max() <= 1e-13


def test_a_bad_anchor_changes_nothing():
    """The node that stays last decides the range needed, never the result."""
    log_beta, log_root = clusters(np.random.default_rng(3), (6, 1), 12)
    weights = check(log_beta, log_root)
    right = precise_sums(log_beta, log_root)[2]
    for anchor in range(weights.n):
        edge, _ = extended.eliminate(weights, anchor).marginals()
        assert np.abs(edge - right).max() <= 1e-13
        narrow = elimination.eliminate(weights, anchor)
        if narrow is not None:
            assert np.abs(narrow.marginals()[0] - right).max() <= 1e-13


def test_the_edge_of_the_range():
    """Weights that fade out of a double's range: the path changes, the answer does not."""
    rng = np.random.default_rng(4)
    taken = []
    for separation in np.linspace(15, 45, 25):
        log_beta, log_root = clusters(rng, (3, 3), separation)
        _, _, edge, root = precise_sums(log_beta, log_root)
        dist = OutTreeDistribution(log_beta, log_root)
        taken.append(isinstance(dist._engine.elimination, elimination.Elimination))
        assert np.abs(dist.edge_marginals - edge).max() <= 1e-13
        assert np.abs(dist.root_marginals - root).max() <= 1e-13
    assert taken == sorted(taken, reverse=True)
    assert 0 < sum(taken) < len(taken)


def test_times_that_multiply_beyond_the_range():
    """Pivots each within range whose product is not: refused before anything overflows."""
    T = 12
    log_beta = np.full((T, T), -np.inf)
    for k in range(1, T):
        log_beta[k, k - 1] = -250.0  # each record leaves for the one before it at rate e^-250,
        log_beta[k - 1, k] = 0.0  # and comes back at rate 1
    log_root = np.zeros(T)
    weights = check(log_beta, log_root)
    assert elimination.eliminate(weights, 0) is None
    log_z, log_z_rooted, edge, _ = precise_sums(log_beta, log_root)
    dist = OutTreeDistribution(log_beta, log_root)
    assert dist.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(dist.log_z_rooted, log_z_rooted, rtol=1e-12, atol=1e-12)
    assert np.abs(dist.edge_marginals - edge).max() <= 1e-13


@pytest.mark.parametrize("module", [elimination, extended])
@pytest.mark.parametrize("own", [1e3, 1e8, 1e13])
def test_a_records_own_row_costs_no_digit_of_the_sum_it_is_the_root_of(module, own):
    """Row r has no part in Z_r, so a constant added to it changes nothing there."""
    log_beta, log_root = random_weights(np.random.default_rng(5), 6)
    everyone = np.arange(6)
    right = module.eliminate(check(log_beta, log_root), 0).log_z_rooted(everyone)
    log_beta[2] += own
    found = module.eliminate(check(log_beta, log_root), 0).log_z_rooted(everyone)
    assert found[2] == pytest.approx(right[2], rel=1e-13)


def test_a_root_that_is_reached_by_way_of_a_trap():
    """Z_r / Z_0 alone is in range, the time spent before r is reached is not: no guess is made."""
    log_beta = np.full((4, 4), -np.inf)
    log_beta[0, 3] = log_beta[3, 0] = 0.0
    log_beta[1, 2] = log_beta[2, 1] = 0.0
    log_beta[1, 0] = np.log(1e-70)  # out of the trap {1, 2}
    log_beta[0, 1] = np.log(1e-170)  # and into it
    narrow = elimination.eliminate(check(log_beta, None), 0)
    assert narrow is not None
    assert narrow.x[1] * elimination.LIMIT > 1e30
    assert narrow.log_z_rooted(np.arange(4)) is None
    _, log_z_rooted, _, _ = precise_sums(log_beta, np.zeros(4))
    dist = OutTreeDistribution(log_beta)
    np.testing.assert_allclose(dist.log_z_rooted, log_z_rooted, rtol=1e-12, atol=1e-12)


def test_powers_of_two_are_split_off_without_loss():
    """ln 2 comes in two parts, of which the first times any exponent is exact."""
    high, low = extended._LN2_HIGH, extended._LN2_LOW
    rng = np.random.default_rng(6)
    for exponent in rng.integers(-(2**20), 2**20, size=200).tolist():
        assert Fraction(exponent * high) == exponent * Fraction(high)
    values = np.append(-(10.0 ** rng.uniform(0, 5.8, size=200)), [0.0, 3.0, -np.inf])
    mantissa, exponent = extended.split(values)
    with localcontext() as context:
        context.prec = 50
        assert abs(Decimal(high) + Decimal(low) - Decimal(2).ln()) < Decimal("2e-26")
        for value, m, e in zip(values[:-1], mantissa, exponent, strict=False):
            right = (Decimal(value) - int(e) * Decimal(2).ln()).exp()
            assert abs(Decimal(m) / right - 1) < Decimal("4e-16")
    back = extended.logs((mantissa, exponent))
    np.testing.assert_allclose(back, values, rtol=3e-16, atol=1e-16)


@pytest.mark.parametrize(("lo", "hi"), [(0, 1), (0, 12), (7, 8), (9, 30)])
def test_compiled_blocks_are_twins_of_those_in_numpy(lo, hi):
    """The same factors, pivots, inverses, time, derivatives and constants."""
    rng = np.random.default_rng(hi)
    m = hi - lo
    q = np.exp(rng.normal(size=(30, 30)))
    x, y, s = np.exp(rng.normal(size=(3, 30)))
    flow_P, U_M = np.exp(rng.normal(size=(2, m, m)))
    found = []
    for blocks in (elimination_blocks, elimination_kernels):
        factors, pivots = q.copy(), np.ones(m)
        inverses, beyond = np.empty((2, m + 1, m + 1)), q[lo:hi, :lo].sum(axis=1)
        time = blocks.factor_block(factors, lo, hi, beyond, pivots, *inverses)
        derived = blocks.derive_block(factors, lo, hi, x, y, s, flow_P, U_M, beyond)
        np.fill_diagonal(factors, 0.0)  # never read
        found.append((factors, pivots, inverses[:, :m, :m], beyond, time, *derived))
    for mine, twin in zip(*found, strict=True):
        np.testing.assert_allclose(mine, twin, rtol=1e-11)


@pytest.mark.parametrize("blocks", [elimination_blocks, elimination_kernels])
def test_a_block_out_of_range_is_refused(blocks):
    """A pivot too small, and pivots each in range whose times multiply beyond it."""
    for rate in (1e-200, 1e-100):
        q = np.zeros((4, 4))
        q[np.arange(1, 4), np.arange(3)] = rate  # each leaves for the one before it,
        q[np.arange(3), np.arange(1, 4)] = 1.0  # and comes back
        s, inverses = np.ones(3), np.empty((2, 4, 4))
        assert blocks.factor_block(q, 1, 4, q[1:, 0].copy(), s, *inverses) == np.inf
    assert s.min() == 1e-100  # so it was the times


def test_without_a_compiler(monkeypatch):
    """Where numba cannot be imported, NumPy does it."""
    monkeypatch.setitem(sys.modules, "outtrees.trees.elimination_kernels", None)
    monkeypatch.delattr(trees, "elimination_kernels", raising=False)
    assert elimination._blocks(1000) is elimination_blocks


def test_groups_of_groups(monkeypatch):
    """What large numbers of records get, on few: the same numbers but for rounding."""
    weights = check(*random_weights(np.random.default_rng(7), 300, 2.0))
    shallow = elimination.eliminate(weights, 3)
    assert len(shallow.kept) == 2
    results = [shallow.marginals(), shallow.marginals()]  # the second has no room waiting
    monkeypatch.setattr(elimination, "_LARGE_PANEL", 8)
    monkeypatch.setattr(elimination, "_LARGE", 300)
    monkeypatch.setattr(elimination, "_PANELS_IN_GROUP", 3)
    monkeypatch.setattr(elimination, "_SMALL", 200)
    deep = elimination.eliminate(weights, 3)
    assert [p.hi - p.lo for p in shallow.panels] == [44, 64, 64, 64, 64]
    assert [p.hi - p.lo for p in deep.panels] == [4] + [8] * 37
    assert elimination._parts(0, 300, 8) == [(0, 80), (80, 160), (160, 240), (240, 300)]
    assert deep.kept == []
    assert deep.log_z_scaled == pytest.approx(shallow.log_z_scaled, rel=1e-13)
    for found in (results[1], deep.marginals()):
        for mine, right in zip(found, results[0], strict=True):
            assert not np.shares_memory(mine, right)
            np.testing.assert_allclose(mine, right, atol=1e-13)

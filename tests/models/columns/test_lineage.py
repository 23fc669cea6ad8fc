"""The columns of a table together: the formula in plain loops, its slopes, bounded outliers."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from lineages import ALL_KINDS, random_table
from oracles.edge_weights import slow_weights
from outtrees.models.columns import (
    Distances,
    Drift,
    EdgeWeights,
    GivenWeights,
    Lineage,
    Spots,
    Sticky,
    Substitution,
    Waiting,
)
from outtrees.models.columns.earlier import earlier_pairs, log_backgrounds, with_backgrounds
from outtrees.models.columns.lineage import sample_by_cells

from .conftest import assert_near, assert_slopes_agree, dates, richardson


def away_from_start(lineage, values, seed=0):
    """Return the lineage with parameters that no start has."""
    rng = np.random.default_rng(seed)
    groups = np.zeros(len(values[0]), dtype=np.intp)
    lineage = with_backgrounds(lineage.start(values), values, groups)
    shares = np.where(lineage.outlier_shares > 0, rng.uniform(0.05, 0.4, len(values)), 0.0)
    kernels = [
        k.with_params(k.params + rng.normal(size=len(k.params)) / 3) for k in lineage.kernels
    ]
    weights = rng.dirichlet(np.full(lineage.generations, 2.0))
    return replace(
        lineage,
        kernels=tuple(kernels),
        outlier_shares=shares,
        step_weights=weights,
        anywhere=rng.uniform(0.1, 0.9, len(values)),
    )


def table(seed, generations, dated=True, strict=True, background=True, T=8, more=()):
    """Return a lineage of all kinds of columns with gaps, and its cells."""
    kernels, values = random_table(seed, T=T, strict=strict)
    if not dated:
        kernels, values = kernels[:-1], values[:-1]
    rng, records = np.random.default_rng(seed), np.arange(float(T))[:, None]
    if "distances" in more:  # some unknown, some 0
        distances = rng.gamma(2.0, size=(T, T))
        distances[2, 4], distances[5, 1] = np.nan, 0.0
        kernels, values = [Distances(distances), *kernels], [records, *values]
    if "weights" in more:
        given = GivenWeights(rng.normal(size=(T, T)))
        kernels, values = [given, *kernels], [records, *values]
    return away_from_start(Lineage(kernels, generations, background), values, seed), values


def table_of_spots(seed, generations, T=9, sets=False):
    """Return a lineage of houses and households on dates, some of one day, with gaps."""
    rng = np.random.default_rng(seed)
    houses = rng.normal(size=(4, 2))[rng.integers(4, size=T)]
    households = rng.integers(5, size=(T, 1)).astype(float)
    days = np.sort(rng.integers(0, 6, T)).astype(float)
    houses[2], households[4] = np.nan, np.nan
    if sets:  # one of two or three
        households[[1, 5, 7], 0] = 5 + np.array([0b00011, 0b10110, 0b01001])
    kernels = [Spots(), Sticky(tuple("abcde")), Waiting(mean=3.0, sd=2.0, ties=True)]
    values = [houses, households, np.column_stack([days, days, 0 * days, 0 * days])]
    return away_from_start(Lineage(kernels, generations), values, seed), values


def everything(T):
    return np.nonzero(~np.eye(T, dtype=bool))


def compared(lineage, values, groups=None, remember=False):
    """Return the background of a table."""
    groups = np.zeros(len(values[0]), dtype=np.intp) if groups is None else groups
    known = log_backgrounds(lineage, values, groups, np.arange(len(groups)))
    return lineage.compared(values, known, remember=remember)


def assert_formula(lineage, values, groups=None):
    T = len(values[0])
    groups = np.zeros(T, dtype=np.intp) if groups is None else groups
    slow, weights = slow_weights(lineage, values, groups), EdgeWeights(lineage, values, groups)
    child, parent = everything(T)
    within = groups[child] == groups[parent]
    child, parent = child[within], parent[within]
    right = slow.log_beta[child, parent]
    np.testing.assert_allclose(weights.log_beta(child, parent), right, rtol=1e-9, atol=1e-9)
    pairs = lineage.pairs(values, values, child, parent)
    np.testing.assert_allclose(weights.log_beta_pairs(pairs), right, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        lineage.log_beta(pairs, weights.background), right, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(weights.log_root, slow.log_root, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("generations", [1, 2, 3])
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("dated", [True, False])
def test_log_beta_is_the_formula_written_out(generations, strict, background, dated):
    """With dates columns are contrasted, without them they are not; cells are missing."""
    lineage, values = table(1, generations, dated, strict, background)
    assert bool(lineage.contrasted) == dated
    assert_formula(lineage, values)


@pytest.mark.parametrize("sets", [False, True])
@pytest.mark.parametrize("generations", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_the_formula_of_spots_and_of_values_that_none_had_before(seed, generations, sets):
    lineage, values = table_of_spots(seed, generations, sets=sets)
    assert lineage.contrasted == (0, 1)
    assert_formula(lineage, values)
    assert_formula(lineage, values, np.array([0, 1, 0, 0, 1, 0, 1, 1, 0]))


@pytest.mark.parametrize("seed", range(6))
def test_what_a_cell_is_compared_with_sums_to_one_over_all_cells(seed):
    """Σ ĝ = Σ g = 1 for a house or a household, whether or not every value was there before."""
    lineage, values = table_of_spots(seed, 1, T=14)
    states = [lineage.kernels[0].spots, np.arange(5.0)[:, None]]
    seen_all = 0
    for c, u in product((0, 1), (0, 5, 9, 13)):
        total = np.zeros(2)
        for state in states[c]:
            cells = [v.copy() for v in values]
            cells[c][u] = state
            known = log_backgrounds(lineage, cells, np.zeros(14, np.intp), np.arange(14))
            mixed = lineage.compared(cells, known).log_alone[c]
            total += np.exp([known[c][1][u], mixed[u]])
        np.testing.assert_allclose(total, 1.0, atol=1e-7)  # kernels that keep a value: 1 − 1e-9
        day = values[2][:, 0]
        before = values[c][(day < day[u]) & ~np.isnan(values[c]).any(axis=1)]
        seen_all += len(np.unique(before, axis=0)) == len(states[c])
    assert seen_all or seed not in (0, 1)


def test_the_formula_test_can_fail():
    lineage, values = table(1, 2)
    moved = [a and a._replace(first=5 * a.first) for a in lineage.backgrounds]
    other = replace(lineage, backgrounds=tuple(moved))
    slow = slow_weights(other, values).log_beta
    child, parent = everything(8)
    found = EdgeWeights(lineage, values, np.zeros(8, dtype=np.intp)).log_beta(child, parent)
    known = np.isfinite(found)
    assert abs(found[known] - slow[child, parent][known]).max() > 0.1


@pytest.mark.parametrize("generations", [1, 2])
@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("more", [("distances",), ("distances", "weights")])
@pytest.mark.parametrize("background", [True, False])
def test_the_formula_with_distances_and_given_weights(generations, dated, more, background):
    """A distance of 0 is impossible over two links: it counts in means, as 0."""
    lineage, values = table(2, generations, dated, background=background, more=more)
    assert_formula(lineage, values)


def test_the_formula_with_groups_and_columns_left_out():
    """Records are compared within their group; a group of one has nobody to compare with."""
    lineage, values = table(3, 2)
    groups = np.array([0, 0, 1, 1, 1, 0, 2, 1])
    assert_formula(lineage, values, groups)
    smaller = lineage.without(ALL_KINDS.index("place")).without(ALL_KINDS.index("sequence"))
    assert set(range(8)) - set(smaller.used) == {1, 6}
    assert_formula(smaller, values, groups)
    kept = [c for c in range(8) if c not in (1, 6)]
    rest = replace(
        lineage,
        kernels=tuple(lineage.kernels[c] for c in kept),
        outlier_shares=lineage.outlier_shares[kept],
        backgrounds=tuple(lineage.backgrounds[c] for c in kept),
        anywhere=lineage.anywhere[kept],
    )
    some = [values[c] for c in kept]
    child, parent = everything(8)
    one, other = EdgeWeights(smaller, values, groups), EdgeWeights(rest, some, groups)
    np.testing.assert_allclose(
        one.log_beta(child, parent), other.log_beta(child, parent), rtol=1e-10
    )
    np.testing.assert_allclose(one.log_root, other.log_root, atol=1e-10)


def test_a_column_of_which_one_cell_is_known():
    """Nobody to compare it with: it says nothing, and nothing goes wrong."""
    lineage, values = table(4, 2)
    values[0][:] = np.nan
    values[0][3] = 0.7
    assert_formula(lineage, values)
    background = compared(lineage, values)
    pairs = lineage.pairs(values, values, *everything(8))
    found = lineage.log_columns(pairs, background, 1)[0]
    np.testing.assert_allclose(found, 0.0, atol=1e-15)
    weights = np.ones((2, len(pairs.child))) * np.isfinite(lineage.log_links(pairs, background))
    assert np.isfinite(lineage.slopes(pairs, weights, background)).all()


@pytest.mark.parametrize("dated", [True, False])
def test_exponents_are_powers_of_each_column(dated):
    lineage, values = table(1, 2, dated)
    powers = np.random.default_rng(3).uniform(0.3, 2.0, len(values))
    changed = replace(lineage, exponents=powers)
    assert_formula(changed, values)
    assert changed.start(values).exponents is None


def test_an_edge_weighs_one_where_nothing_is_known_of_the_parent():
    """Contrasted columns are neutral: neither for nor against a parent without cells."""
    lineage, values = table(5, 1)
    for cells in values[:-2]:
        cells[2] = np.nan
    weights = EdgeWeights(lineage, values, np.zeros(8, dtype=np.intp))
    pairs = lineage.pairs(values, values, *everything(8))
    from_2 = pairs.parent == 2
    columns = lineage.log_columns(pairs, weights.background, 1)
    found = columns[list(lineage.contrasted)][:, from_2]
    np.testing.assert_allclose(found, 0.0, atol=1e-15)


# Slopes ------------------------------------------------------------------------------------


def signed_weights(lineage, pairs, background, seed, columns=None):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(lineage.generations, len(pairs.child)))
    possible = np.isfinite(lineage.log_links(pairs, background, columns))
    return np.where(possible, weights, 0.0)


@pytest.mark.parametrize("generations", [1, 2, 3])
@pytest.mark.parametrize("dated", [True, False])
def test_slopes_are_differences(generations, dated):
    """Through kernels, outlier shares, and the densities that records are compared with."""
    lineage, values = table(6, generations, dated, strict=False, T=7)
    pairs = lineage.pairs(values, values, *everything(7))
    weights = signed_weights(lineage, pairs, compared(lineage, values), 1)

    def value(params):
        moved = lineage.with_params(params)
        links = moved.log_links(pairs, compared(moved, values))
        return float(weights[weights != 0] @ links[weights != 0])

    right = richardson(value, lineage.params)
    for remember in (True, False):
        background = compared(lineage, values, remember=remember)
        found = lineage.slopes(pairs, weights, background)
        assert_near(found, right, tol=2e-6)
        for wrong in (found * 1.001, lineage.slopes(pairs, abs(weights), background)):
            with pytest.raises(AssertionError):
                assert_near(wrong, right, tol=2e-6)


@pytest.mark.parametrize("generations", [1, 2])
def test_slopes_of_spots_are_differences(generations):
    lineage, values = table_of_spots(5, generations)
    pairs = lineage.pairs(values, values, *everything(9))
    background = compared(lineage, values)
    weights = signed_weights(lineage, pairs, background, 1)

    def value(params):
        moved = lineage.with_params(params)
        links = moved.log_links(pairs, compared(moved, values))
        return float(weights[weights != 0] @ links[weights != 0])

    assert_slopes_agree(lineage.slopes(pairs, weights, background), value, lineage.params, tol=2e-6)
    rows = np.array([1, 3, 8])
    assert_slopes_agree(
        lineage.slopes_of_background(background, rows),
        lambda p: sum(
            float(compared(lineage.with_params(p), values).log_alone[c][rows].sum())
            for c in lineage.contrasted
        ),
        lineage.params,
    )


def test_slopes_of_some_columns_and_of_those_compared_are_differences():
    lineage, values = table(7, 2, T=7)
    lineage = lineage.without(1)
    background = compared(lineage, values)
    for pairs, columns in (
        (lineage.pairs(values, values, *everything(7)), [lineage.dates]),
        (lineage.pairs(values, values, *everything(7)), [0, 4]),
        (lineage.pairs(values, values, *everything(7)), lineage.contrasted),
        (lineage.pairs(values, values, *everything(7)), [0, ALL_KINDS.index("sequence")]),
    ):
        weights = signed_weights(lineage, pairs, background, 2, columns)

        def value(params, pairs=pairs, columns=columns, weights=weights):
            moved = lineage.with_params(params)
            links = moved.log_links(pairs, compared(moved, values), columns)
            return float(weights[weights != 0] @ links[weights != 0])

        found = lineage.slopes(pairs, weights, background, columns)
        assert_slopes_agree(found, value, lineage.params, tol=2e-6)


@pytest.mark.parametrize("generations", [1, 2])
@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("more", [("distances",), ("distances", "weights")])
def test_slopes_with_distances_and_given_weights_are_differences(generations, dated, more):
    """Distances of 0 are impossible over two links, given weights allow only one."""
    lineage, values = table(8, generations, dated, strict=False, T=7, more=more)
    pairs = lineage.pairs(values, values, *everything(7))
    background = compared(lineage, values)
    weights = signed_weights(lineage, pairs, background, 3)

    def value(params):
        moved = lineage.with_params(params)
        links = moved.log_links(pairs, compared(moved, values))
        return float(weights[weights != 0] @ links[weights != 0])

    found = lineage.slopes(pairs, weights, background)
    assert_slopes_agree(found, value, lineage.params, tol=2e-6)


def test_impossible_edges_have_no_slope():
    """A listed edge that dates exclude, with weight 0: no nan, no warning."""
    lineage, values = table(9, 2, strict=True, T=7)
    pairs = lineage.pairs(values, values, *everything(7))
    background = compared(lineage, values)
    weights = signed_weights(lineage, pairs, background, 4)
    assert (weights == 0).any()
    assert np.isfinite(lineage.slopes(pairs, weights, background)).all()


@pytest.mark.parametrize("generations", [1, 3])
@pytest.mark.parametrize("dated", [True, False])
def test_slopes_of_roots_links_and_prior_are_differences(generations, dated):
    lineage, values = table(10, generations, dated, T=7)
    rng = np.random.default_rng(5)
    roots, links = rng.normal(size=7), rng.normal(size=generations)
    assert_slopes_agree(
        lineage.slopes_of_roots(values, roots),
        lambda p: float(
            roots @ lineage.with_params(p).log_root(compared(lineage.with_params(p), values))
        ),
        lineage.params,
    )
    assert_slopes_agree(
        lineage.slopes_of_links(links),
        lambda p: float(links @ lineage.with_params(p).log_step_weights),
        lineage.params,
    )
    assert_slopes_agree(
        lineage.prior_slopes(), lambda p: lineage.with_params(p).log_prior(), lineage.params
    )


@pytest.mark.parametrize("generations", [1, 3])
def test_parameters_lead_back_to_the_lineage(generations):
    lineage, values = table(11, generations)
    lineage = lineage.without(2)
    again = lineage.with_params(lineage.params)
    np.testing.assert_allclose(again.params, lineage.params, rtol=1e-9, atol=1e-9)
    groups, ends = np.zeros(8, dtype=np.intp), everything(8)
    np.testing.assert_allclose(
        EdgeWeights(again, values, groups).log_beta(*ends),
        EdgeWeights(lineage, values, groups).log_beta(*ends),
        rtol=1e-8,
    )
    assert again.outlier_shares[2] == 1
    assert again.step_weights.sum() == pytest.approx(1.0)


def test_a_background_predicts_cells_from_those_before():
    """It finds the width of towns, sees no later record, and does not depend on the rows' order."""
    rng = np.random.default_rng(1)
    T, towns = 120, rng.uniform(0, 100, (5, 2))
    days = np.sort(rng.integers(0, 60, T)).astype(float)
    place = towns[rng.integers(5, size=T)] + rng.normal(size=(T, 2))
    values = [place, np.column_stack([days, days, 0 * days, 0 * days])]
    groups, rows = np.zeros(T, dtype=np.intp), np.arange(T)
    lineage = Lineage([Drift(offset=False), Waiting(mean=5.0, sd=2.0)]).start(values)
    lineage = with_backgrounds(lineage, values, groups)
    spread = np.sqrt(np.diag(lineage.backgrounds[0].kernel.cov))
    # Records of one town are √2 apart; the first few of a town are not yet a density.
    assert ((spread > 0.6) & (spread < 1.7)).all()
    found = log_backgrounds(lineage, values, groups, rows)[0]
    order = rng.permutation(T)
    mixed = log_backgrounds(lineage, [v[order] for v in values], groups, rows)[0]
    for whole, part in zip(found, mixed, strict=True):
        np.testing.assert_allclose(part, whole[order], rtol=1e-9)
    early = days < 30
    first = log_backgrounds(lineage, [v[early] for v in values], groups[early], rows[early])[0]
    np.testing.assert_allclose(first[0], found[0][early], rtol=1e-9)
    # A mean log-density that a mixture of the five towns has itself, but for what is learned.
    truth = np.exp(-0.5 * ((place[:, None] - towns) ** 2).sum(axis=2)).mean(axis=1) / (2 * np.pi)
    told = found[1]
    assert told[60:].mean() > np.log(truth[60:]).mean() - 0.5


def test_records_are_compared_with_the_nearest_before_them():
    T = 5000
    days = np.arange(float(T))
    values = [days[:, None], np.column_stack([days, days, 0 * days, 0 * days])]
    lineage = Lineage([Drift(), Waiting(mean=5.0, sd=2.0)]).start(values)
    groups = np.zeros(T, dtype=np.intp)
    pairs, weight, _ = earlier_pairs(lineage, values, groups, np.array([0, 3, 4999]))
    assert (pairs.parent < pairs.child).all()
    assert (weight == 1).all()
    assert np.bincount(pairs.child)[[0, 3]].tolist() == [0, 3]
    last = pairs.parent[pairs.child == 4999]
    assert 3500 < len(last) <= 4000
    assert last.min() >= 999


def test_a_sample_of_records_depends_on_their_cells_only():
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(300, 2)), rng.integers(3, size=(300, 1)).astype(float)]
    values[0][5] = np.nan
    chosen = sample_by_cells(values, 40)
    assert len(chosen) == 40
    order = rng.permutation(300)
    shuffled = sample_by_cells([v[order] for v in values], 40)
    np.testing.assert_array_equal(np.sort(order[shuffled]), chosen)
    np.testing.assert_array_equal(sample_by_cells(values, 300), np.arange(300))


# Single rules ------------------------------------------------------------------------------


def test_time_reaches_the_columns_that_have_a_clock():
    kernels, values = random_table(2, T=8)
    place = ALL_KINDS.index("clock")
    lineage = away_from_start(Lineage(kernels), values)
    child, parent = np.array([3, 5]), np.array([0, 1])
    pairs = lineage.pairs(values, values, child, parent)
    date = values[ALL_KINDS.index("date")]
    expected = np.nan_to_num(date[child, 0] - date[parent, 1])
    np.testing.assert_array_equal(pairs.stretches[0].elapsed, np.maximum(expected, 0))
    moved = replace(lineage.kernels[place], rate=5.0)
    one = lineage.log_columns(pairs, compared(lineage, values), 1)[place]
    kernels = [*lineage.kernels[:place], moved, *lineage.kernels[place + 1 :]]
    lineage = replace(lineage, kernels=tuple(kernels))
    other = lineage.log_columns(pairs, compared(lineage, values), 1)[place]
    known = ~np.isnan(values[place][child] + values[place][parent])[:, 0]
    assert (one != other)[known & (expected > 0)].all()


@pytest.mark.parametrize("kind", [k for k in ALL_KINDS if k != "date"])
def test_an_outlier_costs_a_bounded_amount(kind):
    """p ≥ ε·g, however far the cell is from its parent's."""
    c = ALL_KINDS.index(kind)
    kernels, tables = random_table(3, T=10, missing=0.0)
    values = tables[c]
    far = {"sequence": 3 - values[:1]}.get(kind, values.max(axis=0, keepdims=True))
    if kind in ("number", "place", "clock", "reverting"):
        far = 1e4 + values[:1]
    if kind == "count":
        far = values[:1] + 500
    lineage = away_from_start(Lineage([kernels[c]]), [values])
    pairs = lineage.pairs([far], [values], np.zeros(10, dtype=int), np.arange(10))
    bound = np.log(lineage.outlier_shares[0]) + lineage.kernels[0].log_alone(far)[0]
    background = lineage.compared([far])
    found = lineage.log_beta(pairs, background)
    assert (found >= bound - 1e-12).all()
    bare = replace(lineage, outlier_shares=np.zeros(1)).log_beta(pairs, background)
    assert (found >= bare + np.log1p(-lineage.outlier_shares[0]) - 1e-12).all()
    if kind == "number":
        assert bare.max() < bound  # without the background it would cost more


def test_which_columns_have_a_background():
    values = [
        dates([0.0, 1.0, 5.0]),
        dates([0.0, 1.0, 5.0]),
        np.zeros((3, 1)),
        np.arange(3.0)[:, None],
    ]
    kernels = [Waiting(), Waiting(strict=False), Drift(), GivenWeights(np.zeros((3, 3)))]
    has = Lineage(kernels).start(values).outlier_shares > 0
    np.testing.assert_array_equal(has, [False, True, True, False])
    assert not (Lineage(kernels, background=False).start(values).outlier_shares > 0).any()


def test_the_order_of_edges_does_not_matter():
    lineage, values = table(5, 2)
    rng = np.random.default_rng(1)
    child, parent = np.nonzero(np.tril(np.ones((8, 8)), -1))
    order = rng.permutation(len(child))
    one = lineage.pairs(values, values, child, parent)
    other = lineage.pairs(values, values, child[order], parent[order])
    background = compared(lineage, values)
    log_beta = lineage.log_beta(one, background)
    np.testing.assert_allclose(lineage.log_beta(other, background), log_beta[order], rtol=1e-12)
    weights = signed_weights(lineage, one, background, 2)
    np.testing.assert_allclose(
        lineage.slopes(other, weights[:, order], background),
        lineage.slopes(one, weights, background),
        rtol=1e-6,
        atol=1e-6,
    )


def test_a_column_that_does_not_follow_the_tree_is_recognised():
    """Beside one that does: its background takes over, and the other's does not."""
    rng = np.random.default_rng(2)
    n = 300
    parents = [rng.normal(size=(n, 1)) * 5, rng.integers(3, size=(n, 1)).astype(float)]
    follows = parents[0] + 0.1 * rng.normal(size=(n, 1))
    children = [follows, rng.integers(3, size=(n, 1)).astype(float)]
    both = [np.vstack([c, p]) for c, p in zip(children, parents, strict=True)]
    lineage = Lineage([Drift(), Sticky(("a", "b", "c"))]).start(both)
    pairs = lineage.pairs(children, parents, np.arange(n), np.arange(n))

    def loss(params):
        moved = lineage.with_params(params)
        background = moved.compared(children)
        value = moved.log_beta(pairs, background).sum() + moved.log_prior()
        slopes = moved.slopes(pairs, np.ones((1, n)), background) + moved.prior_slopes()
        return -value, -slopes

    lineage = lineage.with_params(minimize(loss, lineage.params, jac=True, method="L-BFGS-B").x)
    assert lineage.outlier_shares[0] < 0.02
    assert lineage.kernels[0].cov[0, 0] ** 0.5 == pytest.approx(0.1, rel=0.2)
    keeps = (1 - lineage.outlier_shares[1]) * lineage.kernels[1].stickiness
    assert keeps < 0.12  # 300 independent pairs: the standard error of a share is 0.04


def test_samples_take_as_many_links_as_they_weigh():
    """Each link adds one: how many were taken shows; shares within 4.5 standard errors."""
    parents = [np.zeros((2000, 1))]
    lineage = Lineage([Drift()], generations=3).start([np.array([[0.0], [1.0]])])
    walk = replace(lineage.kernels[0], mean_step=np.array([1.0]), cov=np.array([[1e-6]]))
    lineage = replace(lineage, kernels=(walk,), step_weights=np.array([0.5, 0.3, 0.2]))
    drawn = lineage.sample(parents, np.random.default_rng(3))[0][:, 0]
    shares = np.bincount(np.round(drawn).astype(int), minlength=4)[1:] / 2000
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=4.5 * 0.5 / np.sqrt(2000))


def test_samples_have_the_shape_of_their_parents():
    kernels, values = random_table(6, T=9, missing=0.0)
    lineage = Lineage(kernels, 2).start(values)
    for drawn in (
        lineage.sample(values, np.random.default_rng(0)),
        lineage.sample_alone(9, np.random.default_rng(0)),
    ):
        assert [d.shape for d in drawn] == [v.shape for v in values]
        assert not any(np.isnan(d).any() for d in drawn)


def test_a_sequence_without_its_parents_site_is_no_mutation():
    """A site that was not read in the parent costs less than a change would."""
    column = np.zeros((6, 30))
    column[1, 4] = np.nan
    kernel = Substitution().start(column)
    edge, unread, read = np.array([2]), np.array([1]), np.array([0])
    cost = [kernel.log_steps(kernel.pairs(column, column, edge, p), 1)[0] for p in (unread, read)]
    assert cost[0] == pytest.approx(cost[1], abs=0.1)

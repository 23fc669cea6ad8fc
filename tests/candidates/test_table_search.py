"""Candidate parents of tables: windows, quick ranking, lists; each beside its slow twin."""

from dataclasses import replace

import numpy as np
import pytest

from lineages import random_table
from outtrees.candidates import (
    all_edges,
    best_parents,
    constraints,
    date_windows,
    in_order,
    table_candidates,
    table_search,
)
from outtrees.candidates.choices import IndependentChoices
from outtrees.candidates.scan import Scanner
from outtrees.candidates.windows import windows_of
from outtrees.errors import NoSpanningTreeError
from outtrees.models.columns import (
    Counts,
    Distances,
    Drift,
    EdgeWeights,
    Lineage,
    Reversion,
    Sticky,
    Substitution,
    Waiting,
)
from outtrees.trees import OutTreeDistribution


def pairs_of(listed):
    return set(zip(listed.child.tolist(), listed.parent.tolist(), strict=True))


def grouped(pairs, score, n):
    """Return the n best parents of each child, the slow way."""
    best = set()
    for u in {u for u, _ in pairs}:
        mine = sorted((-s, v) for (w, v), s in zip(pairs, score, strict=True) if w == u)
        best |= {(u, v) for s, v in mine[:n] if s < np.inf}
    return best


# Windows of dates ------------------------------------------------------------------------------


def odd_dates(seed, T=60, unit=1.0):
    """Dates with ties, gaps, half-widths and ends after starts."""
    rng = np.random.default_rng(seed)
    start = np.round(rng.uniform(0, 30, T)) if unit else rng.uniform(0, 30, T)
    end = start + np.where(rng.random(T) < 0.3, rng.integers(0, 5, T), 0)
    width = np.where(rng.random(T) < 0.3, rng.integers(1, 4, T), 0)
    dates = np.column_stack([start, end, width, rng.random(T) < 0.1]).astype(float)
    dates[rng.random(T) < 0.15] = np.nan
    return dates


KERNELS = [
    Waiting(),
    Waiting(ties=False),
    Waiting(unit=0.0, ties=False),
    Waiting(strict=False),
    Waiting(table=[0.0, 0.2, 0.5, 0.3]),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_windows_hold_every_possible_parent(kernel, seed):
    dates, groups = odd_dates(seed, unit=kernel.unit), np.arange(60) % 2
    lineage = Lineage([kernel]).start([dates])
    given = constraints(60, groups)
    everything = all_edges(given)
    kept = in_order(lineage, [dates], everything.child, everything.parent)
    found = date_windows(groups, lineage.kernels[0], dates, all_possible=True)
    child, parent = found.pairs(np.arange(60))
    mine = given.allows(child, parent) & in_order(lineage, [dates], child, parent)
    assert set(zip(child[mine], parent[mine], strict=True)) == set(
        zip(everything.child[kept], everything.parent[kept], strict=True)
    )
    assert (found.sizes == np.bincount(child, minlength=60)).all()


def test_only_implausibly_early_parents_are_outside(monkeypatch):
    monkeypatch.setattr("outtrees.candidates.windows._AT_LEAST", 0)
    dates = np.arange(400.0)[:, None] * [1, 1, 0, 0]
    kernel = Waiting(mean=5.0, sd=2.0).start(dates)
    found = date_windows(np.zeros(400, dtype=int), kernel, dates)
    assert (found.sizes < 60).all()
    everyone = np.arange(400)
    child, parent = np.repeat(everyone, 400), np.tile(everyone, 400)
    log_p = kernel.log_steps(kernel.pairs(dates, dates, child, parent), 1).reshape(400, 400)
    inside = np.zeros((400, 400), dtype=bool)
    inside[found.pairs(everyone)] = True
    assert log_p[~inside].max() < log_p.max() - 15  # 16 nats, and half a day of rounding
    assert (found.implausible == (np.isfinite(log_p) & ~inside).sum(axis=1)).all()


def test_a_record_after_a_long_silence_still_has_candidates():
    dates = np.array([0.0, 1, 2, 900])[:, None] * [1, 1, 0, 0]
    kernel = Waiting(mean=2.0, sd=1.0).start(dates)
    assert date_windows(np.zeros(4, dtype=int), kernel, dates).sizes[3] == 4


# Ranking ---------------------------------------------------------------------------------------


def complete_table(seed, T=80, unit=1.0):
    """Cells without gaps, of the kinds whose quick form leaves nothing out."""
    _, values = random_table(seed, T=T, missing=0.0, unit=unit)
    kernels = [
        Drift(),
        Drift(offset=False),
        Reversion(),
        Sticky(("a", "b", "c")),
        Substitution(),
        Waiting(unit=unit, ties=unit > 0),
    ]
    return kernels, [values[c] for c in (0, 1, 3, 4, 6, 7)]


@pytest.mark.parametrize("generations", [1, 3])
@pytest.mark.parametrize("background", [True, False])
def test_quick_scores_are_the_largest_term_of_the_weights(generations, background):
    kernels, values = complete_table(1)
    lineage = Lineage(kernels, generations, background).start(values)
    if background:
        lineage = replace(lineage, outlier_shares=np.array([0.01, 0.3, 0.1, 0.2, 0.05, 0.0]))
    given = constraints(80)
    weights = EdgeWeights(lineage, values, given.groups)
    found = Scanner(weights).best(np.arange(80), 80, windows_of(lineage, values, given), given)
    terms = []
    for k in range(1, generations + 1):
        best = []
        for c, kernel in enumerate(lineage.kernels):
            follows = kernel.log_steps(
                kernel.pairs(values[c], values[c], found.child, found.parent), k
            )
            share = lineage.outlier_shares[c]
            with np.errstate(divide="ignore"):
                alone = np.log(share) + weights.background.log_alone[c][found.child]
            best.append(np.maximum(follows + np.log1p(-share), alone))
        terms.append(np.log(lineage.step_weights[k - 1]) + np.sum(best, axis=0))
    np.testing.assert_allclose(found.score, np.max(terms, axis=0), atol=1e-9)
    assert len(found.child) > 500


@pytest.mark.parametrize("unit", [1.0, 0.0])
def test_the_compiled_search_finds_the_best(monkeypatch, unit):
    kernels, values = complete_table(2, unit=unit)
    lineage = Lineage(kernels, 1, False).start(values)
    given = constraints(80, np.arange(80) % 2, {5: 3}, [(10, 4), (11, 5)])
    slow = best_parents(lineage, values, given, 6)
    monkeypatch.setattr(table_search, "_WORTH_COMPILING", 0)
    monkeypatch.setattr("outtrees.candidates.scan._FAR", 1e9)
    fast = best_parents(lineage, values, given, 6)
    np.testing.assert_array_equal(fast.possible, slow.possible)
    if unit:
        assert pairs_of(fast) == pairs_of(slow)
    else:  # dates that are not rounded are looked up in a table of 2,000 times
        assert len(pairs_of(fast) & pairs_of(slow)) > 0.97 * len(slow.child)
    everything = all_edges(given)
    kept = in_order(lineage, values, everything.child, everything.parent)
    u, v = everything.child[kept], everything.parent[kept]
    score = EdgeWeights(lineage, values, given.groups).log_beta(u, v)
    twin = grouped(list(zip(u.tolist(), v.tolist(), strict=True)), score, 6)
    assert pairs_of(slow) == {(u, v) for u, v in twin if u != 5}


@pytest.mark.parametrize("strict", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2))])
def test_gaps_counts_and_clocks_are_ranked_nearly_right(monkeypatch, strict, seed):
    """All kinds of columns, 15 % of the cells missing: weights tell what the ranking lost."""
    kernels, values = random_table(seed, T=100, strict=strict)
    lineage = Lineage(kernels, 2).start(values)
    given = constraints(100)
    slow = best_parents(lineage, values, given, 100)
    monkeypatch.setattr(table_search, "_WORTH_COMPILING", 0)
    fast = best_parents(lineage, values, given, 20)
    np.testing.assert_array_equal(fast.possible, slow.possible)
    log_weight = EdgeWeights(lineage, values, given.groups).log_beta(slow.child, slow.parent)
    shares = IndependentChoices(slow.child, log_weight, np.full(100, -np.inf)).edge_marginals
    listed = np.array([pair in pairs_of(fast) for pair in sorted(pairs_of(slow))])
    lost = np.bincount(slow.child[~listed], shares[~listed], minlength=100)
    # With starting parameters the parents are still hardly told apart: 20 of about 50 hold most.
    by_rank = np.bincount(slow.child, shares, minlength=100)
    assert lost.sum() < 0.25 * by_rank.sum()


def test_dates_with_widths_and_censoring_are_possible_alike(monkeypatch):
    dates = odd_dates(4)
    lineage = Lineage([Waiting()]).start([dates])
    given = constraints(60)
    slow = best_parents(lineage, [dates], given, 60)
    monkeypatch.setattr(table_search, "_WORTH_COMPILING", 0)
    monkeypatch.setattr("outtrees.candidates.scan._FAR", 1e9)
    fast = best_parents(lineage, [dates], given, 60)
    np.testing.assert_array_equal(fast.possible, slow.possible)
    assert pairs_of(fast) == pairs_of(slow)


def test_matrices_are_ranked_without_a_quick_form(monkeypatch):
    monkeypatch.setattr(table_search, "_WORTH_COMPILING", 0)
    rng = np.random.default_rng(0)
    matrix = rng.random((12, 12))
    cells = [np.arange(12.0)[:, None]]
    lineage = Lineage([Distances(matrix)]).start(cells)
    edges = table_candidates(lineage, cells, constraints(12), 2, roots="any")
    nearest = np.argsort(matrix + np.eye(12) * 9, axis=1)[:, :2]
    assert pairs_of(edges) == {(u, int(v)) for u in range(12) for v in nearest[u]}


# Lists -----------------------------------------------------------------------------------------


def line(T):
    """Records along a line, without dates."""
    cells = [np.arange(float(T))[:, None] ** 1.1]
    return Lineage([Drift(offset=False)]).start(cells), cells


def test_constraints_hold_in_lists():
    lineage, cells = line(30)
    given = constraints(30, np.repeat([0, 1], 15), {20: 16}, [(5, 4), (6, -1)], root=0)
    edges = table_candidates(lineage, cells, given, 3)
    assert (np.bincount(edges.child, minlength=30) <= 3).all()
    found = pairs_of(edges)
    assert {v for u, v in found if u == 20} == {16}
    assert (5, 4) not in found
    assert not {u for u, v in found if u == 0}
    assert all(given.groups[u] == given.groups[v] for u, v in found)
    assert list(zip(edges.child, edges.parent, strict=True)) == sorted(found)
    assert edges.choices[5] == 13
    assert edges.choices[20] == 1


def test_parts_that_nothing_leads_to_are_joined():
    """Two clusters whose records are all nearest to each other; one root for both."""
    x = np.concatenate([np.arange(6.0), 1000 + np.arange(6.0)])[:, None]
    lineage = Lineage([Drift(offset=False)], 1, False).start([x])
    given = constraints(12)
    apart = table_candidates(lineage, [x], given, 2, roots="any")
    assert {(u < 6) == (v < 6) for u, v in pairs_of(apart)} == {True}
    with pytest.raises(NoSpanningTreeError):
        OutTreeDistribution.from_candidates(
            apart.child, apart.parent, np.zeros(len(apart.child)), np.zeros(12)
        )
    joined = table_candidates(lineage, [x], given, 2, roots="single")
    assert pairs_of(apart) < pairs_of(joined)
    OutTreeDistribution.from_candidates(
        joined.child, joined.parent, np.zeros(len(joined.child)), np.zeros(12)
    )


def test_independent_choices_are_the_trees_of_a_list_without_circles():
    rng = np.random.default_rng(5)
    child, parent = np.tril_indices(8, -1)
    log_weight, log_root = rng.normal(size=28), rng.normal(size=8)
    trees = OutTreeDistribution.from_candidates(child, parent, log_weight, log_root, roots="any")
    choices = IndependentChoices(child, log_weight, log_root)
    assert choices.log_z == pytest.approx(trees.log_z, abs=1e-12)
    np.testing.assert_allclose(choices.edge_marginals, trees.edge_marginals, atol=1e-13)
    np.testing.assert_allclose(choices.root_marginals, trees.root_marginals, atol=1e-13)


def test_counts_have_the_mean_and_variance_of_their_model():
    """The one quick form that is an approximation by design, beside the exact moments."""
    kernel = replace(Counts(), mean=3.0, variance=3.0, survival=0.6)
    cells = np.arange(40.0)[:, None]
    quick = kernel.quick(cells, 1, 1.0)
    pairs = kernel.pairs(cells, cells[3:4], np.arange(40), np.zeros(40, dtype=int))
    p = np.exp(kernel.log_steps(pairs, 1))
    mean = p @ cells[:, 0]
    variance = p @ (cells[:, 0] - mean) ** 2
    scale = 1 / np.diff(quick.child[0, :2, 0])[0]
    assert scale**2 == pytest.approx(variance)  # at the average parent
    nearest = np.argmin(abs(quick.child[0, :, 0] - quick.parent[0, 3, 0]))
    assert nearest == round(mean)


@pytest.mark.parametrize("strict", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dated", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_proposals_hold_most_of_what_all_pairs_hold(monkeypatch, strict, dated):
    """Where there are too many pairs to look at all: nearest in time, place, category, sequence."""
    kernels, values = random_table(3, T=300, missing=0.05, strict=strict)
    chosen = [1, 4, 6, 7] if dated else [1, 4, 6]
    kernels, values = [kernels[c] for c in chosen], [values[c] for c in chosen]
    lineage = Lineage(kernels).start(values)
    if dated:
        waiting = replace(lineage.kernels[3], log_mean=np.log(4.0), log_shape=np.log(4.0))
        lineage = replace(lineage, kernels=(*lineage.kernels[:3], waiting))
    given = constraints(300, np.arange(300) % 2, {7: 1}, [(9, 5)])
    whole = best_parents(lineage, values, given, 10)
    monkeypatch.setattr(table_search, "_MOST_PAIRS", 0)
    some = best_parents(lineage, values, given, 10)
    u, v = some.child, some.parent
    assert given.allows(u, v).all()
    assert in_order(lineage, values, u, v).all()
    assert 7 not in u
    log_weight = EdgeWeights(lineage, values, given.groups).log_beta(whole.child, whole.parent)
    shares = IndependentChoices(whole.child, log_weight, np.full(300, -np.inf)).edge_marginals
    listed = np.array([pair in pairs_of(some) for pair in sorted(pairs_of(whole))])
    assert shares[listed].sum() > 0.9 * shares.sum()
    # Records of the same date are possible only with ties; counting them all is off by a few.
    assert (some.possible >= whole.possible).all()
    assert np.median(some.possible - whole.possible) <= 2

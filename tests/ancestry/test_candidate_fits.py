"""EM on candidate parents: equal to all pairs where it covers them, honest about what it drops."""

import numpy as np
import pytest
from outtrees.ancestry.em import fit_candidates, fit_lineage

from lineages import random_table
from outtrees.ancestry.posterior import trees_of
from outtrees.candidates import all_edges, constraints, in_order, table_candidates, table_search
from outtrees.candidates.dropped_mass import table_dropped_mass
from outtrees.candidates.windows import windows_of
from outtrees.inference.checkpoint import Checkpoint
from outtrees.models.columns import Drift, Lineage, Sticky, Substitution, Waiting


def dated_table(seed, T=60, unit=0.0):
    """A chain of transmission with dates, places, wards and sequences; roots at 0 and T // 2."""
    rng = np.random.default_rng(seed)
    parents = np.array([-1, *(rng.integers(max(0, t - 8), t) for t in range(1, T))])
    parents[T // 2] = -1
    day, place = np.zeros(T), rng.uniform(0, 20, (T, 2))
    ward, dna = rng.integers(4, size=T), rng.integers(4, size=(T, 40))
    day[T // 2] = 20.0
    for u in range(T):
        v = parents[u]
        if v >= 0:
            day[u] = day[v] + rng.gamma(6.0, 0.8)
            place[u] = place[v] + rng.normal(size=2)
            ward[u] = ward[v] if rng.random() < 0.8 else rng.integers(4)
            dna[u] = np.where(rng.random(40) < 0.02, rng.integers(4, size=40), dna[v])
    day = np.round(day) if unit else day
    dates = np.column_stack([day, day, 0 * day, 0 * day])
    kernels = [
        Waiting(unit=unit, ties=unit > 0),
        Drift(offset=False),
        Sticky(tuple("abcd")),
        Substitution(),
    ]
    return kernels, [dates, place, ward[:, None].astype(float), dna.astype(float)]


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("unit", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
def test_all_candidates_give_the_same_fit(roots, unit):
    kernels, values = dated_table(1, unit=unit)
    given, lineage = constraints(60), Lineage(kernels)
    options = {"roots": roots, "max_iter": 200, "tol": 1e-8}
    dense = fit_lineage(lineage, values, all_edges(given), **options)
    sparse = fit_candidates(lineage, values, given, 60, **options)
    edges = sparse.edges
    # Both climb the same hill, and stop where an iteration gains less than 1e-8 for each record.
    assert sparse.objectives[-1] == pytest.approx(dense.objectives[-1], abs=1e-4)
    np.testing.assert_array_equal(sparse.pairs.child, dense.pairs.child)
    np.testing.assert_array_equal(sparse.pairs.parent, dense.pairs.parent)
    np.testing.assert_allclose(sparse.trees.edge_marginals, dense.trees.edge_marginals, atol=0.01)
    np.testing.assert_array_equal(edges.choices, np.bincount(dense.pairs.child, minlength=60))


@pytest.mark.slow
def test_gaps_and_every_kind_of_column_give_the_same_fit():
    kernels, values = random_table(7, T=15)
    given, lineage = constraints(15), Lineage(kernels, 2)
    options = {"roots": "any", "max_iter": 100, "tol": 1e-5}
    dense = fit_lineage(lineage, values, all_edges(given), **options)
    sparse = fit_candidates(lineage, values, given, 15, **options)
    # So few records make several hills, and the pilot may find a higher one; ends within
    # a few iterations' gain (1e-5 for each record) are the same.
    assert sparse.objectives[-1] > dense.objectives[-1] - 0.02


@pytest.mark.slow
def test_few_candidates_keep_nearly_all_probability(monkeypatch):
    monkeypatch.setattr(table_search, "_WORTH_COMPILING", 0)
    kernels, values = dated_table(3)
    given, lineage = constraints(60), Lineage(kernels)
    dense = fit_lineage(lineage, values, all_edges(given), roots="any", tol=1e-8)
    sparse = fit_candidates(lineage, values, given, 12, roots="any", tol=1e-8)
    edges = sparse.edges
    assert (np.bincount(edges.child) <= 12).all()
    assert sparse.trees.log_z == pytest.approx(dense.trees.log_z, abs=0.05)
    np.testing.assert_allclose(sparse.trees.root_marginals, dense.trees.root_marginals, atol=0.01)


def test_the_choice_among_all_possible_parents_counts():
    """Were only candidates counted as choices, records would less often be roots."""
    kernels, values = dated_table(4)
    given = constraints(60)
    lineage = Lineage(kernels).start(values)
    edges = table_candidates(lineage, values, given, 4, roots="any")
    pairs = lineage.pairs(values, values, edges.child, edges.parent)
    everything = all_edges(given)
    kept = in_order(lineage, values, everything.child, everything.parent)
    whole = everything._replace(child=everything.child[kept], parent=everything.parent[kept])
    all_pairs = lineage.pairs(values, values, whole.child, whole.parent)
    log_root = lineage.log_root(values)

    def roots(pairs, edges):
        return trees_of(edges, lineage.log_beta(pairs), log_root, "any", 0.1).root_marginals

    right = roots(all_pairs, whole)
    assert (
        abs(roots(pairs, edges) - right).max()
        < 0.5 * abs(roots(pairs, edges._replace(choices=None)) - right).max()
    )


@pytest.mark.parametrize("roots", ["single", "any"])
def test_lost_mass_is_what_all_pairs_say(roots):
    """Dates that are never equal leave no circles: then the estimate is exact for its sample."""
    kernels, values = dated_table(5)
    given = constraints(60)
    lineage = Lineage(kernels).start(values)
    edges = table_candidates(lineage, values, given, 3, roots=roots)
    everything = all_edges(given)
    kept = in_order(lineage, values, everything.child, everything.parent)
    whole = everything._replace(child=everything.child[kept], parent=everything.parent[kept])
    pairs = lineage.pairs(values, values, whole.child, whole.parent)
    trees = trees_of(whole, lineage.log_beta(pairs), lineage.log_root(values), roots, 0.1)
    candidates = set(zip(edges.child.tolist(), edges.parent.tolist(), strict=True))
    ends = zip(whole.child.tolist(), whole.parent.tolist(), strict=True)
    listed = np.array([pair in candidates for pair in ends])
    lost = np.bincount(whole.child[~listed], trees.edge_marginals[~listed], minlength=60)
    mine = table_dropped_mass(lineage, values, given, edges, roots=roots, root_rate=0.1)
    n = 60 if roots == "any" else 59  # the first record has no possible parent
    assert mine.n_records == n
    assert mine.mean == pytest.approx(lost.sum() / n, rel=1e-9)
    assert mine.mean > 0.01  # with starting parameters three parents do not hold everything
    assert (mine.error, mine.kind, mine.bound) == (0.0, "exact", mine.mean)
    # With one pair too many only the sample, here all records, is weighed: an estimate.
    n_pairs = int(windows_of(lineage, values, given, all_possible=True).sizes.sum())
    options = {"roots": roots, "root_rate": 0.1, "most_pairs": n_pairs - 1}
    sampled = table_dropped_mass(lineage, values, given, edges, n_records=59, **options)
    assert (sampled.kind, sampled.bound) == ("estimate", None)  # exact times: see `bounds`
    assert abs(sampled.mean - mine.mean) < 4 * sampled.error


def test_a_smaller_sample_agrees_within_its_error():
    kernels, values = dated_table(6, T=300)
    given = constraints(300)
    lineage = Lineage(kernels).start(values)
    edges = table_candidates(lineage, values, given, 5, roots="any")
    options = {"roots": "any", "root_rate": 0.1}
    whole = table_dropped_mass(lineage, values, given, edges, n_records=300, **options)
    part = table_dropped_mass(
        lineage, values, given, edges, n_records=60, most_pairs=20_000, **options
    )
    assert part.n_records == 60
    assert abs(part.mean - whole.mean) < 4 * part.error
    few = table_dropped_mass(lineage, values, given, edges, most_pairs=4000, **options)
    assert 1 <= few.n_records < 60


@pytest.mark.parametrize("way", ["dense", "candidates"])
@pytest.mark.parametrize(
    "after", [pytest.param(1, marks=pytest.mark.slow), 4, pytest.param(9, marks=pytest.mark.slow)]
)
def test_a_fit_that_goes_on_ends_with_the_same_bits(way, after):
    kernels, values = dated_table(8, T=30)
    given, lineage = constraints(30), Lineage(kernels)

    def fit(checkpoint):
        options = {"roots": "any", "max_iter": 6, "tol": 1e-9, "checkpoint": checkpoint}
        if way == "dense":
            return fit_lineage(lineage, values, all_edges(given), **options)
        return fit_candidates(lineage, values, given, 8, **options)

    class Killed(Exception):
        pass

    kept = []

    def keep(stages):
        kept.append(tuple(stages))
        if len(kept) == after:
            raise Killed

    with pytest.raises(Killed):
        fit(Checkpoint(keep=keep))
    whole, resumed = fit(None), fit(Checkpoint(kept[-1]))
    assert resumed.objectives == whole.objectives
    np.testing.assert_array_equal(resumed.trees.edge_marginals, whole.trees.edge_marginals)
    assert resumed.lineage.kernels[0].log_mean == whole.lineage.kernels[0].log_mean

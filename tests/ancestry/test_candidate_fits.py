"""Candidate parents of a fit: all pairs where they cover them, honest about what they drop."""

import numpy as np
import pytest

from outtrees.ancestry.learning import learn
from outtrees.candidates import all_edges, constraints, in_order, table_candidates, table_search
from outtrees.candidates.dropped_mass import table_dropped_mass
from outtrees.candidates.windows import windows_of
from outtrees.inference.checkpoint import Checkpoint
from outtrees.models.columns import Drift, EdgeWeights, Lineage, Sticky, Substitution, Waiting


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


def whole_of(lineage, values, given):
    """Return all possible edges."""
    edges = all_edges(given)
    kept = in_order(lineage, values, edges.child, edges.parent)
    return edges.only(kept)


def trees_on(reading, values, edges, roots):
    weights = EdgeWeights(reading.lineage, values, edges.groups)
    log_weight = weights.log_beta(edges.child, edges.parent)
    return edges.trees(log_weight, weights.log_root + reading.log_introduction, roots)


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("unit", [0.0, 1.0])
def test_as_many_candidates_as_records_are_all_possible_parents(roots, unit):
    kernels, values = dated_table(1, unit=unit)
    given, lineage = constraints(60), Lineage(kernels).start(values)
    whole = whole_of(lineage, values, given)
    edges = table_candidates(lineage, values, given, 60, roots=roots)
    np.testing.assert_array_equal(edges.child, whole.child)
    np.testing.assert_array_equal(edges.parent, whole.parent)
    np.testing.assert_array_equal(edges.choices, np.bincount(whole.child, minlength=60))


@pytest.mark.parametrize("compiled", [False, True])
def test_few_candidates_keep_nearly_all_probability(monkeypatch, compiled):
    if compiled:
        monkeypatch.setattr(table_search, "_WORTH_COMPILING", 0)
    kernels, values = dated_table(3)
    kernels[0] = Waiting(mean=4.8, sd=2.0, unit=0.0, ties=False)
    given = constraints(60)
    reading = learn(Lineage(kernels), values, given, "any").readings[0]
    dense = trees_on(reading, values, whole_of(reading.lineage, values, given), "any")
    edges = table_candidates(reading.lineage, values, given, 12, roots="any")
    sparse = trees_on(reading, values, edges, "any")
    assert (np.bincount(edges.child) <= 12).all()
    assert sparse.log_z == pytest.approx(dense.log_z, abs=0.05)
    np.testing.assert_allclose(sparse.root_marginals, dense.root_marginals, atol=0.01)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_lost_mass_is_what_all_pairs_say(roots):
    """Dates that are never equal leave no circles: then the estimate is exact for its sample."""
    kernels, values = dated_table(5)
    given = constraints(60)
    lineage = Lineage(kernels).start(values)
    edges = table_candidates(lineage, values, given, 3, roots=roots)
    whole = whole_of(lineage, values, given)
    weights = EdgeWeights(lineage, values, given.groups)
    log_weight = weights.log_beta(whole.child, whole.parent)
    trees = whole.trees(log_weight, weights.log_root - 2.0, roots)
    candidates = set(zip(edges.child.tolist(), edges.parent.tolist(), strict=True))
    ends = zip(whole.child.tolist(), whole.parent.tolist(), strict=True)
    listed = np.array([pair in candidates for pair in ends])
    lost = np.bincount(whole.child[~listed], trees.edge_marginals[~listed], minlength=60)
    mine = table_dropped_mass(lineage, values, given, edges, roots=roots, log_introduction=-2.0)
    n = 60 if roots == "any" else 59  # the first record has no possible parent
    assert mine.n_records == n
    assert mine.mean == pytest.approx(lost.sum() / n, rel=1e-9)
    assert mine.mean > 0.01  # with starting parameters three parents do not hold everything
    assert (mine.error, mine.kind, mine.bound) == (0.0, "exact", mine.mean)
    # With one pair too many only the sample, here all records, is weighed: an estimate.
    n_pairs = int(windows_of(lineage, values, given, all_possible=True).sizes.sum())
    options = {"roots": roots, "log_introduction": -2.0, "most_pairs": n_pairs - 1}
    sampled = table_dropped_mass(lineage, values, given, edges, n_records=59, **options)
    assert (sampled.kind, sampled.bound) == ("estimate", None)  # exact times: see `bounds`
    assert abs(sampled.mean - mine.mean) < 4 * sampled.error


def test_a_smaller_sample_agrees_within_its_error():
    kernels, values = dated_table(6, T=300)
    given = constraints(300)
    lineage = Lineage(kernels).start(values)
    edges = table_candidates(lineage, values, given, 5, roots="any")
    options = {"roots": "any", "log_introduction": -2.0}
    whole = table_dropped_mass(lineage, values, given, edges, n_records=300, **options)
    part = table_dropped_mass(
        lineage, values, given, edges, n_records=60, most_pairs=20_000, **options
    )
    assert part.n_records == 60
    assert abs(part.mean - whole.mean) < 4 * part.error
    few = table_dropped_mass(lineage, values, given, edges, most_pairs=4000, **options)
    assert 1 <= few.n_records < 60


@pytest.mark.parametrize(
    "after",
    [1, 4, pytest.param(9, marks=pytest.mark.slow), pytest.param(14, marks=pytest.mark.slow)],
)
def test_a_fit_that_goes_on_ends_with_the_same_bits(after):
    kernels, values = dated_table(8, T=30)
    kernels, values = kernels[:3], values[:3]
    given, lineage = constraints(30), Lineage(kernels)

    def fit(checkpoint):
        return learn(lineage, values, given, "any", max_iter=6, tol=1e-9, checkpoint=checkpoint)

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
    assert len(resumed.readings) == len(whole.readings)
    assert resumed.gains == whole.gains
    for mine, right in zip(resumed.readings, whole.readings, strict=True):
        assert mine.objectives == right.objectives
        assert (mine.weight, mine.gain) == (right.weight, right.gain)
        np.testing.assert_array_equal(mine.lineage.params, right.lineage.params)

"""The probability that candidates leave out: its type, its mean, and bounds of it."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from outtrees import OutTreeDensity
from outtrees.candidates import best_parents, constraints, table_candidates, table_search
from outtrees.candidates.dropped_mass import (
    DroppedMass,
    can_be_bounded,
    dropped_bound,
    dropped_shares,
    matrix_dropped_mass,
    table_dropped_mass,
)
from outtrees.candidates.matrix_search import matrix_candidates
from outtrees.models import GaussianMutation
from outtrees.models.columns import (
    Counts,
    Drift,
    Lineage,
    Reversion,
    Sticky,
    Substitution,
    Waiting,
)

# The type ----------------------------------------------------------------------------------


def test_a_mass_is_used_like_the_number_it_was():
    mass = DroppedMass(0.25, 0.01, 200, "bound", 0.5)
    assert float(mass) == 0.25
    assert mass == 0.25
    assert mass == pytest.approx(0.25)
    assert 0 < mass <= 0.25 < 0.3
    assert not mass > 0.25
    assert mass < DroppedMass(0.3, 0.0, 200)
    assert f"{mass:.1f}" == f"{0.25:.1f}"
    assert f"{mass}" == repr(mass)


def test_masses_are_equal_if_all_of_them_is():
    mass = DroppedMass(0.25, 0.01, 200)
    assert mass == DroppedMass(0.25, 0.01, 200, "estimate", None)
    assert mass != DroppedMass(0.25, 0.02, 200)
    assert len({mass, DroppedMass(0.25, 0.01, 200)}) == 1
    with pytest.raises(FrozenInstanceError):
        mass.mean = 0.0


def test_former_names_warn():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = OutTreeDensity("parzen", candidates="knn", n_candidates=5).fit(X)
    for part in ("error", "bound"):
        with pytest.warns(FutureWarning, match=rf"use dropped_mass_\.{part}"):
            former = getattr(model, f"dropped_mass_{part}_")
        assert former == getattr(model.dropped_mass_, part)
    assert not hasattr(model.set_params(candidates="dense").fit(X), "dropped_mass_error_")


# Of a matrix -------------------------------------------------------------------------------


def test_dropped_mass_of_all_records_is_exact():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2)) @ np.array([[2.0, 0.3], [0.0, 0.5]]) + 100.0
    mutation = GaussianMutation(transition="identity").start(X)
    beta = np.exp(mutation.log_conditional(X, X))
    np.fill_diagonal(beta, 0.0)
    listed = matrix_candidates(mutation, X, 6)
    kept = np.zeros_like(beta)
    kept[listed.edges.child, listed.edges.parent] = 1.0
    expected = (1 - (beta * kept).sum(axis=1) / beta.sum(axis=1)).mean()
    found = matrix_dropped_mass(mutation, X, listed)
    assert (found.n_records, found.error, found.kind) == (60, 0.0, "exact")
    np.testing.assert_allclose(found.mean, expected, rtol=1e-10)
    assert expected < found.bound < 1
    some = [
        matrix_dropped_mass(mutation, X, listed, n_sampled=20, random_state=s) for s in range(60)
    ]
    assert {(mass.n_records, mass.kind) for mass in some} == {(20, "bound")}
    means = np.array([mass.mean for mass in some])
    errors = np.array([mass.error for mass in some])
    assert abs(means.mean() - expected) < 4 * means.std() / np.sqrt(len(means))
    np.testing.assert_allclose(np.sqrt((errors**2).mean()), means.std(), rtol=0.4)


def test_nothing_listed_and_nothing_possible():
    weights = np.array([[-np.inf, 0.0], [-np.inf, -np.inf]])
    assert dropped_shares(weights, [[], []]).tolist() == [1.0, 0.0]
    assert dropped_bound(np.array([[-np.inf, 0.0]]), 3) == 0.0
    assert dropped_bound(np.zeros((2, 2)), 0) == 0.0


# Of a table --------------------------------------------------------------------------------


def table(seed, T, missing=0.05, spread=1.0):
    """Return kernels and cells of records that follow each other, with holes."""
    rng = np.random.default_rng(seed)
    parents = [0, *(int(rng.integers(max(0, t - 10), t)) for t in range(1, T))]
    day, place, size = np.zeros(T), np.zeros((T, 2)), np.zeros((T, 1))
    ward, dna = np.zeros((T, 1)), np.zeros((T, 30))
    for u in range(1, T):
        v = parents[u]
        day[u] = day[v] + np.round(rng.gamma(4.0, 1.0))
        place[u] = place[v] + spread * rng.normal(size=2)
        size[u] = 0.7 * size[v] + rng.normal(size=1)
        ward[u] = ward[v] if rng.random() < 0.8 else rng.integers(4)
        dna[u] = np.where(rng.random(30) < 0.02, rng.integers(4, size=30), dna[v])
    values = [np.column_stack([day, day, 0 * day, 0 * day]), place, size, ward, dna]
    for cells in values[1:]:
        cells[rng.random(cells.shape) < missing] = np.nan
    kernels = [
        Waiting(mean=4.0, sd=2.0),
        Drift(offset=False),
        Reversion(),
        Sticky(tuple("abcd")),
        Substitution(),
    ]
    # Without dates: where there are some, columns are contrasted, and nothing is bounded.
    return kernels[1:], values[1:]


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("generations", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_never_below_what_all_pairs_say(seed, generations, roots):
    kernels, values = table(seed, T=50)
    lineage = Lineage(kernels, generations).start(values)
    given = constraints(50, known_parents={7: 3}, forbidden=[(9, 8), (20, 2)])
    edges = table_candidates(lineage, values, given, 2, roots=roots)
    options = {"roots": roots, "log_introduction": -3.0}
    true = table_dropped_mass(lineage, values, given, edges, **options)
    found = table_dropped_mass(lineage, values, given, edges, most_pairs=500, **options)
    assert (true.kind, found.kind) == ("exact", "bound")
    assert true.mean > 0.01
    assert true.mean <= found.bound <= 1.0


def test_an_ordinary_bound_says_something():
    """Four hundred records over space, ten candidates: within a factor of three of the truth."""
    kernels, values = table(5, T=400, missing=0.02, spread=3.0)
    lineage = Lineage(kernels).start(values)
    given = constraints(400)
    options = {"roots": "any", "log_introduction": -3.0}
    edges = table_candidates(lineage, values, given, 10, roots="any")
    true = table_dropped_mass(lineage, values, given, edges, **options)
    found = table_dropped_mass(lineage, values, given, edges, most_pairs=20_000, **options)
    assert true.mean <= found.bound < 3 * true.mean + 1e-6
    assert found.bound < 0.5


def test_a_list_of_all_parents_loses_nothing():
    kernels, values = table(6, T=30)
    lineage, given = Lineage(kernels).start(values), constraints(30)
    edges = table_candidates(lineage, values, given, 30, roots="any")
    options = {"roots": "any", "log_introduction": -3.0}
    assert table_dropped_mass(lineage, values, given, edges, **options).mean == 0.0
    assert table_dropped_mass(lineage, values, given, edges, most_pairs=99, **options).bound == 0.0


def test_contrasted_columns_are_not_bounded():
    kernels, values = table(6, T=30)
    dates = np.repeat(np.arange(30.0)[:, None], 4, axis=1) * [1, 1, 0, 0]
    lineage = Lineage([Waiting(mean=4.0, sd=2.0), *kernels]).start([dates, *values])
    given = constraints(30)
    edges = table_candidates(lineage, [dates, *values], given, 3, roots="any")
    options = {"roots": "any", "most_pairs": 99}
    found = table_dropped_mass(lineage, [dates, *values], given, edges, **options)
    assert (found.kind, found.bound) == ("estimate", None)
    # Sequences are not contrasted, and dates with them alone are.
    pair = Lineage([Waiting(mean=4.0, sd=2.0), Substitution()]).start([dates, values[-1]])
    assert can_be_bounded(pair, [dates, values[-1]])


@pytest.mark.parametrize(
    ("kernel", "bounded"),
    [
        (Waiting(mean=4.0, sd=2.0), True),
        (Waiting(mean=4.0, sd=5.0), False),  # no peak: the tail is not concave
        (Waiting(unit=0.0), False),
        (Waiting(table=(0.1, 0.9)), True),
        (Drift(), True),
        (Drift(clock=True), False),
        (Substitution(), True),
        (Substitution(model="K80"), False),
        (Counts(), False),
    ],
)
def test_which_columns_can_be_bounded(kernel, bounded):
    cells = np.zeros((5, 4))
    cells[:, :2] = np.arange(5.0)[:, None]
    cells = cells if isinstance(kernel, Waiting) else cells[:, :1]
    assert can_be_bounded(Lineage([kernel]).start([cells]), [cells]) is bounded


@pytest.mark.parametrize("chances", [(0.0, 0.2, 0.5, 0.3), (0.0, 0.2, 0.5, 0.3, 0.0)])
def test_waits_longer_than_a_generation_time_table_are_no_candidates(monkeypatch, chances):
    """The compiled search once preferred them to all others."""
    rng = np.random.default_rng(7)
    day = np.sort(rng.integers(60, size=80)).astype(float)
    values = [np.column_stack([day, day, 0 * day, 0 * day]), rng.normal(size=(80, 2))]
    kernels = [Waiting(table=chances), Drift(offset=False)]
    lineage, given = Lineage(kernels, 1, False).start(values), constraints(80)
    slow = best_parents(lineage, values, given, 5)
    monkeypatch.setattr(table_search, "_WORTH_COMPILING", 0)
    monkeypatch.setattr("outtrees.candidates.scan._FAR", 1e9)
    fast = best_parents(lineage, values, given, 5)
    for mine, right in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(mine, right)

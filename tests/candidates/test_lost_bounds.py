"""The bound of what candidates leave out: never below the truth, and worth having."""

import numpy as np
import pytest

from outtrees.candidates import choose, choosing, constraints
from outtrees.candidates.bounds import can_be_bounded
from outtrees.candidates.choosing import best_parents
from outtrees.candidates.lost import lost_mass
from outtrees.models.columns import (
    Counts,
    Drift,
    Lineage,
    Reversion,
    Sticky,
    Substitution,
    Waiting,
)


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
    return kernels, values


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("generations", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_never_below_what_all_pairs_say(seed, generations, roots):
    kernels, values = table(seed, T=50)
    lineage = Lineage(kernels, generations).start(values)
    given = constraints(50, known_parents={7: 3}, forbidden=[(9, 8), (20, 2)])
    edges = choose(lineage, values, given, 2, roots=roots)
    options = {"roots": roots, "root_rate": 0.1}
    true = lost_mass(lineage, values, given, edges, **options)
    found = lost_mass(lineage, values, given, edges, most_pairs=500, **options)
    assert (true.kind, found.kind) == ("exact", "bound")
    assert true.mean > 0.01
    assert true.mean <= found.bound <= 1.0


def test_an_ordinary_bound_says_something():
    """Four hundred records over space, ten candidates: within a factor of three of the truth."""
    kernels, values = table(5, T=400, missing=0.02, spread=3.0)
    lineage = Lineage(kernels).start(values)
    given = constraints(400)
    options = {"roots": "any", "root_rate": 0.1}
    edges = choose(lineage, values, given, 10, roots="any")
    true = lost_mass(lineage, values, given, edges, **options)
    found = lost_mass(lineage, values, given, edges, most_pairs=20_000, **options)
    assert true.mean <= found.bound < 3 * true.mean + 1e-6
    assert found.bound < 0.5


def test_a_list_of_all_parents_loses_nothing():
    kernels, values = table(6, T=30)
    lineage, given = Lineage(kernels).start(values), constraints(30)
    edges = choose(lineage, values, given, 30, roots="any")
    options = {"roots": "any", "root_rate": 0.1}
    assert lost_mass(lineage, values, given, edges, **options)[0] == 0.0
    assert lost_mass(lineage, values, given, edges, most_pairs=99, **options).bound == 0.0


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
    monkeypatch.setattr(choosing, "_WORTH_COMPILING", 0)
    monkeypatch.setattr("outtrees.candidates.scan._FAR", 1e9)
    fast = best_parents(lineage, values, given, 5)
    for mine, right in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(mine, right)

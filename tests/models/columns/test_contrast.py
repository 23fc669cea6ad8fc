"""Why columns are contrasted: noise says nothing, and what is said again adds nothing.

Each claim is also made for the plain background, where it must not hold: there a record's parents
serve as a density estimate of its cells.
"""

import numpy as np
import pytest

from oracles.edges import possible_edges
from outtrees.ancestry.learning import Problem
from outtrees.models.columns import Drift, Lineage, Waiting
from outtrees.models.columns.earlier import with_backgrounds

from .conftest import dates

T = 90


class PlainDrift(Drift):
    """A walk whose background is the column's normal density."""

    contrasted = False


def fitted(kernels, values):
    """Return where a fit with dates ends, and its gain over cells that follow no tree."""
    lineage = with_backgrounds(Lineage(kernels).start(values), values, np.zeros(T, dtype=np.intp))
    edges, day = possible_edges(T), values[-1]
    in_order = lineage.kernels[-1].possible(day, day, edges.child, edges.parent)
    edges = edges.only(in_order)
    problem = Problem(lineage, values, edges, "any")
    start = problem.started(lineage)[0]
    point = problem.climb(start, problem.first_log_root(start))
    found = point.lineage
    alone = found.log_alone(found.compared(values)) if not found.contrasted else np.zeros(1)
    return found, problem.gain_over_any(point) - float(alone.sum())


def towns(seed):
    """Return clustered places of records whose dates have nothing to do with them."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 10, size=(9, 2))
    place = centres[rng.integers(9, size=T)] + rng.normal(0, 0.3, size=(T, 2))
    return place, dates(np.sort(rng.integers(0, 60, size=T)))


def wandering(seed):
    """Return numbers that follow a tree, and dates that come 5 ± 2 days after the parent's."""
    rng = np.random.default_rng(seed)
    day, number = np.zeros(T), np.zeros((T, 1))
    for u in range(1, T):
        v = rng.integers(max(0, u - 12), u)
        day[u] = day[v] + np.round(rng.gamma(6.25, 0.8))
        number[u] = number[v] + rng.normal()
    return number, dates(day)


@pytest.mark.parametrize("seed", range(2))
def test_clustered_noise_is_worth_nothing(seed):
    place, day = towns(seed)
    wait = Waiting(5.0, 2.0)
    lineage, gain = fitted([Drift(offset=False), wait], [place, day])
    assert gain < 4.0  # what its three spreads and its share of outliers must add
    assert lineage.outlier_shares[0] > 0.3
    lineage, gain = fitted([PlainDrift(offset=False), wait], [place, day])
    assert gain > 100.0
    assert lineage.outlier_shares[0] < 0.3


@pytest.mark.parametrize("seed", range(2))
def test_a_column_that_is_repeated_adds_nothing(seed):
    number, day = wandering(seed)
    gains = {}
    for kernel in (Drift(offset=False), PlainDrift(offset=False)):
        once = fitted([kernel, Waiting(5.0, 2.0)], [number, day])[1]
        twice = fitted([kernel, kernel, Waiting(5.0, 2.0)], [number, number.copy(), day])[1]
        gains[kernel.contrasted] = once, twice
    once, twice = gains[True]
    assert once > 5.0
    assert twice < once
    once, twice = gains[False]
    assert twice > 1.5 * once

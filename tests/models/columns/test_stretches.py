"""Long lists of edges are read in stretches: the same results, in memory of one stretch."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from lineages import random_table
from outtrees._common import edges
from outtrees.models.columns import Drift, EdgeWeights, Lineage, Reversion, Sticky, Waiting
from outtrees.models.columns.earlier import with_backgrounds

from .conftest import assert_slopes_agree, dates, weighted_sum


def moved(lineage, values):
    """Return the lineage with shares and weights that no start has."""
    groups = np.zeros(len(values[0]), dtype=np.intp)
    lineage = with_backgrounds(lineage.start(values), values, groups)
    shares = np.where(lineage.outlier_shares > 0, 0.05, 0.0)
    weights = np.arange(lineage.generations, 0, -1.0)
    return replace(lineage, outlier_shares=shares, step_weights=weights / weights.sum())


@pytest.mark.parametrize("generations", [1, 3])
def test_stretches_say_what_the_whole_list_says(monkeypatch, generations):
    kernels, values = random_table(5, T=12, missing=0.1)
    lineage = moved(Lineage(kernels, generations), values)
    child, parent = np.nonzero(~np.eye(12, dtype=bool))
    whole = lineage.pairs(values, values, child, parent)
    assert len(whole.stretches) == 1
    groups = np.zeros(12, dtype=np.intp)
    one = EdgeWeights(lineage, values, groups)
    log_beta = one.log_beta_pairs(whole)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(generations, len(child))) * (log_beta > -np.inf) * (child != 3)
    monkeypatch.setattr(edges, "_CELLS_AT_ONCE", 7 * 4 * generations * len(kernels))
    parts = lineage.pairs(values, values, child, parent)
    assert len(parts.stretches) == 19  # of 7 edges; those to record 3 weigh nothing
    other = EdgeWeights(lineage, values, groups)
    np.testing.assert_allclose(other.log_beta_pairs(parts), log_beta, rtol=1e-12)
    for k in range(1, generations + 1):
        np.testing.assert_allclose(
            lineage.log_columns(parts, other.background, k),
            lineage.log_columns(whole, one.background, k),
            rtol=1e-12,
            atol=1e-12,
        )
    np.testing.assert_allclose(
        lineage.slopes(parts, weights, other.background),
        lineage.slopes(whole, weights, one.background),
        rtol=1e-6,  # some kernels take differences, which round
        atol=1e-6,
    )


@pytest.mark.parametrize("clock", [True, False])
@pytest.mark.parametrize("far", [0.0, 1e8])  # steps large beside their spread
def test_slopes_of_a_walk_are_sums_over_its_edges(clock, far):
    """In the best direction the slopes are 0: the residuals' sums, edge by edge."""
    rng = np.random.default_rng(1)
    parents = rng.normal(size=(40, 2))
    children = parents + far + rng.normal(size=(40, 2))
    start = Drift(clock=clock).start(rng.normal(size=(40, 2)))
    elapsed = rng.integers(5, size=40).astype(float)
    weights = rng.random((1, 40))
    factor = 1 + 0.3 * clock * elapsed
    w, moved = (weights[0] / factor)[:, None], children - parents
    step = (w * moved).sum(axis=0) / w.sum()
    cov = ((moved - step) * w).T @ (moved - step) / weights.sum()
    kernel = replace(start, rate=0.3 * clock, mean_step=step, cov=cov)
    edge = np.arange(40)
    found = kernel.slopes(kernel.pairs(children, parents, edge, edge), weights, elapsed)
    np.testing.assert_allclose(found[:5], 0.0, atol=1e-5 if far else 1e-10)


@pytest.mark.parametrize("far", [0.0, 1e5])  # values large beside their differences
def test_slopes_of_a_reversion_keep_their_digits(far):
    rng = np.random.default_rng(2)
    column = rng.normal(size=(30, 1)) + far
    kernel = replace(Reversion().start(column), share=0.8, step=0.2 * far + 0.1)
    child, parent = np.nonzero(~np.eye(30, dtype=bool))
    pairs = kernel.pairs(column, column, child, parent)
    weights = rng.random((3, len(child)))
    assert_slopes_agree(
        kernel.slopes(pairs, weights),
        lambda params: weighted_sum(kernel.with_params(params), pairs, weights),
        kernel.params,
        tol=2e-6,
    )


def test_memory_does_not_grow_with_columns_and_links(monkeypatch):
    monkeypatch.setattr(edges, "_CELLS_AT_ONCE", 2**16)
    rng = np.random.default_rng(3)
    T = 400
    values = [
        dates(rng.integers(60, size=T)),
        rng.normal(size=(T, 2)),
        rng.normal(size=(T, 1)),
        rng.integers(3, size=(T, 1)).astype(float),
    ]
    kernels = [Waiting(2.0, 1.0, strict=False), Drift(), Reversion(), Sticky(tuple("abc"))]
    lineage = moved(Lineage(kernels, generations=3), values)
    peaks = []
    for per_record in (20, 80):
        child = np.repeat(np.arange(T), per_record)
        parent = rng.integers(T, size=len(child))
        pairs = lineage.pairs(values, values, child, parent)
        weights = np.full((3, len(child)), 1 / per_record)
        background = lineage.compared(values)
        tracemalloc.start()
        lineage.slopes(pairs, weights, background)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 24,000 more edges: an array of them for each column and number of links would be 2.3 MB.
    assert peaks[1] - peaks[0] < 8 * 24_000

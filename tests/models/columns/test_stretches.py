"""Long lists of edges are read in stretches: the same results, in memory of one stretch."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from lineages import random_table
from outtrees.models import edges
from outtrees.models.columns import Drift, Lineage, Reversion, Sticky, Waiting

from .conftest import dates, weighted_sum


def moved(lineage, values):
    """Return the lineage with shares and weights that no start has."""
    lineage = lineage.start(values)
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
    log_beta = lineage.log_beta(whole)
    rng = np.random.default_rng(0)
    marginals = rng.random(len(child)) / 12 * (log_beta > -np.inf) * (child != 3)
    roots = rng.random(12) / 10
    monkeypatch.setattr(edges, "_CELLS_AT_ONCE", 7 * 4 * generations * len(kernels))
    parts = lineage.pairs(values, values, child, parent)
    assert len(parts.stretches) == 19  # of 7 edges; those to record 3 weigh nothing
    np.testing.assert_allclose(lineage.log_beta(parts), log_beta, rtol=1e-13)
    for k in range(1, generations + 1):
        np.testing.assert_allclose(
            lineage.log_columns(parts, k), lineage.log_columns(whole, k), rtol=1e-13
        )
    one, other = (lineage.refit(pairs, marginals, roots) for pairs in (whole, parts))
    np.testing.assert_allclose(other.step_weights, one.step_weights, rtol=1e-12)
    np.testing.assert_allclose(other.outlier_shares, one.outlier_shares, rtol=1e-9)
    # Searches over one parameter stop within 1e-5 of it, and rounding decides where.
    np.testing.assert_allclose(other.log_beta(parts), one.log_beta(whole), rtol=1e-4, atol=1e-4)
    assert other.log_prior() == pytest.approx(one.log_prior(), abs=1e-4)


def direct_drift(kernel, difference, weights, elapsed):
    """Return the best step and cov at the kernel's rate, edge by edge."""
    K, D = len(weights), difference.shape[1]
    factor = [k + kernel.rate * elapsed for k in range(1, K + 1)]
    step = np.zeros(D)
    if kernel.offset:
        top = sum((k + 1) * (weights[k] / factor[k]) @ difference for k in range(K))
        step = top / sum((k + 1) ** 2 * (weights[k] / factor[k]).sum() for k in range(K))
    scatter = kernel.prior_strength * kernel.guess
    for k in range(K):
        for d, w in zip(difference - (k + 1) * step, weights[k] / factor[k], strict=True):
            scatter = scatter + w * np.outer(d, d)
    return step, scatter / (weights.sum() + kernel.prior_strength)


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("clock", [True, False])
@pytest.mark.parametrize("far", [0.0, 1e8])  # steps large beside their spread
def test_moments_of_a_walk_are_sums_over_its_edges(offset, clock, far):
    rng = np.random.default_rng(1)
    parents = rng.normal(size=(40, 2))
    children = parents + far * offset + rng.normal(size=(40, 2))
    start = Drift(offset=offset, clock=clock).start(np.vstack([children, parents]))
    kernel = replace(start, rate=0.3 * clock, guess=0.01 * np.eye(2))
    edge = np.arange(40)
    pairs = kernel.pairs(children, parents, edge, edge)
    weights, elapsed = (
        rng.random((2, 40)) * [[1.0], [0.0 if far else 0.5]],
        rng.integers(5, size=40),
    )
    kernel = kernel.refit(pairs, weights, elapsed if clock else None)
    step, cov = direct_drift(kernel, children - parents, weights, elapsed * clock)
    np.testing.assert_allclose(kernel.mean_step, step, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.cov, cov, rtol=1e-7 if far else 1e-11)


@pytest.mark.parametrize("far", [0.0, 1e7])  # values large beside their differences
def test_moments_of_a_reversion_are_sums_over_its_edges(far):
    rng = np.random.default_rng(2)
    column = rng.normal(size=(30, 1)) + far
    kernel = replace(Reversion().start(column), share=0.8, step=0.2 * far + 0.1)
    child, parent = np.nonzero(~np.eye(30, dtype=bool))
    pairs = kernel.pairs(column, column, child, parent)
    weights = rng.random((3, len(child)))
    used = [np.bincount(pairs.place, w, minlength=len(pairs.cells)) for w in weights]
    moments = kernel._counted_cells(pairs.cells, np.array(used), None)
    for share in (0.0, 0.5, 0.79, 1.1):
        found, objective = kernel._best_at(share, moments)
        assert objective == pytest.approx(weighted_sum(found, pairs, weights), rel=1e-7)
        for other in (replace(found, step=found.step + 0.01), replace(found, variance=2.0)):
            assert weighted_sum(other, pairs, weights) < objective


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
        marginals, roots = np.full(len(child), 1 / per_record), np.zeros(T)
        tracemalloc.start()
        lineage.refit(pairs, marginals, roots)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 24,000 more edges: an array of them for each column and number of links would be 2.3 MB.
    assert peaks[1] - peaks[0] < 8 * 24_000

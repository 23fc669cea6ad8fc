"""Gaussian messages along a tree against the joint Gaussian of all cells, conditioned at once."""

import numpy as np
import pytest
from scipy.stats import chi2

from oracles.hidden_cells import conditioned, joint_gaussian
from outtrees.datasets import random_out_tree
from outtrees.imputation.model import LinearEdges
from outtrees.imputation.sampler import draw_cells


def setting(T=7, D=3, hidden=0.5, seed=0):
    """A random tree whose links are of two kinds, with random parameters and hidden cells."""
    rng = np.random.default_rng(seed)
    transition = rng.normal(size=(3, D, D))
    transition[2] = 0.0
    roots = rng.normal(size=(3, D, D))
    cov = roots @ np.swapaxes(roots, 1, 2) + 0.1 * np.eye(D)
    edges = LinearEdges(transition, rng.normal(size=(3, D)), cov)
    parents = random_out_tree(T, seed)
    kinds = np.where(parents < 0, 2, rng.integers(2, size=T))
    X = rng.normal(size=(T, D))
    X[rng.random((T, D)) < hidden] = np.nan
    return parents, X, edges, kinds


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("T", "D", "hidden"), [(1, 2, 0.5), (7, 3, 0.5), (12, 2, 0.9), (6, 1, 0.3)]
)
def test_moments_and_evidence_are_those_of_the_joint_gaussian(T, D, hidden, seed):
    parents, X, edges, kinds = setting(T, D, hidden, seed)
    found = draw_cells(parents, X, edges, kinds, 0)
    mean, cov, log_z = conditioned(*joint_gaussian(parents, edges, kinds), X.ravel())
    rows = np.isnan(X)
    np.testing.assert_allclose(found.mean[rows], mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.variance[rows], np.diag(cov), rtol=1e-8)
    np.testing.assert_allclose(found.log_z, log_z, rtol=1e-9, atol=1e-9)
    for cells in (found.mean, found.draw):
        np.testing.assert_array_equal(cells[~rows], X[~rows])
    assert (found.variance[~rows] == 0).all()


def test_records_with_all_cells_hidden_and_none():
    parents, X, edges, kinds = setting(8, 3)
    X[[1, 4]] = np.nan
    X[[2, 5]] = 1.0
    found = draw_cells(parents, X, edges, kinds, 0)
    mean, _, log_z = conditioned(*joint_gaussian(parents, edges, kinds), X.ravel())
    np.testing.assert_allclose(found.mean[np.isnan(X)], mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.log_z, log_z, rtol=1e-9)
    nothing = draw_cells(parents, np.full_like(X, np.nan), edges, kinds, 0)
    mean, cov = joint_gaussian(parents, edges, kinds)
    np.testing.assert_allclose(nothing.mean.ravel(), mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(nothing.variance.ravel(), np.diag(cov), rtol=1e-8)
    assert abs(nothing.log_z) < 1e-8


def test_draws_have_the_joint_distribution():
    parents, X, edges, kinds = setting(6, 2, 0.5, 3)
    rows = np.isnan(X)
    mean, cov, _ = conditioned(*joint_gaussian(parents, edges, kinds), X.ravel())
    rng = np.random.default_rng(0)
    draws = np.array([draw_cells(parents, X, edges, kinds, rng).draw[rows] for _ in range(4000)])
    white = np.linalg.solve(np.linalg.cholesky(cov), (draws - mean).T)  # iid N(0, 1) if right
    n, d = white.shape[1], len(white)
    # Sums of squares of means and of all second moments, against their chi-square 1e-4 points.
    assert n * (white.mean(axis=1) ** 2).sum() < chi2.isf(1e-4, d)
    second = white @ white.T / n - np.eye(d)
    deviations = (
        second[np.triu_indices(d)] * np.sqrt(n) / np.where(np.eye(d), 2**0.5, 1)[np.triu_indices(d)]
    )
    assert (deviations**2).sum() < chi2.isf(1e-4, len(deviations))


def test_a_forest_is_its_trees_and_a_cycle_is_refused():
    parents, X, edges, kinds = setting(5, 2)
    both = np.concatenate([parents, np.where(parents < 0, -1, parents + 5)])
    found = draw_cells(both, np.vstack([X, X]), edges, np.tile(kinds, 2), 0)
    alone = draw_cells(parents, X, edges, kinds, 0)
    np.testing.assert_allclose(found.mean, np.vstack([alone.mean, alone.mean]), rtol=1e-12)
    np.testing.assert_allclose(found.log_z, 2 * alone.log_z, rtol=1e-12)
    with pytest.raises(ValueError, match="2 of 3 records on or below a cycle"):
        draw_cells([-1, 2, 1], X[:3], edges, [2, 0, 0], 0)

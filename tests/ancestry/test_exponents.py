"""Exponents of columns: known parents by enumeration, slopes, and what is found."""

from dataclasses import replace

import numpy as np
import pytest

from lineages import random_table
from oracles.enumeration import EnumeratedDistribution
from outtrees.ancestry.calibration import ExponentProblem, learn_exponents
from outtrees.candidates import in_order, possible_edges
from outtrees.models.columns import Drift, Lineage, Waiting


def problem(roots, T=5, generations=2):
    kernels, values = random_table(4, T=T)
    lineage = Lineage(kernels, generations).start(values)
    edges = possible_edges(T, None, {}, [], None)
    kept = in_order(lineage, values, edges.child, edges.parent)
    edges = edges._replace(child=edges.child[kept], parent=edges.parent[kept])
    pairs = lineage.pairs(values, values, edges.child, edges.parent)
    return lineage, values, pairs, edges, roots, 0.3


def a_tree(lineage, values, pairs, edges, roots, rate):
    """Return some parents of the last records that are possible."""
    T = len(edges.groups)
    return {u: int(pairs.parent[pairs.child == u][0]) for u in (T - 2, T - 1)}


@pytest.mark.parametrize("roots", ["single", "any"])
def test_the_probability_of_known_parents_is_that_of_their_trees(roots):
    lineage, values, pairs, edges, _, rate = problem(roots)
    known = a_tree(lineage, values, pairs, edges, roots, rate)
    found = ExponentProblem(lineage, values, pairs, edges, known, roots, rate)
    exponents = np.random.default_rng(0).uniform(0.4, 2.0, found.n_kinds)
    T = len(edges.groups)
    changed = replace(lineage, exponents=exponents[found.kind])
    log_beta, log_root = np.full((T, T), -np.inf), changed.log_root(values)
    log_beta[pairs.child, pairs.parent] = changed.log_beta(pairs)
    if roots == "any":
        log_beta += np.log(1 - rate) - np.log(np.bincount(pairs.child, minlength=T))[:, None]
        log_root = log_root + np.log(rate)
    slow = EnumeratedDistribution(log_beta, log_root, roots)
    agrees = np.all([slow.trees[:, u] == v for u, v in known.items()], axis=0)
    value, _ = found.log_known(exponents)
    assert value == pytest.approx(np.log(slow.probabilities[agrees].sum()), rel=1e-9)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_the_slope_is_that_of_small_steps(roots):
    parts = problem(roots, T=9)
    known = a_tree(*parts)
    found = ExponentProblem(*parts[:4], known, *parts[4:])
    at = np.random.default_rng(1).normal(0, 0.3, found.n_kinds)
    slope = found.log_known(np.exp(at))[1]
    for g in range(found.n_kinds):
        step = 1e-5 * (np.arange(found.n_kinds) == g)
        up, down = (found.log_known(np.exp(at + s))[0] for s in (step, -step))
        assert slope[g] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-7)


def crowd(rng, repeats, T=150):
    """Return a lineage with its true parameters, and places of which each is told `repeats` times.

    Each family of the forest wanders by itself; the same place in several columns is what a model
    of independent columns takes for so many witnesses.
    """
    parents = np.array([-1, *[rng.integers(max(0, t - 25), t) for t in range(1, T)]])
    place, day = np.zeros((T, 1)), np.zeros(T)
    for u in range(1, T):
        place[u] = place[parents[u]] + rng.normal()
        day[u] = u
    date = np.column_stack([day, day, 0 * day, 0 * day])
    values = [date, *[place] * repeats]
    kernels = [Waiting(mean=12.0, sd=8.0), *[Drift(offset=False)] * repeats]
    lineage = Lineage(kernels, background=False).start(values)
    walks = [replace(k, cov=np.eye(1)) for k in lineage.kernels[1:]]
    return replace(lineage, kernels=(lineage.kernels[0], *walks)), values, parents


@pytest.mark.parametrize("repeats", [1, 3])
def test_columns_that_repeat_each_other_count_as_one(repeats):
    lineage, values, parents = crowd(np.random.default_rng(2), repeats)
    T = len(parents)
    edges = possible_edges(T, None, {}, [], None)
    near = (edges.child - edges.parent <= 25) & (edges.child > edges.parent)
    edges = edges._replace(child=edges.child[near], parent=edges.parent[near])
    pairs = lineage.pairs(values, values, edges.child, edges.parent)
    known = {u: int(parents[u]) for u in range(1, T)}
    learned = learn_exponents(lineage, values, pairs, edges, known)
    # 149 choices among 25 places: a standard error of about an eighth.
    np.testing.assert_allclose(learned.lineage.exponents[1:], 1 / repeats, rtol=0.4)
    assert learned.after >= learned.before
    if repeats > 1:
        assert learned.after > learned.before + 10
    again = learn_exponents(learned.lineage, values, pairs, edges, known)  # not twice the same
    np.testing.assert_allclose(again.lineage.exponents, learned.lineage.exponents)

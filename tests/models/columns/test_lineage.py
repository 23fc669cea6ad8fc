"""The columns of a table together: sums written out, bounded outliers, weights of each M-step."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from lineages import ALL_KINDS, random_table
from outtrees.models.columns import Drift, GivenWeights, Lineage, Sticky, Substitution, Waiting

from .conftest import dates


def away_from_start(lineage, values, seed=0):
    """Return the lineage with weights and shares that no start has."""
    rng = np.random.default_rng(seed)
    lineage = lineage.start(values)
    shares = np.where(lineage.outlier_shares > 0, rng.uniform(0.05, 0.4, len(values)), 0.0)
    weights = rng.dirichlet(np.full(lineage.generations, 2.0))
    return replace(lineage, outlier_shares=shares, step_weights=weights)


@pytest.mark.parametrize("generations", [1, 2, 3])
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("background", [True, False])
def test_log_beta_is_the_formula_written_out(generations, strict, background):
    kernels, values = random_table(1, T=8, strict=strict)
    lineage = away_from_start(Lineage(kernels, generations, background), values)
    child, parent = np.nonzero(~np.eye(8, dtype=bool))
    pairs = lineage.pairs(values, values, child, parent)
    date = values[ALL_KINDS.index("date")]
    elapsed = Waiting.elapsed(date, date, child, parent)
    columns = [
        [
            np.exp(kernel.log_steps(kernel.pairs(v, v, child, parent), k, elapsed))
            for kernel, v in zip(lineage.kernels, values, strict=True)
        ]
        for k in range(1, generations + 1)
    ]
    alone = [np.exp(kernel.log_alone(v)) for kernel, v in zip(lineage.kernels, values, strict=True)]
    found = lineage.log_beta(pairs)
    for edge, u in enumerate(child):
        total = 0.0
        for k in range(generations):
            product = float(lineage.step_weights[k])
            for c, share in enumerate(lineage.outlier_shares):
                product *= (1 - share) * columns[k][c][edge] + share * alone[c][u]
            total += product
        assert np.exp(found[edge]) == pytest.approx(total, rel=1e-10)
    np.testing.assert_allclose(lineage.log_root(values), np.log(np.prod(alone, axis=0)), rtol=1e-10)


def test_exponents_are_powers_of_each_column():
    kernels, values = random_table(1, T=8)
    plain = away_from_start(Lineage(kernels, 2), values)
    powers = np.random.default_rng(3).uniform(0.3, 2.0, len(kernels))
    changed = replace(plain, exponents=powers)
    child, parent = np.nonzero(~np.eye(8, dtype=bool))
    pairs = plain.pairs(values, values, child, parent)
    total = sum(
        weight * np.prod(np.exp(plain.log_columns(pairs, k)) ** powers[:, None], axis=0)
        for k, weight in enumerate(plain.step_weights, start=1)
    )
    np.testing.assert_allclose(np.exp(changed.log_beta(pairs)), total, rtol=1e-10)
    alone = np.exp(plain.log_alone(values)) ** powers[:, None]
    np.testing.assert_allclose(changed.log_root(values), np.log(np.prod(alone, axis=0)), rtol=1e-9)
    assert changed.start(values).exponents is None


def test_time_reaches_the_columns_that_have_a_clock():
    kernels, values = random_table(2, T=8)
    place = ALL_KINDS.index("clock")
    lineage = away_from_start(Lineage(kernels), values)
    child, parent = np.array([3, 5]), np.array([0, 1])
    pairs = lineage.pairs(values, values, child, parent)
    date = values[ALL_KINDS.index("date")]
    expected = np.nan_to_num(date[child, 0] - date[parent, 1])
    np.testing.assert_array_equal(pairs.stretches[0].elapsed, np.maximum(expected, 0))
    moved = replace(lineage.kernels[place], rate=5.0)
    one = lineage.log_columns(pairs, 1)[place]
    kernels = [*lineage.kernels[:place], moved, *lineage.kernels[place + 1 :]]
    other = replace(lineage, kernels=tuple(kernels)).log_columns(pairs, 1)[place]
    known = ~np.isnan(values[place][child] + values[place][parent])[:, 0]
    assert (one != other)[known & (expected > 0)].all()


@pytest.mark.parametrize("kind", [k for k in ALL_KINDS if k != "date"])
def test_an_outlier_costs_a_bounded_amount(kind):
    """p ≥ ε·g, however far the cell is from its parent's."""
    c = ALL_KINDS.index(kind)
    kernels, tables = random_table(3, T=10, missing=0.0)
    values = tables[c]
    far = {"sequence": 3 - values[:1]}.get(kind, values.max(axis=0, keepdims=True))
    if kind in ("number", "place", "clock", "reverting"):
        far = 1e4 + values[:1]
    if kind == "count":
        far = values[:1] + 500
    lineage = away_from_start(Lineage([kernels[c]]), [values])
    pairs = lineage.pairs([far], [values], np.zeros(10, dtype=int), np.arange(10))
    bound = np.log(lineage.outlier_shares[0]) + lineage.kernels[0].log_alone(far)[0]
    found = lineage.log_beta(pairs)
    assert (found >= bound - 1e-12).all()
    bare = replace(lineage, outlier_shares=np.zeros(1)).log_beta(pairs)
    assert (found >= bare + np.log1p(-lineage.outlier_shares[0]) - 1e-12).all()
    if kind == "number":
        assert bare.max() < bound  # without the background it would cost more


def test_which_columns_have_a_background():
    values = [
        dates([0.0, 1.0, 5.0]),
        dates([0.0, 1.0, 5.0]),
        np.zeros((3, 1)),
        np.arange(3.0)[:, None],
    ]
    kernels = [Waiting(), Waiting(strict=False), Drift(), GivenWeights(np.zeros((3, 3)))]
    has = Lineage(kernels).start(values).outlier_shares > 0
    np.testing.assert_array_equal(has, [False, True, True, False])
    assert not (Lineage(kernels, background=False).start(values).outlier_shares > 0).any()


@pytest.mark.parametrize("generations", [1, 3])
def test_shares_and_weights_after_one_step_are_those_of_the_hidden_causes(generations):
    """E-step in plain Python: for each edge the chances of k links and of an outlier."""
    kernels, values = random_table(4, T=7, strict=False)
    lineage = away_from_start(Lineage(kernels, generations), values)
    child, parent = np.nonzero(~np.eye(7, dtype=bool))
    pairs = lineage.pairs(values, values, child, parent)
    marginals = np.random.default_rng(0).random(len(child)) / 6
    marginals[:5] = 0.0
    found = lineage.refit(pairs, marginals, np.full(7, 0.1))
    links, outliers = np.zeros(generations), np.zeros(len(values))
    for edge in range(len(child)):
        one = [lineage.log_columns(pairs, k + 1)[:, edge] for k in range(generations)]
        joint = np.array(
            [np.log(lineage.step_weights[k]) + one[k].sum() for k in range(generations)]
        )
        chance = np.exp(joint - logsumexp(joint)) * marginals[edge]
        links += chance
        for c, share in enumerate(lineage.outlier_shares):
            if share > 0:
                alone = np.log(share) + lineage.kernels[c].log_alone(values[c])[child[edge]]
                outliers[c] += sum(
                    chance[k] * np.exp(alone - one[k][c]) for k in range(generations)
                )
    links[0] += 1
    np.testing.assert_allclose(found.step_weights, links / links.sum(), rtol=1e-9)
    total = marginals.sum()
    # The mode of n_out·log ε + (n − n_out)·log(1 − ε) + log_prior, found on a fine grid.
    grid = np.exp(np.linspace(np.log(1e-5), np.log(0.9), 4001))
    bare = replace(lineage, kernels=())
    priors = [replace(bare, outlier_shares=np.array([eps])).log_prior() for eps in grid]
    for c, share in enumerate(found.outlier_shares):
        if lineage.outlier_shares[c] == 0:
            assert share == 0
            continue
        value = outliers[c] * np.log(grid) + (total - outliers[c]) * np.log1p(-grid) + priors
        assert share == pytest.approx(grid[np.argmax(value)], rel=5e-3)


def test_the_order_of_edges_does_not_matter():
    kernels, values = random_table(5, T=8)
    lineage = away_from_start(Lineage(kernels, 2), values)
    rng = np.random.default_rng(1)
    child, parent = np.nonzero(np.tril(np.ones((8, 8)), -1))
    order = rng.permutation(len(child))
    one = lineage.pairs(values, values, child, parent)
    other = lineage.pairs(values, values, child[order], parent[order])
    log_beta = lineage.log_beta(one)
    np.testing.assert_allclose(lineage.log_beta(other), log_beta[order], rtol=1e-12)
    marginals = rng.random(len(child)) / 8 * (log_beta > -np.inf)
    first = lineage.refit(one, marginals, np.full(8, 0.2))
    second = lineage.refit(other, marginals[order], np.full(8, 0.2))
    np.testing.assert_allclose(second.log_beta(other), first.log_beta(one)[order], rtol=1e-5)


def test_a_column_that_does_not_follow_the_tree_is_recognised():
    """Beside one that does: its background takes over, and the other's does not."""
    rng = np.random.default_rng(2)
    n = 300
    parents = [rng.normal(size=(n, 1)) * 5, rng.integers(3, size=(n, 1)).astype(float)]
    follows = parents[0] + 0.1 * rng.normal(size=(n, 1))
    children = [follows, rng.integers(3, size=(n, 1)).astype(float)]
    both = [np.vstack([c, p]) for c, p in zip(children, parents, strict=True)]
    lineage = Lineage([Drift(), Sticky(("a", "b", "c"))]).start(both)
    pairs = lineage.pairs(children, parents, np.arange(n), np.arange(n))
    for _ in range(100):
        lineage = lineage.refit(pairs, np.ones(n), np.zeros(n))
    assert lineage.outlier_shares[0] < 0.02
    assert lineage.kernels[0].cov[0, 0] ** 0.5 == pytest.approx(0.1, rel=0.2)
    keeps = (1 - lineage.outlier_shares[1]) * lineage.kernels[1].stickiness
    assert keeps < 0.12  # 300 independent pairs: the standard error of a share is 0.04


def test_samples_take_as_many_links_as_they_weigh():
    """Each link adds one: how many were taken shows; shares within 4.5 standard errors."""
    parents = [np.zeros((2000, 1))]
    lineage = Lineage([Drift()], generations=3).start([np.array([[0.0], [1.0]])])
    walk = replace(lineage.kernels[0], mean_step=np.array([1.0]), cov=np.array([[1e-6]]))
    lineage = replace(lineage, kernels=(walk,), step_weights=np.array([0.5, 0.3, 0.2]))
    drawn = lineage.sample(parents, np.random.default_rng(3))[0][:, 0]
    shares = np.bincount(np.round(drawn).astype(int), minlength=4)[1:] / 2000
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=4.5 * 0.5 / np.sqrt(2000))


def test_samples_have_the_shape_of_their_parents():
    kernels, values = random_table(6, T=9, missing=0.0)
    lineage = Lineage(kernels, 2).start(values)
    for drawn in (
        lineage.sample(values, np.random.default_rng(0)),
        lineage.sample_alone(9, np.random.default_rng(0)),
    ):
        assert [d.shape for d in drawn] == [v.shape for v in values]
        assert not any(np.isnan(d).any() for d in drawn)


def test_a_sequence_without_its_parents_site_is_no_mutation():
    """A site that was not read in the parent costs less than a change would."""
    column = np.zeros((6, 30))
    column[1, 4] = np.nan
    kernel = Substitution().start(column)
    edge, unread, read = np.array([2]), np.array([1]), np.array([0])
    cost = [kernel.log_steps(kernel.pairs(column, column, edge, p), 1)[0] for p in (unread, read)]
    assert cost[0] == pytest.approx(cost[1], abs=0.1)

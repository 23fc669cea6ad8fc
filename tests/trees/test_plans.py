"""A plan is used again where the pattern is the same, and nothing changes by it but the time."""

from functools import partial

import numpy as np
import pytest

from lineages import random_table
from oracles.edges import possible_edges
from outtrees.ancestry.learning import Problem
from outtrees.candidates.matrix_search import joined, nearest_parents
from outtrees.datasets import make_spiral
from outtrees.inference import fit_em
from outtrees.inference.objective import CandidateObjective
from outtrees.labels.model import CandidateLabelModel
from outtrees.models import GaussianMutation
from outtrees.models.columns import Lineage
from outtrees.trees import OutTreeDistribution, engine
from outtrees.trees.sparse import fronts

T = 150
Sparse = partial(OutTreeDistribution.from_candidates, method="sparse")


@pytest.fixture
def calls(monkeypatch):
    """How often METIS ordered a component, and how often fronts were laid out."""
    counted = {"_nested_dissection": 0, "lay_out": 0}

    def watch(module, name):
        function = getattr(module, name)

        def watched(*arguments):
            counted[name] += 1
            return function(*arguments)

        monkeypatch.setattr(module, name, watched)

    watch(fronts, "_nested_dissection")
    watch(fronts, "lay_out")
    monkeypatch.setattr(fronts, "_SMALL", 4)
    return counted


@pytest.fixture
def always_sparse(monkeypatch):
    monkeypatch.setattr(engine, "_FEW_PAIRS", 0)
    monkeypatch.setattr(engine, "_DENSE_SHARE", 2.0)


def in_a_ring(rng, spread=1.0):
    """Return edges to the two on either side, in one component, with random log-weights."""
    child = np.repeat(np.arange(T), 4)
    parent = (child + np.tile([-2, -1, 1, 2], T)) % T
    return child, parent, spread * rng.normal(size=4 * T)


def answers(trees):
    drawn = trees.sample(3, random_state=0)
    return [trees.log_z, trees.edge_marginals, trees.root_marginals, trees.entropy, drawn]


def assert_same_bits(some, others):
    for one, other in zip(some, others, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("spread", [1.0, 400.0])  # the second leaves the range of a double
@pytest.mark.parametrize("roots", ["single", "any"])
def test_other_weights_on_the_same_list_give_the_same_bits(calls, roots, spread):
    rng = np.random.default_rng(0)
    child, parent, log_weight = in_a_ring(rng, spread)
    earlier = Sparse(child, parent, log_weight, rng.normal(size=T), roots=roots)
    earlier.sample(3, random_state=0)  # log Z, marginals and draws share one plan
    assert calls["_nested_dissection"] == 1
    given = child, parent, spread * rng.normal(size=4 * T), spread * rng.normal(size=T)
    again = Sparse(*given, roots=roots, plan=earlier.plan)
    found = answers(again)
    assert calls["_nested_dissection"] == 1
    assert calls["lay_out"] == (1 if roots == "any" else 2)  # another record leaves last
    assert (again._engine._solution.wide is not None) == (spread > 1)
    assert_same_bits(found, answers(Sparse(*given, roots=roots)))
    assert calls["_nested_dissection"] == 2


def test_fronts_are_used_again_where_the_same_record_leaves_last(calls):
    child, parent, log_weight = in_a_ring(np.random.default_rng(1))
    earlier = Sparse(child, parent, log_weight, np.zeros(T))
    again = Sparse(child, parent, 0.5 * log_weight, np.zeros(T), plan=earlier.plan)
    assert again.plan is earlier.plan
    assert calls == {"_nested_dissection": 1, "lay_out": 1}


def in_other_order(child, parent, log_weight):
    child, parent = T - 1 - child, T - 1 - parent  # the same degrees, and all other neighbours
    return child, np.where(parent % 7 == 3, (parent + 5) % T, parent), log_weight


def without_some(child, parent, log_weight):
    return child, parent, np.where(np.arange(len(child)) % 9 == 4, -np.inf, log_weight)


def in_two_parts(child, parent, log_weight):
    across = (child < T // 2) != (parent < T // 2)
    return child, parent, np.where(across & (child < T // 2), -np.inf, log_weight)


@pytest.mark.parametrize("changed", [in_other_order, without_some, in_two_parts])
def test_another_pattern_is_planned_anew(calls, changed):
    rng = np.random.default_rng(2)
    edges = in_a_ring(rng)
    earlier = Sparse(*edges, np.zeros(T), roots="any")
    given = (*changed(*edges), rng.normal(size=T))
    assert earlier.plan is not None
    planned = calls["_nested_dissection"]
    found = answers(Sparse(*given, roots="any", plan=earlier.plan))
    assert calls["_nested_dissection"] > planned
    assert_same_bits(found, answers(Sparse(*given, roots="any")))


def test_without_components_or_in_the_dense_engine_there_is_no_plan():
    child = np.arange(1, 6)
    assert Sparse(child, child - 1, np.zeros(5), np.zeros(6)).plan is None
    assert (
        OutTreeDistribution.from_candidates(child, child - 1, np.zeros(5), np.zeros(6)).plan is None
    )
    ring = Sparse(*in_a_ring(np.random.default_rng(3)), np.zeros(T)).plan
    assert Sparse(child, child - 1, np.zeros(5), np.zeros(6), plan=ring).log_z == 0.0


# What uses it ------------------------------------------------------------------------------------


def test_em_over_a_fixed_list_plans_once(calls, always_sparse, monkeypatch):
    X = make_spiral(T)
    start = GaussianMutation(transition="identity").start(X)
    table = nearest_parents(start, X, 6)
    others = np.empty((T, 1), dtype=int)
    others[:, 0] = (table[:, -1] + 1) % T

    def fitted():
        objective = CandidateObjective(X, table, others, np.full((T, 1), 4.0))
        return fit_em(start, X, objective=objective, max_iter=6)

    fit = fitted()
    assert fit.n_evaluations > 3
    assert calls["_nested_dissection"] == 1
    monkeypatch.setattr(fronts, "_same_pattern", lambda *_: False)
    again = fitted()
    assert calls["_nested_dissection"] == 1 + again.n_evaluations
    np.testing.assert_array_equal(fit.log_likelihoods, again.log_likelihoods)
    np.testing.assert_array_equal(fit.mutation.params, again.mutation.params)


@pytest.mark.parametrize("roots", ["single", "any"])
def test_a_lineage_is_planned_once(calls, always_sparse, monkeypatch, roots):
    kernels, values = random_table(5, T=20)
    undated = [c for c, kernel in enumerate(kernels) if type(kernel).__name__ != "Waiting"]
    kernels, values = [kernels[c] for c in undated], [values[c] for c in undated]
    monkeypatch.setattr(fronts, "_DENSE", 2.0)

    lineage = Lineage(kernels).start(values)

    def climbed():
        problem = Problem(lineage, values, possible_edges(20), roots)
        return [problem.at(lineage, log_root, 0.0)[0].value for log_root in (0.0, -0.5, -1.0)]

    found = climbed()
    once = calls["_nested_dissection"]  # with the columns, and without them
    assert 1 <= once <= 2
    monkeypatch.setattr(fronts, "_same_pattern", lambda *_: False)
    assert climbed() == found
    assert calls["_nested_dissection"] == 4 * once


def test_labels_are_weighed_on_one_plan(calls, always_sparse):
    X = make_spiral(T)
    mutation = GaussianMutation(transition="identity").start(X)
    edges = joined(mutation, X, nearest_parents(mutation, X, 5), 5)
    log_beta = mutation._log_edges(X, X, edges.child, edges.parent)
    model = CandidateLabelModel(
        log_beta[None],
        np.zeros(T),
        np.array([0.5, 0.5]),
        0.9,
        child=edges.child,
        parent=edges.parent,
    )
    rng = np.random.default_rng(4)
    drawn = [rng.integers(2, size=T) for _ in range(3)]
    found = [answers(model.trees(labels)) for labels in drawn]
    planned = calls["_nested_dissection"]
    alone = [Sparse(edges.child, edges.parent, *model.weights(labels)) for labels in drawn]
    for one, trees in zip(found, alone, strict=True):
        assert_same_bits(one, answers(trees))
    assert calls["_nested_dissection"] == planned + 3 * planned

"""Message passing on trees against the sum over all assignments, one by one."""

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chisquare

from oracles.enumeration import all_trees
from outtrees.inference.messages import draw_states, pass_messages


def enumerated(parents, log_nodes, log_edge, log_prior):
    """The slow twin: marginals, log Z, and the probability of every assignment."""
    T, C = log_nodes.shape
    edges = np.broadcast_to(log_edge, (T, C, C))
    assignments = np.array(list(product(range(C), repeat=T)))
    log_weight = np.zeros(len(assignments))
    for u in range(T):
        s = assignments[:, u]
        log_weight += log_nodes[u, s]
        if parents[u] < 0:
            log_weight += log_prior[s]
        else:
            log_weight += edges[u, s, assignments[:, parents[u]]]
    log_z = logsumexp(log_weight)
    p = np.exp(log_weight - log_z)
    marginals = np.array([[p[assignments[:, u] == c].sum() for c in range(C)] for u in range(T)])
    return marginals, log_z, p


def problem(seed, T, C, *, per_child=False, impossible=0.0, scale=1.0, roots="single"):
    rng = np.random.default_rng(seed)
    parents = rng.choice(all_trees(T, roots))
    log_nodes = scale * rng.normal(size=(T, C))
    log_edge = scale * rng.normal(size=(T, C, C) if per_child else (C, C))
    log_nodes[rng.random(log_nodes.shape) < impossible] = -np.inf
    return parents, log_nodes, log_edge, rng.normal(size=C)


@pytest.mark.parametrize("roots", ["single", "any"])
@pytest.mark.parametrize("per_child", [False, True])
@pytest.mark.parametrize(("T", "C"), [(1, 3), (2, 2), (4, 3), (5, 2), (5, 4)])
@pytest.mark.parametrize("seed", range(5))
def test_marginals_and_evidence(seed, T, C, per_child, roots):
    parents, nodes, edge, prior = problem(seed, T, C, per_child=per_child, roots=roots)
    drawn = draw_states(parents, nodes, edge, seed, prior)
    marginals, log_z, _ = enumerated(parents, nodes, edge, prior)
    np.testing.assert_allclose(drawn.marginals, marginals, atol=1e-13)
    assert drawn.log_z == pytest.approx(log_z, abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_states_that_are_forbidden(seed):
    parents, nodes, edge, prior = problem(seed, 5, 3, impossible=0.4)
    nodes[np.isneginf(nodes).all(axis=1)] = 0.0
    drawn = draw_states(parents, nodes, edge, seed, prior)
    marginals, log_z, _ = enumerated(parents, nodes, edge, prior)
    np.testing.assert_allclose(drawn.marginals, marginals, atol=1e-13)
    assert drawn.log_z == pytest.approx(log_z, abs=1e-12)
    assert np.isfinite(nodes[np.arange(5), drawn.states]).all()


def test_weights_far_apart():
    """Logs of thousands: nothing overflows, and nothing becomes impossible by underflow."""
    parents, nodes, edge, prior = problem(3, 5, 3, scale=1000.0)
    drawn = draw_states(parents, nodes, edge, 0, prior)
    marginals, log_z, _ = enumerated(parents, nodes, edge, prior)
    np.testing.assert_allclose(drawn.marginals, marginals, atol=1e-10)
    assert drawn.log_z == pytest.approx(log_z, rel=1e-14)


def test_draws_are_joint():
    """All assignments of a small tree, counted: not only the marginals are right."""
    parents, nodes, edge, prior = problem(11, 4, 2)
    rng = np.random.default_rng(0)
    p = enumerated(parents, nodes, edge, prior)[2]
    draws = np.array([draw_states(parents, nodes, edge, rng, prior).states for _ in range(8000)])
    counts = np.bincount(draws @ (2 ** np.arange(4)[::-1]), minlength=16)
    assert chisquare(counts, 8000 * p).pvalue > 1e-3
    # The test would notice states drawn independently from their marginals.
    product_p = np.ones(16)
    for u, row in enumerate(enumerated(parents, nodes, edge, prior)[0]):
        product_p *= row[(np.arange(16) >> (3 - u)) & 1]
    assert chisquare(counts, 8000 * product_p).pvalue < 1e-6


def test_known_states():
    """Two known states have one assignment: its weight by hand."""
    sticky = np.log([[0.9, 0.2], [0.1, 0.8]])
    known = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    drawn = draw_states([-1, 0], known, sticky, 0, np.log([0.5, 0.5]))
    np.testing.assert_array_equal(drawn.marginals, [[1, 0], [0, 1]])
    assert drawn.log_z == pytest.approx(np.log(0.05))


def test_seeds_and_threads_of_the_past_do_not_matter():
    parents, nodes, edge, prior = problem(5, 5, 3)
    first = draw_states(parents, nodes, edge, 7, prior)
    again = draw_states(parents, nodes, edge, np.random.default_rng(7), prior)
    np.testing.assert_array_equal(first.states, again.states)


def test_a_long_chain_costs_no_recursion():
    T = 5000
    sticky = np.log([[0.9, 0.1], [0.1, 0.9]])
    nodes = np.zeros((T, 2))
    nodes[0, 1] = -np.inf
    drawn = draw_states(np.arange(-1, T - 1), nodes, sticky, 0)
    np.testing.assert_allclose(drawn.marginals[1:4, 0], [0.9, 0.82, 0.756])
    assert drawn.marginals[-1, 0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parents": [1, 0, -1]}, "2 of 3 nodes on or below a cycle"),
        ({"parents": [-1, 0, 3]}, "parents must be -1 or 0 … 2; got 3"),
        ({"parents": [-1, 0]}, r"got shapes \(3, 2\) and \(2,\)"),
        ({"log_edge": np.zeros((3, 3))}, r"log_edge must have shape \(2, 2\) or \(3, 2, 2\)"),
        (
            {"log_nodes": np.full((3, 2), np.nan)},
            "must hold log-weights below inf; got nan",
        ),
        ({"log_edge": np.full((2, 2), np.inf)}, "log_edge must hold log-weights below inf"),
        ({"log_root_prior": [0.0]}, r"log_root_prior must have shape \(2,\)"),
        ({"log_nodes": np.full((3, 2), -np.inf)}, "log_nodes must allow some assignment"),
    ],
)
def test_refusals(change, message):
    arguments = {
        "parents": [-1, 0, 0],
        "log_nodes": np.zeros((3, 2)),
        "log_edge": np.zeros((2, 2)),
        "rng": 0,
    }
    with pytest.raises(ValueError, match=message):
        draw_states(**{**arguments, **change})


def test_a_cycle_in_any_of_several_trees_is_told():
    trees = np.array([[-1, 0, 0], [1, 0, -1], [-1, 0, 1], [2, 0, 1]])
    edges = np.zeros((1, 2, 2)), np.zeros(1), np.zeros((1, 2))
    _, _, log_z = pass_messages(trees, np.zeros((3, 2)), edges, np.zeros(2))
    np.testing.assert_array_equal(np.isnan(log_z), [False, True, False, True])

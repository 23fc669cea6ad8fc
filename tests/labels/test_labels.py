"""Labels averaged over trees and labels, against the sum over all of both."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from oracles.enumeration import all_trees
from oracles.labellings import FORMS, enumerate_labels, log_weights, random_model
from outtrees.inference.messages import draw_states
from outtrees.labels import (
    LabelModel,
    average_edges,
    choose_settings,
    evidence,
    label_posterior,
    smoothed_marginal,
    weigh_trees,
)
from outtrees.labels.choice import Setting, tried_settings
from outtrees.labels.importance import TreeProposal
from outtrees.labels.model import FOUNDERS, OF_CLASS, PLAIN, leaf_label_distributions

KNOWN = np.array([0, -1, 1, -1, -1])


@pytest.mark.parametrize("form", FORMS)
def test_weights_given_labels(form):
    model = random_model(0, 4, 3, form=form)
    labels = np.array([0, 2, 2, 1])
    total = logsumexp(log_weights(model, all_trees(4), labels))
    assert model.trees(labels).log_z == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize(
    ("C", "seed", "form"),
    [
        (2, 0, "one"),
        (3, 1, "two"),
        (3, 2, "fresh"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [(2, 0, "two"), (3, 1, "one")]),
    ],
)
def test_the_posterior_is_the_enumerated_one(C, seed, form):
    model = random_model(seed, 5, C, form=form)
    marginals, edges, _, _, _ = enumerate_labels(model, KNOWN)
    found = label_posterior(model, KNOWN, n_chains=4, n_draws=150, random_state=seed)
    # Four standard errors; 1e-9 for labels that are known.
    assert np.all(np.abs(found.distributions - marginals) < 4 * found.standard_error + 1e-9)
    # Attributes that depend on labels tie the two together: fewer independent draws.
    assert found.standard_error.max() < (0.02 if form == "one" else 0.08)
    assert found.r_hat < 1.05
    np.testing.assert_allclose(found.distributions.sum(axis=1), 1.0)
    edge, root = average_edges(model, found.label_draws)
    # 600 nearly independent draws of numbers between 0 and 1: an error below 0.02, times four.
    np.testing.assert_allclose(edge, edges, atol=0.08)
    np.testing.assert_allclose(edge.sum(axis=1) + root, 1.0)


@pytest.mark.slow
def test_six_records():
    known = np.array([0, -1, 1, -1, 1, 0])
    model = random_model(6, 6, 2)
    marginals, _, _, _, _ = enumerate_labels(model, known)
    found = label_posterior(model, known, n_chains=4, n_draws=200, random_state=0)
    assert np.all(np.abs(found.distributions - marginals) < 4 * found.standard_error + 1e-9)


def test_the_test_of_the_posterior_can_fail():
    """Another stickiness is told apart by the same comparison."""
    model = random_model(0, 5, 2)
    marginals, _, _, _, _ = enumerate_labels(model, KNOWN)
    other = label_posterior(model.with_options(stickiness=0.2), KNOWN, n_draws=150, random_state=0)
    assert np.any(np.abs(other.distributions - marginals) > 4 * other.standard_error + 1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(2))
def test_weighed_trees(seed, form):
    model = random_model(seed, 5, 2, form=form)
    marginals, _, log_z, _, _ = enumerate_labels(model, KNOWN)
    found = weigh_trees(model, KNOWN, 4000, seed)
    # Independent draws of numbers between 0 and 1: an error of at most 0.5 / √n, times four.
    tolerance = 2 / np.sqrt(found.effective_trees)
    np.testing.assert_allclose(found.marginals, marginals, atol=tolerance)
    assert abs(found.log_z - log_z) < 4 * found.log_z_error
    assert found.log_z_error < 0.1


@pytest.mark.parametrize("form", FORMS)
def test_sharpened_trees_have_the_same_average(form):
    model = random_model(7, 6, 2, form=form, stickiness=0.9)
    known = np.array([0, -1, 1, -1, -1, -1])
    rng = np.random.default_rng(0)
    _, log_weights, found = TreeProposal(model, known).sharpened(200, rng).draw(4000, rng)
    weights = np.exp(log_weights - logsumexp(log_weights))
    # Independent draws of numbers between 0 and 1, times four.
    tolerance = 2 * np.sqrt((weights**2).sum())
    expected = enumerate_labels(model, known)[0]
    np.testing.assert_allclose(np.tensordot(weights, found, axes=1), expected, atol=tolerance)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stickiness", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_messages_in_o_of_c(form, stickiness, scale):
    """What the structure of the edges saves changes nothing, even far beyond a float's range."""
    model = random_model(5, 6, 3, form=form, stickiness=stickiness, scale=scale)
    trees = all_trees(6)[::50]
    known = np.array([1, -1, -1, 1, -1, -1])
    proposal = TreeProposal(model, known)
    log_weights, marginals = proposal.weigh(trees)
    nodes, edges = evidence(known, 3), np.broadcast_to(model.edges(trees), (len(trees), 6, 3, 3))
    for i, tree in enumerate(trees):
        drawn = draw_states(tree, nodes, edges[i], 0, model.log_marginal)
        np.testing.assert_allclose(marginals[i], drawn.marginals, atol=1e-11)
        said = np.where(tree < 0, 0.0, proposal._pairs[np.arange(6), tree]).sum()
        assert log_weights[i] == pytest.approx(drawn.log_z - said, rel=1e-11, abs=1e-11)
        again = model.draw_labels(tree, known, 0)
        np.testing.assert_array_equal(again.states, drawn.states)
        np.testing.assert_allclose(again.marginals, drawn.marginals, atol=1e-11)


def test_no_stickiness_no_information():
    model = random_model(1, 5, 3, stickiness=0.0)
    found = label_posterior(model, KNOWN, n_draws=10, random_state=0)
    np.testing.assert_allclose(found.distributions[1], model.marginal)


def test_full_stickiness_makes_a_contradiction():
    model = random_model(1, 5, 2, stickiness=1.0)
    with pytest.raises(ValueError, match="use a stickiness below 1"):
        weigh_trees(model, KNOWN, 10, 0)
    same = np.array([1, -1, -1, -1, 1])
    np.testing.assert_allclose(weigh_trees(model, same, 10, 0).marginals[:, 1], 1.0)


def test_impossible_edges_stay_impossible_at_any_sharpness():
    log_beta = np.array([[[0.0, -np.inf], [1.0, 0.0]]])
    model = LabelModel(log_beta, np.zeros(2), np.array([0.5, 0.5]), 0.5, sharpness=0.0)
    assert model.trees(np.array([0, 0])).root_marginals.tolist() == [1.0, 0.0]


def test_marginal_counts_each_class_once_more():
    np.testing.assert_allclose(smoothed_marginal(np.array([-1, 2, 2, 0]), 3), [2 / 6, 1 / 6, 3 / 6])


@pytest.mark.parametrize("form", FORMS)
def test_a_new_record_is_a_leaf(form):
    """The sum over its parents and their labels, term by term."""
    T, C = 4, 3
    model = random_model(3, T, C, form=form)
    rng = np.random.default_rng(0)
    log_layers = rng.normal(size=(FORMS[form], 2, T))
    log_fresh = rng.normal(size=(2, C)) if form == "fresh" else None
    distributions = rng.dirichlet(np.ones(C), size=T)
    found = leaf_label_distributions(model, log_layers, distributions, log_fresh)
    expected = np.zeros((2, C))
    for i, v, a, b in np.ndindex(2, T, C, C):
        layer = 0 if a == b else FORMS[form] - 1
        weight = np.exp(model.sharpness * log_layers[layer, i, v])
        keeps, drawn = model.stickiness * (a == b), (1 - model.stickiness) * model.marginal[a]
        begun = weight if log_fresh is None else np.exp(model.sharpness * log_fresh[i, a])
        expected[i, a] += distributions[v, b] * (keeps * weight + drawn * begun)
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True))


def test_a_record_that_nobody_can_have_as_a_child():
    model = random_model(3, 4, 3)
    nowhere = np.full((1, 1, 4), -np.inf)
    found = leaf_label_distributions(model, nowhere, np.full((4, 3), 1 / 3))
    np.testing.assert_allclose(found[0], model.marginal)


def test_a_setting_that_is_given_is_kept():
    model = random_model(0, 5, 2)
    known = np.array([0, 0, 0, 0, -1])
    settings = tried_settings([PLAIN], 4, stickiness=1.0)
    choice = choose_settings(model, known, settings, random_state=0)
    assert choice.best.stickiness == 1.0
    assert np.isfinite(choice.scores).all()
    np.testing.assert_array_equal(choice.errors, 0.0)


def test_founders_hand_their_labels_down():
    """By all trees and labels, by all forests of founders, and by the walk to a founder."""
    model = random_model(5, 5, 2).with_options(founders=KNOWN)
    founded = model.with_setting(0.9, 1.5, FOUNDERS)
    found = enumerate_labels(founded, KNOWN)[0]
    unknown, begins = np.flatnonzero(KNOWN < 0), np.flatnonzero(KNOWN >= 0)
    weights = np.exp(1.5 * model.log_attributes[0])
    np.fill_diagonal(weights, 0.0)
    by_forests = np.zeros((5, 2))
    for parents in itertools.product(range(5), repeat=len(unknown)):
        parent = dict(zip(unknown, parents, strict=True))
        ends = []
        for u in unknown:
            seen = [u]
            while seen[-1] in parent and len(seen) <= 5:
                seen.append(parent[seen[-1]])
            ends.append(seen[-1])
        if set(ends) <= set(begins):
            weight = np.prod([weights[u, v] for u, v in parent.items()])
            by_forests[unknown, KNOWN[ends]] += weight
    by_forests[unknown] /= by_forests[unknown].sum(axis=1, keepdims=True)
    walk = weights / weights.sum(axis=1, keepdims=True)
    steps = np.eye(len(unknown)) - walk[np.ix_(unknown, unknown)]
    by_walks = np.linalg.solve(steps, walk[np.ix_(unknown, begins)] @ np.eye(2)[KNOWN[begins]])
    np.testing.assert_allclose(found[unknown], by_forests[unknown], atol=1e-9)
    np.testing.assert_allclose(found[unknown], by_walks, atol=1e-9)
    drawn = weigh_trees(founded, KNOWN, 4000, 0)
    assert drawn.effective_trees == pytest.approx(4000)  # nothing is left to weigh
    np.testing.assert_allclose(drawn.marginals, found, atol=2 / np.sqrt(4000))
    order = np.array([3, 1, 4, 0, 2])
    there = model.reordered(order).with_setting(0.9, 1.5, FOUNDERS)
    np.testing.assert_allclose(enumerate_labels(there, KNOWN[order])[0], found[order], atol=1e-9)


def test_a_model_without_founders_says_so():
    with pytest.raises(ValueError, match="without founders"):
        random_model(5, 5, 2).with_setting(0.9, 1.0, FOUNDERS)


def test_hidden_labels_do_not_show():
    """A model that knows all labels predicts them all; one that knows what is left, half."""
    T = 12
    truth = np.arange(T) % 2
    nothing = LabelModel(np.zeros((1, T, T)), np.zeros(T), np.array([0.5, 0.5]), 0.5)

    def knowing(labels):
        told = np.eye(2)[labels] * (labels >= 0)[:, None]
        return nothing.with_options(log_fresh=8.0 * told)

    settings = [Setting(0.5, 1.0, OF_CLASS)]
    leaking = choose_settings(knowing(truth), truth, settings, random_state=0)
    honest = choose_settings(knowing(truth), truth, settings, random_state=0, given=knowing)
    assert leaking.errors[0] == 0.0
    assert leaking.log_held_out[0] > -1.5  # a share of doubt costs 0.3 in all
    assert honest.log_held_out[0] == pytest.approx(T * np.log(0.5), abs=1.0)


def test_the_same_seed_the_same_posterior():
    model = random_model(2, 5, 2)
    first = label_posterior(model, KNOWN, n_draws=5, random_state=3)
    again = label_posterior(model, KNOWN, n_draws=5, random_state=3)
    np.testing.assert_array_equal(first.distributions, again.distributions)
    np.testing.assert_array_equal(first.label_draws, again.label_draws)

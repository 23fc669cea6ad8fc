"""Statements of the paper that no other test takes at its word, as they are printed."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from oracles.enumeration import all_trees, bordered_laplacian
from outtrees import OutTreeDistribution
from outtrees.inference.likelihood import log_likelihood, log_posterior_and_gradient
from outtrees.inference.variational import lower_bound, variational_trees
from outtrees.labels import LabelModel
from outtrees.models import GaussianMutation
from outtrees.models.conjugate import GaussianPosterior

X = np.random.default_rng(0).normal(size=(7, 2))


# Section 3 ---------------------------------------------------------------------------------------


def test_bayes_rule_over_trees():
    """p(tree | X) = p(X | tree) p(tree) / p(X), each factor by itself, for all 64 trees."""
    mutation, few = GaussianMutation().start(X), X[:4]
    log_beta, log_root = mutation.log_conditional(few, few), mutation.log_root(few)
    trees = OutTreeDistribution(log_beta, log_root)
    evidence, prior = log_likelihood(mutation, few), -3 * np.log(4)
    for parents in all_trees(4):
        given_tree = sum(log_root[u] if v < 0 else log_beta[u, v] for u, v in enumerate(parents))
        assert trees.log_prob(parents) == pytest.approx(given_tree + prior - evidence, abs=1e-11)


def test_symmetric_weights_make_all_roots_alike():
    """Z_r is the same for every r if β is symmetric, and only then is one determinant enough."""
    rng = np.random.default_rng(1)
    log_beta = rng.normal(size=(8, 8))
    one_way = OutTreeDistribution(log_beta).log_z_rooted
    both_ways = OutTreeDistribution(log_beta + log_beta.T).log_z_rooted
    assert np.ptp(both_ways) < 1e-12
    assert np.ptp(one_way) > 0.1


def test_log_z_is_concave_in_symmetric_weights_and_not_in_others():
    """Half-way between two weightings log Z is above the mean of both; one-way chains break it."""
    rng = np.random.default_rng(2)
    for _ in range(100):
        ends = rng.gamma(0.3, size=(2, 5, 5)) + 1e-3
        ends = ends + ends.transpose(0, 2, 1)
        low, high = (OutTreeDistribution(np.log(beta)).log_z for beta in ends)
        assert OutTreeDistribution(np.log(ends.mean(axis=0))).log_z > (low + high) / 2
    # 0 → 1 → 2 and 0 → 2 → 1 weigh 1 each. Half-way, 1 and 2 may choose each other: a circle.
    chains = np.zeros((2, 3, 3))
    chains[0, [1, 2], [0, 1]] = chains[1, [1, 2], [2, 0]] = 1.0
    with np.errstate(divide="ignore"):
        log_root, ends = np.log([1.0, 0.0, 0.0]), [*np.log(chains), np.log(chains.mean(axis=0))]
    low, high, middle = (OutTreeDistribution(log_beta, log_root).log_z for log_beta in ends)
    assert (low, high) == (0.0, 0.0)
    assert middle == pytest.approx(np.log(0.75))


# Section 4 ---------------------------------------------------------------------------------------


def test_the_gradient_as_printed():
    """tr(Q̂⁻¹ ∂Q̂/∂θ), with ∂Q̂/∂θ by central differences; p(X_r) does not depend on θ."""
    mutation = GaussianMutation("spherical", "scalar", prior_strength=0).start(X)
    root = np.exp(mutation.log_root(X))

    def bordered(params):
        beta = np.exp(mutation.with_params(params).log_conditional(X, X))
        np.fill_diagonal(beta, 0.0)
        return bordered_laplacian(beta, root)

    inverse = np.linalg.inv(bordered(mutation.params))
    ours = log_posterior_and_gradient(mutation, X)[1]
    assert np.abs(ours).min() > 1e-3
    for i, slope in enumerate(ours):
        step = np.zeros_like(ours)
        step[i] = 1e-5
        change = (bordered(mutation.params + step) - bordered(mutation.params - step)) / 2e-5
        assert np.trace(inverse @ change) == pytest.approx(slope, rel=1e-5)


# Section 5 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("T", [5, 12])
def test_a_label_flip_is_no_change_of_rank_one(T):
    """Row and column t of β change, and with the column every diagonal entry of Q̂."""
    rng = np.random.default_rng(3)
    model = LabelModel(rng.normal(size=(1, T, T)), np.zeros(T), np.array([0.5, 0.5]), 0.8)
    labels = rng.integers(2, size=T)
    flipped = labels.copy()
    flipped[0] = 1 - labels[0]

    def bordered(y):
        log_beta, log_root = model.weights(y)
        beta = np.exp(log_beta)
        np.fill_diagonal(beta, 0.0)
        return bordered_laplacian(beta, np.exp(log_root))

    rank = np.linalg.matrix_rank(bordered(flipped) - bordered(labels), tol=1e-9)
    # Row 0 and the T − 1 diagonal entries; one less, since all rows of Q sum to zero.
    assert rank == T - 1


# Section 6 ---------------------------------------------------------------------------------------


def test_the_distribution_over_roots_and_the_bound_as_printed():
    """q_r, q(r) and the bound with H(q) + Σ q(r) H(q_r), by enumeration of the trees at each root.

    Exponentials are put where the printed β lacks them.
    """
    few = X[:4]
    q = GaussianPosterior().start(few)
    q = q.update(few, variational_trees(q, few).edge_marginals)
    expected, at_root = q.expected_log_conditional(few, few), q.log_root(few)
    trees = all_trees(4)
    log_edges = np.array(
        [sum(expected[u, v] for u, v in enumerate(parents) if v >= 0) for parents in trees]
    )
    log_q, means, entropies = np.zeros(len(trees)), np.zeros(4), np.zeros(4)
    for r in range(4):
        here = trees[:, r] < 0
        q_r = softmax(log_edges[here])
        means[r], entropies[r] = q_r @ log_edges[here], -q_r @ np.log(q_r)
        log_q[here] = np.log(q_r)
    over_roots = softmax(entropies + at_root + means)
    ours = variational_trees(q, few)
    np.testing.assert_allclose(ours.root_marginals, over_roots, rtol=1e-10)
    root_of = (trees < 0).argmax(axis=1)
    np.testing.assert_allclose(
        ours.log_prob(trees), np.log(over_roots[root_of]) + log_q, atol=1e-10
    )
    bound = over_roots @ (at_root + means + entropies - np.log(over_roots))
    bound -= 3 * np.log(4) + q.kl()
    assert lower_bound(q, few) == pytest.approx(bound, abs=1e-10)


def test_jensen_over_roots_comes_first():
    """The printed order of the two bounds, parameters fixed: any q(r) is below, the best is equal.

    With θ known ln p(X) = ln Σ_r p(X_r) Z_r − (T − 1) ln T.
    """
    rng = np.random.default_rng(4)
    trees = OutTreeDistribution(rng.normal(size=(6, 6)), rng.normal(size=6))
    terms = trees.log_root + trees.log_z_rooted
    assert logsumexp(terms) == pytest.approx(trees.log_z, abs=1e-12)

    def bound(q):
        return q @ (terms - np.log(q))

    assert bound(trees.root_marginals) == pytest.approx(trees.log_z, abs=1e-12)
    assert all(bound(rng.dirichlet(np.ones(6))) < trees.log_z - 1e-6 for _ in range(20))


# Section 9 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.95])
def test_two_labels_mutate_with_the_papers_alpha(alpha):
    """Stickiness s with uniform labels drawn afresh: α = (1 + s) / 2."""
    model = LabelModel(np.zeros((1, 2, 2)), np.zeros(2), np.array([0.5, 0.5]), 2 * alpha - 1)
    same = np.eye(2, dtype=bool)
    np.testing.assert_allclose(np.exp(model.log_edge), np.where(same, alpha, 1 - alpha))


def test_more_than_two_labels_need_another_form():
    """α [same] + (1 − α) [other] sums to one for two labels only; ours does for any number."""
    model = LabelModel(np.zeros((1, 2, 2)), np.zeros(2), np.full(4, 0.25), 0.6)
    np.testing.assert_allclose(np.exp(model.log_edge).sum(axis=0), 1.0)
    alpha = np.exp(model.log_edge[0, 0])
    assert alpha + 3 * (1 - alpha) > 1.5

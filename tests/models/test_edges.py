"""Lists of pairs: every mutation says and learns the same from them as from a full matrix."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from outtrees._common.edges import EdgeList
from outtrees.models import GaussianMutation, MixtureMutation, ProductMutation
from outtrees.models.base import Mutation


def listed(case, n=40, seed=0):
    """Return some pairs in no order, with weights; the same as a matrix with zeros elsewhere."""
    T = len(case.X)
    rng = np.random.default_rng(seed)
    off = np.argwhere(~np.eye(T, dtype=bool))
    child, parent = off[rng.permutation(len(off))[:n]].T
    weight = rng.random(n)
    matrix = np.zeros((T, T))
    matrix[child, parent] = weight
    return child, parent, weight, matrix


def test_log_beta_edges_are_entries_of_the_matrix(case):
    child, parent, *_ = listed(case)
    expected = case.mutation.log_conditional(case.X, case.X)[child, parent]
    found = case.mutation.log_beta_edges(case.X, child, parent)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_the_default_for_new_models_is_the_same(case):
    child, parent, *_ = listed(case)
    slow = Mutation._log_edges(case.mutation, case.X, case.X, child, parent)
    # Kernel features come from another matrix product, with another rounding.
    np.testing.assert_allclose(
        slow, case.mutation.log_beta_edges(case.X, child, parent), rtol=1e-10, atol=1e-10
    )


def test_what_comes_from_anywhere_and_the_excess_make_the_whole(case):
    child, parent, *_ = listed(case)
    log_f = case.mutation._log_anywhere(case.X)
    log_e = case.mutation._log_excess(case.X, case.X, child, parent)
    whole = log_e if log_f is None else np.logaddexp(log_e, log_f[child])
    expected = case.mutation.log_conditional(case.X, case.X)[child, parent]
    np.testing.assert_allclose(whole, expected, rtol=1e-10, atol=1e-10)


def test_refit_edges_is_refit(case):
    child, parent, weight, matrix = listed(case)
    expected = case.mutation.refit(case.X, matrix)
    found = case.mutation.refit_edges(case.X, child, parent, weight)
    # The same sums in another order; the exponents of a logit magnify their rounding.
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-9, atol=1e-9)


def test_gradient_edges_is_the_gradient(case):
    child, parent, weight, matrix = listed(case)
    expected = case.mutation.gradient(case.X, matrix)
    found = case.mutation.gradient_edges(case.X, child, parent, weight)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_pair_listed_twice_counts_twice_every_time():
    """SciPy joins equal pairs in place; the list itself must stay as it was."""
    edges = EdgeList.of([0, 0, 0, 1, 2, 2], [1, 1, 2, 0, 0, 0], 3)
    weight = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    expected = [[0.0, 3.0, 4.0], [8.0, 0.0, 0.0], [48.0, 0.0, 0.0]]
    for _ in range(3):
        matrix = edges.matrix(weight)
        matrix.sum_duplicates()
        np.testing.assert_array_equal(matrix.toarray(), expected)


def split_objective(mutation, X, edges, excess, anywhere):
    log_e = mutation._log_excess(X, X, edges.child, edges.parent)
    value = excess @ log_e + mutation.log_prior()
    return value if anywhere is None else value + anywhere @ mutation._log_anywhere(X)


def split_weights(case):
    child, parent, weight, _ = listed(case)
    edges = EdgeList.of(child, parent, len(case.X))
    if case.mutation.parent_free:
        weight = np.zeros_like(weight)  # there is no excess to weigh
    free = case.mutation._log_anywhere(case.X) is not None
    return edges, weight, np.random.default_rng(1).random(len(case.X)) if free else None


def test_split_gradient_equals_finite_differences(case):
    edges, weight, anywhere = split_weights(case)
    if case.mutation.parent_free:
        pytest.skip("nothing but the part from anywhere: the gradient by children is tested")
    base = case.mutation.params
    numeric = np.empty_like(base)
    for i in range(len(base)):
        step = np.zeros_like(base)
        step[i] = 1e-5
        high, low = (
            split_objective(case.mutation.with_params(base + s), case.X, edges, weight, anywhere)
            for s in (step, -step)
        )
        numeric[i] = (high - low) / 2e-5
    found = case.mutation._gradient_split(case.X, edges, weight, anywhere)
    np.testing.assert_allclose(found, numeric, rtol=1e-5, atol=1e-6)


def test_split_refit_climbs(case):
    edges, weight, anywhere = split_weights(case)
    if case.mutation.parent_free:
        pytest.skip("nothing but the part from anywhere: the refit by children is tested")
    values, current = [], case.mutation
    for _ in range(5):
        values.append(split_objective(current, case.X, edges, weight, anywhere))
        current = current._refit_split(case.X, edges, weight, anywhere)
    assert (np.diff(values) >= -1e-10 * np.abs(values[0])).all()
    assert values[-1] > values[0] + 0.01


def test_embeddings_order_parents_by_their_density(case):
    spaces = case.mutation._embeddings(case.X, case.X)
    if not spaces or len(spaces) > 1:
        pytest.skip("no single space")
    (children, parents) = spaces[0]
    distance = ((children[:, None] - parents) ** 2).sum(axis=2)
    log_e = case.mutation._log_excess(
        case.X, case.X, *(a.ravel() for a in np.indices(distance.shape))
    ).reshape(distance.shape)
    for near, log_row in zip(distance, log_e, strict=True):
        assert (np.diff(log_row[np.argsort(near)]) <= 1e-9).all()


def test_the_excess_of_a_product_keeps_its_digits():
    """Where a parent adds little, e = Π p − Π f is a difference of like numbers."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    column = MixtureMutation(n_iid=1, n_local=1)
    mutation = ProductMutation([(column, [0]), (column, [1])]).start(X, 0)
    far = np.array([[9.0, 8.0]])
    log_e = mutation._log_excess(X, far, np.arange(20), np.zeros(20, dtype=int))
    f, e = [], []
    for part, block, there in mutation._each(X, far):
        f.append(part._log_anywhere(block))
        e.append(part._log_excess(block, there, np.arange(20), np.zeros(20, dtype=int)))
    # (f₁ + e₁)(f₂ + e₂) − f₁ f₂, written out
    expected = logsumexp([e[0] + f[1], f[0] + e[1], e[0] + e[1]], axis=0)
    np.testing.assert_allclose(log_e[expected > -700], expected[expected > -700], rtol=1e-10)
    # Below the last digit of f there is nothing left to add, and nothing is.
    assert (log_e - mutation._log_anywhere(X) < 0).all()


def test_a_free_component_of_weight_zero_is_none():
    X = np.random.default_rng(0).normal(size=(20, 1))
    mutation = MixtureMutation(n_iid=1, n_local=1, weight_concentration=1.0).start(X, 0)
    alone = replace(mutation, log_weights=np.array([-np.inf, 0.0]))
    assert alone._log_anywhere(X) is None
    child, parent = np.array([0, 1, 2]), np.array([1, 2, 0])
    matrix = np.zeros((20, 20))
    matrix[child, parent] = 1.0
    found = alone.refit_edges(X, child, parent, np.ones(3))
    expected = alone.refit(X, matrix)
    for ours, theirs in zip(found.parts, expected.parts, strict=True):
        np.testing.assert_allclose(ours.params, theirs.params)
    np.testing.assert_array_equal(found.log_weights, expected.log_weights)


@pytest.mark.parametrize(
    ("child", "parent", "weight", "message"),
    [
        ([0, 1], [1], [1, 1], "one length"),
        ([0, 9], [1, 0], [1, 1], r"rows 0 … 4 in child; got 9"),
        ([0, 1], [1, -1], [1, 1], r"rows 0 … 4 in parent; got -1"),
        ([0.0, 1.0], [1, 0], [1, 1], "row numbers in child; got float64"),
        ([0, 1], [1, 0], [1, np.nan], "finite weights >= 0"),
        ([0, 1], [1, 0], [1, np.inf], "finite weights >= 0"),
        ([0, 1], [1, 0], [1, -0.1], "finite weights >= 0"),
        ([0, 1], [1, 0], [1], "one weight for each of 2 edges"),
    ],
)
def test_refusals(child, parent, weight, message):
    X = np.random.default_rng(0).normal(size=(5, 1))
    mutation = GaussianMutation().start(X)
    with pytest.raises(ValueError, match=message):
        mutation.refit_edges(X, child, parent, weight)

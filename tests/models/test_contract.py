"""What every mutation model must do, on all of them."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest


def test_conditional_and_root_integrate_to_one(case):
    points, weights = case.support
    conditional = weights @ np.exp(case.mutation.log_conditional(points, case.X[:3]))
    np.testing.assert_allclose(conditional, 1.0, rtol=1e-6)
    np.testing.assert_allclose(weights @ np.exp(case.mutation.log_root(points)), 1.0, rtol=1e-6)


def test_log_conditional_equals_the_slow_twin(case, slow_log_conditional):
    children, parents = case.X, case.X[3:8]
    expected = [[slow_log_conditional(case.mutation, c, p) for p in parents] for c in children]
    np.testing.assert_allclose(
        case.mutation.log_conditional(children, parents), expected, rtol=1e-9, atol=1e-9
    )


def _statistics(log_density, points):
    return np.column_stack([log_density, points, points**2])


def _assert_agree(sampled, expected):
    error = sampled.std(axis=0) / np.sqrt(len(sampled))
    assert (np.abs(sampled.mean(axis=0) - expected) <= 4 * error + 1e-9).all()


def test_samples_follow_the_conditional(case):
    points, weights = case.support
    parent = case.X[4:5]
    log_density = case.mutation.log_conditional(points, parent)[:, 0]
    expected = (weights * np.exp(log_density)) @ _statistics(log_density, points)
    children = case.mutation.sample(np.repeat(parent, 4000, axis=0), np.random.default_rng(1))
    log_sampled = case.mutation.log_conditional(children, parent)[:, 0]
    _assert_agree(_statistics(log_sampled, children), expected)


def test_samples_follow_their_own_parents(case):
    """Rows are matched: the child in row i comes from the parent in row i."""
    parents = np.repeat(case.X[:4], 1500, axis=0)
    children = case.mutation.sample(parents, np.random.default_rng(3))
    for v in range(4):
        points, weights = case.support
        density = weights * np.exp(case.mutation.log_conditional(points, case.X[v : v + 1])[:, 0])
        _assert_agree(children[v * 1500 : (v + 1) * 1500], density @ points)


def test_samples_follow_the_root(case):
    points, weights = case.support
    log_density = case.mutation.log_root(points)
    expected = (weights * np.exp(log_density)) @ _statistics(log_density, points)
    records = case.mutation.sample_root(4000, np.random.default_rng(2))
    assert records.shape == (4000, case.X.shape[1])
    _assert_agree(_statistics(case.mutation.log_root(records), records), expected)


def test_sampling_is_reproducible(case):
    first, second = (case.mutation.sample(case.X, np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_objective_is_the_weighted_sum_plus_the_prior(case):
    W, X = case.edge_marginals, case.X
    plain = sum(
        W[u, v] * case.mutation.log_conditional(X[u : u + 1], X[v : v + 1])[0, 0]
        for u in range(len(X))
        for v in range(len(X))
    )
    expected = plain + case.mutation.log_prior()
    np.testing.assert_allclose(case.mutation.objective(X, W), expected, rtol=1e-10)


def test_refit_climbs_and_never_lowers_the_objective(case):
    current = case.mutation
    values = [current.objective(case.X, case.edge_marginals)]
    for _ in range(5):
        current = current.refit(case.X, case.edge_marginals, np.full(len(case.X), 1 / len(case.X)))
        values.append(current.objective(case.X, case.edge_marginals))
    assert (np.diff(values) >= -1e-10 * np.abs(values[0])).all()
    assert values[-1] > values[0] + 0.01


def test_gradient_equals_finite_differences(case):
    base = case.mutation.params
    numeric = np.empty_like(base)
    for i in range(len(base)):
        step = np.zeros_like(base)
        step[i] = 1e-5
        high, low = (
            case.mutation.with_params(base + s).objective(case.X, case.edge_marginals)
            for s in (step, -step)
        )
        numeric[i] = (high - low) / 2e-5
    gradient = case.mutation.gradient(case.X, case.edge_marginals)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


def test_gradient_vanishes_where_refits_end(case):
    current = case.mutation
    start = np.abs(current.gradient(case.X, case.edge_marginals)).max()
    assert start > 1e-2
    for _ in range(3000):
        current = current.refit(case.X, case.edge_marginals)
        size = np.abs(current.gradient(case.X, case.edge_marginals)).max()
        if size < 1e-6:
            break
    assert size < 1e-4


# EM over something hidden inside the model: the component of a pair, the origin of a unit. With
# a prior the latter ends within one refit.
STEPWISE = ("mixture", "columns", "product-iid-in-mixture", "poisson-no-prior")


def test_one_refit_is_the_maximum_unless_something_is_hidden(case):
    fitted = case.mutation.refit(case.X, case.edge_marginals)
    gradient = fitted.gradient(case.X, case.edge_marginals)
    if case.name.startswith(STEPWISE):
        assert np.abs(gradient).max() > 1e-5  # else it has no place in that list
        return
    np.testing.assert_allclose(gradient, 0.0, atol=1e-5)
    again = fitted.refit(case.X, case.edge_marginals)
    np.testing.assert_allclose(
        again.objective(case.X, case.edge_marginals),
        fitted.objective(case.X, case.edge_marginals),
        rtol=1e-9,
    )


def test_params_round_trip(case):
    vector = case.mutation.params
    again = case.started.with_params(vector)
    assert vector.shape == (case.mutation.n_parameters,)
    np.testing.assert_allclose(again.params, vector, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        again.log_conditional(case.X, case.X), case.mutation.log_conditional(case.X, case.X)
    )
    moved = again.with_params(vector + 0.1)
    assert not np.allclose(
        moved.log_conditional(case.X, case.X), again.log_conditional(case.X, case.X)
    )


def test_records_may_come_in_any_order_and_batch(case):
    order = np.random.default_rng(8).permutation(len(case.X))
    full = case.mutation.log_conditional(case.X, case.X)
    shuffled = case.mutation.log_conditional(case.X[order], case.X[order])
    np.testing.assert_allclose(shuffled, full[np.ix_(order, order)], rtol=1e-12, atol=1e-12)
    block = case.mutation.log_conditional(case.X[2:4], case.X[5:9])
    np.testing.assert_allclose(block, full[2:4, 5:9], rtol=1e-12, atol=1e-12)
    plain = case.mutation.refit(case.X, case.edge_marginals)
    shuffled = case.mutation.refit(case.X[order], case.edge_marginals[np.ix_(order, order)])
    np.testing.assert_allclose(
        shuffled.log_conditional(case.X, case.X),
        plain.log_conditional(case.X, case.X),
        rtol=1e-8,
        atol=1e-8,
    )


def test_mutations_are_values(case):
    before = case.mutation.params
    case.mutation.refit(case.X, case.edge_marginals)
    case.mutation.start(case.X + 0, random_state=0)
    np.testing.assert_array_equal(case.mutation.params, before)
    with pytest.raises(FrozenInstanceError):
        case.mutation.parts = ()


def test_start_forgets_what_was_learned(case):
    learned = case.mutation.refit(case.X, case.edge_marginals)
    np.testing.assert_array_equal(learned.start(case.X, random_state=3).params, case.started.params)


def test_root_keeps_its_start(case):
    learned = case.mutation.refit(case.X, case.edge_marginals)
    np.testing.assert_array_equal(learned.log_root(case.X), case.started.log_root(case.X))


def test_repr_names_class_and_size(case):
    text = repr(case.mutation)
    assert type(case.mutation).__name__ in text
    assert f"{case.mutation.n_parameters} parameters" in text
    assert "parameters" not in repr(case.make())


def test_wrong_inputs_are_refused_in_one_sentence(case):
    X, name = case.X, type(case.mutation).__name__
    wide = np.hstack([X, X[:, :1]])
    with pytest.raises(ValueError, match=rf"{name} knows {X.shape[1]} columns, but children has"):
        case.mutation.log_conditional(wide, X)
    with pytest.raises(ValueError, match=f"{name} has no parameters yet; call start"):
        case.make().log_root(X)
    with pytest.raises(ValueError, match="expects edge_marginals of shape"):
        case.mutation.refit(X, case.edge_marginals[:-1])
    with pytest.raises(ValueError, match="expects finite edge_marginals >= 0"):
        case.mutation.refit(X, -case.edge_marginals)
    with pytest.raises(ValueError, match="expects finite edge_marginals >= 0"):
        case.mutation.gradient(X, case.edge_marginals * np.nan)
    with pytest.raises(ValueError, match="expects root_marginals of shape"):
        case.mutation.refit(X, case.edge_marginals, np.ones(3))
    with pytest.raises(ValueError, match=r"vector of .* parameters"):
        case.mutation.with_params(np.zeros(case.mutation.n_parameters + 1))
    with pytest.raises(ValueError, match="contains infinity"):
        case.make().start(np.where(np.arange(len(X))[:, None] == 1, np.inf, X))
    with pytest.raises(ValueError, match="at least 2 record"):
        case.make().start(X[:1])
    with pytest.raises(ValueError, match="2 dimensions"):
        case.mutation.log_root(X[0])
    with pytest.raises(ValueError, match="random_state must be"):
        case.make().start(X, random_state="x")

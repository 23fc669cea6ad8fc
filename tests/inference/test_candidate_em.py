"""Fits over candidates: exact where all are listed, close where not, and honest about both."""

from itertools import pairwise

import numpy as np
import pytest

from outtrees.candidates.matrix_search import joined, nearest_parents
from outtrees.candidates.parent_sample import other_parents
from outtrees.datasets import make_spiral
from outtrees.inference import fit_em, fit_mutation
from outtrees.inference.em import fit_candidate_em
from outtrees.inference.likelihood import (
    candidate_trees,
    leaf_log_density,
    log_likelihood,
    log_number_of_trees,
    tree_distribution,
)
from outtrees.inference.objective import CandidateObjective, DenseObjective
from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    PoissonMutation,
    ProductMutation,
)
from outtrees.trees import OutTreeDistribution

RNG = np.random.default_rng(7)
REAL = make_spiral(50)
COUNTS = RNG.poisson(3.0, size=(50, 2)).astype(float)
NOTHING = (np.empty((50, 0), dtype=int), np.empty((50, 0)))
CASES = {
    "gaussian": (GaussianMutation(), REAL),
    "iid": (GaussianMutation(transition="zero"), REAL),
    "kernel": (KernelMutation(n_landmarks=6), REAL),
    "mixture": (MixtureMutation(n_iid=2), REAL),
    "two locals": (MixtureMutation(n_iid=1, n_local=2, local=GaussianMutation()), REAL),
    "columns": (ProductMutation(MixtureMutation(n_local=1)), REAL),
    "stack": (
        MixtureMutation([ProductMutation(MixtureMutation()), GaussianMutation(transition="zero")]),
        REAL,
    ),
    "poisson": (PoissonMutation(), COUNTS),
    "bernoulli": (BernoulliMutation(), (COUNTS > 3).astype(float)),
    "categorical": (CategoricalMutation(), np.where(COUNTS > 6, np.nan, COUNTS)),
}


@pytest.fixture(params=CASES)
def case(request):
    template, X = CASES[request.param]
    return template.start(X, 0), X


def test_with_all_parents_listed_a_point_is_the_dense_one(case):
    mutation, X = case
    sparse = CandidateObjective(X, nearest_parents(mutation, X, 49), *NOTHING).at(mutation)
    dense = DenseObjective(X).at(mutation)
    np.testing.assert_allclose(sparse.value, dense.value, rtol=1e-12)
    np.testing.assert_allclose(sparse.gradient, dense.gradient, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sparse.refit().params, dense.refit().params, rtol=1e-9, atol=1e-10)


def sampled(table, n):
    """Return n others of each record, and how many each stands for, which differs here.

    Every third record has one of them twice, as samples may.
    """
    if not n:
        return NOTHING
    rng = np.random.default_rng(n)
    others = other_parents(table, rng.random((len(table), n)))
    others[::3, 1] = others[::3, 0]
    return others, rng.normal(size=others.shape)


def approximate_weights(mutation, X, table, others, log_each):
    """The weights that the objective's docstring promises, as a full matrix."""
    T = len(table)
    pairs = [a.ravel() for a in np.indices((T, T))]
    e = np.exp(mutation._log_excess(X, X, *pairs)).reshape(T, T)
    log_f = mutation._log_anywhere(X)
    f = np.zeros(T) if log_f is None else np.exp(log_f)
    listed = np.zeros((T, T), dtype=bool)
    np.put_along_axis(listed, table, True, axis=1)
    beta = np.where(listed, e, 0.0) + f[:, None]
    unlisted = (np.take_along_axis(e, others, axis=1) * np.exp(log_each)).sum(axis=1)
    beta += (unlisted / (T - 1))[:, None]
    with np.errstate(divide="ignore"):
        return np.log(beta)


@pytest.mark.parametrize("n_others", [0, 5])
def test_the_node_from_anywhere_is_a_mesh(case, n_others):
    """A sparse list with one more node sums the same as the full matrix it stands for."""
    mutation, X = case
    table = nearest_parents(mutation, X, 6)
    others = sampled(table, n_others)
    if not n_others and mutation._log_anywhere(X) is None:
        edges = joined(mutation, X, table, 1)  # nothing else joins what is apart
        table = np.array([row[:6] for row in table])
        if len(edges) > table.size:
            pytest.skip("the nearest alone leave no tree")
    point = CandidateObjective(X, table, *others).at(mutation)
    full = OutTreeDistribution(
        approximate_weights(mutation, X, table, *others), mutation.log_root(X)
    )
    expected = full.log_z + mutation.log_prior() - log_number_of_trees(50)
    np.testing.assert_allclose(point.value, expected, rtol=1e-11)
    if not n_others:
        # Fewer trees; without a parent's say the same but for rounding.
        assert point.value <= DenseObjective(X).at(mutation).value + 1e-10


def test_gradient_equals_finite_differences(case):
    mutation, X = case
    table = nearest_parents(mutation, X, 6)
    objective = CandidateObjective(X, table, *sampled(table, 4))
    base, gradient = mutation.params, objective.at(mutation).gradient
    finite = np.flatnonzero(np.isfinite(base))[:12]
    for i in finite:
        step = np.zeros_like(base)
        step[i] = 1e-5
        high, low = (objective.at(mutation.with_params(base + s)).value for s in (step, -step))
        np.testing.assert_allclose(gradient[i], (high - low) / 2e-5, rtol=1e-4, atol=1e-4)


def test_a_step_never_lowers_the_objective(case):
    mutation, X = case
    table = nearest_parents(mutation, X, 6)
    objective = CandidateObjective(X, table, *sampled(table, 4))
    values = []
    for _ in range(4):
        point = objective.at(mutation)
        values.append(point.value)
        mutation = point.refit()
    assert (np.diff(values) >= -1e-9).all()


@pytest.mark.parametrize("name", ["gaussian", "mixture", "columns", "poisson"])
def test_with_all_parents_listed_a_fit_is_the_dense_one(name):
    template, X = CASES[name]
    start = template.start(X, 0)
    dense = fit_em(start, X, max_iter=15)
    for n in (49, 80):
        sparse = fit_candidate_em(start, X, n, max_iter=15, random_state=0)
        np.testing.assert_allclose(sparse.log_likelihoods, dense.log_likelihoods, rtol=1e-10)
        # Accelerated steps magnify rounding where the objective is flat.
        np.testing.assert_allclose(
            sparse.mutation.params, dense.mutation.params, rtol=1e-6, atol=1e-6
        )
        assert sparse.searches == (0,)
    assert len(fit_candidate_em(start, X, 48, max_iter=5, random_state=0).searches) > 1


def test_a_fit_with_fewer_parents_comes_close():
    """Without the sample of others the window would shrink to what the nearest show of it."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    new = np.random.default_rng(1).normal(size=(1000, 2))
    start = GaussianMutation(transition="identity").start(X)
    best = log_likelihood(fit_em(start, X).mutation, X)
    fits = [fit_candidate_em(start, X, 10, n_others=n, random_state=0) for n in (32, 0)]
    assert all(fit.converged for fit in fits)
    assert len(fits[0].searches) == 4
    loss, narrow = (best - log_likelihood(fit.mutation, X) for fit in fits)
    assert loss < 0.02 * narrow
    assert loss < 1.5  # nats, of 200 records
    dense = leaf_log_density(fit_em(start, X).mutation, X, new).mean()
    assert abs(leaf_log_density(fits[0].mutation, X, new).mean() - dense) < 0.01


def test_between_searches_the_values_never_fall():
    fit = fit_candidate_em(GaussianMutation().start(REAL), REAL, 5, max_iter=60, random_state=0)
    assert len(fit.log_likelihoods) == fit.n_iter + 1
    bounds = [*fit.searches, fit.n_iter]
    for low, high in pairwise(bounds):
        inside = fit.log_likelihoods[low + 1 : high + 1]  # the first is of the list before
        assert (np.diff(inside) >= 0).all()


def test_a_fit_cut_short_has_not_converged():
    start = GaussianMutation().start(REAL)
    for max_iter in (1, 2, 3, 5):
        fit = fit_candidate_em(start, REAL, 5, max_iter=max_iter)
        assert fit.n_iter == max_iter
        assert not fit.converged
    # One step is all that independent records need, on the first of four lists too.
    iid = GaussianMutation(transition="zero").start(REAL)
    assert not fit_candidate_em(iid, REAL, 5, max_iter=2).converged
    assert fit_candidate_em(iid, REAL, 5).converged


def test_on_step_sees_every_step_once():
    seen = []
    start = GaussianMutation().start(REAL)
    fit = fit_candidate_em(
        start, REAL, 5, on_step=lambda m: bool(seen.append(m)), max_iter=8, tol=0.0
    )
    assert fit.searches == (0, 3)
    assert len(seen) == fit.n_iter + 1
    assert len({id(m) for m in seen}) == len(seen)
    stopped = fit_candidate_em(GaussianMutation().start(REAL), REAL, 5, on_step=lambda m: True)
    assert stopped.stopped_by == "validation"


def test_lower_bound():
    mutation = GaussianMutation().start(REAL)
    whole = tree_distribution(mutation, REAL).log_z
    last = -np.inf
    for k in (2, 5, 15, 49):
        edges = joined(mutation, REAL, nearest_parents(mutation, REAL, k), 1)
        log_z = candidate_trees(mutation, REAL, edges.child, edges.parent).log_z
        assert last < log_z <= whole + 1e-9
        last = log_z
    np.testing.assert_allclose(last, whole, rtol=1e-12)


def test_other_solvers_are_refused():
    with pytest.raises(ValueError, match=r"solver must be 'em' for .*; got 'lbfgs'"):
        fit_mutation(GaussianMutation(), REAL, solver="lbfgs", n_candidates=5)


def test_a_seed_makes_the_fit():
    fits = [
        fit_mutation(GaussianMutation(), REAL, n_candidates=5, random_state=s, max_iter=5)
        for s in (0, 0, 1)
    ]
    np.testing.assert_array_equal(fits[0].mutation.params, fits[1].mutation.params)
    assert (fits[0].mutation.params != fits[2].mutation.params).any()


def test_one_candidate_is_enough_and_none_is_refused():
    X = np.random.default_rng(0).normal(size=(12, 1))
    start = GaussianMutation(transition="identity").start(X)
    assert fit_candidate_em(start, X, 1, max_iter=1, random_state=0).n_iter == 1
    with pytest.raises(ValueError, match="n_candidates"):
        fit_candidate_em(start, X, 0, max_iter=1, random_state=0)

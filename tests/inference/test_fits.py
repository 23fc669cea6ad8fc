"""EM, L-BFGS and gradient ascent: they climb, agree, find the truth, and say when they do not."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from outtrees.datasets import load_liver, make_out_tree, make_spiral
from outtrees.inference import (
    SOLVERS,
    ascent,
    fit_em,
    fit_gradient,
    fit_lbfgs,
    fit_mutation,
    gradient,
)
from outtrees.inference.likelihood import leaf_log_density, log_posterior_and_gradient
from outtrees.inference.restarts import starts
from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    PoissonMutation,
)

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(40, 2)) @ [[1.0, 0.4], [0.0, 0.5]] + np.repeat([[0.0], [2.5]], 20, axis=0)
COUNTS = RNG.poisson(np.repeat([[1.0], [6.0]], 20, axis=0), size=(40, 2)).astype(float)
BITS = (RNG.random((40, 3)) < np.repeat([[0.1], [0.8]], 20, axis=0)).astype(float)

FAMILIES = [
    (GaussianMutation(), REAL),
    (GaussianMutation("diag", "scalar"), REAL),
    (GaussianMutation(transition="identity"), REAL),
    (KernelMutation(n_landmarks=8), REAL),
    (MixtureMutation(n_iid=2, n_local=1), REAL),
    (PoissonMutation(), COUNTS),
    (BernoulliMutation(), BITS),
    (CategoricalMutation("full"), BITS),
]
EACH_FAMILY = pytest.mark.parametrize(
    ("template", "X"),
    FAMILIES,
    ids=[f"{i}-{type(m).__name__}" for i, (m, _) in enumerate(FAMILIES)],
)


@EACH_FAMILY
@pytest.mark.parametrize("accelerate", [False, True], ids=["plain", "accelerated"])
def test_em_never_falls(template, X, accelerate):
    """The sequence is checked against values computed anew from the mutations it went through."""
    path = []
    fit = fit_em(
        template.start(X, random_state=0),
        X,
        accelerate=accelerate,
        max_iter=15,
        tol=0.0,
        on_step=lambda mutation: bool(path.append(mutation)),
    )
    values = [log_posterior_and_gradient(mutation, X)[0] for mutation in path]
    np.testing.assert_allclose(fit.log_likelihoods[: len(values)], values, rtol=1e-12)
    assert (np.diff(values) >= 0).all()
    assert values[-1] > values[0] + 0.01


def test_a_refit_that_lowers_the_posterior_is_reported():
    @dataclass(frozen=True, eq=False, repr=False)
    class Backwards(GaussianMutation):
        def _refit(self, X, edge_marginals):
            return replace(self, mutation_cov=4.0 * self.mutation_cov)

    with pytest.raises(ArithmeticError, match=r"Backwards\.refit lowered the log posterior"):
        fit_em(Backwards(transition="identity").start(REAL), REAL)


@pytest.mark.parametrize(
    "template",
    [
        GaussianMutation("diag", "identity"),
        pytest.param(GaussianMutation("spherical", "scalar"), marks=pytest.mark.slow),
        GaussianMutation("full", "identity"),
        MixtureMutation(n_iid=1, n_local=1, covariance="diag"),
    ],
    ids=repr,
)
def test_all_solvers_reach_the_same_maximum(template):
    """From this start, with these records; on others their paths may end at different maxima."""
    start = template.start(REAL, random_state=0)
    fits = {name: solver(start, REAL, tol=1e-10, max_iter=1500) for name, solver in SOLVERS.items()}
    best = fits["em"]
    for name, fit in fits.items():
        assert fit.converged, name
        assert (np.diff(fit.log_likelihoods) >= 0).all()
        assert fit.log_likelihoods[-1] == pytest.approx(best.log_likelihoods[-1], abs=1e-6)
        np.testing.assert_allclose(fit.mutation.params, best.mutation.params, atol=2e-3)
        gradient = log_posterior_and_gradient(fit.mutation, REAL)[1]
        assert np.abs(gradient).max() < 0.05
    assert best.log_likelihoods[-1] > best.log_likelihoods[0] + 1


@pytest.mark.parametrize(
    "X",
    [
        pytest.param(make_spiral(200), id="spiral"),
        pytest.param(load_liver(subset="paper").data, id="liver", marks=pytest.mark.slow),
    ],
)
def test_acceleration_saves_evaluations_and_reaches_as_far(X):
    start = GaussianMutation().start(X)
    plain, fast = (fit_em(start, X, accelerate=a, tol=1e-4) for a in (False, True))
    assert fast.converged
    assert fast.log_likelihoods[-1] > plain.log_likelihoods[-1] - 1e-2
    assert fast.n_evaluations < 0.75 * plain.n_evaluations


def test_acceleration_does_not_depend_on_units():
    X = make_spiral(100)
    one, other = (
        fit_em(GaussianMutation().start(Y), Y) for Y in (X, X * [1e3, 1.0, 1e-3] + [5e3, 0.0, 0.0])
    )
    gains = [fit.log_likelihoods[-1] - fit.log_likelihoods[0] for fit in (one, other)]
    assert gains[0] == pytest.approx(gains[1], abs=1e-3)
    assert abs(one.n_evaluations - other.n_evaluations) <= 4


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=list(SOLVERS))
def test_exhausted_iterations_are_not_convergence(solver):
    fit = solver(GaussianMutation().start(REAL), REAL, max_iter=2, tol=1e-12)
    assert (fit.n_iter, fit.converged, fit.stopped_by) == (2, False, "max_iter")
    assert len(fit.log_likelihoods) == 3
    assert fit.n_evaluations >= 3


def test_iterations_that_end_beside_the_maximum_are_exhausted_all_the_same():
    """What a step of EM would still gain is asked only where the line search gave up."""
    near = fit_em(GaussianMutation().start(REAL), REAL, tol=1e-3).mutation
    fit = fit_lbfgs(near, REAL, max_iter=1, tol=1e-2)
    assert np.diff(fit.log_likelihoods)[0] < 1e-2
    assert (fit.n_iter, fit.stopped_by) == (1, "max_iter")


class Bent:
    """A point of exp(x / 100), which bends upwards everywhere."""

    mutation, tree = None, None

    def __init__(self, params):
        self.params = params
        self.value = float(np.exp(params / 100).sum())
        self.gradient = np.exp(params / 100) / 100

    def refit(self):
        return SimpleNamespace(params=self.params + self.gradient)  # units of 1


class BentObjective:
    n_evaluations = 0

    def __init__(self, X):
        pass

    def at(self, mutation):
        return Bent(np.zeros(1))

    def at_params(self, mutation, params):
        return Bent(params)


def test_steps_get_longer_where_nothing_bends_them_back(monkeypatch):
    lengths, search = [], gradient._line_search

    def searched(objective, here, units, length):
        lengths.append(length)
        return search(objective, here, units, length)

    monkeypatch.setattr(gradient, "DenseObjective", BentObjective)
    monkeypatch.setattr(gradient, "_line_search", searched)
    fit_gradient(None, None, max_iter=4, tol=0.0)
    assert lengths == [1.0, 4.0, 16.0, 64.0]


def test_progress_counts_the_steps(monkeypatch):
    said = []
    monkeypatch.setattr(ascent, "note", said.append)
    fit = fit_em(GaussianMutation().start(REAL), REAL, max_iter=3, tol=0.0)
    right = [
        f"log posterior {value:.2f} after {step} steps"
        for step, value in enumerate(fit.log_likelihoods)
    ]
    assert said == right[1:]


@dataclass(frozen=True, eq=False, repr=False)
class Walled(GaussianMutation):
    """Has no parameters a little way from the start: every longer step ends in a ValueError."""

    hits: ClassVar[list[int]] = []

    def _with_params(self, params):
        if np.abs(params - self.params).max() > 0.4:
            self.hits.append(1)
            raise ValueError("beyond the wall")
        return super()._with_params(params)


@pytest.mark.parametrize("solver", [fit_lbfgs, fit_gradient])
def test_line_searches_turn_back_where_there_is_nothing(solver):
    start = Walled(transition="identity").start(REAL * [1.0, 30.0])
    Walled.hits.clear()
    fit = solver(start, REAL * [1.0, 30.0], max_iter=30)
    assert Walled.hits
    assert np.isfinite(fit.log_likelihoods).all()
    assert (np.diff(fit.log_likelihoods) >= 0).all()
    assert fit.log_likelihoods[-1] > fit.log_likelihoods[0] + 0.1


def test_gradients_refuse_a_start_at_the_edge():
    edge = CategoricalMutation(start_correlation=0.0).start(BITS)
    with pytest.raises(ValueError, match="edge of its parameters"):
        fit_lbfgs(edge, BITS)
    assert fit_em(edge, BITS).converged


ROTATION = GaussianMutation(
    transition_matrix=[[0.9, -0.3], [0.3, 0.9]],
    offset=[0.5, -0.2],
    mutation_cov=[[0.05, 0.02], [0.02, 0.1]],
    root_mean=[0.0, 0.0],
    root_cov=np.eye(2),
)


@pytest.mark.slow
def test_parameters_are_recovered_as_records_grow():
    truth = ROTATION
    errors = []
    for T in (25, 150):
        squared = []
        for seed in range(5):
            X, _ = make_out_tree(T, truth, random_state=seed)
            found = fit_mutation(GaussianMutation(), X, tol=1e-2).mutation
            squared.append(
                [
                    np.sum((found.transition_matrix - truth.transition_matrix) ** 2),
                    np.sum((found.offset - truth.offset) ** 2),
                    np.sum((found.mutation_cov - truth.mutation_cov) ** 2),
                ]
            )
        errors.append(np.sqrt(np.median(squared, axis=0)))
    few, many = errors
    assert (many < 0.65 * few).all()  # √(25 / 150) = 0.41 is the rate of the standard errors
    # Four entries, each with a standard error of about √(0.1 / 150) / 0.3 = 0.09.
    assert many[0] < 0.3


@pytest.mark.slow
def test_the_direction_of_descent_is_not_taken_backwards():
    """The turned start finds the maximum that a fit from the truth reaches; others may not."""
    missed = 0
    for seed in range(3):
        X, _ = make_out_tree(120, ROTATION, random_state=seed)
        start = GaussianMutation().start(X)
        from_truth = fit_em(
            replace(
                start,
                transition_matrix=ROTATION.transition_matrix,
                offset=ROTATION.offset,
                mutation_cov=ROTATION.mutation_cov,
            ),
            X,
        ).log_likelihoods[-1]
        assert fit_mutation(GaussianMutation(), X).log_likelihoods[-1] >= from_truth - 0.01
        plain = [fit_em(s, X).log_likelihoods[-1] for s in starts(GaussianMutation(), X, 1, None)]
        missed += max(plain) < from_truth - 0.5
    assert missed > 0


def test_turning_twice_changes_nothing():
    twice = ROTATION.turned().turned()
    np.testing.assert_allclose(twice.params, ROTATION.params, atol=1e-12)
    assert GaussianMutation(transition="identity", mutation_cov=np.eye(2)).turned() is None
    flat = replace(ROTATION, transition_matrix=[[1.0, 1.0], [1.0, 1.0001]])
    assert flat.turned() is None


@pytest.mark.slow
def test_all_starts_are_tried_and_the_best_is_kept():
    X = make_spiral(150)
    default, iid = starts(GaussianMutation(), X, 1, None)
    assert iid.transition_matrix[0, 0] == 0
    alone = [fit_em(start, X) for start in (default, iid)]
    better = max(alone, key=lambda fit: fit.log_likelihoods[-1])
    alone.append(fit_em(better.mutation.turned(), X))
    both = fit_mutation(GaussianMutation(), X)
    assert both.log_likelihoods[-1] == max(fit.log_likelihoods[-1] for fit in alone)
    assert both.n_evaluations == sum(fit.n_evaluations for fit in alone)
    assert len(starts(GaussianMutation(start_correlation=0.4), X, 3, None)) == 1


@pytest.mark.slow
def test_restarts_only_where_the_start_is_random():
    assert len(starts(MixtureMutation(n_iid=5), REAL, 4, 0)) > 1
    assert len(starts(GaussianMutation(transition="identity"), REAL, 4, 0)) == 1
    one, many = (
        fit_mutation(MixtureMutation(n_iid=5), REAL, n_init=n, random_state=0) for n in (1, 4)
    )
    assert many.log_likelihoods[-1] >= one.log_likelihoods[-1]
    assert many.n_evaluations > one.n_evaluations


def test_early_stopping_keeps_the_best_on_validation_records():
    X, held_out = REAL[::2], REAL[1::2]
    fit = fit_mutation(
        MixtureMutation(n_iid=3, prior_strength=0.01),
        X,
        X_validation=held_out,
        n_iter_no_change=3,
        random_state=0,
    )
    assert fit.stopped_by == "validation"
    scores = fit.validation_scores
    assert len(scores) - 1 - np.argmax(scores) == 3
    assert leaf_log_density(fit.mutation, X, held_out).mean() == pytest.approx(scores.max())
    assert scores.max() > scores[-1]


def test_one_start_is_the_default():
    mutation = MixtureMutation(n_iid=7, n_local=0)
    options = {"max_iter": 2, "random_state": 0}
    default, one, two = (
        fit_mutation(mutation, REAL, **options, **more)
        for more in ({}, {"n_init": 1}, {"n_init": 2})
    )
    assert default.n_evaluations == one.n_evaluations < two.n_evaluations

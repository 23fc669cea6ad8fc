"""Chains over trees and hidden cells against full enumeration of trees, kinds and states."""

from dataclasses import replace

import numpy as np
import pytest

from oracles.hidden_cells import enumerated
from outtrees.datasets import make_out_tree
from outtrees.imputation import HiddenFit, hidden_posterior, sampler
from outtrees.imputation.model import hidden_model
from outtrees.models import (
    CategoricalMutation,
    GaussianMutation,
    MixtureMutation,
    PoissonMutation,
    ProductMutation,
)

RNG = np.random.default_rng(5)
CONTINUOUS = RNG.normal(size=(30, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
CODES = RNG.integers(3, size=(30, 1)).astype(float)
NAN = np.nan


def gaussian():
    start = GaussianMutation().start(CONTINUOUS)
    return start.with_params(start.params + 0.1)  # a transition of no special form


def mixture():
    parts = [GaussianMutation(transition="zero"), GaussianMutation(transition="scalar")]
    return MixtureMutation(components=parts).start(CONTINUOUS, 0)


def mixed(kind="full"):
    groups = [
        (GaussianMutation(transition="diag"), [2, 0]),
        (CategoricalMutation(kind=kind), [1]),
    ]
    return ProductMutation(groups).start(
        np.column_stack([CONTINUOUS[:, 0], CODES, CONTINUOUS[:, 1]])
    )


CASES = {
    "one hidden cell": (gaussian(), [[0.5, -1.0], [NAN, 0.4], [1.2, 0.3], [-0.2, 0.1]]),
    "two hidden cells": (
        gaussian(),
        [[0.5, NAN], [NAN, 0.4], [1.2, 0.3], [-0.2, 0.1], [0.3, 2.0]],
    ),
    "a record all hidden": (gaussian(), [[0.5, -1.0], [NAN, NAN], [1.2, 0.3], [-0.2, NAN]]),
    "mixture": (mixture(), [[0.5, -1.0], [NAN, 0.4], [1.2, NAN]]),
    "mixed columns": (
        mixed(),
        [[0.5, 0.0, -1.0], [NAN, NAN, 0.4], [1.2, 2.0, NAN], [0.1, NAN, 0.3]],
    ),
    "sticky, all hidden": (
        mixed("sticky"),
        [[0.5, 0.0, -1.0], [NAN, NAN, NAN], [1.2, 2.0, 0.2], [0.1, 1.0, 0.3]],
    ),
}


QUICK = ("mixture", "mixed columns")


@pytest.mark.parametrize(
    "case",
    [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES],
)
def test_equal_to_enumeration_within_the_stated_error(case):
    mutation, observed = CASES[case]
    observed = np.array(observed)
    model = hidden_model(mutation)
    mean, variance, chances, _ = enumerated(model, observed)
    fit = HiddenFit(mutation, observed, observed, np.zeros(0))
    found = hidden_posterior(
        fit, n_chains=4, n_draws=300, burn_in=10, parameters="fixed", random_state=0
    )
    rows = np.isnan(observed)
    rows[:, model.categorical] = False
    # Four standard errors; the floor is for cells whose expectation is the same for all trees.
    error = found.standard_error[rows]
    assert (np.abs(found.mean[rows] - mean) < 4 * error + 1e-9).all()
    # The error of a variance is not reported; that of the mean is about as large.
    assert (np.abs(found.variance[rows] - variance) < 0.15 * variance).all()
    for c, chance, exact in zip(model.categorical, found.chances, chances, strict=True):
        blank = np.isnan(observed[:, c])
        best = found.mean[blank, c].astype(int)
        picked = (np.arange(len(best)), best)
        error = found.standard_error[blank, c]
        assert (np.abs(chance[blank][picked] - exact[picked]) < 4 * error + 1e-9).all()
        np.testing.assert_allclose(chance[blank], exact, atol=0.05)  # all categories, roughly
    assert found.r_hat.max() < 1.05
    # The draws themselves, of which few are kept, agree too.
    spread = np.sqrt(variance / len(found.draws))
    assert (np.abs(found.draws[:, rows].mean(axis=0) - mean) < 4 * spread).all()


@pytest.mark.slow
def test_the_error_is_not_overstated_either():
    """Were it ten times too large, the comparison above would prove nothing."""
    mutation, observed = CASES["two hidden cells"]
    observed = np.array(observed)
    fit = HiddenFit(mutation, observed, observed, np.zeros(0))
    runs = [
        hidden_posterior(
            fit, n_chains=2, n_draws=100, burn_in=5, parameters="fixed", random_state=seed
        )
        for seed in range(10)
    ]
    rows = np.isnan(observed)
    spread = np.std([run.mean[rows] for run in runs], axis=0, ddof=1)
    stated = np.mean([run.standard_error[rows] for run in runs], axis=0)
    assert (stated < 2.5 * spread).all()
    assert (spread < 2.5 * stated).all()


def test_a_sharp_posterior_is_reached_from_anywhere():
    """Two far clusters: a hidden cell belongs to one of them, whatever the chain starts from."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(15, 2)), 100 + rng.normal(size=(15, 2))])
    wide = {"root_mean": [50.0, 50.0], "root_cov": 2500 * np.eye(2)}
    parts = (
        GaussianMutation(
            transition="zero", offset=[50.0, 50.0], mutation_cov=2500 * np.eye(2), **wide
        ),
        GaussianMutation(transition="identity", mutation_cov=np.eye(2), **wide),
    )
    # The cloud links the clusters. With the window alone, the cheapest link would be a record
    # whose hidden cell lies half-way between them.
    both = replace(
        MixtureMutation(components=parts),
        parts=parts,
        log_weights=np.log([0.1, 0.9]),
        root_weights=np.array([1.0, 0.0]),
    )
    truth = X[[3, 20], 1]
    X[[3, 20], 1] = np.nan
    found = hidden_posterior(
        HiddenFit(both, X, X, np.zeros(0)),
        n_chains=4,
        n_draws=20,
        burn_in=2,
        parameters="fixed",
        random_state=0,
    )
    assert (np.abs(found.mean[[3, 20], 1] - truth) < 5).all()
    assert found.r_hat.max() < 1.5


def test_without_the_sweep_over_records_chains_are_slow(monkeypatch):
    """The negative control: trees and cells in turn, each exact given the other, hardly move."""
    walk = GaussianMutation(
        transition="identity",
        mutation_cov=0.05 * np.eye(3),
        root_mean=np.zeros(3),
        root_cov=np.eye(3),
    )
    X = make_out_tree(50, walk, 0)[0]
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    fit = HiddenFit(walk, X, X, np.zeros(0))
    options = {"n_chains": 4, "n_draws": 20, "burn_in": 5, "parameters": "fixed"}
    with_sweep = hidden_posterior(fit, random_state=0, **options).r_hat[np.isnan(X)]
    monkeypatch.setattr(sampler, "sweep", lambda model, observed, state, rng: state)
    without = hidden_posterior(fit, random_state=0, **options).r_hat[np.isnan(X)]
    assert np.quantile(with_sweep, 0.9) < 1.5
    assert np.quantile(without, 0.9) > 2.0


def test_only_kinds_that_can_be_integrated_are_taken():
    X = (CODES > 0).astype(float)
    with pytest.raises(ValueError, match="Gaussian and categorical mutations, their products"):
        hidden_model(PoissonMutation().start(X))
    columns = ProductMutation(MixtureMutation()).start(CONTINUOUS, 0)
    with pytest.raises(ValueError, match="mixtures of these; got"):
        hidden_model(columns)

"""Columns that say little: constant, one known cell, nothing known, a level never seen."""

from dataclasses import replace

import numpy as np
import pytest

from outtrees.models.columns import (
    Counts,
    Drift,
    Reversion,
    Sticky,
    Substitution,
    Waiting,
)

from .conftest import assert_slopes_agree, climbed, dates, weighted_sum

NAN = np.nan
KERNELS = {
    "drift": (Drift(), [1e9, -3.0, 0.5]),
    "reversion": (Reversion(), [1e9, -3.0, 0.5]),
    "sticky": (Sticky(("a", "b")), [0.0, 1.0, 1.0]),
    "sticky-uniform": (Sticky(("a", "b"), target="uniform"), [0.0, 1.0, 1.0]),
    "sticky-one-level": (Sticky(("a",)), [0.0, 0.0, 0.0]),
    "counts": (Counts(), [0.0, 5.0, 70.0]),
    "waiting": (Waiting(), [0.0, 1.0, 17000.0]),
    "waiting-exact": (Waiting(unit=0.0), [0.0, 1e-9, 17000.0]),
    "jc69": (Substitution(), [0.0, 3.0, 1.0]),
    "k80": (Substitution(model="K80"), [0.0, 3.0, 1.0]),
}


def columns(values):
    a, b, c = values
    return {
        "constant": [a] * 6,
        "constant-high": [c] * 6,
        "one-known": [NAN, b, NAN, NAN],
        "nothing-known": [NAN] * 4,
        "two-records": [a, b],
        "one-differs": [b, b, b, c, b],
    }


@pytest.mark.parametrize("shape", list(columns([0, 0, 0])))
@pytest.mark.parametrize("name", list(KERNELS))
def test_start_and_climb_on_a_column_that_says_little(name, shape):
    kernel, values = KERNELS[name]
    column = np.array(columns(values)[shape], dtype=float)[:, None]
    if isinstance(kernel, Waiting):
        column = dates(column)
    if isinstance(kernel, Substitution):
        column = np.repeat(column, 5, axis=1)
    kernel = kernel.start(column)
    T = len(column)
    child, parent = np.indices((T, T)).reshape(2, -1)
    child, parent = child[child != parent], parent[child != parent]
    pairs = kernel.pairs(column, column, child, parent)
    weights = np.full((2, len(child)), 0.3)
    for k in (1, 2):
        log_p = kernel.log_steps(pairs, k)
        assert not np.isnan(log_p).any()
        impossible = np.isneginf(log_p)
        if isinstance(kernel, Waiting):
            weights[k - 1, impossible] = 0.0
        else:
            assert not impossible.any()
    assert np.isfinite(kernel.log_alone(column)).all()
    again = kernel.with_params(kernel.params)
    for k in (1, 2):
        np.testing.assert_allclose(
            again.log_steps(pairs, k), kernel.log_steps(pairs, k), rtol=1e-6, atol=1e-6
        )
    assert_slopes_agree(
        kernel.slopes(pairs, weights),
        lambda params: weighted_sum(kernel.with_params(params), pairs, weights),
        kernel.params,
        tol=1e-5,
    )
    before = weighted_sum(kernel, pairs, weights) + kernel.log_prior()
    found = climbed(kernel, pairs, weights)
    after = weighted_sum(found, pairs, weights) + found.log_prior()
    assert np.isfinite(after)
    assert after >= before - 1e-9 * abs(before)
    assert np.isfinite(found.slopes_alone(column, np.full(T, 0.2))).all()
    assert np.isfinite(found.log_alone(column)).all()
    assert "nan" not in found.describe()


def test_a_level_nobody_shows():
    kernel = Sticky(("a", "b", "never")).start(np.array([[0.0], [1.0], [NAN]]))
    never = np.array([[2.0]])
    assert np.isfinite(kernel.log_alone(never)).all()


def test_equal_sequences_keep_a_rate_and_a_divergence_above_zero():
    column = np.zeros((6, 40))
    kernel = Substitution().start(column)
    child = np.arange(1, 6)
    pairs = kernel.pairs(column, column, child, child - 1)
    kernel = climbed(kernel, pairs, np.ones((1, 5)))
    assert 0 < kernel.rate < 5e-3  # about one substitution a link beforehand, none was seen in 5
    assert 0 < kernel.divergence <= 0.5


def test_children_that_never_revert_have_finite_parameters():
    kernel = Reversion().start(np.array([[0.0], [1.0], [3.0]]))
    for stationary in (False, True):
        one = replace(kernel, share=1.0, stationary=stationary)
        assert np.isfinite(one.params).all()

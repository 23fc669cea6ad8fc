"""Densities of classes from a few records: against slow twins, and as densities that sum to one."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, poisson

from outtrees.models import (
    BernoulliMutation,
    CategoricalMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    PoissonMutation,
    ProductMutation,
)
from outtrees.models.normal import _scaled_normal

CLASSES = np.array([[1, 0], [0, 1], [0, 1], [0, 0], [0, 0], [1, 0.0]])  # two records have none
X = np.random.default_rng(0).normal(size=(6, 2)) * [1.0, 5.0]
COUNTS = np.array([[0, 3], [1, 0], [2, 0], [4, 1], [0, 0], [0, 2.0]])


def test_gaussian_is_the_textbook_one():
    """Means with one record at the mean of all, one covariance with two records of all's spread."""
    found = GaussianMutation().start(X).log_by_class(X, CLASSES, X)
    cov = 2 * np.diag(X.var(axis=0))
    means = []
    for c in range(2):
        rows = [x for x, weight in zip(X, CLASSES[:, c], strict=True) if weight]
        means.append((sum(rows) + X.mean(axis=0)) / (len(rows) + 1))
        cov += sum(np.outer(x - means[c], x - means[c]) for x in rows)
    for c in range(2):
        expected = multivariate_normal(means[c], cov / (2 + 4)).logpdf(X)
        np.testing.assert_allclose(found[:, c], expected, rtol=1e-12)


@pytest.mark.parametrize("mutation", [KernelMutation(), MixtureMutation()])
def test_other_numbers_are_gaussian_too(mutation):
    found = mutation.start(X, 0).log_by_class(X, CLASSES, X)
    np.testing.assert_allclose(found, GaussianMutation().start(X).log_by_class(X, CLASSES, X))


def test_a_gaussian_in_many_columns_and_a_constant_one():
    """More columns than records leave a positive definite covariance; the constant one is mute."""
    wide = np.random.default_rng(1).normal(size=(6, 9))
    wide[:, 4] = 0.1  # its variance is rounding noise
    mutation = GaussianMutation("diag", "identity").start(wide)
    found = mutation.log_by_class(wide, CLASSES, wide)
    assert np.isfinite(found).all()
    few = np.delete(wide, 4, axis=1)
    fewer = GaussianMutation("diag", "identity").start(few)
    # The same for all records and classes, and what the column adds to a parent's children, about.
    added = found - fewer.log_by_class(few, CLASSES, few)
    np.testing.assert_allclose(added, added[0, 0], rtol=1e-9)
    kept = mutation.log_conditional(wide, wide) - fewer.log_conditional(few, few)
    assert abs(added[0, 0] - kept.mean()) < 2.0


def test_one_column_integrates_to_one():
    mutation = GaussianMutation().start(X[:, :1])

    def density(x):
        return np.exp(mutation.log_by_class(X[:, :1], CLASSES, [[x]])[0, 1])

    assert quad(density, -20, 20)[0] == pytest.approx(1.0, abs=1e-8)


def test_categories():
    letters = np.array([[0, 1], [2, 1], [2, 0], [1, np.nan], [0, 0], [0, 1.0]])
    mutation = CategoricalMutation().start(letters)
    found = np.exp(mutation.log_by_class(letters, CLASSES, letters))
    for u, c in np.ndindex(6, 2):
        expected = 1.0
        for d in range(2):
            if np.isnan(letters[u, d]):
                continue  # a missing cell says nothing
            members = letters[CLASSES[:, c] == 1, d]
            members = members[~np.isnan(members)]
            level = mutation.levels[d].tolist().index(letters[u, d])
            pulled = 8 * mutation.marginals[d][level]
            expected *= ((members == letters[u, d]).sum() + pulled) / (len(members) + 8)
        assert found[u, c] == pytest.approx(expected, rel=1e-12)


def test_switches_sum_to_one():
    on = (COUNTS > 0).astype(float)
    mutation = BernoulliMutation().start(on)
    every = np.array([[0, 0], [0, 1], [1, 0], [1, 1.0]])
    found = np.exp(mutation.log_by_class(on, CLASSES, every))
    np.testing.assert_allclose(found.sum(axis=0), 1.0)
    # Class 0 has no one in column 0, class 1 two of two; eight more are at 3.5 of 7.
    np.testing.assert_allclose(found[2:].sum(axis=0), [4 / 10, 6 / 10])


def test_counts():
    mutation = PoissonMutation().start(COUNTS)
    found = mutation.log_by_class(COUNTS, CLASSES, COUNTS)
    for c in range(2):
        rows = COUNTS[CLASSES[:, c] == 1]
        rates = (rows.sum(axis=0) + 8 * (COUNTS.sum(axis=0) + 0.5) / 6.5) / (len(rows) + 8)
        np.testing.assert_allclose(found[:, c], poisson(rates).logpmf(COUNTS).sum(axis=1))


def test_a_product_adds_its_parts():
    both = np.hstack([X, COUNTS])
    product = ProductMutation([(GaussianMutation(), [0, 1]), (PoissonMutation(), [2, 3])])
    found = product.start(both).log_by_class(both, CLASSES, both)
    expected = GaussianMutation().start(X).log_by_class(X, CLASSES, X)
    expected = expected + PoissonMutation().start(COUNTS).log_by_class(COUNTS, CLASSES, COUNTS)
    np.testing.assert_allclose(found, expected)


def test_a_class_without_records_is_like_all():
    """Its mean is that of all records; a class with one record is nearer to that record."""
    one = np.zeros((6, 2))
    one[0, 1] = 1.0
    mutation = GaussianMutation().start(X)
    at = mutation.log_by_class(X, one, np.array([X.mean(axis=0), X[0]]))
    grid = X.mean(axis=0) + np.random.default_rng(2).normal(size=(50, 2))
    assert (mutation.log_by_class(X, one, grid)[:, 0] < at[0, 0]).all()
    assert at[1, 1] > at[1, 0]


@pytest.mark.parametrize("wrong", [CLASSES[:, 0], CLASSES[:3], -CLASSES, CLASSES * np.nan])
def test_weights_that_are_none(wrong):
    with pytest.raises(ValueError, match="a weight of 0 or more for each of 6 records and each"):
        GaussianMutation().start(X).log_by_class(X, wrong, X)


def test_noise_of_transitions_has_the_covariance_of_its_precision():
    precision = np.array([[4.0, 1.0], [1.0, 0.5]])
    draws = _scaled_normal(precision, 20_000, np.random.default_rng(0))
    np.testing.assert_allclose(np.cov(draws), np.linalg.inv(precision), rtol=0.05)
    flat = _scaled_normal(np.diag([2.0, 0.0]), 100, np.random.default_rng(0))
    assert (flat[1] == 0).all()  # nothing is known there, and nothing is drawn

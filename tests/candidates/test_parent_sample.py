"""A sample that stands for the parents that are not candidates."""

from dataclasses import replace

import numpy as np
import pytest

from outtrees.candidates import parent_sample
from outtrees.candidates.matrix_search import nearest_parents
from outtrees.candidates.parent_sample import OtherParents, _is_in, other_parents
from outtrees.models import GaussianMutation, MixtureMutation

RNG = np.random.default_rng(3)
REAL = RNG.normal(size=(60, 2)) @ np.array([[2.0, 0.3], [0.0, 0.5]]) + 100.0


def test_others_are_neither_listed_nor_the_record_itself():
    table = nearest_parents(GaussianMutation().start(REAL), REAL, 9)
    others = other_parents(table, RNG.random((60, 12)))
    for u, row in enumerate(others):
        assert not set(row) & (set(table[u]) | {u})
        assert len(set(row)) >= 10  # one from each part, some on a border
        assert row.min() >= 0
        assert row.max() < 60


def test_all_others_if_they_are_few():
    table = nearest_parents(GaussianMutation().start(REAL), REAL, 50)
    others = other_parents(table, RNG.random((60, 9)))
    for u, row in enumerate(others):
        assert sorted([*row, *table[u], u]) == list(range(60))


def test_each_other_is_as_likely():
    table = np.array([[1, 3], [0, 2], [4, 0], [1, 2], [0, 3], [0, 1], [5, 1]])
    counts = np.zeros(7)
    rng = np.random.default_rng(1)
    for _ in range(2000):
        np.add.at(counts, other_parents(table, rng.random((7, 2)))[2], 1)
    expected = np.array([0, 1000, 0, 1000, 0, 1000, 1000])  # 2 of 4, 2000 times
    assert (np.abs(counts - expected) <= 4 * np.sqrt(1000 * 0.5)).all()


@pytest.mark.parametrize("width", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("name", ["parzen", "two locals"])
def test_the_sample_of_others_sums_to_the_right_total(name, width, monkeypatch):
    """Whatever the scale on which densities fall; draws at random alone fail on small ones."""
    monkeypatch.setattr(parent_sample, "_LEAST", 30)
    X = np.random.default_rng(0).random((600, 2))
    local = GaussianMutation(transition="identity", mutation_cov=np.eye(2) * width**2)
    mutation = local
    if name == "two locals":
        wide = GaussianMutation(transition="identity", mutation_cov=np.eye(2) * (2 * width) ** 2)
        mutation = replace(
            MixtureMutation([local, wide]), parts=(local, wide), log_weights=np.log([0.5, 0.5])
        )
    table = nearest_parents(mutation, X, 10)
    beta = np.exp(mutation.log_conditional(X, X))
    np.fill_diagonal(beta, 0.0)
    near = np.take_along_axis(beta, table, axis=1).sum(axis=1)
    ratios = []
    for seed in range(12):
        drawn = OtherParents(600, 16, seed)
        others, log_each = drawn.drawn(mutation, X, table)
        assert not _is_in(others, table)[log_each > -np.inf].any()
        assert not (others == np.arange(600)[:, None])[log_each > -np.inf].any()
        total = near + (np.take_along_axis(beta, others, axis=1) * np.exp(log_each)).sum(axis=1)
        ratios.append(total / beta.sum(axis=1))
    ratios = np.array(ratios)
    # Rows of a draw share their subsets, so the error of the mean is that of 12 draws.
    error = ratios.mean(axis=1).std(ddof=1) / np.sqrt(12)
    assert abs(ratios.mean() - 1.0) < 4 * error + 0.03
    assert ratios.std() < 0.45
    random_only = (600 - 11) / 16
    far = other_parents(table, np.random.default_rng(1).random((600, 16)))
    plain = near + random_only * np.take_along_axis(beta, far, axis=1).sum(axis=1)
    if width == 0.1:
        assert (plain / beta.sum(axis=1)).std() > 1.5 * ratios.std()


def test_no_others_where_none_are_asked_for_or_left():
    mutation = GaussianMutation(transition="identity").start(REAL)
    for n_others, k in ((0, 5), (9, 59)):
        table = nearest_parents(mutation, REAL, k)
        assert OtherParents(60, n_others, 0).drawn(mutation, REAL, table)[0].shape == (60, 0)
    table = nearest_parents(mutation, REAL, 55)
    others, log_each = OtherParents(60, 9, 0).drawn(mutation, REAL, table)
    assert others.shape == (60, 4)  # all that are left, each for itself
    assert (log_each == 0).all()

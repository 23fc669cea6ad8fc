"""Contacts: ratios of pairs, and all contacts by chance."""

from dataclasses import replace

import numpy as np
import pytest

from outtrees.models.columns import Contacts

T = 6
MET = {(1, 0), (2, 1), (5, 4)}  # (child, parent)
ASIDE = {(2, 0), (3, 1)}


def keys(pairs):
    return np.array(sorted(u * T + v for u, v in pairs))


def contacts(**parameters):
    kernel = Contacts(T, keys(MET), 3.0, 13.0, keys(ASIDE)).start(np.zeros((T, 1)))
    return replace(kernel, **{"rate": 0.1, "share": 0.6, **parameters})


def all_pairs(column=None):
    child, parent = np.indices((T, T)).reshape(2, -1)
    child, parent = child[child != parent], parent[child != parent]
    column = np.arange(float(T))[:, None] if column is None else column
    return contacts().pairs(column, column, child, parent), child, parent


def test_ratios_are_those_of_the_two_probabilities():
    pairs, child, parent = all_pairs()
    eta, lam = 0.1 + 0.9 * 0.6, 0.1
    found = np.exp(contacts().log_steps(pairs, 1))
    for ratio, pair in zip(found, zip(child.tolist(), parent.tolist(), strict=True), strict=True):
        right = eta / lam if pair in MET else 1.0 if pair in ASIDE else (1 - eta) / (1 - lam)
        assert ratio == pytest.approx(right)
    np.testing.assert_array_equal(contacts().log_steps(pairs, 2), 0.0)  # someone came between


def test_ratios_turn_one_distribution_into_another():
    chance = np.array([0.9, 0.1])  # of pairs without and with a contact
    assert chance @ np.exp(contacts().log_ratios) == pytest.approx(1)


def test_new_records_are_neutral():
    column = np.arange(float(T))[:, None]
    column[1] = np.nan
    pairs, child, parent = all_pairs(column)
    strange = (child == 1) | (parent == 1)
    found = contacts().log_steps(pairs, 1)
    np.testing.assert_array_equal(found[strange], 0.0)
    assert (found[~strange] == 0).sum() == 1  # the other pair that is set aside


def test_contacts_by_chance_are_likeliest_at_their_own_rate():
    assert contacts(rate=3 / 13).log_common() == pytest.approx(0, abs=1e-12)
    for rate in (0.1, 0.4):
        right = 3 * np.log(rate / (3 / 13)) + 10 * np.log((1 - rate) / (10 / 13))
        assert contacts(rate=rate).log_common() == pytest.approx(right)
        assert right < 0


def test_without_contacts_no_pair_has_one():
    kernel = Contacts(T, keys(()), 0.0, 15.0).start(np.zeros((T, 1)))
    column = np.arange(float(T))[:, None]
    assert (kernel.pairs(column, column, np.array([5, 0]), np.array([4, 5])) == 0).all()
    assert np.isfinite(kernel.log_common())

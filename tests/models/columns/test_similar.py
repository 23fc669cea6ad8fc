"""Similar sequences, and what they say of unread sites, beside comparing all pairs."""

import numpy as np
import pytest

from outtrees.models.columns import substitution, unknown_sites
from outtrees.models.columns.similar import MISSING, similar_sequences
from outtrees.models.columns.substitution import Substitution
from outtrees.models.columns.unknown_sites import UnknownSites, filled


def family(seed, m=400, L=60, missing=0.03, letters=4):
    """Sequences that descend from each other, about half a change a link."""
    rng = np.random.default_rng(seed)
    codes = np.empty((m, L), dtype=np.uint8)
    codes[0] = rng.integers(letters, size=L)
    for i in range(1, m):
        codes[i] = codes[rng.integers(max(0, i - 40), i)]
        for site in rng.integers(L, size=rng.poisson(0.7)):
            codes[i, site] = rng.integers(letters)
    truth = codes.copy()
    codes[rng.random((m, L)) < missing] = MISSING
    return codes, truth


def distances(codes):
    """The slow twin: all pairs, scaled to the whole length."""
    known = codes != MISSING
    shared = (known[:, None] & known[None]).sum(axis=2)
    differing = ((codes[:, None] != codes[None]) & known[:, None] & known[None]).sum(axis=2)
    scaled = differing * (codes.shape[1] / np.maximum(shared, 1))
    np.fill_diagonal(scaled, np.inf)
    return scaled


@pytest.mark.parametrize("letters", [2, 4, 20])
def test_nearly_all_near_sequences_are_found(letters):
    codes, _ = family(letters, letters=letters)
    found = similar_sequences(codes, 16)
    slow = distances(codes)
    rows = np.arange(len(codes))[:, None]
    has = found.index >= 0
    np.testing.assert_allclose(
        found.differing[has], slow[rows, found.index][has], rtol=1e-6
    )  # distances are exact
    assert (found.differing[:, 1:] >= found.differing[:, :-1]).all()
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in found.index)
    nearest = slow.min(axis=1)
    assert (found.differing[:, 0] <= nearest + 1e-5).mean() > 0.9
    # Of the weight of the sixteen best votes most is cast; where many sequences are equal, not all
    # of them are found, nor need be.
    weight = np.exp(-2 * slow)
    cast = np.where(has, np.exp(-2.0 * found.differing), 0).sum(axis=1)
    assert np.median(cast / np.sort(weight, axis=1)[:, -16:].sum(axis=1)) > 0.6


@pytest.mark.parametrize("m", [1, 2, 3])
def test_few_sequences(m):
    codes, _ = family(1, m=m)
    found = similar_sequences(codes, 4)
    assert found.index.shape == (m, 4)
    assert ((found.index >= 0).sum(axis=1) == m - 1).all()


def test_sequences_that_were_never_read():
    codes = np.full((5, 8), MISSING, dtype=np.uint8)
    assert (similar_sequences(codes, 2).differing[:, 0] == 0).all()


def test_similar_sequences_vote_as_all_would(monkeypatch):
    codes, truth = family(3)
    rng = np.random.default_rng(0)
    child, parent = rng.integers(400, size=(2, 3000))
    child, parent = child[child != parent], parent[child != parent]
    every = UnknownSites(codes, 4).log_letters(parent, codes[child], child)
    monkeypatch.setattr(unknown_sites, "_MOST_SEQUENCES", 0)
    some = UnknownSites(codes, 4)
    few = some.log_letters(parent, codes[child], child)
    assert np.median(abs(few - every)) < 0.05
    assert np.corrcoef(few, every)[0, 1] > 0.95
    # What the voters say is nearly always what was there; frequencies alone know less.
    rows, sites = np.nonzero(codes == MISSING)
    voted = (some._votes[some._place[rows, sites]].argmax(axis=1) == truth[rows, sites]).mean()
    common = np.array([(codes == a).sum(axis=0) for a in range(4)]).argmax(axis=0)
    assert voted > 0.95
    assert voted > (common[sites] == truth[rows, sites]).mean() + 0.05


def test_a_child_has_no_vote_on_itself(monkeypatch):
    """Two sequences, each the only voter of the other: without its vote, frequencies are left."""
    monkeypatch.setattr(unknown_sites, "_MOST_SEQUENCES", 0)
    codes = np.array([[0, 1, 2], [0, 1, MISSING]], dtype=np.uint8)
    unknown = UnknownSites(codes, 4)
    edge = np.array([0])
    own = unknown.log_letters(np.array([1]), codes[edge], edge)
    assert own[0] == pytest.approx(np.log(1 / 4))  # nobody else shows anything there
    stranger = unknown.log_letters(np.array([1]), codes[edge], None)
    assert stranger[0] > np.log(0.8)


def test_prepared_sequences_are_kept_for_the_same_cells_only():
    codes, _ = family(5, m=1000)
    values = np.where(codes == MISSING, np.nan, codes)
    kernel = Substitution().start(values)
    edges = np.arange(1, 50), np.arange(49)
    first = kernel.pairs(values, values, *edges)
    assert substitution._last[True][0]() is values
    np.testing.assert_array_equal(kernel.pairs(values, values, *edges), first)
    new = values[:50].copy()
    for _ in range(2):  # the second time from what was kept
        later = kernel.pairs(new, values, *edges)
        np.testing.assert_array_equal(later[:, :3], first[:, :3])  # they are the same sequences
    kernel.pairs(new[::-1].copy(), values, *edges)
    assert substitution._last[False][0]() is values
    other = values[::-1].copy()
    assert not np.array_equal(kernel.pairs(other, other, *edges), first)
    del values, other
    assert False not in substitution._last  # nothing is kept alive


def test_unread_sites_are_filled_by_what_relatives_show():
    rng = np.random.default_rng(0)
    T, L = 40, 400
    whole = np.zeros((T, L), dtype=np.uint8)
    for u in range(1, T):
        whole[u] = whole[rng.integers(max(0, u - 3), u)]
        sites = rng.integers(L, size=2)
        whole[u, sites] = (whole[u, sites] + rng.integers(1, 4, size=2)) % 4
    codes = np.where(rng.random((T, L)) < 0.8, whole, MISSING).astype(np.uint8)
    codes[5, : L - 30] = MISSING  # too little of it was read
    codes[:, 7] = MISSING  # nobody shows that site
    result = filled(codes, 4)
    read = codes != MISSING
    np.testing.assert_array_equal(result[read], codes[read])
    np.testing.assert_array_equal(result[5], codes[5])
    assert (result[:, 7] == MISSING).all()
    others = np.setdiff1d(np.arange(T), [5])
    hidden = ~read[others] & (np.arange(L) != 7)
    commonest = np.array([np.bincount(column).argmax() for column in whole.T])
    hidden &= (whole[others] != commonest) | (whole[others] != whole[0])
    right = (result[others] == whole[others])[hidden].mean()
    base = (np.tile(commonest, (len(others), 1)) == whole[others])[hidden].mean()
    assert right > 0.85 > base + 0.2

"""Sequences: against exponentials of rate matrices, site by site, and for any alphabet."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.linalg import expm

from outtrees.models.columns import Substitution, substitution

from .conftest import climbed, densities

DNA = ("A", "C", "G", "T")
TRANSITIONS = {("A", "G"), ("G", "A"), ("C", "T"), ("T", "C")}


def site_matrix(letters, d, kappa=1.0):
    """Return exp(d·R)[child, parent], R changing kappa times as often by a transition."""
    rates = np.array(
        [
            [0.0 if a == b else kappa if (a, b) in TRANSITIONS else 1.0 for b in letters]
            for a in letters
        ]
    )
    rates /= rates.sum(axis=0)  # one substitution for each unit of d, from any letter
    return expm(d * (rates - np.eye(len(letters))))


def started(letters, model="JC69", L=3, **parameters):
    column = np.random.default_rng(0).integers(len(letters), size=(6, L)).astype(float)
    return replace(Substitution(tuple(letters), model).start(column), **parameters)


@pytest.mark.parametrize("letters", ["01", "ACGT", "ABCDE", "ABCDEFGHIJKLMNOPQRST"])
@pytest.mark.parametrize(("rate", "k"), [(1e-6, 1), (0.02, 1), (0.02, 3), (0.7, 2), (2.0, 3)])
def test_jc69_is_the_exponential_of_its_rate_matrix(letters, rate, k):
    kernel = started(letters, L=1, rate=rate)
    codes = np.arange(len(letters), dtype=float)[:, None]
    # expm itself is good to about 1e-16 absolutely: relative to a change of 1e-6, 1e-9.
    np.testing.assert_allclose(
        densities(kernel, codes, codes, k), site_matrix(letters, k * rate), rtol=1e-9
    )


@pytest.mark.parametrize("kappa", [0.05, 1.0, 2.0, 30.0])
@pytest.mark.parametrize(("rate", "k"), [(1e-5, 1), (0.02, 1), (0.02, 3), (0.7, 2), (2.0, 3)])
def test_k80_is_the_exponential_of_its_rate_matrix(kappa, rate, k):
    kernel = started(DNA, "K80", L=1, rate=rate, kappa=kappa)
    codes = np.arange(4.0)[:, None]
    np.testing.assert_allclose(
        densities(kernel, codes, codes, k), site_matrix(DNA, k * rate, kappa), rtol=1e-7
    )


def test_k80_without_preference_is_jc69():
    codes = np.array(list(product(range(4), repeat=3)), dtype=float)
    one = densities(started(DNA, "K80", rate=0.1, kappa=1.0), codes, codes[:5], 2)
    other = densities(started(DNA, rate=0.1), codes, codes[:5], 2)
    np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("rate", [1e-8, 3e-11])
def test_rare_transitions_keep_their_digits(rate):
    """At small distances the chance of a change is the rate itself: 30 000 sites, few changes."""
    kernel = started(DNA, "K80", L=1, rate=rate, kappa=4.0)
    _, transition, transversion = np.exp(kernel._log_sites(1, kernel.rate, kernel.kappa))
    assert transition == pytest.approx(rate * 4 / 6, rel=1e-7)
    assert transversion == pytest.approx(rate / 6, rel=1e-7)


def letter_chances(codes, v, u, site, C):
    """Return P(letter) at an unread site of v, by the votes of all others but u: plain loops."""
    voters = [w for w in range(len(codes)) if w not in (u, v) and not np.isnan(codes[w, site])]
    shown = [codes[w, site] for w in voters]
    chances = [0.2 * (shown.count(a) + 0.1) / (len(shown) + 0.1 * C) for a in range(C)]
    for w in voters:
        read = [s for s in range(codes.shape[1]) if not np.isnan(codes[v, s] + codes[w, s])]
        differing = sum(codes[v, s] != codes[w, s] for s in read)
        differing *= codes.shape[1] / max(len(read), 1)
        chances[int(codes[w, site])] += np.exp(-2.0 * differing)
    return np.array(chances) / sum(chances)


@pytest.mark.parametrize("model", ["JC69", "K80"])
@pytest.mark.parametrize("k", [1, 2])
def test_missing_sites_one_by_one(model, k):
    """Unread in the child: nothing. Unread in the parent: what its likes show there."""
    rng = np.random.default_rng(2)
    column = rng.integers(4, size=(8, 6)).astype(float)
    column[1:3] = column[0]
    column[rng.random(column.shape) < 0.3] = np.nan
    column[3] = np.nan
    kernel = replace(Substitution(DNA, model).start(column), rate=0.2, kappa=3.0)
    matrix = site_matrix(DNA, 0.2 * k, 3.0 if model == "K80" else 1.0)
    child, parent = np.nonzero(~np.eye(8, dtype=bool))
    found = kernel.log_steps(kernel.pairs(column, column, child, parent), k)
    for edge, (u, v) in enumerate(zip(child, parent, strict=True)):
        right = 0.0
        for site in range(6):
            a, b = column[u, site], column[v, site]
            if np.isnan(a):
                continue
            if np.isnan(b):
                right += np.log(letter_chances(column, v, u, site, 4)[int(a)])
            else:
                right += np.log(matrix[int(a), int(b)])
        assert found[edge] == pytest.approx(right, abs=1e-5)  # distances are in float32


def test_an_unread_site_sums_over_its_letters():
    """Of the child: its density is the sum over all readings. Of the parent: readings sum to 1."""
    parents = np.array([[0.0, 1.0, 1.0], [3.0, np.nan, 2.0], [3.0, 1.0, 2.0]])
    filled = np.array([[0.0, letter, 2.0] for letter in range(4)])
    for model in ("JC69", "K80"):
        kernel = started(DNA, model)
        hidden = densities(kernel, np.array([[0.0, np.nan, 2.0]]), parents, 2)[0]
        np.testing.assert_allclose(hidden, densities(kernel, filled, parents, 2).sum(axis=0))


def test_a_child_has_no_vote_on_its_own_letter():
    """Its density would not be one: here a child shows what nobody else does."""
    column = np.zeros((12, 40))
    column[0, 5], column[1, 5] = np.nan, 3.0
    kernel = Substitution(DNA).start(column)
    first, second = np.array([0]), np.array([1])
    inside = kernel.log_steps(kernel.pairs(column, column, second, first), 1)[0]
    rest = np.delete(column, 1, axis=0)  # the same child as a new record
    outside = kernel.log_steps(kernel.pairs(column[1:2], rest, first, first), 1)[0]
    assert inside == pytest.approx(outside, abs=1e-9)
    readings = column[[1] * 4]
    readings[:, 5] = np.arange(4)
    total = 0.0
    for reading in readings:
        column[1] = reading
        total += np.exp(kernel.pairs(column, column, second, first)[0, 3])
    assert total == pytest.approx(1.0, abs=1e-9)


def test_long_alignments_in_pieces(monkeypatch):
    rng = np.random.default_rng(3)
    column = rng.integers(4, size=(20, 50)).astype(float)
    column[rng.random(column.shape) < 0.1] = np.nan
    kernel = Substitution(DNA, "K80").start(column)
    child, parent = np.indices((20, 20)).reshape(2, -1)
    whole = kernel.pairs(column, column, child, parent)
    monkeypatch.setattr(substitution, "_CELLS_AT_ONCE", 300)
    np.testing.assert_array_equal(kernel.pairs(column, column, child, parent), whole)


def test_the_start_is_half_the_mean_distance():
    column = np.array([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, np.nan]], dtype=float)
    differing = [0, 0, 2 / 3, 1]  # shares of pairs, site by site
    assert Substitution(DNA).start(column).rate == pytest.approx(np.mean(differing) / 2)


@pytest.mark.parametrize("model", ["JC69", "K80"])
def test_rate_and_kappa_are_recovered(model):
    """300 links of 400 sites at 0.03: 3600 changes, so rate ± 1.7 %, kappa ± 4 % (one sd)."""
    rng = np.random.default_rng(8)
    parents = rng.integers(4, size=(300, 400)).astype(float)
    truth = replace(Substitution(DNA, model).start(parents), rate=0.03, kappa=5.0)
    edges = np.arange(300)
    for k in (1, 2):
        children = truth.sample(parents, k, rng)
        kernel = replace(truth, rate=0.2, kappa=2.0)
        weights = np.zeros((2, 300))
        weights[k - 1] = 1.0
        found = climbed(kernel, kernel.pairs(children, parents, edges, edges), weights)
        assert found.rate == pytest.approx(0.03, rel=0.06)
        if model == "K80":
            assert found.kappa == pytest.approx(5.0, rel=0.15)


def test_refusals():
    with pytest.raises(ValueError, match=r"'JC69' or 'K80'.*got 'HKY'.*Choose"):
        Substitution(DNA, "HKY")
    with pytest.raises(ValueError, match=r"K80 expects the letters A, C, G, T.*use JC69"):
        Substitution(("A", "G", "C", "T"), "K80")
    with pytest.raises(ValueError, match=r"at least two letters.*leave that column out"):
        Substitution(("A",))


@pytest.mark.parametrize("model", ["JC69", "K80"])
def test_the_description_counts_substitutions_of_all_sites(model):
    kernel = Substitution(levels=("A", "C", "G", "T"), model=model)
    started = replace(kernel.start(np.zeros((3, 40))), rate=0.05)
    assert started.describe().startswith("2 substitutions a link (0.05 a site)")


# The clock ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["JC69", "K80"])
def test_substitutions_run_with_links_and_time(model):
    """k links over t units of time are k + per_time·t links' worth of substitutions."""
    kernel = replace(Substitution(DNA, model, clock=True), rate=0.05, kappa=3.0, per_time=0.7)
    codes = np.arange(4.0)[:, None]
    kernel = replace(kernel, common=np.zeros(1), n_sites=1)
    child, parent = (part.ravel() for part in np.indices((4, 4)))
    elapsed = np.linspace(0.0, 30.0, 16)
    found = kernel.log_steps(kernel.pairs(codes, codes, child, parent), 2, elapsed)
    for e in range(16):
        kappa = 3.0 if model == "K80" else 1.0
        right = site_matrix(DNA, (2 + 0.7 * elapsed[e]) * 0.05, kappa)[child[e], parent[e]]
        assert np.exp(found[e]) == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("model", ["JC69", "K80"])
def test_slopes_with_a_clock_are_differences(model):
    rng = np.random.default_rng(1)
    values = rng.integers(4, size=(8, 30)).astype(float)
    values[rng.random(values.shape) < 0.1] = np.nan
    kernel = replace(Substitution(DNA, model, clock=True).start(values), rate=0.02, per_time=0.4)
    child, parent = np.triu_indices(8, 1)[::-1]
    pairs, elapsed = kernel.pairs(values, values, child, parent), rng.exponential(5, len(child))
    weights = rng.normal(size=(2, len(child)))
    found, now = kernel.slopes(pairs, weights, elapsed), kernel.params

    def total(params):
        moved = kernel.with_params(params)
        return sum(weights[k - 1] @ moved.log_steps(pairs, k, elapsed) for k in (1, 2))

    for i in range(len(now)):
        step = 1e-4 * np.eye(len(now))[i]
        slope = (total(now + step) - total(now - step)) / 2e-4
        assert found[i] == pytest.approx(slope, rel=1e-5, abs=1e-5)
    np.testing.assert_allclose(kernel.with_params(now).params, now, rtol=1e-12)
    assert len(kernel.priors()) == len(kernel.quantities()) == len(now)


def test_time_is_ignored_without_a_clock():
    values = np.random.default_rng(2).integers(4, size=(5, 20)).astype(float)
    kernel = Substitution(DNA).start(values)
    pairs = kernel.pairs(values, values, np.array([1, 2]), np.array([0, 1]))
    still = kernel.log_steps(pairs, 1)
    np.testing.assert_array_equal(kernel.log_steps(pairs, 1, np.array([3.0, 90.0])), still)
    assert "unit of time" not in kernel.describe()
    assert "a unit of time" in replace(kernel, clock=True).describe()

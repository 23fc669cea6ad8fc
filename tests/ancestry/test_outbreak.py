"""Whole outbreaks that are drawn, against sums over trees and integrals over dates."""

from datetime import date
from functools import reduce
from itertools import product

import numpy as np
import pytest
from scipy.special import expit, gammaln
from scipy.stats import gamma

from outtrees import read_records
from outtrees.ancestry.outbreak import Data, Prior, chain, patterns, possible_letters
from outtrees.datasets import make_sampled_outbreak

RATE, SETTLING, LATE = 2e-3, 1.5, 0.4
THETA = np.array(
    [
        *(np.log(5.0), np.log(4.0), np.log(4.0), np.log(3.0), 0.4, np.log(RATE), np.log(9.0)),
        *(np.log(1.6), np.log(1.5), np.log(SETTLING), np.log(LATE / (1 - LATE))),
    ]
)


def two_samples(letters, dates=(12.0, 12.5)):
    """Return the data of two samples at known dates."""
    tips, counts, hidden, n_constant = patterns(np.asarray(letters, dtype=np.uint8))
    dates = np.array(dates)
    return Data(
        np.arange(3),
        np.arange(2),
        dates,
        dates,
        tips,
        hidden,
        counts,
        np.array([n_constant]),
        np.ones((2, 2)),
        np.zeros((2, 3)),
        np.array([False]),
        np.array([dates.min()]),
        np.array([500.0]),  # few introductions beforehand
    )


def unseen_lines(end, times):
    """Return the chances that a child's line has no sample and that a person has none, by date.

    And how long introductions after that date would be seen.
    """
    step = 0.02
    grid = np.arange(end - 60, end + step / 2, step)
    law = gamma.pdf(np.arange(0, 61, step), 4, scale=5 / 4) * step
    alone = 1 - expit(THETA[4]) * gamma.cdf(end - grid, 3, scale=4 / 3)
    R, k = np.exp(THETA[7]), np.exp(THETA[8])
    unseen = np.ones_like(grid)
    rest = np.maximum(1 - np.cumsum(law)[: len(grid)][::-1], 0)
    for _ in range(60):  # until nothing changes
        below = np.convolve(unseen[::-1], law)[: len(grid)][::-1] + rest
        new = alone * (1 + R / k * (1 - below)) ** -k
        if abs(new - unseen).max() < 1e-10:
            break
        unseen = new
    seen = np.cumsum((1 - unseen)[::-1])[::-1] * step
    return [np.interp(times, grid, values) for values in (below, alone, seen)]


def integrated(data, with_other):
    """Return P(no ancestor, the other record) of both records and their mean dates of infection.

    Summed over all trees of two samples and at most one person without, and whether strains
    depart late; integrated over dates on a grid.
    """
    end = data.late.max()
    axis = np.arange(-16.0, end, 0.5) + 0.25
    below, alone, seen = unseen_lines(end, axis)
    R, k = np.exp(THETA[7]), np.exp(THETA[8])
    n_same, n_differ = data.n_constant[0], data.counts.sum()
    total, supports, dates = 0.0, np.zeros((2, 2)), np.zeros(2)
    for n in (2, 3) if with_other else (2,):
        shape = [len(axis)] * n
        b = [axis.reshape([-1 if i == h else 1 for i in range(n)]) for h in range(n)]
        for par in product(range(-1, n), repeat=n):
            if any(par[h] == h for h in range(n)) or not _is_forest(par):
                continue
            number = [sum(v == h for v in par) for h in range(n)]
            if n == 3 and number[2] == 0:
                continue
            roots = sum(v < 0 for v in par)
            first = reduce(np.minimum, [b[h] for h in range(n) if par[h] < 0])
            origin, further = first - 9.0, data.span[0] + np.interp(first, axis, seen)
            weight = np.exp(gammaln(roots) - roots * np.log(further)) * np.ones(shape)
            for h in range(n):
                if par[h] >= 0:
                    weight = weight * gamma.pdf(b[h] - b[par[h]], 4, scale=5 / 4)
                at = [-1 if i == h else 1 for i in range(n)]
                many = (1 + R / k * (1 - below)) ** -(k + number[h])
                many *= np.prod([R * (k + i) / k for i in range(number[h])])
                if h < 2:
                    many = many * expit(THETA[4]) * gamma.pdf(data.early[h] - axis, 3, scale=4 / 3)
                else:
                    many = many * alone
                weight = weight * many.reshape(at)
            for late in product([True, False], repeat=n):
                apart = _apart(par, b, data.early, late, origin)
                change = -np.expm1(-4 / 3 * RATE * apart) / 4
                w = weight * np.prod([LATE if x else 1 - LATE for x in late])
                w = w * (1 - 3 * change) ** n_same * change**n_differ
                mass = w.sum() * 0.5**n
                total += mass
                for u in range(2):
                    v = par[u]
                    while v == 2:
                        v = par[v]
                    supports[u, int(v >= 0)] += mass
                    dates[u] += (w * b[u]).sum() * 0.5**n
    return supports / total, dates / total


def _is_forest(par):
    for u in range(len(par)):
        v, steps = u, 0
        while v >= 0 and steps <= len(par):
            v, steps = par[v], steps + 1
        if v >= 0:
            return False
    return True


def _apart(par, b, s, late, origin):
    """Return the time between two samples along the strains that they come from."""
    lines = []
    for u in range(2):
        at, length, h, seen = np.minimum(s[u], b[u] + SETTLING), 0.0, u, {}
        while True:
            seen[h] = (at, length)
            if par[h] < 0:
                seen[-1] = (origin, length + at - origin)
                break
            p = par[h]
            new = np.minimum(b[h], b[p] + SETTLING) if late[h] else b[p]
            length, at, h = length + at - new, new, p
        lines.append(seen)
    for h in lines[0]:  # from the record up: the first common one
        if h in lines[1]:
            (t0, l0), (t1, l1) = lines[0][h], lines[1][h]
            return l0 + l1 + abs(t0 - t1)
    raise AssertionError


@pytest.mark.parametrize("with_other", [False, True])
def test_draws_are_those_of_all_trees_and_dates(with_other):
    """Two samples, one letter of 60 apart, and at most one person without a sample."""
    letters = np.ones((2, 60), dtype=np.uint8)
    letters[1, 0] = 2
    data = two_samples(letters)
    supports, dates = integrated(data, with_other)
    fixed = Prior(np.zeros(11), THETA, np.ones(11), np.full(2, np.nan))
    begin = np.array([-1, 0]), np.array([8.0, 11.0])
    n = 40_000
    drawn = chain(data, THETA, fixed, *begin, int(with_other), 1, 200, n)
    found = (drawn.parents < 0).mean(axis=0)
    # Draws follow upon each other: four errors of a tenth as many.
    error = 4 * 0.5 / np.sqrt(n / 10)
    assert 0.1 < supports[1, 0] < 0.9
    np.testing.assert_allclose(found, supports[:, 0], atol=error)
    np.testing.assert_allclose(drawn.infected.mean(axis=0), dates, atol=0.15)


def test_letters_that_may_be_several():
    def read(*texts):
        sequences = dict(zip("ab", texts, strict=True))
        records = read_records({"id": list("ab"), "x": [1.0, 2.0]}, sequences=sequences)
        return possible_letters(records.column("sequence"))

    letters = read("AMGC", "ATTN")  # M: A or C, but not T
    assert letters.tolist() == [[1, 3, 4, 2], [1, 8, 8, 15]]
    assert patterns(letters)[1].tolist() == [1.0, 1.0]
    letters = read("ANGC", "ATTN")
    assert letters.tolist() == [[1, 15, 4, 2], [1, 8, 8, 15]]
    tips, counts, hidden, n_constant = patterns(letters)
    assert counts.tolist() == [1.0]  # one site must differ
    assert tips[:, :, 0].tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]]
    assert n_constant == 3
    np.testing.assert_allclose(hidden, [1 / 3, 1 / 3])


@pytest.mark.slow
def test_simulated_with_parameters_from_the_prior_promises_hold():
    """50 outbreaks of 6 samples: supports, and where the truth lies among the draws.

    Reproduction number, dispersion and share sampled are known: outbreaks that die out are begun
    anew, and how often they do depends on these.
    """
    T, n_sites, n = 6, 500, 50
    centre = np.array([*np.log([5.0, 5.0, 5.0, 5.0]), 0.0, np.log(4e-4), np.log(10.0), *THETA[7:]])
    spread = np.array([0.3, 0.3, 0.3, 0.3, 0.0, 0.5, 0.0, 0.0, 0.0, 1.5, 1.5])
    steps = np.where(spread > 0, 0.3, 0.0)
    right, promised, ranks = 0, 0.0, []
    for seed in range(n):
        theta = centre + spread * np.random.default_rng(seed).normal(size=11)
        generation, shape, delay, delay_shape = np.exp(theta[:4])
        made = make_sampled_outbreak(
            T,
            generation_mean=generation,
            generation_sd=generation / np.sqrt(shape),
            delay_mean=delay,
            delay_sd=delay / np.sqrt(delay_shape),
            sampled=0.5,
            reproduction=np.exp(theta[7]),
            dispersion=np.exp(theta[8]),
            substitution_rate=np.exp(theta[5]),
            n_sites=n_sites,
            settling=np.exp(theta[9]),
            late=expit(theta[10]),
            random_state=seed,
        )
        names = made.table["sample"]
        day = np.array(
            [(date.fromisoformat(x) - date(2020, 1, 1)).days for x in made.table["date"]]
        )
        letters = np.array([["ACGT".index(x) for x in made.sequences[name]] for name in names])
        tips, counts, hidden, n_constant = patterns((1 << letters).astype(np.uint8))
        data = Data(
            *(np.arange(T + 1), np.arange(T), day + 0.0, day + 1.0),
            *(tips, hidden, counts, np.array([n_constant]), np.ones((T, T)), np.zeros((T, T + 1))),
            *(np.array([False]), np.array([float(day.min())]), np.array([1e7])),
        )
        prior = Prior(steps, centre, np.maximum(spread, 1e-9), np.full(2, np.nan))
        begin = np.arange(T) - 1, day[0] - 20.0 + np.arange(T)
        drawn = chain(data, centre, prior, *begin, 2 * T + 20, seed, 200, 800)
        place = {name: i for i, name in enumerate(names)}
        for i, name in enumerate(names):
            above = made.infectors[name]
            while above and above not in place:
                above = made.infectors[above]
            share = np.bincount(drawn.parents[:, i] + 1, minlength=T + 1) / 800
            promised += share.max()
            right += share.argmax() == place.get(above, -1) + 1
        ranks.append((drawn.theta < theta).mean(axis=0)[spread > 0])
    assert abs(right - promised) < 3 * np.sqrt(n * T * 0.2)
    # Uniform ranks have a standard deviation of √(1 / 12), and so 95 % are inside.
    ranks = np.array(ranks)
    assert (abs(ranks.mean(axis=0) - 0.5) < 4 / np.sqrt(12 * n)).all()
    inside = ((ranks > 0.025) & (ranks < 0.975)).mean()
    assert 0.9 < inside < 0.98

"""Whole outbreaks that are drawn, against sums over trees and integrals over dates."""

from functools import reduce
from itertools import product

import numba
import numpy as np
import pytest
from scipy.special import expit, gammaln
from scipy.stats import gamma

from outtrees import read_records
from outtrees.ancestry.outbreak import (
    NEVER,
    Data,
    Laws,
    Plan,
    Prior,
    chain,
    mixing,
    patterns,
    possible_letters,
)
from outtrees.ancestry.outbreak_kernels import _fill_laws

RATE, SETTLING, LATE = 2e-3, 1.5, 0.4
THETA = np.array(
    [
        *(np.log(5.0), np.log(4.0), np.log(4.0), np.log(3.0), 0.4, np.log(RATE), np.log(9.0)),
        *(np.log(1.6), np.log(1.5), np.log(SETTLING), np.log(LATE / (1 - LATE))),
        *(NEVER, NEVER),
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
    fixed = Prior(np.zeros(13), THETA, np.ones(13), np.full(2, np.nan))
    begin = np.array([-1, 0]), np.array([8.0, 11.0])
    n = 40_000
    drawn = chain(data, THETA, fixed, *begin, int(with_other), 1, Plan(200, n))
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
    # Letters are named in order of appearance.
    assert tips[:, :, 0].tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]
    assert n_constant == 3
    np.testing.assert_allclose(hidden, [1 / 3, 1 / 3])


def test_how_far_chains_agree():
    """Of an autoregressive process the effective number of draws is known."""
    rng = np.random.default_rng(0)
    noise, values = rng.normal(size=(2, 20_000)), np.zeros((2, 20_000))
    for i in range(1, 20_000):
        values[:, i] = 0.9 * values[:, i - 1] + noise[:, i]
    r_hat, effective = mixing(values)
    assert r_hat == pytest.approx(1.0, abs=0.01)
    assert effective == pytest.approx(40_000 * 0.1 / 1.9, rel=0.25)
    r_hat, effective = mixing(values + np.array([[0.0], [20.0]]))
    assert r_hat > 3
    assert effective < 5
    assert mixing(np.ones((2, 10))) == (1.0, 20.0)


def test_small_chances_of_being_seen_are_not_lost_in_rounding():
    """Delays of 70 days: of whom was infected in the last weeks hardly anybody is sampled.

    If such chances were 0, outbreaks of that kind would weigh more without end as R grows.
    """
    theta = THETA.copy()
    theta[[0, 1, 2, 3]] = np.log([3.0, 4.0, 70.0, 29.0])
    theta[[7, 8]] = 1.0, -2.0
    n = 400
    laws = Laws(*np.zeros((4, n)), np.zeros(256), np.array([0.0]), np.zeros(1), np.zeros(1))
    numba.njit(lambda theta, laws: _fill_laws(theta, laws))(theta, laws)
    step, R, k = 0.01, np.exp(1.0), np.exp(-2.0)
    ahead = np.arange(0, 60, step)
    law = np.diff(gamma.cdf(np.append(ahead, 60.0), 4, scale=3 / 4))
    own = expit(THETA[4]) * gamma.cdf(ahead, 29, scale=70 / 29)
    line = own
    for _ in range(30):  # generations
        child = np.convolve(line, law)[: len(ahead)]
        line = -np.expm1(np.log1p(-own) - k * np.log1p(R / k * child))
    at = laws.end[0] - laws.first[0] - np.arange(n) * laws.step[0]
    here = (at > 9) & (at < 55)
    assert laws.child[here].min() < 1e-16  # less than the rounding of 1
    for found, true in ((laws.child, child), (laws.line, line)):
        logs = np.interp(at[here], ahead[1:], np.log(np.maximum(true[1:], 1e-300)))
        np.testing.assert_allclose(np.log(found[here]), logs, atol=0.1)


# Several samples of a host, variants ---------------------------------------------------------

DRIFT, MIXED, APART, RARE = 0.3, 0.2, 0.5, 0.002


def explicit(par, b, hosts, s, late, loose, drift, background=None):
    """Return node → (node above, time between) for samples of two hosts; roots have no entry.

    `loose` (child → …) are children whose strain is drawn from the host's variants.
    """
    origin = min(b[h] for h in (0, 1) if par[h] < 0) - 9.0

    def settled(t, h):
        end = b[h] + SETTLING
        return min(t, end) + drift * max(t - end, 0.0)

    above = {}
    for h in (0, 1):
        events = [(settled(s[r], h), 1, ("seen", r)) for r in hosts[h]]
        for c in (0, 1):
            if par[c] == h:
                at = settled(b[c], h) if late[c] else b[h]
                events.append((at, 1, ("left", c)))
                if c not in loose:
                    above["start", c] = (("left", c), b[c] - at)
                else:
                    above["start", c] = (("drawn", c), b[c] - at)
        time, node = b[h], ("start", h)
        for at, _, event in sorted(events):
            above[event] = (node, at - time)
            time, node = at, event
        for r in hosts[h]:
            above["tip", r] = (("seen", r), drift * APART)
        if par[h] < 0:
            time = b[h] - origin if background is None else background / RATE
            above["start", h] = ("origin", time)
    return above


def below(node, above, tips):
    """Return the probability of what is seen below a node, by its letter (4,)."""
    message = np.array(tips.get(node, np.ones(4)), dtype=float)
    for lower, (upper, time) in above.items():
        if upper == node:
            r = 0.25 * -np.expm1(-4 / 3 * RATE * time)
            found = below(lower, above, tips)
            message = message * ((1 - 4 * r) * found + r * found.sum())
    return message


def site_likelihood(par, b, hosts, s, late, site, drift, background=None):
    """Return the probability of one site, with the frequencies of a host's variants if it has any.

    Frequencies are those of a variable site: the sample says by them how likely each letter was
    the host's first.
    """
    tips, shares = site
    loose = [c for c in (0, 1) if par[c] >= 0 and late[c] and par[c] in shares]
    above = explicit(par, b, hosts, s, late, loose, drift, background)
    tips = {("tip", r): letters for r, letters in tips.items()}
    result = below("origin", above, tips).mean()
    for c in loose:
        drawn, share = below(("drawn", c), above, tips), shares[par[c]]
        narrow, wide = share @ drawn, share**2 @ drawn
        if c in shares:
            pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
            both = sum(share[i] * share[j] for i, j in pairs if shares[c][i] * shares[c][j] > 0)
            wide += both / RARE
        result *= (1 - MIXED) * narrow + MIXED * wide
    return result


def supports_of(data, hosts, sites, counts, drift=0.0, background=None):
    """Return P(no ancestor, the other host) of two hosts, summed over trees, strains and dates."""
    s, end = data.early, data.late.max()
    step = 0.5
    axes = [np.arange(min(s[r] for r in hosts[h]) - 13, end, step) + 0.25 for h in (0, 1)]
    R, k = np.exp(THETA[7]), np.exp(THETA[8])
    total = np.zeros((2, 2))
    grids = [unseen_lines(end, axis) for axis in axes]
    for par in [(-1, -1), (-1, 0), (1, -1)]:
        points = []
        for i, j in product(range(len(axes[0])), range(len(axes[1]))):
            b = axes[0][i], axes[1][j]
            first = min(b[h] for h in (0, 1) if par[h] < 0)
            root = [i, j][0 if first == b[0] and par[0] < 0 else 1]
            seen = grids[0 if first == b[0] and par[0] < 0 else 1][2][root]
            roots = sum(v < 0 for v in par)
            w = 1.0 / (data.span[0] + seen) ** roots
            for h, at in ((0, i), (1, j)):
                number = sum(v == h for v in par)
                w *= (1 + R / k * (1 - grids[h][0][at])) ** -(k + number) * R**number
                w *= gamma.pdf(min(s[r] for r in hosts[h]) - b[h], 3, scale=4 / 3)
                if par[h] >= 0:
                    w *= gamma.pdf(b[h] - b[par[h]], 4, scale=5 / 4)
            if w > 0:
                points.append((w, b))
        most = max(w for w, _ in points)
        for w, b in points:
            if w < 1e-5 * most:
                continue
            for late in product([True, False], repeat=2):
                mass = w * np.prod([LATE if x else 1 - LATE for x in late])
                for site, n in zip(sites, counts, strict=True):
                    mass *= site_likelihood(par, b, hosts, s, late, site, drift, background) ** n
                for u in (0, 1):
                    total[u, int(par[u] >= 0)] += mass
    return total / total.sum(axis=1, keepdims=True)


def one(letter):
    return np.eye(4)[letter]


def drawn_roots(data, theta):
    fixed = Prior(np.zeros(13), theta, np.ones(13), np.full(2, np.nan))
    begin = np.array([-1, 0]), np.array([8.0, 11.0])
    drawn = chain(data, theta, fixed, *begin, 0, 1, Plan(200, 100_000))
    return (drawn.parents < 0).mean(axis=0)


def test_draws_with_two_samples_of_a_host_are_those_of_all_trees_and_dates():
    """The second sample of a host differs from its first, and is like that of the other host."""
    letters = np.ones((3, 60), dtype=np.uint8)
    letters[1:, 0] = letters[2, 1:3] = 2
    tips, counts, hidden, n_constant = patterns(letters)
    dates = np.array([12.0, 15.0, 14.0])
    theta = THETA.copy()
    theta[11] = np.log(DRIFT / (1 - DRIFT))
    data = two_samples(letters[:2])._replace(
        start=np.array([0, 2, 3]),
        host=np.array([0, 0, 1]),
        early=dates,
        late=dates,
        tips=tips,
        hidden=hidden,
        counts=counts,
        n_constant=np.array([n_constant]),
        first_date=np.array([12.0]),
        apart=np.array([APART]),
    )
    sites = [({r: one(letters[r, i] - 1) for r in range(3)}, {}) for i in range(4)]
    supports = supports_of(data, [[0, 1], [2]], sites, [1, 1, 1, 57], DRIFT)
    assert 0.1 < supports[1, 0] < 0.9
    np.testing.assert_allclose(drawn_roots(data, theta), supports[:, 0], atol=0.015)


@pytest.mark.parametrize("shared", [False, True])
def test_draws_with_variants_are_those_of_all_trees_and_dates(shared):
    """A fifth of the first host's strains have the letter of the second host, or they share it."""
    letters = np.ones((2, 60), dtype=np.uint8)
    letters[1, :3] = 1 if shared else 2
    shares = {0: np.array([0.8, 0.2, 0, 0])} | ({1: np.array([0.6, 0.4, 0, 0])} if shared else {})
    tips, counts, hidden, n_constant = patterns(letters, np.arange(3))
    for h, share in shares.items():
        tips[h] = share[:, None]
    theta = THETA.copy()
    theta[12] = np.log(MIXED / (1 - MIXED))
    data = two_samples(letters, (12.0, 15.0))._replace(
        tips=tips,
        hidden=hidden,
        counts=counts,
        n_constant=np.array([n_constant]),
        first_variant=np.array([0, 3, 3 + 3 * shared]),
        pattern=np.tile(np.arange(3), 1 + shared),
        share=np.repeat(list(shares.values()), 3, axis=0),
        rare=np.full(3 + 3 * shared, RARE),
    )
    sites = [
        ({0: shares[0], 1: shares.get(1, one(1))}, shares),
        ({r: one(0) for r in range(2)}, {}),
    ]
    supports = supports_of(data, [[0], [1]], sites, [3, 57])
    assert 0.1 < supports[1, 0] < 0.9
    np.testing.assert_allclose(drawn_roots(data, theta), supports[:, 0], atol=0.015)


@pytest.mark.parametrize("background", [0.002, 0.05])
def test_draws_with_a_known_distance_of_introductions_are_those_of_all_trees(background):
    """One of 60 letters differs; introductions are twice this distance apart."""
    letters = np.ones((2, 60), dtype=np.uint8)
    letters[1, 0] = 2
    data = two_samples(letters)._replace(background=np.array([background]))
    sites = [({0: one(0), 1: one(1)}, {}), ({0: one(0), 1: one(0)}, {})]
    supports = supports_of(data, [[0], [1]], sites, [1, 59], background=background)
    assert 0.05 < supports[1, 0] < 0.95
    np.testing.assert_allclose(drawn_roots(data, THETA), supports[:, 0], atol=0.015)

"""Dates: waiting times by quadrature, far tails, open cells, half-widths, and possible orders."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import gammaln

from outtrees.models.columns import Waiting
from outtrees.models.columns.waiting import LAWS, guessed_wait

from .conftest import assert_slopes_agree, climbed, dates, densities, weighted_sum


def started(kernel, mean=5.0, sd=2.5):
    column = dates([0.0, 30.0])
    return replace(kernel.start(column), log_mean=np.log(mean), log_shape=2 * np.log(mean / sd))


def cell(date, end=None, width=0.0, still_open=0.0):
    return [date, date if end is None else end, width, still_open]


def log_p(kernel, child, parent, k=1):
    zero = np.array([0])
    pairs = kernel.pairs(np.array([child], float), np.array([parent], float), zero, zero)
    return float(kernel.log_steps(pairs, k)[0])


def gamma(mean, sd, k):
    return stats.gamma(k * (mean / sd) ** 2, scale=sd**2 / mean)


def log_mass(density, end, length):
    """Return log ∫ density from `end` on (length > 0) or up to it (< 0), the density falling away.

    The integral of density / density(end), in units in which that falls like e^−s at first: no
    number under- or overflows, however far out the end is.
    """
    log_p, step = density.logpdf, np.copysign(1e-6, length)
    slope = (log_p(end) - log_p(end + step)) / 1e-6
    total = quad(
        lambda s: np.exp(log_p(end + np.copysign(s, length) / slope) - log_p(end)),
        0,
        min(abs(length) * slope, 60),
        epsabs=1e-12,
        limit=400,
    )[0]
    return log_p(end) + np.log(total / slope)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(("mean", "sd"), [(5.0, 2.5), (0.7, 1.4), (12.0, 1.0)])
def test_exact_times_against_scipy(mean, sd, k):
    kernel = started(Waiting(unit=0.0), mean, sd)
    for t in (0.01, 1.0, 4.7, 30.0):
        assert log_p(kernel, cell(t), cell(0), k) == pytest.approx(
            gamma(mean, sd, k).logpdf(t), rel=1e-10, abs=1e-10
        )
    assert log_p(kernel, cell(0), cell(0), k) == -np.inf
    assert log_p(kernel, cell(-1), cell(0), k) == -np.inf


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("width", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("unit", [0.0, 1.0, 7.0])
def test_rounded_and_uncertain_dates_by_quadrature(unit, width, k):
    """The density averaged over t ± h, for one unit; h = unit/2 + both half-widths."""
    kernel = started(Waiting(unit=unit))
    half = unit / 2 + 2 * width
    if half == 0:
        pytest.skip("exact times: see above")
    for t in (-3.0, 0.0, 2.0, 9.0, 28.0):
        low = max(t - half, 0.0)
        mass = quad(gamma(5.0, 2.5, k).pdf, low, max(t + half, low), epsabs=1e-13)[0]
        found = log_p(kernel, cell(t, width=width), cell(0, width=width), k)
        right = mass / (2 * half) * (unit or 1.0)
        assert np.exp(found) == pytest.approx(right, rel=1e-8, abs=1e-14)


@pytest.mark.parametrize("width", [0.25, 1.0, 3.0])
def test_uncertain_dates_are_normalised(width):
    """Over all observed differences, those that look a little negative included."""
    kernel = started(Waiting(unit=0.0))
    total = quad(
        lambda t: np.exp(log_p(kernel, cell(t, width=width), cell(0))), -width, 60, limit=400
    )[0]
    assert total == pytest.approx(1.0, abs=1e-7)
    days = started(Waiting(unit=1.0))  # 2h = 1 + 2·width is whole for these
    if width >= 1:
        cells = np.array([cell(float(t), width=width) for t in range(-8, 100)])
        assert densities(days, cells, dates([0]), 1).sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_open_cells_are_the_survival_by_quadrature(k):
    exact = started(Waiting(unit=0.0))
    for t in (0.0, 2.0, 6.0, 19.0):
        right = quad(gamma(5.0, 2.5, k).pdf, t, np.inf, epsabs=1e-13)[0]
        found = log_p(exact, cell(t, still_open=1), cell(0), k)
        assert np.exp(found) == pytest.approx(right, rel=1e-7)


@pytest.mark.parametrize("kernel", [Waiting(), Waiting(table=(0.1, 0.2, 0.0, 0.4, 0.3))])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_open_days_are_the_sum_of_all_later_days(kernel, k):
    kernel = started(kernel)
    later = densities(kernel, dates(np.arange(300.0)), dates([0]), k)[:, 0]
    for t in (0, 1, 4, 9, 12):
        found = np.exp(log_p(kernel, cell(t, still_open=1), cell(0), k))
        assert found == pytest.approx(later[t:].sum(), abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("sd", [0.2, 1.0, 2.0])
@pytest.mark.parametrize("unit", [0.0, 1.0])
def test_a_thousand_means_away(unit, sd, k):
    """Finite, ever less likely, and right: against quadrature."""
    kernel = started(Waiting(unit=unit), 1.0, sd)
    days = np.arange(5.0, 1001.0)
    for still_open in (0.0, 1.0):
        cells = dates(days)
        cells[:, 3] = still_open
        edges = np.arange(len(days))
        pairs = kernel.pairs(cells, dates([0]), edges, 0 * edges)
        found = kernel.log_steps(pairs, k)
        assert np.isfinite(found).all()
        assert (np.diff(found) < 0).all()
        for t in (17.0, 180.0, 360.0, 750.0, 1000.0):
            if still_open or unit:
                length = np.inf if still_open else unit
                right = log_mass(gamma(1.0, sd, k), t - unit / 2, length)
            else:
                right = gamma(1.0, sd, k).logpdf(t)
            assert found[int(t) - 5] == pytest.approx(right, rel=1e-8)


@pytest.mark.parametrize("sd", [0.01, 0.1])
def test_far_too_early(sd):
    """Waiting times of 10 ± sd days, a child after one: the mass lies at the interval's end."""
    kernel = started(Waiting(), 10.0, sd)
    before = -np.inf
    for t in (1.0, 2.0, 5.0, 8.0):
        found = log_p(kernel, cell(t), cell(0))
        assert found == pytest.approx(log_mass(gamma(10.0, sd, 1), t + 0.5, -1.0), rel=1e-8)
        assert found > before
        before = found


def test_children_wait_from_the_end_of_their_parent():
    kernel = started(Waiting(unit=0.0))
    parent, child = cell(1.0, end=4.0), cell(9.0, end=20.0)
    assert log_p(kernel, child, parent) == pytest.approx(gamma(5.0, 2.5, 1).logpdf(5.0))
    zero = np.array([0])
    assert Waiting.elapsed(np.array([child]), np.array([parent]), zero, zero)[0] == 5.0
    assert Waiting.elapsed(np.array([parent]), np.array([child]), zero, zero)[0] == 0.0
    unknown = np.full((1, 4), np.nan)
    assert Waiting.elapsed(unknown, np.array([child]), zero, zero)[0] == 0.0


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_table_is_convolved_and_made_to_sum_to_one(k):
    table = (1.0, 2.0, 0.0, 4.0, 3.0)
    kernel = started(Waiting(table=table))
    once = np.array(table) / 10
    right = once
    for _ in range(k - 1):
        right = np.convolve(right, once)
    found = densities(kernel, dates(np.arange(-3.0, 20.0)), dates([0]), k)[:, 0]
    np.testing.assert_allclose(found[3 : 3 + len(right)], right, atol=1e-15)
    assert found[:3].sum() == found[3 + len(right) :].sum() == 0.0
    # Half-widths of one day on each side: five days share the chance.
    wide = np.exp(log_p(kernel, cell(2.0, width=1.0), cell(0.0, width=1.0), k))
    assert wide == pytest.approx(right[:5].sum() / 5)


def possible(kernel, child, parent):
    zero = np.array([0])
    return bool(kernel.possible(np.array([child]), np.array([parent]), zero, zero)[0])


def test_which_orders_are_possible():
    late, early = cell(5.0), cell(2.0)
    for kernel in (Waiting(), Waiting(ties=False)):
        assert possible(kernel, late, early)
        assert not possible(kernel, early, late)
        assert possible(kernel, early, cell(3.0, width=1.0))  # the two may touch
        assert possible(kernel, early, cell(3.5, width=2.0))
        assert not possible(kernel, early, cell(3.5, width=1.0))
        assert not possible(kernel, late, cell(2.0, end=6.0))
        assert possible(kernel, late, cell(np.nan))
        assert possible(kernel, cell(np.nan), late)
    assert possible(Waiting(ties=True), early, early)
    assert not possible(Waiting(ties=False), early, early)
    assert possible(Waiting(strict=False), early, late)
    assert possible(Waiting(strict=False, ties=False), early, early)


@pytest.mark.parametrize("unit", [0.0, 1.0])
@pytest.mark.parametrize("width", [0.0, 1.5])
def test_what_is_impossible_has_no_probability_and_the_other_way_round(unit, width):
    """On whole days with ties; the density agrees with the order it stands for."""
    kernel = started(Waiting(unit=unit, ties=unit > 0))
    for t in np.arange(-5.0, 6.0):
        child, parent = cell(t, width=width), cell(0.0)
        allowed = possible(kernel, child, parent)
        has_mass = log_p(kernel, child, parent) > -np.inf
        assert has_mass <= allowed or unit > 0
        if unit > 0 and allowed:
            assert has_mass


@pytest.mark.parametrize(
    ("options", "fixed"),
    [
        ({}, ()),
        ({"mean": 4.0}, ("mean",)),
        ({"sd": 1.0}, ("sd",)),
        ({"mean": 4.0, "sd": 1.0}, (1,)),
    ],
)
def test_what_is_given_stays_and_the_rest_is_learned(options, fixed):
    """2000 waits of 4 ± 1 days: the standard errors of mean and sd are 0.02."""
    rng = np.random.default_rng(6)
    waits = rng.gamma(16.0, 0.25, size=2000)
    children, parents = dates(waits), dates(np.zeros(2000))
    kernel = Waiting(unit=0.0, **options).start(children)
    edges = np.arange(2000)
    pairs = kernel.pairs(children, parents, edges, edges)
    assert len(kernel.params) == 2 - len(options)
    kernel = climbed(kernel, pairs, np.ones((1, 2000)))
    mean = np.exp(kernel.log_mean)
    sd = mean / np.exp(kernel.log_shape / 2)
    assert mean == pytest.approx(4.0, abs=0.08)
    assert sd == pytest.approx(1.0, abs=0.08)
    if "mean" in fixed:
        assert mean == pytest.approx(4.0, rel=1e-12)
    if "sd" in fixed:
        assert sd == pytest.approx(1.0, rel=1e-12)
    if fixed == (1,):
        assert kernel.slopes(pairs, np.ones((1, 2000))).shape == (0,)


@pytest.mark.parametrize("bad", [{"mean": 0.0}, {"mean": -2.0}, {"sd": 0.0}, {"sd": np.nan}])
def test_impossible_means_are_refused(bad):
    with pytest.raises(ValueError, match=r"expects a positive.*Leave it out to learn it"):
        Waiting(**bad)


@pytest.mark.parametrize("bad", [(), (0.0, 0.0), (0.5, -0.1), (0.5, np.nan), ((0.5, 0.5),)])
def test_impossible_tables_are_refused(bad):
    with pytest.raises(ValueError, match=r"table of probabilities.*Correct it"):
        Waiting(table=bad)


# Laws --------------------------------------------------------------------------------------


def law_of(name, mean, sd, k):
    """Return SciPy's law with k times the mean and the variance, its parameters by formulas."""
    mean, sd = k * mean, np.sqrt(k) * sd
    if name == "gamma":
        return stats.gamma((mean / sd) ** 2, scale=sd**2 / mean)
    if name == "lognormal":
        spread = np.sqrt(np.log1p((sd / mean) ** 2))
        return stats.lognorm(spread, scale=mean * np.exp(-(spread**2) / 2))
    powers = np.linspace(0.3, 60, 200_001)
    ratio = np.exp(gammaln(1 + 2 / powers) - 2 * gammaln(1 + 1 / powers)) - 1  # falls
    power = np.interp(-((sd / mean) ** 2), -ratio, powers)
    return stats.weibull_min(power, scale=mean / np.exp(gammaln(1 + 1 / power)))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("mean", "sd"), [(5.0, 2.5), (0.7, 1.0), (12.0, 1.0)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_law_against_scipy(law, mean, sd, k):
    """Exact, rounded, open and uncertain dates; sums, means and variances."""
    right = law_of(law, mean, sd, k)
    tol = 1e-10 if law != "weibull" else 1e-6  # of the power, read off a table
    exact, days = (started(Waiting(unit=unit, law=law), mean, sd) for unit in (0.0, 1.0))
    assert exact.moments == pytest.approx((mean, sd), rel=1e-12)
    for t in (0.2, 1.0, 4.7, 14.0):
        found = log_p(exact, cell(t), cell(0), k)
        assert found == pytest.approx(right.logpdf(t), rel=tol, abs=tol)
        found = log_p(exact, cell(t, still_open=1), cell(0), k)
        assert np.exp(found) == pytest.approx(right.sf(t), rel=tol, abs=1e-9)
        chance = right.cdf(t + 0.5) - right.cdf(max(t - 0.5, 0))
        assert np.exp(log_p(days, cell(t), cell(0), k)) == pytest.approx(chance, abs=1e-7)
        half = 0.5 + 1.5 + 0.25  # of the unit, and of both dates
        chance = (right.cdf(t + half) - right.cdf(max(t - half, 0))) / (2 * half)
        found = log_p(days, cell(t, width=1.5), cell(0, width=0.25), k)
        assert np.exp(found) == pytest.approx(chance, abs=1e-7)
    assert log_p(exact, cell(0), cell(0), k) == log_p(exact, cell(-1), cell(0), k) == -np.inf
    chances = densities(days, dates(np.arange(2000.0)), dates([0]), k)[:, 0]
    assert chances.sum() == pytest.approx(1.0, abs=1e-6)
    if sd < mean:  # moments by quadrature of the kernel's own density
        fine = np.linspace(0, k * mean + 40 * np.sqrt(k) * sd, 200_001)[1:]
        pairs = exact.pairs(dates(fine), dates([0]), np.arange(len(fine)), 0 * np.arange(len(fine)))
        density = np.exp(exact.log_steps(pairs, k)) * (fine[1] - fine[0])
        assert density @ fine == pytest.approx(k * mean, rel=1e-4)
        assert density @ (fine - k * mean) ** 2 == pytest.approx(k * sd**2, rel=2e-3)


@pytest.mark.parametrize("law", ["lognormal", "weibull"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("sd", [0.2, 1.0, 2.0])
@pytest.mark.parametrize("unit", [0.0, 1.0])
def test_other_laws_a_thousand_means_away(law, k, sd, unit):
    """Finite and ever less likely, closed and open."""
    kernel = started(Waiting(unit=unit, law=law), 1.0, sd)
    days = np.arange(5.0, 1001.0)
    for still_open in (0.0, 1.0):
        cells = dates(days)
        cells[:, 3] = still_open
        found = kernel.log_steps(
            kernel.pairs(cells, dates([0]), np.arange(len(days)), 0 * np.arange(len(days))), k
        )
        assert np.isfinite(found).all()
        assert (np.diff(found) < 0).all()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("sd", [0.02, 0.1, 30.0])
def test_narrow_and_wide_laws(law, sd):
    """Deviations of a five-hundredth of the mean, and of three means: no nan, no failure."""
    kernel = started(Waiting(unit=1.0, law=law), 10.0, sd)
    for k in (1, 3):
        chances = densities(kernel, dates(np.arange(20_000.0)), dates([0]), k)[:, 0]
        assert not np.isnan(chances).any()
        assert chances.sum() == pytest.approx(1.0, abs=1e-4)
        early = [log_p(kernel, cell(t), cell(0), k) for t in (1.0, 2.0, 5.0)]
        assert np.isfinite(early).all()
        if sd < 10:  # a child that comes far too early is the likelier, the later it is
            assert (np.diff(early) > 0).all()
    assert np.isfinite(kernel.longest(3, 30.0))


@pytest.mark.parametrize("law", LAWS)
def test_a_waiting_time_that_is_tried_stays_as_it_is(law):
    kernel = started(Waiting(law=law, mean=9.0))
    tried = kernel.at(4.0, 1.5)
    assert tried.moments == pytest.approx((4.0, 1.5), rel=1e-12)
    assert tried.params.shape == (0,)
    assert tried.with_params(tried.params).moments == tried.moments
    pairs = tried.pairs(dates([3.0]), dates([0.0]), np.array([0]), np.array([0]))
    assert tried.slopes(pairs, np.ones((1, 1))).shape == (0,)
    assert tried.prior_slopes().shape == (0,)
    right = law_of(law, 4.0, 1.5, 1)
    chance = right.cdf(3.5) - right.cdf(2.5)
    assert np.exp(tried.log_steps(pairs, 1)[0]) == pytest.approx(chance, abs=1e-7)


def test_a_table_has_moments_too():
    mean, sd = Waiting(table=(0.0, 1.0, 2.0, 1.0)).moments
    assert mean == pytest.approx(2.0)
    assert sd == pytest.approx(np.sqrt(0.5))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("options", [{}, {"mean": 4.0}, {"sd": 1.0}])
def test_slopes_with_a_given_mean_or_deviation_are_differences(law, options):
    rng = np.random.default_rng(2)
    column = dates(np.sort(rng.integers(0, 25, size=12)))
    column[3, 2], column[5, 3], column[7] = 1.5, 1.0, np.nan  # uncertain, open, unknown
    kernel = Waiting(law=law, **options).start(column)
    child, parent = np.nonzero(np.tril(np.ones((12, 12)), -1))
    pairs = kernel.pairs(column, column, child, parent)
    weights = rng.normal(size=(3, len(child)))
    for k in range(3):
        weights[k, np.isneginf(kernel.log_steps(pairs, k + 1))] = 0.0

    def value(params):
        return weighted_sum(kernel.with_params(params), pairs, weights)

    assert_slopes_agree(kernel.slopes(pairs, weights), value, kernel.params, tol=1e-6)
    assert_slopes_agree(
        kernel.prior_slopes(), lambda p: kernel.with_params(p).log_prior(), kernel.params
    )
    if "sd" in options:  # stays while the mean moves
        moved = kernel.with_params(kernel.params + 0.7)
        assert moved.moments[1] == pytest.approx(1.0, rel=1e-12)
        assert moved.moments[0] == pytest.approx(kernel.moments[0] * np.exp(0.7), rel=1e-12)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("sd", [1.5, 4.0, 9.0])
@pytest.mark.parametrize("K", [1, 3])
def test_the_longest_plausible_wait(law, sd, K):
    """Beyond it every number of links is more than `nats` below its likeliest; not far before."""
    kernel = started(Waiting(unit=0.0, law=law), 5.0, sd)
    for nats in (5.0, 30.0):
        longest = kernel.longest(K, nats)
        depth = []
        for k in range(1, K + 1):
            mean = k * 5.0
            peak = max(log_p(kernel, cell(t), cell(0), k) for t in np.linspace(mean, 2 * mean, 50))
            depth.append([peak - log_p(kernel, cell(f * longest), cell(0), k) for f in (0.9, 1.1)])
        before, after = np.array(depth).T
        assert (after > nats - 0.5).all()
        assert before.min() < nats
    assert kernel.longest(K, 30.0) > kernel.longest(K, 5.0)


def test_the_longest_wait_of_a_table_is_its_end():
    assert Waiting(table=(0.0, 1.0, 2.0, 1.0)).longest(3, 30.0) == 9.0


def test_unknown_laws_are_refused():
    with pytest.raises(ValueError, match=r"law must be one of 'gamma', .*got 'normal'.*Choose one"):
        Waiting(law="normal")


@pytest.mark.parametrize("unit", [1.0, 0.0])
def test_quick_waits_are_those_of_pairs_of_dates(unit):
    """At every half unit, or at 2,000 times where dates are not rounded."""
    dates = np.array([0.0, 3.0, 9.0]) + (0.0 if unit else 0.25)
    values = np.column_stack([dates, dates, np.zeros(3), np.zeros(3)])
    kernel = replace(Waiting(mean=4.0, sd=2.0).start(values), unit=unit)
    gaps = kernel.quick(values, 1, 0.0)
    longest = kernel.longest(1, 30.0)
    assert gaps.step == (0.5 if unit else pytest.approx(longest / 2000))
    assert gaps.closed.shape[1] == int(np.ceil(longest / gaps.step)) + 1
    child, parent = np.array([1, 2, 2]), np.array([0, 1, 0])
    found = kernel.log_steps(kernel.pairs(values, values, child, parent), 1, None)
    waits = dates[child] - dates[parent]
    times = gaps.step * np.arange(gaps.closed.shape[1])
    np.testing.assert_allclose(np.interp(waits, times, gaps.closed[0]), found, atol=1e-4)


def test_the_description_names_mean_and_standard_deviation():
    assert "5 ± 2.5 units of time" in started(Waiting()).describe()


def test_the_guessed_wait_is_that_of_outbreaks_which_branch():
    """Each case infects 1.6 others; the first 80 take log2 80 generations, since few die out."""
    rng = np.random.default_rng(0)
    ratios = []
    while len(ratios) < 40:
        times, u = [0.0], 0
        while u < len(times) and len(times) < 2000:
            times += list(times[u] + rng.gamma(9.0, 1.0, rng.poisson(1.6 * rng.gamma(1.0))))
            u += 1
        if len(times) >= 80:
            ratios.append(guessed_wait(float(np.sort(times)[79]), 80) / 9.0)
    assert 0.8 < np.median(ratios) < 1.25

"""Dates: waiting times by quadrature, far tails, open cells, half-widths, and possible orders."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from outtrees.models.columns import Waiting

from .conftest import dates, densities


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
    for _ in range(8):
        kernel = kernel.refit(pairs, np.ones((1, 2000)))
    mean = np.exp(kernel.log_mean)
    sd = mean / np.exp(kernel.log_shape / 2)
    assert mean == pytest.approx(4.0, abs=0.08)
    assert sd == pytest.approx(1.0, abs=0.08)
    if "mean" in fixed:
        assert mean == pytest.approx(4.0, rel=1e-12)
    if "sd" in fixed:
        assert sd == pytest.approx(1.0, rel=1e-12)
    if fixed == (1,):
        assert kernel.refit(pairs, np.ones((1, 2000))) is kernel


@pytest.mark.parametrize("bad", [{"mean": 0.0}, {"mean": -2.0}, {"sd": 0.0}, {"sd": np.nan}])
def test_impossible_means_are_refused(bad):
    with pytest.raises(ValueError, match=r"expects a positive.*leave it out to learn it"):
        Waiting(**bad)


@pytest.mark.parametrize("bad", [(), (0.0, 0.0), (0.5, -0.1), (0.5, np.nan), ((0.5, 0.5),)])
def test_impossible_tables_are_refused(bad):
    with pytest.raises(ValueError, match=r"table of probabilities.*correct it"):
        Waiting(table=bad)

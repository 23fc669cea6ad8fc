"""Waiting: dates, a child being later than its parent by a waiting time."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, log_ndtr

from outtrees._common.text import short_number
from outtrees._common.types import Array
from outtrees.models.column import CellKernel, Index, Learned, Quantity
from outtrees.models.columns.gamma_tails import log_tails
from outtrees.models.priors import Normal
from outtrees.models.quick import Gaps

# Columns of a cell: date, date from which children wait, ± half-width, 1 where still open.
_START, _END, _WIDTH, _OPEN = range(4)


@dataclass(frozen=True, eq=False)
class Waiting(CellKernel):
    """Waiting times: how long after its parent's date a child's comes, k links apart.

    The law is a gamma, lognormal or Weibull with a mean and a standard deviation, or a table. k
    links have k times the mean and the variance of one: a gamma stays a gamma; the other two are
    matched by these moments.

    **Dates are conditioned on.** A fit divides by the sum over all trees of these weights alone, so
    that the dates' own density says nothing about the law; see `outtrees.ancestry`.

    A cell is (date, end, half-width, open). A child waits from its parent's `end`, which is the
    date itself unless the table says until when a record lasted (cells until they divide, drafts
    until they are replaced). Dates are known to within ± half-width. An open cell is one whose own
    date lies after the last look, such as a cell that had not divided when the film ended: it
    contributes P(waiting > t − h), that of all dates from t on, not the density at t.

    Parameters
    ----------
    mean, sd : float, optional
        Of the waiting time; learned where not given.
    law : {"gamma", "lognormal", "weibull"}
    table : sequence of float, optional
        A table of waiting times instead: table[i] is the probability of waiting i whole days (or
        whatever dates are counted in); made to sum to one.
    strict : bool
        Whether a parent must be earlier. If not, the background component of `Lineage` admits any
        order, and the gamma is what is likely.
    unit : float
        The resolution of the dates: 1 for whole days, 0 for exact times. A difference t of rounded
        dates has probability P(t − h < waiting < t + h), h = unit/2 + both half-widths.
    ties : bool
        Whether a child may have its parent's date. Rounded dates make this possible, and with it
        cycles, which the sum over trees handles.

    Examples
    --------
    >>> kernel = Waiting(mean=3.0, sd=1.0).start(np.array([[0.0, 0, 0, 0], [9.0, 9, 0, 0]]))
    >>> days, edges = np.array([[float(t), t, 0, 0] for t in range(30)]), np.arange(30)
    >>> pairs = kernel.pairs(days, days[:1], edges, 0 * edges)
    >>> round(float(np.exp(kernel.log_steps(pairs, 1)).sum()), 6)
    1.0
    """

    contrasted = False

    mean: float | None = None
    sd: float | None = None
    table: Any = None
    strict: bool = True
    unit: float = 1.0
    ties: bool = True
    law: str = "gamma"
    _: KW_ONLY
    log_mean: float = 0.0
    log_shape: float = 0.0  # of mean² / variance, which is a gamma's shape
    guess: tuple[float, float] = (0.0, 0.0)  # centre of the prior: log_mean, log_shape
    guess_spread: tuple[float, float] = (2.0, 0.5)  # its standard deviations
    window: float = 1.0
    fixed: bool = False  # whether the present waiting time is tried as it is

    def __post_init__(self) -> None:
        if self.law not in LAWS:
            raise ValueError(
                f"law must be one of {', '.join(map(repr, LAWS))}; got {self.law!r}. Choose one."
            )
        for name, value in (("mean", self.mean), ("sd", self.sd)):
            if value is not None and not 0 < value < np.inf:
                raise ValueError(
                    f"Waiting expects a positive {name}; got {value}. Leave it out to learn it."
                )
        if self.table is None:
            return
        table = np.asarray(self.table, dtype=np.float64)
        if table.ndim != 1 or not (np.isfinite(table) & (table >= 0)).all() or table.sum() == 0:
            raise ValueError(
                "Waiting expects a table of probabilities of waiting 0, 1, 2, … days, none "
                f"negative and not all 0; got {self.table}. Correct it."
            )

    def start(self, values: Array) -> Self:
        """Return the kernel whose mean is a typical gap between records that follow each other."""
        known = values[~np.isnan(values).any(axis=1)]
        dates = known[:, _START]
        window = float(np.ptp(dates)) if len(dates) else 0.0
        window += self.unit if self.unit > 0 or window > 0 else 1.0
        # Growth doubles the records with each generation, so a window holds about log2 T of them.
        mean = window / max(2.0, np.log2(max(len(dates), 2)))
        log_mean = float(np.log(mean if self.mean is None else self.mean))
        log_shape = float(np.log(2.0))
        if self.sd is not None:
            log_shape = 2 * (log_mean - float(np.log(self.sd)))
        return replace(
            self,
            log_mean=log_mean,
            log_shape=log_shape,
            guess=(log_mean, log_shape),
            window=window,
        )

    # Probabilities -------------------------------------------------------------------------

    def _joined(self, x: Array, y: Array) -> Array:
        """Return the rows (difference, half-width, open)."""
        half = self.unit / 2 + x[:, _WIDTH] + y[:, _WIDTH]
        return np.column_stack([x[:, _START] - y[:, _END], half, x[:, _OPEN]])

    @staticmethod
    def elapsed(children: Array, parents: Array, child: Index, parent: Index) -> Array:
        """Return how long after its parent's end each child came (E,), 0 if unknown or before."""
        return np.maximum(np.nan_to_num(children[child, _START] - parents[parent, _END]), 0.0)

    def possible(
        self, children: Array, parents: Array, child: Index, parent: Index
    ) -> NDArray[np.bool_]:
        """Return which edges the order of the dates allows (E,)."""
        if not self.strict:
            return np.ones(len(child), dtype=bool)
        x, y = children[child], parents[parent]
        slack = x[:, _WIDTH] + y[:, _WIDTH]
        latest = x[:, _START] - np.maximum(y[:, _START], y[:, _END]) + slack
        # Comparisons with NaN are false: an unknown date allows everything.
        return ~((latest < 0) | ((latest == 0) & (slack == 0) & (not self.ties)))

    def _log_pairs(self, cells: Array, k: int, elapsed: Array | None) -> Array:
        return self._log_waits(cells, k)

    def _log_waits(self, cells: Array, k: int) -> Array:
        """Return the log-probability of each row (difference, half-width, open)."""
        t, half, still_open = cells.T
        if self.table is not None:
            return self._log_table(t, half, still_open, k)
        law = _law(self.law, k * np.exp(self.log_mean), k * np.exp(self.log_shape))
        low, high = np.maximum(t - half, 0), np.maximum(t + half, 0)
        log_below, log_above = law.log_tails(low)
        log_below_high, log_above_high = law.log_tails(high)
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = np.where(t > 0, law.log_density(np.where(t > 0, t, 1.0)), -np.inf)
            # Above the mean the difference of upper tails keeps its digits, below that of lower.
            log_chance = np.where(
                low > k * np.exp(self.log_mean),
                log_above + np.log(-np.expm1(log_above_high - log_above)),
                log_below_high + np.log(-np.expm1(log_below - log_below_high)),
            )
            wide = log_chance - np.log(2 * half) + np.log(self.unit or 1.0)
        closed = np.where(half > 0, np.where(high > 0, wide, -np.inf), exact)
        return np.where(still_open > 0, log_above, closed)

    def _log_table(self, t: Array, half: Array, still_open: Array, k: int) -> Array:
        once = self._chances
        chances = once
        for _ in range(k - 1):
            chances = np.convolve(chances, once)
        # From the top for what is still open: the last entries keep their digits.
        below = np.concatenate([[0.0], np.cumsum(chances)])
        above = np.concatenate([np.cumsum(chances[::-1])[::-1], [0.0]])
        reach = np.maximum(half - self.unit / 2, 0)
        first = np.clip(np.ceil(t - reach - 1e-9).astype(np.int64), 0, len(chances))
        last = np.clip(np.floor(t + reach + 1e-9).astype(np.int64) + 1, 0, len(chances))
        inside = np.maximum(below[last] - below[first], 0) / (2 * reach + 1)
        with np.errstate(divide="ignore"):
            return np.log(np.where(still_open > 0, above[first], inside))

    @property
    def _chances(self) -> Array:
        table = np.asarray(self.table, dtype=np.float64)
        return table / table.sum()

    def _log_cell(self, x: Array) -> Array:
        return np.full(len(x), np.log(self.unit or 1.0) - np.log(self.window))

    # Learning ------------------------------------------------------------------------------

    @property
    def is_given(self) -> bool:
        """Whether the waiting time is known, so that no others are tried."""
        return self.table is not None or (self.mean is not None and self.sd is not None)

    @property
    def ahead(self) -> float:
        """How long before its parent's end a child may come."""
        return 0.0

    @property
    def _free(self) -> tuple[bool, bool]:
        if self.table is not None or self.fixed:
            return False, False
        return self.mean is None, self.sd is None

    def learned(self) -> list[Learned]:
        """Return the logarithms of the mean and of mean² / variance, as far as they are learned.

        The mean may be a factor of 7 from its start within one standard deviation, the shape a
        factor of 1.6 from 2: a gamma that would shrink onto one day of the calendar is held back.
        """
        return [one for one, free in zip(self._both, self._free, strict=True) if free]

    @property
    def _both(self) -> list[Learned]:
        guesses = zip(("log_mean", "log_shape"), self.guess, self.guess_spread, strict=True)
        return [Learned(name, Normal(centre, spread)) for name, centre, spread in guesses]

    def with_params(self, params: Array) -> Self:
        """Return the kernel with its free parameters replaced."""
        moved = super().with_params(params)
        if self.sd is None or moved is self:
            return moved
        # A given standard deviation stays while the mean moves.
        return replace(moved, log_shape=2 * (moved.log_mean - float(np.log(self.sd))))

    @property
    def moments(self) -> tuple[float, float]:
        """The mean and standard deviation of one wait."""
        if self.table is not None:
            days = np.arange(len(self._chances))
            mean = float(days @ self._chances)
            return mean, float(np.sqrt((days - mean) ** 2 @ self._chances))
        mean = float(np.exp(self.log_mean))
        return mean, mean * float(np.exp(-self.log_shape / 2))

    def at(self, mean: float, sd: float) -> Self:
        """Return the kernel with this waiting time, one of several that are tried."""
        log_mean = float(np.log(mean))
        log_shape = 2 * (log_mean - float(np.log(sd)))
        return replace(self, log_mean=log_mean, log_shape=log_shape, fixed=True)

    def near(self, spread: float) -> Self:
        """Return the kernel that learns its waiting time near the present one.

        `spread` is the standard deviation of the log of the mean beforehand.
        """
        here = (self.log_mean, self.log_shape)
        return replace(self, fixed=False, guess=here, guess_spread=(spread, self.guess_spread[1]))

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return children dated after their parents' end."""
        if self.table is not None:
            once = self._chances
            waits = rng.choice(len(once), size=(len(parents), k), p=once).sum(axis=1)
        else:
            law = _law(self.law, k * np.exp(self.log_mean), k * np.exp(self.log_shape))
            waits = law.sample(len(parents), rng)
        date = parents[:, _END] + waits
        if self.unit > 0:
            date = np.round(date / self.unit) * self.unit
        return np.column_stack([date, date, np.zeros((len(date), 2))])

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return dates 0, from which the dates of a sampled tree are counted."""
        return np.zeros((n, 4))

    def longest(self, generations: int, nats: float) -> float:
        """Return the longest time from parent to child less than `nats` below the likeliest."""
        if self.table is not None:
            return float(generations * (len(self._chances) - 1))
        mean, shape = generations * np.exp(self.log_mean), generations * np.exp(self.log_shape)
        spread = mean * (1 + 2 * nats / min(shape, 1.0))
        times = np.concatenate([np.linspace(0, spread, 4001)[1:], mean * np.geomspace(3, 1e4, 400)])
        times.sort()
        longest = 0.0
        for k in range(1, generations + 1):
            law = _law(self.law, k * np.exp(self.log_mean), k * np.exp(self.log_shape))
            log_p = law.log_density(times)
            # Shapes below 1 have no peak; their density at the mean stands for it.
            top = log_p[times >= k * np.exp(self.log_mean)].max()
            longest = max(longest, float(times[log_p >= top - nats].max()))
        return longest

    def quick(self, values: Array, generations: int, elapsed: float) -> Gaps:
        """Return the log-probabilities of waiting 0, ½, 1, … units, as far as is plausible.

        Dates that are not rounded: at 2,000 times up to the longest plausible one.
        """
        longest = max(self.longest(generations, 30.0), self.unit)
        step = self.unit / 2 if self.unit > 0 else longest / 2000
        # A generation-time table ends: one more entry says that longer waits are impossible.
        n_times = int(np.ceil(longest / step)) + (1 if self.table is None else 2)
        times = step * np.arange(n_times)
        cells = np.column_stack([times, np.full(len(times), self.unit / 2), 0 * times])
        if self.unit == 0:
            cells[0, 0] = 1e-3 * step  # children at time 0 itself are impossible
        still = np.column_stack([cells[:, :2], np.ones(len(times))])
        links = range(1, generations + 1)
        start, end, width = values.T[:3]
        return Gaps(
            start,
            end,
            width,
            values[:, _OPEN] > 0,
            np.array([self._log_waits(cells, k) for k in links]),
            np.array([self._log_waits(still, k) for k in links]),
            step,
            self.unit,
        )

    def log_prior(self) -> float:
        """Return the log prior density; of a waiting time that is tried, how likely it is."""
        if not self.fixed or self.table is not None:
            return super().log_prior()
        return float(sum(one.prior.log_density(getattr(self, one.field)) for one in self._both))

    def prior_slopes(self) -> Array:
        """Return ∂/∂params of `log_prior`."""
        pairs = zip(self.priors(), self.params, strict=True)
        return np.array([prior.slope(x) for prior, x in pairs])

    def quantities(self) -> list[Quantity]:
        """Return the mean and standard deviation, as far as they are learned."""
        if not any(self._free):
            return []
        return [Quantity(n, x, "time") for n, x in zip(("mean", "sd"), self.moments, strict=True)]

    def describe(self) -> str:
        """Return the waiting time's mean and standard deviation."""
        if self.table is not None:
            mean = float(np.arange(len(self._chances)) @ self._chances)
            wait = short_number(mean)
            return f"a child comes {wait} units of time after its parent on average (as given)"
        mean = np.exp(self.log_mean)
        sd = mean / np.exp(self.log_shape / 2)
        wait = f"{short_number(mean)} ± {short_number(sd, 2)}"
        return f"a child comes {wait} units of time after its parent"


class _Gamma(NamedTuple):
    """A gamma law by its mean and mean² / variance."""

    mean: float
    shape: float

    def log_tails(self, x: Array) -> tuple[Array, Array]:
        """Return log P(X < x) and log P(X > x)."""
        return log_tails(self.shape, x * (self.shape / self.mean))

    def log_density(self, x: Array) -> Array:
        scale = self.mean / self.shape
        log_p = (self.shape - 1) * np.log(x / scale) - x / scale - gammaln(self.shape)
        return np.asarray(log_p - np.log(scale))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return rng.gamma(self.shape, self.mean / self.shape, size=n)


class _Lognormal(NamedTuple):
    """A lognormal law by its mean and mean² / variance."""

    mean: float
    shape: float

    @property
    def _normal(self) -> tuple[float, float]:
        variance = float(np.log1p(1 / self.shape))
        return float(np.log(self.mean)) - variance / 2, float(np.sqrt(variance))

    def log_tails(self, x: Array) -> tuple[Array, Array]:
        """Return log P(X < x) and log P(X > x)."""
        centre, spread = self._normal
        with np.errstate(divide="ignore"):
            z = (np.log(x) - centre) / spread
        return log_ndtr(z), log_ndtr(-z)

    def log_density(self, x: Array) -> Array:
        centre, spread = self._normal
        z = (np.log(x) - centre) / spread
        return np.asarray(-0.5 * z**2 - np.log(x * spread * np.sqrt(2 * np.pi)))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return rng.lognormal(*self._normal, size=n)


_LARGEST_LOG = 700.0  # of a cumulative hazard that a double holds; none is survived


class _Weibull(NamedTuple):
    """A Weibull law by its mean and mean² / variance."""

    mean: float
    shape: float

    @property
    def _power_and_scale(self) -> tuple[float, float]:
        power = _weibull_power(float(self.shape))
        return power, float(self.mean / np.exp(gammaln(1 + 1 / power)))

    def log_tails(self, x: Array) -> tuple[Array, Array]:
        """Return log P(X < x) and log P(X > x)."""
        power, scale = self._power_and_scale
        with np.errstate(divide="ignore"):
            log_hazard = np.minimum(power * np.log(x / scale), _LARGEST_LOG)
            log_above = -np.exp(log_hazard)
            # Of a small hazard nothing but the hazard itself is left.
            log_below = np.where(log_hazard < -36, log_hazard, np.log(-np.expm1(log_above)))
        return log_below, log_above

    def log_density(self, x: Array) -> Array:
        power, scale = self._power_and_scale
        log_ratio = np.log(x / scale)
        hazard = np.exp(np.minimum(power * log_ratio, _LARGEST_LOG))
        return np.asarray(np.log(power / scale) + (power - 1) * log_ratio - hazard)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        power, scale = self._power_and_scale
        return scale * rng.weibull(power, size=n)


@lru_cache(maxsize=64)
def _weibull_power(shape: float) -> float:
    """Return the power of the Weibull law whose mean² / variance is `shape`."""

    def excess(log_power: float) -> float:
        power = np.exp(log_power)
        return float(gammaln(1 + 2 / power) - 2 * gammaln(1 + 1 / power) - np.log1p(1 / shape))

    return float(np.exp(brentq(excess, np.log(0.1), np.log(1e5))))


def guessed_wait(span: float, n: int) -> float:
    """Return the waiting time with which n records fill a span of time from one record on.

    That takes log2 n generations where each is twice as large as the one before.

    Examples
    --------
    >>> guessed_wait(60.0, 64)
    10.0
    """
    return span / float(np.log2(max(n, 2)))


_LAWS = {"gamma": _Gamma, "lognormal": _Lognormal, "weibull": _Weibull}
LAWS = tuple(_LAWS)


def _law(name: str, mean: float, shape: float) -> Any:
    return _LAWS[name](float(mean), float(shape))

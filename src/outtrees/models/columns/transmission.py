"""Transmission: sampling dates and sequences of infected people, some of them never sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincinv

from outtrees._common.types import Array
from outtrees.models.column import ColumnKernel, Index, Quantity, logit, share_of
from outtrees.models.columns.similar import MISSING
from outtrees.models.columns.unknown_sites import UnknownSites, filled
from outtrees.models.columns.waiting import Waiting, guessed_wait
from outtrees.models.priors import Normal, Prior

# What is learned, unless it is given, in coordinates without constraints.
NAMES = (
    *("log_generation", "log_generation_shape", "log_delay", "log_delay_shape"),
    *("logit_sampled", "log_rate", "log_age"),
)
_LAWS = 5  # the first of these enter the laws of dates
_SHAPE = float(np.log(5.0))  # of mean² / variance, beforehand: a spread of 0.45 means
# One standard deviation of each parameter beforehand: see `Transmission.log_prior`.
_SPREADS = np.array([0.7, 0.5, 0.7, 0.5, 1.0, 2.0, 0.7])
_TAIL = 1e-7  # of a law, beyond which times are not looked at
_CELLS = 1500  # of a law, at most
_STEP = 1e-4  # of the slopes of laws, by central differences
_LINKS = 5  # between sampled people, at least, if some are not sampled
_MOST_LINKS = 20
_ABOVE = 4  # generations of unsampled people above a record beside which another may descend
# How often a sequence counts. Edges are weighed by themselves: a letter that several children of
# one person lack is charged to each, and every edge has its own infection dates. The same evidence
# is thus counted more than once; with 1, supports promised a seventh more than came true in
# simulated outbreaks of which a quarter to all cases were sampled.
_COUNTED = 2 / 3
_DATES = 4  # columns of a sequence's cells that are its record's date, as `Waiting` has them


class Edges(NamedTuple):
    """What the parameters do not change, for E edges."""

    delta: Array  # from the parent's sampling to the child's
    slack: Array  # half-widths of both dates
    parent_date: Array
    shared: Array  # sites at which both differ from the origin's letter, alike
    lacking: Array  # sites at which only the parent does, or otherwise than the child
    gained: Array  # sites at which the child does, and otherwise than the parent
    read: Array  # sites read in the child
    log_unread: Array  # log p of the sites that were read in the child only
    beside: Array  # how far a common infector counts: 0 not at all, 1 half, 2 in full


class Laws(NamedTuple):
    """The laws of times on a grid."""

    log_leaving: Array  # (3, n), from the parent's sampling until the strain left its line
    first: int  # the first of these is first · step
    log_left: Array  # (m,), log-density of the time from then to the child's sampling
    step: float


class Clock(NamedTuple):
    """How sequences change with time."""

    rate: float  # substitutions a site and unit of time
    letters: int
    origin: float  # the date of the sequence from which all stem
    with_sites: bool


class Totals(NamedTuple):
    """Sums from which slopes are made: of the dates alone, and of dates and sequences."""

    leaving: Array  # (2, 3, n)
    left: Array  # (2, m)
    rate: Array  # (1,)
    age: Array  # (1,)


@dataclass(frozen=True, eq=False)
class Transmission(Waiting):
    """Sampling dates along chains of infection in which some people are not sampled.

    v is infected at b and sampled at s_v = b + delay; its strain leaves it at b + g₁; k − 1 people
    follow whom nobody sampled, and u, the next one sampled, is sampled at s_u:

        s_u − s_v = τ + g₂ + … + g_k + delay of u,    τ = g₁ − delay of v.

    Generation times g and delays are gamma distributed. The weight of k links is proportional to
    (R (1 − p))^(k − 1), p being the share of cases sampled and R the growth from one generation to
    the next, which follows from the generation time and the growth of the number of samples over
    time. A child may be sampled before its parent. With a column of sequences the date at which the
    strain left its host is shared with it: `TransmittedSequence`.

    Two people may also descend from one whom nobody sampled: u, sampled later, then descends from
    *beside* v, j generations above it, and τ = g₁ − (g'₁ + … + g'_j) − delay of v. That counts
    (1 − p)^j times as much as descent from v, the chance that those j people were not sampled. An
    edge v → u stands for both; `direct_shares` tells them apart.

    Each edge has its own infection dates; that all edges of a person share them is neglected.

    Parameters
    ----------
    generation_mean, generation_sd : float, optional
        Of the time from infection to infection; learned where not given, as all others.
    delay_mean, delay_sd : float, optional
        Of the time from infection to sampling.
    substitution_rate : float, optional
        Substitutions a site and unit of time.
    sampled : float, optional
        The share of cases that were sampled, above 0 and at most 1.
    links : int, optional
        The largest number of links; by default as many as the dates may need.

    Examples
    --------
    >>> kernel = Transmission(generation_mean=5.0, generation_sd=2.0, delay_mean=4.0, delay_sd=2.0,
    ...                       sampled=1.0)
    >>> days = np.array([[float(t), t, 0, 0] for t in range(60)])
    >>> kernel = kernel.start(days)
    >>> edges = np.arange(60)
    >>> pairs = kernel.pairs(days, days[20:21], edges, 0 * edges)
    >>> chances = np.exp(kernel.log_steps(pairs, 1))
    >>> round(float(chances.sum()), 3), round(float(chances @ (edges - 20)), 2)
    (1.0, 5.0)
    """

    generation_mean: float | None = None
    generation_sd: float | None = None
    delay_mean: float | None = None
    delay_sd: float | None = None
    substitution_rate: float | None = None
    sampled: float | None = None
    links: int | None = None
    _: KW_ONLY
    introduction_distance: float | None = None
    theta: Any = field(default=None, repr=False)  # (7,), see NAMES
    centre: Any = field(default=None, repr=False)  # (7,), of the prior
    growth: float = 0.0  # of the number of samples, per unit of time
    first_date: float = 0.0
    last_date: float = 0.0
    step: float = 0.5  # of the grid of times
    n_links: int = 1
    with_sites: bool = False  # whether a column of sequences shares the parameters

    def __post_init__(self) -> None:
        super().__post_init__()
        given = {
            name: getattr(self, name)
            for name in (
                *("generation_mean", "generation_sd", "delay_mean", "delay_sd"),
                *("substitution_rate", "sampled", "introduction_distance"),
            )
        }
        for name, value in given.items():
            if value is not None and not 0 < value < np.inf:
                raise ValueError(f"{name} must be positive; got {value}. Leave it out to learn it.")
        if self.sampled is not None and self.sampled > 1:
            raise ValueError(
                f"sampled must be a share of at most 1; got {self.sampled}. Give 0.3 for 30%."
            )

    # Start ---------------------------------------------------------------------------------

    def start(self, values: Array) -> Self:
        """Return the kernel with guesses from the growth of the number of samples."""
        dates = values[~np.isnan(values).any(axis=1), 0]
        first, last = (dates.min(), dates.max()) if len(dates) else (0.0, 1.0)
        span = float(last - first) + (self.unit or 1e-9)
        generation = self.generation_mean or self.delay_mean or guessed_wait(span, len(dates))
        delay = self.delay_mean or generation
        shape, delay_shape = _SHAPE, _SHAPE
        if self.generation_sd is not None:
            shape = 2 * float(np.log(generation / self.generation_sd))
        if self.delay_sd is not None:
            delay_shape = 2 * float(np.log(delay / self.delay_sd))
        spread = min(generation * np.exp(-shape / 2), delay * np.exp(-delay_shape / 2))
        finest = (generation + delay) / 400  # laws of more cells would be cut short
        step = max(spread / 4, finest)
        if finest > self.unit > 0:  # slow diseases: dates are rounded to several units
            step = self.unit * np.ceil(finest / self.unit)
        elif self.unit > 0:  # whole steps make a unit
            step = self.unit / max(1.0, np.ceil(self.unit / step))
        sampled = 0.5 if self.sampled is None else min(self.sampled, 1 - 1e-9)
        centre = np.array(
            [
                *(np.log(generation), shape, np.log(delay), delay_shape, logit(sampled)),
                *(np.log(self.substitution_rate or 1e-4), np.log(generation + delay)),
            ]
        )
        needed = int(np.clip(np.ceil(span / generation), _LINKS, _MOST_LINKS))
        return replace(
            self,
            theta=centre,
            centre=centre,
            growth=_growth(dates, float(first), span),
            first_date=float(first),
            last_date=float(last),
            window=span,
            step=float(step),
            n_links=1 if self.sampled == 1 else self.links or needed,
        )

    def with_sequences(self, rate: float) -> Self:
        """Return the kernel whose parameters a column of sequences shares, with a first rate."""
        log_rate = float(np.log(self.substitution_rate or rate))
        theta, centre = self.theta.copy(), self.centre.copy()
        theta[5] = centre[5] = log_rate
        return replace(self, theta=theta, centre=centre, with_sites=True)

    # Parameters ----------------------------------------------------------------------------

    @property
    def _free(self) -> NDArray[np.bool_]:  # type: ignore[override]  # of other parameters
        given = (
            *(self.generation_mean, self.generation_sd, self.delay_mean, self.delay_sd),
            *(self.sampled, self.substitution_rate, None),
        )
        free = np.array([value is None for value in given])
        if self.n_links == 1:
            free[4] = False
        if not self.with_sites:
            free[:] = False  # dates are conditioned on: alone they teach nothing
        return free

    @property
    def is_given(self) -> bool:
        """Whether no other waiting times are to be tried: what is not given is learned."""
        return True

    @property
    def params(self) -> Array:
        """What is learned; see NAMES."""
        return np.asarray(self.theta)[self._free]

    def with_params(self, params: Array) -> Self:
        """Return the kernel with its free parameters replaced, none further off than a guess goes.

        A standard deviation that is given stays while its mean moves.
        """
        theta = np.array(self.theta, dtype=np.float64)
        theta[self._free] = params
        theta = np.clip(theta, self.centre - 6 * _SPREADS, self.centre + 6 * _SPREADS)
        if self.generation_sd is not None:
            theta[1] = 2 * (theta[0] - np.log(self.generation_sd))
        if self.delay_sd is not None:
            theta[3] = 2 * (theta[2] - np.log(self.delay_sd))
        return replace(self, theta=theta)

    def priors(self) -> list[Prior]:
        """Return those of all parameters that are learned, normal about their first guess.

        One standard deviation is a factor of 2 for means, 1.3 for spreads, 7 for the rate, 2 for
        the time from the origin to the first sample; 0.27 to 0.73 for the share sampled.
        """
        found = [Normal(float(c), float(s)) for c, s in zip(self.centre, _SPREADS, strict=True)]
        return [prior for prior, free in zip(found, self._free, strict=True) if free]

    def log_prior(self) -> float:
        """Return the log prior density of the parameters."""
        return super(Waiting, self).log_prior()

    def quantities(self) -> list[Quantity]:
        """Return the parameters that are learned, the origin as time before the first sample."""
        result = []
        for (name, value), free in zip(self.values_of(self.theta).items(), self._free, strict=True):
            if free and name == "origin":
                result.append(Quantity("origin before first", self.first_date - value, "time"))
            elif free:
                unit = {"sampled": "", "substitution_rate": "a site and time"}.get(name, "time")
                result.append(Quantity(name.replace("_", " "), value, unit))
        return result

    def values_of(self, theta: Array) -> dict[str, float]:
        """Return the parameters in units of the table, those that are given as they were given."""
        means = np.exp(theta[[0, 2]])
        sds = means * np.exp(-theta[[1, 3]] / 2)
        found = {
            "generation_mean": float(means[0]),
            "generation_sd": float(sds[0]),
            "delay_mean": float(means[1]),
            "delay_sd": float(sds[1]),
            "sampled": share_of(theta[4]) if self.n_links > 1 else 1.0,
            "substitution_rate": float(np.exp(theta[5])),
            "origin": self.first_date - float(np.exp(theta[6])),
        }
        given = {name: getattr(self, name, None) for name in found}
        return found | {name: value for name, value in given.items() if value is not None}

    # Laws ----------------------------------------------------------------------------------

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        """The numbers of cells of a generation time and of a delay."""
        sizes = []
        for log_mean, log_shape in (self.theta[:2], self.theta[2:4]):
            shape = np.exp(log_shape)
            end = gammaincinv(shape, 1 - _TAIL) * np.exp(log_mean) / shape
            sizes.append(int(np.clip(np.ceil(end / self.step), 2, _CELLS)))
        return sizes[0], sizes[1]

    @cached_property
    def laws(self) -> Laws:
        """The laws of times for the present parameters."""
        leaving, left, _ = self._laws_at(self.theta)
        with np.errstate(divide="ignore"):
            return Laws(np.log(leaving), self._first, np.log(left), self.step)

    @property
    def _n_above(self) -> int:
        """How many unsampled people above the parent another child may stem from."""
        return min(self.n_links - 1, _ABOVE)

    @property
    def _first(self) -> int:
        """The first cell of the moments at which a strain left."""
        n, m = self._sizes
        return 1 - m - self._n_above * n

    def _laws_at(self, theta: Array) -> tuple[Array, Array, Array]:
        """Return the laws of leaving (3, n), of what is left (m,), and that by links (K, m)."""
        generation, delay = (
            _cells(log_mean, log_shape, n, self.step)
            for (log_mean, log_shape), n in zip((theta[:2], theta[2:4]), self._sizes, strict=True)
        )
        # A time lies in the middle of its cell, so a difference of two lies on the grid.
        direct, beside = np.zeros((2, len(generation) - self._first))
        direct[1 - len(delay) - self._first :] = np.convolve(generation, delay[::-1])
        before, weight = delay, 1.0
        for j in range(1, self._n_above + 1):
            before = np.convolve(before, generation)
            weight *= 1 - share_of(theta[4])
            law = np.convolve(generation, before[::-1])
            # Half a cell earlier for each time that is subtracted.
            for place in (-(j // 2), -((j + 1) // 2)):
                at = 1 - len(before) - self._first + place
                beside[at : at + len(law)] += weight / 2 * law
        leaving = np.array([direct, direct + beside / 2, direct + beside])
        K = self.n_links
        m = len(delay) + (K - 1) * len(generation) + K + 1
        by_links, law = np.zeros((K, m)), delay
        for k in range(K):
            by_links[k] = _on_grid(law, k + 1, m)
            law = np.convolve(law, generation)
        by_links /= self.step / (self.unit or self.step)
        return leaving, self._link_weights(theta) @ by_links, by_links

    def _link_weights(self, theta: Array) -> Array:
        """Return the weights of 1, 2, … links (K,)."""
        shape = np.exp(theta[1])
        # Each generation is R times as large as the last: R = 1 / E exp(−growth · generation).
        base = max(1 + self.growth * np.exp(theta[0]) / shape, 1e-3)
        ratio = float(np.clip(base**shape, 0.2, 5.0)) * (1 - share_of(theta[4]))
        if self.n_links == 1:
            return np.ones(1)
        weights = ratio ** np.arange(self.n_links)
        return np.asarray(weights / weights.sum())

    @property
    def clock(self) -> Clock:
        """How sequences change, but for the number of letters."""
        found = self.values_of(self.theta)
        return Clock(found["substitution_rate"], 4, found["origin"], True)

    def weighed(
        self, edges: Edges, clock: Clock, weights: Array | None = None
    ) -> tuple[Array, Totals]:
        """Return the log-weights of dates and of dates with sequences (E, 2), and weighted sums."""
        from outtrees.models.columns.transmission_kernels import weigh

        laws = self.laws
        totals = Totals(
            np.zeros((2, *laws.log_leaving.shape)),
            np.zeros((2, len(laws.log_left))),
            np.zeros(1),
            np.zeros(1),
        )
        parts = np.empty((len(edges.delta), 2))
        own = np.zeros(0) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        weigh(edges, laws, clock, own, parts, totals)
        return parts, totals

    def slopes_of(self, totals: Totals, which: Array) -> Array:
        """Return the slopes (P,) of the sums `which` (2,) counts: dates', and joint ones.

        Laws by central differences: they are short.
        """
        leaving, left = np.tensordot(which, totals.leaving, 1), which @ totals.left
        slopes = np.zeros(len(NAMES))
        now_leaving, now_left = np.exp(self.laws.log_leaving), np.exp(self.laws.log_left)
        with np.errstate(divide="ignore", invalid="ignore"):
            per_leaving = np.where(leaving != 0, leaving / now_leaving, 0.0)
            per_left = np.where(left != 0, left / now_left, 0.0)
        for i, (more_leaving, more_left) in self._law_slopes.items():
            slopes[i] = float((per_leaving * more_leaving).sum() + per_left @ more_left)
        slopes[5] = which[1] * totals.rate[0]
        slopes[6] = which[1] * totals.age[0] * np.exp(self.theta[6])
        return slopes[self._free]

    @cached_property
    def _law_slopes(self) -> dict[int, tuple[Array, Array]]:
        """The slopes of both laws in each parameter that is learned."""
        found = {}
        for i in np.flatnonzero(self._free[:_LAWS]).tolist():
            ends = []
            for move in (_STEP, -_STEP):
                theta = np.array(self.theta)
                theta[i] += move
                if i in (0, 2) and (self.generation_sd, self.delay_sd)[i // 2] is not None:
                    theta[i + 1] += 2 * move  # a given standard deviation stays
                ends.append(self._laws_at(theta)[:2])
            (a, b), (c, d) = ends
            found[i] = (a - c) / (2 * _STEP), (b - d) / (2 * _STEP)
        return found

    # Dates alone ---------------------------------------------------------------------------

    @property
    def ahead(self) -> float:
        """How long before its parent a child may be sampled; any time before a fit has begun."""
        if self.theta is None:
            return float("inf")
        return self._sizes[1] * self.step

    def possible(
        self, children: Array, parents: Array, child: Index, parent: Index
    ) -> NDArray[np.bool_]:
        """Return which edges are possible: any order of dates is, within what delays allow."""
        delta = children[child, 0] - parents[parent, 0]
        return ~(delta + children[child, 2] + parents[parent, 2] < -self.ahead)

    @staticmethod
    def _edges(delta: Array, slack: Array) -> Edges:
        none = np.zeros(len(delta))
        return Edges(delta, slack, none, none, none, none, none, none, _beside(delta))

    def _log_waits(self, cells: Array, k: int) -> Array:
        edges = self._edges(*self._ends(cells))
        return self.weighed(edges, self.clock._replace(with_sites=False))[0][:, 0]

    def _ends(self, cells: Array) -> tuple[Array, Array]:
        """Return differences and half-widths beyond the rounding, from rows of `_joined`."""
        slack = np.maximum(cells[:, 1] - self.unit / 2, 0.0)
        return np.ascontiguousarray(cells[:, 0]), np.ascontiguousarray(slack)

    def _slopes_cells(self, cells: Array, weights: Array, elapsed: Array | None) -> Array:
        edges = self._edges(*self._ends(cells))
        clock = self.clock._replace(with_sites=False)
        _, totals = self.weighed(edges, clock, weights.sum(axis=0))
        return self.slopes_of(totals, np.array([1.0, 0.0]))

    @property
    def moments(self) -> tuple[float, float]:
        """The mean and standard deviation of the generation time."""
        mean = float(np.exp(self.theta[0]))
        return mean, mean * float(np.exp(-self.theta[1] / 2))

    def longest(self, generations: int, nats: float) -> float:
        """Return the longest time from parent to child that the laws reach."""
        laws = self.laws
        return (laws.first + laws.log_leaving.shape[1] + len(laws.log_left)) * self.step

    def quick(self, values: Array, generations: int, elapsed: float) -> Any:
        """Return None: compiled loops over all pairs do not know this law."""
        return None

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return children sampled after (or before) their parents."""
        leaving, _, by_links = self._laws_at(self.theta)
        links = rng.choice(self.n_links, size=len(parents), p=self._link_weights(self.theta))
        direct = leaving[0] / leaving[0].sum()
        tau = rng.choice(len(direct), size=len(parents), p=direct)
        left = [rng.choice(by_links.shape[1], p=by_links[j] / by_links[j].sum()) for j in links]
        date = parents[:, 0] + (self.laws.first + tau + np.array(left, dtype=float)) * self.step
        if self.unit > 0:
            date = np.round(date / self.unit) * self.unit
        return np.column_stack([date, date, np.zeros((len(date), 2))])

    def describe(self) -> str:
        """Return generation time, delay and share sampled."""
        found = self.values_of(self.theta)
        text = (
            f"infection to infection {found['generation_mean']:.3g} ± {found['generation_sd']:.2g} "
            f"units of time, infection to sampling {found['delay_mean']:.3g} ± "
            f"{found['delay_sd']:.2g} units of time"
        )
        if self.n_links > 1:
            text += f"; {found['sampled']:.0%} of cases sampled"
        return text

    # What edges tell -----------------------------------------------------------------------

    def direct_shares(self, edges: Edges, clock: Clock) -> Array:
        """Return how probable it is that u descends from v itself, not from beside it (E,)."""
        which = int(clock.with_sites)
        both = self.weighed(edges, clock)[0][:, which]
        direct = self.weighed(edges._replace(beside=np.zeros_like(edges.beside)), clock)[0]
        possible = np.isfinite(both)
        shares = np.ones(len(both))
        shares[possible] = np.exp(np.minimum(direct[possible, which] - both[possible], 0.0))
        return shares

    def links_of(self, totals_left: Array) -> Array:
        """Return the weights of 1, 2, … links (K,) that times left to the child have (m,)."""
        by_links = self._laws_at(self.theta)[2] * self._link_weights(self.theta)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(by_links > 0, by_links / by_links.sum(axis=0), 0.0)
        return np.asarray(shares @ totals_left)

    @cached_property
    def delay_given_left(self) -> Array:
        """P(the child's delay | time left) on the grid (m, n); rows of impossible times are 0."""
        generation, delay = (
            _cells(log_mean, log_shape, n, self.step)
            for (log_mean, log_shape), n in zip(
                (self.theta[:2], self.theta[2:4]), self._sizes, strict=True
            )
        )
        weights, m = self._link_weights(self.theta), len(self.laws.log_left)
        # The law of the people between, of 0, 1, … generation times; a delay adds to it.
        between, law = np.zeros(m), np.ones(1)
        result = np.zeros((m, len(delay)))
        for k, weight in enumerate(weights):
            between = _on_grid(law, k, m) if k else np.eye(1, m)[0]
            for j, chance in enumerate(delay):
                # Half of a cell's delay on either side of its middle, as `_on_grid` has it.
                for place in (j, j + 1):
                    result[place:, j] += 0.5 * weight * chance * between[: m - place]
            law = np.convolve(law, generation)
        total = result.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(result, total, out=np.zeros_like(result), where=total > 0))

    @property
    def delay_law(self) -> Array:
        """The probabilities of delays on the grid (n,)."""
        return _cells(self.theta[2], self.theta[3], self._sizes[1], self.step)


@dataclass(frozen=True, eq=False)
class TransmittedSequence(ColumnKernel):
    """Sequences that change with time along chains of infection, on the dates of `Transmission`.

    All stem from one sequence, the commonest among the earliest, at a date t₀ (learned). Let u
    descend from v, and let v's strain have left v at τ relative to v's sampling: their common
    ancestor lived x = max(−τ, 0) before v was sampled, and ℓ = s_u − s_v + x before u was. Of the
    letters in which v differs from the origin, those that u lacks arose in the last x of the
    s_v − t₀ since the origin, and those that u shares before, so that

        p(u | v, τ) = (x / a)^lacking · (1 − x / a)^shared · (μ ℓ / 3)^gained · exp(−μ L ℓ),

    a = s_v − t₀. This is p(u, v) / p(v) of two sequences with a common origin: a letter that v
    has gained after it infected u is not a change back in u. (That is possible too: μ ℓ / 3 is
    added to x / a.) The sum over τ and over the number of unsampled people is exact on a grid.

    The logarithm counts two thirds, since edges are weighed by themselves (`_COUNTED`).

    A record's cells are its date (4 numbers) and its letters; unread ones are filled in beforehand
    by `filled_letters`, and drawn anew on drawn trees after the fit (`outtrees.ancestry.nearest`).
    Of sites that still are not read, those of the child say nothing; those read in the child only
    pay what the sequences most like the parent's show there.
    The parameters are those of the column of dates.
    """

    contrasted = False
    follows_dates = True

    levels: tuple[str, ...] = ("A", "C", "G", "T")
    _: KW_ONLY
    process: Any = None  # Transmission
    root: Any = field(default=None, repr=False)  # (L,), the origin's letters
    middle: float = 0.0  # a date for records without one

    def start(self, values: Array) -> Self:
        """Return the kernel with the commonest letters of the earliest records as origin."""
        codes, dates = _letters(values), values[:, 0]
        known = np.isfinite(dates)
        early = np.zeros(len(dates), dtype=bool)
        early[
            np.argsort(np.where(known, dates, np.inf), kind="stable")[: _earliest(len(dates))]
        ] = True
        if known.any():  # all of the last of these dates, so that the order of rows is nothing
            early = dates <= dates[early & known].max() if (early & known).any() else early
        counts = np.array(
            [
                (codes[early] == a).sum(axis=0) + 1e-3 * (codes == a).sum(axis=0)
                for a in range(len(self.levels))
            ]
        )
        middle = float(np.median(dates[known])) if known.any() else 0.0
        return replace(self, root=counts.argmax(axis=0).astype(np.uint8), middle=middle)

    def first_rate(self, values: Array, process: Transmission) -> float:
        """Return the rate at which records depart from the origin with time."""
        derived, read = self._departed(values)
        age = self._ages(values, process)
        return float((derived.sum() + 0.5) / max((read * age).sum(), 1e-12))

    def following(self, process: Transmission) -> Self:
        """Return the kernel with the parameters of the column of dates."""
        return replace(self, process=process)

    # Sequences without a parent ------------------------------------------------------------

    def _departed(self, values: Array) -> tuple[Array, Array]:
        """Return how many letters differ from the origin's, and how many were read (n,)."""
        codes = _letters(values)
        read = codes != MISSING
        return ((codes != self.root) & read).sum(axis=1).astype(float), read.sum(axis=1).astype(
            float
        )

    def _ages(self, values: Array, process: Transmission) -> Array:
        dates = np.where(np.isfinite(values[:, 0]), values[:, 0], self.middle)
        origin = process.values_of(process.theta)["origin"]
        return np.maximum(dates - origin, process.step)

    def log_alone(self, values: Array) -> Array:
        """Return the log-density of sequences that stem from the origin directly (n,)."""
        derived, read = self._departed(values)
        age, rate = self._ages(values, self.process), self.process.clock.rate
        logs = derived * np.log(rate * age / (len(self.levels) - 1)) - rate * read * age
        return np.asarray(_COUNTED * logs)

    def slopes_alone(self, values: Array, weights: Array) -> Array:
        """Return ∂/∂params of Σ weights · log_alone, of the parameters of the dates' column."""
        derived, read = self._departed(values)
        age, rate = self._ages(values, self.process), self.process.clock.rate
        slopes = np.zeros(len(NAMES))
        slopes[5] = weights @ (derived - rate * read * age)
        moves = np.exp(self.process.theta[6]) * (age > self.process.step)
        slopes[6] = weights @ ((derived / age - rate * read) * moves)
        return np.asarray(_COUNTED * slopes[self.process._free])

    # Pairs ---------------------------------------------------------------------------------

    def pairs(self, children: Array, parents: Array, child: Index, parent: Index) -> Edges:
        """Return what the parameters do not change, for each of E edges."""
        return self.between(children, parents)(child, parent)

    def between(self, children: Array, parents: Array) -> Callable[[Index, Index], Edges]:
        """Return the function of child and parent that `pairs` is for these records."""
        x, y = _letters(children), _letters(parents)
        root = np.asarray(self.root)
        # Sites at which nobody was seen to depart from the origin say nothing about parents.
        departed = [((z != root) & (z != MISSING)).any(axis=0) for z in (x, y)]
        varied = departed[0] | departed[1]
        same_records = children is parents
        read = (x != MISSING).sum(axis=1).astype(float)
        x, y, root = x[:, varied], y[:, varied], root[varied]
        unread = None
        if (y == MISSING).any():
            unread = UnknownSites(y, len(self.levels), int((~varied).sum()))
        dates, ends = children[:, :3], parents[:, :3]

        def made(child: Index, parent: Index) -> Edges:
            E = len(child)
            shared, lacking, gained, log_unread = (np.zeros(E) for _ in range(4))
            step = max(1, 20_000_000 // max(x.shape[1], 1))
            for low in range(0, E, step):
                rows = slice(low, low + step)
                a, b = x[child[rows]], y[parent[rows]]
                both = (a != MISSING) & (b != MISSING)
                differ, derived = both & (a != b), both & (b != root)
                shared[rows] = (derived & ~differ).sum(axis=1)
                lacking[rows] = (derived & differ).sum(axis=1)
                gained[rows] = (differ & (a != root)).sum(axis=1)
                if unread is not None:
                    own = child[rows] if same_records else None
                    log_unread[rows] = unread.log_letters(parent[rows], a, own)
            s_u, s_v = dates[child, 0], ends[parent, 0]
            return Edges(
                s_u - s_v,
                np.nan_to_num(dates[child, 2] + ends[parent, 2]),
                np.where(np.isfinite(s_v), s_v, self.middle),
                *(shared, lacking, gained, read[child], log_unread),
                _beside(s_u - s_v),
            )

        return made

    def _dated(self, pairs: Edges) -> tuple[Edges, Clock]:
        """Return the edges with a usual time between where a date is unknown, and the clock."""
        usual = self.process.moments[0]
        delta = np.where(np.isfinite(pairs.delta), pairs.delta, usual)
        clock = self.process.clock._replace(letters=len(self.levels))
        return pairs._replace(delta=np.ascontiguousarray(delta)), clock

    def log_steps(self, pairs: Edges, k: int, elapsed: Array | None = None) -> Array:
        """Return log p(child's letters | parent's letters and both dates) for each edge (E,)."""
        parts, _ = self.process.weighed(*self._dated(pairs))
        possible = np.isfinite(parts[:, 0])  # else the dates' column says so
        result = pairs.log_unread.copy()
        result[possible] += parts[possible, 1] - parts[possible, 0]
        return _COUNTED * result

    def slopes(self, pairs: Edges, weights: Array, elapsed: Array | None = None) -> Array:
        """Return ∂/∂params of Σ weights · log_steps, of the parameters of the dates' column."""
        _, totals = self.process.weighed(*self._dated(pairs), weights.sum(axis=0))
        return np.asarray(_COUNTED * self.process.slopes_of(totals, np.array([-1.0, 1.0])))

    def reordered(self, cells: Array, rows: Index) -> Array:
        """Return the cells with the letters of other records; dates stay."""
        return np.column_stack([cells[:, :_DATES], cells[rows, _DATES:]])

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return the parents' letters after a usual time from sampling to sampling."""
        mean = self.process.moments[0]
        p = 1 - np.exp(-self.process.clock.rate * mean)
        letters, C = parents[:, _DATES:].copy(), len(self.levels)
        changed = rng.random(letters.shape) < p
        letters[changed] = (letters[changed] + rng.integers(1, C, size=int(changed.sum()))) % C
        return np.column_stack([parents[:, :_DATES], letters])

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return the origin's letters."""
        return np.column_stack([np.zeros((n, _DATES)), np.tile(self.root, (n, 1)).astype(float)])

    def describe(self) -> str:
        """Return the rate of substitutions."""
        rate, sites = self.process.clock.rate, len(self.root)
        return (
            f"{rate:.2g} substitutions a site and {rate * sites:.2g} a sequence in one unit of time"
        )


# Parts -------------------------------------------------------------------------------------


def sequence_cells(dates: Array, letters: Array) -> Array:
    """Return the cells of a column of sequences (T, 4 + L), with the dates (T, 4) that it needs."""
    return np.column_stack([dates, letters])


def filled_letters(letters: Array, n_letters: int) -> Array:
    """Return the letters (T, L) with unread sites as the most similar sequences show them.

    A mutation must be paid once, by the first who has it. If an unread site says nothing about its
    record's parent and is guessed anew for each of its children, nobody pays, and records with
    unread sites attract children. With one letter that counts for parent and child alike, trees are
    those of whole sequences.
    """
    codes = np.where(np.isnan(letters), MISSING, letters).astype(np.uint8)
    result = filled(codes, n_letters)
    return np.where(result == MISSING, np.nan, result.astype(np.float64))


def _beside(delta: Array) -> Array:
    """Return how far a common infector counts for these edges, 0, 1 or 2: see `Edges`.

    Of two people with a common infector whom nobody sampled, the one sampled later is said to
    descend from beside the other.
    """
    return np.where(np.isfinite(delta), 1 + np.sign(delta), 1).astype(np.int8)


def _letters(values: Array) -> NDArray[np.uint8]:
    letters = values[:, _DATES:]
    return np.where(np.isnan(letters), MISSING, letters).astype(np.uint8)


def _earliest(n: int) -> int:
    """Return how many of n records tell the origin's letters."""
    return max(8, n // 5)


def _cells(log_mean: float, log_shape: float, n: int, step: float) -> Array:
    """Return the probabilities of n cells of a gamma law, made to sum to one."""
    shape = np.exp(log_shape)
    edges = np.arange(n + 1) * step * shape / np.exp(log_mean)
    cells = np.diff(gammainc(shape, edges))
    return np.asarray(cells / cells.sum())


def _on_grid(law: Array, number: int, m: int) -> Array:
    """Return the law of a sum of `number` times, each in the middle of its cell, on the grid (m,).

    Half a cell off the grid where the number is odd: then half of it lies on either side.
    """
    result, first = np.zeros(m), number // 2
    if number % 2 == 0:
        kept = min(len(law), m - first)
        result[first : first + kept] = law[:kept]
        return result
    for place in (first, first + 1):
        kept = min(len(law), m - place)
        result[place : place + kept] += law[:kept] / 2
    return result


def _growth(dates: Array, first: float, span: float) -> float:
    """Return the exponential rate at which the number of dates grows, by its likelihood.

    Dates are taken as a sample of an exponential cut off at the first and the last one.
    """
    if len(dates) < 5 or span <= 0:
        return 0.0
    mean = float(np.clip((dates - first).mean() / span, 0.02, 0.98))

    def excess(x: float) -> float:  # of the mean of that law
        if abs(x) < 1e-4:
            return 0.5 + x / 12 - mean
        return 1 / -np.expm1(-x) - 1 / x - mean

    return float(brentq(excess, -60, 60)) / span

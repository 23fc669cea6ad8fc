"""Values that a child keeps or draws afresh: categories (`Sticky`), spots on a map (`Spots`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from outtrees._common.types import Array
from outtrees.models.column import CellPairs, Index, Learned, ShareKernel
from outtrees.models.priors import LogitBeta, Normal
from outtrees.models.quick import Match, Metric
from outtrees.models.tables import frequencies

_ANY_VALUE = 0.01  # of values that follow none before: those that need not be new ones


def new_values(
    n: int, n_levels: int, before: Iterable[tuple[CellPairs, Index, Array]]
) -> tuple[Array, Array]:
    """Return the chance of each record's value if it follows none before, over that of any (n,).

    It is one that no record had before, each of these alike, or now and then any. So the name of a
    household says nothing, only whether it is a new one. Of records of one date that share a new
    value one was the first, so that it counts as new by its share. A set of values is any of them
    alike; sets of other records do not count as values that were there before.

    Over all values the chances sum to 1. Where no new value is left it is any, and the second
    array says how rarely a record then follows none before, beside 1 elsewhere (n,).

    Parameters
    ----------
    before : iterable of (pairs, child, weight)
        Pairs of codes (the child's, the other's, …; −1 is none of the levels), the number of the
        child, and how surely the other one came before it: 1, or 1/2.
    """
    own, earlier, tied = np.full(n, np.nan), [np.empty(0, np.intp)], [np.empty(0, np.intp)]
    for pairs, child, weight in before:
        known = pairs.place >= 0
        a, b = pairs.cells[pairs.place[known], :2].T
        row, weight = child[known], weight[known]
        own[row] = a
        key = row * n_levels + b.astype(np.intp)  # a record, and the value of another
        certain = (b >= 0) & (b < n_levels)
        earlier.append(np.unique(key[certain & (weight >= 1)]))
        tied.append(key[certain & (weight < 1) & (weight > 0)])
    values = np.unique(np.concatenate(earlier))
    at_once, number = np.unique(np.concatenate(tied), return_counts=True)
    first = ~np.isin(at_once, values) / (1 + number)  # the chance to come before those alike
    # How many values are left: those that none had before, of which some have come at once.
    left = n_levels - np.bincount(values // n_levels, minlength=n)
    left = left - np.bincount(at_once // n_levels, (first > 0) - first, minlength=n)
    row, value = each_member(own, n_levels)
    key = np.where(value >= 0, row * n_levels + value, -1)  # one of none of the levels is new
    place = np.minimum(np.searchsorted(at_once, key), len(at_once) - 1)
    together = at_once[place] == key if len(at_once) else np.zeros(len(key), dtype=bool)
    fresh = (~np.isin(key, values)).astype(np.float64)
    fresh[together] = first[place[together]]
    share = np.bincount(row, fresh, minlength=n) / np.maximum(np.bincount(row, minlength=n), 1)
    some_left = left > 0
    new = share * n_levels / np.where(some_left, left, 1.0)
    new = np.where(some_left & ~np.isnan(own), new, 1.0)
    return (1 - _ANY_VALUE) * new + _ANY_VALUE, np.where(some_left, 1.0, _ANY_VALUE)


MOST_IN_SETS = 50  # levels of a column with sets of states: one bit each, of a double's 53


def members(codes: Array, n_levels: int) -> NDArray[np.bool_]:
    """Return which categories each cell may be (n, C).

    A code below C is that category. One from C upwards is C plus a set of them: 1 if the first is
    in it, plus 2 if the second is, plus 4 if the third is, and so on.

    Examples
    --------
    >>> members(np.array([1.0, 3 + 0b101]), 3).astype(int)
    array([[0, 1, 0],
           [1, 0, 1]])
    """
    whole = np.asarray(codes).astype(np.int64)[:, None]
    bits = np.arange(n_levels)
    return np.where(whole < n_levels, bits == whole, (whole - n_levels) >> np.minimum(bits, 62) & 1)


def each_member(codes: Array, n_levels: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and categories: one for each category that a known cell may be.

    Examples
    --------
    >>> each_member(np.array([1.0, np.nan, 3 + 0b101]), 3)
    (array([0, 2, 2]), array([1, 0, 2]))
    """
    certain, several = np.flatnonzero(codes < n_levels), np.flatnonzero(codes >= n_levels)
    set_, member = np.nonzero(members(codes[several], n_levels))
    rows = np.concatenate([certain, several[set_]])
    return rows, np.concatenate([codes[certain].astype(np.intp), member])


class KeptKernel(ShareKernel):
    """A kernel of C values: the child keeps the parent's with the share s, or draws one afresh.

        p(a | b) = s^k·[a = b] + (1 − s^k)·[n·K(a, b) + (1 − n)·m_a],   k links apart,

    n and K being the chance and the law of a value near the parent's, if there is such a thing.
    """

    from_background = True
    near: float = 0.0  # n
    marginal: Any  # (C,)

    @property
    def _n_values(self) -> int:
        return len(self.marginal)

    @abstractmethod
    def _related(self, cells: Array) -> tuple[Array, Any, Any]:
        """Return [a = b], K, and ∂ log K / ∂ log reach of distinct pairs (U,); 0 without K."""

    @abstractmethod
    def _chance(self, codes: Array) -> Array:
        """Return the chance of each known cell without a parent (n,)."""

    def _fresh(self, codes: Array) -> Array:
        """Return the chance of each known cell that was drawn afresh (n,)."""
        return self._chance(codes)

    def _kept(self, k: int) -> float:
        return float(getattr(self, self._share) ** k)

    def _log_pairs(self, cells: Array, k: int, elapsed: Array | None) -> Array:
        (same, moved, _), kept = self._related(cells), self._kept(k)
        drawn = self.near * moved + (1 - self.near) * self._fresh(cells[:, 0])
        return np.asarray(np.log(kept * same + (1 - kept) * drawn))

    def _log_cell(self, x: Array) -> Array:
        return np.asarray(np.log(self._chance(x[:, 0])))

    # Beside the values before ------------------------------------------------------------------

    def log_base(self, values: Array) -> Array:
        """Return the log-density of any value alike (n,), 0 where missing."""
        return np.where(np.isnan(values).any(axis=1), 0.0, -np.log(self._n_values))

    def new_cells(
        self, n: int, before: Iterable[tuple[CellPairs, Index, Array]]
    ) -> tuple[Array, Array]:
        """Return `new_values` of the values."""
        return new_values(n, self._n_values, before)

    def _relative(self, pairs: CellPairs, log_alone: Array) -> tuple[Array, Any, Any]:
        """Return [a = b] / g, K / g, and ∂ log K / ∂ log reach of each edge (E,)."""
        found = self._related(pairs.cells)
        same, moved, slope = (np.append(x, 0.0)[pairs.place] if np.ndim(x) else x for x in found)
        over = np.exp(-log_alone)
        return same * over, moved * over, slope

    def log_relative(
        self, pairs: CellPairs, k: int, elapsed: Array | None, log_alone: Array
    ) -> Array:
        """Return log {s^k·[a = b]/g + (1 − s^k)·[n·K/g + 1 − n]}: others are drawn from g.

        The marginal would know how often each value will come; what it is compared with does not.
        """
        (same, moved, _), kept = self._relative(pairs, log_alone), self._kept(k)
        logs = np.log(kept * same + (1 - kept) * (self.near * moved + 1 - self.near))
        return np.where(pairs.place >= 0, logs, 0.0)

    def slopes_relative(
        self, pairs: CellPairs, weights: Array, elapsed: Array | None, log_alone: Array
    ) -> Array:
        """Return ∂/∂params of Σ weights · log_relative (P,)."""
        same, moved, along = self._relative(pairs, log_alone)
        other = self.near * moved + 1 - self.near
        known = pairs.place >= 0
        over, result = np.where(known, same - other, 0.0), np.zeros(len(self.params))
        for k, w in enumerate(weights, start=1):
            kept = self._kept(k)
            ratio = kept * over + other
            near = self._slopes_near((1 - kept) * np.where(known, w, 0.0) / ratio, moved, along)
            result += [k * kept * float(w @ (over / ratio)), *near]
        result[0] *= 1 - self._kept(1)
        return result

    def _slopes_near(self, share: Array, moved: Any, along: Any) -> list[float]:
        """Return ∂ log p / ∂ what else is learned, by the weight of 1 / p of fresh values."""
        return []

    def slopes_of_alone(self, pairs: CellPairs, weights: Array, log_alone: Array) -> Array:
        """Return Σ_k weights · ∂ log_relative / ∂ log_alone for each edge (E,)."""
        same, moved, _ = self._relative(pairs, log_alone)
        result = np.zeros(len(same))
        for k, w in enumerate(weights, start=1):
            kept = self._kept(k)
            by_g = kept * same + (1 - kept) * self.near * moved
            result -= w * by_g / (by_g + (1 - kept) * (1 - self.near))
        result[pairs.place < 0] = 0.0
        return result


@dataclass(frozen=True, eq=False)
class Sticky(KeptKernel):
    """p(a | b) = s^k·[a = b] + (1 − s^k)·marginal_a, k links apart, one s for the column.

    Parameters
    ----------
    levels : tuple of str
        The names of the categories; cells hold their positions, or one of several (`members`).
    prior_strength : float
        The pseudo-count of the Beta prior on s with mode 1/2, and of the marginal's Dirichlet.
    target : {"marginal", "uniform"}
        Where a changed value goes. "uniform" makes a step towards a rare value as likely as one
        back, which tells directions apart: a change away from the common value costs as much as
        one towards it, while the root prefers common values.

    Notes
    -----
    A cell may be one of several categories, such as an uncertain reading. The child's is summed
    over its set A, the parent's averaged over its set B by their marginal:
    p(A | B) = s^k·marginal(A ∩ B) / marginal(B) + (1 − s^k)·marginal(A).

    Examples
    --------
    >>> kernel = Sticky(("a", "b")).start(np.array([[0.0], [0.0], [1.0], [1.0]]))
    >>> cells, edge = np.array([[0.0], [1.0]]), np.array([0])
    >>> same = kernel.pairs(cells, cells, edge, edge)
    >>> bool(kernel.log_steps(same, 1)[0] > kernel.log_steps(same, 2)[0])
    True
    """

    _share = "stickiness"
    levels: tuple[str, ...] = ()
    prior_strength: float = 1.0
    target: str = "marginal"
    _: KW_ONLY
    marginal: Any = field(default=None, repr=False)  # (C,)
    stickiness: float = 0.5

    def start(self, values: Array) -> Self:
        """Return the kernel with the marginal of the column and stickiness 1/2."""
        C, strength = len(self.levels), max(self.prior_strength, 1e-9)
        row, code = each_member(values[:, 0], C)
        part = 1 / np.bincount(row, minlength=len(values))[row]  # of a set, each member alike
        counts = np.bincount(code, part, minlength=C) + strength / C
        return replace(self, marginal=counts / counts.sum(), stickiness=0.5)

    @property
    def _n_values(self) -> int:
        return len(self.levels)

    @property
    def _goal(self) -> Array:
        C = len(self.levels)
        return np.full(C, 1 / C) if self.target == "uniform" else self.marginal

    def _chance(self, codes: Array) -> Array:
        return self._sum(codes, self.marginal)

    def _fresh(self, codes: Array) -> Array:
        return self._sum(codes, self._goal)

    @staticmethod
    def _sum(codes: Array, chances: Array) -> Array:
        """Return the chance of each known cell (n,) by those of the categories (C,)."""
        if (codes < len(chances)).all():
            return np.asarray(chances[codes.astype(np.intp)])
        return np.asarray(members(codes, len(chances)) @ chances)

    def _related(self, cells: Array) -> tuple[Array, Any, Any]:
        a, b = cells.T
        if (cells < len(self.levels)).all():
            return np.asarray(a == b, dtype=np.float64), 0.0, 0.0
        own, other = (members(side, len(self.levels)) for side in (a, b))
        return np.asarray((own & other) @ self.marginal / (other @ self.marginal)), 0.0, 0.0

    def background_grid(self) -> list[Self]:
        """Return the kernel that keeps a value: with it, a background counts values."""
        return [replace(self, stickiness=1 - 1e-9)]

    def log_base(self, values: Array) -> Array:
        """Return the log-density of any value alike (n,), 0 where missing."""
        known, result = ~np.isnan(values[:, 0]), np.zeros(len(values))
        alike = np.full(len(self.levels), 1 / len(self.levels))
        result[known] = np.log(self._sum(values[known, 0], alike))
        return result

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return the parents' categories, changed with probability 1 − s^k."""
        fresh = rng.choice(len(self.levels), size=parents.shape, p=self._goal).astype(np.float64)
        return np.where(rng.random(parents.shape) < self.stickiness**k, parents, fresh)

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return draws from the marginal."""
        return rng.choice(len(self.levels), size=(n, 1), p=self.marginal).astype(np.float64)

    def states(self, values: Array) -> tuple[Array, Array]:
        """Return the categories."""
        C = len(self.levels)
        return np.arange(float(C)), np.ones(C)

    def quick(self, values: Array, generations: int, elapsed: float) -> Match:
        """Return what agreement and disagreement weigh, for each category of the child.

        One of several categories counts as unknown: this only decides who is compared in full.
        """
        kept = (self.stickiness ** np.arange(1, generations + 1))[:, None]
        certain = values[:, 0] < len(self.levels)
        code = np.where(certain, values[:, 0], -1).astype(np.int32)
        other = (1 - kept) * self._goal
        return Match(code, np.log(kept + other), np.log(other))

    def describe(self) -> str:
        """Return how often a child keeps its parent's value."""
        same = self.stickiness + (1 - self.stickiness) * float((self._goal * self.marginal).sum())
        return (
            f"a child keeps its parent's value with probability {self.stickiness:.3g}, "
            f"and shares it with probability {same:.3g}"
        )


# Spots ---------------------------------------------------------------------------------------

_MOST_SPOTS = 1500  # pairs of them are weighed at every step of a climb
_RECORDS_OF_A_SPOT = 1.5  # on average: with fewer, places are points on a map
_ALL = 1 - 1e-9  # a share of nearly all


def are_spots(values: Array) -> bool:
    """Return whether places are few spots that many records share: houses, wards, counties.

    Examples
    --------
    >>> are_spots(np.array([[0.0, 1], [0, 1], [2, 3], [2, 3]])), are_spots(np.eye(4))
    (True, False)
    """
    known = values[~np.isnan(values).any(axis=1)]
    number = len(np.unique(known, axis=0))
    return 2 <= number <= _MOST_SPOTS and len(known) >= _RECORDS_OF_A_SPOT * number


@dataclass(frozen=True, eq=False)
class Spots(KeptKernel):
    """Places that are few spots, which a child shares with its parent, or near which it lives.

        p(a | b) = s^k·[a = b] + (1 − s^k)·[n·K(a, b) + (1 − n)·marginal_a],
        K(a, b) = exp(−d(a, b)/ℓ) / Σ over spots c ≠ b of exp(−d(c, b)/ℓ)   for a ≠ b, else 0,

    k links apart. A density of points on a map would be a spike at each house or county; here
    only the spots that occur can come up.

    Parameters
    ----------
    prior_strength : float
        The pseudo-count of the Beta priors on s and n with mode 1/2, and of the marginal.

    Examples
    --------
    >>> cells = np.array([[0.0, 0], [0, 0], [0, 1], [9, 9]])
    >>> kernel = Spots().start(cells)
    >>> pairs = kernel.pairs(cells, cells, np.array([1, 2, 3]), np.array([0, 0, 0]))
    >>> same, near, far = kernel.log_steps(pairs, 1)
    >>> bool(same > near > far)
    True
    """

    _share = "stays"
    prior_strength: float = 1.0
    _: KW_ONLY
    spots: Any = field(default=None, repr=False)  # (C, D)
    marginal: Any = field(default=None, repr=False)  # (C,)
    unit: float = 1.0  # the prior's guess of ℓ
    stays: float = 0.5  # s
    near: float = 0.5  # n
    reach: float = 1.0  # ℓ

    def start(self, values: Array) -> Self:
        """Return the kernel of the spots that occur."""
        known = values[~np.isnan(values).any(axis=1)]
        spots, codes = np.unique(known, axis=0, return_inverse=True)
        marginal = frequencies(codes.ravel(), len(spots), max(self.prior_strength, 1e-9))
        distance = _distances(spots, spots)
        apart = distance[distance > 0]
        unit = 0.3 * float(np.median(apart)) if len(apart) else 1.0
        return replace(self, spots=spots, marginal=marginal, unit=unit, reach=unit)

    # Pairs -----------------------------------------------------------------------------------

    def _coded(self, values: Array) -> Array:
        """Return the number of each cell's spot (−1: unknown), and its place (n, 1 + D)."""
        number = {tuple(spot): float(i) for i, spot in enumerate(self.spots.tolist())}
        codes = [number.get(tuple(place), -1.0) for place in values.tolist()]
        return np.column_stack([codes, values])

    def pairs(self, children: Array, parents: Array, child: Index, parent: Index) -> CellPairs:
        """Return the distinct pairs of spots and their distances, and which one each edge joins."""
        return super().pairs(self._coded(children), self._coded(parents), child, parent)

    def _joined(self, x: Array, y: Array) -> Array:
        apart = np.linalg.norm(x[:, 1:] - y[:, 1:], axis=1)
        return np.column_stack([x[:, 0], y[:, 0], apart])

    @cached_property
    def _sums(self) -> tuple[Array, Array]:
        """log Σ exp(−d/ℓ) over other spots, and the mean of d/ℓ among these, of each spot (C,)."""
        scaled = _distances(self.spots, self.spots) / self.reach
        nearest = np.where(scaled > 0, scaled, np.inf).min(axis=1)
        nearest = np.where(np.isfinite(nearest), nearest, 0.0)
        weights = np.where(scaled > 0, np.exp(nearest[:, None] - scaled), 0.0)
        total = np.maximum(weights.sum(axis=1), 1e-12)  # 0 of a lone spot, which has no others
        return np.log(total) - nearest, (weights * scaled).sum(axis=1) / total

    def _related(self, cells: Array) -> tuple[Array, Any, Any]:
        b = cells[:, 1].astype(np.intp)
        scaled, (log_total, mean) = cells[:, 2] / self.reach, self._sums
        same = cells[:, 2] == 0
        moved = np.where(same, 0.0, np.exp(-scaled - log_total[b]))
        return same.astype(np.float64), moved, scaled - mean[b]

    def _chance(self, codes: Array) -> Array:
        """Return the share of each spot; of an unknown one as if it were one of them, alike."""
        known = codes >= 0
        shares = self.marginal[np.where(known, codes, 0).astype(np.intp)]
        return np.where(known, shares, 1 / len(self.marginal))

    def log_alone(self, values: Array) -> Array:
        """Return the log-share of each cell's spot (n,), 0 where missing."""
        return super().log_alone(self._coded(values))

    def background_grid(self) -> list[Self]:
        """Return kernels that count spots, and such that also reach to the nearest ones."""
        only = replace(self, near=_ALL)
        reaches = (0.1 * self.unit, self.unit)
        return [
            replace(only, stays=_ALL),
            *(replace(only, stays=stays, reach=r) for stays in (0.8, 0.4) for r in reaches),
        ]

    def _slopes_near(self, share: Array, moved: Any, along: Any) -> list[float]:
        by_near = self.near * (1 - self.near) * float(share @ (moved - 1))
        return [by_near, self.near * float(share @ (moved * along))]

    # Learning --------------------------------------------------------------------------------

    def learned(self) -> list[Learned]:
        """Return the shares with their Betas, and the reach, a wide log-normal."""
        half = LogitBeta(self.prior_strength / 2, self.prior_strength / 2)
        near = Learned("near", half, "share")
        reach = Learned("reach", Normal(-1.0, 2.0), "positive", self.unit, "column")
        return [*super().learned(), near, reach]

    def start_grid(self) -> list[Array]:
        """Return columns that are kept less and more, with near and far others."""
        shares, reaches = (-1.0, 1.0), (-2.5, 0.0)
        return [np.array([stays, -1.0, reach]) for stays in shares for reach in reaches]

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return the parents' spots, or others near them or anywhere."""
        b = self._coded(parents)[:, 0].astype(np.intp)
        distance = _distances(self.spots, self.spots)
        result = np.array(parents, dtype=np.float64)
        for row in np.flatnonzero(rng.random(len(parents)) >= self.stays**k):
            p = self.marginal
            if rng.random() < self.near and b[row] >= 0 and len(self.spots) > 1:
                p = np.where(distance[b[row]] > 0, np.exp(-distance[b[row]] / self.reach), 0.0)
                p = p / p.sum() if p.sum() > 0 else self.marginal
            result[row] = self.spots[rng.choice(len(self.spots), p=p)]
        return result

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return spots drawn by their shares."""
        return np.asarray(self.spots[rng.choice(len(self.spots), size=n, p=self.marginal)])

    def quick(self, values: Array, generations: int, elapsed: float) -> Metric:
        """Return distances in reaches: nearer spots come first, which is all that is needed."""
        scaled = np.broadcast_to(values / self.reach, (generations, *values.shape))
        return Metric(scaled, scaled, np.zeros(generations))

    def describe(self) -> str:
        """Return how often a child is where its parent is, and how far others are."""
        return (
            f"a child is at its parent's spot with probability {self.stays:.3g}, "
            f"else at one about {self.reach:.3g} away with probability {self.near:.3g}"
        )


def _distances(some: Array, others: Array) -> Array:
    """Return the distance of each of some places to each of others (n, m)."""
    return np.asarray(np.linalg.norm(some[:, None] - others[None], axis=-1))

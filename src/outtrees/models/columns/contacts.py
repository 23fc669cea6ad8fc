"""Contacts: pairs of records that are known to have met, most of them without an infection."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from outtrees._common.types import Array
from outtrees.models.column import ColumnKernel, Index, Learned, Quantity, logit
from outtrees.models.priors import LogitBeta, Normal

_SPREAD = 2.0  # standard deviation of the logit of the share, beforehand, about 0
_PSEUDO = 0.5  # pairs with and without a contact, added to those that there are
_FIRST_SHARES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, eq=False)
class Contacts(ColumnKernel):
    """Reported contacts of one type between records.

    A pair has a contact with probability λ by chance, and, if one infected the other, with
    probability s for that reason: η = λ + (1 − λ) s = 1 − (1 − λ)(1 − s). Both are learned. Links
    beyond the first are neutral.

    The probability of the whole list given a tree is that of all pairs by chance, times one factor
    for each edge of the tree:

        log p(contacts | tree) = n log λ + (N − n) log(1 − λ)  +  Σ_edges log ratio
        log ratio = log η/λ  with a contact,  log (1 − η)/(1 − λ) = log(1 − s)  without,

    n of N pairs having one. Several types follow each other: pairs that have met in an earlier one
    are set aside in the later ones, so that lists which repeat each other count once, and N is
    smaller by their number. `log_steps` is the log ratio, and `log_common` the first sum, less its
    own highest value: 0 where nothing but chance makes contacts.

    The cells of this column are the records' numbers, as `key` counts them; NaN is neutral.

    Parameters
    ----------
    n_records : int
    key : array of shape (m,)
        child · n_records + parent of the ordered pairs with a contact, rising.
    n_met, n_pairs : float
        How many pairs have a contact, and how many there are.
    aside : array of shape (m',), optional
        Pairs that are neutral, as `key` counts them.
    """

    contrasted = False
    relative = True

    n_records: int = 0
    key: Any = field(default=None, repr=False)  # (m,)
    n_met: float = 0.0
    n_pairs: float = 1.0
    aside: Any = field(default=(), repr=False)  # (m',)
    _: KW_ONLY
    rate: float = 0.5  # λ
    share: float = 0.5  # s
    fixed: bool = False  # whether both stay as they are

    def start(self, values: Array) -> Self:
        """Return the kernel with the rate of all pairs, and a share of one half."""
        return replace(self, rate=(self.n_met + _PSEUDO) / (self.n_pairs + 2 * _PSEUDO), share=0.5)

    @property
    def known_pairs(self) -> tuple[Index, Index]:
        """Child and parent of all pairs with a contact."""
        key = np.asarray(self.key, dtype=np.intp)
        return key // self.n_records, key % self.n_records

    def pairs(
        self, children: Array, parents: Array, child: Index, parent: Index
    ) -> NDArray[np.int8]:
        """Return whether each edge has a contact, 1 or 0, and −1 where it is neutral (E,)."""
        u, v = children[child, 0], parents[parent, 0]
        known = ~(np.isnan(u) | np.isnan(v))
        wanted = u[known].astype(np.int64) * self.n_records + v[known].astype(np.int64)
        found = _among(wanted, self.key).astype(np.int8)
        found[_among(wanted, self.aside)] = -1
        result = np.full(len(child), -1, dtype=np.int8)
        result[known] = found
        return result

    @property
    def reported(self) -> float:
        """How probable a contact is if one infected the other, η."""
        return self.rate + (1.0 - self.rate) * self.share

    @property
    def log_ratios(self) -> Array:
        """The log ratio without a contact, and with one (2,)."""
        return np.array([np.log1p(-self.share), np.log(self.reported) - np.log(self.rate)])

    def log_steps(self, pairs: NDArray[np.int8], k: int, elapsed: Array | None = None) -> Array:
        """Return the log ratio of each edge (E,)."""
        if k > 1:
            return np.zeros(len(pairs))
        return np.asarray(np.append(self.log_ratios, 0.0)[pairs])  # the last serves −1

    def log_alone(self, values: Array) -> Array:
        """Return 0 for each record (n,): ratios are relative to records without a parent."""
        return np.zeros(len(values))

    def log_common(self) -> float:
        """Return the log-probability of all contacts by chance, less its highest value."""
        n, N = self.n_met, self.n_pairs

        def by_chance(rate: float) -> float:
            return float(xlogy(n, rate) + xlog1py(N - n, -rate))

        return by_chance(self.rate) - by_chance(n / N)

    def slopes_common(self) -> Array:
        """Return ∂/∂params of `log_common` (2,)."""
        by_rate = self.n_met - self.n_pairs * self.rate
        return np.empty(0) if self.fixed else np.array([by_rate, 0.0])

    def learned(self) -> list[Learned]:
        """Return the rate, beforehand half a pair with and without a contact, and the share."""
        if self.fixed:
            return []
        rate = Learned("rate", LogitBeta(_PSEUDO, _PSEUDO), "share")
        return [rate, Learned("share", Normal(0.0, _SPREAD), "share")]

    def slopes(
        self, pairs: NDArray[np.int8], weights: Array, elapsed: Array | None = None
    ) -> Array:
        """Return ∂/∂params of Σ weights · log_steps (2,)."""
        if self.fixed:
            return np.empty(0)
        without, met = (float(weights[0][pairs == code].sum()) for code in (0, 1))
        rate, share, reported = self.rate, self.share, self.reported
        by_rate = met * (1 - rate) * ((1 - share) * rate / reported - 1)
        by_share = met * (1 - rate) * share * (1 - share) / reported - without * share
        return np.array([by_rate, by_share])

    def start_grid(self) -> list[Array]:
        """Return the rate of all pairs, with few or many contacts of true pairs."""
        return [np.array([logit(self.rate), logit(share)]) for share in _FIRST_SHARES]

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return unknown numbers: contacts of records that do not exist are not drawn."""
        return np.full_like(parents, np.nan)

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return unknown numbers, likewise."""
        return np.full((n, 1), np.nan)

    def quantities(self) -> list[Quantity]:
        """Return how often true pairs and others have a contact."""
        return [Quantity("of true pairs", self.reported), Quantity("of others", self.rate)]

    def describe(self) -> str:
        """Return how often true pairs and others have a contact."""
        return (
            f"{self.reported:.0%} of true pairs and {100 * self.rate:.2g}% of others have one, "
            f"{self.reported / self.rate:.3g} times as many"
        )


def _among(wanted: NDArray[np.int64], keys: Any) -> NDArray[np.bool_]:
    """Return which numbers are among the keys, which rise."""
    ends = np.append(np.asarray(keys, dtype=np.int64), np.iinfo(np.int64).max)
    return np.asarray(ends[np.searchsorted(ends, wanted)] == wanted)

"""Substitution: aligned sequences whose sites change independently."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from outtrees._common.edges import chunks
from outtrees._common.types import Array
from outtrees.models.column import (
    ColumnKernel,
    Index,
    Quantity,
    differences,
    logit,
    share_of,
)
from outtrees.models.columns.similar import MISSING
from outtrees.models.columns.unknown_sites import UnknownSites
from outtrees.models.priors import LogitBeta, Normal, Prior
from outtrees.models.quick import Sites

_PRIOR_RATE = 3.0  # standard deviation of the log of the substitutions of one link
_CELLS_AT_ONCE = 20_000_000  # bytes compared at a time
# Columns of what `pairs` returns: numbers of sites by what child and parent show, and log p of
# those that only the child shows.
_SAME, _TRANSITION, _OTHER, _UNKNOWN = range(4)


@dataclass(frozen=True, eq=False)
class Substitution(ColumnKernel):
    """Sites that mutate independently at one learned rate, d = k·rate substitutions a site.

    With a clock d = (k + per_time·elapsed)·rate, as a walk widens (`Drift`).

    Parameters
    ----------
    levels : tuple of str
        The alphabet; cells hold positions in it. For K80 it is A, C, G, T, in this order.
    model : {"JC69", "K80"}
        "JC69": all changes are equally likely (for C letters, p(any change) =
        (C − 1)/C·(1 − exp(−C d/(C − 1)))). "K80" (A, C, G, T only): transitions (A↔G, C↔T) are
        `kappa` times as likely as each transversion; kappa is learned too.
    clock : bool
        Whether sites change the more the more time has passed.

    Notes
    -----
    A sequence without a parent, such as an introduced strain or an outlier, is taken to stem from
    an ancestor outside the table: each site differs from the commonest letter with a learned
    probability, `divergence`, beforehand that of the most divergent record. The product of the
    letters' frequencies would not do: descendants make their own ancestor's letters common, and
    every founder of a large branch would look like an introduction. (A branch that holds more than
    half of the records makes its own letters the commonest; its founder then looks like a root
    unless its parent is near.)

    Missing sites are integrated out one by one: unknown in the child, they pay nothing; known in
    the child only, they pay what the sequences most like the parent's show there.

    Examples
    --------
    >>> cells = np.array([[0.0, 1, 2, 3], [0.0, 1, 2, 2]])
    >>> kernel = Substitution(tuple("ACGT")).start(cells)
    >>> kernel.pairs(cells, cells, np.array([1]), np.array([0]))[0, :3]
    array([3., 0., 1.])
    """

    contrasted = False  # mutations are rare and their number is what teaches the rate

    levels: tuple[str, ...] = ("A", "C", "G", "T")
    model: str = "JC69"
    clock: bool = False
    _: KW_ONLY
    rate: float = 0.01  # substitutions a site and link
    per_time: float = 0.1  # links' worth of substitutions for each unit of time, with a clock
    kappa: float = 2.0
    common: Any = field(default=None, repr=False)  # (L,), the commonest letter of each site
    divergence: float = 0.1
    divergence_guess: float = 0.1
    n_sites: int = 1

    def __post_init__(self) -> None:
        if self.model not in ("JC69", "K80"):
            raise ValueError(
                f"Substitution expects model 'JC69' or 'K80'; got {self.model!r}. Choose one."
            )
        if len(self.levels) < 2:
            raise ValueError(
                f"Substitution expects an alphabet of at least two letters; got {self.levels}; "
                "sequences without any difference say nothing, leave that column out."
            )
        if self.model == "K80" and tuple(self.levels) != ("A", "C", "G", "T"):
            raise ValueError(
                f"K80 expects the letters A, C, G, T, but the alphabet is {self.levels}; use JC69."
            )

    def start(self, values: Array) -> Self:
        """Return the kernel whose rate is half of the mean distance between two records."""
        codes = _codes(values)
        counts = np.stack([(codes == letter).sum(axis=0) for letter in range(len(self.levels))])
        known = counts.sum(axis=0)
        # Two known cells of a site differ with probability 1 − Σ n(n − 1) / N(N − 1).
        pairs = np.maximum(known * (known - 1), 1)
        different = (1 - (counts * (counts - 1)).sum(axis=0) / pairs)[known > 1]
        distance = float(different.mean()) if len(different) else 0.0
        L = values.shape[1]
        found = replace(
            self,
            common=counts.argmax(axis=0).astype(np.uint8),
            rate=min(max(distance / 2, 0.5 / L), 0.5),
            kappa=2.0,
            n_sites=L,
        )
        # An introduced strain is taken to be about as far off as the records are among themselves.
        rare = ((codes != found.common) & (codes != MISSING)).sum(axis=1)
        share = float(rare.max()) / L
        guess = min(max(share, 5 / L), 0.49)
        return replace(found, divergence=guess, divergence_guess=guess)

    # What pairs show -----------------------------------------------------------------------

    def pairs(self, children: Array, parents: Array, child: Index, parent: Index) -> Array:
        """Return how many sites are the same, a transition, another change; log p of the rest.

        The rest are sites that were read in the child only; see `UnknownSites`.
        """
        return self.between(children, parents)(child, parent)

    def between(self, children: Array, parents: Array) -> Callable[[Index, Index], Array]:
        """Return the function of child and parent that `pairs` is for these sequences."""
        together = children is parents
        prepared = _prepared(children, parents, len(self.levels))
        return lambda child, parent: self._compared(prepared, together, child, parent)

    def _compared(self, prepared: _Prepared, together: bool, child: Index, parent: Index) -> Array:
        x, y, n_constant, unknown = prepared
        result = np.zeros((len(child), 4))
        result[:, _SAME] = n_constant
        for rows in _chunks(len(child), x.shape[1]):
            a, b = x[child[rows]], y[parent[rows]]
            both = (a != MISSING) & (b != MISSING)
            same = both & (a == b)
            result[rows, _SAME] += same.sum(axis=1)
            # A = 0, C = 1, G = 2, T = 3: the letters of a transition differ by two.
            transition = both & ((a ^ b) == 2) if self.model == "K80" else np.zeros_like(both)
            result[rows, _TRANSITION] = transition.sum(axis=1)
            result[rows, _OTHER] = (both & ~same & ~transition).sum(axis=1)
            own = child[rows] if together else None
            result[rows, _UNKNOWN] = unknown.log_letters(parent[rows], a, own)
        return result

    def _log_sites(self, links: float | Array, rate: float, kappa: float) -> Array:
        """Return log p of one site that is the same, a transition, or another change (3, …)."""
        d, C = links * rate, len(self.levels)
        if self.model == "JC69":
            change = -np.expm1(-C * d / (C - 1)) / C  # to one given letter
            return np.array([np.log1p(-(C - 1) * change), np.log(change), np.log(change)])
        slow = np.expm1(-4 * d / (kappa + 2))
        fast = np.expm1(-2 * d * (kappa + 1) / (kappa + 2))
        transition, transversion = (slow - 2 * fast) / 4, -slow / 4  # to one given letter
        same = np.log1p(-transition - 2 * transversion)
        return np.array([same, np.log(transition), np.log(transversion)])

    def log_steps(self, pairs: Array, k: int, elapsed: Array | None = None) -> Array:
        """Return log p(child's sites | parent's sites, k links apart) for each edge (E,)."""
        if self.clock and elapsed is not None:
            sites = self._log_sites(k + self.per_time * elapsed, self.rate, self.kappa)
            return np.asarray((pairs[:, :_UNKNOWN] * sites.T).sum(axis=1) + pairs[:, _UNKNOWN])
        sites = self._log_sites(k, self.rate, self.kappa)
        return pairs[:, :_UNKNOWN] @ sites + pairs[:, _UNKNOWN]

    def _log_letters(self) -> Array:
        q = self.divergence
        return np.log([1 - q, q / (len(self.levels) - 1)])

    def log_alone(self, values: Array) -> Array:
        """Return the log-density of sequences without a parent (n,)."""
        return self._common_and_rare(values) @ self._log_letters()

    def _common_and_rare(self, values: Array) -> Array:
        result = np.empty((len(values), 2))
        for rows in chunks(*values.shape):
            codes = _codes(values[rows])
            common = codes == self.common
            result[rows, 0] = common.sum(axis=1)
            result[rows, 1] = ((codes != MISSING) & ~common).sum(axis=1)
        return result

    # Learning ------------------------------------------------------------------------------

    @property
    def params(self) -> Array:
        """Logarithms of rate, kappa and the clock's rate, and the logit of the divergence."""
        own = [np.log(self.rate)] + [np.log(self.kappa)] * (self.model == "K80")
        own += [np.log(self.per_time)] * self.clock
        return np.array([*own, logit(2 * self.divergence)])

    def with_params(self, params: Array) -> Self:
        """Return the kernel with these parameters."""
        low, high = np.log(1e-9 / self.n_sites), np.log(50.0)  # beyond, numbers underflow
        kappa = self.kappa
        if self.model == "K80":
            kappa = float(np.exp(np.clip(params[1], np.log(1e-4), np.log(1e4))))
        per_time = float(np.exp(np.clip(params[-2], -30.0, 30.0))) if self.clock else self.per_time
        return replace(
            self,
            rate=float(np.exp(np.clip(params[0], low, high))),
            kappa=kappa,
            per_time=per_time,
            divergence=share_of(params[-1]) / 2,
        )

    def slopes(self, pairs: Array, weights: Array, elapsed: Array | None = None) -> Array:
        """Return ∂/∂params of Σ weights · log_steps: the sites that stay or change, weighted."""
        if self.clock and elapsed is not None:
            return differences(
                lambda kernel: sum(
                    float(w @ kernel.log_steps(pairs, k, elapsed))
                    for k, w in enumerate(weights, start=1)
                ),
                self,
            )
        K, totals = len(weights), weights @ pairs[:, :_UNKNOWN]  # (K, 3)

        def total(kernel: Self) -> float:
            sites = [kernel._log_sites(k, kernel.rate, kernel.kappa) for k in range(1, K + 1)]
            return float((totals * np.array(sites)).sum())

        return differences(total, self)

    def slopes_alone(self, values: Array, weights: Array) -> Array:
        """Return ∂/∂params of Σ weights · log_alone; only the divergence enters."""
        common, rare = weights @ self._common_and_rare(values)
        q = self.divergence
        slopes = np.zeros(len(self.params))
        slopes[-1] = (rare / q - common / (1 - q)) * q * (1 - 2 * q)
        return slopes

    def start_grid(self) -> list[Array]:
        """Return rates from one substitution in ten links up to that of two records at random."""
        now, lowest = self.params, np.log(0.1 / self.n_sites)
        rates = np.linspace(lowest, max(now[0], lowest + 1), 5)
        return [np.concatenate([[rate], now[1:]]) for rate in rates]

    def sample(self, parents: Array, k: int, rng: np.random.Generator) -> Array:
        """Return the parents' sequences after k links, as if no time had passed by the clock."""
        same, transition, _ = np.exp(self._log_sites(k, self.rate, self.kappa))
        C, draw = len(self.levels), rng.random(parents.shape)
        codes = parents.astype(np.int64)
        if self.model == "K80":
            transversion = (codes + rng.choice([1, 3], size=codes.shape)) % 4
            changed = np.where(draw < same + transition, codes ^ 2, transversion)
        else:
            changed = (codes + rng.integers(1, C, size=codes.shape)) % C
        return np.where(draw < same, codes, changed).astype(np.float64)

    def sample_alone(self, n: int, rng: np.random.Generator) -> Array:
        """Return sequences without a parent."""
        C = len(self.levels)
        shape = (n, len(self.common))
        rare = rng.random(shape) < self.divergence
        return ((self.common + rare * rng.integers(1, C, size=shape)) % C).astype(np.float64)

    def quick(self, values: Array, generations: int, elapsed: float) -> Sites:
        """Return the sites; a transition counts as any change, an unread one as the commonest.

        A clock counts as if the typical time had passed.
        """
        codes = _codes(values)
        constant = (codes == codes[:1]).all(axis=0) & (codes[0] != MISSING)
        logs = np.array(
            [
                self._log_sites(k + self.per_time * elapsed * self.clock, self.rate, self.kappa)
                for k in range(1, generations + 1)
            ]
        )
        known = max(int((codes != MISSING).sum()), 1)
        common = int((codes == self.common).sum())
        return Sites(
            codes[:, ~constant],
            logs[:, 0],
            logs[:, 1:].mean(axis=1),
            float(np.log(max(common, 1) / known)),
            logs[:, 0] * int(constant.sum()),
        )

    def priors(self) -> list[Prior]:
        """Return those of the rate, kappa, clock and divergence.

        About one substitution a link, within a factor of 20 by one standard deviation; kappa about
        2; an introduced strain is about as far off as the records are among themselves, which is
        worth as much as one sequence.
        """
        n, guess = self.n_sites, self.divergence_guess
        rate: list[Prior] = [Normal(-float(np.log(n)), _PRIOR_RATE)]
        kappa: list[Prior] = [Normal(float(np.log(2.0)), 1.0)] * (self.model == "K80")
        clock: list[Prior] = [Normal(float(np.log(0.1)), 3.0)] * self.clock  # as of a walk
        return [*rate, *kappa, *clock, LogitBeta(n * guess, n * (1 - 2 * guess) / 2)]

    def quantities(self) -> list[Quantity]:
        """Return the substitutions of a link, kappa, and the divergence of a root a site."""
        kappa = [Quantity("kappa", self.kappa)] * (self.model == "K80")
        rate = Quantity("substitutions", self.rate * self.n_sites, "a link")
        kappa += [Quantity("clock", self.per_time, "1/time")] * self.clock
        return [rate, *kappa, Quantity("divergence", self.divergence, "a site")]

    def describe(self) -> str:
        """Return the substitutions expected in one link."""
        text = f"{self.rate * self.n_sites:.3g} substitutions a link ({self.rate:.2g} a site)"
        if self.clock:
            text += f" and {self.rate * self.per_time * self.n_sites:.3g} a unit of time"
        if self.model == "K80":
            text += f", transitions {self.kappa:.3g} times as likely as a transversion"
        rare = self.divergence * self.n_sites
        return (
            text + f"; a sequence without a parent differs from the commonest at {rare:.3g} sites"
        )


class _Prepared(NamedTuple):
    """Sequences ready to be compared."""

    children: NDArray[np.uint8]  # (n, L'), without the sites at which all agree
    parents: NDArray[np.uint8]  # (m, L')
    n_constant: int
    unknown: UnknownSites


# The last long column of parents that was prepared, for children that are the same records and for
# others: a fit and the questions after it ask for it again and again, and finding out which
# sequences are similar takes longer than comparing pairs.
_last: dict[bool, tuple[weakref.ref[Array], int, _Prepared]] = {}
_LONG = 50_000  # cells


def _prepared(children: Array, parents: Array, n_letters: int) -> _Prepared:
    together = children is parents
    seen, letters, made = _last.get(together, (None, 0, None))
    if seen is not None and seen() is parents and letters == n_letters and made is not None:
        return made if together else made._replace(children=_codes(children))
    x, y = _codes(children), _codes(parents)
    constant = np.zeros(y.shape[1], dtype=bool)
    if together or parents.size < _LONG:
        # Sites where all records agree need not be compared pair by pair.
        constant = (x == x[:1]).all(axis=0) & (y == x[:1]).all(axis=0) & (x[0] != MISSING)
        x, y = x[:, ~constant], y[:, ~constant]
    n_constant = int(constant.sum())
    made = _Prepared(x, y, n_constant, UnknownSites(y, n_letters, n_constant))
    if parents.size >= _LONG:

        def forget(gone: weakref.ref[Array]) -> None:
            if _last.get(together, (None,))[0] is gone:
                del _last[together]

        _last[together] = weakref.ref(parents, forget), n_letters, made
    return made


def _codes(values: Array) -> NDArray[np.uint8]:
    return np.where(np.isnan(values), MISSING, values).astype(np.uint8)


def _chunks(n_edges: int, n_sites: int) -> Iterator[slice]:
    step = max(1, _CELLS_AT_ONCE // max(n_sites, 1))
    for low in range(0, n_edges, step):
        yield slice(low, low + step)

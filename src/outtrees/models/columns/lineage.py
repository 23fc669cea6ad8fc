"""Lineage: the columns of a table changing together along one tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from outtrees._common.edges import chunks
from outtrees._common.types import Array
from outtrees.models.column import ColumnKernel, Index, Quantity, logit, share_of
from outtrees.models.columns.background import (
    LARGEST_LOG,
    SHARES,
    Alone,
    Beside,
    Earlier,
    LineagePairs,
    Stretch,
    by_contacts,
)
from outtrees.models.columns.matrices import GivenWeights
from outtrees.models.columns.waiting import Waiting
from outtrees.models.priors import LogitBeta, Prior, log_dirichlet

# What an edge needs for a while, for each column and number of links.
_CELLS_OF_AN_EDGE = 4
# Pseudo-links that are outliers, and that are not. A contrasted column may say nothing at all; the
# cells of others are wrong now and then.
_OUTLIERS_CONTRASTED, _OUTLIERS = LogitBeta(0.3, 1.7), LogitBeta(0.2, 99.8)
_FIRST_CONTRASTED, _FIRST = 0.2, 0.002  # shares of outliers with which a fit starts
# Which share of the cells that do not follow a parent come from anywhere, and not from where the
# cells before were: beforehand, and at first.
_ANYWHERE, _FIRST_ANYWHERE = LogitBeta(0.5, 0.5), 0.5


class Background(NamedTuple):
    """Densities without a parent, for the present parameters."""

    log_alone: tuple[Array, ...]  # (n,) for each column
    # ∂ log_alone / ∂ logit a_c (n,), of the columns of which only likeness beyond it counts
    slopes: tuple[Array | None, ...]
    # What was computed already, by list, stretch, column and links.
    known: dict[tuple[int, int, int, int], Any] | None

    def is_relative(self, c: int) -> bool:
        """Return whether only likeness beyond the density without a parent counts in column c."""
        return self.slopes[c] is not None


@dataclass(frozen=True, eq=False)
class Lineage:
    """How all columns change together from parent to child, over k ≤ generations links.

        q_k(u, v) = Π_c [(1 − ε_c) p_c(x_u | x_v, k links) + ε_c g_c(x_u)]

    Columns change independently given the parent and the number of links; links beyond the first
    stand for ancestors that no record shows. Each column c has a background g_c, its density
    without a parent, so that an outlying cell costs a bounded amount, and a column that does not
    follow the tree at all is recognised by ε_c near 1.

    Where a table has dates, likeness to the parent counts only as far as it goes beyond likeness to
    all earlier records. With w over the records before u, and h_c a kernel that is chosen
    beforehand (`with_backgrounds`),

        ĝ_c(x_u) = b_c h_c(x_u) + (1 − b_c) mean_w h_c(x_u | x_w),
        g_c(x_u) = a_c h_c(x_u) + (1 − a_c) ĝ_c(x_u)    and the weight of an edge is
        Σ_k w_k f_k(u, v) q_k(u, v) / Π_c g_c(x_u),

    f_k being the waiting time's probability. ĝ_c predicts a cell from all cells before it, as
    flexibly as parents do, so that towns and families do not make near records look like parents:
    these would serve as a density estimate otherwise. Only cells before u enter, so that
    Π_u ĝ_c(x_u) is a probability of the whole column, as that of any tree is, and the two can be
    compared. (With the cells after u, ĝ_c would see the children of u, and be preferred to the
    truth.) What a column gains is counted against it. The share b_c of new cells falls with the
    number of w. Cells of roots and outliers come from anywhere (h_c) with a learned chance a_c,
    else as ĝ_c predicts them: where households are repeated because of descent alone, whoever was
    not infected at home brings a new household, and a_c is near 1.

    Sequences, contacts and given weights are not contrasted in this way; where contacts are known,
    w counts by their ratio r(u, w) in the mean, so that likeness counts beyond that to all who met
    u as much as v did. Without dates nothing but the tree's form could tell parents from others;
    there q_k is a density, and g_c the column's own.

    Once fitted, a column may count with another exponent: its factor [...]^λ_c. Such weights are
    not densities, and no fit uses them; see `outtrees.ancestry.calibration`.

    Parameters
    ----------
    kernels : sequence of ColumnKernel
    generations : int
        The largest number of links from a record to its parent record.
    background : bool
        Whether columns have a background component.
    """

    kernels: Sequence[ColumnKernel] = ()
    generations: int = 1
    background: bool = True
    _: KW_ONLY
    step_weights: Any = field(default=None, repr=False)  # (K,)
    outlier_shares: Any = field(default=None, repr=False)  # (C,), ε; 1: the column is left out
    exponents: Any = field(default=None, repr=False)  # (C,), λ; None: 1 for all
    backgrounds: Any = field(default=None, repr=False)  # (C,) of `Alone`, or None
    anywhere: Any = field(default=None, repr=False)  # (C,), a

    def start(self, values: Sequence[Array]) -> Self:
        """Return the lineage with starting parameters for columns of cells (T, D_c)."""
        kernels = _sharing(
            tuple(k.start(v) for k, v in zip(self.kernels, values, strict=True)), values
        )
        K = self.generations
        weights = np.full(K, 0.1 / max(K - 1, 1))
        weights[0] = 1.0 if K == 1 else 0.9
        dated = any(isinstance(kernel, Waiting) for kernel in kernels)
        shares = np.zeros(len(kernels))
        for c, kernel in enumerate(kernels):
            compared = dated and kernel.contrasted
            if self._has_background(kernel) and not (compared and kernel.from_background):
                shares[c] = _FIRST_CONTRASTED if compared else _FIRST
        return replace(
            self,
            kernels=kernels,
            step_weights=weights,
            outlier_shares=shares,
            exponents=None,
            backgrounds=None,
            anywhere=np.full(len(kernels), _FIRST_ANYWHERE),
        )

    def _has_background(self, kernel: ColumnKernel) -> bool:
        if kernel.relative or isinstance(kernel, GivenWeights):
            return False
        if isinstance(kernel, Waiting) and kernel.strict:
            return False
        return self.background

    @property
    def dates(self) -> int | None:
        """Which column holds the dates, None if there is none."""
        found = [c for c, kernel in enumerate(self.kernels) if isinstance(kernel, Waiting)]
        return found[-1] if found else None

    def _owner(self, c: int) -> int:
        """Return the column that holds the parameters of this one."""
        if not self.kernels[c].follows_dates:
            return c
        assert self.dates is not None  # kernels that follow dates come with them
        return self.dates

    @property
    def contrasted(self) -> tuple[int, ...]:
        """The columns of which only likeness beyond that to all records counts."""
        if self.dates is None:
            return ()
        return tuple(c for c in self.used if self.kernels[c].contrasted)

    @property
    def optional(self) -> tuple[int, ...]:
        """The columns that can do without: contrasted ones, and ratios such as contacts."""
        return tuple(
            sorted({*self.contrasted, *(c for c in self.used if self.kernels[c].relative)})
        )

    @cached_property
    def used(self) -> tuple[int, ...]:
        """The columns that take part."""
        if self.outlier_shares is None:
            return tuple(range(len(self.kernels)))
        return tuple(c for c, share in enumerate(self.outlier_shares) if share < 1)

    @property
    def _left_out(self) -> set[int]:
        return set(range(len(self.kernels))) - set(self.used)

    def with_kernel(self, c: int, kernel: ColumnKernel) -> Self:
        """Return the lineage in which another kernel changes column c."""
        return replace(self, kernels=(*self.kernels[:c], kernel, *self.kernels[c + 1 :]))

    def without(self, column: int) -> Self:
        """Return the lineage in which a column does not count."""
        shares = np.array(self.outlier_shares, dtype=np.float64)
        shares[column] = 1.0
        return replace(self, outlier_shares=shares)

    # Pairs ---------------------------------------------------------------------------------

    def pairs(
        self,
        children: Sequence[Array],  # one (n, D_c) for each column
        parents: Sequence[Array],  # one (m, D_c) for each column
        child: Index,  # (E,)
        parent: Index,  # (E,)
    ) -> LineagePairs:
        """Return what the parameters do not change, for each possible edge."""
        kernels = list(zip(self.kernels, children, parents, strict=True))
        pairs = [kernel.between(c, p) for kernel, c, p in kernels]
        dates = [(k, c, p) for k, c, p in kernels if isinstance(k, Waiting)]
        stretches = []
        for rows in chunks(len(child), _CELLS_OF_AN_EDGE * max(self.generations * len(pairs), 1)):
            ends = child[rows], parent[rows]
            columns = tuple(made(*ends) for made in pairs)
            elapsed = [k.elapsed(c, p, *ends) for k, c, p in dates[-1:]]
            stretches.append(Stretch(rows, columns, elapsed[0] if elapsed else None))
        return LineagePairs(tuple(stretches), tuple(children), child, parent)

    # Log-weights ---------------------------------------------------------------------------

    def compared(
        self,
        values: Sequence[Array],
        backgrounds: Mapping[int, tuple[Array, Array]] | None = None,
        *,
        remember: bool = False,
    ) -> Background:
        """Return the densities without a parent of the cells (n, D_c) of some records.

        `backgrounds` are those of the contrasted columns (`log_backgrounds`). With `remember`,
        log-probabilities are kept for whoever asks again with this background, which takes memory
        for columns × links × edges.
        """
        given = backgrounds or {}
        logs: list[Array] = []
        slopes: list[Array | None] = []
        for c, (kernel, x) in enumerate(zip(self.kernels, values, strict=True)):
            if c not in given:
                logs.append(kernel.log_alone(x))
                slopes.append(None)
                continue
            base, predicted = given[c]
            log_g = self.log_mixed(c, base, predicted)
            a = self.anywhere[c]
            logs.append(log_g)
            slopes.append(a * (1 - a) * (np.exp(base - log_g) - np.exp(predicted - log_g)))
        return Background(tuple(logs), tuple(slopes), {} if remember else None)

    def log_mixed(self, c: int, log_base: Array, log_predicted: Array) -> Array:
        """Return log g_c (n,) by log h_c and log ĝ_c."""
        a = self.anywhere[c]
        return np.logaddexp(np.log(a) + log_base, np.log1p(-a) + log_predicted)

    def log_backgrounds(
        self, values: Sequence[Array], earlier: Earlier
    ) -> dict[int, tuple[Array, Array]]:
        """Return log h_c and log ĝ_c (n,) of contrasted columns; no parameter changes them."""
        found = {}
        earlier = by_contacts(earlier, self.backgrounds)
        for c in self.contrasted:
            alone = self.backgrounds[c]
            if alone is None:  # left out when backgrounds were chosen
                continue
            beside = Beside(values[c], earlier, c)
            base = beside.base(alone.kernel)
            near = beside.near(alone.kernel, base)
            found[c] = base.log_density, alone.log_density(base, *near)
        return found

    def with_backgrounds(
        self, values: Sequence[Array], earlier: Earlier, columns: Sequence[int] | None = None
    ) -> Self:
        """Return the lineage with the backgrounds that predict cells best from those before.

        Of each contrasted column, or of those given: the kernel of its kind, fitted from the best
        of several starts, and the share of cells that follow none before.
        """
        found: list[Alone | None] = [
            Alone(kernel, 0.0, 0.0) if kernel.relative else None for kernel in self.kernels
        ]
        earlier = by_contacts(earlier, found)
        if columns is not None:
            found = list(self.backgrounds)
        for c in self.contrasted if columns is None else columns:
            found[c] = Beside(values[c], earlier, c).best(self.kernels[c].background_grid())
        return replace(self, backgrounds=tuple(found))

    def log_any_parent(self, background: Background, earlier: Earlier) -> float:
        """Return log Π_u of Σ q(u, w) / g(u) over all w before u alike, or none of them.

        At one link, relative to the background; the share of records that follow none before is
        the best of several.
        """
        pairs = earlier.pairs
        met = [c for c in self.used if self.kernels[c].relative]
        one = replace(self, generations=1, exponents=None)
        weight = earlier.weight * np.exp(one.log_links(pairs, background, met)[0])
        logs = one.log_links(pairs, background, self.contrasted)[0]
        n, rows = len(background.log_alone[0]), np.unique(pairs.child)
        total = np.bincount(pairs.child, weight, minlength=n)[rows]
        near = np.bincount(pairs.child, weight * np.exp(logs), minlength=n)[rows] / total
        number = np.bincount(pairs.child, earlier.weight, minlength=n)[rows].astype(float)
        shares = [Alone(self.kernels[0], *both).new(number) for both in SHARES]
        return max(float(np.log(new + (1 - new) * near).sum()) for new in shares)

    def log_steps(
        self,
        pairs: LineagePairs,
        stretch: Stretch,
        background: Background,
        c: int,
        k: int,
    ) -> Array:
        """Return log p_c(child | parent) at k links (n,), less log g_c where that is relative."""
        kernel = self.kernels[c]
        if not background.is_relative(c):
            return kernel.log_steps(stretch.columns[c], k, stretch.elapsed)
        alone = background.log_alone[c][pairs.child[stretch.rows]]
        follows = kernel.log_relative(stretch.columns[c], k, stretch.elapsed, alone)
        follows[kernel.unknown_parents(stretch.columns[c])] = 0.0
        return follows

    def _two_ways(
        self, pairs: LineagePairs, stretch: Stretch, background: Background, c: int, k: int
    ) -> tuple[Array, Array]:
        """Return the chance that a cell follows its parent, and log p of that or the background.

        At k links. The log of contrasted columns is relative to the density without a parent.
        """
        key = id(pairs), stretch.rows.start, c, k
        if background.known is not None and key in background.known:
            two: tuple[Array, Array] = background.known[key]
            return two
        two = self._two_ways_afresh(pairs, stretch, background, c, k)
        if background.known is not None:
            background.known[key] = two
        return two

    def _two_ways_afresh(
        self, pairs: LineagePairs, stretch: Stretch, background: Background, c: int, k: int
    ) -> tuple[Array, Array]:
        share = self.outlier_shares[c]
        follows = self.log_steps(pairs, stretch, background, c, k)
        if share == 0:
            return np.ones_like(follows), follows
        if not background.is_relative(c):
            alone = background.log_alone[c][pairs.child[stretch.rows]]
            follows = follows + np.log1p(-share)
            either = np.logaddexp(follows, alone + np.log(share))
            with np.errstate(invalid="ignore"):  # what is impossible both ways has no chance
                return np.nan_to_num(np.exp(follows - either)), either
        # Without logarithms as far as numbers reach: logaddexp takes four times as long.
        ratio = (1 - share) * np.exp(np.minimum(follows, LARGEST_LOG))
        either = ratio + share
        chance = ratio / either
        np.log(either, out=either)
        far = follows > LARGEST_LOG
        if far.any():
            chance[far], either[far] = 1.0, follows[far] + np.log1p(-share)
        return chance, either

    def _log_column(
        self, pairs: LineagePairs, stretch: Stretch, background: Background, c: int, k: int
    ) -> Array:
        """Return log p of column c at k links, background included, to its exponent."""
        either = self._two_ways(pairs, stretch, background, c, k)[1]
        return either if self.exponents is None else self.exponents[c] * either

    def log_columns(self, pairs: LineagePairs, background: Background, k: int) -> Array:
        """Return log p of each column and edge at k links, background included (C, E)."""
        result = np.zeros((len(self.kernels), len(pairs.child)))
        for stretch in pairs.stretches:
            for c in self.used:
                result[c, stretch.rows] = self._log_column(pairs, stretch, background, c, k)
        return result

    def log_links(
        self, pairs: LineagePairs, background: Background, columns: Sequence[int] | None = None
    ) -> Array:
        """Return log Π of these columns (all if not given) at each number of links (K, E)."""
        chosen = self.used if columns is None else columns
        result = np.zeros((self.generations, len(pairs.child)))
        for stretch in pairs.stretches:
            for k in range(self.generations):
                for c in chosen:
                    result[k, stretch.rows] += self._log_column(
                        pairs, stretch, background, c, k + 1
                    )
        return result

    def log_beta(self, pairs: LineagePairs, background: Background) -> Array:
        """Return the log-weight of each edge (E,)."""
        links = self.log_links(pairs, background)
        return log_sum_of_links(links + self.log_step_weights[:, None])

    def log_waits(self, pairs: LineagePairs, background: Background) -> Array:
        """Return the log-weight that dates alone give each edge (E,), 0 without dates."""
        columns = [] if self.dates is None else [self.dates]
        links = self.log_links(pairs, background, columns)
        return log_sum_of_links(links + self.log_step_weights[:, None])

    @property
    def log_step_weights(self) -> Array:
        """The logarithms of the weights of 1, 2, … links (K,)."""
        with np.errstate(divide="ignore"):
            return np.log(self.step_weights)

    def log_root(self, background: Background) -> Array:
        """Return the log-density of each record without a parent (n,)."""
        return np.asarray(self.log_alone(background).sum(axis=0))

    def log_alone(self, background: Background) -> Array:
        """Return the log-density of each column of records without a parent (C, n).

        That of contrasted columns and of dates is 0: there a root is what an edge is compared with.
        """
        aside = {*self.contrasted, self.dates, *self._left_out}
        logs = enumerate(background.log_alone)
        rows = [np.zeros_like(row) if c in aside else row for c, row in logs]
        if self.exponents is not None:
            rows = [power * row for power, row in zip(self.exponents, rows, strict=True)]
        return np.array(rows)

    # Learning ------------------------------------------------------------------------------

    @property
    def params(self) -> Array:
        """All that is learned, without constraints: kernels, shares, weights of links."""
        links = self.log_step_weights[1:] - self.log_step_weights[0]
        return np.concatenate(
            [*(self.kernels[c].params for c in self.used), self._share_params, links]
        )

    @property
    def columns_of_params(self) -> Index:
        """The column that each of `params` belongs to, −1 of the weights of links (P,)."""
        own = [[c] * len(self.kernels[c].params) for c in self.used]
        links = [-1] * (self.generations - 1)
        found = [*(c for part in own for c in part), *self._shared, *self._mixed, *links]
        return np.array(found, dtype=np.intp)

    @property
    def _share_params(self) -> Array:
        """The shares of outliers and of cells from anywhere that are learned, as logits."""
        outliers = [logit(self.outlier_shares[c]) for c in self._shared]
        return np.array([*outliers, *(logit(self.anywhere[c]) for c in self._mixed)])

    @property
    def _mixed(self) -> list[int]:
        """The columns whose share of cells from anywhere is learned."""
        return [] if self.backgrounds is None else list(self.contrasted)

    @property
    def _shared(self) -> list[int]:
        """The columns whose share of outliers is learned."""
        return [c for c in self.used if self.outlier_shares[c] > 0]

    def with_params(self, params: Array) -> Self:
        """Return the lineage with these parameters."""
        sizes = [len(self.kernels[c].params) for c in self.used]
        *parts, own_shares, mixed, links = np.split(
            np.asarray(params, dtype=np.float64),
            np.cumsum([*sizes, len(self._shared), len(self._mixed)]),
        )
        kernels, shares = list(self.kernels), np.array(self.outlier_shares, dtype=np.float64)
        anywhere = np.array(self.anywhere, dtype=np.float64)
        for c, part in zip(self.used, parts, strict=True):
            kernels[c] = kernels[c].with_params(part)
        for c in self.used:
            if kernels[c].follows_dates:
                kernels[c] = kernels[c].following(kernels[self._owner(c)])
        shares[self._shared] = [share_of(value) for value in own_shares]
        anywhere[self._mixed] = [share_of(value) for value in mixed]
        logs = np.array([0.0, *links])
        return replace(
            self,
            kernels=tuple(kernels),
            outlier_shares=shares,
            anywhere=anywhere,
            step_weights=np.exp(logs - logsumexp(logs)),
        )

    def slopes(
        self,
        pairs: LineagePairs,
        weights: Array,  # (K, E), may be negative
        background: Background,
        columns: Sequence[int] | None = None,
    ) -> Array:
        """Return ∂/∂params of Σ weights · log_links(pairs, background, columns).

        The weights of links are left out: see `slopes_of_links`.
        """
        chosen = self.used if columns is None else columns
        kernels = {c: np.zeros(len(self.kernels[c].params)) for c in self.used}
        shares, anywhere = np.zeros(len(self.kernels)), np.zeros(len(self.kernels))
        K, n = self.generations, len(pairs.children[0])
        for c in chosen:
            kernel, alone = self.kernels[c], np.zeros(n)
            if not (len(kernels[self._owner(c)]) or c in self._shared or c in self._mixed):
                continue  # nothing to learn
            for stretch in pairs.stretches:
                here, cells = weights[:, stretch.rows], stretch.columns[c]
                follow = here * [
                    self._two_ways(pairs, stretch, background, c, k + 1)[0] for k in range(K)
                ]
                child = pairs.child[stretch.rows]
                if self.outlier_shares[c] > 0:
                    total = float(here.sum())
                    shares[c] += total - float(follow.sum()) - self.outlier_shares[c] * total
                slope = background.slopes[c]
                if slope is not None:
                    follow[:, kernel.unknown_parents(cells)] = 0.0
                    log_g = background.log_alone[c][child]
                    kernels[self._owner(c)] += kernel.slopes_relative(
                        cells, follow, stretch.elapsed, log_g
                    )
                    by_g = kernel.slopes_of_alone(cells, follow, log_g)
                    anywhere[c] += float(by_g @ slope[child])
                    continue
                kernels[self._owner(c)] += kernel.slopes(cells, follow, stretch.elapsed)
                alone += np.bincount(child, (here - follow).sum(axis=0), minlength=n)
            if not background.is_relative(c):
                kernels[self._owner(c)] += kernel.slopes_alone(pairs.children[c], alone)
        rest = np.zeros(self.generations - 1)
        own = shares[self._shared], anywhere[self._mixed]
        return np.concatenate([*kernels.values(), *own, rest])

    def slopes_of_background(self, background: Background, rows: Any) -> Array:
        """Return ∂/∂params of Σ log g_c over these records and contrasted columns (P,)."""
        result = np.zeros(len(self.params))
        first = len(result) - (self.generations - 1) - len(self._mixed)
        for i, c in enumerate(self._mixed):
            slope = background.slopes[c]
            if slope is not None:
                result[first + i] = float(slope[rows].sum())
        return result

    def slopes_of_roots(self, values: Sequence[Array], weights: Array) -> Array:
        """Return ∂/∂params of Σ weights · log_root (P,); weights (n,)."""
        aside = {*self.contrasted, self.dates}
        kernels = {c: np.zeros(len(self.kernels[c].params)) for c in self.used}
        for c in self.used:
            if c not in aside:
                kernels[self._owner(c)] += self.kernels[c].slopes_alone(values[c], weights)
        rest = len(self.params) - sum(map(len, kernels.values()))
        return np.concatenate([*kernels.values(), np.zeros(rest)])

    def log_common(self) -> float:
        """Return the log-probability of what no tree changes: contacts by chance."""
        return sum(self.kernels[c].log_common() for c in self.used)

    def slopes_common(self) -> Array:
        """Return ∂/∂params of `log_common` (P,)."""
        kernels = [self.kernels[c].slopes_common() for c in self.used]
        rest = len(self.params) - sum(map(len, kernels))
        return np.concatenate([*kernels, np.zeros(rest)])

    def slopes_of_links(self, by_links: Array) -> Array:
        """Return ∂/∂params of Σ by_links · log step_weights (P,); by_links (K,)."""
        result = np.zeros(len(self.params))
        if self.generations > 1:
            slopes = by_links - by_links.sum() * self.step_weights
            result[-(self.generations - 1) :] = slopes[1:]
        return result

    def log_prior(self) -> float:
        """Return the log prior density of all parameters."""
        pairs = zip(self._share_priors, self._share_params, strict=True)
        value = sum(prior.log_density(float(x)) for prior, x in pairs)
        if self.generations > 1:
            value += log_dirichlet(self.log_step_weights, self._link_prior)
        return float(value + sum(self.kernels[c].log_prior() for c in self.used))

    def priors(self) -> list[Prior | None]:
        """Return the prior of each of `params`, None where it is not one of a single parameter."""
        result: list[Prior | None] = []
        for c in self.used:
            kernel = self.kernels[c]
            own = type(kernel).log_prior is not ColumnKernel.log_prior
            if own and not isinstance(kernel, Waiting):
                result += [None] * len(kernel.params)
            else:
                result += kernel.priors()
        return [*result, *self._share_priors, *[None] * (self.generations - 1)]

    @property
    def _share_priors(self) -> list[LogitBeta]:
        """Those of `_share_params`."""
        contrasted = self.contrasted
        outliers = [_OUTLIERS_CONTRASTED if c in contrasted else _OUTLIERS for c in self._shared]
        return [*outliers, *[_ANYWHERE] * len(self._mixed)]

    @property
    def _link_prior(self) -> Array:
        """Pseudo-links of one, two, … steps: one of a single step, half a one of all others."""
        rest = max(self.generations - 1, 1)
        return np.array([1.0, *[0.5 / rest] * (self.generations - 1)])

    def prior_slopes(self) -> Array:
        """Return ∂/∂params of `log_prior` (P,)."""
        shares = self._share_params
        result = self.slopes_of_links(self._link_prior)
        n = sum(len(self.kernels[c].params) for c in self.used)
        result[:n] += np.concatenate(
            [np.empty(0), *(self.kernels[c].prior_slopes() for c in self.used)]
        )
        pairs = zip(self._share_priors, shares, strict=True)
        result[n : n + len(shares)] += [prior.slope(float(x)) for prior, x in pairs]
        return result

    def quantities(self) -> list[tuple[int | None, Quantity]]:
        """Return the parameters as people state them, with the column they belong to."""
        result: list[tuple[int | None, Quantity]] = []
        for c in self.used:
            result += [(c, quantity) for quantity in self.kernels[c].quantities()]
            if c in self._shared:
                result.append((c, Quantity("outliers", float(self.outlier_shares[c]))))
            if c in self._mixed:
                result.append((c, Quantity("from anywhere", float(self.anywhere[c]))))
        for k, weight in enumerate(self.step_weights, start=1):
            if self.generations > 1:
                result.append((None, Quantity(f"{k} links", float(weight))))
        return result

    # Samples -------------------------------------------------------------------------------

    def sample(self, parents: Sequence[Array], rng: np.random.Generator) -> list[Array]:
        """Return one child for each parent, as columns of cells; outliers are not drawn."""
        n = len(parents[0])
        links = rng.choice(self.generations, size=n, p=self.step_weights) + 1
        result = [np.empty_like(cells) for cells in parents]
        for k in np.unique(links):
            rows = links == k
            for c, kernel in enumerate(self.kernels):
                result[c][rows] = kernel.sample(parents[c][rows], int(k), rng)
        return result

    def sample_alone(self, n: int, rng: np.random.Generator) -> list[Array]:
        """Return n records without a parent, as columns of cells."""
        return [kernel.sample_alone(n, rng) for kernel in self.kernels]


def _sharing(kernels: tuple[Any, ...], values: Sequence[Array]) -> tuple[Any, ...]:
    """Return the kernels, those that follow the dates with the parameters of that column."""
    followers = [c for c, kernel in enumerate(kernels) if kernel.follows_dates]
    if not followers:
        return kernels
    found = list(kernels)
    dates = next(c for c, kernel in enumerate(kernels) if isinstance(kernel, Waiting))
    for c in followers:
        rate = found[c].first_rate(values[c], found[dates])
        found[dates] = found[dates].with_sequences(rate)
    for c in followers:
        found[c] = found[c].following(found[dates])
    return tuple(found)


def log_sum_of_links(links: Array) -> Array:
    """Return log Σ_k exp(links) (E,) of (K, E)."""
    return links[0] if len(links) == 1 else np.asarray(logsumexp(links, axis=0))


def order_by_cells(values: Sequence[Array]) -> Index:
    """Return an order of the records that does not depend on the one they are in."""
    keys: list[Array] = []
    for cells in values:
        # Sequences: one number for all sites.
        keys += list(cells.T) if cells.shape[1] <= _FEW_CELLS else [_mixed(cells)]
    return np.lexsort(keys[::-1])


def sample_by_cells(values: Sequence[Array], most: int) -> Index:
    """Return at most so many records, chosen by their cells: their order does not matter."""
    if most >= len(values[0]):
        return np.arange(len(values[0]))
    # A mix of all cells that nothing in the table follows: the fraction of a large multiple.
    mixed = 1e5 * sum(_mixed(cells, 0.1 * c) for c, cells in enumerate(values))
    order = np.lexsort([values[0][:, 0], mixed - np.floor(mixed)])
    return np.sort(order[:most])


_FEW_CELLS = 4


def _mixed(cells: Array, more: float = 0.0) -> Array:
    """Return one number for the cells of each record (n,)."""
    weights = np.sin(1e3 * (1.0 + more + np.arange(cells.shape[1])))
    return np.round(np.nan_to_num(cells, nan=-1.0) @ weights, 6)

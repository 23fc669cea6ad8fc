"""Lineage: the columns of a table changing together along one tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from outtrees._common.types import Array
from outtrees.models.column import ColumnKernel, Index, Quantity, logit, share_of
from outtrees.models.columns.matrices import GivenWeights
from outtrees.models.columns.waiting import Waiting
from outtrees.models.edges import chunks
from outtrees.models.priors import LogitBeta, log_dirichlet

# What an edge needs for a while, for each column and number of links.
_CELLS_OF_AN_EDGE = 4
# Pseudo-links that are outliers, and that are not. A contrasted column may say nothing at all; the
# cells of others are wrong now and then.
_OUTLIERS_CONTRASTED, _OUTLIERS = LogitBeta(0.5, 0.5), LogitBeta(0.2, 99.8)
_FIRST_CONTRASTED, _FIRST = 0.2, 0.002  # shares of outliers with which a fit starts
_LARGEST_LOG = 600.0  # its exponential, times a few records, is a double


class Stretch(NamedTuple):
    """What the parameters do not change, for some edges that follow each other in the list."""

    rows: slice  # where they stand
    columns: tuple[Any, ...]  # what each column's kernel made of them
    elapsed: Array | None  # (n,), time from parent to child


class LineagePairs(NamedTuple):
    """What the parameters do not change, for a list of E possible edges.

    In stretches, so that sums over the list need memory for the columns and links of one stretch
    only.
    """

    stretches: tuple[Stretch, ...]
    children: tuple[Array, ...]  # the cells of each column (n, D_c)
    child: Index  # (E,)
    parent: Index  # (E,)


class Background(NamedTuple):
    """Densities without a parent, for the present parameters."""

    log_alone: tuple[Array, ...]  # (K, n) for each column
    contrast: LineagePairs | None  # of each record and those that it is compared with
    shares: tuple[Array | None, ...]  # (K, E') of each such pair in its record's mean
    # What was computed already, by list, stretch, column and links.
    known: dict[tuple[int, int, int, int], Any] | None


@dataclass(frozen=True, eq=False)
class Lineage:
    """How all columns change together from parent to child, over k ≤ generations links.

        q_k(u, v) = Π_c [(1 − ε_c) p_c(x_u | x_v, k links) + ε_c g_c(x_u)]

    Columns change independently given the parent and the number of links; links beyond the first
    stand for ancestors that no record shows. Each column c has a background g_c, its density
    without a parent, so that an outlying cell costs a bounded amount, and a column that does not
    follow the tree at all is recognised by ε_c near 1.

    Where a table has dates, likeness to the parent counts only as far as it goes beyond likeness to
    all records. With w over all other records,

        g_c(x_u) = mean_w p_c(x_u | x_w)    and the weight of an edge is
        Σ_k w_k f_k(u, v) q_k(u, v) / mean_w q_k(u, w),

    f_k being the waiting time's probability. The first mean is a leave-one-out kernel density of
    the column at its own learned resolution, as flexible as the parents are. The second is one of
    all these columns together. Without them, towns, families and columns that repeat each other
    make near records look like parents, because parents would serve as a density estimate.
    Where contacts are known, their ratio r(u, v) counts in full (`Contacts`), and the second mean
    is Σ_w r(u, w) q_k(u, w) / Σ_w r(u, w): likeness beyond that to all who met u as much as v did.
    Sequences and given weights are not contrasted in this way. Without dates nothing but the
    tree's form could tell parents from others; there q_k is a density, and g_c the column's own.

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
            if self._has_background(kernel):
                shares[c] = _FIRST_CONTRASTED if dated and kernel.contrasted else _FIRST
        return replace(
            self, kernels=kernels, step_weights=weights, outlier_shares=shares, exponents=None
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
        return tuple(sorted({*self.contrasted, *self._ratios}))

    @property
    def _ratios(self) -> list[int]:
        return [c for c in self.used if self.kernels[c].relative]

    @property
    def joint(self) -> tuple[int, ...]:
        """The columns in which each record is compared with all others at once.

        Contrasted columns, and contacts beside them: a household's members are alike, and they
        meet, so one is evidence only beyond the other. Contacts by themselves need no comparison.
        """
        return self.optional if self.contrasted else ()

    @property
    def in_full(self) -> list[int]:
        """The columns of contacts beside contrasted ones, which count given these."""
        return self._ratios if self.contrasted else []

    @property
    def used(self) -> tuple[int, ...]:
        """The columns that take part."""
        if self.outlier_shares is None:
            return tuple(range(len(self.kernels)))
        return tuple(c for c, share in enumerate(self.outlier_shares) if share < 1)

    @property
    def _left_out(self) -> set[int]:
        return set(range(len(self.kernels))) - set(self.used)

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
        contrast: LineagePairs | None = None,
        *,
        remember: bool = False,
    ) -> Background:
        """Return the densities without a parent of the cells (n, D_c) of some records.

        `contrast` holds the pairs of each of these records and those that it is compared with.
        With `remember`, log-probabilities are kept for whoever asks again with this background,
        which takes memory for columns × links × edges.
        """
        known: dict[tuple[int, int, int, int], Any] | None = {} if remember else None
        K = self.generations
        alone: list[Array] = []
        shares: list[Array | None] = []
        for c, (kernel, cells) in enumerate(zip(self.kernels, values, strict=True)):
            if contrast is None or c not in self.contrasted:
                alone.append(np.tile(kernel.log_alone(cells), (K, 1)))
                shares.append(None)
                continue
            means, parts = log_means_and_shares(
                self._log_kernels(contrast, c, known), contrast.child, len(cells)
            )
            alone.append(means)
            shares.append(parts)
        return Background(tuple(alone), contrast, tuple(shares), known)

    def _log_steps(
        self,
        pairs: LineagePairs,
        stretch: Stretch,
        c: int,
        k: int,
        known: dict[tuple[int, int, int, int], Any] | None,
    ) -> Array:
        """Return log p_c(child | parent) at k links (n,), from memory if it is there."""
        key = id(pairs), stretch.rows.start, c, k
        if known is not None and key in known:
            return np.asarray(known[key])
        found = self.kernels[c].log_steps(stretch.columns[c], k, stretch.elapsed)
        if known is not None:
            known[key] = found
        return found

    def _log_kernel(
        self,
        pairs: LineagePairs,
        stretch: Stretch,
        c: int,
        known: dict[tuple[int, int, int, int], Any] | None = None,
    ) -> Array:
        """Return log p_c(child | parent) at each number of links (K, n), NaN for unknown parents.

        In the mean over other records those that say nothing about the column do not count.
        """
        links = np.array(
            [self._log_steps(pairs, stretch, c, k, known) for k in range(1, self.generations + 1)]
        )
        links[:, self.kernels[c].unknown_parents(stretch.columns[c])] = np.nan
        return links

    def _log_kernels(
        self,
        pairs: LineagePairs,
        c: int,
        known: dict[tuple[int, int, int, int], Any] | None = None,
    ) -> Array:
        """Return `_log_kernel` of all edges (K, E); there may be none."""
        parts = [self._log_kernel(pairs, stretch, c, known) for stretch in pairs.stretches]
        return np.concatenate([np.empty((self.generations, 0)), *parts], axis=1)

    def _two_ways(
        self, pairs: LineagePairs, stretch: Stretch, background: Background, c: int, k: int
    ) -> tuple[Array, Array]:
        """Return the chance that a cell follows its parent, and log p of that or the background.

        At k links. The log of contrasted columns is relative to the density without a parent.
        """
        key = id(pairs), stretch.rows.start, c, -k  # the kernel's own logs stand at k
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
        kernel, share = self.kernels[c], self.outlier_shares[c]
        follows = self._log_steps(pairs, stretch, c, k, background.known)
        relative = background.shares[c] is not None
        if not relative and share == 0:
            return np.ones_like(follows), follows
        alone = background.log_alone[c][k - 1, pairs.child[stretch.rows]]
        if not relative:
            follows = follows + np.log1p(-share)
            either = np.logaddexp(follows, alone + np.log(share))
            with np.errstate(invalid="ignore"):  # what is impossible both ways has no chance
                return np.nan_to_num(np.exp(follows - either)), either
        follows = follows - alone
        follows[kernel.unknown_parents(stretch.columns[c])] = 0.0
        if share == 0:
            return np.ones_like(follows), follows
        # Without logarithms as far as numbers reach: logaddexp takes four times as long.
        ratio = (1 - share) * np.exp(np.minimum(follows, _LARGEST_LOG))
        either = ratio + share
        chance = ratio / either
        np.log(either, out=either)
        far = follows > _LARGEST_LOG
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

    def log_likeness(self, background: Background) -> Array:
        """Return log mean_w q_k(u, w) of each record u at each number of links (K, n), or 0.

        With contacts, whose ratio is r(u, w), the mean is weighted by r.
        """
        contrast, n = background.contrast, background.log_alone[0].shape[1]
        if contrast is None:
            return np.zeros((self.generations, n))
        plain = replace(self, exponents=None)
        links = plain.log_links(contrast, background, self.joint)
        like = log_means(links, contrast.child, n)
        if self.in_full:
            met = plain.log_links(contrast, background, self.in_full)
            like = like - log_means(met, contrast.child, n)
        return like

    def log_beta(
        self, pairs: LineagePairs, background: Background, log_likeness: Array | None = None
    ) -> Array:
        """Return the log-weight of each edge (E,)."""
        like = self.log_likeness(background) if log_likeness is None else log_likeness
        links = self.log_links(pairs, background) - like[:, pairs.child]
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
        rows = [
            np.zeros_like(alone[0]) if c in aside else alone[0]
            for c, alone in enumerate(background.log_alone)
        ]
        if self.exponents is not None:
            rows = [power * row for power, row in zip(self.exponents, rows, strict=True)]
        return np.array(rows)

    # Learning ------------------------------------------------------------------------------

    @property
    def params(self) -> Array:
        """All that is learned, without constraints: kernels, outlier shares, weights of links."""
        shares = [logit(self.outlier_shares[c]) for c in self._shared]
        links = self.log_step_weights[1:] - self.log_step_weights[0]
        return np.concatenate([*(self.kernels[c].params for c in self.used), shares, links])

    @property
    def _shared(self) -> list[int]:
        """The columns whose share of outliers is learned."""
        return [c for c in self.used if self.outlier_shares[c] > 0]

    def with_params(self, params: Array) -> Self:
        """Return the lineage with these parameters."""
        sizes = [len(self.kernels[c].params) for c in self.used]
        *parts, own_shares, links = np.split(
            np.asarray(params, dtype=np.float64), np.cumsum([*sizes, len(self._shared)])
        )
        kernels, shares = list(self.kernels), np.array(self.outlier_shares, dtype=np.float64)
        for c, part in zip(self.used, parts, strict=True):
            kernels[c] = kernels[c].with_params(part)
        for c in self.used:
            if kernels[c].follows_dates:
                kernels[c] = kernels[c].following(kernels[self._owner(c)])
        shares[self._shared] = [share_of(value) for value in own_shares]
        logs = np.array([0.0, *links])
        return replace(
            self,
            kernels=tuple(kernels),
            outlier_shares=shares,
            step_weights=np.exp(logs - logsumexp(logs)),
        )

    def slopes(
        self,
        pairs: LineagePairs,
        weights: Array,  # (K, E), may be negative
        background: Background,
        columns: Sequence[int] | None = None,
        contrast_weights: Array | None = None,  # (K, E')
        in_full_weights: Array | None = None,  # (K, E')
    ) -> Array:
        """Return ∂/∂params of Σ weights · log_links(pairs, background, columns).

        With contrast_weights, of Σ contrast_weights · log_links of the background's own pairs and
        joint columns as well; in_full_weights are more weights of those that count in full. The
        weights of links are left out: see `slopes_of_links`.
        """
        chosen = self.used if columns is None else columns
        kernels = {c: np.zeros(len(self.kernels[c].params)) for c in self.used}
        shares = np.zeros(len(self.kernels))
        K, n = self.generations, len(pairs.children[0])
        for c in chosen:
            kernel, alone = self.kernels[c], np.zeros((K, n))
            lists = [(pairs, weights)]
            if contrast_weights is not None and c in self.joint:
                assert background.contrast is not None  # that is what the weights are of
                more = in_full_weights if c in self.in_full else None
                lists.append(
                    (background.contrast, contrast_weights + (0.0 if more is None else more))
                )
            on_contrast: list[Array] = []
            for listed, stretch, here in (
                (one, stretch, w[:, stretch.rows]) for one, w in lists for stretch in one.stretches
            ):
                follow = here * [
                    self._two_ways(listed, stretch, background, c, k + 1)[0] for k in range(K)
                ]
                if background.shares[c] is None and self.outlier_shares[c] == 0:
                    kernels[self._owner(c)] += kernel.slopes(
                        stretch.columns[c], follow, stretch.elapsed
                    )
                    continue
                total = float(here.sum())
                shares[c] += total - float(follow.sum()) - self.outlier_shares[c] * total
                if background.shares[c] is not None:  # relative to the density without a parent
                    follow[:, kernel.unknown_parents(stretch.columns[c])] = 0.0
                lost = here - follow if background.shares[c] is None else -follow
                child = listed.child[stretch.rows]
                alone += np.array([np.bincount(child, row, minlength=n) for row in lost])
                if listed is background.contrast and background.shares[c] is not None:
                    on_contrast.append(follow)  # its slopes come with those of the means
                else:
                    kernels[self._owner(c)] += kernel.slopes(
                        stretch.columns[c], follow, stretch.elapsed
                    )
            cells = pairs.children[c]
            kernels[self._owner(c)] += self._slopes_alone(c, cells, alone, background, on_contrast)
        rest = np.zeros(self.generations - 1)
        return np.concatenate([*kernels.values(), shares[self._shared], rest])

    def _slopes_alone(
        self,
        c: int,
        cells: Array,
        weights: Array,
        background: Background,
        more: Sequence[Array] = (),
    ) -> Array:
        """Return ∂/∂params of Σ weights · log_alone of one column's kernel; weights (K, n).

        `more` are further weights (K, n_s) of the background's own pairs, for each stretch.
        """
        kernel, mean_shares = self.kernels[c], background.shares[c]
        if mean_shares is None or background.contrast is None:
            return kernel.slopes_alone(cells, weights.sum(axis=0))
        result = np.zeros(len(kernel.params))
        spread = weights[:, background.contrast.child] * mean_shares
        for number, stretch in enumerate(background.contrast.stretches):
            here = spread[:, stretch.rows] + (more[number] if more else 0.0)
            result += kernel.slopes(stretch.columns[c], here, stretch.elapsed)
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
        shares = [logit(self.outlier_shares[c]) for c in self._shared]
        pairs = zip(self._outlier_priors, shares, strict=True)
        value = sum(prior.log_density(x) for prior, x in pairs)
        if self.generations > 1:
            value += log_dirichlet(self.log_step_weights, self._link_prior)
        return float(value + sum(self.kernels[c].log_prior() for c in self.used))

    @property
    def _outlier_priors(self) -> list[LogitBeta]:
        """Those of the columns whose share of outliers is learned."""
        contrasted = self.contrasted
        return [_OUTLIERS_CONTRASTED if c in contrasted else _OUTLIERS for c in self._shared]

    @property
    def _link_prior(self) -> Array:
        """Pseudo-links of one, two, … steps: one of a single step, half a one of all others."""
        rest = max(self.generations - 1, 1)
        return np.array([1.0, *[0.5 / rest] * (self.generations - 1)])

    def prior_slopes(self) -> Array:
        """Return ∂/∂params of `log_prior` (P,)."""
        shares = [logit(self.outlier_shares[c]) for c in self._shared]
        result = self.slopes_of_links(self._link_prior)
        n = sum(len(self.kernels[c].params) for c in self.used)
        result[:n] += np.concatenate(
            [np.empty(0), *(self.kernels[c].prior_slopes() for c in self.used)]
        )
        pairs = zip(self._outlier_priors, shares, strict=True)
        result[n : n + len(shares)] += [prior.slope(x) for prior, x in pairs]
        return result

    def quantities(self) -> list[tuple[int | None, Quantity]]:
        """Return the parameters as people state them, with the column they belong to."""
        result: list[tuple[int | None, Quantity]] = []
        for c in self.used:
            result += [(c, quantity) for quantity in self.kernels[c].quantities()]
            if c in self._shared:
                result.append((c, Quantity("outliers", float(self.outlier_shares[c]))))
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


def log_means(values: Array, place: Index, n: int) -> Array:
    """Return log mean exp(values) over the entries at each place, for each row (K, n).

    Places rise. Entries that are NaN do not count; 0 where none is above −inf.
    """
    return log_means_and_shares(values, place, n)[0]


def log_means_and_shares(values: Array, place: Index, n: int) -> tuple[Array, Array]:
    """Return `log_means` (K, n), and each entry's share of the sum at its place (K, E).

    The share of an entry that does not count is 0.
    """
    result, shares = np.zeros((len(values), n)), np.zeros_like(values)
    if not len(place):
        return result, shares
    first = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    sizes = np.diff(np.append(first, len(place)))
    for row, total, terms in zip(values, result, shares, strict=True):
        top = np.fmax.reduceat(row, first)
        some = np.isfinite(top)
        shift = np.where(some, top, 0.0)
        np.exp(row - np.repeat(shift, sizes), out=terms)
        unknown = np.isnan(terms)
        number = sizes
        if unknown.any():
            terms[unknown] = 0.0
            number = sizes - np.add.reduceat(unknown, first, dtype=np.intp)
        sums = np.add.reduceat(terms, first)
        total[place[first[some]]] = shift[some] + np.log(sums[some] / number[some])
        terms /= np.repeat(np.where(sums > 0, sums, 1.0), sizes)
    return result, shares


def log_sum_of_links(links: Array) -> Array:
    """Return log Σ_k exp(links) (E,) of (K, E)."""
    return links[0] if len(links) == 1 else np.asarray(logsumexp(links, axis=0))


class EdgeWeights:
    """The log-weights that a lineage gives the edges and roots of a table.

    Parameters
    ----------
    lineage : Lineage
    values : one (T, D_c) for each column
    groups : array of shape (T,)
        Only records of one group are compared with each other.
    contrast : LineagePairs, optional
        `contrast_pairs` of all records, where they are known already.
    """

    def __init__(
        self,
        lineage: Lineage,
        values: Sequence[Array],
        groups: Index,
        contrast: LineagePairs | None = None,
    ) -> None:
        self.lineage, self.values = lineage, values
        if lineage.joint and contrast is None:
            contrast = contrast_pairs(lineage, values, groups, np.arange(len(groups)))
        self.background = lineage.compared(values, contrast)
        self.log_likeness = lineage.log_likeness(self.background)

    @property
    def log_root(self) -> Array:
        """The log-density of each record without a parent (T,)."""
        return self.lineage.log_root(self.background)

    def log_beta(self, child: Index, parent: Index) -> Array:
        """Return the log-weight of each edge (E,)."""
        return self.log_beta_pairs(self.lineage.pairs(self.values, self.values, child, parent))

    def log_beta_pairs(self, pairs: LineagePairs) -> Array:
        """Return the log-weight of each edge (E,)."""
        return self.lineage.log_beta(pairs, self.background, self.log_likeness)


COMPARED = 4000  # records with which each one is compared, at most
_MOST_COMPARED = 2_000_000  # pairs of such records
_LEAST_COMPARED = 100


def contrast_pairs(
    lineage: Lineage, values: Sequence[Array], groups: Index, rows: Index
) -> LineagePairs:
    """Return the pairs of each of these records and the others that it is compared with.

    All others in its group, of more than 4,000 those nearest in date; thinned evenly over dates
    where these would be too many pairs. No parameter is learned from a thin sample: as it lacks a
    record's likely parents, these would look the better the narrower a spread is.
    """
    most = max(_LEAST_COMPARED, min(COMPARED, _MOST_COMPARED // max(len(rows), 1)))
    dates = values[lineage.dates][:, 0] if lineage.dates is not None else np.zeros(len(groups))
    order = order_by_cells([groups[:, None].astype(np.float64), dates[:, None], *values])
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    begin = np.searchsorted(groups[order], groups[rows], side="left")
    end = np.searchsorted(groups[order], groups[rows], side="right")
    width = np.minimum(end - begin, COMPARED)
    first = np.clip(place[rows] - width // 2, begin, end - width)
    number = np.minimum(width, most)
    child = np.repeat(rows, number)
    nth = np.arange(len(child)) - np.repeat(np.cumsum(number) - number, number)
    place = nth * np.repeat(width, number) // np.repeat(number, number)
    parent = order[np.repeat(first, number) + place]
    kept = child != parent
    return lineage.pairs(values, values, child[kept], parent[kept])


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

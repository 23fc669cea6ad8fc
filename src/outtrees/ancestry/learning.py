"""Learning: the parameters that make a table most probable, given its dates, over all trees.

    log p(cells | dates) = log Z(all columns) − log Z(dates)

Both are exact sums over trees: one with the weights of all columns, one with those of the dates
alone. What is learned of a waiting time is therefore learned from the other columns; the dates'
own density says nothing about it. Slopes come from the trees' edge probabilities, and L-BFGS
climbs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from outtrees.candidates.choices import IndependentChoices, log_sums
from outtrees.candidates.edges import PossibleEdges
from outtrees.models.columns import Lineage, LineagePairs
from outtrees.models.columns.lineage import Background, log_means
from outtrees.trees.candidates import CandidateTrees

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Progress = Callable[[int, float], None]

# An introduction is as likely beforehand as this share of all that an average record's possible
# parents weigh together; a factor of e^1.5 either way is within one standard deviation.
_ROOT_SHARE, _ROOT_SPREAD = 0.02, 1.5
_FIRST_SHARES = (0.2, 0.7)  # of outliers, among which a start chooses
_MOST_PAIRS = 600_000  # beyond, parameters are learned from a sample of the records
_FARTHEST = 15.0  # no parameter moves further than this from its start


class Point(NamedTuple):
    """Where a climb stands."""

    lineage: Lineage
    log_root: float  # log-weight of an introduction; 0 with a single root
    value: float  # log-likelihood + log-prior
    gain: float  # log p(cells | dates), against cells that do not follow any tree
    trees: Any


class Problem:
    """A table, its possible edges, and what records are compared with, ready to be climbed.

    Parameters
    ----------
    values : sequence of arrays (T, D_c)
    edges : PossibleEdges
    roots : {"single", "any"}
    sampled : bool
        Whether parameters are learned from a sample of the records which choose their parents
        independently. Exact where dates are strict; used for large tables.
    """

    def __init__(
        self,
        lineage: Lineage,
        values: Sequence[Array],
        edges: PossibleEdges,
        roots: str,
        *,
        sampled: bool = False,
    ) -> None:
        self.values, self.edges, self.roots, self.sampled = values, edges, roots, sampled
        self.T = len(edges.groups)
        rows = _sample(values, self.T, 600) if sampled else np.arange(self.T)
        self.is_sampled = np.zeros(self.T, dtype=bool)
        self.is_sampled[rows] = True
        kept = self.is_sampled[edges.child]
        order = np.argsort(edges.child[kept], kind="stable")
        self.child, self.parent = edges.child[kept][order], edges.parent[kept][order]
        self.pairs = lineage.pairs(values, values, self.child, self.parent)
        self.contrast: LineagePairs | None = None
        if lineage.contrasted:
            self.contrast = contrast_pairs(lineage, values, edges.groups, rows)
        self._plans: list[Any] = [None, None]

    # The sum over trees --------------------------------------------------------------------

    def trees(self, log_weight: Array, log_root: Array, which: int = 0) -> Any:
        """Return the distribution over trees with these weights of edges and roots."""
        log_root = np.where(self.edges.root_allowed, log_root, -np.inf)
        if self.sampled:
            log_root = np.where(self.is_sampled, log_root, -np.inf)
            return IndependentChoices(self.child, log_weight, log_root)
        trees = CandidateTrees(
            self.child,
            self.parent,
            log_weight,
            log_root,
            groups=self.edges.groups,
            roots=self.roots,
            plan=self._plans[which],
        )
        self._plans[which] = trees.plan
        return trees

    def first_log_root(self, lineage: Lineage) -> float:
        """Return the log-weight of an introduction beforehand."""
        if self.roots == "single":
            return 0.0
        background = lineage.compared(self.values)
        totals = log_sums(self.child, lineage.log_waits(self.pairs, background), self.T)
        known = totals[np.isfinite(totals)]
        return float(np.log(_ROOT_SHARE) + (np.median(known) if len(known) else 0.0))

    # Value and slopes ----------------------------------------------------------------------

    def at(self, lineage: Lineage, log_root: float, centre: float) -> tuple[Point, Array]:
        """Return the value at these parameters, and its slopes (lineage's, then log_root's)."""
        dates = [] if lineage.dates is None else [lineage.dates]
        others = [c for c in range(len(lineage.kernels)) if c not in dates]
        background = lineage.compared(self.values, self.contrast, remember=True)
        waits = lineage.log_links(self.pairs, background, dates)
        waits = waits + lineage.log_step_weights[:, None]  # (K, E)
        links = waits + lineage.log_links(self.pairs, background, others)
        like, compared = self._likeness(lineage, background)
        links = links - like[:, self.child]
        log_weight, log_wait = logsumexp(links, axis=0), logsumexp(waits, axis=0)
        trees = self.trees(log_weight, lineage.log_root(background) + log_root)
        bare = self.trees(log_wait, np.full(self.T, log_root), 1)
        gain = trees.log_z - bare.log_z
        by_link = trees.edge_marginals * _shares(links, log_weight)
        bare_by_link = bare.edge_marginals * _shares(waits, log_wait)

        slopes = lineage.slopes(self.pairs, by_link, background)
        if dates and len(lineage.kernels[dates[0]].params):
            slopes = slopes - lineage.slopes(self.pairs, bare_by_link, background, dates)
        if self.contrast is not None:
            number = np.array([np.bincount(self.child, w, minlength=self.T) for w in by_link])
            weights = -number[:, self.contrast.child] * compared
            contrasted = lineage.contrasted
            slopes = slopes + lineage.slopes(self.contrast, weights, background, contrasted)
        slopes = slopes + lineage.slopes_of_links(by_link.sum(axis=1) - bare_by_link.sum(axis=1))
        slopes = slopes + lineage.slopes_of_roots(self.values, trees.root_marginals)
        value = gain + lineage.log_prior()
        slopes = slopes + lineage.prior_slopes()
        if self.roots == "any":
            off = (log_root - centre) / _ROOT_SPREAD
            value -= 0.5 * off**2
            more = float(trees.root_marginals.sum() - bare.root_marginals.sum())
            slopes = np.append(slopes, more - off / _ROOT_SPREAD)
        return Point(lineage, log_root, value, gain, trees), slopes

    def _likeness(self, lineage: Lineage, background: Background) -> tuple[Array, Array]:
        """Return log mean_w q_k(u, w) (K, T), and each pair's share of that mean (K, E')."""
        if self.contrast is None:
            return np.zeros((lineage.generations, self.T)), np.empty((lineage.generations, 0))
        links = lineage.log_links(self.contrast, background, lineage.contrasted)
        child = self.contrast.child
        like = log_means(links, child, self.T)
        number = np.maximum(np.bincount(child, minlength=self.T), 1)
        return like, np.exp(links - like[:, child] - np.log(number)[child])

    # The climb -----------------------------------------------------------------------------

    def climb(
        self,
        start: Lineage,
        log_root: float,
        *,
        max_iter: int = 100,
        tol: float = 1e-5,
        progress: Progress | None = None,
    ) -> tuple[Point, bool, int]:
        """Return the best parameters above this start, whether the climb ended, and its length."""
        centre = self.first_log_root(start)
        free_root = self.roots == "any"
        first = np.append(start.params, log_root) if free_root else start.params
        best: list[Point] = []
        count = 0

        def loss(theta: Array) -> tuple[float, Array]:
            nonlocal count
            lineage = start.with_params(theta[:-1] if free_root else theta)
            point, slopes = self.at(lineage, float(theta[-1]) if free_root else 0.0, centre)
            count += 1
            if not best or point.value > best[0].value:
                best[:] = [point]
            if progress is not None:
                progress(count, point.value)
            return -point.value, -slopes

        if not len(first):
            loss(first)
            return best[0], True, 1
        found = minimize(
            loss,
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=[(x - _FARTHEST, x + _FARTHEST) for x in first],
            options={"maxiter": max_iter, "ftol": 0.0, "gtol": 0.0, "maxls": 30}
            | {"ftol": tol * self.T / max(abs(best[0].value) if best else 1.0, 1.0)},
        )
        return best[0], bool(found.status != 1), int(found.nit)

    # Starts --------------------------------------------------------------------------------

    def started(self, lineage: Lineage) -> Lineage:
        """Return the lineage with the best start and form of each column by itself.

        Spreads have several maxima: a column is first weighed alone with dates, each record
        choosing its parent independently, from every point of its grid.
        """
        log_root = self.first_log_root(lineage)
        waits = lineage.log_waits(self.pairs, lineage.compared(self.values))
        bare = IndependentChoices(self.child, waits, self._roots_of(np.full(self.T, log_root)))
        for c, kernel in enumerate(lineage.kernels):
            if c == lineage.dates or not len(kernel.params):
                continue
            shares = _FIRST_SHARES if lineage.outlier_shares[c] > 0 else (0.0,)
            tried = []
            for variant in kernel.variants():
                for params in variant.start_grid():
                    for share in shares:
                        trial = _with_column(lineage, c, variant.with_params(params), share)
                        gain = self._gain_alone(trial, c, waits, log_root) - bare.log_z
                        tried.append((gain + trial.kernels[c].log_prior(), trial))
            lineage = max(tried, key=lambda pair: pair[0])[1]
        return lineage

    def _roots_of(self, log_root: Array) -> Array:
        allowed = self.edges.root_allowed & self.is_sampled
        if self.roots == "single":  # only records without any possible parent, as dates have it
            has_parent = np.bincount(self.child, minlength=self.T) > 0
            allowed = allowed & ~has_parent
        return np.where(allowed, log_root, -np.inf)

    def _gain_alone(self, lineage: Lineage, c: int, waits: Array, log_root: float) -> float:
        """Return log Z of one column and the dates, parents being chosen independently."""
        kernel, share = lineage.kernels[c], lineage.outlier_shares[c]
        follows = np.concatenate(
            [kernel.log_steps(s.columns[c], 1, s.elapsed) for s in self.pairs.stretches]
        )
        alone = kernel.log_alone(self.values[c])
        if self.contrast is not None and c in lineage.contrasted:
            links = np.concatenate(
                [lineage._log_kernel(self.contrast, s, c) for s in self.contrast.stretches], axis=1
            )[:1]
            alone = log_means(links, self.contrast.child, self.T)[0]
        with np.errstate(divide="ignore"):
            both = np.logaddexp(np.log1p(-share) + follows, np.log(share) + alone[self.child])
        weights, roots = waits + both, np.full(self.T, log_root) + alone
        return IndependentChoices(self.child, weights, self._roots_of(roots)).log_z - float(
            alone[self.is_sampled].sum()
        )


def _with_column(lineage: Lineage, c: int, kernel: Any, share: float) -> Lineage:
    shares = np.array(lineage.outlier_shares, dtype=np.float64)
    shares[c] = share
    kernels = (*lineage.kernels[:c], kernel, *lineage.kernels[c + 1 :])
    return replace(lineage, kernels=kernels, outlier_shares=shares)


def _shares(links: Array, total: Array) -> Array:
    """Return the probability of each number of links, given the edge (K, E)."""
    return np.exp(links - np.where(np.isfinite(total), total, 0.0))


def contrast_pairs(
    lineage: Lineage, values: Sequence[Array], groups: Index, rows: Index
) -> LineagePairs:
    """Return the pairs of each of these records and the others that it is compared with.

    All others in its group; beyond a thousand records, a thousand of them, the same for all.
    """
    T = len(groups)
    others = _sample(values, T, 1000)
    child = np.repeat(rows, len(others))
    parent = np.tile(others, len(rows))
    kept = (child != parent) & (groups[child] == groups[parent])
    return lineage.pairs(values, values, child[kept], parent[kept])


def _sample(values: Sequence[Array], T: int, most: int) -> Index:
    """Return at most so many records, chosen by their cells: their order does not matter."""
    if most >= T:
        return np.arange(T)
    table = np.ascontiguousarray(np.column_stack([np.nan_to_num(v, nan=-1.0) for v in values]))
    # A mix of all cells that nothing in the table follows: the fractional part of a large multiple.
    mixed = (table @ np.sin(1e3 * (1.0 + np.arange(table.shape[1])))) * 1e5
    order = np.lexsort([table[:, 0], mixed - np.floor(mixed)])
    return np.sort(order[:most])

"""A bound of the weight that candidates leave out, from one more search over all parents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from outtrees.candidates.choices import log_sums
from outtrees.candidates.choosing import windows_of
from outtrees.candidates.edges import Constraints, PossibleEdges
from outtrees.candidates.scan import Scanner
from outtrees.models.columns import Drift, Lineage, Reversion, Sticky, Substitution, Waiting
from outtrees.models.columns.base import ColumnKernel

Array = NDArray[np.float64]

_FAR = 40.0  # nats below a record's best parent: others are counted, not weighed
_MORE = 5  # times as many parents as a record has candidates are weighed


def can_be_bounded(lineage: Lineage, values: Sequence[Array]) -> bool:
    """Return whether the scores of a search are upper bounds of the weights, but for a factor.

    They are where compiled loops read the cells exactly, or too favourably: not for counts, clocks,
    K80, matrices, spreads of groups, uncertain or exact times, and waiting times without a peak.
    """
    return all(_bounded(k, cells) for k, cells in zip(lineage.kernels, values, strict=True))


def _bounded(kernel: ColumnKernel, cells: Array) -> bool:
    if isinstance(kernel, Waiting):
        known = cells[~np.isnan(cells).any(axis=1)]
        if kernel.unit == 0 or known[:, 2].any():
            return False
        halves = known[:, :2] / (kernel.unit / 2)
        # Beyond the table of waits the loops go on in a straight line: above a concave curve.
        peaked = kernel.table is not None or kernel.log_shape >= 0
        return peaked and bool((halves == np.round(halves)).all())
    if isinstance(kernel, Substitution):
        return kernel.model == "JC69"
    return isinstance(kernel, Sticky | Reversion) or (type(kernel) is Drift and not kernel.clock)


def lost_bounds(
    lineage: Lineage,
    values: Sequence[Array],  # one (T, D_c) for each column
    given: Constraints,
    edges: PossibleEdges,
    log_edges: Array,  # (E,), log-weights of the candidates
    log_others: Array,  # (T,), added to log p(child | parent) of each child
    log_roots: Array,  # (T,), −inf where a record is no root
) -> Array:
    """Return upper bounds of the share of weight outside the candidates (T,).

    Of each record the best parents are weighed. None of the others, n of them, scores more than s:
    the least that was kept, or 40 nats below the best. A score is the largest term of p(child |
    parent), a sum over numbers of links of products of two terms for each column with a background,
    so that the others weigh at most n · links · 2^columns · e^s. O(pairs) time, compiled.
    """
    T, sought = len(given.groups), given.open
    n = _MORE * max(int(np.bincount(edges.child, minlength=T).max(initial=1)), 1)
    windows = windows_of(lineage, values, given, all_possible=True)
    best = Scanner(lineage, values, upper=True).best(sought, n, windows, given, far=_FAR)
    found = np.bincount(best.child, minlength=T)
    top, least = np.full(T, -np.inf), np.full(T, np.inf)
    np.maximum.at(top, best.child, best.score)
    np.minimum.at(least, best.child, best.score)
    limit = np.where(found >= n, least, top - _FAR)
    listed = np.isin(best.child * T + best.parent, edges.child * T + edges.parent)
    weighed = np.bincount(edges.child, minlength=T) + np.bincount(best.child[~listed], minlength=T)
    left = np.zeros(T)
    left[sought] = np.maximum(best.possible - weighed[sought], 0)
    terms = lineage.generations * 2.0 ** int((np.asarray(lineage.outlier_shares) > 0).sum())
    with np.errstate(divide="ignore"):
        log_left = np.log(left * terms) + limit + log_others
    child, parent = best.child[~listed], best.parent[~listed]
    order = np.argsort(child, kind="stable")
    child, parent = child[order], parent[order]
    log_weight = lineage.log_beta(lineage.pairs(values, values, child, parent))
    outside = np.logaddexp(log_sums(child, log_weight + log_others[child], T), log_left)
    inside = np.logaddexp(log_sums(edges.child, log_edges, T), log_roots)
    total = np.logaddexp(outside, inside)
    share = np.zeros(T)
    some = outside > -np.inf
    share[some] = np.exp(outside[some] - total[some])
    share[given.known != -2] = 0.0
    return share

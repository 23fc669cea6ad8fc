"""How much probability candidates leave out: exactly, as a bound, or estimated from a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees.candidates.bounds import can_be_bounded, lost_bounds
from outtrees.candidates.choices import log_sums
from outtrees.candidates.choosing import possible_pairs, windows_of
from outtrees.candidates.edges import Constraints, PossibleEdges
from outtrees.models.columns import Lineage

Array = NDArray[np.float64]

_PAIRS_AT_ONCE = 500_000


class LostMass(NamedTuple):
    """The share of a record's probability on parents that are no candidates, on average."""

    mean: float
    error: float  # standard error of the mean, from the sample of records; 0 if exact
    n_records: int  # in the sample
    # "exact": all were looked at; "bound": estimated, and bounded; "estimate": no more than that
    kind: str = "estimate"
    bound: float | None = None  # what the mean over all records is at most, where that is known


def lost_mass(
    lineage: Lineage,
    values: Sequence[Array],  # one (T, D_c) for each column
    given: Constraints,
    edges: PossibleEdges,
    *,
    roots: str = "single",
    root_rate: float = 0.0,
    n_records: int = 200,
    most_pairs: int = 1_500_000,
    most_searched: int = 300_000_000,
) -> LostMass:
    """Return the mean share of weight on possible parents that are no candidates.

    For each record of a sample,

        Σ_{v no candidate} p(x_u | x_v) / Σ_{v possible} p(x_u | x_v)

    (with roots="any" the root's weight is in the denominator too): the probability of the
    parents left out, but for trees with circles. Up to `most_pairs` all pairs of all records are
    weighed, and the mean is exact. Beyond, the sample is the same for the same table. Where
    its pairs would be more than `most_pairs`, implausibly early parents are left aside (`windows`:
    each is 16 nats less likely by its date than the likeliest), and if they are still too many the
    sample is made smaller. Up to `most_searched` pairs, and for columns where
    `bounds.can_be_bounded`, a search over all of them bounds the mean over all records as well.

    Examples
    --------
    >>> from outtrees.candidates import choose, constraints
    >>> from outtrees.models.columns import Drift
    >>> cells, given = [np.array([[0.0], [1.0], [2.5], [9.0]])], constraints(4)
    >>> lineage = Lineage([Drift()]).start(cells)
    >>> [round(lost_mass(lineage, cells, given, choose(lineage, cells, given, n)).mean, 3)
    ...  for n in (1, 2, 3)]
    [0.283, 0.084, 0.0]
    """
    T = len(given.groups)
    found = windows_of(lineage, values, given, all_possible=True)
    n_pairs = int(found.sizes[given.open].sum())
    exact = n_pairs <= most_pairs
    sample = np.random.default_rng(1).permutation(given.open)
    sample = sample if exact else sample[:n_records]
    if found.sizes[sample].sum() > most_pairs:
        found = windows_of(lineage, values, given)
    enough = np.cumsum(found.sizes[sample]) <= most_pairs
    sample = np.sort(sample[: max(int(enough.sum()), 1)])
    shares = []
    log_others = np.zeros(T)
    log_roots = np.full(T, -np.inf)
    if roots == "any":
        rooted = np.flatnonzero(given.root_allowed)
        log_roots[rooted] = lineage.log_root([cells[rooted] for cells in values])
        log_roots += np.log(root_rate)
        choices = edges.choices
        if choices is None:
            choices = np.bincount(edges.child, minlength=T)
        log_others = np.log1p(-root_rate) - np.log(np.maximum(choices, 1))
    for block in found.blocks(sample, _PAIRS_AT_ONCE):
        child, parent = possible_pairs(lineage, values, given, block, found)
        log_weight = lineage.log_beta(lineage.pairs(values, values, child, parent))
        log_weight += log_others[child]
        listed = np.isin(child * T + parent, edges.child * T + edges.parent)
        total = np.logaddexp(log_sums(child, log_weight, T), log_roots)[block]
        outside = log_sums(child[~listed], log_weight[~listed], T)[block]
        has = total > -np.inf
        shares.append(np.exp(outside[has] - total[has]))
    all_shares = np.concatenate(shares) if shares else np.zeros(0)
    n = len(all_shares)
    if not n:
        return LostMass(0.0, 0.0, 0, "exact", 0.0)
    mean, error = float(all_shares.mean()), float(all_shares.std() / np.sqrt(n))
    if exact:
        return LostMass(mean, 0.0, n, "exact", mean)
    if n_pairs > most_searched or not can_be_bounded(lineage, values):
        return LostMass(mean, error, n)
    log_edges = lineage.log_beta(lineage.pairs(values, values, edges.child, edges.parent))
    log_edges += log_others[edges.child]
    bounds = lost_bounds(lineage, values, given, edges, log_edges, log_others, log_roots)
    has = given.root_allowed & (roots == "any")
    has[edges.child] = True
    return LostMass(mean, error, n, "bound", float(bounds[has & (given.known == -2)].mean()))

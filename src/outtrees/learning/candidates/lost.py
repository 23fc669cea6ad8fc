"""How much probability candidates leave out, by looking at all possible parents of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees.learning.candidates.choices import log_sums
from outtrees.learning.candidates.choosing import possible_pairs, windows_of
from outtrees.learning.candidates.edges import Constraints, PossibleEdges
from outtrees.mutations.columns import Lineage

Array = NDArray[np.float64]

_PAIRS_AT_ONCE = 500_000


class LostMass(NamedTuple):
    """The share of a record's probability on parents that are no candidates, on average."""

    mean: float
    error: float  # standard error of the mean, from the sample of records
    n_records: int  # in the sample


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
) -> LostMass:
    """Return the mean share of weight on possible parents that are no candidates.

    For each record of a sample,

        Σ_{v no candidate} p(x_u | x_v) / Σ_{v possible} p(x_u | x_v)

    (with roots="any" the root's weight is in the denominator too): the probability of the
    parents left out, but for trees with circles. The sample is the same for the same table. Where
    its pairs would be more than `most_pairs`, implausibly early parents are left aside (`windows`:
    each is 16 nats less likely by its date than the likeliest), and if they are still too many the
    sample is made smaller.

    Examples
    --------
    >>> from outtrees.learning.candidates import choose, constraints
    >>> from outtrees.mutations.columns import Drift
    >>> cells, given = [np.array([[0.0], [1.0], [2.5], [9.0]])], constraints(4)
    >>> lineage = Lineage([Drift()]).start(cells)
    >>> [round(lost_mass(lineage, cells, given, choose(lineage, cells, given, n)).mean, 3)
    ...  for n in (1, 2, 3)]
    [0.283, 0.084, 0.0]
    """
    T = len(given.groups)
    found = windows_of(lineage, values, given, all_possible=True)
    sample = np.random.default_rng(1).permutation(given.open)[:n_records]
    if found.sizes[sample].sum() > most_pairs:
        found = windows_of(lineage, values, given)
    enough = np.cumsum(found.sizes[sample]) <= most_pairs
    sample = np.sort(sample[: max(int(enough.sum()), 1)])
    shares = []
    log_roots = np.full(T, -np.inf)
    if roots == "any":
        rooted = np.flatnonzero(given.root_allowed)
        log_roots[rooted] = lineage.log_root([cells[rooted] for cells in values])
        log_roots += np.log(root_rate)
    for block in found.blocks(sample, _PAIRS_AT_ONCE):
        child, parent = possible_pairs(lineage, values, given, block, found)
        log_weight = lineage.log_beta(lineage.pairs(values, values, child, parent))
        if roots == "any":
            choices = edges.choices
            if choices is None:
                choices = np.bincount(edges.child, minlength=T)
            log_weight += np.log1p(-root_rate) - np.log(choices[child])
        listed = np.isin(child * T + parent, edges.child * T + edges.parent)
        total = np.logaddexp(log_sums(child, log_weight, T), log_roots)[block]
        outside = log_sums(child[~listed], log_weight[~listed], T)[block]
        has = total > -np.inf
        shares.append(np.exp(outside[has] - total[has]))
    all_shares = np.concatenate(shares) if shares else np.zeros(0)
    n = len(all_shares)
    if not n:
        return LostMass(0.0, 0.0, 0)
    return LostMass(float(all_shares.mean()), float(all_shares.std() / np.sqrt(n)), n)

"""Exact samples by running the elimination backwards, and by walks where walks are short.

Wilson's algorithm walks until it hits the tree, which takes e^50 steps and more when clusters
are far apart. Run backwards, the elimination makes no walk: nodes come back one at a time, and
an edge i → j either stays or turns out to have led through the returning node m, with the odds in
which q_im p_mj stood in its weight. The cost is O(T²) per tree at most, whatever the weights.

Say V are the nodes whose edges turn through m. They become m's children, and m's parent is that
of the topmost of them above one, i₀; the parents of the others are forgotten. The odds with which
these had been drawn sum to one over all the trees that end up as the same tree with m, so that
its law is right, as long as i₀ depends on the tree with m alone.

A step of a walk is cheaper than the return of a node. So only the first nodes, the core, come
back one and all, then those on the way from a core node to the root; walks that end in this
subtree, whose law is now right, do the rest. How many steps they take is bounded beforehand: to
get from w below w takes h_w steps on average,

    h_w s_w = β_w + Σ_{u>w} q_wu h_u,    β_w = Σ_v β_wv,

and the walks from all nodes outside the core together at most the sum of their h_w: they step
from u, on average, β_u Σ_w (I − P)⁻¹_uw (S − U)⁻¹_wu times, where the first factor is a probability
and the rest sums to h_w. The core is chosen for the least cost by this bound; where nodes cannot
leave their cluster, it is all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.threads import in_threads
from outtrees.trees.elimination import Elimination
from outtrees.trees.extended import Exponents, ExtendedElimination, Numbers, doubles, logs, split
from outtrees.trees.weights import Floats, Ints

_CHUNK = 128  # trees per random stream: fixed, so that the number of threads changes no draw
_STEPS_PER_NODE = 32  # of a walk, that cost what it costs to bring one node back (measured)


class Alias(NamedTuple):
    """Tables to draw from rows of weights, one look-up for each draw."""

    keep: Floats  # P(a column drawn at random stays what it is)
    other: NDArray[np.uint32]  # what it becomes if not


class Turns(NamedTuple):
    """What decides whether an edge turns; index n stands for the parent of the root."""

    keep: Floats  # (2, n, n + 1) P(never turns) of the edges m → j, j < m, and of the edges i → m
    s: Floats  # (n,)
    rate: Floats  # (n, n + BLOCK) [i, k], i < k
    share: Floats  # (n + 1, n + BLOCK) [j, k], j < k: transposed, to be read along rows


class Wide(NamedTuple):
    """The same where doubles may not hold it: mantissas and exponents."""

    rate: Numbers
    share: Numbers
    s: Numbers


class _Work(NamedTuple):
    """Trees under construction, and what is noted on the way."""

    parents: NDArray[np.uint32]  # (trees, n), as are the next four
    first: NDArray[np.uint32]
    after: NDArray[np.uint32]
    via: NDArray[np.uint32]
    below: NDArray[np.uint32]
    made: NDArray[np.uint32]  # (n,)
    left: Floats  # (1,)


@dataclass(frozen=True)
class SamplingTables:
    """What the sampler looks up."""

    order: Ints
    leaf: Alias  # (core, core) the parent of a core node that comes back as a leaf
    walk: Alias  # (n − core, n) the steps of a walk from the nodes outside the core
    turns: Turns
    wide: Wide | None

    def draw(self, n_samples: int, rng: np.random.Generator) -> Ints:
        """Return (n_samples, n) parents, −1 at the root."""
        trees = np.empty((n_samples, len(self.order)), dtype=np.intp)
        chunks = [trees[lo : lo + _CHUNK] for lo in range(0, n_samples, _CHUNK)]
        states = rng.integers(2**64, size=(len(chunks), 4), dtype=np.uint64)
        in_threads(lambda i: self._fill(states[i], chunks[i]), len(chunks))
        return trees

    def _fill(self, state: NDArray[np.uint64], trees: Ints) -> None:
        from outtrees.trees.sampling_kernels import bring_back, finish_by_walks

        n = len(self.order)
        parents, first, after, via, below = np.empty((5, len(trees), n), dtype=np.uint32)
        made, left = np.empty(n, dtype=np.uint32), np.empty(1)
        work = _Work(parents, first, after, via, below, made, left)
        bring_back(state, self.leaf, self.turns, self.wide, work)
        if len(self.leaf.keep) < n:
            finish_by_walks(state, *self.walk, work.parents, work.below)
        # In the caller's numbers, −1 at the root.
        trees[:, self.order] = np.append(self.order, -1)[work.parents]


def sampling_tables(
    e: Elimination | ExtendedElimination, core: int | None = None
) -> SamplingTables:
    """Return the tables for a forward pass of either range. O(T²).

    ``core`` is how many nodes are to come back one and all; any number from 1 to n gives the
    same law. By default it is the one with the least expected cost.
    """
    from outtrees.trees.sampling_kernels import BLOCK

    n = e.weights.n
    beta = np.exp(e.weights.log_beta - e.log_scale[:, None])[np.ix_(e.order, e.order)]
    keep, wide = np.empty((2, n, n + 1)), None
    rate, share = np.zeros((n, n + BLOCK)), np.zeros((n + 1, n + BLOCK))
    if isinstance(e, Elimination):
        rate[:, :n], s = e.factors, e.s
        share[n, :n] = e.y
        keep[0] = _keep(e, beta)
        walk = _walk_lengths(e, beta.sum(axis=1))
    else:
        rate[:, :n], s = doubles(e.factors), doubles(e.s)
        keep[0] = _wide_keep(e)
        walk = _wide_walk_lengths(e, beta.sum(axis=1))
        wide = Wide(e.factors, _transposed(e), e.s)
    share[:n, :n] = rate[:, :n].T
    # The edges out of m stand in a row; once more, so that the edges into m do. (The root's
    # parent has no edge into m: the last column is not read.)
    keep[1, :, :n] = keep[0, :, :n].T
    if core is None:
        core = _cheapest_core(walk)
    return SamplingTables(
        order=e.order,
        leaf=_alias(np.tril(rate[:core, :core], -1)),
        walk=_alias(beta[core:]),
        turns=Turns(keep, s, rate, share),
        wide=wide,
    )


def _alias(weight: Floats) -> Alias:
    from outtrees.trees.sampling_kernels import alias_rows

    tables = Alias(np.ones(weight.shape), np.zeros(weight.shape, dtype=np.uint32))
    todo = np.empty(weight.shape[1], dtype=np.intp)
    alias_rows(np.ascontiguousarray(weight), *tables, todo)
    return tables


def _transposed(e: ExtendedElimination) -> tuple[Floats, Exponents]:
    """Return the shares [j, k] with those of the root's parent in the last row."""
    shares = [np.vstack([q.T, y]) for q, y in zip(e.factors, e.y, strict=True)]
    return np.ascontiguousarray(shares[0]), np.ascontiguousarray(shares[1])


def _keep(e: Elimination, beta: Floats) -> Floats:
    """Return P(never turns) of the edges i → j, and in the last column i → the root's parent."""
    n = len(e.s)
    keep = np.empty((n, n + 1))
    total = np.tril(e.factors * e.s[:, None], -1)
    total += np.triu(e.factors, 1)
    keep[:, :n] = _ratio(beta, total)
    keep[:, n] = _ratio(e.rho / e.rho_0, e.y * e.s)
    return keep


def _wide_keep(e: ExtendedElimination) -> Floats:
    """Return the same from the extended range."""
    (q, q_e), (s, s_e), (y, y_e) = e.factors, e.s, e.y
    n = len(s)
    keep = np.empty((n, n + 1))
    scaled = e.weights.log_beta, e.log_scale[:, None]
    some = max(1, 65536 // n)
    for lo in range(0, n, some):  # a few rows at a time: β is split anew rather than kept
        rows = np.arange(lo, min(lo + some, n))
        log_beta, log_scale = (table[e.order[rows]] for table in scaled)
        own, own_e = split((log_beta - log_scale)[:, e.order])
        lower = np.arange(n) < rows[:, None]
        total = np.where(lower, q[rows] * s[rows, None], q[rows])
        total_e = np.where(lower, q_e[rows] + s_e[rows, None], q_e[rows])
        keep[rows, :n] = doubles(_wide_ratio((own, own_e), (total, total_e)))
    root, root_e = split(e.log_rho)
    direct = root * e.inv_rho_0[0], root_e + e.inv_rho_0[1]
    keep[:, n] = doubles(_wide_ratio(direct, (y * s, y_e + s_e)))
    return keep


def _walk_lengths(e: Elimination, beta_sum: Floats) -> Floats:
    """Return h_w, the expected steps of a walk from w until it is below w. O(T²)."""
    steps = np.zeros(len(beta_sum))
    for panel in e.panels:
        lo, hi = panel.lo, panel.hi
        steps[lo:hi] = panel.inv_su @ (beta_sum[lo:hi] + e.factors[lo:hi, hi:] @ steps[hi:])
    return steps


def _wide_walk_lengths(e: ExtendedElimination, beta_sum: Floats) -> Floats:
    """Return the same in the extended range, as far as a double goes."""
    from outtrees.trees.extended_kernels import root_shares

    with np.errstate(divide="ignore"):  # a root that can have no parent
        steps = split(np.log(beta_sum))
    root_shares(*e.factors, *e.s, *steps)
    return np.exp(np.minimum(logs(steps), 600.0))  # e^600 is too many all the same


def _cheapest_core(walk: Floats) -> int:
    """Return how many nodes had best come back one and all.

    c nodes of a random tree and their ways to the root are about √(c n) nodes together.
    """
    n = len(walk)
    size = np.arange(1, n + 1)
    steps = np.append(np.cumsum(walk[:0:-1])[::-1], 0.0)
    brought_back = np.minimum(1.25 * np.sqrt(size * n), n)
    return int(size[np.argmin(steps + _STEPS_PER_NODE * brought_back)])


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, and 1 where an edge has no weight at all (it is never drawn)."""
    ratio = np.ones_like(whole)
    np.divide(part, whole, out=ratio, where=whole > 0)
    return ratio


def _wide_ratio(part: Numbers, whole: Numbers) -> Numbers:
    """Return the same of numbers in the extended range; exponents of zeros mean nothing."""
    ratio = _ratio(part[0], whole[0])
    return ratio, np.where(whole[0] > 0, part[1] - whole[1], 0)

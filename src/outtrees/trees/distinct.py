"""Exact samples without replacement: trees drawn one after another, none of them twice.

First trees are drawn with replacement and repetitions left out, which is the same law and cheap. If
that finds too few, the trees still to be drawn are split into sets that are told by known and
excluded parents, each with one tree that was drawn already. A set is chosen by the weight of its
others, one of them is drawn, and the set split between the two: O(T³) for each tree.

What all trees but t weigh together, over the weight of t, takes no subtraction if t's leaves are
eliminated first. Nobody in t descends from such a node k, so what it hands on never is part of t,
and its pivot is the weight of its own edge in t plus the rest: Z / w(t) = Π (1 + r_k). If the
nodes before k keep the parents that they have in t, their r are 0 and those of the others
unchanged. So the first node whose parent differs is k with weight r_k Π_{i>k} (1 + r_i), which
sum to Z / w(t) − 1: one elimination says where another tree departs from t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from outtrees._common.memory import check_memory
from outtrees.errors import InvalidWeightsError
from outtrees.trees import weights
from outtrees.trees.edges import Edges
from outtrees.trees.weights import Floats, Ints

if TYPE_CHECKING:
    from outtrees.trees.distribution import OutTreeDistribution

_TRIES = 3  # trees drawn with replacement for each that is wanted
_MOSTLY = 0.9  # a set whose tree has more than this share is not drawn from until another comes


@dataclass(frozen=True)
class _Set:
    """The trees with these known and excluded parents; ``tree`` is one, and was drawn."""

    parent: dict[int, int]
    not_parent: tuple[tuple[int, int], ...]
    tree: Ints
    log_others: float  # log-weight of all but that tree

    @staticmethod
    def make(
        everything: OutTreeDistribution,
        parent: dict[int, int],
        not_parent: tuple[tuple[int, int], ...],
        tree: Ints,
    ) -> _Set:
        trees = everything.given(parent, not_parent)
        log_share = float(trees.log_prob(tree))
        if np.exp(log_share) < _MOSTLY:
            log_others = trees.log_z + np.log1p(-np.exp(log_share))
        else:
            log_others = trees.log_z + log_share + log_others_over(trees, tree)
        return _Set(parent, not_parent, tree, float(log_others))

    def draw(self, everything: OutTreeDistribution, rng: np.random.Generator) -> Ints:
        """Return another tree of the set."""
        trees = everything.given(self.parent, self.not_parent)
        if np.exp(trees.log_prob(self.tree)) < _MOSTLY:
            while True:
                for tree in trees.sample(8, rng):
                    if (tree != self.tree).any():
                        return np.asarray(tree)
        u, parent = self._first_difference(trees, rng)
        u_not = (*self.not_parent, (u, int(self.tree[u])))
        return np.asarray(everything.given({**self.parent, **parent}, u_not).sample(1, rng)[0])

    def _first_difference(
        self, trees: OutTreeDistribution, rng: np.random.Generator
    ) -> tuple[int, dict[int, int]]:
        """Draw the first record whose parent differs; return it, and the parents before it."""
        records, log_weight = log_first_differences(trees, self.tree)
        at = int(rng.choice(len(records), p=np.exp(log_weight - logsumexp(log_weight))))
        before = records[:at]
        return int(records[at]), dict(zip(before.tolist(), self.tree[before].tolist(), strict=True))

    def split(self, everything: OutTreeDistribution, tree: Ints) -> tuple[_Set, _Set]:
        """Return two sets: one with the tree of this set, one with another of its trees."""
        u = int(np.flatnonzero(tree != self.tree)[0])
        v = int(self.tree[u])
        return (
            _Set.make(everything, {**self.parent, u: v}, self.not_parent, self.tree),
            _Set.make(everything, self.parent, (*self.not_parent, (u, v)), tree),
        )


def distinct_trees(everything: OutTreeDistribution, k: int, rng: np.random.Generator) -> Ints:
    """Return k different trees (k, T), each drawn from those that were not drawn before it."""
    drawn: dict[bytes, Ints] = {}
    for _ in range(_TRIES):
        if len(drawn) >= k:
            break
        for tree in everything.sample(k, rng):
            drawn.setdefault(tree.tobytes(), tree)
    trees = list(drawn.values())[:k]
    if len(trees) < k:
        trees = _more_trees(everything, trees, k, rng)
    return np.array(trees, dtype=np.intp).reshape(k, everything.n_records)


def _more_trees(
    everything: OutTreeDistribution, trees: list[Ints], k: int, rng: np.random.Generator
) -> list[Ints]:
    sets = [_Set.make(everything, {}, (), trees[0])]
    for tree in trees[1:]:  # into the set that holds it
        at = next(i for i, one in enumerate(sets) if _holds(one, tree))
        sets[at : at + 1] = sets[at].split(everything, tree)
    while len(trees) < k:
        log_others = np.array([one.log_others for one in sets])
        total = float(logsumexp(log_others))
        if total == -np.inf:
            raise InvalidWeightsError(
                f"n must be at most {len(trees)} without replacement, the number of possible "
                f"trees; got {k}. Ask for fewer, or use replace=True"
            )
        at = int(rng.choice(len(sets), p=np.exp(log_others - total)))
        trees.append(sets[at].draw(everything, rng))
        sets[at : at + 1] = sets[at].split(everything, trees[-1])
    return trees


def _holds(one: _Set, tree: Ints) -> bool:
    return all(tree[u] == v for u, v in one.parent.items()) and not any(
        tree[u] == v for u, v in one.not_parent
    )


def log_others_over(trees: OutTreeDistribution, tree: Ints) -> float:
    """Return log(Z / w(tree) − 1); −inf if there is no other tree."""
    log_r = _rates(trees, tree)[1]
    largest = log_r.max()
    if largest < -40.0:  # products of several are nothing beside their sum
        return float(logsumexp(log_r)) if largest > -np.inf else -np.inf
    total = np.logaddexp(0.0, log_r).sum()
    return float(total if total > 40.0 else np.log(np.expm1(total)))


def log_first_differences(trees: OutTreeDistribution, tree: Ints) -> tuple[Ints, Floats]:
    """Return all records in an order, and what the trees weigh that differ there first (T,).

    As logarithms, over the weight of the tree.
    """
    records, log_r = _rates(trees, tree)
    log_stay = np.logaddexp(0.0, log_r)
    behind = np.append(np.cumsum(log_stay[:0:-1])[::-1], 0.0)
    return records, log_r + behind


def _rates(trees: OutTreeDistribution, tree: Ints) -> tuple[Ints, Floats]:
    """Return all records, group by group from the root down, and log r of each (T,)."""
    edges = trees._edges
    counts = np.bincount(edges.group_codes)
    check_memory(
        f"drawing different trees of {trees.n_records:,} records needs",
        8 * 3 * int(counts.max()) ** 2,
        "Draw with replacement, or give fewer records.",
    )
    records, rates = [], []
    for members in _members(edges):
        log_beta, log_root, local = _of_group(edges, members, tree)
        lifted = int(trees.roots == "any")
        if lifted:  # the virtual root, which no tree gives a parent, comes first
            more = weights.lift(weights.frozen(log_beta, log_root))
            log_beta, log_root = more.log_beta, more.log_root
            local = np.append(-1, local + 1)
        order = np.argsort(_depths(local), kind="stable")  # the root first; the last leaves first
        rates.append(_log_rates(log_beta, log_root, local, order)[lifted:])
        records.append(members[order[lifted:] - lifted])
    return np.concatenate(records), np.concatenate(rates)


def _members(edges: Edges) -> list[NDArray[np.intp]]:
    order = np.argsort(edges.group_codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(edges.group_codes))[:-1])


def _of_group(edges: Edges, members: Ints, tree: Ints) -> tuple[Floats, Floats, Ints]:
    """Return one group's log-weights as a matrix, and its part of the tree."""
    place = np.full(len(tree), -1, dtype=np.intp)
    place[members] = np.arange(len(members))
    log_beta = edges.weights_at(members[:, None], members[None, :]).copy()
    np.fill_diagonal(log_beta, -np.inf)
    parents = tree[members]
    return log_beta, edges.log_root[members].copy(), np.where(parents >= 0, place[parents], -1)


def _log_rates(log_beta: Floats, log_root: Floats, tree: Ints, order: Ints) -> Floats:
    """Return log r_k of every node, in the order."""
    n = len(tree)
    place = np.argsort(order)
    up = np.where(tree >= 0, place[tree], 0)[order]  # parents in the new order
    own = np.where(tree >= 0, log_beta[np.arange(n), tree], log_root)[order]
    # Rows over the weight of their own edge in the tree, which itself is left out: it is one.
    q = log_beta[np.ix_(order, order)] - own[:, None]
    rho = log_root[order] - own
    rho[0] = -np.inf
    q[np.arange(1, n), up[1:]] = -np.inf
    log_r = np.empty(n)
    for k in range(n - 1, 0, -1):
        log_r[k] = logsumexp(q[k, :k]) if (q[k, :k] > -np.inf).any() else -np.inf
        pivot = np.logaddexp(0.0, log_r[k])
        row = q[k, :k].copy()
        row[up[k]] = np.logaddexp(0.0, row[up[k]])
        into = q[:k, k]
        if (into > -np.inf).any():
            q[:k, :k] = np.logaddexp(q[:k, :k], into[:, None] + (row - pivot))
            rho[:k] = np.logaddexp(rho[:k], into + (rho[k] - pivot))
    log_r[0] = rho[0]
    return log_r


def _depths(tree: Ints) -> Ints:
    """Return how many edges lie between each node and the root."""
    n = len(tree)
    above = np.append(np.where(tree >= 0, tree, n), n)
    depth = np.append(np.ones(n, dtype=np.intp), 0)
    for _ in range(n.bit_length()):  # climb 1, 2, 4, … edges at once
        depth += depth[above]
        above = above[above]
    return depth[:n]

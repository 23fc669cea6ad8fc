"""The best out-tree under given edge weights: Chu–Liu/Edmonds on a dense matrix.

Every node, or contracted group of nodes, picks its best parent; a cycle of picks becomes one
group, whose edges weigh what they would gain over the pick they replace. Contracting takes
O(n²) in all. With a single root, a group takes a root edge only when it has no other edge left:
comparing (number of root edges, weight) in that order, so no large constant is needed.

The picks' gains are also a dual solution: their sum bounds every out-tree's weight from above,
and the tree found meets it. That is the certificate (``bound``).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum

import numpy as np

from outtrees.trees.weights import Floats, Ints

_UNSEEN, _ON_PATH, _DONE = 0, 1, 2


@dataclass(frozen=True)
class Arborescence:
    """The best out-tree, and the groups and gains that prove it."""

    parents: Ints  # (n,), −1 at the root
    weight: float
    bound: float  # no out-tree weighs more
    gain: Floats  # (m,) what each group's own pick adds; groups 0 … n−1 are the nodes
    inside: Ints  # (m,) the group that each group was contracted into, −1 if none
    entered: Ints  # (n,) the outermost group that the edge into each node was picked for


def best_arborescence(weight: Floats, root_weight: Floats) -> Arborescence:
    """Return the out-tree with one root that has the largest total weight.

    ``weight[child, parent]``, −inf where an edge is not allowed, diagonal −inf. At least one
    spanning out-tree must exist. O(n²).
    """
    groups = _Groups(weight, root_weight)
    for node in range(len(root_weight)):
        groups.settle(node)
    n, count = len(root_weight), len(groups.members)
    entered = np.arange(count)
    for group in range(count - 1, n - 1, -1):  # outermost first: open the groups again
        end = groups.member_entered(group)
        groups.source[end] = groups.source[group]
        entered[end] = entered[group]
    parents = groups.source[:n].copy()
    return Arborescence(
        parents=parents,
        weight=total_weight(weight, root_weight, parents),
        bound=fsum(groups.gain[:count]),
        gain=groups.gain[:count],
        inside=groups.inside[:count],
        entered=entered[:n],
    )


def certified_arborescence(weight: Floats, root_weight: Floats) -> Arborescence:
    """Return the best out-tree after checking that its weight meets the bound."""
    best = best_arborescence(weight, root_weight)
    scale = max(1.0, float(np.abs(best.gain).max()))
    if not abs(best.bound - best.weight) <= 1e-12 * scale * len(best.gain):
        raise ArithmeticError(
            f"the best tree weighs {best.weight} but the bound is {best.bound}: "
            "please report this as a bug"
        )
    return best


class _Groups:
    """Nodes (0 … n−1) and the groups they were contracted into (from n on)."""

    def __init__(self, weight: Floats, root_weight: Floats) -> None:
        n = len(root_weight)
        m = 2 * n - 1  # there can be no more groups than that
        self.rows = np.empty((m, n))  # gain by an edge into each group, from each node
        self.rows[:n] = weight
        self.scratch = np.empty(n)
        self.root = np.empty(m)  # gain by a root edge
        self.root[:n] = root_weight
        self.source = np.full(m, -1)  # the group's pick: a node, or −1 for the root edge
        self.gain = np.zeros(m)  # gain by the pick
        self.inside = np.full(m, -1)
        self.state = [_UNSEEN] * m
        self.top = np.arange(n)  # outermost group of each node
        self.members = list(np.arange(n)[:, None])  # nodes of each group
        self.cycles: dict[int, list[int]] = {}

    def settle(self, node: int) -> None:
        """Follow picks from a node until they lead to the root or to settled groups."""
        path = [int(self.top[node])]
        while self.state[path[-1]] != _DONE:
            group = path[-1]
            self.state[group] = _ON_PATH
            pick = int(self.rows[group].argmax())
            gain = self.rows[group, pick]
            if gain == -np.inf:  # no parent left: this group holds the root
                self.gain[group] = self.root[group]
                break
            self.gain[group] = gain
            self.source[group] = pick
            above = int(self.top[pick])
            if self.state[above] == _ON_PATH:
                first = path.index(above)
                path[first:] = [self._contract(path[first:])]
            else:
                path.append(above)
        for group in path:
            self.state[group] = _DONE

    def member_entered(self, group: int) -> int:
        """Return the member at which the group's pick ends."""
        cycle = self.cycles[group]
        node = self.source[group]
        gains = self.root[cycle] if node < 0 else self.rows[cycle, node]
        return cycle[int((gains - self.gain[cycle]).argmax())]

    def _contract(self, cycle: list[int]) -> int:
        new = len(self.members)
        row = self.rows[new]
        np.subtract(self.rows[cycle[0]], self.gain[cycle[0]], out=row)
        for group in cycle[1:]:
            np.subtract(self.rows[group], self.gain[group], out=self.scratch)
            np.maximum(row, self.scratch, out=row)
        members = np.concatenate([self.members[group] for group in cycle])
        row[members] = -np.inf
        self.root[new] = (self.root[cycle] - self.gain[cycle]).max()
        self.top[members] = new
        self.inside[cycle] = new
        self.members.append(members)
        self.cycles[new] = cycle
        return new


def total_weight(weight: Floats, root_weight: Floats, parents: Ints) -> float:
    """Return the sum of a tree's edge weights and its root's weight, exactly rounded."""
    child = np.flatnonzero(parents >= 0)
    return fsum([*weight[child, parents[child]], *root_weight[parents < 0]])

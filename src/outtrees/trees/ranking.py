"""The k best out-trees in order (Camerini, Fratta and Maffioli 1980).

The set of all trees is split by one edge at a time: the second best tree of a set lacks some
edge e of the best, so the set falls into the trees that keep e and those that lack it. Which e, and
what lacking it costs, is read off the contraction that found the best tree.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from outtrees.trees.arborescence import Arborescence, best_arborescence
from outtrees.trees.weights import Floats, Ints

Edge = tuple[int, int]  # (child, parent), parent −1 for the root edge


@dataclass(frozen=True)
class _TreeSet:
    """The out-trees that hold every edge of ``kept`` and none of ``barred``."""

    kept: tuple[Edge, ...]
    barred: tuple[Edge, ...]


def ranked_arborescences(weight: Floats, root_weight: Floats) -> Iterator[tuple[Ints, float]]:
    """Yield (parents, weight) of every out-tree, best first. O(n²) to O(n³) for each."""
    order = count()  # ties in weight are served in the order they were found
    queue: list[tuple[float, int, _TreeSet, Edge]] = []

    def enqueue(trees: _TreeSet) -> Arborescence:
        restricted = _restrict(weight, root_weight, trees)
        found = best_arborescence(*restricted)
        loss, edge = _cheapest_change(*restricted, found, trees)
        if loss < np.inf:
            heapq.heappush(queue, (loss - found.weight, next(order), trees, edge))
        return found

    best = enqueue(_TreeSet((), ()))
    yield best.parents, best.weight
    while queue:
        _, _, trees, edge = heapq.heappop(queue)
        without = enqueue(_TreeSet(trees.kept, (*trees.barred, edge)))
        yield without.parents, without.weight
        enqueue(_TreeSet((*trees.kept, edge), trees.barred))


def _restrict(weight: Floats, root_weight: Floats, trees: _TreeSet) -> tuple[Floats, Floats]:
    weight, root_weight = weight.copy(), root_weight.copy()
    for child, parent in trees.barred:
        if parent < 0:
            root_weight[child] = -np.inf
        else:
            weight[child, parent] = -np.inf
    for child, parent in trees.kept:
        others = np.arange(len(weight)) != (child if parent < 0 else parent)
        if parent < 0:
            root_weight[others] = -np.inf
            weight[child] = -np.inf
        else:
            weight[child, others] = -np.inf
            root_weight[child] = -np.inf
    return weight, root_weight


def _cheapest_change(
    weight: Floats, root_weight: Floats, best: Arborescence, trees: _TreeSet
) -> tuple[float, Edge]:
    """Return the smallest loss by giving up one edge that is not kept, and that edge.

    The edge into node u was picked for the group ``entered[u]``; its substitute is the best
    other edge into that group from a node that does not descend from it.
    """
    n = len(root_weight)
    below = _descendants(best.parents)
    groups = _members_and_gains(best)
    smallest, change = np.inf, (-1, -1)
    for child in range(n):
        edge = (child, int(best.parents[child]))
        if edge in trees.kept:
            continue
        members, paid = groups[int(best.entered[child])]
        if edge[1] < 0:
            gains = root_weight[members] - paid
            gains[members == child] = -np.inf
        else:
            gains = weight[members] - paid[:, None]
            gains[:, below[child]] = -np.inf  # the group is entered at child: all of it is below
            gains[members == child, edge[1]] = -np.inf
        loss = float(best.gain[best.entered[child]] - gains.max())
        if loss < smallest:
            smallest, change = loss, edge
    return smallest, change


def _descendants(parents: Ints) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Return (n, n) booleans: [u, v] is whether v is u or descends from u."""
    n = len(parents)
    below = np.eye(n, dtype=bool)
    for v in range(n):
        u = parents[v]
        while u >= 0:
            below[u, v] = True
            u = parents[u]
    return below


def _members_and_gains(best: Arborescence) -> dict[int, tuple[Ints, Floats]]:
    """Return each entered group's nodes, and for each what was gained on the way up to it."""
    found: dict[int, list[tuple[int, float]]] = {int(group): [] for group in best.entered}
    for node in range(len(best.parents)):
        paid, group = 0.0, node
        while group >= 0:
            if group in found:
                found[group].append((node, paid))
            paid += float(best.gain[group])
            group = int(best.inside[group])
    return {
        group: (np.array([node for node, _ in rows]), np.array([paid for _, paid in rows]))
        for group, rows in found.items()
    }

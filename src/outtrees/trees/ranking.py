"""The k best out-trees in order (Camerini, Fratta and Maffioli 1980).

The set of all trees is split by one edge at a time: the second best tree of a set lacks some
edge e of the best, so the set falls into the trees that keep e and those that lack it. Which e, and
what lacking it costs, is read off the contraction that found the best tree.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from math import fsum
from typing import NamedTuple

import numpy as np

from outtrees.trees.arborescence import Arborescence, best_arborescence
from outtrees.trees.weights import Floats, Ints

Edge = tuple[int, int]  # (child, parent), or (child, number of the edge); −1 for the root edge


@dataclass(frozen=True)
class TreeSet:
    """The out-trees that hold every edge of ``kept`` and none of ``barred``."""

    kept: tuple[Edge, ...]
    barred: tuple[Edge, ...]


class Solved(NamedTuple):
    """The best tree of a set, and the edge that the second best lacks."""

    tree: Ints
    weight: float
    loss: float  # from the best to the second best; inf if there is none
    edge: Edge


def ranked(solve: Callable[[TreeSet], Solved]) -> Iterator[tuple[Ints, float]]:
    """Yield (tree, weight) of every out-tree, best first; two sets are solved for each.

    Every set in the queue has one tree that was yielded already, a best one. Of several that weigh
    the same, solving the set may find another: that one is then its second best.
    """
    order = count()  # ties in weight are served in the order they were found
    queue: list[tuple[float, int, TreeSet, Edge, Ints]] = []

    def enqueue(trees: TreeSet, yielded: Ints | None = None) -> Solved:
        found = solve(trees)
        loss, edge, known = found.loss, found.edge, found.tree
        if yielded is not None and not np.array_equal(found.tree, yielded):
            child = int(np.flatnonzero(found.tree != yielded)[0])
            loss, edge, known = 0.0, (child, int(yielded[child])), yielded
        if loss < np.inf:
            heapq.heappush(queue, (loss - found.weight, next(order), trees, edge, known))
        return found

    best = enqueue(TreeSet((), ()))
    yield best.tree, best.weight
    while queue:
        _, _, trees, edge, known = heapq.heappop(queue)
        without = enqueue(TreeSet(trees.kept, (*trees.barred, edge)))
        yield without.tree, without.weight
        enqueue(TreeSet((*trees.kept, edge), trees.barred), known)


def ranked_arborescences(weight: Floats, root_weight: Floats) -> Iterator[tuple[Ints, float]]:
    """Yield (parents, weight) of every out-tree, best first. O(n²) to O(n³) for each."""

    def solve(trees: TreeSet) -> Solved:
        restricted = _restrict(weight, root_weight, trees)
        found = best_arborescence(*restricted)
        return Solved(found.parents, found.weight, *_cheapest_change(*restricted, found, trees))

    return ranked(solve)


def smallest_sums(
    n: int, loss: Callable[[int, int], float | None]
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield choices of one entry from each of n lists, by the sum of what is lost.

    A choice is told by the lists that do not give their first entry, as (list, entry). Entry j of
    list i loses ``loss(i, j)``, 0 for the first and rising, None behind the last; ``loss(i, 1)``
    rises with i. Of m choices no list beyond the first m − 1 is asked.

    Examples
    --------
    >>> lists = [[0.0, 1.0], [0.0, 2.0, 2.5]]
    >>> entry = lambda i, j: lists[i][j] if j < len(lists[i]) else None
    >>> list(smallest_sums(2, entry))
    [(), ((0, 1),), ((1, 1),), ((1, 2),), ((0, 1), (1, 1)), ((0, 1), (1, 2))]
    """
    yield ()
    queue: list[tuple[float, tuple[tuple[int, int], ...]]] = []

    def push(*places: tuple[int, int]) -> None:
        losses = [loss(*place) for place in places]
        if losses[-1] is not None:
            heapq.heappush(queue, (fsum(x for x in losses if x is not None), places))

    if n:
        push((0, 1))
    while queue:
        _, places = heapq.heappop(queue)
        yield places
        *before, (i, j) = places
        push(*before, (i, j + 1))
        if i + 1 < n:
            push(*places, (i + 1, 1))
            if j == 1:
                push(*before, (i + 1, 1))


def _restrict(weight: Floats, root_weight: Floats, trees: TreeSet) -> tuple[Floats, Floats]:
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
    weight: Floats, root_weight: Floats, best: Arborescence, trees: TreeSet
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

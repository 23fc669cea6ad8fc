"""The k best trees of independent groups, from the k best of each."""

from __future__ import annotations

from itertools import islice

from outtrees.trees.candidate_groups import DenseGroups
from outtrees.trees.ranking import smallest_sums
from outtrees.trees.weights import Ints


def best_of_parts(groups: DenseGroups, k: int) -> list[Ints]:
    """Return the parents (T,) of the k most probable trees, best first."""
    ranked = [part.best(k) for part in groups.parts]
    losses = [[trees[0].log_prob - tree.log_prob for tree in trees] for trees in ranked]
    several = [part for part, values in enumerate(losses) if len(values) > 1]
    several.sort(key=lambda part: losses[part][1])

    def loss(i: int, j: int) -> float | None:
        values = losses[several[i]]
        return values[j] if j < len(values) else None

    found = []
    for places in islice(smallest_sums(len(several), loss), k):
        place = {several[i]: j for i, j in places}
        found.append(
            groups.joined([trees[place.get(part, 0)].parents for part, trees in enumerate(ranked)])
        )
    return found

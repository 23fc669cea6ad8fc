"""The k best trees of independent groups, from the k best of each."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice

import numpy as np

from outtrees.trees.candidate_groups import DenseGroups
from outtrees.trees.weights import Ints


def best_of_parts(groups: DenseGroups, k: int) -> list[Ints]:
    """Return the parents (T,) of the k most probable trees, best first."""
    ranked = [part.best(k) for part in groups.parts]
    losses = [[trees[0].log_prob - tree.log_prob for tree in trees] for trees in ranked]
    chosen = islice(_smallest_sums(losses), k)
    return [
        groups.joined([trees[i].parents for trees, i in zip(ranked, places, strict=True)])
        for places in chosen
    ]


def _smallest_sums(losses: list[list[float]]) -> Iterator[tuple[int, ...]]:
    """Yield one place in each list, by the sum of what stands there; lists start at 0 and rise."""
    start = (0,) * len(losses)
    queue = [(0.0, start)]
    seen = {start}
    while queue:
        loss, places = heappop(queue)
        yield places
        for i, place in enumerate(places):
            following = (*places[:i], place + 1, *places[i + 1 :])
            if place + 1 < len(losses[i]) and following not in seen:
                seen.add(following)
                step = losses[i][place + 1] - losses[i][place]
                heappush(queue, (float(np.float64(loss) + step), following))

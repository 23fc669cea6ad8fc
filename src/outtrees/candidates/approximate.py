"""Nearest parents by PyNNDescent: most of them, for embeddings of many dimensions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from outtrees._common.types import Array
from outtrees.models.edges import Ints

NEIGHBOURS = ("exact", "approximate")
# Up to so many dimensions scikit-learn takes trees, as fast and exact; beyond, all pairs.
MOST_EXACT = 15
_WIDER = 1.5  # neighbours that the search holds, over those asked for


def approximate_is_used(neighbours: str, space: tuple[Array, Array]) -> bool:
    """Return whether parents in an embedding are looked up approximately."""
    return neighbours == "approximate" and space[1].shape[1] > MOST_EXACT


def nn_descent() -> Any:
    """Return PyNNDescent's index, or say what to install."""
    try:
        from pynndescent import NNDescent
    except ImportError:
        raise ImportError(
            "neighbours='approximate' needs PyNNDescent; install it with pip install "
            "'outtrees[neighbours]', or use neighbours='exact'"
        ) from None
    return NNDescent


def nearly_nearest(children: Array, parents: Array, k: int) -> Ints:
    """Return most of the k parents nearest to each child, (n, k); a row may hold −1 at its end.

    About O(n log n). On one thread and from one seed, so that the same records give the same rows.
    """
    index_of = nn_descent()
    # PyNNDescent computes in single precision: differences survive it best around 0.
    centre = parents.mean(axis=0)
    points = parents - centre
    held = min(int(_WIDER * k), len(parents) - 1)
    with warnings.catch_warnings():
        # Rows that it could not fill are looked up by the caller.
        warnings.simplefilter("ignore", UserWarning)
        index = index_of(points, n_neighbors=max(held, k), random_state=0, n_jobs=1)
        if np.array_equal(children, parents):
            found = index.neighbor_graph[0][:, :k]
        else:
            found = index.query(children - centre, k)[0]
    return np.asarray(found, dtype=np.intp)

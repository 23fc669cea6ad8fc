"""Listed edges as models take them: checked, and a stretch at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

# Cells of records that are gathered at once: 8 MB, which stays in the cache.
_CELLS_AT_ONCE = 2**20


def check_edges(child: ArrayLike, parent: ArrayLike, n_records: int, owner: str) -> None:
    """Raise ValueError unless both ends are vectors of one length that hold records."""
    ends = {"child": np.asarray(child), "parent": np.asarray(parent)}
    if ends["child"].ndim != 1 or ends["child"].shape != ends["parent"].shape:
        raise ValueError(
            f"{owner} expects child and parent as vectors of one length; got shapes "
            f"{ends['child'].shape} and {ends['parent'].shape}; give both ends of each edge."
        )
    for name, values in ends.items():
        if len(values) and values.dtype.kind not in "iu":
            raise ValueError(
                f"{owner} expects row numbers in {name}; got {values.dtype}. Use integers."
            )
        outside = (values < 0) | (values >= n_records)
        if outside.any():
            raise ValueError(
                f"{owner} expects rows 0 … {n_records - 1} in {name}; got "
                f"{values[outside][0]}; X has {n_records} records."
            )


def chunks(n_edges: int, width: int) -> Iterator[slice]:
    """Yield slices of edges whose records, of `width` cells each, are gathered together."""
    step = max(1, _CELLS_AT_ONCE // max(width, 1))
    for low in range(0, n_edges, step):
        yield slice(low, min(low + step, n_edges))

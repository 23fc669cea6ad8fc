"""The forms in which a list of possible edges may be given."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from outtrees.errors import InvalidWeightsError
from outtrees.trees.candidates import CandidateTrees


def from_candidates(
    child: Any,  # (E,), or a sparse array (T, T)
    parent: ArrayLike | None,
    log_weight: ArrayLike | None,
    log_root: ArrayLike | None,
    n_records: int | None,
    roots: Literal["single", "any"],
    groups: ArrayLike | None,
) -> CandidateTrees:
    """Return the distribution; see `OutTreeDistribution.from_candidates`."""
    if issparse(child):
        if parent is not None or log_weight is not None:
            raise InvalidWeightsError(
                "a sparse array holds both ends and the log-weight of each edge; leave out parent "
                "and log_weight, or give three arrays"
            )
        listed = child.tocoo()
        if listed.shape[0] != listed.shape[1]:
            raise InvalidWeightsError(
                f"a sparse array must be square, (T, T) [child, parent]; got shape {listed.shape}"
            )
        n_records = listed.shape[0] if n_records is None else n_records
        child, parent, log_weight = listed.row, listed.col, listed.data
    if parent is None or log_weight is None:
        raise InvalidWeightsError(
            "child, parent and log_weight are expected, one entry for each possible edge, or one "
            "sparse array; got child alone"
        )
    if log_root is None:
        if n_records is None:
            raise InvalidWeightsError("the number of records is not said; give n_records")
        log_root = np.zeros(n_records)
    elif n_records is not None and np.shape(log_root) != (n_records,):
        raise InvalidWeightsError(
            f"log_root must hold one log-weight for each of {n_records} records; got shape "
            f"{np.shape(log_root)}"
        )
    return CandidateTrees(child, parent, log_weight, log_root, groups=groups, roots=roots)

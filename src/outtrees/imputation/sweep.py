"""One record after another: its parent and its hidden cells, drawn together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outtrees._common.types import Array
from outtrees.imputation.model import HiddenModel

Ints = NDArray[np.intp]


class Placed(NamedTuple):
    """Complete records, their tree, and the kind of each link."""

    X: Array  # (T, D), categories as positions
    parents: Ints  # (T,), −1 at the root
    kinds: Ints  # (T,)


def sweep(
    model: HiddenModel,
    observed: Array,  # (T, D), NaN where hidden
    state: Placed,
    rng: np.random.Generator,
) -> Placed:
    """Return the state after each record with hidden cells drew parent, kind and cells anew.

    Given a tree, hidden cells lie near the parent's; given those cells, the tree keeps that
    parent: alternating the two alone moves slowly, and not at all where mutations are small. Here
    a record u draws its parent v and the kind k of its link with weights

        weight_k · ∫ p_k(x_u | x_v) Π_children p(x_c | x_u) d(hidden cells of u),

    over all v that do not descend from u, and then its hidden cells given v, k and its children.
    Each draw is exact given the rest, so the joint distribution of trees and cells stays as it
    is. The root has no parent to draw and is left to the other moves. O(K T² D²) for all records.
    """
    from outtrees.imputation.sweep_kernels import sweep_records

    edges = model.edges
    hidden = np.isnan(observed)
    T = len(observed)
    cells = np.ascontiguousarray(state.X[:, model.continuous])
    codes = np.ascontiguousarray(state.X[:, model.categorical].astype(np.intp))
    parents, kinds = state.parents.copy(), state.kinds.copy()
    in_range = sweep_records(
        rng.permutation(T),
        parents,
        kinds,
        cells,
        np.ascontiguousarray(hidden[:, model.continuous]),
        codes,
        np.ascontiguousarray(hidden[:, model.categorical]),
        edges.precision,
        edges.pulled,
        edges.pulled_back,
        edges.transition,
        edges.offset,
        edges.log_precision,
        model.log_weights,
        model.parent_free,
        model.stacked_tables,
        np.array([len(names) for names in model.levels], dtype=np.intp),
        rng.random(T),
        rng.standard_normal(cells.shape),
        rng.random(codes.shape),
    )
    if not in_range:
        raise ValueError(
            "hidden cells need covariances well inside double precision, but a precision is not "
            "positive definite; use a larger reg_covar or prior_strength."
        )
    X = state.X.copy()
    X[:, model.continuous], X[:, model.categorical] = cells, codes
    return Placed(X, parents, kinds)

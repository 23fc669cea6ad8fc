"""Scores as those write them who learn them: one array, the roots' on the diagonal.

``scores[..., u, v]`` is the log-weight of "u descends from v", ``scores[..., u, u]`` of "u is a
root"; any number of axes in front. Marginals and directions have the same form. The bridges to
libraries that differentiate (`outtrees.torch`, `outtrees.jax`) know no more of trees than this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from outtrees.errors import InvalidWeightsError
from outtrees.trees.batch import OutTreeBatch
from outtrees.trees.weights import Floats

if TYPE_CHECKING:
    from outtrees.trees.distribution import Roots


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise unless the last two axes are equal and not empty."""
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] == 0:
        raise InvalidWeightsError(
            "scores must have shape (..., T, T) [child, parent] with the roots' scores on the "
            f"diagonal; got {tuple(shape)}"
        )


def batch_of(scores: ArrayLike, lengths: ArrayLike | None, roots: Roots) -> OutTreeBatch:
    """Return the distributions, all axes in front made one."""
    array = np.asarray(scores)
    check_shape(array.shape)
    flat = array.reshape(-1, *array.shape[-2:])
    if lengths is not None:
        lengths = np.asarray(lengths)
        if lengths.shape != array.shape[:-2]:
            raise InvalidWeightsError(
                f"lengths must have the shape {array.shape[:-2]} of what is in front of scores; "
                f"got {lengths.shape}"
            )
        lengths = lengths.reshape(-1)
    return OutTreeBatch(flat, np.einsum("bii->bi", flat), lengths, roots=roots)


def log_partition(scores: Any, lengths: Any, roots: Roots) -> Floats:
    """Return log Z (...)."""
    batch = batch_of(scores, lengths, roots)
    return batch.log_z.reshape(np.shape(scores)[:-2])


def sums(scores: Any, lengths: Any, roots: Roots) -> tuple[Floats, Floats]:
    """Return log Z (...) and the marginals (..., T, T), the roots' on the diagonal."""
    batch = batch_of(scores, lengths, roots)
    joined = _joined(batch.edge_marginals, batch.root_marginals)
    return batch.log_z.reshape(np.shape(scores)[:-2]), joined.reshape(np.shape(scores))


def entropy(log_z: Any, marginal: Any, scores: Any, where: Any) -> Any:
    """Return log Z − Σ P(edge) score (...), from arrays of the library whose ``where`` this is."""
    used = marginal > 0  # what never happens costs nothing, even at −inf
    return log_z - where(used, marginal * where(used, scores, 0.0), 0.0).sum(axis=(-2, -1))


def slopes(scores: Any, direction: Any, lengths: Any, roots: Roots) -> Floats:
    """Return the derivatives of the marginals (..., T, T) as scores move in a direction.

    The matrix of second derivatives of log Z is symmetric, so this also takes a gradient with
    respect to marginals to one with respect to scores.
    """
    flat = np.asarray(direction, dtype=np.float64).reshape(-1, *np.shape(scores)[-2:])
    if not flat.any():
        return np.zeros(np.shape(scores))
    batch = batch_of(scores, lengths, roots)
    allowed = _joined(batch.log_beta, batch.log_root) > -np.inf
    flat = np.where(allowed, flat, 0.0)
    edge, root = batch.marginal_slopes(flat, np.einsum("bii->bi", flat))
    return _joined(edge, root).reshape(np.shape(scores))


def _joined(edge: Floats, root: Floats) -> Floats:
    joined = edge.copy()
    np.einsum("bii->bi", joined)[:] = root
    return joined

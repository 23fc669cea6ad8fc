"""Exact sums over out-trees as functions that JAX differentiates, twice, under jit and vmap.

Needs JAX (``pip install 'outtrees[jax]'``). The sums run on the processor in double precision;
results have the scores' type. For digits beyond the seventh, switch on ``jax_enable_x64``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:  # say what to install
    raise ImportError("outtrees.jax needs JAX; pip install 'outtrees[jax]'") from error

from outtrees.trees import scores as sums_of

if TYPE_CHECKING:
    from outtrees.trees.distribution import Roots


def log_partition(scores: Any, lengths: Any = None, *, roots: Roots = "single") -> Any:
    """Return log Z, the log-sum of the weights of all out-trees, of each problem.

    Parameters
    ----------
    scores : array of shape (..., T, T)
        ``scores[..., u, v]``: log-weight of "u descends from v"; on the diagonal, that of "u is a
        root". −inf forbids.
    lengths : integer array of shape (...), optional
        How many records each problem has, all T if not given; what is beyond is ignored.
    roots : {"single", "any"}
        One root, or any number of them.

    Returns
    -------
    array of shape (...)
        Its gradient is `marginals`, the gradient of that the covariance of edges: both exact.

    Examples
    --------
    >>> import jax
    >>> scores = jax.numpy.zeros((3, 3))
    >>> round(float(jax.numpy.exp(log_partition(scores))))  # nine trees
    9
    >>> jax.grad(log_partition)(scores).round(3)[0].tolist()
    [0.333..., 0.333..., 0.333...]
    """
    return _log_partition(*_arguments(scores, lengths), roots)


def marginals(scores: Any, lengths: Any = None, *, roots: Roots = "single") -> Any:
    """Return the probability of each edge, and on the diagonal of each root.

    Can be differentiated once.

    Parameters
    ----------
    scores, lengths, roots
        As in `log_partition`.

    Returns
    -------
    array of shape (..., T, T)
        Probabilities; those of a record sum to one.
    """
    return _sums(*_arguments(scores, lengths), roots)[1]


def entropy(scores: Any, lengths: Any = None, *, roots: Roots = "single") -> Any:
    """Return the entropy of each problem's tree in nats; can be differentiated once.

    Parameters
    ----------
    scores, lengths, roots
        As in `log_partition`.

    Returns
    -------
    array of shape (...)
        Entropies.
    """
    log_z, marginal = _sums(*_arguments(scores, lengths), roots)
    return sums_of.entropy(log_z, marginal, scores, jnp.where)


def _arguments(scores: Any, lengths: Any) -> tuple[Any, Any]:
    scores = jnp.asarray(scores)
    sums_of.check_shape(scores.shape)
    if lengths is None:
        lengths = jnp.full(scores.shape[:-2], scores.shape[-1])
    return scores, jnp.asarray(lengths)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _log_partition(scores: Any, lengths: Any, roots: Roots) -> Any:
    result = jax.ShapeDtypeStruct(scores.shape[:-2], scores.dtype)
    return _called(sums_of.log_partition, roots, result, scores, lengths)


def _log_partition_forward(scores: Any, lengths: Any, roots: Roots) -> tuple[Any, Any]:
    log_z, marginal = _sums(scores, lengths, roots)
    return log_z, marginal


def _log_partition_backward(roots: Roots, marginal: Any, gradient: Any) -> tuple[Any, None]:
    return gradient[..., None, None] * marginal, None


_log_partition.defvjp(_log_partition_forward, _log_partition_backward)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _sums(scores: Any, lengths: Any, roots: Roots) -> tuple[Any, Any]:
    """Return log Z and the marginals."""
    result = (
        jax.ShapeDtypeStruct(scores.shape[:-2], scores.dtype),
        jax.ShapeDtypeStruct(scores.shape, scores.dtype),
    )
    log_z, marginal = _called(sums_of.sums, roots, result, scores, lengths)
    return log_z, marginal


def _sums_forward(scores: Any, lengths: Any, roots: Roots) -> tuple[Any, Any]:
    log_z, marginal = _sums(scores, lengths, roots)
    return (log_z, marginal), (scores, lengths, marginal)


def _sums_backward(roots: Roots, kept: Any, gradients: Any) -> tuple[Any, None]:
    scores, lengths, marginal = kept
    of_log_z, of_marginal = gradients
    result = jax.ShapeDtypeStruct(scores.shape, scores.dtype)
    slope = _called(sums_of.slopes, roots, result, scores, of_marginal, lengths)
    return of_log_z[..., None, None] * marginal + slope, None


_sums.defvjp(_sums_forward, _sums_backward)


def _called(function: Any, roots: Roots, result: Any, *arrays: Any) -> Any:
    """Call a function of NumPy arrays, with as many axes in front as vmap brings."""

    def call(*given: Any) -> Any:
        found = function(*given, roots)
        kinds = jax.tree.leaves(result)
        cast = [
            one.astype(kind.dtype) for one, kind in zip(jax.tree.leaves(found), kinds, strict=True)
        ]
        return jax.tree.unflatten(jax.tree.structure(result), cast)

    return jax.pure_callback(call, result, *arrays, vmap_method="broadcast_all")

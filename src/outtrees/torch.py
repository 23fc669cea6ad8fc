"""Exact sums over out-trees as functions that PyTorch differentiates, twice.

Needs PyTorch (``pip install 'outtrees[torch]'``). The sums run on the processor in double
precision, whatever the scores' device and type; results come back as the scores came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import torch
except ImportError as error:  # say what to install
    raise ImportError("outtrees.torch needs PyTorch; pip install 'outtrees[torch]'") from error

from outtrees.trees import scores as sums_of

if TYPE_CHECKING:
    from outtrees.trees.distribution import Roots


def log_partition(scores: Any, lengths: Any = None, *, roots: Roots = "single") -> Any:
    """Return log Z, the log-sum of the weights of all out-trees, of each problem.

    Parameters
    ----------
    scores : tensor of shape (..., T, T)
        ``scores[..., u, v]``: log-weight of "u descends from v"; on the diagonal, that of "u is a
        root". −inf forbids.
    lengths : integer tensor of shape (...), optional
        How many records each problem has, all T if not given; what is beyond is ignored.
    roots : {"single", "any"}
        One root, or any number of them.

    Returns
    -------
    tensor of shape (...)
        Its gradient is `marginals`, the gradient of that the covariance of edges: both exact.

    Examples
    --------
    >>> import torch
    >>> scores = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    >>> log_z = log_partition(scores)
    >>> round(log_z.exp().item())  # nine trees
    9
    >>> log_z.backward()
    >>> bool(torch.allclose(scores.grad, torch.full((3, 3), 1 / 3, dtype=torch.float64)))
    True
    """
    if not (torch.is_grad_enabled() and scores.requires_grad):
        return _like(scores, sums_of.log_partition(_numpy(scores), _numpy(lengths), roots))
    return _Sums.apply(scores, lengths, roots)[0]


def marginals(scores: Any, lengths: Any = None, *, roots: Roots = "single") -> Any:
    """Return the probability of each edge, and on the diagonal of each root.

    Can be differentiated once.

    Parameters
    ----------
    scores, lengths, roots
        As in `log_partition`.

    Returns
    -------
    tensor of shape (..., T, T)
        Probabilities; those of a record sum to one.
    """
    return _Sums.apply(scores, lengths, roots)[1]


def entropy(scores: Any, lengths: Any = None, *, roots: Roots = "single") -> Any:
    """Return the entropy of each problem's tree in nats; can be differentiated once.

    Parameters
    ----------
    scores, lengths, roots
        As in `log_partition`.

    Returns
    -------
    tensor of shape (...)
        Entropies.
    """
    log_z, marginal = _Sums.apply(scores, lengths, roots)
    return sums_of.entropy(log_z, marginal, scores, torch.where)


class _Sums(torch.autograd.Function):
    """Log Z and the marginals of scores."""

    @staticmethod
    def forward(ctx: Any, scores: Any, lengths: Any, roots: Roots) -> tuple[Any, Any]:
        found = sums_of.sums(_numpy(scores), _numpy(lengths), roots)
        log_z, marginal = (_like(scores, one) for one in found)
        ctx.lengths, ctx.roots = lengths, roots
        # The marginals are saved as a result of this function, so that gradients of gradients
        # find their way back through it.
        ctx.save_for_backward(scores, marginal)
        ctx.set_materialize_grads(False)
        return log_z, marginal

    @staticmethod
    def backward(ctx: Any, of_log_z: Any, of_marginal: Any) -> tuple[Any, None, None]:
        scores, marginal = ctx.saved_tensors
        gradient = None
        if of_log_z is not None:
            gradient = of_log_z[..., None, None] * marginal
        if of_marginal is not None:
            slope = _Slopes.apply(scores, of_marginal, ctx.lengths, ctx.roots)
            gradient = slope if gradient is None else gradient + slope
        return gradient, None, None


class _Slopes(torch.autograd.Function):
    """The slopes of marginals in a direction."""

    @staticmethod
    def forward(ctx: Any, scores: Any, direction: Any, lengths: Any, roots: Roots) -> Any:
        ctx.lengths, ctx.roots = lengths, roots
        ctx.save_for_backward(scores)
        found = sums_of.slopes(_numpy(scores), _numpy(direction), _numpy(lengths), roots)
        return _like(scores, found)

    @staticmethod
    def backward(ctx: Any, of_slope: Any) -> tuple[None, Any, None, None]:
        if ctx.needs_input_grad[0]:
            raise NotImplementedError("third derivatives of log Z are not there")
        (scores,) = ctx.saved_tensors
        return None, _Slopes.apply(scores, of_slope, ctx.lengths, ctx.roots), None, None


def _numpy(tensor: Any) -> Any:
    return tensor.detach().cpu().numpy() if isinstance(tensor, torch.Tensor) else tensor


def _like(scores: Any, array: Any) -> Any:
    return torch.as_tensor(array.copy(), dtype=scores.dtype, device=scores.device)

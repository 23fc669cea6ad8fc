"""The determinant in ball arithmetic, at whatever precision it takes: the oracle at any range."""

import flint
import numpy as np


def precise_sums(log_beta, log_root):
    """Return log Z, log Z_r, edge and root marginals as doubles, each with proven digits.

    Z is the determinant of the out-Laplacian with its first column replaced by the root
    weights. The precision is doubled until the balls are small.
    """
    previous = flint.ctx.prec
    bits = 400
    try:
        while bits < 1 << 24:
            flint.ctx.prec = bits
            result = _sums(log_beta, log_root)
            if result is not None:
                return result
            bits *= 2
    finally:
        flint.ctx.prec = previous
    raise AssertionError("the reference did not reach its precision")


def _sums(log_beta, log_root):
    T = len(log_root)
    scale = log_beta.max(axis=1, initial=-1e300)
    scale = np.where(scale > -1e299, scale, 0.0)
    beta = [[_exp(log_beta[u, v], scale[u]) for v in range(T)] for u in range(T)]
    rho = [_exp(log_root[u], scale[u]) for u in range(T)]
    matrix = flint.arb_mat(T, T)
    for u in range(T):
        row = sum(beta[u], flint.arb(0))
        for v in range(1, T):
            matrix[u, v] = row if u == v else -beta[u][v]
        matrix[u, 0] = rho[u]
    try:
        inverse = matrix.inv()
    except ZeroDivisionError:
        return None
    z = matrix.det()
    total_scale = sum((flint.arb(float(s)) for s in scale), flint.arb(0))
    log_z = z.log() + total_scale
    edge = np.zeros((T, T))
    for u in range(T):
        for v in range(T):
            if u == v:
                continue
            gain = (inverse[u, u] if u else 0) - (inverse[v, u] if v else 0)
            marginal = beta[u][v] * gain
            if not _small(marginal):
                return None
            edge[u, v] = float(marginal.mid())
    chances = [rho[r] * inverse[0, r] for r in range(T)]
    log_rooted = [
        (inverse[0, r] * z).log() + total_scale - flint.arb(float(scale[r])) for r in range(T)
    ]
    if not (_small(log_z) and all(map(_small, chances)) and all(map(_small, log_rooted))):
        return None
    return (
        float(log_z.mid()),
        np.array([float(x.mid()) for x in log_rooted]),
        edge,
        np.array([float(x.mid()) for x in chances]),
    )


def _exp(log_value, scale):
    if np.isneginf(log_value):
        return flint.arb(0)
    return (flint.arb(float(log_value)) - flint.arb(float(scale))).exp()


def _small(ball):
    """Whether the ball's radius is below 1e-17 of its size, or of one."""
    return ball.is_finite() and float(ball.rad()) <= 1e-17 * max(1.0, abs(float(ball.mid())))

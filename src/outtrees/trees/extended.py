"""The elimination of :mod:`outtrees.trees.elimination` on numbers of unbounded exponent.

Slower by a constant, exact for every finite input: this is where weights go that a double
cannot hold, such as those of clusters a thousand standard deviations apart. A number is a pair
of arrays (mantissa, exponent); the formulas are those of the in-range form, node by node.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, log

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from outtrees.trees.elimination import rooted_sums
from outtrees.trees.probabilities import settled
from outtrees.trees.weights import Floats, Ints, Weights, anchored_order

Exponents = NDArray[np.int64]
Numbers = tuple[Floats, Exponents]

# ln 2 in two parts: the first is short enough that its product with an exponent of up to
# 20 bits is exact, so that splitting a logarithm costs none of its digits.
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
_LN2_LOW = 1.9082149292705878e-10


@dataclass(frozen=True)
class ExtendedElimination:
    """One forward pass; the fields are those of ``Elimination``, as pairs of arrays."""

    weights: Weights
    order: Ints
    log_scale: Floats
    root_shift: float
    log_rho: Floats
    factors: Numbers
    s: Numbers
    x: Numbers
    y: Numbers
    inv_rho_0: Numbers  # 1 / the final root weight, one number

    @property
    def log_z_scaled(self) -> float:
        """Log of the sum over all out-trees, of the scaled weights."""
        return fsum([*logs(self.s), *-logs(self.inv_rho_0)])

    def log_z_rooted(self, members: Ints) -> Floats:
        """Return log Z_r of every node; −inf for those that are no possible root."""
        log_x = np.full(len(self.order), -np.inf)
        log_x[members] = logs(self.x)[self.order][members]
        return rooted_sums(logs(self.s), log_x, self.log_scale)

    def marginals(self) -> tuple[Floats, Floats]:
        """Return P(u descends from v) as (n, n) [child, parent] and P(r is the root)."""
        from outtrees.trees import extended_kernels as kernels

        n = self.weights.n
        M = zeros((n, n))
        # All nodes are those of one front, and none of them comes before it.
        rates = zeros((0, n))
        kernels.derivatives(*M, *self.factors, *rates, 1, 0, 0, *self.x, *self.y, *self.s)
        edge = np.empty((n, n))
        for u in range(n):  # row by row: β is split anew rather than kept
            beta = split(self.weights.log_beta[u] - self.log_scale[u])
            row = self.order[u]
            edge[u] = doubles(beta, (M[0][row][self.order], M[1][row][self.order]))
        root = doubles(split(self.log_rho), self.x, self.inv_rho_0)
        return settled(edge, n), root[self.order]

    def absorption(self) -> Floats:
        """Return P(v is the root above u) of a lifted forest, as ``Elimination.absorption``."""
        from outtrees.trees import extended_kernels as kernels

        n = self.weights.n
        hits = zeros((n, n))
        direct = split(self.weights.log_beta[:, 0] - self.log_scale)
        np.fill_diagonal(hits[0], direct[0])
        np.fill_diagonal(hits[1], direct[1])
        kernels.first_hits(*self.factors, *self.s, *hits)
        hits[0][0] = 0.0
        shares = np.tril(doubles(self.factors), -1)
        return np.asarray(
            solve_triangular(np.eye(n) - shares, doubles(hits), lower=True, unit_diagonal=True)
        )


def eliminate(weights: Weights, anchor: int) -> ExtendedElimination:
    """Run the forward pass; ``anchor``, a possible root, is the node that stays last."""
    from outtrees.trees import extended_kernels as kernels

    order = anchored_order(weights.n, anchor)
    log_scale = weights.log_scale
    factors = split((weights.log_beta - log_scale[:, None])[np.ix_(order, order)])
    log_rho = (weights.log_root - log_scale)[order]
    root_shift = float(log_rho.max())
    log_rho -= root_shift
    s = split(np.zeros(weights.n))
    x = zeros(weights.n)
    y = split(log_rho)
    kernels.eliminate(*factors, 1, 0, 0, *s)
    kernels.root_ratios(*factors, *s, *x)
    kernels.root_shares(*factors, *s, *y)
    # y_0 is now the final root weight (s_0 = 1); relative to it, y is what the formulas want.
    inv_rho_0 = 1.0 / y[0][:1], -y[1][:1]
    y = y[0] * inv_rho_0[0], y[1] + inv_rho_0[1]
    return ExtendedElimination(
        weights, order, log_scale, root_shift, log_rho, factors, s, x, y, inv_rho_0
    )


def split(log_values: Floats) -> Numbers:
    """Return exp of the values as mantissas in [½, 1) and exponents of two."""
    from outtrees.trees.extended_kernels import ZERO

    finite = log_values > -np.inf
    known = np.where(finite, log_values, 0.0)
    exponent = np.floor(known / log(2.0)) + 1.0
    mantissa = np.exp((known - exponent * _LN2_HIGH) - exponent * _LN2_LOW)
    return np.where(finite, mantissa, 0.0), np.where(finite, exponent, ZERO).astype(np.int64)


def zeros(shape: int | tuple[int, int]) -> Numbers:
    """Return an array of zeros."""
    from outtrees.trees.extended_kernels import ZERO

    return np.zeros(shape), np.full(shape, ZERO, dtype=np.int64)


def logs(numbers: Numbers) -> Floats:
    """Return the logarithms of the numbers."""
    mantissa, exponent = numbers
    with np.errstate(divide="ignore"):  # log 0 = −inf is meant
        return np.log(mantissa) + (exponent * _LN2_HIGH + exponent * _LN2_LOW)


def doubles(*factors: Numbers) -> Floats:
    """Return the product of the numbers as doubles; below the smallest double it is 0."""
    mantissa, exponent = factors[0]
    for m, e in factors[1:]:
        mantissa, exponent = mantissa * m, exponent + e
    return np.ldexp(mantissa, np.clip(exponent, -3000, 3000).astype(np.int32))

"""The elimination of `outtrees.trees.sparse.elimination` on numbers of unbounded exponent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outtrees.trees.extended import Numbers, logs, split, zeros
from outtrees.trees.sparse.components import Inner
from outtrees.trees.sparse.elimination import scaled_out
from outtrees.trees.sparse.fronts import Fronts, refuse_too_large
from outtrees.trees.weights import Floats


@dataclass(frozen=True)
class WideElimination:
    """One forward pass; the fields are those of ``FrontElimination``, as pairs of arrays."""

    inner: Inner
    fronts: Fronts
    weight: Numbers
    out: Numbers
    shift: Floats
    s: Numbers
    factors: Numbers
    stack: Numbers
    x: Numbers
    rho_last: Numbers

    def log_z(self) -> Floats:
        """Return the log of the sum over each component's trees (C,), in scaled weights."""
        component = self.inner.component[self.fronts.order]
        log_z = np.bincount(component, logs(self.s), minlength=len(self.shift)).astype(np.float64)
        return log_z + logs(self.rho_last) + self.shift

    def log_pivots(self, component: int) -> Floats:
        """Return the logs of one component's pivots."""
        first = self.inner.component_first
        return logs(self.s)[first[component] : first[component + 1]]

    def log_x(self) -> Floats:
        """Return log Z_r / Z_last of each node (n,), −inf in a forest."""
        result = np.empty(len(self.out[0]))
        result[self.fronts.order] = logs(self.x)
        return result

    def marginals(self) -> tuple[Floats, Floats]:
        """Return the probability of each edge (E,), and of leaving the component (n,)."""
        from outtrees.trees.sparse import wide_kernels as kernels

        edge, out = np.zeros(len(self.weight[0])), np.zeros(len(self.out[0]))
        kernels.marginals(
            *self.fronts.arrays,
            self.inner.single,
            *self.weight,
            *self.out,
            *self.s,
            *self.factors,
            *self.stack,
            *self.x,
            *self.rho_last,
            edge,
            out,
        )
        by_node = np.empty_like(out)
        by_node[self.fronts.order] = out
        return edge, by_node


def eliminate(inner: Inner, fronts: Fronts) -> WideElimination:
    """Run the forward pass."""
    from outtrees.trees.sparse import wide_kernels as kernels

    refuse_too_large(fronts, len(inner.log_out), arrays=2)
    n, C = len(inner.log_out), len(inner.single)
    log_out, shift = scaled_out(inner)
    weight = split(inner.log_weight - inner.log_scale[inner.row])
    out = split(log_out[fronts.order])
    s = split(np.zeros(n))
    factors = zeros(int(fronts.factor_first[-1]))
    stack = zeros(fronts.stack_height)
    kernels.eliminate(*fronts.arrays, inner.single, *weight, *out, *s, *factors, *stack)
    x, rho_last = zeros(n), split(np.zeros(C))
    kernels.root_ratios(*fronts.arrays, inner.single, *s, *factors, *x)
    for c in np.flatnonzero(inner.single):
        # The node that stays is the first of its front's rows, its root weight in column 0.
        front = int(np.flatnonzero((fronts.component == c) & (fronts.above < 0))[0])
        at = fronts.factor_first[front]
        rho_last[0][c], rho_last[1][c] = factors[0][at], factors[1][at]
    return WideElimination(inner, fronts, weight, out, shift, s, factors, stack, x, rho_last)

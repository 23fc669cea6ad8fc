"""Exact sums over the trees of all components at once, front by front.

The formulas are those of `outtrees.trees.elimination`. The range of a double is left component by
component; those go through `outtrees.trees.sparse.wide` instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outtrees.trees.sparse.components import Bools, Inner
from outtrees.trees.sparse.fronts import Fronts
from outtrees.trees.weights import Floats


@dataclass(frozen=True)
class FrontElimination:
    """One forward pass; arrays from ``out`` on go by position, the order in which nodes left."""

    inner: Inner
    fronts: Fronts
    weight: Floats  # (E,) scaled weights of the edges
    out: Floats  # (n,) scaled weight of leaving the component, or of being its one root
    shift: Floats  # (C,) log of what the root weights were divided by; 0 in a forest
    bad: Bools  # (C,) components that leave the range of a double: nothing here is theirs
    s: Floats  # (n,) pivots
    factors: Floats  # U and P of each front, see the kernels
    stack: Floats
    x: Floats  # (n,) Z_r / Z_last where there is one root, else 0
    time: Floats  # (n,) bound on the time spent before a node is reached
    rho_last: Floats  # (C,) final root weight where there is one root, else 1

    def log_z(self) -> Floats:
        """Return the log of the sum over each component's trees (C,), in scaled weights."""
        component = self.inner.component[self.fronts.order]
        log_z = np.bincount(component, np.log(self.s), minlength=len(self.bad)).astype(np.float64)
        return log_z + np.log(self.rho_last) + self.shift

    def log_pivots(self, component: int) -> Floats:
        """Return the logs of one component's pivots."""
        first = self.inner.component_first
        return np.log(self.s)[first[component] : first[component + 1]]

    def log_x(self) -> Floats:
        """Return log Z_r / Z_last of each node (n,), −inf in a forest."""
        result = np.empty(len(self.x))
        with np.errstate(divide="ignore"):
            result[self.fronts.order] = np.log(self.x)
        return result

    def unsure(self) -> Bools:
        """Return the components (C,) with a Z_r too small beside the others to be sure of.

        Every member of a component with one root can be it: see `Elimination.log_z_rooted`.
        """
        from outtrees.trees.sparse.front_kernels import LIMIT

        found = np.zeros_like(self.bad)
        for c in np.flatnonzero(self.inner.single & ~self.bad):
            nodes = slice(*self.inner.component_first[c : c + 2])
            x, time = self.x[nodes], np.maximum(self.time[nodes], 1.0)
            found[c] = (x * LIMIT < x.max() * time).any()
        return found

    def marginals(self) -> tuple[Floats, Floats]:
        """Return the probability of each edge (E,), and of leaving the component (n,)."""
        from outtrees.trees.sparse import front_kernels as kernels

        edge = np.zeros(len(self.weight))
        out = np.zeros(len(self.out))
        kernels.marginals(
            *self.fronts.arrays,
            self.inner.single,
            self.weight,
            self.out,
            self.bad,
            self.s,
            self.factors,
            self.stack,
            self.x,
            self.rho_last,
            edge,
            out,
        )
        by_node = np.empty_like(out)
        by_node[self.fronts.order] = out
        return edge, by_node


def eliminate(inner: Inner, fronts: Fronts) -> FrontElimination:
    """Run the forward pass in the range of a double."""
    from outtrees.trees.sparse import front_kernels as kernels

    n, C = len(inner.log_out), len(inner.single)
    log_out, shift = scaled_out(inner)
    weight = np.exp(inner.log_weight - inner.log_scale[inner.row])
    out = np.exp(log_out)[fronts.order]
    bad = np.zeros(C, dtype=bool)
    s = np.ones(n)
    factors = np.zeros(fronts.factor_first[-1])
    stack = np.empty(fronts.stack_height)
    kernels.eliminate(*fronts.arrays, inner.single, weight, out, bad, s, factors, stack)
    x, time, rho_last = np.zeros(n), np.zeros(n), np.ones(C)
    kernels.root_ratios(*fronts.arrays, inner.single, bad, s, factors, x, time)
    for c in np.flatnonzero(inner.single & ~bad):
        nodes = slice(inner.component_first[c], inner.component_first[c + 1])
        rho_last[c] = out[nodes] @ x[nodes]
        spent = x[nodes].max() * (out[nodes] @ time[nodes])
        bad[c] = not spent <= kernels.LIMIT * rho_last[c]
    rho_last[bad] = 1.0
    return FrontElimination(
        inner, fronts, weight, out, shift, bad, s, factors, stack, x, time, rho_last
    )


def scaled_out(inner: Inner) -> tuple[Floats, Floats]:
    """Return the scaled log-weights of leaving, and what root weights were divided by (C,)."""
    log_out = inner.log_out - inner.log_scale
    shift = np.zeros(len(inner.single))
    for c in np.flatnonzero(inner.single):
        nodes = slice(inner.component_first[c], inner.component_first[c + 1])
        shift[c] = log_out[nodes].max()
        log_out[nodes] -= shift[c]
    return log_out, shift

"""Exact sums over the trees of all components at once, front by front.

The formulas are those of `outtrees.trees.elimination`. The range of a double is left component by
component: `FrontElimination` is the pass in that range, `WideElimination` the one on numbers of
unbounded exponent, and `Solution` takes each component from the one that holds it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from outtrees.trees.extended import Numbers, logs, split, zeros
from outtrees.trees.sparse.components import Bools, Inner
from outtrees.trees.sparse.fronts import Fronts, Plan, planned, refuse_too_large
from outtrees.trees.weights import Floats


class Passed(NamedTuple):
    """The numbers of a forward pass, as compiled code takes them.

    Arrays, or pairs (mantissas, exponents) in the extended range.
    """

    weight: Any
    out: Any
    s: Any
    factors: Any
    stack: Any
    x: Any
    rho_last: Any


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

    @property
    def passed(self) -> Passed:
        """The numbers for compiled code."""
        return Passed(
            self.weight, self.out, self.s, self.factors, self.stack, self.x, self.rho_last
        )

    @property
    def pairs(self) -> Passed:
        """The numbers as pairs whose exponents are None, for the sampler."""
        return Passed(*((numbers, None) for numbers in self.passed))

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
        kernels.marginals(self.fronts, self.inner.single, self.bad, self.passed, edge, out)
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
    kernels.eliminate(fronts, inner.single, weight, out, bad, s, factors, stack)
    x, time, rho_last = np.zeros(n), np.zeros(n), np.ones(C)
    kernels.root_ratios(fronts, inner.single, bad, s, factors, x, time)
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

    @property
    def passed(self) -> Passed:
        """The numbers for compiled code."""
        return Passed(
            self.weight, self.out, self.s, self.factors, self.stack, self.x, self.rho_last
        )

    @property
    def pairs(self) -> Passed:
        """The same, for the sampler."""
        return self.passed

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
        kernels.marginals(self.fronts, self.inner.single, self.passed, edge, out)
        by_node = np.empty_like(out)
        by_node[self.fronts.order] = out
        return edge, by_node


def eliminate_wide(inner: Inner, fronts: Fronts) -> WideElimination:
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
    kernels.eliminate(fronts, inner.single, weight, out, s, factors, stack)
    x, rho_last = zeros(n), split(np.zeros(C))
    kernels.root_ratios(fronts, inner.single, s, factors, x)
    for c in np.flatnonzero(inner.single):
        # The node that stays is the first of its front's rows, its root weight in column 0.
        front = int(np.flatnonzero((fronts.component == c) & (fronts.above < 0))[0])
        at = fronts.factor_first[front]
        rho_last[0][c], rho_last[1][c] = factors[0][at], factors[1][at]
    return WideElimination(inner, fronts, weight, out, shift, s, factors, stack, x, rho_last)


@dataclass(frozen=True)
class Solution:
    """The forward pass of every component."""

    inner: Inner
    narrow: FrontElimination
    wide: WideElimination | None  # of the components that left the range, if any
    wide_nodes: Bools  # (n,) theirs
    wide_edges: Bools  # (E,)

    def log_z(self) -> Floats:
        """Return the log of the sum over each component's trees (C,), in scaled weights."""
        result = self.narrow.log_z()
        if self.wide is not None:
            result[self.narrow.bad] = self.wide.log_z()
        return result

    def log_x(self) -> Floats:
        """Return log Z_r / Z_last of each node (n,), −inf in a forest."""
        result = self.narrow.log_x()
        if self.wide is not None:
            result[self.wide_nodes] = self.wide.log_x()
        return result

    def log_pivots(self, component: int) -> Floats:
        """Return the logs of the pivots of one component: they sum to log Z_last, scaled."""
        if self.narrow.bad[component] and self.wide is not None:
            return self.wide.log_pivots(int(self.narrow.bad[:component].sum()))
        return self.narrow.log_pivots(component)

    def marginals(self) -> tuple[Floats, Floats]:
        """Return the probability of each edge (E,), and of leaving the component (n,)."""
        edge, out = self.narrow.marginals()
        if self.wide is not None:
            edge[self.wide_edges], out[self.wide_nodes] = self.wide.marginals()
        return edge, out


def solve(inner: Inner, plan: Plan, keep: bool = False) -> Solution:
    """Run the forward pass of every component; ``keep`` what every front handed on."""
    narrow = eliminate(inner, _fitting(inner, plan, keep))
    return _widened(inner, narrow, plan, keep)


def solve_for_every_root(solution: Solution, plan: Plan) -> Solution:
    """Return the solution with every Z_r right, also those that are nothing beside the others."""
    narrow = solution.narrow
    unsure = narrow.unsure()
    if not unsure.any():
        return solution
    return _widened(solution.inner, replace(narrow, bad=narrow.bad | unsure), plan, keep=False)


def _widened(inner: Inner, narrow: FrontElimination, plan: Plan, keep: bool) -> Solution:
    """Return the solution with the components that left the range done in the extended one."""
    nodes, edges = np.zeros(len(inner.log_out), bool), np.zeros(len(inner.column), bool)
    if not narrow.bad.any():
        return Solution(inner, narrow, None, nodes, edges)
    left, nodes, edges = inner.restricted(narrow.bad)
    # Where all of them left the range, theirs is the plan that is there already.
    again = eliminate_wide(left, _fitting(left, planned(left, plan), keep))
    return Solution(inner, narrow, again, nodes, edges)


def _fitting(inner: Inner, plan: Plan, keep: bool) -> Fronts:
    """Return the fronts of a plan, after asking whether their numbers fit into memory."""
    fronts = plan.fronts.with_places_of_their_own() if keep else plan.fronts
    refuse_too_large(fronts, len(inner.log_out))
    return fronts

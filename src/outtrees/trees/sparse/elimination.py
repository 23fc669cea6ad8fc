"""Exact sums over the trees of all components at once, front by front.

The formulas are those of `outtrees.trees.elimination`. The range of a double is left component by
component: `eliminate` is the pass in that range, `eliminate_wide` the one on numbers of unbounded
exponent, and `Solution` takes each component from the one that holds it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from outtrees.trees.elimination_blocks import LIMIT
from outtrees.trees.extended import logs, split, zeros
from outtrees.trees.sparse.components import Bools, Inner
from outtrees.trees.sparse.fronts import Fronts, Plan, planned, refuse_too_large
from outtrees.trees.weights import Floats


class Passed(NamedTuple):
    """The numbers of a forward pass, as compiled code takes them.

    Arrays, or pairs (mantissas, exponents) in the extended range. From ``out`` to ``x`` they go by
    position, the order in which nodes left.
    """

    weight: Any  # (E,) scaled weights of the edges
    out: Any  # (n,) scaled weight of leaving the component, or of being its one root
    s: Any  # (n,) pivots
    factors: Any  # U and P of each front, see the kernels
    stack: Any
    x: Any  # (n,) Z_r / Z_last where there is one root, else 0
    rho_last: Any  # (C,) final root weight where there is one root, else 1


@dataclass(frozen=True)
class FrontElimination:
    """One forward pass, in the range of a double or beyond it."""

    inner: Inner
    fronts: Fronts
    shift: Floats  # (C,) log of what the root weights were divided by; 0 in a forest
    passed: Passed
    bad: Bools  # (C,) components that leave the range: nothing here is theirs
    # (n,) bound on the time spent before a node is reached, by position; None in the extended range
    time: Floats | None

    @property
    def pairs(self) -> Passed:
        """The numbers as pairs, for the sampler; exponents are None in the range of a double."""
        if self.time is None:
            return self.passed
        return Passed(*((numbers, None) for numbers in self.passed))

    def _logs(self, numbers: Any) -> Floats:
        if self.time is None:
            return logs(numbers)
        with np.errstate(divide="ignore"):  # log 0 = −inf is meant
            return np.asarray(np.log(numbers))

    def log_z(self) -> Floats:
        """Return the log of the sum over each component's trees (C,), in scaled weights."""
        component = self.inner.component[self.fronts.order]
        log_s = self._logs(self.passed.s)
        log_z = np.bincount(component, log_s, minlength=len(self.bad)).astype(np.float64)
        return log_z + self._logs(self.passed.rho_last) + self.shift

    def log_pivots(self, component: int) -> Floats:
        """Return the logs of one component's pivots."""
        first = self.inner.component_first
        return self._logs(self.passed.s)[first[component] : first[component + 1]]

    def log_x(self) -> Floats:
        """Return log Z_r / Z_last of each node (n,), −inf in a forest."""
        return self._by_node(self._logs(self.passed.x))

    def unsure(self) -> Bools:
        """Return the components (C,) with a Z_r too small beside the others to be sure of.

        Every member of a component with one root can be it: see `Elimination.log_z_rooted`.
        """
        found = np.zeros_like(self.bad)
        if self.time is None:
            return found
        for c in np.flatnonzero(self.inner.single & ~self.bad):
            nodes = slice(*self.inner.component_first[c : c + 2])
            x, time = self.passed.x[nodes], np.maximum(self.time[nodes], 1.0)
            found[c] = (x * LIMIT < x.max() * time).any()
        return found

    def marginals(self) -> tuple[Floats, Floats]:
        """Return the probability of each edge (E,), and of leaving the component (n,)."""
        from outtrees.trees.sparse import front_kernels, wide_kernels

        kernels: Any = wide_kernels if self.time is None else front_kernels
        edge, out = np.zeros(len(self.inner.column)), np.zeros(len(self.inner.log_out))
        kernels.marginals(self.fronts, self.inner.single, self.bad, self.passed, edge, out)
        return edge, self._by_node(out)

    def _by_node(self, by_position: Floats) -> Floats:
        result = np.empty_like(by_position)
        result[self.fronts.order] = by_position
        return result


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
        bad[c] = not spent <= LIMIT * rho_last[c]
    rho_last[bad] = 1.0
    passed = Passed(weight, out, s, factors, stack, x, rho_last)
    return FrontElimination(inner, fronts, shift, passed, bad, time)


def scaled_out(inner: Inner) -> tuple[Floats, Floats]:
    """Return the scaled log-weights of leaving, and what root weights were divided by (C,)."""
    log_out = inner.log_out - inner.log_scale
    shift = np.zeros(len(inner.single))
    for c in np.flatnonzero(inner.single):
        nodes = slice(inner.component_first[c], inner.component_first[c + 1])
        shift[c] = log_out[nodes].max()
        log_out[nodes] -= shift[c]
    return log_out, shift


def eliminate_wide(inner: Inner, fronts: Fronts) -> FrontElimination:
    """Run the forward pass on numbers of unbounded exponent."""
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
    passed = Passed(weight, out, s, factors, stack, x, rho_last)
    return FrontElimination(inner, fronts, shift, passed, np.zeros(C, dtype=bool), None)


@dataclass(frozen=True)
class Solution:
    """The forward pass of every component."""

    inner: Inner
    narrow: FrontElimination
    wide: FrontElimination | None  # of the components that left the range, if any
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

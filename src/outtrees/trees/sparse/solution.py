"""All components solved: each in the range of a double where that holds, else in the extended."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from outtrees.trees.sparse import elimination, wide
from outtrees.trees.sparse.components import Bools, Inner
from outtrees.trees.sparse.fronts import Fronts, refuse_too_large
from outtrees.trees.sparse.plans import Plan, planned
from outtrees.trees.weights import Floats


@dataclass(frozen=True)
class Solution:
    """The forward pass of every component."""

    inner: Inner
    narrow: elimination.FrontElimination
    wide: wide.WideElimination | None  # of the components that left the range, if any
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
    narrow = elimination.eliminate(inner, _fitting(inner, plan, keep))
    return _widened(inner, narrow, plan, keep)


def solve_for_every_root(solution: Solution, plan: Plan) -> Solution:
    """Return the solution with every Z_r right, also those that are nothing beside the others."""
    narrow = solution.narrow
    unsure = narrow.unsure()
    if not unsure.any():
        return solution
    return _widened(solution.inner, replace(narrow, bad=narrow.bad | unsure), plan, keep=False)


def _widened(
    inner: Inner, narrow: elimination.FrontElimination, plan: Plan, keep: bool
) -> Solution:
    """Return the solution with the components that left the range done in the extended one."""
    nodes, edges = np.zeros(len(inner.log_out), bool), np.zeros(len(inner.column), bool)
    if not narrow.bad.any():
        return Solution(inner, narrow, None, nodes, edges)
    left, nodes, edges = inner.restricted(narrow.bad)
    # Where all of them left the range, theirs is the plan that is there already.
    again = wide.eliminate(left, _fitting(left, planned(left, plan), keep))
    return Solution(inner, narrow, again, nodes, edges)


def _fitting(inner: Inner, plan: Plan, keep: bool) -> Fronts:
    """Return the fronts of a plan, after asking whether their numbers fit into memory."""
    fronts = plan.fronts.with_places_of_their_own() if keep else plan.fronts
    refuse_too_large(fronts, len(inner.log_out))
    return fronts

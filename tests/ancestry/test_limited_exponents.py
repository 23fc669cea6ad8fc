"""Exponents under a limit on children: against the optimum over all enumerated trees."""

import numpy as np
import pytest
from scipy.optimize import minimize

from lineages import random_table
from oracles.enumeration import EnumeratedDistribution
from outtrees.ancestry.calibration import (
    PRIOR_SD,
    ExponentProblem,
    learn_exponents,
    learn_limited_exponents,
)
from outtrees.candidates import in_order, possible_edges
from outtrees.models.columns import Lineage

T = 5


def table(roots, n_groups=6):
    """Return groups of T records with wide kernels, and trees with at most one child each."""
    kernels, values = random_table(4, T=T * n_groups)
    kernels, values = ([side[c] for c in (1, 4, 7)] for side in (kernels, values))
    lineage = Lineage(kernels, 2).start(values)
    groups = np.repeat(np.arange(n_groups), T)
    edges = possible_edges(T * n_groups, groups, {}, [], None)
    kept = in_order(lineage, values, edges.child, edges.parent)
    edges = edges._replace(child=edges.child[kept], parent=edges.parent[kept])
    pairs = lineage.pairs(values, values, edges.child, edges.parent)
    return lineage, values, pairs, edges, dict(roots=roots, root_rate=0.2)


class Enumerated:
    """log P(known parents) under the limit by the sum over every tree of every group."""

    def __init__(self, lineage, values, pairs, edges, known, most, roots, root_rate):
        self.problem = ExponentProblem(lineage, values, pairs, edges, known, roots, root_rate)
        self.edges, self.known, self.most, self.roots = edges, known, most, roots

    def by_group(self, exponents):
        trees, _ = self.problem.trees(exponents)
        for number in range(self.edges.groups.max() + 1):
            rows = np.arange(number * T, (number + 1) * T)
            log_beta = np.full((T, T), -np.inf)
            own = self.edges.groups[trees.child] == number
            log_beta[trees.child[own] - rows[0], trees.parent[own] - rows[0]] = trees.log_weight[
                own
            ]
            slow = EnumeratedDistribution(log_beta, trees.log_root[rows], self.roots)
            children = (slow.trees[:, :, None] == np.arange(T)).sum(axis=1)
            obeys = children.max(axis=1) <= self.most
            yield rows, slow.trees[obeys], slow.probabilities[obeys]

    def log_known(self, exponents):
        total = 0.0
        for rows, trees, chances in self.by_group(exponents):
            own = {u - rows[0]: self.known[u] for u in rows if u in self.known}
            own = {u: v - rows[0] if v >= 0 else -1 for u, v in own.items()}
            has = np.all([trees[:, u] == v for u, v in own.items()] or [chances >= 0], axis=0)
            total += np.log(chances[has].sum() / chances.sum())
        return total

    def best(self):
        def loss(x):
            return x @ x / (2 * PRIOR_SD**2) - self.log_known(np.exp(x))

        start = np.zeros(self.problem.n_kinds)
        return minimize(loss, start).x


@pytest.mark.parametrize(("roots", "share"), [("single", 1.0), ("any", 0.5)])
def test_exponents_are_those_of_every_tree_that_obeys(roots, share):
    *parts, law = table(roots)
    slow = Enumerated(*parts, {}, 1, **law)
    rng = np.random.default_rng(1)
    flatter = np.full(slow.problem.n_kinds, 0.7)
    drawn = {}
    for rows, trees, chances in slow.by_group(flatter):
        tree = trees[rng.choice(len(trees), p=chances / chances.sum())]
        drawn |= {
            int(u): int(v + rows[0]) if v >= 0 else -1 for u, v in zip(rows, tree, strict=True)
        }
    told = dict(list(drawn.items())[: int(share * len(drawn))])
    if share < 1:  # a group that is known in part, and groups that are not
        del told[0]
    slow.known = told
    right = slow.best()
    rng, names = np.random.default_rng(0), [str(u) for u in range(len(parts[3].groups))]
    found, error = learn_limited_exponents(*parts, told, 1, rng, names=names, **law)
    kind = slow.problem.kind
    off = np.log(found.exponents) - right[kind]
    # So few known parents leave about the prior's standard error, and chains a tenth of that.
    assert abs(off).max() < PRIOR_SD / 10
    assert error < 0.25
    free = learn_exponents(*parts, told, **law).lineage
    assert abs(np.log(free.exponents) - right[kind]).max() > PRIOR_SD / 10  # the limit counts

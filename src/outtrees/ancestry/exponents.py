"""How much each kind of column should count, learned from records whose parents are known.

A fitted model can be wrong about how *together* records change: cells that crowd keep apart and are
carried along together, sites of a sequence change in pairs, two columns tell the same. Each edge is
then described well, yet supports are too modest or too sure. No likelihood of the records alone
shows it, but parents that are known do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from outtrees.ancestry.em import PossibleEdges, trees_of
from outtrees.models.columns import Lineage, LineagePairs
from outtrees.trees.candidates import CandidateTrees

Array = NDArray[np.float64]

# Exponents may be a factor of 1.6 from 1 within one standard deviation of their prior: a few known
# parents hardly move them, a hundred decide.
PRIOR_SD = 0.5


class Learned(NamedTuple):
    """Exponents, and what they gained for the known parents."""

    lineage: Lineage  # with its exponents
    before: float  # log-probability of the known parents as fitted
    after: float  # with the exponents


def learn_exponents(
    lineage: Lineage,
    values: Sequence[Array],  # one (T, D_c) for each column
    pairs: LineagePairs,
    edges: PossibleEdges,
    known: Mapping[int, int],  # child → parent, −1 for a root
    *,
    roots: str = "single",
    root_rate: float = 0.0,
) -> Learned:
    """Return the lineage whose exponents make the known parents most probable.

        maximise log P(known parents | records, λ) − Σ (log λ)² / 2 sd²,   sd = 0.5

    where P is exact: the sum over all trees with these parents, divided by the sum over all trees.
    Columns with the same kind of change share one λ. Weights of the trees are

        Σ_k w_k Π_c p_c(child | parent, k links)^λ_c

    O(evaluations · 2 sums over all trees), about twenty evaluations.
    """
    plain = replace(lineage, exponents=None)
    problem = ExponentProblem(plain, values, pairs, edges, dict(known), roots, root_rate)

    def loss(log_exponents: Array) -> tuple[float, Array]:
        value, slope = problem.log_known(np.exp(log_exponents))
        penalty = log_exponents / PRIOR_SD**2
        return 0.5 * float(penalty @ log_exponents) - value, penalty - slope

    start = np.zeros(problem.n_kinds)
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-9})
    found = np.exp(best.x)
    return Learned(
        replace(plain, exponents=found[problem.kind]),
        problem.log_known(np.ones(problem.n_kinds))[0],
        problem.log_known(found)[0],
    )


class ExponentProblem:
    """Trees for exponents of each kind; how probable known parents are in them, and its slope."""

    def __init__(
        self,
        lineage: Lineage,
        values: Sequence[Array],
        pairs: LineagePairs,
        edges: PossibleEdges,
        known: dict[int, int],
        roots: str,
        root_rate: float,
    ) -> None:
        names = [type(kernel).__name__ for kernel in lineage.kernels]
        self.kind = np.array([sorted(set(names)).index(name) for name in names])  # (C,)
        self.n_kinds = len(set(names))
        together = (self.kind == np.arange(self.n_kinds)[:, None]).astype(float)  # (G, C)
        with np.errstate(divide="ignore"):
            self.log_links = np.log(lineage.step_weights)  # (K,)
        links = range(1, lineage.generations + 1)
        rows = np.array([lineage.log_columns(pairs, k) for k in links])  # (K, C, E)
        self.impossible = np.isneginf(rows).any(axis=1)  # (K, E)
        rows[np.isneginf(rows)] = 0.0
        self.rows = np.array([together @ row for row in rows])  # (K, G, E)
        self.alone = together @ lineage.log_alone(values)  # (G, T)
        self.pairs, self.edges, self.known = pairs, edges, known
        self.roots, self.root_rate = roots, root_rate

    def trees(self, exponents: Array) -> tuple[CandidateTrees, Array]:
        """Return the trees, and the slopes of the edges' log-weights (G, E)."""
        steps = self.log_links[:, None] + np.einsum("kge,g->ke", self.rows, exponents)
        steps[self.impossible] = -np.inf
        log_weight = logsumexp(steps, axis=0)
        possible = log_weight > -np.inf
        shares = np.zeros_like(steps)  # of each number of links
        shares[:, possible] = np.exp(steps[:, possible] - log_weight[possible])
        slopes = np.einsum("ke,kge->ge", shares, self.rows)
        log_root = exponents @ self.alone
        trees = trees_of(self.pairs, log_weight, log_root, self.edges, self.roots, self.root_rate)
        return trees, slopes

    def log_known(self, exponents: Array) -> tuple[float, Array]:
        """Return log P(known parents) and its slope by log λ (G,)."""
        trees, slopes = self.trees(exponents)
        given = trees.given(self.known)
        edge = given.edge_marginals - trees.edge_marginals
        root = given.root_marginals - trees.root_marginals
        return float(given.log_z - trees.log_z), exponents * (slopes @ edge + self.alone @ root)

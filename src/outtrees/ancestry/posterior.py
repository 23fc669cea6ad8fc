"""The posterior of a fitted table: its parameters, and the distribution over trees they imply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from outtrees.candidates.edges import PossibleEdges
from outtrees.models.columns import Lineage, LineagePairs
from outtrees.records import Column, Records
from outtrees.trees.candidates import CandidateTrees
from outtrees.trees.distribution import Consensus, Tree
from outtrees.trees.sparse.plans import Plan

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Roots = Literal["single", "any"]


def weighed_trees(
    lineage: Lineage,
    values: Sequence[Array],  # one (T, D_c) for each column
    edges: PossibleEdges,
    pairs: LineagePairs,  # of these edges
    roots: Roots,
    root_rate: float,
    plan: Plan | None = None,
) -> CandidateTrees:
    """Return the distribution over trees that the lineage gives the possible edges."""
    log_weight, log_root = lineage.log_beta(pairs), lineage.log_root(values)
    return trees_of(edges, log_weight, log_root, roots, root_rate, plan)


def trees_of(
    edges: PossibleEdges,
    log_weight: Array,  # (E,)
    log_root: Array,  # (T,)
    roots: Roots,
    root_rate: float,
    plan: Plan | None = None,
) -> CandidateTrees:
    """Return the distribution over trees for these log-weights.

    With roots="any" a record is a root with probability `root_rate`, and otherwise chooses among
    all its possible parents, those that are no candidates included.
    """
    log_root = np.where(edges.root_allowed, log_root, -np.inf)
    if roots == "any":
        choices = edges.choices
        if choices is None:
            choices = np.bincount(edges.child, minlength=len(log_root))
        log_weight = log_weight + np.log1p(-root_rate) - np.log(choices[edges.child])
        log_root = log_root + np.log(root_rate)
    return CandidateTrees(
        edges.child, edges.parent, log_weight, log_root, groups=edges.groups, roots=roots, plan=plan
    )


@dataclass(frozen=True, eq=False)
class Posterior:
    """Records, their fitted lineage, and what follows from it, computed when first asked for."""

    records: Records
    names: tuple[str, ...]  # of the columns in the model
    values: tuple[Array, ...]  # their cells
    lineage: Lineage
    edges: PossibleEdges  # in a possible order of dates
    roots: Roots
    root_rate: float

    def with_computed(self, pairs: LineagePairs, trees: CandidateTrees) -> Self:
        """Return the same posterior, which keeps what its fit has computed already."""
        result = replace(self)
        vars(result).update(pairs=pairs, trees=trees)  # where cached_property looks for them
        return result

    def with_exponents(self, exponents: Array | None) -> Self:
        """Return the posterior in which columns count with other exponents (C,), None: once."""
        result = replace(self, lineage=replace(self.lineage, exponents=exponents))
        vars(result).update(pairs=self.pairs)  # no parameter changes them
        return result

    @cached_property
    def pairs(self) -> LineagePairs:
        """What the parameters do not change, for each possible edge."""
        return self.lineage.pairs(self.values, self.values, self.edges.child, self.edges.parent)

    @cached_property
    def log_weight(self) -> Array:
        """Log p(child | parent) of each possible edge (E,)."""
        return self.lineage.log_beta(self.pairs)

    @cached_property
    def log_root(self) -> Array:
        """The log-density of each record without a parent (T,)."""
        return self.lineage.log_root(self.values)

    @cached_property
    def trees(self) -> CandidateTrees:
        """The distribution over trees."""
        return self.trees_for(self.log_weight, self.log_root)

    def trees_for(self, log_weight: Array, log_root: Array) -> CandidateTrees:
        """Return the distribution over trees for other weights of the same edges."""
        return trees_of(self.edges, log_weight, log_root, self.roots, self.root_rate)

    @cached_property
    def consensus(self) -> Consensus:
        """The tree with the most expected right parents."""
        return self.trees.consensus()

    @cached_property
    def mode(self) -> Tree:
        """The most probable tree."""
        return self.trees.mode()

    @property
    def dates(self) -> Column | None:
        """The column of dates, None if there is none in the model."""
        columns = self.records.columns
        return next((c for c in columns if c.kind == "date" and c.name in self.names), None)

    @cached_property
    def log_columns(self) -> Array:
        """Log p of each column and edge, over all numbers of links (C, E)."""
        steps = np.array(
            [
                self.lineage.log_columns(self.pairs, k)
                for k in range(1, self.lineage.generations + 1)
            ]
        )
        with np.errstate(divide="ignore"):
            weights = np.log(self.lineage.step_weights)
        return np.asarray(logsumexp(steps + weights[:, None, None], axis=0))

    @cached_property
    def log_alone(self) -> Array:
        """Log-density of each column and record without a parent (C, T)."""
        return self.lineage.log_alone(self.values)

    @cached_property
    def expected_children(self) -> Array:
        """The expected number of children of each record (T,)."""
        T = len(self.records)
        return np.bincount(self.edges.parent, self.trees.edge_marginals, minlength=T).astype(float)

    @cached_property
    def support_of(self) -> dict[tuple[int, int], float]:
        """The support of each possible edge (child, parent), and of (child, −1): a root."""
        ends = zip(self.edges.child.tolist(), self.edges.parent.tolist(), strict=True)
        supports = dict(zip(ends, self.trees.edge_marginals.tolist(), strict=True))
        for child, support in enumerate(self.trees.root_marginals.tolist()):
            supports[child, -1] = support
        return supports

    def supports(self, parents: Index) -> Array:
        """Return how probable each record's parent is in this tree (T,)."""
        T = len(self.records)
        code = self.edges.child.astype(np.int64) * T + self.edges.parent
        order = np.argsort(code, kind="stable")
        child = np.flatnonzero(parents >= 0)
        wanted = child * T + parents[child]
        place = np.minimum(np.searchsorted(code[order], wanted), max(len(order) - 1, 0))
        lost = np.flatnonzero(code[order][place] != wanted)
        if len(lost):
            u = int(child[lost[0]])
            raise KeyError(f"{parents[u]} is not among the possible parents of {u}")
        result = self.trees.root_marginals.copy()
        result[child] = self.trees.edge_marginals[order][place]
        return result

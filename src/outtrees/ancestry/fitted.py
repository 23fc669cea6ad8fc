"""What a fitted ancestry knows: records, parameters, and the trees that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from outtrees.ancestry.em import PossibleEdges, trees_of
from outtrees.models.columns import Lineage, LineagePairs
from outtrees.records import Records
from outtrees.trees.candidates import CandidateTrees

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Fitted:
    """Records, a fitted lineage, and everything that follows, computed when first asked for."""

    records: Records
    names: tuple[str, ...]  # of the columns in the model
    values: tuple[Array, ...]  # their cells
    lineage: Lineage
    edges: PossibleEdges  # in a possible order of dates
    roots: str
    root_rate: float

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
        return trees_of(self.pairs, log_weight, log_root, self.edges, self.roots, self.root_rate)

    @cached_property
    def consensus(self) -> Any:
        """The tree with the most expected right parents."""
        return self.trees.consensus()

    @cached_property
    def mode(self) -> Any:
        """The most probable tree."""
        return self.trees.mode()

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
        return logsumexp(steps + weights[:, None, None], axis=0)

    @cached_property
    def log_alone(self) -> Array:
        """Log-density of each column and record without a parent (C, T)."""
        return self.lineage.log_alone(self.values)

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

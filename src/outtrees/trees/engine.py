"""What `OutTreeDistribution` asks of an engine, and which engine sums a list of edges."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np

from outtrees._common.memory import check_memory
from outtrees.errors import InvalidWeightsError
from outtrees.trees.dense import DenseGroups
from outtrees.trees.edges import ListedEdges
from outtrees.trees.sparse.fronts import Plan
from outtrees.trees.sparse.trees import SparseTrees
from outtrees.trees.weights import Floats, Ints

Method = Literal["dense", "sparse"]

# Up to so many pairs of records in the same group, the dense engine answers in a blink and needs no
# compiler; and where one pair in eight is a possible edge, nothing sparse is gained.
_FEW_PAIRS = 1_000_000
_DENSE_SHARE = 1 / 8
# Pairs that are summed without a look at the free memory, which would take longer than the sum.
_NO_MEMORY = 100_000
_DENSE_ARRAYS = 6  # (n, n) arrays that the dense engine holds at a time


class Engine(Protocol):
    """Exact sums over out-trees, computed when asked for.

    Arrays of edges have the form of the weights (`outtrees.trees.edges`); trees are arrays of
    parents, −1 at roots.
    """

    @property
    def plan(self) -> Plan | None:
        """What the next sums over the same edges can use again, if there is such a thing."""

    @property
    def log_z(self) -> float:
        """Log of the sum of all tree weights."""

    def log_z_parts(self) -> list[float]:
        """Return numbers that sum to log Z, with digits that their sum would lose."""

    def log_z_rooted(self) -> Floats:
        """Return log Z_r, without ρ_r, of the trees in which r is the one root of its group."""

    @property
    def marginals(self) -> tuple[Floats, Floats]:
        """P(edge) of each edge and P(root) of each record (T,)."""

    @property
    def entropy(self) -> float:
        """Entropy of the tree in nats."""

    def number_of_roots(self) -> Floats:
        """Return P(k roots) for k = 0, 1, …"""

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Return n trees (n, T)."""

    def mode(self) -> Ints:
        """Return the most probable tree (T,)."""

    def best(self, k: int) -> list[Ints]:
        """Return the k most probable trees (T,), best first."""

    def consensus(self) -> tuple[Ints, float]:
        """Return the tree (T,) with the most expected right parents, and how many."""


def engine_of_list(
    edges: ListedEdges, roots: str, method: str, plan: Plan | None
) -> tuple[Engine, Method]:
    """Return the engine for a list of edges, and which it is."""
    if method not in ("auto", "dense", "sparse"):
        raise InvalidWeightsError(f"method must be 'auto', 'dense' or 'sparse'; got {method!r}")
    few = edges.n_pairs <= _FEW_PAIRS and edges.n_groups <= 100
    dense = few or len(edges.child) >= _DENSE_SHARE * edges.n_pairs
    if method == "sparse" or (method == "auto" and not dense):
        return SparseTrees(edges, roots, plan), "sparse"
    if edges.n_pairs > _NO_MEMORY:
        check_memory(
            f"the dense engine needs, for {edges.n_records:,} records,",
            8 * _DENSE_ARRAYS * edges.n_pairs,
            "Use method='sparse', smaller groups, or fewer records.",
        )
    return DenseGroups(edges, roots), "dense"

"""The trees of a density that was fitted over candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from outtrees._common.types import Array
from outtrees.candidates.dropped_mass import DroppedMass, former_part, matrix_dropped_mass
from outtrees.candidates.matrix_search import matrix_candidates
from outtrees.candidates.parent_sample import n_sampled
from outtrees.candidates.plan import Plan, matrix_plan, matrix_way
from outtrees.errors import ArgumentError, Option
from outtrees.imputation.imputer_density import FittedTrees
from outtrees.inference.candidate_em import N_OTHERS
from outtrees.inference.likelihood import candidate_trees, log_number_of_trees
from outtrees.models.base import Mutation
from outtrees.models.edges import EdgeList, Ints
from outtrees.trees import OutTreeDistribution
from outtrees.trees.candidates import CandidateTrees

OF_CANDIDATES = ("candidate_edges_", "dropped_mass_")


def density_plan(model: Any, n_records: int, hidden: bool) -> Plan:
    """Return which pairs a fit of an `OutTreeDensity` will look at, and what that needs.

    `hidden`: some cells are missing, and will be integrated out.
    """
    return matrix_plan(model, n_records, **_memory_options(model, n_records, hidden))


def _memory_options(model: Any, n_records: int, hidden: bool) -> dict[str, Any]:
    folds = "auto" in (model.mutation, model.n_components, model.prior_strength)
    return {
        "can_be_sparse": not hidden and model.solver == "em",
        "n_jobs": model.n_jobs if folds else 1,
        "n_sampled": n_sampled(n_records, model.n_candidates, N_OTHERS),
    }


class ListedTrees(FittedTrees):
    """The trees of an estimator whose `candidates_` may be "knn"; then edges are listed."""

    candidates: str
    n_candidates: int
    neighbours: str
    candidates_: str
    candidate_edges_: Ints  # (2, E) children and parents
    dropped_mass_: DroppedMass
    dropped_mass_error_ = former_part("error")
    dropped_mass_bound_ = former_part("bound")
    _tree: Any

    @property
    def _is_sparse(self) -> bool:
        return self.__dict__.get("candidates_") == "knn"  # models saved by 0.1 do not say

    @property
    def tree_(self) -> OutTreeDistribution | CandidateTrees:
        """The distribution over out-trees of the training records."""
        if not self._is_sparse:
            return super().tree_
        check_is_fitted(self, "mutation_")
        if "_tree" not in self.__dict__:
            self._tree = candidate_trees(self.mutation_, self.X_, *self.candidate_edges_)
        return self._tree

    @property
    def edge_marginals_(self) -> Any:
        """P(training record u descends directly from v), (T, T) [child, parent]; sparse for knn."""
        if not self._is_sparse:
            return super().edge_marginals_
        edges = EdgeList(*self.candidate_edges_, len(self.X_))
        return edges.matrix(self.tree_.edge_marginals)

    # While a fit is made -----------------------------------------------------------------------

    def _decide(self, X: Array, hidden: bool) -> None:
        """Decide between all pairs and candidates, before anything large is allocated."""
        if hidden and self.candidates == "knn":
            raise ArgumentError(
                Option("missing", "integrate"),
                " needs all pairs of records, but ",
                Option("candidates", "knn"),
                "; use ",
                Option("candidates", "dense"),
                ", or fill the cells in with OutTreeImputer first",
            )
        self.candidates_ = matrix_way(self, len(X), **_memory_options(self, len(X), hidden))

    def _listed(self, mutation: Mutation, X: Array) -> float:
        """Keep the list of edges and what it leaves out; return the bound of the likelihood."""
        listed = matrix_candidates(mutation, X, self.n_candidates, self.neighbours)
        self.candidate_edges_ = np.stack([listed.edges.child, listed.edges.parent])
        # The records looked at need no seed of the user's: the same for the same records.
        self.dropped_mass_ = matrix_dropped_mass(mutation, X, listed, random_state=0)
        self._tree = candidate_trees(mutation, X, *self.candidate_edges_)
        return self._tree.log_z - log_number_of_trees(len(X))
